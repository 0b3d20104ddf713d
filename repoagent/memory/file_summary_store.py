"""Store summaries in files that users can read and correct, one for each summarized text, named by its hash.

    version: 1
    about: src/app.py, lines 1-310
    model: anthropic/claude-haiku-5-5
    date: 2026-11-22T11:09:14+00:00
    written: 3f2a9c1be04d7710

    Reads the configuration and starts the server. …

The summary follows the first empty line. `written` is the hash of the model's text: if it does not match, a user has
corrected the summary, and nothing overwrites it. A JSON file for each path records its last summary and the parts that
the file had then.
"""

from __future__ import annotations

import re
from dataclasses import asdict, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePosixPath

from repoagent.dataclass import dataclass
from repoagent.llm.model import printable
from repoagent.patch.model import decode_text
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular, set_aside_broken, write_whole
from repoagent.storage.json_files import NewerFormat
from repoagent.storage.layout import Layout, Warn, ensure_root, to_stderr
from repoagent.storage.locks import hold_lock

VERSION = 1
LONGEST = 40_000  # characters of a summary; the rest of a longer file is ignored
_FIELD = re.compile(r"([a-z]+):[ \t]*(.*)")
_VERSION = re.compile(r"[1-9][0-9]{0,8}")
_NAME = 200  # characters of a field
_HASH = re.compile(r"[0-9a-f]{64}")
ONE_CALL = 32_768  # bytes of a file or part that is summarized in one call


@dataclass(frozen=True)
class StoredSummary:
    """The summary of a text.

    `edited`: whether a user changed the text that `model` wrote. `path` is its file; None if the summary is not stored.
    """

    text: str
    about: str = ""
    model: str = ""
    date: str = ""
    edited: bool = False
    path: Path | None = None


def place_of(folder: Path, key: str) -> Path:
    """The file for the summary with this key (a hash in hexadecimal)."""
    return folder / key[:2] / f"{key[2:24]}.md"


def read_summary(folder: Path, key: str, warn: Warn = to_stderr) -> StoredSummary | None:
    """Return the summary with this key, or None. A broken file is renamed.

    Raises Refused for a link or a newer format.
    """
    path = place_of(folder, key)
    data = read_regular(path)
    if data is None:
        return None
    head, _, body = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").partition("\n\n")
    matches = [_FIELD.fullmatch(line) for line in head.split("\n")]
    fields = {match[1]: match[2].strip() for match in matches if match}
    version, text = _VERSION.fullmatch(fields.get("version", "")), printable(body.strip())[:LONGEST]
    if version is None or None in matches or (not text and int(version[0]) <= VERSION):
        set_aside_broken(path, "is broken or contains no summary", warn)
        return None
    if int(version[0]) > VERSION:
        raise NewerFormat(
            f"{path} has format version {version[0]}, newer than the supported {VERSION}; update repoagent or move "
            "the file away"
        )
    about, model, date = (_one_line(fields.get(name, "")) for name in ("about", "model", "date"))
    edited = fields.get("written") != _mark(text)
    return StoredSummary(text, about, model, date, edited, path)


def write_summary(folder: Path, key: str, summary: StoredSummary) -> StoredSummary:
    """Store a model's summary; return it with its path. Raises Refused if it cannot be written."""
    fields = {
        "version": str(VERSION),
        "about": summary.about,
        "model": summary.model,
        "date": summary.date,
        "written": _mark(summary.text),
    }
    head = "".join(f"{name}: {_one_line(value)}\n" for name, value in fields.items())
    path, text = place_of(folder, key), summary.text.strip()
    write_whole(path, f"{head}\n{text}\n".encode("utf-8", "replace"))
    return replace(summary, text=text, path=path)


def _mark(text: str) -> str:
    """A hash of the words of `text`, so that a changed line break does not count as a correction."""
    return sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:16]


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())[:_NAME]


@dataclass(frozen=True)
class SummaryPart:
    """A part of a file.

    start, end: its bytes; `end` is exclusive.
    first_line, last_line: its lines, from 1; both are inclusive.
    scope: the definitions around the first line, outermost first.
    sha256: the hash of the bytes.
    """

    start: int
    end: int
    first_line: int
    last_line: int
    scope: tuple[str, ...]
    sha256: str

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class SourceFile:
    """A file to summarize; `path` is its name for the model and the user."""

    path: str
    data: bytes

    @cached_property
    def sha256(self) -> str:
        return sha256(self.data).hexdigest()

    @cached_property
    def encoding(self) -> str:
        """The encoding of the text; "" for a binary file."""
        text = decode_text(self.data)
        return "" if text is None else text.encoding

    def text(self, start: int, end: int) -> str:
        """The bytes `start` to `end` decoded, with line endings as plain newlines."""
        text = self.data[start:end].decode(self.encoding or "utf-8", "replace")
        return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True)
