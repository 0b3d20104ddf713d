"""What a memory knows of its file: `identity.json`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.git.process import GitError, git
from repoagent.storage import json_files
from repoagent.storage.layout import Warn, to_stderr

VERSION = 1
FILE = "identity.json"
_KEYS = 8  # inodes remembered, and work trees
_BLOBS = 30  # versions remembered by their hash
_REKEYINGS = 100
REWRITTEN = "rewritten in place"
LINKED, LINKED_ANEW, LINKED_BACK = (  # by hand; the former path follows
    "linked by hand, before that ",
    "linked by hand to another text, before that ",
    "linked by hand to the text from before, not ",
)


@dataclass(frozen=True)
class Rekeying:
    """One time that a memory was tied to another path or inode, or kept through a rewrite."""

    time: str
    reason: str
    path: str
    key: str
    blob: str


@dataclass(frozen=True)
class Seen:
    """The path and the blob that a file had when it was last seen in one work tree."""

    path: str
    blob: str


@dataclass(frozen=True)
class Identity:
    """The file of a memory. Paths are relative to the top of the work tree.

    `path` is where it was last seen in any work tree; `places` has what was last seen in each one (by its top): on
    another branch a file may have another name and text. `keys` maps "<device>:<inode>" to the work tree it was seen
    in, oldest first. `blobs` are the versions seen, the last one last. `commit` is HEAD when it was last edited.
    `strangers` are paths of which a user has said that they are other files.
    """

    path: str
    earlier_paths: tuple[str, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    blobs: tuple[str, ...] = ()
    commit: str | None = None
    rekeyings: tuple[Rekeying, ...] = ()
    places: Mapping[str, Seen] = field(default_factory=dict)
    strangers: tuple[str, ...] = ()

    def path_in(self, top: str) -> str:
        """Where the file is in the work tree `top`."""
        seen = self.places.get(top)
        return self.path if seen is None else seen.path

    @property
    def blob(self) -> str:
        """The last seen blob, "" for none."""
        return self.blobs[-1] if self.blobs else ""

    def is_of_older_text(self, day: str, blob: str) -> bool:
        """Whether a note of `day` (YYYY-MM-DD) about `blob` (abbreviated, or "") is about a text that has been
        replaced as a whole since, or that the memory was tied to by mistake."""
        breaks: list[Rekeying] = []
        mistakes: list[str] = []
        for step in self.rekeyings:
            if step.reason == REWRITTEN or step.reason.startswith(LINKED_ANEW):
                breaks.append(step)
            elif step.reason.startswith(LINKED_BACK) and breaks:
                mistakes.append(breaks.pop().blob)
        if blob and any(mistake.startswith(blob) for mistake in mistakes):
            return True
        if not breaks or day > breaks[-1].time[:10]:
            return False
        newest = breaks[-1]
        if day < newest.time[:10] or not blob or newest.blob not in self.blobs:
            return True
        return not any(version.startswith(blob) for version in self.blobs[self.blobs.index(newest.blob) :])

    def seen(self, blob: str, top: str) -> Identity:
        """With `blob` as the last seen version, at `path_in(top)` in the work tree `top`."""
        last = Seen(self.path_in(top), blob)
        if self.places.get(top) == last:
            return self
        places = {name: seen for name, seen in self.places.items() if name != top} | {top: last}
        blobs = (*(version for version in self.blobs if version != blob), blob)
        return replace(self, blobs=blobs[-_BLOBS:], places=dict([*places.items()][-_KEYS:]))

    def keyed(self, key: str, top: str) -> Identity:
        """With `key` for the work tree `top`; another key it had there on the same device is dropped."""
        device = key.partition(":")[0]
        keys = {
            old: place
            for old, place in self.keys.items()
            if not (place == top and old.partition(":")[0] == device) and old != key
        }
        return replace(self, keys=dict([*keys.items(), (key, top)][-_KEYS:]))

    def without_key(self, key: str) -> Identity:
        """Without `key`: that inode has proved to be another file."""
        return replace(self, keys={old: top for old, top in self.keys.items() if old != key})

    def at(self, path: str, top: str) -> Identity:
        """With `path` as its path in the work tree `top`; the former ones become earlier paths."""
        former = dict.fromkeys(old for old in (self.path, self.path_in(top)) if old != path)
        earlier = (*(old for old in self.earlier_paths if old != path and old not in former), *former)
        places = dict(self.places)
        if top in places:
            places[top] = Seen(path, places[top].blob)
        return replace(self, path=path, earlier_paths=earlier, places=places)

    def noted(self, step: Rekeying) -> Identity:
        return replace(self, rekeyings=(*self.rekeyings, step)[-_REKEYINGS:])


@dataclass(frozen=True)
class Memory:
    """One remembered file. `reason` says how it was recognized, if not simply by its path and content."""

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
    """Whether git tracks part of a memory's folder. Then it may have come with the repository, by an unknown
    author: the user's own memories are tracked only if they add them. Runs git once."""
    try:
        return bool(git(folder, "ls-files", "-z", "--cached", "--", "."))
    except (GitError, OSError):  # nothing is tracked next to a bare repository
        return False


