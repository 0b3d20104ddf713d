"""Which paths are in a revision's tree: noted in the index for one of them, asked of git for others."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from repoagent.history.index.mine import transaction
from repoagent.history.index.reach import reach
from repoagent.history.index.schema import put
from repoagent.history.index.view import IndexView
from repoagent.repo.run import OFFLINE, GitError, git, git_stream

_CHUNK = 1 << 16


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


def settle(connection: sqlite3.Connection, top: Path, tip: bytes) -> None:
    """Note which paths are in the tree of `tip`; only what differs from the tree that was noted last is looked at."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'alive'").fetchone()
    if row == (tip,):
        return
    gone: list[bytes] = []
    come: Iterator[bytes] | list[bytes]
    try:
        gone, come = _between(top, row[0], tip) if row else ([], _all(top, tip))
    except GitError:  # the tree that was noted last is gone
        row, gone, come = None, [], _all(top, tip)
    view = IndexView(connection, reach(connection, top, tip).bounds, None, _again)
    with transaction(connection):
        if row is None:
            connection.execute("UPDATE name SET alive = 0 WHERE alive")
        where = "directory = (SELECT id FROM directory WHERE path = ?) AND base = ?"
        for path in gone:
            folder, _, base = path.rpartition(b"/")
            connection.execute(f"UPDATE name SET alive = 0 WHERE {where}", (folder, base))
        for path in come:
            folder, _, base = path.rpartition(b"/")
            connection.execute(
                f"UPDATE name SET alive = 1 WHERE {where} AND file = ?", (folder, base, view.file(path))
            )
        put(connection, alive=tip)


def _again(error: Exception) -> NoReturn:
    raise error


def _between(top: Path, before: bytes, after: bytes) -> tuple[list[bytes], list[bytes]]:
    asked = ("diff-tree", "-r", "-z", "--no-renames", "--name-status")
    tokens = git(top, *asked, before, after, "--", env=OFFLINE).split(b"\0")
    pairs = list(zip(tokens[::2], tokens[1::2], strict=False))
    # a path that has changed may be another file's by now
    return [path for kind, path in pairs if kind != b"A"], [path for kind, path in pairs if kind != b"D"]


def _all(top: Path, tip: bytes) -> Iterator[bytes]:
    rest = b""
    with git_stream(top, "ls-tree", "-r", "-z", "--full-tree", "--name-only", tip, env=OFFLINE) as output:
        while chunk := output.read(_CHUNK):
            *paths, rest = (rest + chunk).split(b"\0")
            yield from paths