class SummaryRecord:
    """The last summary of a path: the hash of the file, the key of the summary, the requested number of words, and the
    parts."""

    path: str
    sha256: str
    summary: str
    words: int
    parts: tuple[SummaryPart, ...]


def cut(file: SourceFile, room: int = ONE_CALL) -> tuple[SummaryPart, ...]:
    """Cut `file` into parts of at most `room` bytes, if possible, so that an edit changes few of them.

    A UTF-16 file is one part; an empty file has none.
    """
    data = file.data
    if not data:
        return ()
    if len(data) <= room or file.encoding.startswith("utf-16"):
        lines = 1 + file.text(0, len(data)).rstrip("\n").count("\n")
        return (SummaryPart(0, len(data), 1, lines, (), file.sha256),)
    from repoagent.split.pack import TARGET_BYTES
    from repoagent.split.splitter import cut_into_spans, describe_segments

    target = min(TARGET_BYTES, room)
    spans, symbols = cut_into_spans(file.path, data, target=target)
    return tuple(
        SummaryPart(each.start, each.end, each.first_line, each.last_line, each.scope, each.sha256)
        for each in describe_segments(data, spans, target, symbols())
    )


def read_record(folder: Path, path: str, warn: Warn = to_stderr) -> SummaryRecord | None:
    """Return the last summary of `path`, or None. A broken file is renamed.

    Raises Refused for a link or a newer format.
    """
    value = json_files.read_document(_record_file(folder, path), version=VERSION, warn=warn)
    try:
        record = None if value is None else json_files.decode(SummaryRecord, value)
    except TypeError:  # it can be summarized again
        return None
    is_valid = record is not None and record.path == path and record.parts and _HASH.fullmatch(record.summary)
    return record if is_valid else None


def write_record(folder: Path, record: SummaryRecord) -> None:
    """Store the last summary of a path. Raises Refused if it cannot be written."""
    json_files.write_document(_record_file(folder, record.path), asdict(record), version=VERSION)


def _record_file(folder: Path, path: str) -> Path:
    """The slug is for users who open the folder, the hash makes it unique."""
    slug = re.sub(r"[^a-z0-9]+", "-", PurePosixPath(path).name.lower()).strip("-")[:40] or "file"
    return folder / "paths" / f"{slug}-{sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}.json"


def folder_of(layout: Layout) -> Path:
    """The folder that holds file summaries."""
    return layout.summaries / "files"


@dataclass
class SummaryCache:
    """The summaries of a repository. With `refresh`, only those of this run and those that a user has corrected are
    reused."""

    layout: Layout | None
    refresh: bool = False
    warn: Warn = to_stderr
    _fresh: dict[str, StoredSummary] = field(default_factory=dict)

    def known(self, key: str) -> StoredSummary | None:
        """The summary to reuse, or None. Raises Refused if it is not in a regular file."""
        if key in self._fresh or self.layout is None:
            return self._fresh.get(key)
        stored = read_summary(folder_of(self.layout), key, self.warn)
        return None if stored is not None and self.refresh and not stored.edited else stored

    def keep(self, key: str, summary: StoredSummary) -> StoredSummary:
        """Store a summary and return it, or return the one that another process stored first.

        Raises Busy if the lock is not released in time, Refused if the summary cannot be written.
        """
        if self.layout is not None:
            ensure_root(self.layout)
            folder = folder_of(self.layout)
            with hold_lock(folder / ".lock", label="the file summaries"):
                summary = self.known(key) or write_summary(folder, key, summary)
        self._fresh[key] = summary
        return summary

    def last(self, path: str) -> SummaryRecord | None:
        """The last summary of `path`."""
        return read_record(folder_of(self.layout), path, self.warn) if self.layout and path else None

    def remember(self, record: SummaryRecord) -> None:
        """Store the last summary of a path. Raises Refused if it cannot be written."""
        if self.layout is not None and record.path and self.last(record.path) != record:
            ensure_root(self.layout)
            write_record(folder_of(self.layout), record)
