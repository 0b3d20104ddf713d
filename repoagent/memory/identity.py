"""What a memory knows of its file: `identity.json`, and the content it last saw.

The last seen content is kept here (`seen.z`, zlib) and not looked up among git's objects: it is the raw
bytes of the work tree, which need not be an object at all (filters, line endings, uncommitted work), and
an object may be gone when it is needed most (an undone edit after `git gc`).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from repoagent.store import Warn, document, read_regular, to_stderr, write_whole

VERSION = 1
_KEYS = 8  # work trees and machines remembered
_BLOBS = 30  # versions remembered by their hash
_REKEYINGS = 100
REWRITTEN = "rewritten in place"
_SEEN_LIMIT = 4 * 1024 * 1024  # a larger file is known again by its blob and by git only


@dataclass(frozen=True)
class Rekeying:
    """One time that a memory was tied to another path or inode, or kept through a rewrite."""

    time: str
    reason: str
    path: str
    key: str
    blob: str


@dataclass(frozen=True)
class Identity:
    """The file of a memory. Paths are relative to the top of the work tree.

    `keys` maps "<device>:<inode>" to the work tree it was seen in, oldest first. `blobs` are the versions
    seen, the last one last. `commit` is HEAD when it was last edited.
    """

    path: str
    earlier_paths: tuple[str, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    blobs: tuple[str, ...] = ()
    commit: str | None = None
    rekeyings: tuple[Rekeying, ...] = ()

    @property
    def blob(self) -> str:
        """The last seen blob, "" for none."""
        return self.blobs[-1] if self.blobs else ""

    def is_of_older_text(self, day: str, blob: str) -> bool:
        """Whether what was noted on `day` (YYYY-MM-DD) about `blob` (abbreviated, or "") is about a text
        that has been replaced as a whole since."""
        rewriting = next((r for r in reversed(self.rekeyings) if r.reason == REWRITTEN), None)
        if rewriting is None or day > rewriting.time[:10]:
            return False
        if day < rewriting.time[:10] or not blob or rewriting.blob not in self.blobs:
            return True
        newer = self.blobs[self.blobs.index(rewriting.blob) :]
        return not any(one.startswith(blob) for one in newer)

    def seen(self, blob: str) -> Identity:
        """With `blob` as the last seen one."""
        if blob == self.blob:
            return self
        return replace(self, blobs=(*(b for b in self.blobs if b != blob), blob)[-_BLOBS:])

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

    def at(self, path: str) -> Identity:
        """With `path` as its path; the former one becomes an earlier path."""
        if path == self.path:
            return self
        earlier = (*(p for p in self.earlier_paths if p not in (path, self.path)), self.path)
        return replace(self, path=path, earlier_paths=earlier)

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


def identity_file(folder: Path) -> Path:
    return folder / "identity.json"


def load(folder: Path, *, warn: Warn = to_stderr) -> Identity | None:
    """The identity in `folder`, or None when there is none or it is broken (it is set aside then).

    Raises Refused for one of a newer format, or one that is no regular file.
    """
    path = identity_file(folder)
    value = document.read(path, version=VERSION, warn=warn)
    if value is None:
        return None
    identity = from_dict(value)
    if identity is None:
        document.put_aside(path, "does not hold what it should", warn)
    return identity


def save(folder: Path, identity: Identity) -> None:
    document.write(identity_file(folder), to_dict(identity), version=VERSION)


def to_dict(identity: Identity) -> dict[str, Any]:
    return {
        "path": identity.path,
        "earlier_paths": list(identity.earlier_paths),
        "keys": dict(identity.keys),
        "blobs": list(identity.blobs),
        "commit": identity.commit,
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
    if not isinstance(rekeyings, list) or not all(_is_rekeying(item) for item in rekeyings):
        return None
    return Identity(path, earlier, keys, blobs, commit, tuple(Rekeying(**item) for item in rekeyings))


def _texts(value: object) -> tuple[str, ...] | None:
    return tuple(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def _is_rekeying(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"time", "reason", "path", "key", "blob"}
        and all(isinstance(item, str) for item in value.values())
    )


def keep_content(folder: Path, data: bytes) -> None:
    """Keep `data` as the last seen content of the memory in `folder`."""
    write_whole(folder / "seen.z", zlib.compress(data if len(data) <= _SEEN_LIMIT else b"", 6))


def last_content(folder: Path) -> bytes | None:
    """The last seen content; None when it was not kept or can't be read: then only equality and git
    decide."""
    packed = read_regular(folder / "seen.z")
    if packed is None:
        return None
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(
            packed, _SEEN_LIMIT
        )  # the limit keeps a forged file from filling the memory
    except zlib.error:
        return None
    return content or None
