"""What `git log -z --raw --numstat` prints for one file, as values."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

# Commit, parents, short name, author by .mailmap, author date, subject; -z ends it with a NUL.
LOG_FORMAT = "%H%x00%P%x00%h%x00%aN%x00%aI%x00%s"
_FIELDS = 6
_HASH = re.compile(rb"\n?([0-9a-f]{40}|[0-9a-f]{64})")
_RAW = re.compile(rb"\n?:\d+ \d+ [0-9a-f]+ [0-9a-f]+ ([A-Z])\d*")
_COUNTS = re.compile(rb"\n?(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)


@dataclass(frozen=True)
class FileCommit:
    """One commit that changed a file.

    `date` is the author's, ISO 8601. `added` and `removed` are lines of this file, None for a binary file or
    where git could not tell. `path` is what the file was called in it, `status` git's letter (A, M, D, T; R
    for a rename).
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
        parents, short, author, date, subject = tokens[place + 1 : place + _FIELDS]
        place += _FIELDS
        status, added, removed = "M", None, None
        while place < len(tokens) and not _HASH.fullmatch(tokens[place]):
            if raw := _RAW.fullmatch(tokens[place]):
                status = raw[1].decode()
                place += 1  # its path
            elif counts := _COUNTS.fullmatch(tokens[place]):
                added, removed = _number(counts[1]), _number(counts[2])
            place += 1
        commits.append(
            FileCommit(
                commit[1].decode(),
                _text(short),
                _text(author),
                _text(date),
                _text(subject),
                added,
                removed,
                path,
                status,
                tuple(_text(parents).split()),
            )
        )
    return commits


def renamed_from(data: bytes, path: str) -> tuple[str, int | None, int | None] | None:
    """The old name of `path` and the lines added and removed, from `diff-tree -z -M --numstat --diff-
    filter=R`."""
    tokens = data.split(b"\0")
    for place in range(0, len(tokens) - 2, 3):
        counts = _COUNTS.fullmatch(tokens[place])
        if counts and tokens[place + 2] == os.fsencode(path):
            return os.fsdecode(tokens[place + 1]), _number(counts[1]), _number(counts[2])
    return None


def _number(digits: bytes) -> int | None:
    return None if digits == b"-" else int(digits)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
