"""A change that is already in the work tree becomes a commit, or stays there if the commit fails."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from repoagent.errors import NothingDone, Refused
from repoagent.git.file_writer import FilesChanged
from repoagent.git.files import Content, FileChange
from repoagent.git.transaction import commit
from repoagent.git.transaction.finish import recover_transactions
from repoagent.git.transaction.results import CommitResult, InPlace
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import redo, undo
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo
from tests.git.edits import dies, shell

OLD = b"".join(b"line %d\n" % n for n in range(30))
NEW = OLD.replace(b"line 15\n", b"line fifteen\n")


def _change(path: str, before: bytes | None, after: bytes | None) -> FileChange:
    old, new = (None if data is None else Content(data) for data in (before, after))
    return FileChange.at(path, old, new)


def _commit(repo: GitRepo, *changes: FileChange, place: InPlace | None = None) -> CommitResult:
    with Transaction(open_worktree(repo.top), changes, edit_id="e1", in_place=place or InPlace()) as edit:
        edit.write()
        return edit.commit("change it\n")


MINE = OLD.replace(b"line 2\n", b"line two\n")  # the user's
PART = OLD.replace(b"line 15\n", b"line fifteen\n")  # the first of two places that the edit changes
WHOLE = PART.replace(b"line 25\n", b"line twenty-five\n")
TWO = b"line two\n"
STAGED = {
    # what of f was staged before the commit, what is in the file, and what of the staged part undo leaves
    "nothing": (OLD, WHOLE, OLD),
    "all of it": (WHOLE, WHOLE, OLD),
    "a part of it": (PART, WHOLE, OLD),
    "all of it, and unstaged work on its lines": (WHOLE, WHOLE.replace(b"fifteen", b"my 15"), OLD),
    "a part of it, and unstaged work on its lines": (PART, WHOLE.replace(b"fifteen", b"my 15"), OLD),
    "other work": (MINE, WHOLE.replace(b"line 2\n", TWO), MINE),
    "all of it and other work": (WHOLE.replace(b"line 2\n", TWO), WHOLE.replace(b"line 2\n", TWO), MINE),
    "a part of it and other work": (PART.replace(b"line 2\n", TWO), WHOLE.replace(b"line 2\n", TWO), MINE),
}


@pytest.mark.parametrize("case", STAGED)
def test_only_the_change_is_committed_and_undo_unstages_it(repo: GitRepo, case: str) -> None:
    """No more of the change stays in the index than of other work."""
    staged, now, left = STAGED[case]
    before, done = (data.replace(b"line 2\n", TWO) if TWO in staged else data for data in (OLD, WHOLE))
    repo.commit(f=OLD, gone=b"x\n", other=b"o\n")
    repo.write("f", staged)
    shell(repo, "echo n > new; rm gone; git add -A; echo mine > other")
    stamp = repo.write("f", now).stat()
    place = InPlace({} if now == done else {"f": Content(now)})
    changes = [_change("f", before, done), _change("new", None, b"n\n"), _change("gone", b"x\n", None)]
    _commit(repo, *changes, place=place)
    assert repo.git("show", "HEAD:f").encode() == WHOLE
    names = repo.git("show", "--format=", "--name-status", "HEAD").split()
    assert names == ["M", "f", "D", "gone", "A", "new"] and repo.read("other") == b"mine\n"
    there = (repo.top / "f").stat()  # no build tool sees a change
    assert (there.st_ino, there.st_mtime_ns) == (stamp.st_ino, stamp.st_mtime_ns)
    then = repo.git("ls-files", "-s")
    repo.write("f", done)  # undo refuses work on the lines of the change
    undo(open_worktree(repo.top), "e1")
    assert (repo.git("show", ":f").encode(), repo.git("show", "HEAD:f").encode()) == (left, OLD)
    assert repo.read("f") == before and repo.status() == ("M  f\n" if left == MINE else "") + " M other\n"
    redo(open_worktree(repo.top), "e1")
    assert repo.git("ls-files", "-s") == then and repo.read("f") == done


@pytest.mark.parametrize(
    ("commits", "now", "error", "match"),
    [
        ([OLD, NEW], NEW, NothingDone, "already contains this change"),
        ([OLD], NEW + b"later\n", FilesChanged, "f changed"),
        ([], NEW, Refused, "not tracked"),  # and not committed whole
    ],
    ids=["committed before", "other content", "untracked"],
)
def test_a_change_that_is_not_committed(
    repo: GitRepo, commits: list[bytes], now: bytes, error: type[Exception], match: str
) -> None:
    for content in commits:
        repo.commit(f=content)
    repo.write("f", now)
    head = repo.head()
    with pytest.raises(error, match=match):
        _commit(repo, _change("f", OLD, NEW))
    assert (repo.read("f"), repo.head()) == (now, head)


MY_9 = NEW.replace(b"line 9\n", b"mine 9\n")


@pytest.mark.parametrize(
    ("now", "head", "file"),
    [
        (NEW, NEW.replace(b"fifteen", b"FIFTEEN"), NEW.replace(b"fifteen", b"FIFTEEN")),
        (MY_9, NEW.replace(b"fifteen", b"FIFTEEN"), MY_9.replace(b"fifteen", b"FIFTEEN")),
        (NEW.replace(b"line fifteen\n", b"mine\n"), NEW, NEW.replace(b"line fifteen\n", b"mine\n")),
    ],
    ids=["alone", "elsewhere", "on the lines of the change"],
)
def test_a_formatter_and_work_on_top(repo: GitRepo, now: bytes, head: bytes, file: bytes) -> None:
    """The formatter's work becomes part of the change, the user's does not; undo leaves it."""
    repo.commit(f=OLD)
    repo.write("f", now)
    repo.hook("pre-commit", "grep -q fifteen f || exit 0; sed -i s/fifteen/FIFTEEN/ f; exit 1\n")
    mine = now != NEW
    result = _commit(repo, _change("f", OLD, NEW), place=InPlace({"f": Content(now)} if mine else {}))
    assert ("your own changes to f are not in the commit: they stay in the file" in result.notes) is mine
    assert (repo.git("show", "HEAD:f").encode(), repo.read("f")) == (head, file)
    assert repo.status() == (" M f\n" if mine else "")
    assert result.folded == (("f",) if head != NEW else ())
    if head != NEW:
        undo(open_worktree(repo.top))
        assert repo.read("f") == now.replace(b"fifteen", b"15")


def test_a_hook_that_brings_a_deleted_file_back(repo: GitRepo) -> None:
    """What it writes is part of the change, so undo restores the file as it was."""
    repo.commit(f=OLD)
    (repo.top / "f").unlink()
    repo.hook("pre-commit", "echo moved > f; git add f\n")
    assert _commit(repo, _change("f", OLD, None)).folded == ("f",)
    undo(open_worktree(repo.top), "e1")
    assert (repo.read("f"), repo.status()) == (OLD, "")


def test_files_that_are_committed_whole_and_one_that_the_user_has_deleted_since(repo: GitRepo) -> None:
    repo.commit(f=OLD, h=OLD)
    shell(repo, "git config core.fileMode false; git update-index --chmod=+x f; git commit -qm mode")
    repo.write("f", MY_9)
    repo.write("g", b"new\n")
    (repo.top / "h").unlink()
    executable = FileChange.at("f", Content(OLD, "100755"), Content(NEW, "100755"))  # in the index only
    changes = [executable, _change("g", b"old\n", b"new\n"), _change("h", OLD, NEW)]
    result = _commit(repo, *changes, place=InPlace({"f": Content(MY_9), "h": None}, {"f", "g"}))
    assert "the commit includes your own changes to f" in result.notes
    assert "your own changes to h are not in the commit: they stay in the file" in result.notes
    assert (repo.git("show", "HEAD:f").encode(), repo.git("show", "HEAD:h").encode()) == (MY_9, NEW)
    assert repo.status() == " D h\n" and repo.git("ls-tree", "HEAD", "f").startswith("100755")


@pytest.mark.parametrize("mine", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_leaves_the_files_and_the_commit_made_or_not(repo: GitRepo, when: str, mine: bool) -> None:
    """Even if another program has worked on top of the change."""
    before = repo.commit(f=OLD)
    here = NEW.replace(b"line fifteen\n", b"mine\n") if mine else NEW
    repo.write("f", here)
    run_commit = vars(commit)["run_commit"]

    def killed(*arguments: Any, **options: Any) -> None:
        if when == "after":
            run_commit(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    def act() -> None:
        vars(commit)["run_commit"] = killed
        _commit(repo, _change("f", OLD, NEW), place=InPlace({"f": Content(here)} if mine else {}))

    dies(act)
    worktree = open_worktree(repo.top)
    assert recover_transactions(worktree)
    assert repo.read("f") == here
    assert not (repo.top / ".git" / "index.lock").exists()
    if when == "before":
        assert (repo.head(), repo.status()) == (before, " M f\n")
        repo.write("f", NEW)
        _commit(repo, _change("f", OLD, NEW))
    else:
        assert (repo.git("show", "HEAD:f").encode(), repo.status()) == (NEW, " M f\n" if mine else "")
        repo.write("f", NEW)
    undo(worktree)
    assert (repo.head(), repo.read("f"), repo.status()) == (before, OLD, "")
