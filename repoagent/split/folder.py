"""Plan a split: find the source text, cut it, and name the segment files.

The source is a file of a work tree, a file outside of any, or standard input. Segment files are named 001.py, 002.py,
and 001n.py between these two, so that their names sort like the segments.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from hashlib import sha1
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.git.files import LARGEST, blob_hash, read_source
from repoagent.git.process import git
from repoagent.git.similar_paths import no_such_file
from repoagent.git.worktree import NoWorkTree, WorkTree, layout, open_worktree, relative
from repoagent.split.folder_index import (
    SUFFIX,
    Index,
    IndexedSegment,
    IndexedSource,
    digest,
    display_path,
    quoted_path,
    read_index,
)
from repoagent.split.pack import TARGET_BYTES, Segment
from repoagent.split.splitter import segments
from repoagent.syntax.languages import grammar, language_of
from repoagent.syntax.parser import UTF8_MARK, WIDE_MARKS

_DIGITS = 3
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MORE = 25  # all but the first: nothing would sort before a name that ends in it


def suffix_of(path: str) -> str:
    """The suffix for the segments of `path`: its own, if it is simple."""
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
    """`count` stems in order after `before` and, if it is not "", before `after`: numbers, or else letters."""
    digits = before.rstrip(_LETTERS)
    limit = int(after.rstrip(_LETTERS)) if after else 10 ** len(digits)
    if int(digits) + count < limit:
        return [f"{int(digits) + number:0{len(digits)}}" for number in range(1, count + 1)]
    stem = digits + _middle(before[len(digits) :], after[len(digits) :] if after.startswith(digits) else "")
    width = 0
    while _MORE**width < count:
        width += 1
    places = [_MORE**place for place in reversed(range(width))]
    return [
        stem + "".join(_LETTERS[1 + number // place % _MORE] for place in places) for number in range(count)
    ]


def _middle(low: str, high: str) -> str:
    """A word between two, as a fraction between two fractions in base 26; "" for `high` is one."""
    word = ""
    place = 0
    while True:
        least = _LETTERS.index(low[place]) if place < len(low) else 0
        most = _LETTERS.index(high[place]) if place < len(high) else len(_LETTERS)
        if most - least > 1:
            return word + _LETTERS[(least + most) // 2]
        word += _LETTERS[least]
        if most > least:
            high = ""
        place += 1


@dataclass(frozen=True)
class SourceText:
    """The text to split; `path` as in `IndexedSource`. `worktree` is None outside of a repository."""

    path: str
    data: bytes
    worktree: WorkTree | None = None

    @property
    def blob(self) -> str:
        return blob_hash(self.data, self.worktree.object_format if self.worktree else "sha1")


def find_worktree(cwd: Path) -> WorkTree | None:
    """The work tree of `cwd`; None outside of one. Raises UsageError if git refuses the repository."""
    try:
        return open_worktree(cwd)
    except NoWorkTree:
        return None


def find_text(name: str, cwd: Path) -> SourceText:
    """Read the file `name`, relative to `cwd`.

    In a work tree it must be a file of it, see `read_source`; outside of any, symbolic links are followed. Raises
    UsageError if it is missing or a folder, Refused if it cannot or must not be read.
    """
    full = cwd / name
    folder = Path(os.path.realpath(full.parent))
    worktree = find_worktree(cwd)
    if worktree is None or not folder.is_relative_to(worktree.top):
        worktree = find_worktree(folder) if folder.is_dir() else None
    if worktree is None or not folder.is_relative_to(worktree.top):  # with GIT_DIR set, it may be another
        real = Path(os.path.realpath(full))
        return SourceText(str(real), _read_anywhere(real, name))
    return _in_worktree(worktree, relative(worktree, name, cwd))


def current_source(index: Index, cwd: Path) -> SourceText:
    """The current text of the source of a split. Raises UsageError if it was standard input, or is missing (and says
    where it may be)."""
    path = index.source.path
    if not path:
        raise UsageError(
            f"{display_path(index.folder, cwd)} was split from standard input; pass the new text as `-`"
        )
    if path.startswith("/"):
        return SourceText(path, _read_anywhere(Path(path), path))
    worktree = worktree_of(index, cwd)
    if worktree is None:
        raise UsageError(
            f"{path}, the source of {display_path(index.folder, cwd)}, is in a repository; run the command there"
        )
    source = read_source(worktree, path)
    if source.data is None:
        raise UsageError(missing_source_message(worktree, index, cwd))
    return SourceText(path, source.data, worktree)


def missing_source_message(worktree: WorkTree, index: Index, cwd: Path) -> str:
    """What to do if the source no longer exists, as a sentence."""
    path = index.source.path
    at = quoted_path(index.folder, cwd)
    for entry in git(worktree.top, "ls-files", "-s", "-z").split(b"\0"):
        fields, _, name = entry.partition(b"\t")
        if index.source.blob.encode() in fields.split(b" "):
            found = worktree.top / os.fsdecode(name)
            return (
                f"{path} no longer exists, but {os.fsdecode(name)} has the same text; if it was renamed, run "
                f"`repoagent split {quoted_path(found, cwd)} --refresh {at}`"
            )
    return (
        f"{path} no longer exists; restore it (`git restore`), or if it was renamed, run "
        f"`repoagent split NAME --refresh {at}` with its new name"
    )


def worktree_of(index: Index, cwd: Path) -> WorkTree | None:
    """The work tree that the path of the source is relative to: that of `cwd` if the split is in its `.repoagent`, else
    that of the split (which may be a submodule), else that of `cwd`."""
    here = find_worktree(cwd)
    if here and index.folder.is_relative_to(layout(here).root):
        return here
    return find_worktree(index.folder) or here


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


def _in_worktree(worktree: WorkTree, path: str) -> SourceText:
    source = read_source(worktree, path)
    if source.data is None:
        raise no_such_file(path, worktree.top)
    return SourceText(path, source.data, worktree)


def _read_anywhere(path: Path, name: str) -> bytes:
    """The bytes of a file that is not in a repository."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise no_such_file(path, Path.cwd()) from None
    except OSError as error:
        raise Refused(f"cannot read {name}: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{name} is a folder; name a file in it")
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{name} is a special file; pass its text on standard input, with `-`")
        if status.st_size > LARGEST:
            raise Refused(
                f"{name} is too large to split: it has {status.st_size:,} bytes, the limit is {LARGEST:,}"
            )
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


