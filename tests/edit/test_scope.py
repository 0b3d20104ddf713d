"""Files outside the scope that have to change: a question, or a saved answer for `--scope repo`."""

from __future__ import annotations

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, QUESTION, Open, Run, Script, diff, files_of_head

README = diff("README.md", "-A small repository.", "+A small repository that greets.")
BOTH = GREET + README
ASKED = "README.md has to change, too. Allow it [y,n,?]? "
COMMAND = ("edit", "src/app.py", "greet with a comma")


def test_the_saved_answer_is_applied_with_a_wider_scope(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(BOTH)
    done = run(*COMMAND, "--yes", code=3)
    assert repo.status() == ""
    assert "README.md has to change too, but this edit may change only src/app.py" in done.err
    assert "--scope repo" in done.err
    done = run(*COMMAND, "--yes", "--scope", "repo", "--json", code=0)
    assert done.json["usage"]["calls"] == 0 and len(script.prompts) == 1
    assert files_of_head(repo) == ["README.md", "src/app.py"]


def test_no_goes_to_the_model_and_is_not_asked_again(repo: GitRepo, screen: Open, script: Script) -> None:
    script.replies(BOTH, BOTH, GREET)
    with screen(*COMMAND) as window:
        window.answer(ASKED, "n\n")
        assert ASKED not in window.expect(QUESTION)
        window.send("y\n")
        assert window.end() == 0
    assert files_of_head(repo) == ["src/app.py"]
    assert "README.md: this edit may not change this file; files in scope: src/app.py." in script.prompts[1]


@pytest.mark.parametrize("fits", [True, False])
def test_yes_widens_the_scope(repo: GitRepo, screen: Open, script: Script, fits: bool) -> None:
    """Without another call, unless the hunk of the further file does not fit: then the model is shown that file."""
    script.replies(*([BOTH] if fits else [GREET + README.replace("-A small", "-The small"), BOTH]))
    with screen(*COMMAND) as window:
        window.answer(ASKED, "y\n")
        window.answer(QUESTION, "y\n")
        assert window.end() == 0
    assert files_of_head(repo) == ["README.md", "src/app.py"]
    assert len(script.prompts) == (1 if fits else 2)
    if not fits:
        assert "A small repository." in script.prompts[1].rpartition("You may change README.md too.")[2]


def test_an_unseen_file_is_not_replaced(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(GREET + "README.md\n```\n# Sample\n\nAnother.\n```\n", BOTH)
    run(*COMMAND, "--yes", "--scope", "repo", code=0)
    assert "README.md exists and you have not seen it" in script.prompts[1]
    assert "A small repository." in script.prompts[1]
    assert files_of_head(repo) == ["README.md", "src/app.py"]


REJECTED = "<reject>The words are in README.md, which has to change.</reject>\n"


def test_a_rejection_is_resumed_with_a_wider_scope(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(REJECTED, BOTH)
    assert "--scope repo" in run(*COMMAND, "--yes", code=3).err
    run(*COMMAND, "--yes", "--scope", "repo", code=0)
    assert len(script.prompts) == 2 and files_of_head(repo) == ["README.md", "src/app.py"]


@pytest.mark.parametrize(
    "path", [".env", "secret.txt", "out/x.txt", ".github/workflows/ci.yml", "../there.txt"]
)
def test_files_that_are_never_offered(repo: GitRepo, run: Run, script: Script, path: str) -> None:
    repo.write(".gitignore", "out/\n")
    repo.write(".repoagentignore", "secret.txt\n")
    repo.write(path, "A small text.\nwithheld\n")
    repo.commit("more")
    refused = diff(path, "-A small text.", "+Another.") + GREET
    script.replies(refused, f"<reject>{path} has to change</reject>")
    done = run(*COMMAND, "--yes", code=1)
    assert "the model declined" in done.err
    assert "--scope repo" not in done.err and "withheld" not in "".join(script.prompts)
