"""Saves during a commit stay: in other files, in those of the edit, and if the edit is undone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.git.files import FileChange
from repoagent.git.transaction.results import HookFailed, InPlace
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import redo, undo
from tests.conftest import GitRepo
from tests.git.edits import committed, edit, journals, lines, new_file, recovered, shout, wait_for, worktree

LINES = lines()
EDITED = LINES.replace("line 5", "LINE 5")
SAVED = LINES.replace("line 9", "saved 9")
WAIT = "touch .git/began; until test -e .git/go; do sleep 0.02; done\n"


def while_a_hook_waits(
    repo: GitRepo, save: Callable[[], object], then: str = ""
) -> AbstractContextManager[None]:
    """The hook waits for `save`, then runs `then`."""
    repo.hook("pre-commit", f"test -e .git/go && {{ {then or ':'}\n}}\n" + WAIT + then)
    return saving(repo, save)


@contextmanager
def saving(repo: GitRepo, save: Callable[[], object]) -> Iterator[None]:
    """Save while a hook runs WAIT."""

    def act() -> None:
        wait_for(repo.top / ".git/began")
        save()
        (repo.top / ".git/go").touch()

    saver = threading.Thread(target=act)
    saver.start()
    try:
        yield
    finally:
        saver.join()


def kept(sentences: str) -> list[str]:
    """The content of the files that are reported as kept."""
    return [Path(name).read_text() for name in re.findall(r"/\S+/(?:edits|kept)/[^\s;,.]+", sentences)]


def test_another_file_saved_while_a_hook_runs_is_left(repo: GitRepo) -> None:
    repo.write("README.md", "first\n")
    repo.write("src/app.py", "lost\n")
    save = lambda: (repo.write("README.md", "first and second\n"), (repo.top / "src/app.py").unlink())  # noqa: E731
    with while_a_hook_waits(repo, save):
        result = edit(repo, shout(repo, 5))
    assert repo.read("README.md") == b"first and second\n"
    assert repo.read("src/app.py") == b"lost\n" and result.restored == ("src/app.py",)
    (note,) = result.notes
    assert note.startswith("README.md changed") and kept(note) == ["first\n"]


def test_a_deleted_file_that_is_written_again_stays(repo: GitRepo) -> None:
    (repo.top / "README.md").unlink()
    with while_a_hook_waits(repo, lambda: repo.write("README.md", "again\n")):
        result = edit(repo, shout(repo, 5))
    assert repo.read("README.md") == b"again\n" and "README.md" in result.notes[0]


@pytest.mark.parametrize("hook", [True, False])
def test_the_text_of_head_is_lost_work_only_after_a_hook(
    repo: GitRepo, hook: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a hook, only the user can have written it."""
    text = repo.read("README.md").decode()
    repo.write("README.md", "mine\n")
    if hook:
        repo.hook("pre-commit", "git checkout -q -- README.md\n")
    else:
        editor = repo.write(".git/editor", f"#!/bin/sh\nprintf '%s' '{text}' > {repo.top}/README.md\n")
        editor.chmod(0o755)
        monkeypatch.setenv("GIT_EDITOR", str(editor))
    result = edit(repo, shout(repo, 5), edit_message=not hook)
    assert repo.read("README.md").decode() == ("mine\n" if hook else text)
    assert result.restored == (("README.md",) if hook else ())
    assert hook or kept(result.notes[0]) == ["mine\n"]


def test_a_mode_and_a_link_of_the_users_stay(repo: GitRepo) -> None:
    repo.write("README.md", "mine\n")
    repo.write("src/app.py", "mine too\n")

    def save() -> None:
        (repo.top / "README.md").chmod(0o755)
        (repo.top / "src/app.py").unlink()
        (repo.top / "src/app.py").symlink_to("../a.txt")

    with while_a_hook_waits(repo, save):
        result = edit(repo, shout(repo, 5))
    assert os.access(repo.top / "README.md", os.X_OK) and (repo.top / "src/app.py").is_symlink()
    assert result.restored == () and kept(" ".join(result.notes)) == ["mine too\n"]


@pytest.mark.parametrize("in_head", ["staged", "announced"])
def test_a_new_file_that_a_hook_removes_comes_back(repo: GitRepo, in_head: str) -> None:
    repo.write("new.txt", "mine\n")
    repo.git("add", *(["-N"] if in_head == "announced" else []), "new.txt")
    repo.hook("pre-commit", "rm new.txt\n")
    assert edit(repo, shout(repo, 5)).restored == ("new.txt",)
    assert repo.read("new.txt") == b"mine\n"


def test_only_the_edit_is_undone_if_the_hook_fails(repo: GitRepo) -> None:
    repo.write("README.md", "first\n")

    def save() -> None:
        repo.write("a.txt", EDITED.replace("line 9", "saved 9"))
        repo.write("README.md", "second\n")

    with (
        while_a_hook_waits(repo, save, "exit 1"),
        pytest.raises(HookFailed, match=r"a\.txt changed") as caught,
    ):
        edit(repo, shout(repo, 5), new_file("new.txt", b"new\n"))
    assert repo.read("a.txt").decode() == SAVED and repo.read("README.md") == b"second\n"
    assert not (repo.top / "new.txt").exists() and journals(repo) == []
    assert "everything was restored" not in str(caught.value)
    assert sorted(kept(str(caught.value))) == ["first\n", LINES]


def test_a_save_on_the_lines_of_the_edit_is_left(repo: GitRepo) -> None:
    saved = EDITED.replace("LINE 5", "saved 5")
    with (
        while_a_hook_waits(repo, lambda: repo.write("a.txt", saved), "exit 1"),
        pytest.raises(HookFailed, match="on the same lines as the edit") as caught,
    ):
        edit(repo, shout(repo, 5))
    assert repo.read("a.txt").decode() == saved
    assert sorted(kept(str(caught.value))) == sorted([EDITED, LINES])


