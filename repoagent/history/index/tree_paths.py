"""Which paths exist in a revision's tree: recorded in the index for one revision, read from git for others."""

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

Difference = Callable[[], bytes]  # waits for the output of git; raises GitError


def finder(top: Path, tip: bytes) -> Callable[[Sequence[bytes]], set[bytes]]:
    """A function that returns which of some paths are in the tree of `tip`; one git process per call."""

    def find(paths: Sequence[bytes]) -> set[bytes]:
        asked = [path for path in dict.fromkeys(paths) if b"\n" not in path]
        data = b"".join(b"%s:%s\n" % (tip, path) for path in asked)
        # for a missing path git echoes the request; only the end of the line is unambiguous
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
    """The difference of `tip` from the recorded tree, for `settle`; git runs in the background. None if no other tree
    is recorded."""
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
    """Record which paths exist in the tree of `tip`: from its difference to the recorded tree if possible, else all."""
    if alive_at(connection) == tip:
        return
    gone: list[bytes] = []
    come: Iterator[bytes] | list[bytes] = []
    try:
        if differs is not None:
            gone, come = _both(differs())
    except GitError:  # the recorded tree was pruned
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
        # like `view.file`, which is too slow for each path of a tree
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
    """The paths that may have disappeared, and those that may be new."""
    tokens = difference.split(b"\0")
    pairs = list(zip(tokens[::2], tokens[1::2], strict=False))
    # a changed path may belong to another file now
    return [path for kind, path in pairs if kind != b"A"], [path for kind, path in pairs if kind != b"D"]


def _all(top: Path, tip: bytes) -> Iterator[bytes]:
    rest = b""
    with git_stream(top, "ls-tree", "-r", "-z", "--full-tree", "--name-only", tip, env=OFFLINE) as output:
        while chunk := output.read(_CHUNK):
            *paths, rest = (rest + chunk).split(b"\0")
            yield from paths
