"""Read a split: `index.json`, the segment files, and the text that was split.

`index.json` may come from an attacker, so `parse_index` validates everything that later steps rely on.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, NamedTuple, get_args

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, UsageError
from repoagent.git.files import check_path
from repoagent.split.pack import Boundary
from repoagent.storage.atomic import read_regular
from repoagent.storage.json_files import NewerFormat, parse
from repoagent.storage.locks import locked
from repoagent.syntax.symbol import Symbol

VERSION = 1
NAME = "index.json"
BASE = "base"  # the file with the bytes that were split
STAGED = ".staged"  # the folder in which an update is prepared
LOCK = ".lock"


@dataclass(frozen=True)
class IndexedSource:
    """The source file at the time of the split.

    `path` is relative to the top of the work tree, absolute outside of one, "" for standard input. `blob` is git's id
    of the raw bytes, `size` is in bytes. `encoding` is utf-8, unknown-8bit or binary; `line_ending` lf, crlf, cr, mixed
    or none.
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
    """A segment and its file. `start` to `end` (excluded) are bytes of the source, and `sha256` is the hash of these
    bytes; the other fields are those of `repoagent.split.pack.Segment`.

    `based_on` is "" unless both the file and its part of the source were edited: then it is the hash of the text that
    the file is based on, which is saved as `kept_base`. Only such a segment may be empty, if its part of the source was
    removed.
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
        """The name of the file with the text that the segment's file is based on, if `based_on`."""
        return f"{self.file}.base"


@dataclass(frozen=True)
class Index:
    """A split on disk. `pending` is empty unless a command was killed while it rewrote the folder: the files still to
    be written or removed, each with the hash of the content that it replaces ("" for a new file)."""

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
        """The index as JSON data, without the `version`."""
        segments = []
        for segment in self.segments:
            value = {
                **vars(segment),
                "scope": list(segment.scope),
                "symbols": [dict(vars(symbol)) for symbol in segment.symbols],
            }
            if not segment.based_on:
                del value["based_on"]
            segments.append(value)
        content: dict[str, Any] = {
            "source": asdict(self.source),
            "language": self.language,
            "target": self.target,
            "natural": self.natural,
            "segments": segments,
        }
        return {**content, "pending": dict(self.pending)} if self.pending else content


