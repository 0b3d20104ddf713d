"""An edit of a run that is refused in part, through the whole program."""

from __future__ import annotations

import json

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, diff

README = diff("README.md", "-A small repository.", "+A small repository that greets.")
WRONG = diff("README.md", "-A large repository.", "+A small repository that greets.")
DONE = "<commit>\nGreet with a comma\n</commit>\n<finish>greets</finish>"


def test_the_corrected_rest_joins_one_commit(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(GREET + WRONG, README, DONE)
    script.act(1, "git status --porcelain > ../status")
    done = run("run", "greet", "--mode", "auto-edit", "--verbose")
    assert done.code == 0, done.err
    assert (repo.top.parent / "status").read_text() == ""
    assert "Still missing: hunk 1 of README.md. Send only what is missing." in done.err
    assert "Still missing: hunk 1 of README.md. Send only what is missing." in script.prompts[1]
    assert repo.git("show", "--format=", "--name-only").split() == ["README.md", "src/app.py"]


def test_without_the_rest_the_run_is_unfinished(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(GREET + WRONG, DONE, DONE)
    head = repo.head()
    done = run("run", "greet", "--mode", "auto-edit", "--json")
    assert (done.code, json.loads(done.out)["outcome"]) == (1, "unfinished")
    assert "note: part of the model's last edit was refused, so none of that edit was written" in done.err
    assert (repo.head(), repo.status()) == (head, "")
    script.replies(README + GREET, DONE)
    assert run("run", "--continue", "go on", "--mode", "auto-edit").code == 0
    assert "What was kept of your refused edit is dropped" in script.prompts[0]
    assert repo.git("show", "--format=", "--name-only").split() == ["README.md", "src/app.py"]
