"""Read a split: `index.json`, the segment files, and the text that they were split from.

Anyone may have written `index.json`, so `parse_index` validates all that later steps rely on.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, get_args

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


@dataclass(frozen=True)
class IndexedSource:
    """The source file at the time of the split.

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
    the other fields are those of `repoagent.split.pack.Segment`.

    `based_on` is "" unless both the file and its part of the source were edited: then it is the hash of the text that
    the file is based on, which is saved as `kept_base`. Only such a segment may be empty: its part of the source was
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
        """As JSON, without the `version`."""
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


ENCODINGS = ("utf-8", "unknown-8bit", "binary")
LINE_ENDINGS = ("lf", "crlf", "cr", "mixed", "none")
_MOST = 1 << 48  # bytes or lines: no file is longer
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BLOB = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
SUFFIX = re.compile(r"\.[A-Za-z0-9_+-]{1,20}")
_FILE = re.compile(rf"[0-9]{{1,9}}[a-z]{{0,180}}(?:{SUFFIX.pattern})?")


class BrokenIndex(Refused):
    """An invalid index."""


class _Invalid(Exception):
    """What is wrong with a part of an index, as a clause."""


def parse_index(path: Path, data: bytes) -> Index:
    """The index in `data`, the content of `path`. Raises Newer, or BrokenIndex that says what is wrong."""
    value = parse(data)
    if value is None:
        raise broken(path, "it is not JSON with a version")
    if value["version"] > VERSION:
        raise NewerFormat(
            f"{path} has format version {value['version']} and this repoagent knows up to {VERSION}: update repoagent"
        )
    try:
        return _index(path.parent, value)
    except _Invalid as wrong:
        raise broken(path, str(wrong)) from wrong


def broken(path: Path, why: str) -> BrokenIndex:
    return BrokenIndex(f"{path} is invalid: {why}; repair it, or split the file into another folder")


def _index(folder: Path, value: Mapping[str, Any]) -> Index:
    source = _source(_get(value, "source", dict))
    language = value.get("language")
    if not isinstance(language, str | None):
        raise _Invalid("its language is not a string")
    segments: list[IndexedSegment] = []
    for number, item in enumerate(_get(value, "segments", list), 1):
        try:
            segments.append(_segment(item, segments[-1] if segments else None))
        except _Invalid as wrong:
            raise _Invalid(f"in segment {number}, {wrong}") from wrong
    end = segments[-1].end if segments else 0
    if end != source.size:
        raise _Invalid(f"its segments end at byte {end:,}, but the source has {source.size:,} bytes")
    _check_names(segments)
    target, natural = _number(value, "target", 1), _get(value, "natural", bool)
    return Index(folder, source, language, target, natural, tuple(segments), _pending(value))


def _source(value: Mapping[str, Any]) -> IndexedSource:
    path = _get(value, "path", str)
    if path.startswith("/"):
        if "\0" in path or any(part in ("", ".", "..") for part in path[1:].split("/")):
            raise _Invalid(f"the path of its source, {path!r}, is not normalized")
    elif path:
        try:
            check_path(path)
        except Refused as error:
            raise _Invalid(f"the path of its source is invalid: {error}") from error
    return IndexedSource(
        path,
        _text(value, "blob", _BLOB),
        _text(value, "sha256", _SHA256),
        _number(value, "size", 0),
        _choice(value, "encoding", ENCODINGS),
        _get(value, "bom", bool),
        _choice(value, "line_ending", LINE_ENDINGS),
        _get(value, "final_newline", bool),
    )


def _segment(value: Any, before: IndexedSegment | None) -> IndexedSegment:
    if not isinstance(value, dict):
        raise _Invalid("the value is not an object")
    start, end = _number(value, "start", 0), _number(value, "end", 0)
    first, last = _number(value, "first_line", 1), _number(value, "last_line", 0)
    based_on = _text(value, "based_on", _SHA256) if "based_on" in value else ""
    gap = start - (before.end if before else 0)
    if gap:
        raise _Invalid(
            f"{abs(gap):,} bytes {'before it are missing' if gap > 0 else 'overlap with the segment before'}"
        )
    if end < start or (end == start and not based_on):
        raise _Invalid("the end is not after the start")
    if first < (before.first_line if before else 1) or last < first - (end == start):
        raise _Invalid("the lines are out of order")
    return IndexedSegment(
        _text(value, "file", _FILE),
        start,
        end,
        first,
        last,
        _choice(value, "boundary", get_args(Boundary)),
        _text(value, "sha256", _SHA256),
        _texts(value, "scope"),
        _get(value, "oversize", bool),
        tuple(_symbol(item) for item in _get(value, "symbols", list)),
        based_on,
    )


def _symbol(value: Any) -> Symbol:
    if not isinstance(value, dict):
        raise _Invalid("a symbol is not an object")
    return Symbol(
        _get(value, "name", str),
        _get(value, "kind", str),
        _get(value, "qualified_name", str),
        _number(value, "first_line", 1),
        _number(value, "last_line", 1),
        _get(value, "signature", str),
        _number(value, "depth", 0),
    )


def _check_names(segments: list[IndexedSegment]) -> None:
    """Refuse two segments with the same file, ignoring case as some file systems do."""
    taken = {NAME, BASE}
    for segment in segments:
        names = (
            {segment.file.lower(), segment.kept_base.lower()} if segment.based_on else {segment.file.lower()}
        )
        if names & taken:
            raise _Invalid(f"{segment.file} is named twice")
        taken |= names


