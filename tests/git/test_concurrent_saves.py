"""Saves during a commit stay: in other files, in those of the edit, and if the edit is undone."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.git.files import Content, FileChange
from repoagent.git.transaction.results import HookFailed, InPlace
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import redo, undo
from repoagent.git.undo_log import list_edits
from tests.conftest import GitRepo
from tests.git.edits import (
    Child,
    committed,
    delete,
    edit,
    journals,
    lines,
    new_file,
    recovered,
    shell,
    shout,
    wait_for,
    worktree,
)

LINES = lines()
EDITED = LINES.replace("line 5", "LINE 5")
SAVED = LINES.replace("line 9", "saved 9")
WAIT = "touch .git/began; until test -e .git/go; do sleep 0.02; done;"


@contextmanager
def while_a_hook_waits(
    repo: GitRepo, save: Callable[[], object], then: str = "", first: str = ":"
) -> Iterator[None]:
    """The hook runs `first`, waits for `save`, and runs `then`."""
    repo.hook("pre-commit", f"{first}\ntest -e .git/go || {{ {WAIT} }}\n{then}\n")
    for name in ("began", "go"):
        (repo.top / ".git" / name).unlink(missing_ok=True)

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


def test_other_files_saved_while_a_hook_runs_are_left(repo: GitRepo) -> None:
    """Whatever was done to them; only what was lost is restored."""
    names = ["saved", "lost", "again", "mode", "link"]
    repo.commit("more", **dict.fromkeys(names, "committed\n"))
    shell(repo, "for name in saved lost mode link; do echo my $name > $name; done; rm again")
    saves = "echo my second > saved; rm lost; echo again > again; chmod +x mode; ln -sf a.txt link"
    with while_a_hook_waits(repo, lambda: shell(repo, saves)):
        result = edit(repo, shout(repo, 5))
    assert {name: repo.read(name) for name in names[:4]} == {
        "saved": b"my second\n", "lost": b"my lost\n", "again": b"again\n", "mode": b"my mode\n",
    }  # fmt: skip
    assert os.access(repo.top / "mode", os.X_OK) and (repo.top / "link").is_symlink()
    assert result.restored == ("lost",)
    assert "again, which you had deleted, exists again" in result.notes[0]
    assert [note.split()[0] for note in result.notes[1:]] == ["link", "mode", "saved"]
    assert kept(" ".join(result.notes)) == ["my link\n", "my saved\n"]


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


def test_new_files_that_a_hook_removes_come_back(repo: GitRepo) -> None:
    for name in ("announced", "staged"):
        repo.write(name, f"my {name}\n")
    repo.git("add", "staged")
    repo.git("add", "-N", "announced")
    repo.hook("pre-commit", "rm announced staged\n")
    assert edit(repo, shout(repo, 5)).restored == ("announced", "staged")
    assert (repo.read("announced"), repo.read("staged")) == (b"my announced\n", b"my staged\n")


@pytest.mark.parametrize(
    ("save", "left", "match", "copies"),
    [
        ("s/line 9/saved 9/", SAVED, r"a\.txt changed", [LINES]),
        ("s/LINE 5/saved 5/", LINES.replace("line 5", "saved 5"), "on the same lines as the edit", [EDITED, LINES]),
    ],
    ids=["elsewhere", "on its lines"],
)  # fmt: skip
def test_only_the_edit_is_undone_if_the_hook_fails(
    repo: GitRepo, save: str, left: str, match: str, copies: list[str]
) -> None:
    repo.write("README.md", "first\n")
    saves = f"sed -i '{save}' a.txt; echo second > README.md"
    with (
        while_a_hook_waits(repo, lambda: shell(repo, saves), "exit 1"),
        pytest.raises(HookFailed, match=match) as caught,
    ):
        edit(repo, shout(repo, 5), new_file("new.txt", b"new\n"))
    assert repo.read("a.txt").decode() == left and repo.read("README.md") == b"second\n"
    assert not (repo.top / "new.txt").exists() and journals(repo) == []
    assert "everything was restored" not in str(caught.value)
    assert sorted(kept(str(caught.value))) == sorted(["first\n", *copies])


def test_saves_of_created_deleted_and_renamed_files_are_left(repo: GitRepo) -> None:
    old = repo.read("a.txt")
    rename = FileChange("a.txt", "renamed", Content(old), Content(EDITED.encode()))
    changes = [new_file("made", b"new\n"), delete(repo, "README.md"), rename]
    paths = ["README.md", "made", "renamed"]
    save = lambda: [repo.write(path, "saved\n") for path in paths]  # noqa: E731
    with while_a_hook_waits(repo, save, "exit 1"), pytest.raises(HookFailed) as caught:
        edit(repo, *changes)
    for path in paths:
        assert repo.read(path) == b"saved\n" and f"{path} changed" in str(caught.value)
    assert repo.read("a.txt") == old


def test_a_change_in_place_keeps_what_is_saved_on_top(repo: GitRepo) -> None:
    """Like the commit of a whole run."""
    the_change = shout(repo, 5)
    repo.write("a.txt", EDITED)
    saved, head = EDITED.replace("line 9", "saved 9"), repo.head()
    with (
        while_a_hook_waits(repo, lambda: repo.write("a.txt", saved), "echo never; exit 1"),
        pytest.raises(HookFailed, match=r"(?s)a\.txt changed.*never"),
        Transaction(worktree(repo), [the_change], in_place=InPlace()) as transaction,
    ):
        transaction.write()
        transaction.commit("edit\n")
    assert repo.read("a.txt").decode() == saved and journals(repo) == []
    assert (repo.head(), repo.status()) == (head, " M a.txt\n")


@pytest.mark.parametrize("way", ["undo", "redo"])
def test_undo_and_redo_that_fail_leave_what_was_saved(
    repo: GitRepo, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(repo, shout(repo, 5))
    repo.commit("later", b="b\n")
    if way == "redo":
        undo(worktree(repo))
    repo.write("README.md", "first\n")
    head = repo.head()
    step, now, becomes = (undo, EDITED, LINES) if way == "undo" else (redo, LINES, EDITED)
    save = lambda: repo.write("a.txt", becomes.replace("line 9", "saved 9"))  # noqa: E731
    with while_a_hook_waits(repo, save, "exit 1"), pytest.raises(HookFailed, match=r"a\.txt changed after"):
        step(worktree(repo))
    assert repo.read("a.txt").decode() == now.replace("line 9", "saved 9")
    assert repo.git("diff", "--cached") == "" and repo.head() == head and journals(repo) == []
    assert list_edits(worktree(repo))[0].undone == (way == "redo")
    repo.write("a.txt", now)
    with while_a_hook_waits(repo, lambda: repo.write("README.md", "second\n")):
        step(worktree(repo))
    assert kept(capsys.readouterr().err) == ["first\n"]  # it is reported, and outlives the journal


def test_partly_undone_work_in_the_file_of_the_edit_stays(repo: GitRepo) -> None:
    repo.write("a.txt", LINES.replace("line 1\n", "mine 1\n").replace("line 9", "mine 9"))
    now = EDITED.replace("line 9", "mine 9")
    with while_a_hook_waits(repo, lambda: repo.write("a.txt", now)):
        result = edit(repo, shout(repo, 5))
    assert repo.read("a.txt").decode() == now and result.restored == ()
    assert committed(repo, "a.txt") == EDITED


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_a_save_before_an_interrupt_or_a_kill_stays(repo: GitRepo, ending: signal.Signals) -> None:
    repo.write("README.md", "first\n")
    repo.hook("pre-commit", "touch .git/began; sleep 20\n")
    child = Child(repo)
    wait_for(repo.top / ".git/began")
    repo.write("a.txt", EDITED.replace("line 9", "saved 9"))
    repo.write("README.md", "second\n")
    os.killpg(child.pid, ending)  # as a terminal does it
    said = child.ended()
    if journals(repo):
        said += "".join(recovered(repo))
    assert repo.read("a.txt").decode() == SAVED and repo.read("README.md") == b"second\n"
    assert sorted(kept(said)) == ["first\n", LINES], said


@pytest.mark.parametrize("name", ["a.txt", "made.txt"])
def test_undo_leaves_what_was_saved_after_a_hook_had_staged_its_work(repo: GitRepo, name: str) -> None:
    hook = "sed -i 's/^LINE/  LINE/' a.txt" if name == "a.txt" else "echo made > made.txt"
    save = lambda: repo.write(name, repo.read(name).replace(b"line 9", b"saved 9") + b"saved\n")  # noqa: E731
    with while_a_hook_waits(repo, save, first=f"{hook}; git add {name}"):
        edit(repo, shout(repo, 5))
    assert b"saved" not in committed(repo, name).encode() and b"saved" in repo.read(name)
    if name == "made.txt":
        with pytest.raises(Refused, match=r"made\.txt"):
            undo(worktree(repo))
    else:
        undo(worktree(repo))
        assert repo.read("a.txt") == SAVED.encode() + b"saved\n"
    assert b"saved" in repo.read(name)
