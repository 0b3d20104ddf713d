"""Summaries as files that users can read and correct, one for each summarized text, named by its hash.

    version: 1
    about: src/app.py, lines 1-310
    model: anthropic/claude-haiku-5-5
    date: 2026-11-22T11:09:14+00:00
    written: 3f2a9c1be04d7710

    Reads the configuration and starts the server. …

The summary follows the first empty line. `written` is the hash of the model's text: if it does not match, a user has
corrected the summary, and nothing overwrites it. A JSON file for each path records its summary and where the file was
cut, so that only the parts that an edit touched are summarized again.
"""

from __future__ import annotations

import re
from dataclasses import asdict, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any
from zlib import crc32

from repoagent.dataclass import dataclass
from repoagent.llm.model import printable
from repoagent.patch.model import decode
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.json_files import NewerFormat, set_aside_broken
from repoagent.storage.layout import Layout, Warn, ensure, to_stderr
from repoagent.storage.locks import locked

VERSION = 1
LONGEST = 40_000  # characters of one summary; a person's, or a stranger's, may be of any length
_FIELD = re.compile(r"([a-z]+):[ \t]*(.*)")
_NAME = 200  # characters of a field


@dataclass(frozen=True)
class Summary:
    """What was said of a text. `about` names the text as it was then, for people; `date` is ISO 8601; `edited`: a
    person has changed what the `model` wrote; `carries`: the model was given what a person wrote of an older text.
    `place` is its file, None for what is kept nowhere."""

    text: str
    about: str = ""
    model: str = ""
    date: str = ""
    edited: bool = False
    carries: bool = False
    place: Path | None = None


def place_of(folder: Path, key: str) -> Path:
    """The file of the summary with this key (a hash in hexadecimal)."""
    return folder / key[:2] / f"{key[2:24]}.md"


def read_summary(folder: Path, key: str, warn: Warn = to_stderr) -> Summary | None:
    """The summary with this key, or None. One that is broken is set aside by name. Raises Refused for a link, or a
    newer format."""
    place = place_of(folder, key)
    data = read_regular(place)
    if data is None:
        return None
    found = _parsed(data, place)
    if found is None:
        set_aside_broken(place, "is broken or contains no summary", warn)
    return found


def write_summary(folder: Path, key: str, summary: Summary) -> Summary:
    """Keep what a model wrote; the summary as it is kept. Raises Refused."""
    fields = {
        "version": str(VERSION),
        "about": summary.about,
        "model": summary.model,
        "date": summary.date,
        **({"carries": "a person's words"} if summary.carries else {}),
        "written": _mark(summary.text),
    }
    head = "".join(f"{name}: {_one_line(value)}\n" for name, value in fields.items())
    place = place_of(folder, key)
    write_whole(place, f"{head}\n{summary.text.strip()}\n".encode("utf-8", "replace"))
    return replace(summary, text=summary.text.strip(), place=place)


def _parsed(data: bytes, place: Path) -> Summary | None:
    """The summary in a file, or None. Raises NewerFormat."""
    try:
        whole = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    head, _, body = whole.replace("\r\n", "\n").partition("\n\n")
    found = [_FIELD.fullmatch(line) for line in head.split("\n")]
    fields = {match[1]: match[2].strip() for match in found if match}
    version = fields.get("version", "")
    if None in found or not (version.isascii() and version.isdigit() and int(version[:9]) > 0):
        return None
    if int(version[:9]) > VERSION:
        raise NewerFormat(
            f"{place} has format version {version}, newer than the supported {VERSION}; update repoagent "
            "or move the file away"
        )
    text = printable(body.strip())[:LONGEST]
    if not text:
        return None
    about, model, date = (_one_line(fields.get(name, "")) for name in ("about", "model", "date"))
    edited = fields.get("written") != _mark(text)
    return Summary(text, about, model, date, edited, carries="carries" in fields, place=place)


def _mark(text: str) -> str:
    """A hash of the words of `text`: how its lines are broken is no correction."""
    return sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:16]


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())[:_NAME]


ONE_CALL = 32_768  # bytes of a file that is asked about in one call
_HEAD = 64  # bytes at the beginning of a part by which it is found again
_TRIES = 8  # looks at a whole part, for each of them
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class SummaryPart:
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
class SourceFile:
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
class SummaryRecord:
    """What is known of a path since it was summarized last: the hash of its bytes then, the key of its summary, how
    many words were asked for, and its parts."""

    path: str
    sha256: str
    key: str
    words: int
    parts: tuple[SummaryPart, ...]


