"""Read a split: `index.json`, the segment files, and the text that was split.

`index.json` may come from an attacker, so `parse_index` validates everything that later steps rely on.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, fields
from pathlib import Path
from typing import Any, get_args

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, UsageError
from repoagent.git.files import check_path
from repoagent.split.pack import Boundary, Segment
from repoagent.storage.atomic import read_regular
from repoagent.storage.json_files import NewerFormat, parse_document
from repoagent.storage.locks import hold_lock
from repoagent.syntax.symbol import Symbol

VERSION = 1
NAME = "index.json"
BASE = "base"  # the file with the bytes that were split
STAGED = ".staged"  # the folder in which an update is prepared
LOCK = ".lock"


@dataclass(frozen=True)
class IndexedSource:
    """The source file at the time of the split.

    path: relative to the top of the work tree, absolute outside of one, "" for standard input
    blob: git's id of the raw bytes
    encoding: utf-8, unknown-8bit or binary
    line_ending: lf, crlf, cr, mixed or none
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
class SplitIndex:
    """A split on disk. If a command was killed while it rewrote the folder, `pending` has the files still to be written
    or removed, each with the hash of the content to replace ("" for a new file)."""

    folder: Path
    source: IndexedSource
    language: str | None
    target: int
    natural: bool
    segments: tuple[Segment, ...]
    pending: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.folder / NAME

    def to_dict(self) -> dict[str, Any]:
        """The index as JSON data, without the `version`."""
        content: dict[str, Any] = {**vars(self), "source": vars(self.source), "segments": []}
        del content["folder"]
        if not self.pending:
            del content["pending"]
        for segment in self.segments:
            value = {**vars(segment), "symbols": [vars(symbol) for symbol in segment.symbols]}
            if not segment.based_on:
                del value["based_on"]
            content["segments"].append(value)
        return content


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class BrokenIndex(Refused):
    """An invalid index."""


class _Invalid(Exception):
    """The error in an index, as a clause."""


SUFFIX = re.compile(r"\.[A-Za-z0-9_+-]{1,20}")
_MOST = 1 << 48  # bytes or lines: no file is longer
_SHA256 = r"[0-9a-f]{64}"
_INDEX: dict[str, Any] = {
    "source": dict,
    "language": str | None,
    "target": int,
    "natural": bool,
    "segments": list,
    "pending": dict,
}
_JSON_TYPES = {"int": int, "bool": bool, "str": str, "Boundary": str}
_PATTERNS = {
    "blob": r"[0-9a-f]{40}(?:[0-9a-f]{24})?",
    "sha256": _SHA256,
    "based_on": f"(?:{_SHA256})?",
    "file": rf"[0-9]{{1,9}}[a-z]{{0,180}}(?:{SUFFIX.pattern})?",
    "encoding": "utf-8|unknown-8bit|binary",
    "line_ending": "lf|crlf|cr|mixed|none",
    "boundary": "|".join(get_args(Boundary)),
}


def _fields(value: Any, types: Mapping[str, Any], label: str) -> dict[str, Any]:
    """The fields of a JSON object. Raises _Invalid if one is missing or invalid."""
    if not isinstance(value, dict):
        raise _Invalid(f"{label} is not an object")
    for name, type_ in types.items():
        if name not in value:
            raise _Invalid(f"{name} is missing")
        item = value[name]
        valid = isinstance(item, type_)
        if valid and type_ is int:
            valid = not isinstance(item, bool) and 0 <= item <= _MOST
        if valid and name in _PATTERNS:
            valid = re.fullmatch(_PATTERNS[name], item, re.ASCII) is not None
        if not valid:
            raise _Invalid(f"{name} has the invalid value {str(item)[:80]!r}")
    return {name: value[name] for name in types}


def _types(class_: type[IndexedSource | Segment | Symbol]) -> dict[str, Any]:
    return {field.name: _JSON_TYPES.get(str(field.type), list) for field in fields(class_)}


def parse_index(path: Path, data: bytes) -> SplitIndex:
    """The index in `data`, the content of `path`. Raises NewerFormat for a newer format, BrokenIndex for an invalid
    index."""
    value = parse_document(data)
    if value is None:
        raise _broken(path, "it is not a JSON object with a version")
    if value["version"] > VERSION:
        raise NewerFormat(
            f"{path} has format version {value['version']}, newer than the supported {VERSION}; update repoagent"
        )
    try:
        index = _fields({"language": None, "pending": {}, **value}, _INDEX, "it")
        if index["target"] == 0:
            raise _Invalid("target has the invalid value '0'")
        index["source"] = IndexedSource(**_fields(index["source"], _types(IndexedSource), "source"))
        source = index["source"].path
        if source.startswith("/"):
            if "\0" in source or any(part in ("", ".", "..") for part in source[1:].split("/")):
                raise _Invalid(f"its source path, {source!r}, is not normalized")
        elif source:
            try:
                check_path(source)
            except Refused as error:
                raise _Invalid(f"its source path is invalid: {error}") from error
        index["segments"] = _segments(index["segments"], index["source"].size)
        for name, replaced in index["pending"].items():
            _fields({"file": name, "based_on": replaced}, {"file": str, "based_on": str}, "pending")
        return SplitIndex(path.parent, **index)
    except _Invalid as error:
        raise _broken(path, str(error)) from error


def _broken(path: Path, why: str) -> BrokenIndex:
    return BrokenIndex(f"{path} is invalid: {why}; repair it, or split the file into another folder")