_LOOK = 8000  # bytes; as many as git looks at to tell text from binary


class Facts(NamedTuple):
    """Text properties, as in `IndexedSource`."""

    encoding: str
    bom: bool
    line_ending: str
    final_newline: bool


def facts_of(data: bytes) -> Facts:
    """Detect the properties of a text."""
    encoding, bom = _encoding(data)
    crlf = data.count(b"\r\n")
    counts = {"lf": data.count(b"\n") - crlf, "crlf": crlf, "cr": data.count(b"\r") - crlf}
    used = [name for name, count in counts.items() if count]
    ending = "none" if not used else used[0] if len(used) == 1 else "mixed"
    return Facts(encoding, bom, ending, data.endswith((b"\n", b"\r")))


def wide_encoding(data: bytes) -> str:
    """ "UTF-16" or "UTF-32" for a text with their byte-order mark or their pattern of NUL bytes; else ""."""
    for mark, name in WIDE_MARKS.items():
        if data.startswith(mark):
            return name
    sample = data[: _LOOK - _LOOK % 4]
    nuls = [sample[n::4].count(0) * 4 / max(len(sample), 1) for n in range(4)]
    if min(nuls[0] + nuls[2], nuls[1] + nuls[3]) < 0.02 and sum(nuls) >= 1.4:
        return "UTF-16"
    return "UTF-32" if min(nuls[0], nuls[3]) < 0.05 and sum(nuls) > 2.5 else ""


def _encoding(data: bytes) -> tuple[str, bool]:
    if data.startswith(UTF8_MARK):
        return "utf-8", True
    if b"\0" in data[:_LOOK]:
        return "binary", False
    try:
        data.decode()
    except UnicodeDecodeError:
        return "unknown-8bit", False
    return "utf-8", False


PLAIN = "text"  # the `--language` for text without a grammar
_LEAST_TARGET, _MOST_TARGET = 64, 1 << 30


@dataclass(frozen=True)
class SplitOptions:
    """How to split: the bytes per segment, whether each outermost unit gets a segment of its own, and the language if
    the path does not imply it."""

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
    if options.language is None and facts_of(text.data[:8000]).encoding == "binary":
        raise Refused(
            f"{name} looks binary; if it is text, use --language ({PLAIN} for text without a grammar)"
        )


def cut_text(text: SourceText, options: SplitOptions, kept: Iterable[int] = ()) -> tuple[Segment, ...]:
    """The segments of a text, with the cuts `kept` where they are good."""
    plain = options.language == PLAIN
    return segments(
        "" if plain else text.path,
        text.data,
        target=options.target,
        natural=options.natural,
        language=None if plain else options.language,
        kept=tuple(kept),
    )


def new_index(text: SourceText, options: SplitOptions, folder: Path) -> Index:
    """The index for the first split of `text` into `folder`."""
    found = cut_text(text, options)
    names = fill_names([None] * len(found), suffix_of(text.path))
    listed = tuple(indexed(one, name, text.data) for one, name in zip(found, names, strict=True))
    return Index(folder, source_of(text), language(text, options), options.target, options.natural, listed)


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


def source_of(text: SourceText) -> IndexedSource:
    return IndexedSource(text.path, text.blob, digest(text.data), len(text.data), *facts_of(text.data))


def language(text: SourceText, options: SplitOptions) -> str | None:
    if options.language is not None:
        return None if options.language == PLAIN else options.language
    return language_of(text.path, text.data)
