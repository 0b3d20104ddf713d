"""Which numbers of the index a commit reaches.

`bounds` are sorted numbers: begin, end, begin, end …; each end is outside. What is still to be mined below the base of
the index is reached by an open begin, LOWEST, unless the tip lacks some of it.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from repoagent.errors import UsageError
from repoagent.history.index.schema import AGES, BASE, LOWEST, NUMBERS, get, unpacked
from repoagent.repo.run import GitError, git, git_output

_TRIES = (
    3  # known tips that a new one is compared with; the newest has always been there but after a cleaning
)


class Reach(NamedTuple):
    """`bounds` of what is known; `new` are the ids, in hexadecimal, of the commits that the index lacks, oldest first.
    A tip with a `floor` holds only while nothing below that number is known."""

    bounds: tuple[int, ...]
    new: tuple[bytes, ...] = ()
    floor: int | None = None


def base_reach() -> Reach:
    """What the commit reaches that mining began with."""
    return Reach((LOWEST, BASE))


def reach(connection: sqlite3.Connection, top: Path, tip: bytes) -> Reach:
    """What the commit `tip` (an id in hexadecimal) reaches; one git process for an unknown one.

    Raises UsageError when git can't walk from it.
    """
    if (stored := known(connection, tip)) is not None:
        return stored
    low = get(connection, "low")
    rows = connection.execute(
        "SELECT id, ranges FROM tip WHERE floor IS NULL OR floor = ? ORDER BY used DESC LIMIT ?",
        (low, _TRIES),
    ).fetchall()
    for other, ranges in rows:
        try:
            walk = git(
                top,
                "rev-list",
                "--no-merges",
                "--left-right",
                "--reverse",
                f"{other.hex()}...{tip.decode()}^{{commit}}",
                "--",
            )
        except GitError:  # its objects are gone
            continue
        ids = walk.split()
        left = [each[1:] for each in ids if each.startswith(b"<")]
        right = [each[1:] for each in ids if each.startswith(b">")]
        return _from(connection, tuple(unpacked(NUMBERS, ranges)), left, right)
    every = git_output(
        top, "rev-list", "--no-merges", "--reverse", f"{tip.decode()}^{{commit}}", "--", ok=(0, 128)
    )
    if every.returncode:
        raise UsageError(f"there is no commit {tip.decode()}, or not all that it stands on")
    return _anew(connection, every.stdout.split())


def known(connection: sqlite3.Connection, tip: bytes) -> Reach | None:
    """What was kept of a tip, if it still holds."""
    row = connection.execute(
        "SELECT ranges, floor FROM tip WHERE id = ?", (bytes.fromhex(tip.decode()),)
    ).fetchone()
    if row is None or row[1] not in (None, get(connection, "low")):
        return None
    return Reach(tuple(unpacked(NUMBERS, row[0])), (), row[1])


def store(connection: sqlite3.Connection, tip: bytes, found: Reach) -> None:
    """Keep what a tip reaches; the caller has begun a transaction."""
    row = (bytes.fromhex(tip.decode()), array(NUMBERS, found.bounds), found.floor)
    connection.execute(
        "INSERT OR REPLACE INTO tip SELECT ?, ?, ?, 0, coalesce(max(used), 0) + 1 FROM tip", row
    )
    connection.execute("DELETE FROM tip WHERE used <= (SELECT max(used) FROM tip) - 200")


def toggled(bounds: Sequence[int], numbers: Iterable[int]) -> tuple[int, ...]:
    """`bounds` without those of `numbers` that are in them, and with the others."""
    edges = set(bounds)
    for number in numbers:
        edges ^= {number, number + 1}
    return tuple(sorted(edges))


def _from(
    connection: sqlite3.Connection, bounds: tuple[int, ...], left: list[bytes], right: list[bytes]
) -> Reach:
    """From a known tip's bounds, the commits that only it reaches and those that only the new one does."""
    everything = bounds == (LOWEST, get(connection, "high"))
    if everything and not left:
        return Reach(bounds, tuple(right))
    numbers = _numbers(connection, {*left, *right} if not everything else {*left})
    gone = [numbers[each] for each in left if each in numbers]
    there = [numbers[each] for each in right if each in numbers]
    floor = get(connection, "low") if left and get(connection, "ended") != 1 else None
    return Reach(
        toggled(bounds, [*gone, *there]), tuple(each for each in right if each not in numbers), floor
    )


def _anew(connection: sqlite3.Connection, ids: list[bytes]) -> Reach:
    """From all ids that a tip reaches: no known tip is left to compare with."""
    numbers = _numbers(connection, set(ids))
    new = tuple(each for each in ids if each not in numbers)
    floor = None if get(connection, "ended") == 1 else get(connection, "low")
    return Reach(toggled((), numbers.values()), new, floor)


def _numbers(connection: sqlite3.Connection, ids: set[bytes]) -> dict[bytes, int]:
    """The numbers of those commits that the index has; the newest are found first. There is no index of ids: it would
    be a third of the file, for a look that only another branch takes."""
    wanted = {bytes.fromhex(each.decode()): each for each in ids}
    found: dict[bytes, int] = {}
    for age, identity in connection.execute("SELECT age, id FROM commit_ ORDER BY age"):
        if identity in wanted:
            found[wanted[identity]] = AGES - age
            if len(found) == len(wanted):
                break
    return found
