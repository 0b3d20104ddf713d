"""The contents of blobs of several commits, never fetched: what a partial clone lacks is left out."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from repoagent.repo.run import OFFLINE, GitError, git_output


def read_blobs(top: Path, names: Collection[str], *, largest: int, most: int) -> dict[str, bytes]:
    """The blobs that `names` (whole or shortened ids) name, by name; those that this clone does not have, that are
    larger than `largest` bytes, or that come after the first `most` bytes are left out.

    Two calls of git however many they are, two more in a clone that lacks some. Raises GitError.
    """
    wanted = list(dict.fromkeys(name for name in names if name))
    if not wanted:
        return {}
    try:
        sizes = _sizes(top, wanted)
    except GitError:  # with nobody to fetch it from, git dies of the first object that is missing
        wanted = _present(top, wanted)
        sizes = _sizes(top, wanted)
    chosen: list[str] = []
    for name in wanted:
        size = sizes.get(name, largest + 1)
        if size <= min(largest, most):
            chosen.append(name)
            most -= size
    return _contents(top, chosen)


def offline(top: Path, *args: str, names: Collection[str] = ()) -> bytes:
    """`git ARGS` that fetches nothing, with `names` on its standard input, a line each. Raises GitError."""
    data = "".join(f"{name}\n" for name in names).encode()
    return git_output(top, *args, stdin=data, env=OFFLINE).stdout


def _sizes(top: Path, names: Collection[str]) -> dict[str, int]:
    lines = offline(top, "cat-file", "--batch-check", names=names).split(b"\n")
    found = {}
    for name, line in zip(names, lines, strict=False):
        fields = line.split(b" ")
        if len(fields) == 3 and fields[1] == b"blob":
            found[name] = int(fields[2])
    return found


def _present(top: Path, names: Collection[str]) -> list[str]:
    """Those of `names` that this clone has. `rev-list` passes over tips that are not there where it is told to, and
    asks nobody for them."""
    options = (
        "--objects",
        "--no-object-names",
        "--no-walk",
        "--missing=print",
        "--ignore-missing",
        "--stdin",
    )
    listed = sorted(offline(top, "rev-list", *options, names=names).decode().split())
    return [name for name in names if any(oid.startswith(name) for oid in listed)]


def _contents(top: Path, names: Collection[str]) -> dict[str, bytes]:
    if not names:
        return {}
    data = offline(top, "cat-file", "--batch", names=names)
    found: dict[str, bytes] = {}
    place = 0
    for name in names:
        end = data.index(b"\n", place)
        size = int(data[place:end].rpartition(b" ")[2])
        found[name] = data[end + 1 : end + 1 + size]
        place = end + size + 2
    return found
