"""The crash journal of a transaction: a folder that says what is about to happen and holds the bytes before.

The folder gets its name after its owner has locked it, so the lock tells whether the owner is alive. The lock is a
flock: it ends with the owner and with the children that inherit its descriptor (a `git commit` that outlives us).
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular, sweep, write_whole
from repoagent.storage.folders import SystemFailed
from repoagent.storage.layout import Warn, to_stderr
from repoagent.storage.locks import flock_until

VERSION = 1
_RECORD = "journal.json"
_OWNER = "owner"
_UNNAMED = ".new-"
_UNNAMED_SECONDS = 1.0  # between a folder's making and its lock there is less


class IncompleteJournal(Refused):
    """A journal's folder lacks what its record speaks of."""


@dataclass(frozen=True)
class Journal:
    """An open journal: `descriptor` holds the lock until `close`."""

    folder: Path
    descriptor: int

    def close(self) -> None:
        """Release the lock; any process may recover from the journal then."""
        os.close(self.descriptor)

    @property
    def name(self) -> str:
        return self.folder.name

    def path(self, name: str) -> Path:
        return self.folder / name

    def keep(self, name: str, data: bytes) -> None:
        """Store `data` next to the record, before `save` refers to it and makes its name durable."""
        write_whole(self.path(name), data, settled=False)

    def save(self, record: Mapping[str, Any]) -> None:
        """Replace the record, durably."""
        json_files.write_document(self.path(_RECORD), record, version=VERSION)

    def retire(self, target: Path | None = None) -> None:
        """End the journal: the folder becomes `target`, or is removed. The lock is held until `close`."""
        destination = target or _temporary_name(self.folder.parent, self.name)
        destination.parent.mkdir(parents=True, exist_ok=True)
        self.folder.rename(destination)
        if target is None:
            with suppress(OSError):  # it has ended: what is left of it a later command removes
                sync_folder(self.folder.parent)
                remove_folder(destination)
        else:
            sync_folder(self.folder.parent)
            sync_folder(destination.parent)


def read_kept(folder: Path, name: str) -> bytes:
    """What `Journal.keep` stored in the journal's folder. Raises Incomplete when it is gone."""
    data = read_regular(folder / name)
    if data is None:
        raise IncompleteJournal(f"{folder / name} is missing: cannot restore anything from this journal")
    return data


def record(folder: Path, *, warn: Warn = to_stderr) -> dict[str, Any] | None:
    """The record in a journal's folder; None when there is none. Raises document.Newer for a newer format."""
    return json_files.read_document(folder / _RECORD, version=VERSION, warn=warn)


def create_journal(root: Path, name: str, first: Mapping[str, Any], files: Mapping[str, bytes]) -> Journal:
    """A new journal `name` in the folder `root`, locked, with its `first` record and `files`, all durable.

    Raises Refused when there is one of this name, or the system says no.
    """
    unborn, descriptor = _begin(root, name)
    journal = Journal(unborn, descriptor)
    try:
        for file, data in files.items():
            journal.keep(file, data)
        journal.save(first)
        if (root / name).exists():
            raise Refused(f"{root / name} exists: a journal of this name is already open")
        unborn.rename(root / name)
        sync_folder(root)
    except BaseException:
        _discard(unborn, descriptor)
        raise
    return Journal(root / name, descriptor)


@contextmanager
def scratch(root: Path, name: str) -> Iterator[Path]:
    """A private folder in `root` that is removed after the block, or by `abandoned` after a crash. Raises Refused."""
    folder, descriptor = _begin(root, name)
    try:
        yield folder
    finally:
        _discard(folder, descriptor)


def _begin(root: Path, name: str) -> tuple[Path, int]:
    """A new folder that has no name of its own yet, and the descriptor that holds the lock of its owner."""
    folder = _temporary_name(root, name)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        descriptor = os.open(folder / _OWNER, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SystemFailed(f"cannot create {folder}: {error.strerror}; fix that and try again") from error
    try:
        if not flock_until(descriptor, 0.0, folder / _OWNER):
            raise Busy(f"another command removed {folder} as left by a crash: try again")
    except BaseException:
        _discard(folder, descriptor)
        raise
    return folder, descriptor


def _discard(folder: Path, descriptor: int) -> None:
    with suppress(OSError):  # what is left of it a later command removes
        remove_folder(folder)
    os.close(descriptor)


def abandoned(root: Path) -> Iterator[Journal]:
    """The journals in `root` whose owner is gone, each locked for the caller, who closes it."""
    try:
        folders = sorted(path for path in root.iterdir() if path.is_dir())
    except FileNotFoundError:
        return
    for folder in folders:
        if folder.name.startswith(_UNNAMED):
            _remove_unnamed(folder)
            continue
        descriptor = _take(folder / _OWNER)
        if descriptor is not None:
            sweep(folder)
            yield Journal(folder, descriptor)


def _remove_unnamed(folder: Path) -> None:
    """The rest of a crash: a journal that never got its name, or one that had ended."""
    with suppress(OSError):
        if not (folder / _OWNER).exists():
            # its owner may be about to lock it; so soon only if the clock has not been set back
            if 0 <= time.time() - folder.stat().st_mtime < _UNNAMED_SECONDS:
                return
            remove_folder(folder)
            return
        descriptor = _take(folder / _OWNER)
        if descriptor is not None:
            try:
                remove_folder(folder)
            finally:
                os.close(descriptor)


def _temporary_name(root: Path, name: str) -> Path:
    """A name for the journal while it is not there yet, or no more."""
    return root / f"{_UNNAMED}{name}-{secrets.token_hex(4)}"


def _take(owner: Path) -> int | None:
    """Lock the owner's file; None when another process holds it, or has just ended the journal."""
    try:
        descriptor = os.open(owner, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), owner.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def remove_folder(folder: Path) -> None:
    """Remove a journal's folder; it holds only files. The owner's goes last: it says that the rest is dead."""
    for file in sorted(folder.iterdir(), key=lambda file: file.name == _OWNER):
        file.unlink(missing_ok=True)
    folder.rmdir()


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
