"""A ledger as its folder holds it: `index.json`, and beside it the bytes that it speaks of, by their hash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from repoagent.errors import Refused
from repoagent.repo import FileChange
from repoagent.store import document, write_whole
from repoagent.store.atomic import read_regular
from repoagent.work.changes.checking import check

VERSION = 1
INDEX = "index.json"
_SIDES = ("before", "after")

Lists = Mapping[str, Iterable[FileChange]]


def save(folder: Path, lists: Lists, rest: Mapping[str, object]) -> None:
    """Replace what the folder says: the `lists` of changes, and `rest` as it is; the bytes first."""
    every = [change for some in lists.values() for change in some]
    sides = (data for change in every for data in (change.before, change.after) if data is not None)
    new = [data for data in dict.fromkeys(sides) if not _place(folder, data).exists()]
    for n, data in enumerate(new, 1):  # the last one settles the names of all
        write_whole(_place(folder, data), data, settled=n == len(new))
    value: dict[str, Any] = {name: [_to_dict(one) for one in some] for name, some in lists.items()}
    document.write(folder / INDEX, {**value, **rest}, version=VERSION)


def load(folder: Path) -> dict[str, Any] | None:
    """What the folder says; None where there is nothing. Raises Refused for a newer version."""
    return document.read(folder / INDEX, version=VERSION)


def changes(folder: Path, raw: object) -> tuple[FileChange, ...]:
    """A list of `load` as changes. Raises Refused where the bytes of one are gone, or it can't be one."""
    found = []
    for one in raw if isinstance(raw, list) else []:
        check(one, folder)
        sides = [read_bytes(folder, one.get(side)) for side in _SIDES]
        if any(data is None and one.get(side) for data, side in zip(sides, _SIDES, strict=True)):
            raise Refused(
                f"{folder} does not hold the bytes of {one.get('path') or one.get('old_path')} any more: what this run "
                "has changed can't be told; commit it by hand, or begin a new run"
            )
        old, new = (sides[0], one.get("old_mode")), (sides[1], one.get("mode"))
        found.append(FileChange(one.get("old_path"), one.get("path"), old[0], new[0], old[1], new[1]))
    return tuple(found)


def keep_bytes(folder: Path, data: bytes) -> str:
    """Keep bytes; their name."""
    path = _place(folder, data)
    if not path.exists():
        write_whole(path, data)
    return path.name


def read_bytes(folder: Path, name: object) -> bytes | None:
    """The bytes of that name, None where they are gone."""
    if not isinstance(name, str) or len(name) != 64 or not name.isalnum():
        return None
    data = read_regular(folder / "bytes" / name)
    return data if data is not None and sha256(data).hexdigest() == name else None


def _place(folder: Path, data: bytes) -> Path:
    return folder / "bytes" / sha256(data).hexdigest()


def _to_dict(change: FileChange) -> dict[str, str | None]:
    hashes = {
        side: None if data is None else sha256(data).hexdigest()
        for side, data in zip(_SIDES, (change.before, change.after), strict=True)
    }
    return {
        "old_path": change.old_path,
        "path": change.path,
        **hashes,
        "old_mode": change.old_mode,
        "mode": change.mode,
    }


def lines(raw: object) -> dict[str, tuple[tuple[int, int], ...]]:
    """Paths with lines of them, as `rest` has them."""
    found = raw if isinstance(raw, dict) else {}
    return {str(path): tuple((int(a), int(b)) for a, b in pairs) for path, pairs in found.items()}
