"""The text to split, how to split it, and the names of the segment files.

The text is a file of a work tree, a file outside any, or standard input. Segment files are named 001.py, 002.py, and
001n.py between these two, so that their names sort like the segments.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import sha1
from itertools import islice, product
from pathlib import Path, PurePosixPath

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.git.files import LARGEST, blob_hash, no_such_file, read_source
from repoagent.git.worktree import NoWorkTree, WorkTree, layout_of, open_worktree, relative_path
from repoagent.split import folder_index
from repoagent.split.folder_index import IndexedSource, SplitIndex, digest
from repoagent.split.pack import TARGET_BYTES, Segment
from repoagent.split.splitter import Span, cut_into_spans, describe_segments
from repoagent.syntax.languages import language_of, load_grammar
from repoagent.syntax.parser import UTF8_MARK, WIDE_MARKS
from repoagent.syntax.symbol import Symbol

_SAMPLE = 8000  # bytes; as many as git reads to recognize a binary file


@dataclass(frozen=True)
class SourceText:
    """The text to split; `path` as in `IndexedSource`. `worktree` is None outside of a repository."""

    path: str
    data: bytes
    worktree: WorkTree | None = None


def find_worktree(cwd: Path) -> WorkTree | None:
    """The work tree of `cwd`; None outside of one. Raises UsageError if git refuses the repository."""
    try:
        return open_worktree(cwd)
    except NoWorkTree:
        return None


def find_text(name: str, cwd: Path) -> SourceText:
    """Read the file `name`, relative to `cwd`. Outside of a work tree, symbolic links are followed. Raises UsageError
    if the file is missing or a folder, Refused if it cannot or must not be read."""
    full = cwd / name
    folder = Path(os.path.realpath(full.parent))
    worktree = find_worktree(cwd)
    if worktree is None or not folder.is_relative_to(worktree.top):
        worktree = find_worktree(folder) if folder.is_dir() else None
    if worktree is None or not folder.is_relative_to(worktree.top):  # with GIT_DIR set, it may be another
        real = os.path.realpath(full)
        return SourceText(real, _read_anywhere(real))
    path = relative_path(worktree, name, cwd)
    data = read_source(worktree, path).data
    if data is None:
        raise no_such_file(path, worktree.top)
    return SourceText(path, data, worktree)


def current_source(index: SplitIndex, cwd: Path) -> SourceText:
    """The current text of the source of a split. Raises UsageError if the source is missing or was standard input."""
    path, shown = index.source.path, folder_index.display_path(index.folder, cwd)
    if not path:
        raise UsageError(
            f"{shown} was split from standard input; pass the new text on standard input, with `-`"
        )
    if path.startswith("/"):
        return SourceText(path, _read_anywhere(path))
    worktree = worktree_of(index, cwd)
    if worktree is None:
        raise UsageError(f"{path}, the source of {shown}, is in a repository; run the command there")
    data = read_source(worktree, path).data
    if data is None:
        raise UsageError(missing_source_message(index, cwd))
    return SourceText(path, data, worktree)


def missing_source_message(index: SplitIndex, cwd: Path) -> str:
    at = folder_index.quoted_path(index.folder, cwd)
    return (
        f"{index.source.path} no longer exists; restore it (`git restore`), or if it was renamed, run "
        f"`repoagent split NAME --refresh {at}` with its new name"
    )


def worktree_of(index: SplitIndex, cwd: Path) -> WorkTree | None:
    """The work tree to which the source's path is relative: that of `cwd` if the split is in its `.repoagent`;
    otherwise the split's own (which may be a submodule), or that of `cwd` if the split is outside of all work trees."""
    current = find_worktree(cwd)
    if current and index.folder.is_relative_to(layout_of(current).root):
        return current
    return find_worktree(index.folder) or current


def _read_anywhere(path: str) -> bytes:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Refused(f"{path} is a special file; pass its text on standard input, with `-`")
            if status.st_size > LARGEST:
                raise Refused(f"{path} has {status.st_size:,} bytes; the limit for `split` is {LARGEST:,}")
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise no_such_file(path, Path.cwd()) from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder; name a file in it") from None
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from error


