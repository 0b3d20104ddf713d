"""Undo an edit, redo it, and request it again with another instruction."""

from __future__ import annotations

import json
import re

import pytest

from repoagent.memory.edit_records import read_edits
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, diff

pytestmark = pytest.mark.soak
SHOUT = diff("src/app.py", " def greet(name):", "-    return 'hello ' + name", "+    return 'HELLO ' + name")


def states(repo: GitRepo) -> list[str]:
    """The states of the edits in the memory of `src/app.py`, the oldest first."""
    (folder,) = (repo.top / ".repoagent/memory").glob("app-py-*")
    return [edit.state for edit in read_edits(folder / "edits.jsonl")]


def test_undo_and_redo_with_later_work(repo: GitRepo, edit: Run, run: Run, script: Script) -> None:
    repo.write("a.txt", "staged\n")
    repo.git("add", "a.txt")
    script.replies("<commit>First</commit>\n" + GREET)
    edit()
    second = diff("src/app.py", " def main():", "-    print(greet('world'))", "+    print(greet('you'))")
    script.replies("<commit>Second</commit>\n" + second)
    edit(request="greet you")
    repo.write("src/app.py", b"# mine, unstaged\n" + repo.read("src/app.py"))
    tip, status, both = repo.head(), repo.status(), repo.read("src/app.py")
    for subject in ("First", "first commit"):
        run("undo", code=0)
        assert repo.git("log", "-1", "--format=%s").strip() == subject
        assert repo.status() == status
    assert repo.read("src/app.py").startswith(b"# mine, unstaged\ndef greet(name):\n    return 'hello '")
    assert states(repo) == ["undone", "undone"]
    run("undo", code=1)
    run("redo", code=0)
    assert run("redo", "--json").json["commit"] == tip == repo.head()
    assert (repo.status(), repo.read("src/app.py")) == (status, both)
    assert states(repo) == ["redone", "redone"]


def test_again_with_another_instruction(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(GREET)
    base = repo.head()
    assert run("edit", "src/app.py::greet", "greet with a comma", "--yes").code == 0
    script.replies(SHOUT)
    done = run("edit", "--again", "shout", "--yes", code=0)
    assert "repoagent redo" in done.err
    assert "Request:\nshout\n" in script.prompts[0]
    assert "greet in src/app.py (lines 1-2)" in script.prompts[0]
    assert "return 'hello ' + name" in script.prompts[0]
    assert repo.git("log", "--format=%P", "-1").strip() == base
    assert b"'HELLO ' + name" in repo.read("src/app.py")
    assert states(repo) == ["undone", "committed"]


def test_again_after_an_undo_undoes_nothing_more(repo: GitRepo, edit: Run, run: Run, script: Script) -> None:
    script.replies("<commit>First</commit>\n" + GREET)
    edit()
    shouts = [diff("a.txt", "-line 5", f"+{line}") for line in ("LINE 5", "LINE FIVE")]
    script.replies(shouts[0], "no edit at all", shouts[1])
    edit(file="a.txt", request="shout")
    run("edit", "--again", "louder", "--yes", code=1)  # undone, and then the model only answered
    assert repo.git("log", "-1", "--format=%s").strip() == "First"
    run("edit", "--again", "louder please", "--yes", code=0)
    assert repo.git("log", "-2", "--format=%s") == "Louder please\nFirst\n"
    assert b"LINE FIVE" in repo.read("a.txt")


def test_again_checks_its_preconditions_first(repo: GitRepo, edit: Run, run: Run, script: Script) -> None:
    script.replies(GREET)
    edit()
    tip = repo.head()
    for code, arguments in [
        (2, ("shout",)),  # no user to ask
        (4, ("shout", "--yes", "--model", "nobody/knows")),
        (2, ("shout", "--yes", "--max-cost", "1")),
        (3, ("shout", "--yes", "--branch", "main")),
        (2, ("shout", "--yes", "--fixup", "nothing")),
        (2, ("src/app.py", "shout", "--yes")),
        (2, ("shout", "--dry-run")),
    ]:
        done = run("edit", "--again", *arguments)
        assert (done.code, repo.head()) == (code, tip), (arguments, done.err)
    assert run("redo").code == 1  # nothing was undone


def test_a_locked_memory_does_not_fail_an_undo(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("<commit>First</commit>\n" + GREET)
    script.act(0, "echo in the way > .repoagent/memory")
    done = run("edit", "src/app.py", "greet with a comma", "--yes", "--json", code=0)
    assert done.json["commit"] == repo.head()
    assert "could not record this edit in memory" in done.err and "the next command will retry" in done.err
    done = run("undo", "--json", code=0)
    assert json.loads(done.out)["moved"] is True
    assert "could not clean up after a killed command (the next command will try again)" in done.err
    (repo.top / ".repoagent/memory").unlink()
    done = run("redo", code=0)
    assert re.search(r"^recovered: recorded edit \S+ in memory$", done.err, re.MULTILINE)
    (conversation,) = (repo.top / ".repoagent/memory").glob("*/conversation.md")
    assert "greet with a comma" in conversation.read_text()
