"""Plan a split: cut the text, and name the segment files.

Segment files are named 001.py, 002.py, and 001n.py between these two, so that their names sort like the segments.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from hashlib import sha1
from pathlib import Path, PurePosixPath

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.git.worktree import layout
from repoagent.split.folder_index import SUFFIX, Index, IndexedSegment, digest, read_index
from repoagent.split.pack import TARGET_BYTES, Segment
from repoagent.split.source import SourceText, is_binary, source_of, wide_encoding
from repoagent.split.splitter import segments as split_text
from repoagent.storage.atomic import read_regular
from repoagent.syntax.languages import grammar, language_of

_DIGITS = 3
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MORE = 25  # all but the first: no name would sort before a name that ends in it


def suffix_of(path: str) -> str:
    """The suffix for the segments of `path`: the suffix of `path` if it is simple, otherwise ""."""
    suffix = PurePosixPath(path).suffix
    return suffix if SUFFIX.fullmatch(suffix) else ""


def fill_names(names: Sequence[str | None], suffix: str) -> list[str]:
    """`names` with a new name for each None that sorts between its neighbors."""
    stems = [name.partition(".")[0] if name else "" for name in names]
    first = next((stem.rstrip(_LETTERS) for stem in stems if stem), "")
    before = "0" * (len(first) or max(_DIGITS, len(str(len(names)))))
    start = 0
    while start < len(stems):
        end = next((number for number in range(start, len(stems)) if stems[number]), len(stems))
        stems[start:end] = _between(before, stems[end] if end < len(stems) else "", end - start)
        before, start = stems[min(end, len(stems) - 1)], end + 1
    return [name or stem + suffix for name, stem in zip(names, stems, strict=True)]


def _between(before: str, after: str, count: int) -> list[str]:
    """`count` stems in order after `before` and, if it is not "", before `after`: numbers if possible, otherwise
    letters."""
    digits = before.rstrip(_LETTERS)
    limit = int(after.rstrip(_LETTERS)) if after else 10 ** len(digits)
    if int(digits) + count < limit:
        return [f"{int(digits) + number:0{len(digits)}}" for number in range(1, count + 1)]
    stem = digits + _middle(before[len(digits) :], after[len(digits) :] if after.startswith(digits) else "")
    width = 0
    while _MORE**width < count:
        width += 1
    weights = [_MORE**power for power in reversed(range(width))]
    return [
        stem + "".join(_LETTERS[1 + number // weight % _MORE] for weight in weights)
        for number in range(count)
    ]


def _middle(low: str, high: str) -> str:
    """A word between two others, as a fraction between two fractions in base 26; `high` "" means 1."""
    word = ""
    digit = 0
    while True:
        least = _LETTERS.index(low[digit]) if digit < len(low) else 0
        most = _LETTERS.index(high[digit]) if digit < len(high) else len(_LETTERS)
        if most - least > 1:
            return word + _LETTERS[(least + most) // 2]
        word += _LETTERS[least]
        if most > least:
            high = ""
        digit += 1


def default_folder(text: SourceText) -> Path:
    """The default folder for a split of `text`: `.repoagent/splits/SLUG`, with a hash if the slug of the path may be
    ambiguous. Raises UsageError outside of a repository and for standard input."""
    if text.worktree is None or not text.path:
        what = f"{text.path} is not in a repository" if text.path else "standard input has no default folder"
        raise UsageError(f"{what}; use -o to name the folder for the segments")
    splits = layout(text.worktree).splits
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", text.path).strip("-.")[:80]
    own = f"{slug}-{sha1(os.fsencode(text.path), usedforsecurity=False).hexdigest()[:8]}"
    if slug != text.path.replace("/", "-") or _source_of(splits / slug) not in (None, text.path):
        return splits / own
    return splits / slug


def _source_of(folder: Path) -> str | None:
    """The source of the split in `folder`; None if there is none or it cannot be read."""
    try:
        return read_index(folder, missing_ok=True).source.path
    except RepoagentError:  # reported when the folder is written
        return None


PLAIN = "text"  # the `--language` for text without a grammar
_LEAST_TARGET, _MOST_TARGET = 64, 1 << 30


@dataclass(frozen=True)
class SplitOptions:
    """How to split: the bytes per segment, whether each outermost unit gets a separate segment, and the language if the
    path does not imply it."""

    target: int = TARGET_BYTES
    natural: bool = False
    language: str | None = None


@dataclass(frozen=True)
class OptionChanges:
    """Changes to the options of an earlier split; None keeps the option."""

    target: int | None = None
    natural: bool | None = None
    language: str | None = None


@dataclass(frozen=True)
class SplitPlan:
    """A split to write: its index and text, and for each file to write the hash of the content that it `replaces` (""
    for a new file). `removed` has the hashes of the files to remove, `kept_bases` the texts that edited files are
    based on."""

    index: Index
    base: bytes
    replaces: Mapping[str, str]
    removed: Mapping[str, str] = field(default_factory=dict)
    kept_bases: Mapping[str, bytes] = field(default_factory=dict)


def plan_split(index: Index, base: bytes, old: Index | None, edited: Mapping[str, bytes]) -> SplitPlan:
    """The plan to replace `old` by `index`. Files in `edited` (by name, with the text that they are based on) are not
    written."""
    present: dict[str, str] = {}
    for segment in old.segments if old else ():
        data = read_regular(index.folder / segment.file)
        if data is not None:
            present[segment.file] = digest(data)
    hashes = {segment.file: segment.sha256 for segment in index.segments}
    replaces = {
        name: present.get(name, "")
        for name, new in hashes.items()
        if name not in edited and present.get(name) != new
    }
    removed = {name: old_hash for name, old_hash in present.items() if name not in hashes}
    bases = {segment.file: edited[segment.file] for segment in index.segments if segment.based_on}
    return SplitPlan(index, base, replaces, removed, bases)


def check_options(options: SplitOptions) -> None:
    """Raise UsageError for an unknown language or a target out of range."""
    if not _LEAST_TARGET <= options.target <= _MOST_TARGET:
        raise UsageError(f"--target-bytes {options.target} is not from {_LEAST_TARGET} to {_MOST_TARGET:,}")
    if options.language not in (None, PLAIN):
        grammar(str(options.language))


def check_text(text: SourceText, options: SplitOptions) -> None:
    """Raise Refused for UTF-16 and UTF-32, and for a binary file unless the options name a language."""
    name = text.path or "standard input"
    if encoding := wide_encoding(text.data):
        raise Refused(f"cannot split {encoding}; save {name} as UTF-8 first")
    if options.language is None and is_binary(text.data):
        raise Refused(
            f"{name} looks binary; if it is text, use --language ({PLAIN} for text without a grammar)"
        )


def cut_text(text: SourceText, options: SplitOptions, kept: Iterable[int] = ()) -> tuple[Segment, ...]:
    """The segments of a text; cuts in `kept` are preferred if they are good."""
    plain = options.language == PLAIN
    return split_text(
        "" if plain else text.path,
        text.data,
        target=options.target,
        natural=options.natural,
        language=None if plain else options.language,
        kept=tuple(kept),
    )


def new_index(
    text: SourceText, options: SplitOptions, folder: Path, segments: Sequence[IndexedSegment] | None = None
) -> Index:
    """The index of a split of `text` into `folder`, with these segments, by default those of a new split."""
    if segments is None:
        parts = cut_text(text, options)
        names = fill_names([None] * len(parts), suffix_of(text.path))
        segments = [indexed(part, name, text.data) for part, name in zip(parts, names, strict=True)]
    return Index(
        folder, source_of(text), language(text, options), options.target, options.natural, tuple(segments)
    )


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


def language(text: SourceText, options: SplitOptions) -> str | None:
    if options.language is not None:
        return None if options.language == PLAIN else options.language
    return language_of(text.path, text.data)