def source_of(text: SourceText) -> IndexedSource:
    data = text.data
    crlf = data.count(b"\r\n")
    counts = {"lf": data.count(b"\n") - crlf, "crlf": crlf, "cr": data.count(b"\r") - crlf}
    used = [name for name, count in counts.items() if count]
    bom = data.startswith(UTF8_MARK)
    encoding = "utf-8"
    if is_binary(data):
        encoding = "binary"
    elif not bom:
        try:
            data.decode()
        except UnicodeDecodeError:
            encoding = "unknown-8bit"
    return IndexedSource(
        path=text.path,
        blob=blob_hash(data, text.worktree.object_format if text.worktree else "sha1"),
        sha256=digest(data),
        size=len(data),
        encoding=encoding,
        bom=bom,
        line_ending="none" if not used else used[0] if len(used) == 1 else "mixed",
        final_newline=data.endswith((b"\n", b"\r")),
    )


def is_binary(data: bytes) -> bool:
    """Whether git would call `data` binary: a NUL in the first 8,000 bytes, without a byte-order mark."""
    return b"\0" in data[:_SAMPLE] and not data.startswith(UTF8_MARK)


def wide_encoding(data: bytes) -> str:
    """ "UTF-16" or "UTF-32" for a text with its byte-order mark, otherwise "". Without the mark, such a text counts as
    binary."""
    return next((name for mark, name in WIDE_MARKS.items() if data.startswith(mark)), "")


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
        """The language whose grammar parses `text`; None if there is none."""
        if self.language is not None:
            return None if self.language == PLAIN else self.language
        return language_of(text.path, text.data)


def check_options(options: SplitOptions) -> None:
    """Raise UsageError for an unknown language or a target out of range."""
    if not _LEAST_TARGET <= options.target <= _MOST_TARGET:
        raise UsageError(
            f"--target-bytes must be between {_LEAST_TARGET} and {_MOST_TARGET:,}, not {options.target}"
        )
    if options.language not in (None, PLAIN):
        load_grammar(str(options.language))


def check_text(text: SourceText, options: SplitOptions) -> None:
    """Raise Refused for UTF-16 and UTF-32, and for a binary file unless the options name a language."""
    name = text.path or "standard input"
    if encoding := wide_encoding(text.data):
        raise Refused(f"cannot split {encoding} text; save {name} as UTF-8 first")
    if options.language is None and is_binary(text.data):
        raise Refused(
            f"{name} looks binary; if it is text, use --language NAME (`{PLAIN}` if no language fits)"
        )


def cut_text(
    text: SourceText, options: SplitOptions, kept: Iterable[int] = ()
) -> tuple[list[Span], Callable[[], Sequence[Symbol]]]:
    """The cuts of a text as in `repoagent.split.splitter.cut_into_spans`; those in `kept` are preferred if they are
    good."""
    plain = options.language == PLAIN
    return cut_into_spans(
        "" if plain else text.path,
        text.data,
        target=options.target,
        natural=options.natural,
        language=None if plain else options.language,
        kept=tuple(kept),
    )


def new_index(
    text: SourceText, options: SplitOptions, folder: Path, segments: Sequence[Segment] | None = None
) -> SplitIndex:
    """The index of a split of `text` into `folder`. Without `segments`, `text` is cut into new ones."""
    if segments is None:
        spans, symbols = cut_text(text, options)
        names = fill_names([None] * len(spans), suffix_of(text.path))
        parts = describe_segments(text.data, spans, options.target, symbols())
        segments = [replace(part, file=name) for part, name in zip(parts, names, strict=True)]
    language = options.language_of(text)
    return SplitIndex(folder, source_of(text), language, options.target, options.natural, tuple(segments))


def suffix_of(path: str) -> str:
    """The suffix for the segments of `path`: the suffix of `path` if it is simple, otherwise ""."""
    suffix = PurePosixPath(path).suffix
    return suffix if folder_index.SUFFIX.fullmatch(suffix) else ""


def fill_names(names: Sequence[str | None], suffix: str) -> list[str]:
    """`names`, with each None replaced by a new name that sorts between its neighbors: a number if one is free,
    otherwise the name before it with letters appended."""
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
        problem = (
            f"{text.path} is not in a repository" if text.path else "standard input has no default folder"
        )
        raise UsageError(f"{problem}; use -o to name the folder for the segments")
    splits = layout_of(text.worktree).splits
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", text.path).strip("-.")[:80]
    try:
        used = slug != text.path.replace("/", "-") or (
            folder_index.read_index(splits / slug, missing_ok=True).source.path != text.path
        )
    except RepoagentError:  # no split, or reported when the folder is written
        used = False
    hashed = f"{slug}-{sha1(os.fsencode(text.path), usedforsecurity=False).hexdigest()[:8]}"
    return splits / (hashed if used else slug)