def digest(data: bytes) -> str:
    """The SHA-256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


class BrokenIndex(Refused):
    """An invalid index."""


class _Invalid(Exception):
    """The error in a part of an index, as a clause."""


class _Field(NamedTuple):
    """A valid field: its type, a condition, and the error if that is false (`{}` is the value)."""

    type: type
    valid: Callable[[Any], bool] = lambda _: True
    error: str = ""


def _number(least: int) -> _Field:
    def valid(value: int) -> bool:
        return not isinstance(value, bool) and least <= value <= _MOST

    return _Field(int, valid, f"is not a number from {least} to {_MOST:,}")


def _text(pattern: str, what: str = "a hash") -> _Field:
    return _Field(str, re.compile(pattern).fullmatch, f"is {{}}, not {what}")  # type: ignore[arg-type]


def _choice(choices: tuple[str, ...]) -> _Field:
    return _Field(object, lambda value: value in choices, f"is not one of {', '.join(choices)}")


_MOST = 1 << 48  # bytes or lines: no file is longer
SUFFIX = re.compile(r"\.[A-Za-z0-9_+-]{1,20}")
_SHA256 = _text(r"[0-9a-f]{64}")
_FILE = _text(rf"[0-9]{{1,9}}[a-z]{{0,180}}(?:{SUFFIX.pattern})?", "a valid name of a segment file")
_BOOL, _STRING, _LIST = _Field(bool), _Field(str), _Field(list)
_STRINGS = _Field(list, lambda v: all(isinstance(item, str) for item in v), "is not a list of strings")
_INDEX = {"source": _Field(dict), "target": _number(1), "natural": _BOOL, "segments": _LIST}
_SOURCE = {
    "path": _STRING,
    "blob": _text(r"[0-9a-f]{40}(?:[0-9a-f]{24})?"),
    "sha256": _SHA256,
    "size": _number(0),
    "encoding": _choice(("utf-8", "unknown-8bit", "binary")),
    "bom": _BOOL,
    "line_ending": _choice(("lf", "crlf", "cr", "mixed", "none")),
    "final_newline": _BOOL,
}
_SEGMENT = {
    "file": _FILE,
    "start": _number(0),
    "end": _number(0),
    "first_line": _number(1),
    "last_line": _number(0),
    "boundary": _choice(get_args(Boundary)),
    "sha256": _SHA256,
    "scope": _STRINGS,
    "oversize": _BOOL,
    "symbols": _LIST,
}
_SYMBOL = {
    "name": _STRING,
    "kind": _STRING,
    "qualified_name": _STRING,
    "first_line": _number(1),
    "last_line": _number(1),
    "signature": _STRING,
    "depth": _number(0),
}


def parse_index(path: Path, data: bytes) -> Index:
    """The index in `data`, the content of `path`. Raises NewerFormat, or BrokenIndex with the error."""
    value = parse(data)
    if value is None:
        raise _broken(path, "it is not JSON with a version")
    if value["version"] > VERSION:
        raise NewerFormat(
            f"{path} has format version {value['version']} and this repoagent knows up to {VERSION}: update repoagent"
        )
    try:
        return _index(path.parent, value)
    except _Invalid as error:
        raise _broken(path, str(error)) from error


def _broken(path: Path, why: str) -> BrokenIndex:
    return BrokenIndex(f"{path} is invalid: {why}; repair it, or split the file into another folder")


def _fields(value: Any, fields: Mapping[str, _Field], what: str = "the value") -> dict[str, Any]:
    """The fields of a JSON object. Raises _Invalid if one is invalid."""
    if not isinstance(value, dict):
        raise _Invalid(f"{what} is not an object")
    for key, (type_, valid, error) in fields.items():
        item = value.get(key)
        if not isinstance(item, type_):
            raise _Invalid(f"{key} {'is missing' if key not in value else 'has the wrong type'}")
        if not valid(item):
            raise _Invalid(f"{key} {error.format(repr(item[:80]) if isinstance(item, str) else '')}")
    return {key: value.get(key) for key in fields}


def _index(folder: Path, value: dict[str, Any]) -> Index:
    index = _fields(value, _INDEX)
    source = IndexedSource(**_fields(index["source"], _SOURCE))
    _check_source_path(source.path)
    language = value.get("language")
    if not isinstance(language, str | None):
        raise _Invalid("its language is not a string")
    segments: list[IndexedSegment] = []
    names = {NAME, BASE}
    for number, item in enumerate(index["segments"], 1):
        try:
            segment = _segment(item, segments[-1] if segments else None)
        except _Invalid as error:
            raise _Invalid(f"in segment {number}, {error}") from error
        own = [segment.file.lower(), *([segment.kept_base.lower()] if segment.based_on else [])]
        if not names.isdisjoint(own):  # some file systems ignore case
            raise _Invalid(f"{segment.file} is named twice")
        names.update(own)
        segments.append(segment)
    end = segments[-1].end if segments else 0
    if end != source.size:
        raise _Invalid(f"its segments end at byte {end:,}, but the source has {source.size:,} bytes")
    pending = value.get("pending", {})
    if not isinstance(pending, dict):
        raise _Invalid("pending is not an object")
    for name, replaced in pending.items():
        if not _FILE.valid(name) or not isinstance(replaced, str):
            raise _Invalid(f"pending has the invalid file name {name!r}")
        if replaced and not _SHA256.valid(replaced):
            raise _Invalid(f"pending has an invalid SHA-256 for {name}")
    return Index(folder, source, language, index["target"], index["natural"], tuple(segments), pending)


def _check_source_path(path: str) -> None:
    if path.startswith("/"):
        if "\0" in path or any(part in ("", ".", "..") for part in path[1:].split("/")):
            raise _Invalid(f"the path of its source, {path!r}, is not normalized")
    elif path:
        try:
            check_path(path)
        except Refused as error:
            raise _Invalid(f"the path of its source is invalid: {error}") from error


def _segment(value: Any, before: IndexedSegment | None) -> IndexedSegment:
    revised = isinstance(value, dict) and "based_on" in value
    fields = _fields(value, {**_SEGMENT, "based_on": _SHA256} if revised else _SEGMENT)
    symbols = tuple(Symbol(**_fields(symbol, _SYMBOL, "a symbol")) for symbol in fields["symbols"])
    segment = IndexedSegment(**{**fields, "scope": tuple(fields["scope"]), "symbols": symbols})
    empty = segment.end == segment.start
    gap = segment.start - (before.end if before else 0)
    if gap:
        where = "before it are missing" if gap > 0 else "overlap with the segment before"
        raise _Invalid(f"{abs(gap):,} bytes {where}")
    if segment.end < segment.start or (empty and not segment.based_on):
        raise _Invalid("the end is not after the start")
    if (
        segment.first_line < (before.first_line if before else 1)
        or segment.last_line < segment.first_line - empty
    ):
        raise _Invalid("the lines are out of order")
    return segment


def display_path(path: Path, cwd: Path) -> str:
    """`path` relative to `cwd` if that is shorter."""
    relative = os.path.relpath(path, cwd)
    return relative if len(relative) < len(str(path)) else str(path)


def quoted_path(path: Path, cwd: Path) -> str:
    """As `display_path`, quoted for a shell command."""
    return shlex.quote(display_path(path, cwd))


@contextmanager
def lock_split(folder: Path, *, timeout: float = 10.0) -> Iterator[None]:
    """Lock the split in `folder` against other commands. Raises Busy, which names the holder."""
    with locked(folder / LOCK, timeout=timeout, what=f"the split in {folder}"):
        yield


def read_index(path: Path, *, missing_ok: bool = False) -> Index:
    """The validated index at `path`, a folder or the `index.json` in it. All segment files exist, unless `missing_ok`.

    Raises UsageError if there is none, NewerFormat for a later format, Refused if it is invalid or a file in it is
    missing, not regular, or outside of the folder.
    """
    path = index_path(path)
    data = read_regular(path)
    if data is None:
        raise UsageError(f"no split at {path}; name a folder that `repoagent split` wrote, or its {NAME}")
    index = parse_index(path, data)
    if index.source.path.startswith("/"):
        _check_outside(index)
    for segment in index.segments:
        _check_file(index, segment, missing_ok=missing_ok)
    return index


def index_path(path: Path) -> Path:
    """The absolute path of the index for a folder or an index. Raises UsageError for another file."""
    full = Path(os.path.normpath(Path.cwd() / path))
    if full.name != NAME and full.is_file():
        raise UsageError(f"{path} is a file; name the folder of the split, or its {NAME}")
    return full / NAME if full.is_dir() or full.name != NAME else full


def _check_outside(index: Index) -> None:
    """Refuse an absolute source path in a repository: someone else may have written the index."""
    from repoagent.git.worktree import NoWorkTree, open_worktree

    try:
        top = open_worktree(index.folder).top
    except NoWorkTree:
        return
    path = index.source.path
    raise _broken(index.path, f"it is in the repository {top}, but its source has the absolute path {path}")


def _check_file(index: Index, segment: IndexedSegment, *, missing_ok: bool) -> None:
    path = index.folder / segment.file
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        if missing_ok or segment.file in index.pending:
            return
        again = f"`repoagent split --refresh {quoted_path(index.folder, Path.cwd())}`"
        raise Refused(f"{path} is missing; restore it, or run {again} to write it again") from None
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise Refused(f"{path} is not a regular file; remove it")


def base_bytes(index: Index) -> bytes:
    """The text that was split. Raises Refused if it is missing or was changed."""
    for path in (index.folder / BASE, index.folder / STAGED / BASE):
        data = read_regular(path)
        if data is not None and len(data) == index.source.size and digest(data) == index.source.sha256:
            return data
    raise _broken(index.path, f"{index.folder / BASE} is not the text that was split")


def segment_bytes(index: Index, segment: IndexedSegment) -> bytes:
    """The current content of `segment`: its file if edited, otherwise its part of the source.

    Raises Refused if the file is missing or not regular.
    """
    data = file_bytes(index, segment)
    if data is None or _is_untouched(index, segment, data):
        return base_bytes(index)[segment.start : segment.end]
    return data


def file_bytes(index: Index, segment: IndexedSegment) -> bytes | None:
    """The bytes of the segment's file; None if it is still to be written (`pending`)."""
    data = read_regular(index.folder / segment.file)
    if data is None and segment.file not in index.pending:
        raise Refused(f"{index.folder / segment.file} is missing; restore it")
    return data


