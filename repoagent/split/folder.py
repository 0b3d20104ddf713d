"""The names of segment files: 001.py, 002.py; between two of them 001n.py. They sort as the segments do.

Find what is to be split: a file of a work tree, one outside of any, or standard input.

What a text is: its encoding, its line ending, its end. All that a split has to give back as it was.

From a text and its segments to an index and the files of a split.
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
    near,
    quoted,
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
    """The suffix that the segments of `path` have: its own, if it is a plain one."""
    suffix = PurePosixPath(path).suffix
    return suffix if SUFFIX.fullmatch(suffix) else ""


def fill(names: Sequence[str | None], suffix: str) -> list[str]:
    """`names` with one for each None, which sorts between its neighbours."""
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
class Text:
    """What is split: `path` as `IndexedSource` has it, and the bytes. `worktree` is None outside of a repository."""

    path: str
    data: bytes
    worktree: WorkTree | None = None

    @property
    def blob(self) -> str:
        return blob_hash(self.data, self.worktree.object_format if self.worktree else "sha1")


def find_worktree(cwd: Path) -> WorkTree | None:
    """The work tree of `cwd`; None outside of one. Raises UsageError where git refuses the repository."""
    try:
        return open_worktree(cwd)
    except NoWorkTree:
        return None


def find_text(name: str, cwd: Path) -> Text:
    """The file that a person in `cwd` calls `name`, read.

    In a work tree it must be a file of it: see `read_source`. Outside of any, symbolic links are followed.
    Raises UsageError for one that is missing or a folder, Refused for what can't or must not be read.
    """
    full = cwd / name
    folder = Path(os.path.realpath(full.parent))
    worktree = find_worktree(cwd)
    if worktree is None or not folder.is_relative_to(worktree.top):
        worktree = find_worktree(folder) if folder.is_dir() else None
    if worktree is None or not folder.is_relative_to(worktree.top):  # with GIT_DIR set, it may be another
        real = Path(os.path.realpath(full))
        return Text(str(real), _read_anywhere(real, name))
    return _in_worktree(worktree, relative(worktree, name, cwd))


def text_of(index: Index, cwd: Path) -> Text:
    """The source of a split as it is now. Raises UsageError when it was standard input, or is gone (and says where
    it may be)."""
    path = index.source.path
    if not path:
        raise UsageError(f"{near(index.folder, cwd)} was split from standard input: give the new text as `-`")
    if path.startswith("/"):
        return Text(path, _read_anywhere(Path(path), path))
    worktree = worktree_of(index, cwd)
    if worktree is None:
        raise UsageError(
            f"{path}, the source of {near(index.folder, cwd)}, is a file of a repository: run this in it"
        )
    source = read_source(worktree, path)
    if source.data is None:
        raise UsageError(gone(worktree, index, cwd))
    return Text(path, source.data, worktree)


def gone(worktree: WorkTree, index: Index, cwd: Path) -> str:
    """What to do when the source is not there any more, as a sentence."""
    path = index.source.path
    at = quoted(index.folder, cwd)
    for entry in git(worktree.top, "ls-files", "-s", "-z").split(b"\0"):
        fields, _, name = entry.partition(b"\t")
        if index.source.blob.encode() in fields.split(b" "):
            found = worktree.top / os.fsdecode(name)
            return (
                f"{path} is not there any more; {os.fsdecode(name)} holds the text that was split: carry the split "
                f"over with `repoagent split {quoted(found, cwd)} --refresh {at}`"
            )
    return (
        f"{path} is not there any more: bring it back (`git restore` does, if git has it), or, where it was renamed, "
        f"say its new name: `repoagent split NAME --refresh {at}`"
    )


def worktree_of(index: Index, cwd: Path) -> WorkTree | None:
    """The work tree that the path of the source is relative to: the one around `cwd` if the split is in the
    `.repoagent` that it shares with others, else the one around the split (which may be a submodule of the other), else
    the one around `cwd` after all."""
    here = find_worktree(cwd)
    if here and index.folder.is_relative_to(layout(here).root):
        return here
    return find_worktree(index.folder) or here


def default_folder(text: Text) -> Path:
    """Where a split of `text` stands when nobody says where: in `.repoagent/splits/`, under a slug of its path, with a
    hash of it where another file has that slug or may have it.

    Raises UsageError outside of a repository, and for standard input.
    """
    if text.worktree is None or not text.path:
        what = (
            f"{text.path} is in no repository" if text.path else "standard input has no place in a repository"
        )
        raise UsageError(f"{what}: say with -o into which folder to write the segments")
    splits = layout(text.worktree).splits
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", text.path).strip("-.")[:80]
    own = f"{slug}-{sha1(os.fsencode(text.path), usedforsecurity=False).hexdigest()[:8]}"
    if slug != text.path.replace("/", "-") or _source_of(splits / slug) not in (None, text.path):
        return splits / own
    return splits / slug


def _source_of(folder: Path) -> str | None:
    """The source of the split in `folder`, if there is one that can be read."""
    try:
        return read_index(folder, missing_ok=True).source.path
    except RepoagentError:  # whoever writes there says what is wrong
        return None


def _in_worktree(worktree: WorkTree, path: str) -> Text:
    source = read_source(worktree, path)
    if source.data is None:
        raise no_such_file(path, worktree.top)
    return Text(path, source.data, worktree)


def _read_anywhere(path: Path, name: str) -> bytes:
    """The bytes of a file that is not in a repository."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise no_such_file(path, Path.cwd()) from None
    except OSError as error:
        raise Refused(f"{name} can't be read: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{name} is a folder: name a file in it")
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{name} is a special file: give its text on standard input, with `-`")
        if status.st_size > LARGEST:
            raise Refused(
                f"{name} has {status.st_size:,} bytes, and repoagent splits files up to {LARGEST:,}"
            )
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


_LOOK = 8000  # bytes; as many as git looks at to tell text from binary


class Facts(NamedTuple):
    """`encoding` and `line_ending` are those of `IndexedSource`; `final_newline` is whether the last line is ended."""

    encoding: str
    bom: bool
    line_ending: str
    final_newline: bool


def facts_of(data: bytes) -> Facts:
    """The facts of a file with the bytes `data`."""
    encoding, bom = _encoding(data)
    crlf = data.count(b"\r\n")
    counts = {"lf": data.count(b"\n") - crlf, "crlf": crlf, "cr": data.count(b"\r") - crlf}
    used = [name for name, count in counts.items() if count]
    ending = "none" if not used else used[0] if len(used) == 1 else "mixed"
    return Facts(encoding, bom, ending, data.endswith((b"\n", b"\r")))


def wide_encoding(data: bytes) -> str:
    """ "UTF-16" or "UTF-32" for a text in one of these, by its byte-order mark or where the NUL bytes of plain letters
    stand; else ""."""
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
