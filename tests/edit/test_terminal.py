"""Edits on a real terminal: questions, the editor, ^C."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, HELLO, QUESTION, Open, Run, Script, diff, greeting


def without_styles(screen: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", screen)


def editor(folder: Path, code: str) -> str:
    """An EDITOR that changes the text of its file as `code` does to `text`."""
    path = folder / "editor.py"
    path.write_text(
        "import pathlib, sys\n"
        "path = pathlib.Path(sys.argv[-1])\n"
        f"text = path.read_text()\n{code}\npath.write_text(text)\n"
    )
    return f"{sys.executable} {path}"


def unfinished(repo: GitRepo) -> list[Path]:
    return list((repo.top / ".repoagent/conversations").glob("edit-*.md"))


def test_no_then_explain_then_edit(repo: GitRepo, screen: Open, script: Script, tmp_path: Path) -> None:
    hi = greeting(HELLO, "'hi ' + name")
    script.replies("<commit>Say hi</commit>\n" + hi, GREET, "It reads better.\n```diff\n-old\n```\n")
    change = editor(tmp_path, "text = text.replace(\"+    return f'hello, {name}'\", \"+    return 'mine'\")")
    with screen("edit", "src/app.py", "greet with a comma", GIT_EDITOR=change) as window:
        before = window.expect(QUESTION)
        assert "return \x1b[7m" not in before.split("diff --git")[0]  # the reply's own diff is not shown
        assert "    Say hi\n" in before
        window.send("n\n")
        window.expect("Reason, for the model (empty: stop): ")
        window.send("no, a comma\n")
        window.expect(QUESTION)
        assert "no, a comma" in script.prompts[1]
        window.send("x\n")
        explained = window.expect(QUESTION)
        explained = without_styles(explained)
        assert "It reads better." in explained and "-old" in explained
        assert "explain this change" in script.prompts[2]
        window.send("e\n")
        assert "return 'mine'" in without_styles(window.expect(QUESTION))
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
        window.expect(QUESTION)
        window.send(keys)
        assert window.end() == 1
    assert "nothing was changed" in window.seen
    assert (repo.head(), repo.status()) == (head, "")
    assert len(script.prompts) == 1
    assert unfinished(repo) == []


@pytest.mark.soak
@pytest.mark.parametrize("flag", [(), ("-p",)])
def test_hunk_by_hunk(repo: GitRepo, screen: Open, script: Script, flag: tuple[str, ...]) -> None:
    two = diff(
        "a.txt", " line 1", "-line 2", "+LINE 2", " line 3", "@@", " line 8", "-line 9", "+LINE 9", " line 10"
    )
    script.replies(two)
    with screen("edit", *flag, "a.txt", "shout") as window:
        if not flag:
            window.expect(QUESTION)
            window.send("p\n")
        window.expect("(1/1) Apply this hunk")
        window.send("s\n")
        window.expect("(1/2) Apply this hunk")
        window.send("n\n")
        window.expect("(2/2) Apply this hunk")
        window.send("y\n")
        assert window.end() == 0
    assert repo.read("a.txt").count(b"LINE") == 1
    assert b"LINE 9" in repo.read("a.txt")
    assert "1 file +1 -1" in window.seen
    assert repo.status() == ""


def test_interrupted_at_the_question_it_resumes_there(repo: GitRepo, screen: Open, script: Script) -> None:
    script.replies(GREET)
    head = repo.head()
    with screen("edit", "src/app.py", "greet with a comma") as window:
        window.expect(QUESTION)
        window.send("\x03")
        assert window.end() == 130
    assert (repo.head(), repo.status()) == (head, "")
    assert len(unfinished(repo)) == 1
    assert not (repo.top / ".git/index.lock").exists()
    with screen("edit", "src/app.py", "greet with a comma") as window:
        window.expect(QUESTION)
        window.send("y\n")
        assert window.end() == 0
    assert len(script.prompts) == 1
    assert unfinished(repo) == []
    assert b"f'hello, {name}'" in repo.read("src/app.py")


@pytest.mark.soak
def test_interrupted_during_the_model_call(repo: GitRepo, screen: Open, script: Script) -> None:
    script.replies('<read path="README.md"/>\n', GREET)
    script.act(1, "sleep 60")
    head = repo.head()
    started = time.monotonic()
    with screen("edit", "src/app.py", "greet with a comma") as window:
        window.expect("read README.md")
        while len(script.prompts) < 2:
            time.sleep(0.02)
        window.send("\x03")
        assert window.end() == 130
    assert time.monotonic() - started < 30
    assert (repo.head(), repo.status()) == (head, "")
    assert "Traceback" not in window.seen
    (script.folder / "prompt-01").unlink()  # as if it had never been sent to the model
    (script.folder / "act-01").unlink()
    with screen("edit", "src/app.py", "greet with a comma", "--yes") as window:
        assert window.end() == 0
    assert len(script.prompts) == 2
    assert "A small repository." in script.prompts[1]


@pytest.mark.soak
def test_interrupted_in_the_check(
    repo: GitRepo, screen: Open, script: Script, tmp_path: Path, run: Run
) -> None:
    script.replies(GREET)
    repo.write("a.txt", "mine\n")
    before = repo.head(), repo.status(), repo.read("src/app.py")
    started = tmp_path / "started"
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
    with screen("edit", "src/app.py", GIT_EDITOR="true") as window:
        assert window.end() == 1
    with screen("edit", "src/gone.py", GIT_EDITOR="echo must not be opened; false") as window:
        assert window.end() == 2
    assert "must not" not in window.seen
    assert len(script.prompts) == 1


def test_escape_sequences_never_reach_the_terminal(repo: GitRepo, screen: Open, script: Script) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e"
    repo.write("src/app.py", f"def greet(name):  # {evil}\n    return 'hello ' + name\n")
    repo.write("b.py", "x = 1\n")
    repo.commit("evil")
    reply = f"So: {evil} done.\n\n<commit>Greet {evil}</commit>\n\n" + diff(
        "src/app.py", f" def greet(name):  # {evil}", "-    return 'hello ' + name", "+    return name"
    )
    script.replies("<message>look " + evil + "</message>\n" + f'<read path="{evil}"/>\n', reply)
    with screen("edit", "src/app.py", "greet") as window:
        window.expect(QUESTION)
        window.send("y\n")
        assert window.end() == 0
    assert "owned" in window.seen
    for raw in ("\x1b]", "\x07", "\x1b[2J", "\u202e"):
        assert raw not in window.seen


@pytest.mark.soak
@pytest.mark.parametrize("width", [60, 80])
def test_lines_fit_the_terminal(screen: Open, script: Script, width: int) -> None:
    words = "I use an f-string with a comma so that the greeting reads as people write it and say it aloud. "
    script.replies(words * 3 + "\n\n" + GREET)
    with screen("edit", "src/app.py", "greet", width=width, NO_COLOR="1") as window:
        shown = window.expect(QUESTION)
        window.send("q\n")
        window.end()
    prose = shown[shown.index("I use") : shown.index("diff --git")]
    assert "".join(prose.split()) == "".join((words * 3).split())
    assert max(map(len, prose.split("\n"))) <= width


def test_an_answer_is_shown_once(screen: Open, script: Script) -> None:
    script.replies("It greets by name.\n\n```python\ngreet('you')\n```\n")
    with screen("edit", "src/app.py", "what does greet do?") as window:
        assert window.end() == 1
    assert without_styles(window.seen).count("It greets by name.") == 1
    assert "greet('you')" in without_styles(window.seen)
    assert "no change was made" in window.seen
