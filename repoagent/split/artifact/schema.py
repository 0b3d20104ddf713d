"""An `index.json` that anybody may have written, to an `Index`: all that later steps rely on is checked here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from repoagent.errors import Refused
from repoagent.repo.paths import check_path
from repoagent.split.artifact.index import BASE, NAME, VERSION, Index, IndexedSegment, IndexedSource
from repoagent.split.segment import Boundary
from repoagent.split.symbols.symbol import Symbol
from repoagent.store.document import Newer, parse

ENCODINGS = ("utf-8", "unknown-8bit", "binary")
LINE_ENDINGS = ("lf", "crlf", "cr", "mixed", "none")
_MOST = 1 << 48  # bytes or lines: no file is longer
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BLOB = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
SUFFIX = re.compile(r"\.[A-Za-z0-9_+-]{1,20}")
_FILE = re.compile(rf"[0-9]{{1,9}}[a-z]{{0,180}}(?:{SUFFIX.pattern})?")


class BrokenIndex(Refused):
    """An index that can't be used."""


class _Wrong(Exception):
    """What is wrong with a part of an index, as the end of a sentence."""


def parse_index(path: Path, data: bytes) -> Index:
    """The index in `data`, the content of `path`. Raises Newer, or BrokenIndex with what is wrong with it."""
    value = parse(data)
    if value is None:
        raise broken(path, "it is not JSON with a version")
    if value["version"] > VERSION:
        raise Newer(
            f"{path} has format version {value['version']} and this repoagent knows up to {VERSION}: update repoagent"
        )
    try:
        return _index(path.parent, value)
    except _Wrong as wrong:
        raise broken(path, str(wrong)) from wrong


def broken(path: Path, why: str) -> BrokenIndex:
    return BrokenIndex(
        f"{path} can't be used, nothing was changed: {why}; put it right, or split the file into another folder"
    )


def _index(folder: Path, value: Mapping[str, Any]) -> Index:
    source = _source(_get(value, "source", dict))
    language = value.get("language")
    if not isinstance(language, str | None):
        raise _Wrong("its language is no name")
    segments: list[IndexedSegment] = []
    for number, item in enumerate(_get(value, "segments", list), 1):
        try:
            segments.append(_segment(item, segments[-1] if segments else None))
        except _Wrong as wrong:
            raise _Wrong(f"in segment {number}, {wrong}") from wrong
    end = segments[-1].end if segments else 0
    if end != source.size:
        raise _Wrong(f"its segments end at byte {end:,}, and the source has {source.size:,}")
    _check_names(segments)
    target, natural = _number(value, "target", 1), _get(value, "natural", bool)
    return Index(folder, source, language, target, natural, tuple(segments), _pending(value))


def _source(value: Mapping[str, Any]) -> IndexedSource:
    path = _get(value, "path", str)
    if path.startswith("/"):
        if "\0" in path or any(part in ("", ".", "..") for part in path[1:].split("/")):
            raise _Wrong(f"the path of its source, {path!r}, is no plain path")
    elif path:
        try:
            check_path(path)
        except Refused as error:
            raise _Wrong(f"of the path of its source: {error}") from error
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
        raise _Wrong("there is no object")
    start, end = _number(value, "start", 0), _number(value, "end", 0)
    first, last = _number(value, "first_line", 1), _number(value, "last_line", 0)
    based_on = _text(value, "based_on", _SHA256) if "based_on" in value else ""
    gap = start - (before.end if before else 0)
    if gap:
        raise _Wrong(f"{abs(gap):,} bytes are {'missing before it' if gap > 0 else 'in the one before too'}")
    if end < start or (end == start and not based_on):
        raise _Wrong("the end is not after the start")
    if first < (before.first_line if before else 1) or last < first - (end == start):
        raise _Wrong("the lines are out of order")
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
        raise _Wrong("a symbol is no object")
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
    """No two segments may share a file, on a file system that does not know case either."""
    taken = {NAME, BASE}
    for segment in segments:
        names = (
            {segment.file.lower(), segment.kept_base.lower()} if segment.based_on else {segment.file.lower()}
        )
        if names & taken:
            raise _Wrong(f"{segment.file} is named twice")
        taken |= names


def _pending(value: Mapping[str, Any]) -> dict[str, str]:
    pending = value.get("pending", {})
    if not isinstance(pending, dict):
        raise _Wrong("what is pending is no object")
    for name, replaced in pending.items():
        if not _FILE.fullmatch(name) or not isinstance(replaced, str):
            raise _Wrong(f"{name!r} can't be pending")
        if replaced and not _SHA256.fullmatch(replaced):
            raise _Wrong(f"what {name} replaces is no SHA-256")
    return pending


def _get(value: Mapping[str, Any], key: str, kind: type) -> Any:
    found = value.get(key)
    if not isinstance(found, kind):
        raise _Wrong(f"{key} is {'missing' if key not in value else 'of another kind than it should be'}")
    return found


def _number(value: Mapping[str, Any], key: str, least: int) -> int:
    found = _get(value, key, int)
    if isinstance(found, bool) or not least <= found <= _MOST:
        raise _Wrong(f"{key} is no number from {least} to {_MOST:,}")
    return int(found)


def _text(value: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> str:
    found = _get(value, key, str)
    if not pattern.fullmatch(found):
        what = "a name that the file of a segment can't have" if pattern is _FILE else "no hash"
        raise _Wrong(f"{key} is {found[:80]!r}, {what}")
    return str(found)


def _texts(value: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = _get(value, key, list)
    if not all(isinstance(text, str) for text in found):
        raise _Wrong(f"{key} is no list of texts")
    return tuple(found)


def _choice(value: Mapping[str, Any], key: str, choices: tuple[Any, ...]) -> Any:
    found = value.get(key)
    if found not in choices:
        raise _Wrong(f"{key} is none of {', '.join(choices)}")
    return found
