"""A change that is already in the work tree becomes a commit, or stays there if the commit fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from repoagent.errors import NothingDone, Refused
from repoagent.git.file_writer import Moved
from repoagent.git.files import REGULAR, Content, FileChange
from repoagent.git.transaction.finish import recover
from repoagent.git.transaction.results import HookFailed, InPlace
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import redo, undo
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo

OLD = b"".join(b"line %d\n" % n for n in range(30))
NEW = OLD.replace(b"line 15\n", b"line fifteen\n")


def _change(path: str, before: bytes | None, after: bytes | None) -> FileChange:
    old, new = (None if data is None else REGULAR for data in (before, after))
    return FileChange(path if old else None, path if new else None, before, after, old, new)


def _commit(repo: GitRepo, *changes: FileChange) -> str:
    with Transaction(open_worktree(repo.top), changes, edit_id="e1", in_place=InPlace()) as edit:
        edit.write()
        return edit.commit("change it\n").commit


def _three(repo: GitRepo, before: bytes = OLD, after: bytes = NEW) -> list[FileChange]:
    """A changed, a new and a deleted file, as they are in the work tree."""
    repo.commit(f=OLD, gone=b"x\n", other=b"o\n")
    repo.write("f", after)
    repo.write("new", b"n\n")
    (repo.top / "gone").unlink()
    return [_change("f", before, after), _change("new", None, b"n\n"), _change("gone", b"x\n", None)]


def test_commits_only_the_change_in_the_file(repo: GitRepo) -> None:
    changes = _three(repo)
    repo.write("other", b"mine\n")
    stamp = (repo.top / "f").stat()
    _commit(repo, *changes)
    names = repo.git("show", "--format=", "--name-status", "HEAD").split()
    assert names == ["M", "f", "D", "gone", "A", "new"]
    assert repo.status() == " M other\n"
    now = (repo.top / "f").stat()
    assert (now.st_ino, now.st_mtime_ns) == (stamp.st_ino, stamp.st_mtime_ns)  # no build tool sees a change


MINE = OLD.replace(b"line 2\n", b"line two\n")  # the user's
PART = OLD.replace(b"line 15\n", b"line fifteen\n")  # the first of two places that the edit changes
WHOLE = PART.replace(b"line 25\n", b"line twenty-five\n")


TWO = b"line two\n"
STAGED = {
    # what of f was staged before the commit, and what of that undo leaves
    "nothing": (OLD, OLD),
    "all of it": (WHOLE, OLD),
    "a part of it": (PART, OLD),
    "other work": (MINE, MINE),
    "all of it and other work": (WHOLE.replace(b"line 2\n", TWO), MINE),
    "a part of it and other work": (PART.replace(b"line 2\n", TWO), MINE),
}


@pytest.mark.parametrize("case", STAGED)
def test_undo_unstages_the_change(repo: GitRepo, case: str) -> None:
    """No more of the change stays in the index than of other work."""
    staged, left = STAGED[case]
    mine = TWO in staged
    now, before = (data.replace(b"line 2\n", TWO) if mine else data for data in (WHOLE, OLD))
    changes = _three(repo, before, staged)
    repo.git("add", "-A")
    repo.write("f", now)
    _commit(repo, _change("f", before, now), *changes[1:])
    assert repo.git("show", "HEAD:f").encode() == WHOLE
    then = repo.git("ls-files", "-s")
    undo(open_worktree(repo.top), "e1")
    assert (repo.git("show", ":f").encode(), repo.git("show", "HEAD:f").encode()) == (left, OLD)
    assert repo.read("f") == before and repo.status() == ("M  f\n" if left == MINE else "")
    redo(open_worktree(repo.top), "e1")
    assert repo.git("ls-files", "-s") == then and repo.read("f") == now


def test_committing_the_change_before_the_commit(repo: GitRepo) -> None:
    repo.commit(f=OLD)
    repo.commit(f=NEW)
    with pytest.raises(NothingDone):
        _commit(repo, _change("f", OLD, NEW))
    assert repo.read("f") == NEW


def test_a_file_with_other_content_is_refused(repo: GitRepo) -> None:
    repo.commit(f=OLD)
    repo.write("f", NEW + b"later\n")
    with pytest.raises(Moved):
        _commit(repo, _change("f", OLD, NEW))
    assert repo.read("f") == NEW + b"later\n"


def test_an_untracked_file_is_not_committed_whole(repo: GitRepo) -> None:
    repo.commit(g=b"g\n")
    repo.write("f", NEW)
    with pytest.raises(Refused, match="not tracked"):
        _commit(repo, _change("f", OLD, NEW))
    assert repo.read("f") == NEW


def test_a_failing_hook_leaves_the_change_in_the_files(repo: GitRepo) -> None:
    before = repo.commit(f=OLD)
    repo.write("f", NEW)
    repo.hook("pre-commit", "echo never; exit 1\n")
    with pytest.raises(HookFailed, match="never"):
        _commit(repo, _change("f", OLD, NEW))
    assert (repo.head(), repo.read("f"), repo.status()) == (before, NEW, " M f\n")


def test_a_formatter_in_a_hook_is_folded_in(repo: GitRepo) -> None:
    repo.commit(f=OLD)
    repo.write("f", NEW)
    repo.hook("pre-commit", "grep -q FIFTEEN f && exit 0; sed -i s/fifteen/FIFTEEN/ f; exit 1\n")
    _commit(repo, _change("f", OLD, NEW))
    assert b"FIFTEEN" in repo.git("show", "HEAD:f").encode()
    assert repo.status() == ""


MY_9 = NEW.replace(b"line 9\n", b"mine 9\n")


@pytest.mark.parametrize(
    ("now", "head", "file"),
    [
        (MY_9, NEW.replace(b"fifteen", b"FIFTEEN"), MY_9.replace(b"fifteen", b"FIFTEEN")),
        (NEW.replace(b"line fifteen\n", b"mine\n"), NEW, NEW.replace(b"line fifteen\n", b"mine\n")),
    ],
    ids=["elsewhere", "on the lines of the change"],
)
def test_a_formatter_and_work_on_top_of_the_change(
    repo: GitRepo, now: bytes, head: bytes, file: bytes
) -> None:
    """The formatter's work becomes part of the change, the user's does not; undo leaves it."""
    repo.commit(f=OLD)
    repo.write("f", now)
    repo.hook("pre-commit", "grep -q fifteen f || exit 0; sed -i s/fifteen/FIFTEEN/ f; exit 1\n")
    place = InPlace({"f": Content(now)})
    with Transaction(open_worktree(repo.top), [_change("f", OLD, NEW)], edit_id="e1", in_place=place) as edit:
        edit.write()
        result = edit.commit("change it\n")
    assert "your own changes to f are not in the commit: they stay in the file" in result.notes
    assert (repo.git("show", "HEAD:f").encode(), repo.read("f")) == (head, file)
    assert repo.status() == " M f\n" and result.folded == (("f",) if head != NEW else ())
    if file == MY_9.replace(b"fifteen", b"FIFTEEN"):
        undo(open_worktree(repo.top))
        assert repo.read("f") == OLD.replace(b"line 9\n", b"mine 9\n")


def test_files_that_are_committed_whole(repo: GitRepo) -> None:
    repo.commit(f=OLD)
    repo.write("f", MY_9)
    repo.write("g", b"new\n")
    changes = [_change("f", OLD, NEW), _change("g", b"old\n", b"new\n")]
    place = InPlace({"f": Content(MY_9)}, {"f", "g"})
    with Transaction(open_worktree(repo.top), changes, in_place=place) as edit:
        edit.write()
        result = edit.commit("change it\n")
    assert "the commit includes your own changes to f" in result.notes
    assert repo.git("show", "HEAD:f").encode() == MY_9 and repo.status() == ""


KILLED = """
import os, signal, sys
from repoagent.git.transaction.results import InPlace; from repoagent.git.transaction.transaction import Transaction; from repoagent.git.worktree import open_worktree
from repoagent.git.files import REGULAR, FileChange
from repoagent.git.transaction import commit
from pathlib import Path
from repoagent.git.files import Content
change = FileChange("f", "f", Path("old").read_bytes(), Path("new").read_bytes(), REGULAR, REGULAR)
when = sys.argv[1]
run_commit = commit.run_commit
def dies(*args, **kwargs):
    if when == "after":
        run_commit(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)
commit.run_commit = dies
found = {"f": Content(Path("f").read_bytes())} if sys.argv[2] == "mine" else {}
with Transaction(open_worktree(Path.cwd()), [change], edit_id="e1", in_place=InPlace(found)) as edit:
    edit.write()
    edit.commit("change it\\n")
"""


@pytest.mark.parametrize("mine", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_leaves_the_files_as_they_are_and_the_commit_made_or_not(
    repo: GitRepo, when: str, mine: bool
) -> None:
    """Even if another program has worked on top of the change."""
    before = repo.commit(f=OLD)
    here = NEW.replace(b"line fifteen\n", b"mine\n") if mine else NEW
    repo.write("f", here)
    (repo.top / ".git" / "info" / "exclude").write_text("old\nnew\n")
    repo.write("old", OLD)
    repo.write("new", NEW)
    arguments = [when, "mine" if mine else ""]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], cwd=repo.top, check=False, env={**os.environ}
    )
    assert done.returncode == -signal.SIGKILL
    worktree = open_worktree(repo.top)
    assert recover(worktree)
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