def identity_file(folder: Path) -> Path:
    return folder / FILE


def load(folder: Path, *, warn: Warn = to_stderr) -> Identity | None:
    """The identity in `folder`, or None if there is none or it is broken (then it is set aside).

    Raises Refused for one of a newer format, or one that is not a regular file.
    """
    value = json_files.read_document(identity_file(folder), version=VERSION, warn=warn)
    identity = None if value is None else from_dict(value)
    if value is not None and identity is None:
        json_files.set_aside_broken(identity_file(folder), "has invalid content", warn)
    return identity


def save(folder: Path, identity: Identity) -> None:
    json_files.write_document(identity_file(folder), to_dict(identity), version=VERSION)


def to_dict(identity: Identity) -> dict[str, Any]:
    return {
        **vars(identity),
        "earlier_paths": list(identity.earlier_paths),
        "keys": dict(identity.keys),
        "blobs": list(identity.blobs),
        "places": {top: vars(seen) for top, seen in identity.places.items()},
        "strangers": list(identity.strangers),
        "rekeyings": [vars(step) for step in identity.rekeyings],
    }


def from_dict(value: Mapping[str, Any]) -> Identity | None:
    """The identity in a parsed `identity.json`; None if a part of it has the wrong type."""
    lists = {name: value.get(name, []) for name in ("earlier_paths", "blobs", "strangers", "rekeyings")}
    maps = {name: value.get(name, {}) for name in ("keys", "places")}
    if not all(isinstance(each, list) for each in lists.values()):
        return None
    if not all(isinstance(each, dict) for each in maps.values()):
        return None
    try:
        identity = Identity(
            path=value["path"],
            earlier_paths=tuple(lists["earlier_paths"]),
            keys=maps["keys"],
            blobs=tuple(lists["blobs"]),
            commit=value.get("commit"),
            rekeyings=tuple(Rekeying(**step) for step in lists["rekeyings"]),
            places={top: Seen(**seen) for top, seen in maps["places"].items()},
            strangers=tuple(lists["strangers"]),
        )
        seen_paths = [seen.path for seen in identity.places.values()]
        paths = [identity.path, *identity.earlier_paths, *identity.strangers, *seen_paths, *identity.places]
        details = [vars(each) for each in (*identity.rekeyings, *identity.places.values())]
        texts = [text for each in details for text in each.values()]
        texts += [*identity.blobs, *identity.keys.values(), identity.commit or ""]
        is_valid = all(isinstance(text, str) for text in texts) and b"\0" not in os.fsencode("".join(paths))
    except (KeyError, TypeError, UnicodeEncodeError):  # half of a UTF-16 pair is no part of a file name
        return None
    return identity if identity.path and is_valid else None
