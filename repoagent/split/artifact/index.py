"""What `index.json` of a split says: the source as it was cut, and each segment."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.split.segment import Boundary
from repoagent.split.symbols.symbol import Symbol

VERSION = 1
NAME = "index.json"
BASE = "base"  # the file with the bytes that were split


@dataclass(frozen=True)
class IndexedSource:
    """The file as it was when it was split.

    `path` is relative to the top of the work tree, absolute outside of one, "" for standard input. `blob` is the id
    of the raw bytes as git computes it, `size` is in bytes. `encoding` is utf-8, unknown-8bit or binary; `line_ending`
    lf, crlf, cr, mixed or none.
    """

    path: str
    blob: str
    sha256: str
    size: int
    encoding: str
    bom: bool
    line_ending: str
    final_newline: bool


@dataclass(frozen=True)
class IndexedSegment:
    """A segment and its file. `start` to `end` (excluded) are bytes of the source, `sha256` is that of these bytes;
    the other fields are those of `repoagent.split.Segment`.

    `based_on` is "" but where a person has edited the file and the source was changed there too since: then it is
    the hash of the text that the file was edited from, which is kept beside it (`kept_base`). Only such a segment
    may be empty: its part of the source is gone.
    """

    file: str
    start: int
    end: int
    first_line: int
    last_line: int
    boundary: Boundary
    sha256: str
    scope: tuple[str, ...]
    oversize: bool
    symbols: tuple[Symbol, ...]
    based_on: str = ""

    @property
    def kept_base(self) -> str:
        """The name of the file that holds what the segment's file was edited from, where `based_on` says so."""
        return f"{self.file}.base"


@dataclass(frozen=True)
class Index:
    """A split on disk. `pending` is empty but after a command was killed while it rewrote the folder: the files that
    it had still to write or to remove, each with the hash of what it replaces ("" for a file that was not there)."""

    folder: Path
    source: IndexedSource
    language: str | None
    target: int
    natural: bool
    segments: tuple[IndexedSegment, ...]
    pending: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.folder / NAME

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without the `version`, which `store.document` puts first."""
        content = {
            "source": asdict(self.source),
            "language": self.language,
            "target": self.target,
            "natural": self.natural,
            "segments": [_segment_dict(segment) for segment in self.segments],
        }
        return {**content, "pending": dict(self.pending)} if self.pending else content


def _segment_dict(segment: IndexedSegment) -> dict[str, Any]:
    shown = dict(vars(segment))
    shown["scope"] = list(segment.scope)
    shown["symbols"] = [dict(vars(symbol)) for symbol in segment.symbols]
    if not segment.based_on:
        del shown["based_on"]
    return shown


def digest(data: bytes) -> str:
    """The SHA-256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