def _segments(items: list[Any], size: int) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    names = {NAME, BASE}
    end, line = 0, 1
    for number, item in enumerate(items, 1):
        try:
            value = _fields(
                {"based_on": "", **item} if isinstance(item, dict) else item, _types(Segment), "it"
            )
            symbols = [Symbol(**_fields(symbol, _types(Symbol), "a symbol")) for symbol in value["symbols"]]
        except _Invalid as error:
            raise _Invalid(f"in segment {number}, {error}") from error
        segment = Segment(**{**value, "scope": tuple(value["scope"]), "symbols": tuple(symbols)})
        empty = segment.start == segment.end
        own = {segment.file.lower(), *([segment.kept_base.lower()] if segment.based_on else ())}
        follows = (
            segment.start == end <= segment.end and line <= segment.first_line <= segment.last_line + empty
        )
        if not (
            follows and (segment.based_on or not empty) and all(isinstance(n, str) for n in segment.scope)
        ):
            raise _Invalid(f"segment {number} does not follow the previous one")
        if not names.isdisjoint(own):  # some file systems ignore case
            raise _Invalid(f"{segment.file} is named twice")
        names |= own
        end, line = segment.end, segment.first_line
        segments.append(segment)
    if end != size:
        raise _Invalid(f"its segments end at byte {end:,}, but the source has {size:,} bytes")
    return tuple(segments)


def display_path(path: Path, cwd: Path) -> str:
    """`path` relative to `cwd` if that is shorter."""
    relative = os.path.relpath(path, cwd)
    return relative if len(relative) < len(str(path)) else str(path)


def quoted_path(path: Path, cwd: Path) -> str:
    return shlex.quote(display_path(path, cwd))


@contextmanager
def lock_split(folder: Path) -> Iterator[None]:
    """Lock the split in `folder` against other commands. Raises Busy, which names the holder, if another command keeps
    it locked."""
    with hold_lock(folder / LOCK, timeout=10.0, label=f"the split in {folder}"):
        yield


def read_index(path: Path, *, missing_ok: bool = False) -> SplitIndex:
    """The validated index at `path`, a folder or the `index.json` in it. All segment files exist, unless `missing_ok`.

    Raises UsageError if there is none, NewerFormat for a later format, Refused if it is invalid or a file in it is
    missing, not regular, or outside the folder.
    """
    path = index_path(path)
    data = read_regular(path)
    if data is None:
        raise UsageError(f"no split at {path}; name a folder that `repoagent split` wrote, or its {NAME}")
    index = parse_index(path, data)
    if index.source.path.startswith("/"):  # someone else may have written an index in a repository
        from repoagent.git.worktree import NoWorkTree, open_worktree

        with suppress(NoWorkTree):
            top = open_worktree(index.folder).top
            why = f"it is in the repository {top}, but its source has the absolute path {index.source.path}"
            raise _broken(path, why)
    for segment in index.segments:
        file = index.folder / segment.file
        try:
            mode = file.lstat().st_mode
        except FileNotFoundError:
            if missing_ok or segment.file in index.pending:
                continue
            again = f"`repoagent split --refresh {quoted_path(index.folder, Path.cwd())}`"
            raise Refused(f"{file} is missing; restore it, or run {again} to write it again") from None
        except OSError as error:
            raise Refused(f"cannot read {file}: {error.strerror}") from error
        if not stat.S_ISREG(mode):
            raise Refused(f"{file} is not a regular file; remove it")
    return index


def index_path(path: Path) -> Path:
    """The absolute path of the index for a folder or an index. Raises UsageError for another file."""
    full = Path(os.path.normpath(Path.cwd() / path))
    if full.name != NAME and full.is_file():
        raise UsageError(
            f"{path} is a file; give the folder of its split (by default under .repoagent/splits) or the {NAME} in it"
        )
    return full / NAME if full.is_dir() or full.name != NAME else full


def base_bytes(index: SplitIndex) -> bytes:
    """The text that was split. Raises Refused if it is missing or was changed."""
    for path in (index.folder / BASE, index.folder / STAGED / BASE):
        data = read_regular(path)
        if data is not None and len(data) == index.source.size and digest(data) == index.source.sha256:
            return data
    raise _broken(
        index.path, f"{index.folder / BASE} is missing or no longer contains the text that was split"
    )


def segment_base(index: SplitIndex, segment: Segment) -> bytes:
    """The text that the segment's file is based on: its part of the source, or of an earlier source (see `based_on`).
    Raises Refused if that text is missing or was changed."""
    if not segment.based_on:
        return base_bytes(index)[segment.start : segment.end]
    path = index.folder / segment.kept_base
    data = read_regular(path)
    if data is None or digest(data) != segment.based_on:
        raise _broken(index.path, f"{path} is not the text that the edits in {segment.file} are based on")
    return data


def edited_segments(index: SplitIndex, *, missing_ok: bool = False) -> list[tuple[Segment, bytes]]:
    """The segments whose files have unmerged edits, in order, each with the content of its file. Raises Refused for a
    missing file, unless `missing_ok` is set or a killed command was about to write the file."""
    edited = []
    for segment in index.segments:
        data = read_regular(index.folder / segment.file)
        if data is None:
            if not missing_ok and segment.file not in index.pending:
                raise Refused(f"{index.folder / segment.file} is missing; restore it")
        elif digest(data) not in {segment.sha256, segment.based_on, index.pending.get(segment.file)}:
            edited.append((segment, data))
    return edited
