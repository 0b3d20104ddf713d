"""List files for a model: tracked and untracked ones, without ignored and withheld ones."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.edit.guards.off_limits import WhyNot
from repoagent.errors import UsageError
from repoagent.git.files import check_path
from repoagent.git.process import git

LISTED = 100  # files and folders of one answer
_NARROWER = 4  # folders that are named to look further in
_LONGEST = 300  # characters of a pattern
_MOST_FORMS = 50  # that braces in a pattern stand for


@dataclass(frozen=True)
class File:
    """A file of the work tree; `modified` is its modification time in seconds since the epoch."""

    path: str
    size: int
    modified: float
    tracked: bool
    kind: str = ""  # "link" or "submodule"; "" for a file


@dataclass(frozen=True)
class Listing:
    """The content of a folder, or the files below it that match a pattern. `folders` has the number of files below
    each folder, `more` what was omitted, by the folder to search in; `withheld` counts files that may not be
    shown."""

    files: Sequence[File] = ()
    folders: Mapping[str, int] = field(default_factory=dict)
    more: Mapping[str, int] = field(default_factory=dict)
    withheld: int = 0


def list_files(
    top: Path, why_not: WhyNot, path: str = "", pattern: str = "", *, most: int = LISTED
) -> Listing:
    """List the folder `path` ("" is the top): its files, and its folders with their number of files. With a `pattern`
    (a glob; without a slash it matches names at any depth) list all matching files below `path`.

    Raises UsageError for an unknown path and a pattern that is too long, Refused for a path outside the repository.
    """
    path = path.strip().removeprefix("./").rstrip("/")
    path = "" if path == "." else path
    pattern = pattern.strip().removeprefix("./")
    if path:
        check_path(path)
        if (reason := why_not(path)) is not None:
            raise UsageError(reason)
    if len(pattern) > _LONGEST or "\0" in pattern:
        raise UsageError(f"the pattern is longer than {_LONGEST} characters: use a shorter one")
    found, withheld = _names(top, why_not, _pathspecs(path, pattern))
    if path in found:
        return Listing(tuple(_files(top, [path], found)))
    if path and not found and not withheld and not (top / path).is_dir():
        raise UsageError(f"there is no folder {path}")
    prefix = f"{path}/" if path else ""
    names, folders = list(found), Counter[str]()
    if not pattern:
        folders.update(_folder(name, prefix) for name in found)
        names = [name for name in found if not _folder(name, prefix)]
        del folders[""]
    listed = dict(list(folders.items())[:most])
    room = most - len(listed)
    more = Counter(_folder(name, prefix) for name in names[room:])
    more.update({folder: count for folder, count in folders.items() if folder not in listed})
    return Listing(tuple(_files(top, names[:room], found)), listed, more, withheld)


def listing_text(listing: Listing) -> str:
    """One line for each entry: name, size, day of the last change."""
    rows = [f"{_row(folder)}/  {_count(count)}" for folder, count in listing.folders.items()]
    for file in listing.files:
        day = datetime.fromtimestamp(file.modified, timezone.utc).strftime("%Y-%m-%d")
        marks = "".join(f"  {mark}" for mark in (file.kind, "" if file.tracked else "untracked") if mark)
        rows.append(f"{_row(file.path)}  {_size(file.size)}  {day}{marks}")
    return "\n".join(rows)


def left_out_text(listing: Listing) -> str:
    """How many entries were omitted and how to narrow the search; "" for none."""
    lines = []
    if left := sum(listing.more.values()):
        largest = sorted(listing.more.items(), key=lambda item: (-item[1], item[0]))
        where = ", ".join(f'path="{_row(name)}" ({count})' for name, count in largest[:_NARROWER] if name)
        narrow = f"{where} or a pattern" if where else "a pattern"
        lines.append(f"{_count(left)} omitted: narrow the search with {narrow}.")
    if listing.withheld:
        lines.append(f"{_count(listing.withheld)} withheld.")
    return "\n".join(lines)


def _pathspecs(path: str, pattern: str) -> list[str]:
    """What git is asked for: everything below `path`, or what matches there."""
    if not pattern:
        return [f":(top,literal){path}"] if path else []
    base = re.sub(r"([\\*?\[])", r"\\\1", path) + "/" if path else ""
    forms = list(islice(_forms(pattern.lstrip("/")), _MOST_FORMS + 1))
    if len(forms) > _MOST_FORMS:
        raise UsageError("the pattern expands to too many patterns: use fewer braces")
    return [f":(top,glob){base}{form if '/' in form else f'**/{form}'}" for form in forms]


def _forms(pattern: str) -> Iterator[str]:
    """The patterns that braces stand for, which git does not know: `*.{c,h}` is `*.c` and `*.h`."""
    braces = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if braces is None:
        yield pattern
        return
    for word in braces[1].split(","):
        yield from _forms(pattern[: braces.start()] + word + pattern[braces.end() :])


def _names(top: Path, why_not: WhyNot, pathspecs: Iterable[str]) -> tuple[dict[str, bool], int]:
    """The files with whether git tracks them, and how many may not be shown."""
    kinds = ("--cached", "--others", "--deleted", "--exclude-standard")
    data = git(top, "--no-literal-pathspecs", "ls-files", "-z", "-t", *kinds, "--", *pathspecs)
    found: dict[str, bool] = {}
    withheld, gone = set(), set()
    for row in data.split(b"\0"):
        name = os.fsdecode(row[2:]).rstrip("/")  # a repository inside of this one ends in a slash
        if row[:1] in {b"R", b"S"}:  # deleted, or left out of a sparse checkout
            gone.add(name)
        elif name and name not in found:
            if why_not(name) is None:
                found[name] = row[:1] != b"?"
            else:
                withheld.add(name)
    return {name: found[name] for name in sorted(found) if name not in gone}, len(withheld - gone)


def _files(top: Path, names: Iterable[str], tracked: Mapping[str, bool]) -> Iterator[File]:
    for name in names:
        try:
            status = os.lstat(top / name)
        except (FileNotFoundError, NotADirectoryError):  # deleted just now
            continue
        folder = stat.S_ISDIR(status.st_mode)
        kind = "submodule" if folder else "link" if stat.S_ISLNK(status.st_mode) else ""
        yield File(name, 0 if folder else status.st_size, status.st_mtime, tracked[name], kind)


def _folder(name: str, prefix: str) -> str:
    """The folder below `prefix` that a file is in; "" for a file that is in `prefix` itself."""
    head, slash, _ = name[len(prefix) :].partition("/")
    return prefix + head if slash else ""


def _row(path: str) -> str:
    """A path on one line, in which no name can pass for another row."""
    return path if path.isprintable() else ascii(path)[1:-1]


def _count(count: int) -> str:
    return f"{count:,} file{'s' * (count != 1)}"


def _size(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size / 1024:.0f} KB" if size < 1024 * 1024 else f"{size / 1024 / 1024:.1f} MB"
