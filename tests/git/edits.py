"""Helpers for tests of transactions: make a change as an edit would, and compare everything that git can see."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from repoagent.git.files import Content, FileChange, read_content
from repoagent.git.transaction.finish import recover_transactions
from repoagent.git.transaction.results import CommitResult, Options
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import redo, undo
from repoagent.git.worktree import WorkTree, open_worktree
from tests.conftest import GitRepo
from tests.git.snapshot import Snapshot, as_before, nothing_left, seen, unchanged, visible


def change(repo: GitRepo, path: str, old: str | bytes, new: str | bytes) -> FileChange:
    """The change of the file on disk that replaces `old` by `new`."""
    now = read_content(repo.top, path)
    assert now is not None
    old, new = (text.encode() if isinstance(text, str) else text for text in (old, new))
    assert now.data.count(old) == 1
    return FileChange.at(path, now, Content(now.data.replace(old, new), now.mode))


def new_file(path: str, data: bytes, mode: str = "100644") -> FileChange:
    return FileChange.at(path, None, Content(data, mode))


def delete(repo: GitRepo, path: str) -> FileChange:
    return FileChange.at(path, read_content(repo.top, path), None)


def lines(other: Mapping[int, str] | None = None) -> str:
    """The text of `a.txt`, with `other` lines at these numbers."""
    return "".join((other or {}).get(number, f"line {number}") + "\n" for number in range(1, 11))


def shout(repo: GitRepo, number: int) -> FileChange:
    """The change of one line of `a.txt` to upper case."""
    return change(repo, "a.txt", f"line {number}\n", f"LINE {number}\n")


def shell(repo: GitRepo, script: str) -> None:
    """Run a shell script at the top, which ends at the first failing command."""
    done = subprocess.run(["sh", "-ec", script], cwd=repo.top, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def worktree(repo: GitRepo) -> WorkTree:
    return open_worktree(repo.top)


def edit(repo: GitRepo, *changes: FileChange, message: str = "edit", **options: object) -> CommitResult:
    """A complete edit: plan, write, commit."""
    with Transaction(worktree(repo), changes, Options(**options)) as transaction:
        transaction.write()
        return transaction.commit(message + "\n")


def keep(repo: GitRepo, *changes: FileChange) -> None:
    """An edit without a commit."""
    with Transaction(worktree(repo), changes, Options(no_commit=True)) as transaction:
        transaction.write()
        transaction.keep()


def dies(action: Callable[[], object], code: int = -signal.SIGKILL) -> None:
    """Do it in a child process that ends with this exit code (negative: by this signal)."""
    child = os.fork()
    if child == 0:
        action()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code


class Child:
    """The edit of line 5 in a process and session of its own; `meanwhile` is done between writing and committing."""

    def __init__(self, repo: GitRepo, meanwhile: Callable[[], object] = lambda: None) -> None:
        self._output, end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                os.dup2(end, 2)
                sys.stderr = os.fdopen(2, "w", buffering=1)
                with Transaction(worktree(repo), [shout(repo, 5)]) as transaction:
                    transaction.write()
                    meanwhile()
                    transaction.commit("edit")
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
            os._exit(0)
        os.close(end)

    def ended(self) -> str:
        """What it has written to its standard error, when it has ended."""
        with os.fdopen(self._output) as output:
            said = output.read()
        os.waitpid(self.pid, 0)
        return said


def wait_for(path: Path) -> None:
    """Wait until another process has made the file."""
    deadline = time.monotonic() + 20
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def recovered(repo: GitRepo) -> list[str]:
    """The result of `recover_transactions` after git and its hook, which outlive a killed process, have ended."""
    deadline = time.monotonic() + 20
    while not (notes := recover_transactions(worktree(repo))) and time.monotonic() < deadline:
        time.sleep(0.02)
    return notes


def refused(
    repo: GitRepo, error: type[Exception], match: str, *changes: FileChange, **options: Any
) -> Exception:
    """The error of an edit that leaves everything unchanged."""
    before = visible(repo)
    with pytest.raises(error) as caught:
        edit(repo, *changes, **options)
    assert re.search(match, str(caught.value)), caught.value
    assert visible(repo) == before
    return caught.value


def undo_and_redo(repo: GitRepo, before: Snapshot, after: Snapshot, *, moved: bool = False) -> None:
    """Undo and redo the last edit; `moved`: by moving the branch."""
    for step, expected in ((undo, before), (redo, after)):
        assert step(worktree(repo)).moved or not moved
        as_before(repo, expected)


def only(
    repo: GitRepo, path: str, old: str | bytes, new: str | bytes, *, head_too: bool = True, **options: object
) -> CommitResult:
    """Make the edit that replaces `old` by `new` in the file; HEAD has it, and nothing else changed. `head_too` is
    False if the committed text differs from that of the file: then the caller checks it."""
    tree = repo.git("ls-tree", "-rz", "HEAD").split("\0")
    before, parent = seen(repo, path), repo.head()
    tag = repo.git("--literal-pathspecs", "ls-files", "-v", "--", path)
    text = repo.git("cat-file", "blob", f"HEAD:{path}").encode("utf-8", "surrogateescape")
    edited = change(repo, path, old, new)
    result = edit(repo, edited, message="the edit", **options)
    assert (result.parent, result.commit) == (parent, repo.head())
    assert repo.git("rev-list", "--parents", "-n1", "HEAD", "--").split() == [result.commit, parent]
    assert repo.git("log", "-1", "--format=%s%n%an <%ae>", "--") == "the edit\nAda Tester <ada@example.com>\n"
    after = repo.git("ls-tree", "-rz", "HEAD").split("\0")
    assert [line.partition("\t")[2] for line in set(tree) ^ set(after)] == [path, path]
    if head_too:
        old, new = (one.encode() if isinstance(one, str) else one for one in (old, new))
        now = repo.git("cat-file", "blob", f"HEAD:{path}").encode("utf-8", "surrogateescape")
        assert now == text.replace(old, new)
    assert repo.read(path) == edited.after
    assert repo.git("--literal-pathspecs", "ls-files", "-v", "--", path) == tag
    unchanged(repo, before, path)
    nothing_left(repo)
    return result


def journals(repo: GitRepo) -> list[str]:
    folder = repo.top / ".git" / "repoagent" / "journal"
    return sorted(path.name for path in folder.glob("[!.]*")) if folder.is_dir() else []


def committed(repo: GitRepo, path: str, commit: str = "HEAD") -> str:
    return repo.git("show", f"{commit}:{path}")


def staged(repo: GitRepo, path: str) -> str:
    return repo.git("show", f":{path}")
