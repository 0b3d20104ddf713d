"""From a text and its segments to an index and the files of a split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, UsageError
from repoagent.split.artifact.facts import facts_of, wide_encoding
from repoagent.split.artifact.finding import Text
from repoagent.split.artifact.index import Index, IndexedSegment, IndexedSource, digest
from repoagent.split.artifact.naming import fill, suffix_of
from repoagent.split.cuts import segments
from repoagent.split.languages import grammar, language_of
from repoagent.split.segment import TARGET_BYTES, Segment

PLAIN = "text"  # the `--language` of what has no grammar
_LEAST_TARGET, _MOST_TARGET = 64, 1 << 30


@dataclass(frozen=True)
class Ways:
    """How to split: the bytes that a segment may have, one segment for each outermost unit or not, the language where
    the path does not say it."""

    target: int = TARGET_BYTES
    natural: bool = False
    language: str | None = None


@dataclass(frozen=True)
class Other:
    """What to change of the ways in which an earlier split was made; None for nothing."""

    target: int | None = None
    natural: bool | None = None
    language: str | None = None


@dataclass(frozen=True)
class Made:
    """A split that is still to be written: its index, the text, and of each file whose content is given here the hash
    of what it replaces ("" for nothing). `kept_bases` are the texts that edited files were edited from, by segment
    file; `removed` the files to remove, by hash."""

    index: Index
    base: bytes
    replaces: Mapping[str, str]
    removed: Mapping[str, str] = field(default_factory=dict)
    kept_bases: Mapping[str, bytes] = field(default_factory=dict)


def check_ways(ways: Ways) -> None:
    """Raises UsageError for a language that is not known, or a target that no segment can have."""
    if not _LEAST_TARGET <= ways.target <= _MOST_TARGET:
        raise UsageError(
            f"--target-bytes {ways.target} is out of range: say a number from {_LEAST_TARGET} to {_MOST_TARGET:,}"
        )
    if ways.language not in (None, PLAIN):
        grammar(str(ways.language))


def check_text(text: Text, ways: Ways) -> None:
    """Raises Refused for UTF-16 and UTF-32, and for a binary file unless a language says that it is text."""
    name = text.path or "standard input"
    if encoding := wide_encoding(text.data):
        raise Refused(f"{name} is in {encoding}, which can't be split: save it as UTF-8 first")
    if ways.language is None and facts_of(text.data[:8000]).encoding == "binary":
        raise Refused(
            f"{name} is binary: say --language if it is text all the same ({PLAIN}, if it has no grammar)"
        )


def cut(text: Text, ways: Ways, kept: Iterable[int] = ()) -> tuple[Segment, ...]:
    """The segments of a text, at the cuts `kept` where these are good."""
    plain = ways.language == PLAIN
    return segments(
        "" if plain else text.path,
        text.data,
        target=ways.target,
        natural=ways.natural,
        language=None if plain else ways.language,
        kept=tuple(kept),
    )


def index_of(text: Text, ways: Ways, folder: Path) -> Index:
    """The index that a first split of `text` into `folder` has."""
    found = cut(text, ways)
    names = fill([None] * len(found), suffix_of(text.path))
    listed = tuple(indexed(one, name, text.data) for one, name in zip(found, names, strict=True))
    return Index(folder, source_of(text), language(text, ways), ways.target, ways.natural, listed)


def indexed(segment: Segment, file: str, data: bytes) -> IndexedSegment:
    return IndexedSegment(
        file=file,
        start=segment.start,
        end=segment.end,
        first_line=segment.first_line,
        last_line=segment.last_line,
        boundary=segment.boundary,
        sha256=digest(data[segment.start : segment.end]),
        scope=tuple(segment.scope),
        oversize=segment.oversize,
        symbols=segment.symbols,
    )


def source_of(text: Text) -> IndexedSource:
    return IndexedSource(text.path, text.blob, digest(text.data), len(text.data), *facts_of(text.data))


def language(text: Text, ways: Ways) -> str | None:
    if ways.language is not None:
        return None if ways.language == PLAIN else ways.language
    return language_of(text.path, text.data)