def _pending(value: Mapping[str, Any]) -> dict[str, str]:
    pending = value.get("pending", {})
    if not isinstance(pending, dict):
        raise _Invalid("pending is not an object")
    for name, replaced in pending.items():
        if not _FILE.fullmatch(name) or not isinstance(replaced, str):
            raise _Invalid(f"pending has the invalid file name {name!r}")
        if replaced and not _SHA256.fullmatch(replaced):
            raise _Invalid(f"pending has an invalid SHA-256 for {name}")
    return pending


def _get(value: Mapping[str, Any], key: str, kind: type) -> Any:
    found = value.get(key)
    if not isinstance(found, kind):
        raise _Invalid(f"{key} {'is missing' if key not in value else 'has the wrong type'}")
    return found


def _number(value: Mapping[str, Any], key: str, least: int) -> int:
    found = _get(value, key, int)
    if isinstance(found, bool) or not least <= found <= _MOST:
        raise _Invalid(f"{key} is not a number from {least} to {_MOST:,}")
    return int(found)


def _text(value: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> str:
    found = _get(value, key, str)
    if not pattern.fullmatch(found):
        what = "a valid name of a segment file" if pattern is _FILE else "a hash"
        raise _Invalid(f"{key} is {found[:80]!r}, not {what}")
    return str(found)


def _texts(value: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = _get(value, key, list)
    if not all(isinstance(text, str) for text in found):
        raise _Invalid(f"{key} is not a list of strings")
    return tuple(found)


def _choice(value: Mapping[str, Any], key: str, choices: tuple[Any, ...]) -> Any:
    found = value.get(key)
    if found not in choices:
        raise _Invalid(f"{key} is not one of {', '.join(choices)}")
    return found


def display_path(path: Path, cwd: Path) -> str:
    """`path` relative to `cwd` if that is shorter."""
    relative = os.path.relpath(path, cwd)
    return relative if len(relative) < len(str(path)) else str(path)


def quoted_path(path: Path, cwd: Path) -> str:
    """The same, quoted for a shell command."""
    return shlex.quote(display_path(path, cwd))


STAGED = ".staged"  # the folder in which a change is prepared
LOCK = ".lock"


@contextmanager
def lock_split(folder: Path, *, timeout: float = 10.0) -> Iterator[None]:
    """Lock the split in `folder` against other commands. Raises Busy, which names the holder."""
    with locked(folder / LOCK, timeout=timeout, what=f"the split in {folder}"):
        yield


def read_index(path: Path, *, missing_ok: bool = False) -> Index:
    """The validated index at `path`, a folder or the `index.json` in it. All segment files exist, unless `missing_ok`.

    Raises UsageError if there is none, Newer for a later format, Refused if it is invalid or names a file that is
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
    raise broken(
        index.path, f"it is in the repository {top}, but its source has the absolute path {index.source.path}"
    )


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
        data = _read(path)
        if data is not None and len(data) == index.source.size and digest(data) == index.source.sha256:
            return data
    raise broken(index.path, f"{index.folder / BASE} is not the text that was split")


def segment_bytes(index: Index, segment: IndexedSegment) -> bytes:
    """The current content of `segment`: its file if edited, else its part of the source.

    Raises Refused if the file is missing or not regular.
    """
    data = file_bytes(index, segment)
    if data is None or _is_untouched(index, segment, digest(data)):
        return base_bytes(index)[segment.start : segment.end]
    return data


def file_bytes(index: Index, segment: IndexedSegment) -> bytes | None:
    """The bytes of the segment's file; None if it is still to be written (`pending`)."""
    data = _read(index.folder / segment.file)
    if data is None and segment.file not in index.pending:
        raise Refused(f"{index.folder / segment.file} is missing; restore it")
    return data


def segment_base(index: Index, segment: IndexedSegment) -> bytes:
    """The text that the segment's file is based on: its part of the source, or of an earlier text of it (`based_on`).

    The three sides of a merge are this, `segment_bytes` and `base_bytes(index)[start:end]`. Raises Refused if it is
    missing or was changed.
    """
    if not segment.based_on:
        return base_bytes(index)[segment.start : segment.end]
    path = index.folder / segment.kept_base
    data = _read(path)
    if data is None or digest(data) != segment.based_on:
        raise broken(index.path, f"{path} is not the text that {segment.file} was edited from")
    return data


def edited_segments(index: Index, *, missing_ok: bool = False) -> list[IndexedSegment]:
    """The segments with edited files that are not merged, in order.

    Raises Refused for a missing file, unless `missing_ok`: then it counts as unedited.
    """
    found = []
    for segment in index.segments:
        data = _read(index.folder / segment.file) if missing_ok else file_bytes(index, segment)
        if data is not None and not _is_untouched(index, segment, digest(data)):
            found.append(segment)
    return found


def _is_untouched(index: Index, segment: IndexedSegment, present: str) -> bool:
    """Whether repoagent wrote a file with the hash `present`, if only for an earlier text of the source."""
    return present in {segment.sha256, segment.based_on, index.pending.get(segment.file)}


def _read(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except FileNotFoundError:
        return None
