"""A file as it is summarized: whole, or the segments that are asked about one by one; and what was known of it last.

What was known last stands in one JSON file for each path: which summary it has, and where it was cut. The cuts that an
edit left alone are kept, so that only the segments that it touched are new ones.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any
from zlib import crc32

from repoagent.dataclass import dataclass
from repoagent.patch import decode
from repoagent.store import document
from repoagent.store.report import Warn, to_stderr

VERSION = 1
ONE_CALL = 32_768  # bytes of a file that is asked about in one call
_HEAD = 64  # bytes at the beginning of a part by which it is found again
_TRIES = 8  # looks at a whole part, for each of them
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Part:
    """A run of bytes of a file, `end` excluded, lines from 1, both included. `scope` names what holds its first line,
    outermost first; `sha256` is of its bytes, `head` a check sum of the first of them."""

    start: int
    end: int
    first_line: int
    last_line: int
    scope: tuple[str, ...]
    sha256: str
    head: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class File:
    """A file to be summarized; `path` is what it is called, for the model and for people."""

    path: str
    data: bytes

    @cached_property
    def sha256(self) -> str:
        return sha256(self.data).hexdigest()

    @cached_property
    def encoding(self) -> str:
        """That of its text; "" for a binary file."""
        text = decode(self.data)
        return "" if text is None else text.encoding

    def text(self, start: int, end: int) -> str:
        """The characters of a run of its bytes, lines ended by a plain newline."""
        text = self.data[start:end].decode(self.encoding or "utf-8", "replace")
        return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True)
class Record:
    """What is known of a path since it was summarized last: the hash of its bytes then, the key of its summary, how
    many words were asked for, and its parts."""

    path: str
    sha256: str
    key: str
    words: int
    parts: tuple[Part, ...]


def cut(file: File, known: Record | None, *, room: int = ONE_CALL) -> tuple[Part, ...]:
    """The parts of `file`, none of more than `room` bytes if that can be; one for a file that is not longer, and for
    UTF-16. () for an empty one. `known` says where it was cut before."""
    data = file.data
    if not data:
        return ()
    if known is not None and known.sha256 == file.sha256 and all(part.size <= room for part in known.parts):
        return known.parts
    if len(data) <= room or file.encoding.startswith("utf-16"):
        breaks = max(file.text(0, len(data)).rstrip("\n").count("\n"), 0)
        return (Part(0, len(data), 1, 1 + breaks, (), file.sha256, _head(data, 0)),)
    from repoagent.split import TARGET_BYTES, segments

    kept = _kept(known, data) if known is not None else ()
    return tuple(
        Part(
            one.start, one.end, one.first_line, one.last_line, one.scope,
            sha256(data[one.start : one.end]).hexdigest(), _head(data, one.start),
        )
        for one in segments(file.path, data, target=min(TARGET_BYTES, room), kept=kept)
    )  # fmt: skip


def unchanged(known: Record, data: bytes) -> dict[int, int]:
    """Which of its parts are still there, in their order: where each now begins, by its number. What comes after a
    change is found where a line begins as the part did."""
    heads: dict[int, list[int]] = {}
    for number, part in enumerate(known.parts):
        heads.setdefault(part.head, []).append(number)
    found: dict[int, int] = {}
    number = at = 0
    tries = _TRIES * len(known.parts)
    while number < len(known.parts) and at < len(data):
        part = known.parts[number]
        if _stands(part, data, at):
            found[number] = at
            number, at = number + 1, at + part.size
            continue
        while at < len(data) and tries > 0:
            for candidate in heads.get(_head(data, at), ()):
                if candidate >= number:
                    tries -= 1
                    if _stands(known.parts[candidate], data, at):
                        number = candidate
                        break
            else:
                at = data.find(b"\n", at) + 1 or len(data)
                continue
            break
        else:
            break
    return found


def read_record(folder: Path, path: str, warn: Warn = to_stderr) -> Record | None:
    """What is known of `path`, or None. A broken file is set aside. Raises Refused for a link, or a newer format."""
    value = document.read(_place(folder, path), version=VERSION, warn=warn)
    try:
        return None if value is None else _record(value, path)
    except (KeyError, TypeError, ValueError):  # it says nothing that is not found out anew
        return None


def write_record(folder: Path, record: Record) -> None:
    """Remember it. Raises Refused."""
    value = {
        "path": record.path,
        "sha256": record.sha256,
        "summary": record.key,
        "words": record.words,
        "parts": [asdict(part) for part in record.parts],
    }
    document.write(_place(folder, record.path), value, version=VERSION)


def _kept(known: Record, data: bytes) -> list[int]:
    """Where the unchanged parts of an earlier text begin and end in this one."""
    places = [(start, start + known.parts[number].size) for number, start in unchanged(known, data).items()]
    return sorted({place for both in places for place in both if 0 < place < len(data)})


def _head(data: bytes, start: int) -> int:
    return crc32(data[start : start + _HEAD])


def _stands(part: Part, data: bytes, start: int) -> bool:
    there = data[start : start + part.size]
    return len(there) == part.size and sha256(there).hexdigest() == part.sha256


def _record(value: dict[str, Any], path: str) -> Record | None:
    parts = tuple(
        Part(
            int(one["start"]), int(one["end"]), int(one["first_line"]), int(one["last_line"]),
            tuple(map(str, one["scope"])), str(one["sha256"]), int(one["head"]),
        )
        for one in value["parts"]
    )  # fmt: skip
    hashes = [str(value["sha256"]), str(value["summary"]), *(part.sha256 for part in parts)]
    starts = [0, *(part.end for part in parts)]
    follow = all(part.start == start < part.end for part, start in zip(parts, starts, strict=False))
    if value["path"] != path or not parts or not follow or not all(map(_HASH.fullmatch, hashes)):
        return None
    return Record(path, hashes[0], hashes[1], int(value["words"]), parts)


def _place(folder: Path, path: str) -> Path:
    """The slug is for people who look into the folder, the hash makes it one path's own."""
    slug = re.sub(r"[^a-z0-9]+", "-", PurePosixPath(path).name.lower()).strip("-")[:40] or "file"
    mark = sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return folder / "paths" / f"{slug}-{mark}.json"
