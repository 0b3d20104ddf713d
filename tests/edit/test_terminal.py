"""Edits on a real terminal: questions, the editor, ^C, and files outside the scope that have to change."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, HELLO, QUESTION, Open, Run, Script, diff, files_of_head, greeting


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


READ = '<read path="README.md"/>\n'


@pytest.mark.parametrize("first", [REJECTED, BOTH.replace("-    return", "-    returns"), READ, BOTH])
def test_an_allowed_file_changed_since(
    repo: GitRepo, run: Run, screen: Open, script: Script, first: str
) -> None:
    script.replies(first, BOTH)
    script.act(1, "kill -9 $PPID")
    with screen(*COMMAND) as window:
        if first != READ:
            window.answer(ASKED, "y\n")
        if first == BOTH:
            window.answer(QUESTION, "\x03")
        window.end()
    repo.commit("more", **{"README.md": "# Something else\n\nA small repository.\n"})
    done = run(*COMMAND, "--yes", "--scope", "repo", code=3)
    assert "README.md has changed since the interruption" in done.err


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
