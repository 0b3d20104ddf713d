"""What a memory knows of its file: `identity.json`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, fields, replace
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
LINKED, LINKED_ANEW, LINKED_BACK = (  # by hand, the path from before follows
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

    `path` is where it was last seen, in whatever work tree; `places` has for each work tree (its top) what was last
    seen in that one: on another branch a file may have another name and text. `keys` maps "<device>:<inode>" to the
    work tree it was seen in, oldest first. `blobs` are the versions seen, the last one last. `commit` is HEAD when it
    was last edited.
    """

    path: str
    earlier_paths: tuple[str, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    blobs: tuple[str, ...] = ()
    commit: str | None = None
    rekeyings: tuple[Rekeying, ...] = ()
    places: Mapping[str, Seen] = field(default_factory=dict)
    strangers: tuple[str, ...] = ()  # paths that a person has said are not this file's

    def path_in(self, place: str) -> str:
        """Where the file is in the work tree `place`."""
        seen = self.places.get(place)
        return self.path if seen is None else seen.path

    @property
    def blob(self) -> str:
        """The last seen blob, "" for none."""
        return self.blobs[-1] if self.blobs else ""

    def is_of_older_text(self, day: str, blob: str) -> bool:
        """Whether what was noted on `day` (YYYY-MM-DD) about `blob` (abbreviated, or "") is about a text
        that has been replaced as a whole since, or that the memory was tied to by mistake."""
        breaks, mistaken = [], set()
        for one in self.rekeyings:
            if one.reason == REWRITTEN or one.reason.startswith(LINKED_ANEW):
                breaks.append(one)
            elif one.reason.startswith(LINKED_BACK) and breaks:
                mistaken.add(breaks.pop().blob)
        if blob and any(one.startswith(blob) for one in mistaken - {""}):
            return True
        if not breaks or day > breaks[-1].time[:10]:
            return False
        newest = breaks[-1]
        if day < newest.time[:10] or not blob or newest.blob not in self.blobs:
            return True
        newer = self.blobs[self.blobs.index(newest.blob) :]
        return not any(one.startswith(blob) for one in newer)

    def seen(self, blob: str, place: str) -> Identity:
        """With `blob` as the last seen one, in the work tree `place`; its path there is now `path_in(place)`."""
        here = Seen(self.path_in(place), blob)
        if self.places.get(place) == here:
            return self
        others = [(name, seen) for name, seen in self.places.items() if name != place]
        blobs = (*(b for b in self.blobs if b != blob), blob)[-_BLOBS:]
        return replace(self, blobs=blobs, places=dict([*others, (place, here)][-_KEYS:]))

    def keyed(self, key: str, place: str) -> Identity:
        """With `key` for the work tree `place`; another key it had there on the same device is dropped."""
        device = key.partition(":")[0]
        kept = {
            k: p
            for k, p in self.keys.items()
            if not (p == place and k.partition(":")[0] == device) and k != key
        }
        return replace(self, keys=dict([*kept.items(), (key, place)][-_KEYS:]))

    def without_key(self, key: str) -> Identity:
        """Without `key`: that inode has proved to be another file."""
        return replace(self, keys={k: place for k, place in self.keys.items() if k != key})

    def at(self, path: str, place: str) -> Identity:
        """With `path` as its path, in the work tree `place` above all; the former ones become earlier paths."""
        former = dict.fromkeys(old for old in (self.path, self.path_in(place)) if old != path)
        earlier = (*(old for old in self.earlier_paths if old != path and old not in former), *former)
        places = (
            {**self.places, place: Seen(path, self.places[place].blob)}
            if place in self.places
            else self.places
        )
        return replace(self, path=path, earlier_paths=earlier, places=places)

    def noted(self, rekeying: Rekeying) -> Identity:
        return replace(self, rekeyings=(*self.rekeyings, rekeying)[-_REKEYINGS:])


@dataclass(frozen=True)
class Memory:
    """One remembered file. `reason` says how it was found, when that was not simply by its path and
    content."""

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
    """The identity in `folder`, or None when there is none or it is broken (it is set aside then).

    Raises Refused for one of a newer format, or one that is no regular file.
    """
    path = identity_file(folder)
    value = json_files.read_document(path, version=VERSION, warn=warn)
    if value is None:
        return None
    identity = from_dict(value)
    if identity is None:
        json_files.set_aside_broken(path, "has invalid content", warn)
    return identity


def save(folder: Path, identity: Identity) -> None:
    json_files.write_document(identity_file(folder), to_dict(identity), version=VERSION)


def to_dict(identity: Identity) -> dict[str, Any]:
    return {
        "path": identity.path,
        "earlier_paths": list(identity.earlier_paths),
        "keys": dict(identity.keys),
        "blobs": list(identity.blobs),
        "commit": identity.commit,
        "places": {place: vars(seen) for place, seen in identity.places.items()},
        "strangers": list(identity.strangers),
        "rekeyings": [vars(rekeying) for rekeying in identity.rekeyings],
    }


def from_dict(value: Mapping[str, Any]) -> Identity | None:
    """The identity in a parsed `identity.json`; None when a part of it has not the type it must have."""
    path, keys = value.get("path"), value.get("keys", {})
    earlier, blobs = _texts(value.get("earlier_paths", [])), _texts(value.get("blobs", []))
    commit, rekeyings = value.get("commit"), value.get("rekeyings", [])
    if (
        not isinstance(path, str)
        or not path
        or not isinstance(keys, dict)
        or earlier is None
        or blobs is None
    ):
        return None
    if not all(isinstance(item, str | None) for item in (commit, *keys.values())):
        return None
    if not isinstance(rekeyings, list) or not all(_has(item, _REKEYING) for item in rekeyings):
        return None
    places = value.get("places", {})
    if not isinstance(places, dict) or not all(_has(item, _SEEN) for item in places.values()):
        return None
    strangers = _texts(value.get("strangers", []))
    if strangers is None:
        return None
    paths = [path, *earlier, *strangers, *(item["path"] for item in places.values())]
    if not all(map(_is_name, (*paths, *places))):
        return None
    noted = tuple(Rekeying(**item) for item in rekeyings)
    seen = {top: Seen(**item) for top, item in places.items()}
    return Identity(path, earlier, keys, blobs, commit, noted, seen, strangers)


def _is_name(path: str) -> bool:
    """Whether the system can be asked about such a path at all."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:  # half of a UTF-16 pair
        return False


def _texts(value: object) -> tuple[str, ...] | None:
    return tuple(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def _has(value: object, names: set[str]) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == names
        and all(isinstance(item, str) for item in value.values())
    )


_REKEYING, _SEEN = ({each.name for each in fields(kind)} for kind in (Rekeying, Seen))