@pytest.mark.parametrize("what", ["made", "deleted", "renamed"])
def test_a_save_of_a_created_or_deleted_file_is_left(repo: GitRepo, what: str) -> None:
    old = repo.read("a.txt")
    the_change, path = {
        "made": (new_file("new.txt", b"new\n"), "new.txt"),
        "deleted": (FileChange("a.txt", None, old, None, "100644", None), "a.txt"),
        "renamed": (FileChange("a.txt", "b.txt", old, EDITED.encode(), "100644", "100644"), "b.txt"),
    }[what]
    with (
        while_a_hook_waits(repo, lambda: repo.write(path, "saved\n"), "exit 1"),
        pytest.raises(HookFailed, match=f"{path} changed"),
    ):
        edit(repo, the_change)
    assert repo.read(path) == b"saved\n"
    assert what == "deleted" or repo.read("a.txt") == old


def test_a_change_in_place_keeps_what_is_saved_on_top(repo: GitRepo) -> None:
    """Like the commit of a whole run."""
    the_change = shout(repo, 5)
    repo.write("a.txt", EDITED)
    saved = EDITED.replace("line 9", "saved 9")
    with (
        while_a_hook_waits(repo, lambda: repo.write("a.txt", saved), "exit 1"),
        pytest.raises(HookFailed, match=r"a\.txt changed"),
        Transaction(worktree(repo), [the_change], in_place=InPlace()) as transaction,
    ):
        transaction.write()
        transaction.commit("edit\n")
    assert repo.read("a.txt").decode() == saved and journals(repo) == []


@pytest.mark.parametrize("way", ["undo", "redo"])
def test_undo_and_redo_that_fail_leave_what_was_saved(
    repo: GitRepo, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(repo, shout(repo, 5))
    repo.commit("later", b="b\n")
    if way == "redo":
        undo(worktree(repo))
    repo.write("README.md", "first\n")
    now = LINES if way == "redo" else EDITED
    becomes = EDITED if way == "redo" else LINES
    save = lambda: repo.write("a.txt", becomes.replace("line 9", "saved 9"))  # noqa: E731
    with while_a_hook_waits(repo, save, "exit 1"), pytest.raises(HookFailed, match=r"a\.txt changed after"):
        (undo if way == "undo" else redo)(worktree(repo))
    assert repo.read("a.txt").decode() == now.replace("line 9", "saved 9")
    (repo.top / ".git/began").unlink()
    (repo.top / ".git/go").unlink()
    repo.write("a.txt", now)
    with while_a_hook_waits(repo, lambda: repo.write("README.md", "second\n")):
        (undo if way == "undo" else redo)(worktree(repo))
    assert kept(capsys.readouterr().err) == ["first\n"]  # it is reported, and outlives the journal


def test_partly_undone_work_in_the_file_of_the_edit_stays(repo: GitRepo) -> None:
    repo.write("a.txt", LINES.replace("line 1\n", "mine 1\n").replace("line 9", "mine 9"))
    now = EDITED.replace("line 9", "mine 9")
    with while_a_hook_waits(repo, lambda: repo.write("a.txt", now)):
        result = edit(repo, shout(repo, 5))
    assert repo.read("a.txt").decode() == now and result.restored == ()
    assert committed(repo, "a.txt") == EDITED


CHILD = """
import sys
from pathlib import Path
from tests.conftest import GitRepo
from tests.git.edits import edit, shout
repo = GitRepo(Path(sys.argv[1]))
edit(repo, shout(repo, 5))
"""


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_a_save_before_an_interrupt_or_a_kill_stays(repo: GitRepo, ending: signal.Signals) -> None:
    repo.write("README.md", "first\n")
    repo.hook("pre-commit", "touch .git/began; sleep 20\n")
    command = [sys.executable, "-c", CHILD, str(repo.top)]
    root, pipe = Path(__file__).parents[2], subprocess.PIPE
    child = subprocess.Popen(command, cwd=root, stderr=pipe, text=True, start_new_session=True)
    wait_for(repo.top / ".git/began")
    repo.write("a.txt", EDITED.replace("line 9", "saved 9"))
    repo.write("README.md", "second\n")
    os.killpg(child.pid, ending)  # as a terminal does it
    said = child.communicate()[1]
    if journals(repo):
        said += "".join(recovered(repo))
    assert repo.read("a.txt").decode() == SAVED and repo.read("README.md") == b"second\n"
    assert sorted(kept(said)) == ["first\n", LINES], said


@pytest.mark.parametrize(
    "hook", ["sed -i 's/^LINE/  LINE/' a.txt; git add a.txt", "echo made >made.txt; git add made.txt"]
)
def test_undo_leaves_what_was_saved_after_a_hook_had_staged_its_work(repo: GitRepo, hook: str) -> None:
    repo.hook("pre-commit", f"{hook}\n{WAIT}")
    name = "made.txt" if "made" in hook else "a.txt"

    save = lambda: repo.write(name, repo.read(name).replace(b"line 9", b"saved 9") + b"saved\n")  # noqa: E731
    with saving(repo, save):
        edit(repo, shout(repo, 5))
    assert b"saved" not in committed(repo, name).encode() and b"saved" in repo.read(name)
    if name == "made.txt":
        with pytest.raises(Refused, match=r"made\.txt"):
            undo(worktree(repo))
    else:
        undo(worktree(repo))
        assert repo.read("a.txt") == SAVED.encode() + b"saved\n"
    assert b"saved" in repo.read(name)
