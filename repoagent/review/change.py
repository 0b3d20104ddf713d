"""The change under review: which files, their blobs before and after, and the lines that differ."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Literal, NamedTuple

from repoagent.dataclass import dataclass

Status = Literal["added", "modified", "deleted", "renamed", "copied", "type changed"]
Kind = Literal["staged", "worktree", "range", "commit", "diff"]


class Lines(NamedTuple):
    """A hunk without context: `removed` starts at line `old` of the text before, `added` at line `new` of the text
    after (from 1; for an empty side the number of the line before). Lines are bytes with their line ending."""

    old: int
    removed: tuple[bytes, ...]
    new: int
    added: tuple[bytes, ...]


class ChangedFile(NamedTuple):
    """One file of the change. Blobs are full object names, "" for none and for a side that is not in the object
    database; modes are octal as in git, "" for none."""

    path: str  # after the change, or before it if deleted; relative to the top, decoded with os.fsdecode
    status: Status
    old_path: str  # differs from `path` only if renamed or copied
    old_blob: str
    new_blob: str
    old_mode: str
    new_mode: str


def split_lines(text: bytes) -> list[bytes]:
    """The lines with their endings; as in git, only a line feed ends one."""
    return io.BytesIO(text).readlines()


@dataclass(frozen=True, eq=False, repr=False)
class Change:
    """The change to review. Texts and lines are read on demand; checks of the history often need the names only."""

    kind: Kind
    title: str
    files: tuple[ChangedFile, ...]
    base: str  # commit; "" on an unborn branch and for a diff
    head: str  # commit; "" for the index, the work tree and a diff
    message: str  # of the commit or commits, "" when there is none yet
    earlier: frozenset[str]  # paths changed earlier on the branch, or within the range
    author: bytes  # "Name <mail>"; b"" if unknown
    read_old: Callable[[ChangedFile], bytes | None]  # the text before; None if missing
    read_new: Callable[[ChangedFile], bytes | None]
    read_lines: Callable[[ChangedFile], tuple[Lines, ...]]  # empty for a binary file
    own: bool = False  # the user pushes it, so its dismissals count
