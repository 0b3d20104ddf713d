"""Which paths are in a revision's tree: stored in the index for one revision, read from git for others."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from repoagent.git.process import OFFLINE, GitError, git, git_stream
from repoagent.history.index.miner import transaction
from repoagent.history.index.reader import IndexView, reach
from repoagent.history.index.schema import alive_at, put

_CHUNK = 1 << 16
_NO_FILE = 0

Difference = Callable[[], bytes]  # waits for what git has to say; raises GitError


def finder(top: Path, tip: bytes) -> Callable[[Sequence[bytes]], set[bytes]]:
    """A function that tells which of some paths are in the tree of `tip`: one git process each time."""

    def find(paths: Sequence[bytes]) -> set[bytes]:
        asked = [path for path in dict.fromkeys(paths) if b"\n" not in path]
        data = b"".join(b"%s:%s\n" % (tip, path) for path in asked)
        # one that is missing echoes what was asked; the end of the line tells them apart, whatever the name is
        answers = git(top, "cat-file", "--batch-check=%(objecttype)", stdin=data, env=OFFLINE).split(b"\n")
        found = {
            path for path, answer in zip(asked, answers, strict=False) if not answer.endswith(b" missing")
        }
        odd = [path for path in paths if b"\n" in path]
        if odd:
            asked_of = ("ls-tree", "-z", "--name-only", "--full-tree", tip)
            found |= set(git(top, *asked_of, "--", *odd, env=OFFLINE).split(b"\0"))
        return found

    return find


@contextmanager
def difference(connection: sqlite3.Connection, top: Path, tip: bytes) -> Iterator[Difference | None]:
    """What differs in `tip` from the tree that was noted last, for `settle`: git looks while the block goes on. None
    where no other tree was noted."""
    noted = alive_at(connection)
    if noted is None or noted == tip:
        yield None
        return
    with ExitStack() as stack:
        asked = ("diff-tree", "-r", "-z", "--no-renames", "--name-status", noted, tip, "--")
        output = stack.enter_context(git_stream(top, *asked, env=OFFLINE))

        def read() -> bytes:
            data = output.read()
            stack.close()
            return data

        yield read
        with suppress(GitError):  # the paths were not needed, so an error does not matter
            stack.close()


def settle(connection: sqlite3.Connection, top: Path, tip: bytes, differs: Difference | None) -> None:
    """Note which paths are in the tree of `tip`: those in which it differs from the tree that was noted last, where
    that is to be had, else all."""
    if alive_at(connection) == tip:
        return
    gone: list[bytes] = []
    come: Iterator[bytes] | list[bytes] = []
    try:
        if differs is not None:
            gone, come = _both(differs())
    except GitError:  # the tree that was noted last is gone
        differs = None
    view = IndexView(connection, reach(connection, top, tip).bounds, None, _again)
    with transaction(connection):
        if differs is None:
            connection.execute("UPDATE name SET alive = 0 WHERE alive")
            come = _all(top, tip)
        where = "directory = (SELECT id FROM directory WHERE path = ?1) AND base = ?2"
        connection.executemany(
            f"UPDATE name SET alive = 0 WHERE {where}", (path.rpartition(b"/")[::2] for path in gone)
        )
        # who has a path is what `view.file` tells, which is dear for each path of a tree
        holder = f"coalesce(?3, (SELECT file FROM name WHERE {where} ORDER BY high DESC))"
        connection.executemany(
            f"UPDATE name SET alive = 1 WHERE {where} AND file = {holder}",
            (
                (*path.rpartition(b"/")[::2], None if view.whole else view.file(path) or _NO_FILE)
                for path in come
            ),
        )
        put(connection, alive=tip)


def _again(error: Exception) -> NoReturn:
    raise error


def _both(difference: bytes) -> tuple[list[bytes], list[bytes]]:
    """The paths that may have gone, and those that may have come."""
    tokens = difference.split(b"\0")
    pairs = list(zip(tokens[::2], tokens[1::2], strict=False))
    # a path that has changed may be another file's by now
    return [path for kind, path in pairs if kind != b"A"], [path for kind, path in pairs if kind != b"D"]


def _all(top: Path, tip: bytes) -> Iterator[bytes]:
    rest = b""
    with git_stream(top, "ls-tree", "-r", "-z", "--full-tree", "--name-only", tip, env=OFFLINE) as output:
        while chunk := output.read(_CHUNK):
            *paths, rest = (rest + chunk).split(b"\0")
            yield from paths
