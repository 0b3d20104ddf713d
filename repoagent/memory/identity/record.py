"""`identity.json`: what a memory records about its file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.git.process import GitError, git
from repoagent.git.worktree import is_full_id
from repoagent.storage import json_files
from repoagent.storage.atomic import set_aside_broken
from repoagent.storage.layout import Warn, to_stderr

VERSION = 1
FILE = "identity.json"
_KEYS = 8  # most inodes, and most work trees
_BLOBS = 30  # most versions
_REKEYINGS = 100
REWRITTEN = "rewritten in place"
LINKED = "linked by hand"  # then the former path
LINKED_ANEW = "linked by hand to another text"


@dataclass(frozen=True)
class RekeyingEvent:
    """An event: a memory was tied to another path or inode, or its file was rewritten."""

    time: str
    reason: str
    path: str
    key: str
    blob: str


@dataclass(frozen=True)
class LastSeen:
    """The path and the blob of a file when it was last seen in one work tree."""

    path: str
    blob: str


@dataclass(frozen=True)
class Identity:
    """The file that a memory is about. Paths are relative to the top of the work tree.

    path: the path last seen in any work tree.
    places: for the top of each work tree, the path and version last seen there, which may differ between branches.
    keys: for each "<device>:<inode>", the top of its work tree, oldest first.
    blobs: the versions seen, newest last.
    commit: HEAD at the last edit.
    strangers: paths that a user has declared to be other files.
    """

    path: str
    earlier_paths: tuple[str, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    blobs: tuple[str, ...] = ()
    commit: str | None = None
    rekeyings: tuple[RekeyingEvent, ...] = ()
    places: Mapping[str, LastSeen] = field(default_factory=dict)
    strangers: tuple[str, ...] = ()

    def path_in(self, top: str) -> str:
        """The file's path in the work tree `top`."""
        seen = self.places.get(top)
        return self.path if seen is None else seen.path

    @property
    def blob(self) -> str:
        """The last blob seen, "" if there is none."""
        return self.blobs[-1] if self.blobs else ""

    def is_of_older_text(self, day: str, blob: str) -> bool:
        """Whether a note made on `day` (YYYY-MM-DD) about the version `blob` is about a text that has been completely
        replaced since."""
        breaks = [step for step in self.rekeyings if step.reason.startswith((REWRITTEN, LINKED_ANEW))]
        if not breaks or day > breaks[-1].time[:10]:
            return False
        newest = breaks[-1]
        if day < newest.time[:10] or not blob or newest.blob not in self.blobs:
            return True
        return not any(version.startswith(blob) for version in self.blobs[self.blobs.index(newest.blob) :])

    def seen(self, blob: str, top: str) -> Identity:
        """A copy with `blob` as the last version seen, at `path_in(top)` in the work tree `top`."""
        last = LastSeen(self.path_in(top), blob)
        if self.places.get(top) == last:
            return self
        last_seen = {name: seen for name, seen in self.places.items() if name != top} | {top: last}
        blobs = (*(version for version in self.blobs if version != blob), blob)
        return replace(self, blobs=blobs[-_BLOBS:], places=dict([*last_seen.items()][-_KEYS:]))

    def keyed(self, key: str, top: str) -> Identity:
        """A copy with `key` for the work tree `top`, replacing any other key there on the same device."""
        device = key.partition(":")[0]
        keys = {
            old: old_top
            for old, old_top in self.keys.items()
            if not (old_top == top and old.partition(":")[0] == device) and old != key
        }
        return replace(self, keys=dict([*keys.items(), (key, top)][-_KEYS:]))

    def without_key(self, key: str) -> Identity:
        """A copy without `key`, whose inode turned out to belong to another file."""
        return replace(self, keys={old: top for old, top in self.keys.items() if old != key})

    def at(self, path: str, top: str) -> Identity:
        """A copy with `path` as its path in the work tree `top`; the former path becomes an earlier one."""
        former = dict.fromkeys(old for old in (self.path, self.path_in(top)) if old != path)
        earlier = (*(old for old in self.earlier_paths if old != path and old not in former), *former)
        last_seen = dict(self.places)
        if top in last_seen:
            last_seen[top] = LastSeen(path, last_seen[top].blob)
        return replace(self, path=path, earlier_paths=earlier, places=last_seen)

    def noted(self, step: RekeyingEvent) -> Identity:
        """A copy with `step` added as the newest event; at most a hundred are kept."""
        return replace(self, rekeyings=(*self.rekeyings, step)[-_REKEYINGS:])


@dataclass(frozen=True)
class Memory:
    """The memory of one file. `reason` says how it was found; "" if by its path and content."""

    folder: Path
    identity: Identity
    reason: str = ""

    @property
    def conversation(self) -> Path:
        return self.folder / "conversation.md"

    @property
    def notes(self) -> Path:
        return self.folder / "notes.md"

    @property
    def edits(self) -> Path:
        return self.folder / "edits.jsonl"


def came_along(folder: Path) -> bool:
    """Whether git tracks any of a memory's files. If so, their author is unknown."""
    try:
        return bool(git(folder, "ls-files", "-z", "--cached", "--", "."))
    except (GitError, OSError):  # a bare repository tracks no files
        return False


def load_identity(folder: Path, *, warn: Warn = to_stderr) -> Identity | None:
    """Load the identity in `folder`. Return None if there is none, or if it is broken; a broken file is renamed.

    Raises Refused if the file has a newer format or is not a regular file.
    """
    value = json_files.read_document(folder / FILE, version=VERSION, warn=warn)
    identity = None if value is None else from_dict(value)
    if value is not None and identity is None:
        set_aside_broken(folder / FILE, "has invalid content", warn)
    return identity


def save_identity(folder: Path, identity: Identity) -> None:
    """Write `identity.json` atomically. Raises Refused if the folder is a link or a system call fails."""
    json_files.write_document(folder / FILE, asdict(identity), version=VERSION)


def from_dict(value: Mapping[str, Any]) -> Identity | None:
    """The identity in a parsed `identity.json`; None if a part of it is invalid."""
    try:
        identity = json_files.decode(Identity, value)
        paths = [identity.path, *identity.earlier_paths, *identity.strangers, *identity.places]
        paths += [seen.path for seen in identity.places.values()]
        is_named = identity.path and b"\0" not in os.fsencode("".join(paths))
    except (TypeError, UnicodeEncodeError):  # a lone surrogate cannot be part of a file name
        return None
    has_id = not identity.commit or is_full_id(identity.commit)  # git could take another text for an option
    return identity if is_named and has_id else None
