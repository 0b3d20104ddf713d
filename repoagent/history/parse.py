"""What `git log -z --raw --numstat` prints for one file, as values."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from repoagent.dataclass import dataclass

# Commit, parents, short name, author by .mailmap, author date, subject, address; -z ends it with a NUL.
LOG_FORMAT = "%H%x00%P%x00%h%x00%aN%x00%aI%x00%s%x00%aE"
_FIELDS = 7
_HASH = re.compile(rb"\n?([0-9a-f]{40}|[0-9a-f]{64})")
RAW = re.compile(rb"\n?:(\d+) (\d+) ([0-9a-f]+) ([0-9a-f]+) ([A-Z])\d*")
COUNTS = re.compile(rb"\n?(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)


@dataclass(frozen=True)
class FileCommit:
    """One commit that changed a file.

    `date` is the author's, ISO 8601. `added` and `removed` are lines of this file, None for a binary file or
    where git could not tell. `path` is what the file was called in it, `status` git's letter (A, M, D, T; R
    for a rename). `before` and `after` are ids of blobs, "" for no file or where it is not known; modes are git's,
    in octal. `touched` are the paths that changed: the file's own, or those below a directory. `was` is the path before
    a rename, "" where there was none or it is not known.
    """

    commit: str
    short: str
    author: str
    date: str
    subject: str
    added: int | None
    removed: int | None
    path: str = ""
    status: str = "M"
    parents: tuple[str, ...] = ()
    email: str = ""
    before: str = ""
    after: str = ""
    old_mode: str = ""
    new_mode: str = ""
    touched: tuple[str, ...] = ()
    was: str = ""


@dataclass(frozen=True)
class Origin:
    """What a renamed file was before: its path, the blob and mode of then, and the lines that the rename changed."""

    path: str
    added: int | None
    removed: int | None
    blob: str = ""
    mode: str = ""


def parse_log(data: bytes, path: str) -> list[FileCommit]:
    """The commits in the output of a log of `path`; a last one that was cut off is left out.

    Text that is no UTF-8 is decoded with replacement characters.
    """
    tokens = data.split(b"\0")[:-1]  # what has no NUL behind it is not whole
    commits: list[FileCommit] = []
    place = 0
    while place + _FIELDS <= len(tokens):
        commit = _HASH.fullmatch(tokens[place])
        if commit is None:
            place += 1
            continue
        parents, short, author, date, subject, email = tokens[place + 1 : place + _FIELDS]
        place += _FIELDS
        raws: list[re.Match[bytes]] = []
        paths: list[bytes] = []
        counts: list[re.Match[bytes]] = []
        while place < len(tokens) and not _HASH.fullmatch(tokens[place]):
            if raw := RAW.fullmatch(tokens[place]):
                raws.append(raw)
                paths += tokens[place + 1 : place + 2]
                place += 1  # its path
            elif count := COUNTS.fullmatch(tokens[place]):
                counts.append(count)
            place += 1
        one = raws[0] if len(raws) == 1 else None
        commits.append(
            FileCommit(
                commit[1].decode(),
                _text(short),
                _text(author),
                _text(date),
                _text(subject),
                _sum(count[1] for count in counts),
                _sum(count[2] for count in counts),
                path,
                one[5].decode() if one else "M",
                tuple(_text(parents).split()),
                _text(email),
                _blob(one[3]) if one else "",
                _blob(one[4]) if one else "",
                one[1].decode() if one else "",
                one[2].decode() if one else "",
                tuple(os.fsdecode(path) for path in paths),
            )
        )
    return commits


def renamed(data: bytes, path: str, *, forward: bool = False) -> Origin | None:
    """Where `path` came from, from the output of `diff-tree -z -M --raw --numstat --diff-filter=R`; with `forward`
    where it went."""
    tokens = data.split(b"\0")
    mine, other = (1, 2) if forward else (2, 1)
    blob = mode = ""
    for place in range(len(tokens) - 2):
        if tokens[place + mine] != os.fsencode(path):
            continue
        if raw := RAW.fullmatch(tokens[place]):
            blob, mode = _blob(raw[3]), raw[1].decode()
        elif (counts := COUNTS.fullmatch(tokens[place])) and not counts[3]:
            return Origin(
                os.fsdecode(tokens[place + other]), number(counts[1]), number(counts[2]), blob, mode
            )
    return None


def _sum(numbers: Iterable[bytes]) -> int | None:
    """Of lines in several files: None where none was counted, or one is binary."""
    counted = [number(digits) for digits in numbers]
    known = [count for count in counted if count is not None]
    return sum(known) if known and len(known) == len(counted) else None


def _blob(oid: bytes) -> str:
    return oid.decode() if oid.strip(b"0") else ""


def number(digits: bytes) -> int | None:
    """What `--numstat` says of lines; None of a binary file."""
    return None if digits == b"-" else int(digits)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
