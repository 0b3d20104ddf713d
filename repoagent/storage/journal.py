"""The crash journal of a transaction: a folder with a record of the planned steps and the previous content of files.

The owner locks the folder before giving it its name, so the lock shows whether the owner is alive. It is a flock, which
lasts as long as the owner and any children that inherit its descriptor (such as a `git commit` that outlives the
owner).
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

from repoagent.errors import Busy, Refused
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular, remove_temporary_files, write_whole
from repoagent.storage.folders import SystemFailed
from repoagent.storage.locks import flock_until

VERSION = 1
_RECORD = "journal.json"
_OWNER = "owner"
_UNNAMED = ".new-"
_UNNAMED_SECONDS = 1.0  # longer than from the creation of a folder to its lock


class IncompleteJournal(Refused):
    """A journal's folder lacks a file that its record refers to."""


class Journal:
    """An open journal: `descriptor` holds the lock until `close`."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self.folder = folder
        self.descriptor = descriptor

    def close(self) -> None:
        """Release the lock, so that any process can recover from the journal."""
        os.close(self.descriptor)

    @property
    def name(self) -> str:
        return self.folder.name

    def path(self, name: str) -> Path:
        return self.folder / name

    def keep(self, name: str, data: bytes) -> None:
        """Store `data` as the file `name` in the journal's folder. The name becomes durable with the next `save`."""
        write_whole(self.path(name), data, settled=False)

    def save(self, record: Mapping[str, Any]) -> None:
        """Durably replace the record."""
        json_files.write_document(self.path(_RECORD), record, version=VERSION)

    def retire(self, target: Path | None = None) -> None:
        """End the journal: move its folder to `target`, or remove it. The lock remains until `close`."""
        destination = target or _temporary_name(self.folder.parent, self.name)
        destination.parent.mkdir(parents=True, exist_ok=True)
        self.folder.rename(destination)
        if target is None:
            with suppress(OSError):  # the journal has ended; a later command removes the rest
                sync_folder(self.folder.parent)
                remove_folder(destination)
        else:
            sync_folder(self.folder.parent)
            sync_folder(destination.parent)


def read_stored(folder: Path, name: str) -> bytes:
    """The data that `Journal.keep` stored as `name`. Raises IncompleteJournal if the file is missing."""
    data = read_regular(folder / name)
    if data is None:
        raise IncompleteJournal(f"{folder / name} is missing: cannot restore anything from this journal")
    return data


def record(folder: Path) -> dict[str, Any] | None:
    """The record in a journal's folder; None if there is none. Raises NewerFormat for a newer format."""
    return json_files.read_document(folder / _RECORD, version=VERSION)


def create_journal(root: Path, name: str, first: Mapping[str, Any], files: Mapping[str, bytes]) -> Journal:
    """Durably create and lock the journal `name` in the folder `root`, with its `first` record and `files`. Raises Busy
    if it exists, Refused if a system call fails."""
    unborn, descriptor = _begin(root, name)
    journal = Journal(unborn, descriptor)
    try:
        for file, data in files.items():
            journal.keep(file, data)
        journal.save(first)
        if (root / name).exists():
            raise Busy(f"another command has opened {root / name}: try again when it is done")
        unborn.rename(root / name)
        sync_folder(root)
    except BaseException:
        _discard(unborn, descriptor)
        raise
    return Journal(root / name, descriptor)


@contextmanager
def scratch_folder(root: Path, name: str) -> Iterator[Path]:
    """Yield a private folder in `root`, which is removed after the block or, after a crash, by `abandoned_journals`.
    Raises Refused if it cannot be created."""
    folder, descriptor = _begin(root, name)
    try:
        yield folder
    finally:
        _discard(folder, descriptor)


def _begin(root: Path, name: str) -> tuple[Path, int]:
    """Create and lock a folder with a temporary name; return it and the lock's descriptor."""
    folder = _temporary_name(root, name)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        descriptor = os.open(folder / _OWNER, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SystemFailed(f"cannot create {folder}: {error.strerror}; fix that and try again") from error
    try:
        if not flock_until(descriptor, 0.0, folder / _OWNER):
            raise Busy(f"another command mistook {folder} for a crash leftover and removed it: try again")
    except BaseException:
        _discard(folder, descriptor)
        raise
    return folder, descriptor


def _discard(folder: Path, descriptor: int) -> None:
    with suppress(OSError):  # a later command removes the rest
        remove_folder(folder)
    os.close(descriptor)


def abandoned_journals(root: Path) -> Iterator[Journal]:
    """The journals in `root` whose owner has ended, each locked for the caller, who must close it."""
    try:
        folders = sorted(path for path in root.iterdir() if path.is_dir())
    except FileNotFoundError:
        return
    for folder in folders:
        if folder.name.startswith(_UNNAMED):
            with suppress(OSError):  # left by a crash: it has no final name yet, or it had ended
                if not (folder / _OWNER).exists():
                    # the owner of a new folder may be about to lock it; a negative age means a changed clock
                    if not 0 <= time.time() - folder.stat().st_mtime < _UNNAMED_SECONDS:
                        remove_folder(folder)
                elif (descriptor := _take(folder / _OWNER)) is not None:
                    try:
                        remove_folder(folder)
                    finally:
                        os.close(descriptor)
            continue
        descriptor = _take(folder / _OWNER)
        if descriptor is not None:
            remove_temporary_files(folder)
            yield Journal(folder, descriptor)


def _temporary_name(root: Path, name: str) -> Path:
    """A temporary name for a journal that has not begun yet, or has ended."""
    return root / f"{_UNNAMED}{name}-{secrets.token_hex(4)}"


def _take(owner: Path) -> int | None:
    """Lock the owner's file; None if another process has locked it, or has just ended the journal."""
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
    """Remove a journal's folder and its files. The owner's file goes last, because it shows that the owner has
    ended."""
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