def segment_base(index: Index, segment: IndexedSegment) -> bytes:
    """The text that the segment's file is based on: its part of the source, or of an earlier source (`based_on`).

    The three sides of a merge are this, `segment_bytes` and `base_bytes(index)[start:end]`. Raises Refused if it is
    missing or was changed.
    """
    if not segment.based_on:
        return base_bytes(index)[segment.start : segment.end]
    path = index.folder / segment.kept_base
    data = read_regular(path)
    if data is None or digest(data) != segment.based_on:
        raise _broken(index.path, f"{path} is not the text that {segment.file} was edited from")
    return data


def edited_segments(index: Index, *, missing_ok: bool = False) -> list[IndexedSegment]:
    """The segments with edited files that are not merged, in order.

    Raises Refused for a missing file, unless `missing_ok`: then it counts as unedited.
    """
    edited = []
    for segment in index.segments:
        data = read_regular(index.folder / segment.file) if missing_ok else file_bytes(index, segment)
        if data is not None and not _is_untouched(index, segment, data):
            edited.append(segment)
    return edited


def _is_untouched(index: Index, segment: IndexedSegment, data: bytes) -> bool:
    """Whether the file is as repoagent wrote it, for this or an earlier text of the source."""
    return digest(data) in {segment.sha256, segment.based_on, index.pending.get(segment.file)}