def cut(file: SourceFile, known: SummaryRecord | None, *, room: int = ONE_CALL) -> tuple[SummaryPart, ...]:
    """The parts of `file`, none of more than `room` bytes if that can be; one for a file that is not longer, and for
    UTF-16. () for an empty one. `known` says where it was cut before."""
    data = file.data
    if not data:
        return ()
    if known is not None and known.sha256 == file.sha256 and all(part.size <= room for part in known.parts):
        return known.parts
    if len(data) <= room or file.encoding.startswith("utf-16"):
        breaks = max(file.text(0, len(data)).rstrip("\n").count("\n"), 0)
        return (SummaryPart(0, len(data), 1, 1 + breaks, (), file.sha256, _head(data, 0)),)
    from repoagent.split.pack import TARGET_BYTES
    from repoagent.split.splitter import segments

    kept = _kept(known, data) if known is not None else ()
    return tuple(
        SummaryPart(
            one.start, one.end, one.first_line, one.last_line, one.scope,
            sha256(data[one.start : one.end]).hexdigest(), _head(data, one.start),
        )
        for one in segments(file.path, data, target=min(TARGET_BYTES, room), kept=kept)
    )  # fmt: skip


def unchanged(known: SummaryRecord, data: bytes) -> dict[int, int]:
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


def read_record(folder: Path, path: str, warn: Warn = to_stderr) -> SummaryRecord | None:
    """What is known of `path`, or None. A broken file is set aside. Raises Refused for a link, or a newer format."""
    value = json_files.read_document(_place(folder, path), version=VERSION, warn=warn)
    try:
        return None if value is None else _record(value, path)
    except (KeyError, TypeError, ValueError):  # it can be summarized again
        return None


def write_record(folder: Path, record: SummaryRecord) -> None:
    """Remember it. Raises Refused."""
    value = {
        "path": record.path,
        "sha256": record.sha256,
        "summary": record.key,
        "words": record.words,
        "parts": [asdict(part) for part in record.parts],
    }
    json_files.write_document(_place(folder, record.path), value, version=VERSION)


def _kept(known: SummaryRecord, data: bytes) -> list[int]:
    """Where the unchanged parts of an earlier text begin and end in this one."""
    places = [(start, start + known.parts[number].size) for number, start in unchanged(known, data).items()]
    return sorted({place for both in places for place in both if 0 < place < len(data)})


def _head(data: bytes, start: int) -> int:
    return crc32(data[start : start + _HEAD])


def _stands(part: SummaryPart, data: bytes, start: int) -> bool:
    there = data[start : start + part.size]
    return len(there) == part.size and sha256(there).hexdigest() == part.sha256


def _record(value: dict[str, Any], path: str) -> SummaryRecord | None:
    parts = tuple(
        SummaryPart(
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
    return SummaryRecord(path, hashes[0], hashes[1], int(value["words"]), parts)


def _place(folder: Path, path: str) -> Path:
    """The slug is for people who look into the folder, the hash makes it one path's own."""
    slug = re.sub(r"[^a-z0-9]+", "-", PurePosixPath(path).name.lower()).strip("-")[:40] or "file"
    mark = sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return folder / "paths" / f"{slug}-{mark}.json"


@dataclass
class SummaryCache:
    """The summaries of a repository; with `layout` None nothing outlives the run. With `refresh` only what a person has
    corrected counts as known, and what came of this run."""

    layout: Layout | None
    refresh: bool = False
    warn: Warn = to_stderr
    _now: dict[str, Summary] = field(default_factory=dict)

    @property
    def folder(self) -> Path | None:
        return None if self.layout is None else folder_of(self.layout)

    def aside(self) -> SummaryCache:
        """The same shelf for a trial: what is put on it is not kept, and does not change this one."""
        return _Trial(self.layout, self.refresh, self.warn, dict(self._now))

    def known(self, key: str) -> Summary | None:
        """The summary that needs no model call. Raises Refused if its file is not a regular file."""
        if key in self._now:
            return self._now[key]
        found = self.kept(key)
        return None if found is not None and self.refresh and not found.edited else found

    def kept(self, key: str) -> Summary | None:
        """The stored summary, whether or not it is to be refreshed."""
        return None if self.folder is None else read_summary(self.folder, key, self.warn)

    def keep(self, key: str, summary: Summary) -> Summary:
        """Keep what a model wrote, and return what counts from now on: what another process, or a person, has put there
        meanwhile stays. Raises Refused or Busy."""
        if self.layout is not None and self.folder is not None:
            ensure(self.layout)
            with locked(self.folder / ".lock", what="the summaries of files"):
                summary = self.known(key) or write_summary(self.folder, key, summary)
        self._now[key] = summary
        return summary

    def last(self, path: str) -> SummaryRecord | None:
        """What is known of a path since it was summarized last."""
        return None if self.folder is None or not path else read_record(self.folder, path, self.warn)

    def remember(self, record: SummaryRecord) -> None:
        """Say that this is what is known of its path. Raises Refused."""
        if self.layout is None or self.folder is None or not record.path or self.last(record.path) == record:
            return
        ensure(self.layout)
        write_record(self.folder, record)


class _Trial(SummaryCache):
    def keep(self, key: str, summary: Summary) -> Summary:
        self._now[key] = summary
        return summary

    def remember(self, record: SummaryRecord) -> None:
        return


def folder_of(layout: Layout) -> Path:
    """The folder of the summaries of files; those of commits are next to it."""
    return layout.summaries / "files"
