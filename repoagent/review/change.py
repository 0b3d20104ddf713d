"""The change under review: which files, their blobs before and after, and the lines that differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from repoagent.dataclass import dataclass

Status = Literal["added", "modified", "deleted", "renamed", "copied", "type changed"]
Kind = Literal["staged", "worktree", "range", "commit", "diff"]


class Lines(NamedTuple):
    """A hunk without context: `removed` stood from `old` on, `added` stands from `new` on (line numbers from 1; for
    no lines the number of the line before). Lines are bytes with their line ending."""

    old: int
    removed: tuple[bytes, ...]
    new: int
    added: tuple[bytes, ...]


class ChangedFile(NamedTuple):
    """One file of the change. Blobs are full object names, "" for none (and for a side that is not in the object
    database); modes are as git writes them in octal, "" for none."""

    path: str  # after the change; of a deleted file, before it; relative to the top, decoded with os.fsdecode
    status: Status
    old_path: str  # another one only for renamed and copied
    old_blob: str
    new_blob: str
    old_mode: str
    new_mode: str


@dataclass(frozen=True, eq=False, repr=False)
class Change:
    """What is reviewed. The two readers are asked when the lines are needed; history alone needs the names only."""

    kind: Kind
    title: str
    files: tuple[ChangedFile, ...]
    base: str  # commit that the change starts from; "" on an unborn branch and for a bare diff
    head: str  # commit that it ends in; "" for the index, the work tree and a bare diff
    message: str  # of the commit or commits, "" when there is none yet
    earlier: frozenset[
        str
    ]  # paths that were changed on the same branch before this change, or within the range
    author: bytes  # "Name <mail>" of who makes it; b"" unknown
    read_old: Callable[
        [ChangedFile], bytes | None
    ]  # the text before; None: there is none, or it is not at hand
    read_new: Callable[[ChangedFile], bytes | None]
    read_lines: Callable[[ChangedFile], tuple[Lines, ...]]  # empty for a binary file
    own: bool = False  # the person who reviews it vouches for it, as for what they push: its dismissals count
