"""Options for a split, the segments of a text, and the names of the segment files.

Segment files are named 001.py, 002.py, and 001n.py between these two, so that their names sort like the segments.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from hashlib import sha1
from itertools import islice, product
from pathlib import Path, PurePosixPath

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.git.worktree import layout
from repoagent.split.folder_index import SUFFIX, Index, IndexedSegment, digest, read_index
from repoagent.split.pack import TARGET_BYTES, Segment
from repoagent.split.source import SourceText, is_binary, source_of, wide_encoding
from repoagent.split.splitter import segments as split_text
from repoagent.syntax.languages import grammar, language_of

PLAIN = "text"  # the `--language` for text without a grammar
_LEAST_TARGET, _MOST_TARGET = 64, 1 << 30
_DIGITS = 3
_LETTERS = "bcdefghijklmnopqrstuvwxyz"  # without a: no name sorts between 001 and 001a


@dataclass(frozen=True)
class SplitOptions:
    """How to split: the bytes per segment, whether each outermost unit gets a separate segment, and the language if the
    path does not imply it."""

    target: int = TARGET_BYTES
    natural: bool = False
    language: str | None = None

    def language_of(self, text: SourceText) -> str | None:
        """The language of the grammar for `text`; None without one."""
        if self.language is not None:
            return None if self.language == PLAIN else self.language
        return language_of(text.path, text.data)


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
    language = options.language_of(text)
    return Index(folder, source_of(text), language, options.target, options.natural, tuple(segments))


def indexed(segment: Segment, file: str, data: bytes) -> IndexedSegment:
    """The entry of the index for a segment of `data` that is written to `file`."""
    return IndexedSegment(
        file=file,
        start=segment.start,
        end=segment.end,
        first_line=segment.first_line,
        last_line=segment.last_line,
        boundary=segment.boundary,
        sha256=digest(data[segment.start : segment.end]),
        scope=segment.scope,
        oversize=segment.oversize,
        symbols=segment.symbols,
    )


def suffix_of(path: str) -> str:
    """The suffix for the segments of `path`: the suffix of `path` if it is simple, otherwise ""."""
    suffix = PurePosixPath(path).suffix
    return suffix if SUFFIX.fullmatch(suffix) else ""


def fill_names(names: Sequence[str | None], suffix: str) -> list[str]:
    """`names` with a new name for each None that sorts between its neighbors: a number if one is free, otherwise the
    name before it and letters."""
    stems = [name.partition(".")[0] if name else "" for name in names]
    first = next((re.sub("[a-z]", "", stem) for stem in stems if stem), "")
    before = "0" * (len(first) or max(_DIGITS, len(str(len(names)))))
    start = 0
    while start < len(stems):
        end = next((number for number in range(start, len(stems)) if stems[number]), len(stems))
        after, count = stems[end] if end < len(stems) else "", end - start
        digits = re.sub("[a-z]", "", before)
        limit = int(re.sub("[a-z]", "", after)) if after else 10 ** len(digits)
        if int(digits) + count < limit:
            new = [f"{int(digits) + number:0{len(digits)}}" for number in range(1, count + 1)]
        else:
            stem = before
            while after and (stem + "n" >= after or after.startswith(stem + "n")):
                stem += "a"
            width = next(width for width in range(count) if len(_LETTERS) ** width >= count) if count else 0
            new = [
                "".join((f"{stem}n", *letters)) for letters in islice(product(_LETTERS, repeat=width), count)
            ]
        stems[start:end] = new
        before, start = stems[min(end, len(stems) - 1)], end + 1
    return [name or stem + suffix for name, stem in zip(names, stems, strict=True)]


def default_folder(text: SourceText) -> Path:
    """The default folder for a split of `text`: `.repoagent/splits/SLUG`, with a hash if the slug of the path may be
    ambiguous. Raises UsageError outside of a repository and for standard input."""
    if text.worktree is None or not text.path:
        what = f"{text.path} is not in a repository" if text.path else "standard input has no default folder"
        raise UsageError(f"{what}; use -o to name the folder for the segments")
    splits = layout(text.worktree).splits
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", text.path).strip("-.")[:80]
    try:
        used = slug != text.path.replace("/", "-") or (
            read_index(splits / slug, missing_ok=True).source.path != text.path
        )
    except RepoagentError:  # no split, or reported when the folder is written
        used = False
    hashed = f"{slug}-{sha1(os.fsencode(text.path), usedforsecurity=False).hexdigest()[:8]}"
    return splits / (hashed if used else slug)
