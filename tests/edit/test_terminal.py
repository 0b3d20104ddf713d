"""Edits on a real terminal: questions, the editor, ^C."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, HELLO, QUESTION, Open, Run, Script, diff, greeting


def editor(folder: Path, code: str) -> str:
    """An EDITOR that changes the text of its file as `code` does to `text`."""
    path = folder / "editor.py"
    read = "import pathlib, sys\npath = pathlib.Path(sys.argv[-1])\ntext = path.read_text()\n"
    path.write_text(f"{read}{code}\npath.write_text(text)\n")
    return f"{sys.executable} {path}"


def unfinished(repo: GitRepo) -> list[Path]:
    return list((repo.top / ".repoagent/conversations").glob("edit-*.md"))


def test_no_then_edit(repo: GitRepo, screen: Open, script: Script, tmp_path: Path) -> None:
    hi = greeting(HELLO, "'hi ' + name")
    script.replies("<commit>Say hi</commit>\n" + hi, GREET)
    change = editor(tmp_path, "text = text.replace(\"+    return f'hello, {name}'\", \"+    return 'mine'\")")
    with screen("edit", "src/app.py", "greet with a comma", GIT_EDITOR=change) as window:
        before = window.expect(QUESTION)
        assert "return \x1b[7m" not in before.split("diff --git")[0]  # the reply's own diff is not shown
        assert "    Say hi\n" in before
        window.send("n\n")
        window.answer("Tell the model why (leave empty to stop): ", "no, a comma\n")
        window.expect(QUESTION)
        assert "no, a comma" in script.prompts[1]
        window.send("e\n")
        assert "return 'mine'" in re.sub("\x1b\\[[0-9;]*m", "", window.expect(QUESTION))
        window.send("y\n")
        assert window.end() == 0
    assert b"    return 'mine'\n" in repo.read("src/app.py")
    assert repo.git("rev-list", "--count", "HEAD").strip() == "2"
    result = window.seen.rpartition(QUESTION)[2]
    assert "[main " in result and "1 file +1 -1" in result and "tokens" in result


@pytest.mark.soak
@pytest.mark.parametrize("keys", ["n\n\n", "q\n"])
def test_a_plain_no_changes_nothing(repo: GitRepo, screen: Open, script: Script, keys: str) -> None:
    script.replies(GREET)
    head = repo.head()
    with screen("edit", "src/app.py", "greet with a comma") as window:
        window.answer(QUESTION, keys)
        assert window.end() == 1
    assert "nothing was changed" in window.seen
    assert (repo.head(), repo.status(), len(script.prompts)) == (head, "", 1)
    assert unfinished(repo) == []


@pytest.mark.soak
@pytest.mark.parametrize("flag", [(), ("-p",)])
def test_hunk_by_hunk(repo: GitRepo, screen: Open, script: Script, flag: tuple[str, ...]) -> None:
    first = (" line 1", "-line 2", "+LINE 2", " line 3")
    script.replies(diff("a.txt", *first, "@@", " line 8", "-line 9", "+LINE 9", " line 10"))
    with screen("edit", *flag, "a.txt", "shout") as window:
        if not flag:
            window.answer(QUESTION, "p\n")
        window.answer("(1/1) Apply this hunk", "s\n")
        window.answer("(1/2) Apply this hunk", "n\n")
        window.answer("(2/2) Apply this hunk", "y\n")
        assert window.end() == 0
    assert repo.read("a.txt").count(b"LINE") == 1 and b"LINE 9" in repo.read("a.txt")
    assert "1 file +1 -1" in window.seen and repo.status() == ""


def test_interrupted_at_the_question_it_resumes_there(repo: GitRepo, screen: Open, script: Script) -> None:
    script.replies(GREET)
    head = repo.head()
    with screen("edit", "src/app.py", "greet with a comma") as window:
        window.answer(QUESTION, "\x03")
        assert window.end() == 130
    assert (repo.head(), repo.status(), len(unfinished(repo))) == (head, "", 1)
    assert not (repo.top / ".git/index.lock").exists()
    with screen("edit", "src/app.py", "greet with a comma") as window:
        window.answer(QUESTION, "y\n")
        assert window.end() == 0
    assert len(script.prompts) == 1 and unfinished(repo) == []
    assert b"f'hello, {name}'" in repo.read("src/app.py")


@pytest.mark.soak
def test_interrupted_in_the_check(repo: GitRepo, screen: Open, script: Script, run: Run) -> None:
    script.replies(GREET)
    repo.write("a.txt", "mine\n")
    before = repo.head(), repo.status(), repo.read("src/app.py")
    started = script.folder / "started"
    command = ("edit", "src/app.py", "greet with a comma", "--yes", "--check-unconfined", "--check")
    with screen(*command, f"touch {started}; sleep 60") as window:
        while not started.exists():
            time.sleep(0.01)
        window.send("\x03")
        assert window.end() == 130
    assert (repo.head(), repo.status(), repo.read("src/app.py")) == before
    assert not (repo.top / ".git/index.lock").exists()
    done = run(*command, "true", code=0)
    assert "the check also saw your uncommitted changes in a.txt" in done.err
    assert len(script.prompts) == 1


@pytest.mark.soak
def test_the_editor_asks_the_instruction(repo: GitRepo, screen: Open, script: Script, tmp_path: Path) -> None:
    script.replies(GREET)
    write = editor(tmp_path, "text = '# a remark\\ngreet with a comma\\n' + text")
    with screen("edit", "src/app.py", "--dry-run", GIT_EDITOR=write, NO_COLOR="1") as window:
        assert window.end() == 0
    assert "Request:\ngreet with a comma\n" in script.prompts[0]
    assert "+    return f" in window.seen
    for file, command, code in (("src/app.py", "true", 1), ("src/gone.py", "echo must not be opened", 2)):
        with screen("edit", file, GIT_EDITOR=command) as window:
            assert window.end() == code
    assert "must not" not in window.seen and len(script.prompts) == 1
