"""Snapshots of the work tree before and after a command, and the differences between two of them.

The snapshot before a command is stored. After a kill it is unknown whether the command or the user changed a file, so
such changes become candidates. File names in text for a model are quoted, so that a file name cannot pass for an
instruction.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import Content, FileChange, blob_hash, look
from repoagent.git.index import Status, read_status_and_untracked
from repoagent.git.objects import from_blob
from repoagent.git.worktree import WorkTree
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular
from repoagent.storage.folders import open_folder
from repoagent.tasks.changes.change_set import ChangeSet, change_between, paths_of

LARGEST = 4 * 1024 * 1024  # bytes of a followed file
MOST = 2_000  # uncommitted files whose bytes are read
TOTAL = 256 * 1024 * 1024  # bytes of all followed files, which are in memory
STORED = 16 * 1024 * 1024  # bytes of uncommitted files that are stored
NAMED = 20  # file names in a sentence
VERSION = 1
_SNAPSHOT, _SNAPSHOT_BYTES = "snapshot.json", "snapshots"
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW

Signature = tuple[int, ...]


@dataclass(frozen=True)
class FileState:
    """An uncommitted or untracked path: its signature, and its bytes if it is followed."""

    signature: Signature | None
    content: Content | None
    tracked: bool
    followed: bool = True


@dataclass(frozen=True)
class Snapshot:
    """The uncommitted files of a work tree, the entries of the change set, and the repositories in untracked
    folders."""

    status: Status
    files: dict[str, FileState]
    entries: frozenset[FileChange]
    repositories: tuple[str, ...]

    def is_followed(self, path: str) -> bool:
        """Whether the bytes of `path` are known, if it is uncommitted."""
        return path not in self.files or self.files[path].followed


def take_snapshot(worktree: WorkTree, change_set: ChangeSet, known: Mapping[str, FileState]) -> Snapshot:
    """Read all uncommitted and untracked paths. Files of the previous snapshot, `known`, are not read again if their
    signature is the same."""
    status, untracked = read_status_and_untracked(worktree)
    changed = {path: entry for path, entry in status.changed.items() if not entry.submodule}
    tracked = sorted(changed, key=lambda path: not changed[path].unstaged)  # unstaged files first
    files: dict[str, FileState] = {}
    remaining = TOTAL
    for is_tracked, paths in ((True, tracked), (False, untracked)):
        for number, path in enumerate(paths):
            if path.endswith("/"):  # another repository
                continue
            follow = number < MOST and remaining > 0
            files[path] = state = _read(worktree, path, known.get(path), tracked=is_tracked, follow=follow)
            remaining -= len(state.content.data) if state.content is not None else 0
    repositories = tuple(path for path in untracked if path.endswith("/"))
    return Snapshot(status, files, entries(change_set), repositories)


def _read(
    worktree: WorkTree, path: str, known: FileState | None, *, tracked: bool, follow: bool
) -> FileState:
    try:
        status = os.lstat(f"{worktree.top}/{path}")  # joined as text: there may be 100,000
    except OSError:
        return FileState(None, None, tracked)
    # a command cannot set st_ctime
    signature = status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode, status.st_ctime_ns
    if known is not None and known.signature == signature and (follow or not known.followed):
        return FileState(signature, known.content, tracked, known.followed)
    if follow and status.st_size <= LARGEST:
        with suppress(Refused):  # not a regular file
            return FileState(signature, look(worktree.top, path), tracked)
    return FileState(signature, None, tracked, followed=False)


def entries(change_set: ChangeSet) -> frozenset[FileChange]:
    """All changes and candidates, to compare two moments."""
    return frozenset((*change_set.changes, *change_set.candidates))


def changed_submodules(earlier: Snapshot, later: Snapshot) -> list[str]:
    """The submodules whose commit changed."""
    before, after = (
        {path for path, entry in snapshot.status.changed.items() if entry.submodule}
        for snapshot in (earlier, later)
    )
    return sorted(before ^ after)


def differences(
    worktree: WorkTree, earlier: Snapshot, later: Snapshot
) -> Iterator[tuple[str, Content | None, Content | None]]:
    """Yield each path that differs with its old and new content; None and None if it is not followed."""
    for path in sorted({*earlier.files, *later.files}):
        before, after = earlier.files.get(path), later.files.get(path)
        if before is not None and after is not None and before.signature == after.signature:
            continue
        if not (earlier.is_followed(path) and later.is_followed(path)):
            yield path, None, None
            continue
        old = None if before is None else before.content
        new = None if after is None else after.content
        if before is None and path in later.status.changed and path not in earlier.status.changed:
            old = _staged(worktree, later.status, path)  # it was clean, so the index has its old content
        if after is None:  # it is clean now, or gone
            with suppress(Refused):
                new = look(worktree.top, path)
        if old != new:
            yield path, old, new


def _staged(worktree: WorkTree, status: Status, path: str) -> Content | None:
    entry = status.changed[path].staged if path in status.changed else None
    return None if entry is None else from_blob(worktree, path, entry)


def store_snapshot(change_set: ChangeSet, files: Mapping[str, FileState]) -> None:
    """Store the files of the snapshot before a command, until `discard_snapshot`."""
    remaining = STORED
    stored: dict[str, Any] = {}
    with open_folder(change_set.folder / _SNAPSHOT_BYTES, create=True) as folder:
        for path, state in files.items():
            content = state.content
            known = state.followed and (content is None or len(content.data) <= remaining)
            name = None
            if known and content is not None:
                remaining -= len(content.data)
                name = sha256(content.data).hexdigest()
                # Not synced, so that no command waits for the disk: it survives a kill but not a power cut. The bytes
                # of the change set are synced.
                with (
                    suppress(FileExistsError),
                    os.fdopen(os.open(name, _NEW_FILE, 0o600, dir_fd=folder), "wb") as file,
                ):
                    file.write(content.data)
            stored[path] = {"bytes": name, "mode": content.mode if content else None, "known": known}
    json_files.write_document(change_set.folder / _SNAPSHOT, {"files": stored}, version=VERSION, indent=None)


def discard_snapshot(change_set: ChangeSet) -> None:
    """Call when the command has ended and its changes are in the change set."""
    (change_set.folder / _SNAPSHOT).unlink(missing_ok=True)


def settle_command(change_set: ChangeSet) -> str:
    """Add what changed since the snapshot of an interrupted command to the candidates. Returns text for the model."""
    value = json_files.read_document(change_set.folder / _SNAPSHOT, version=VERSION)
    if value is None or not isinstance(files := value.get("files"), dict):
        return ""
    worktree = change_set.worktree
    status, untracked = read_status_and_untracked(worktree)
    paths = {path for path, entry in status.changed.items() if not entry.submodule}
    paths |= {path for path in untracked if not path.endswith("/")} | files.keys()
    changed_by_run = paths_of(change_set.changes)
    changed, again = [], []
    for path in sorted(paths):
        try:
            if path in files:
                known, old = _stored_content(change_set, files[path])
            else:
                known, old = True, _staged(worktree, status, path)
            content = look(worktree.top, path)
        except Refused:  # not a regular file
            continue
        if known and old != content and path in changed_by_run:
            again.append(path)
        elif known and old != content:
            changed.append(change_between(path, old, path, content))
    if changed:
        change_set.add_candidates(changed)
    discard_snapshot(change_set)
    sentences = []
    if changed:
        sentences.append(
            "Since the interrupted command started, the command or the user changed "
            f"{names_of([change.name for change in changed])}: not part of your change unless you use "
            '<keep path="FILE"/>.'
        )
    if again:
        sentences.append(f"{names_of(again)}, which you had changed, has changed again; look at it.")
    return "\n".join(sentences)


def _stored_content(change_set: ChangeSet, item: object) -> tuple[bool, Content | None]:
    """Whether the content of a file before the command is known, and that content."""
    if not isinstance(item, dict) or item.get("known") is not True:
        return False, None
    if (name := item.get("bytes")) is None:
        return True, None
    name = str(name)
    data = read_regular(change_set.folder / _SNAPSHOT_BYTES / name) if name.isalnum() else None
    if data is None or sha256(data).hexdigest() != name:  # gone, or half written
        return False, None
    return True, Content(data, str(item.get("mode")))


def named(path: str) -> str:
    """`path`, quoted and escaped unless it is plain."""
    plain = re.fullmatch(r"[\w./+@%=~-]+", path)
    return path if plain else json.dumps(path, ensure_ascii=not path.isprintable())


def names_of(paths: Sequence[str], most: int = NAMED) -> str:
    """The first paths, quoted, and how many more there are."""
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(map(named, paths[:most])) + more


def described(changes: Sequence[FileChange]) -> str:
    """The names of changed files, marked as new or deleted."""
    texts = []
    for change in changes[:NAMED]:
        status = " (new)" if change.before is None else " (deleted)" if change.after is None else ""
        texts.append(named(change.name) + status)
    return ", ".join(texts) + (f" and {len(changes) - NAMED} more" if len(changes) > NAMED else "")


def write_event(change: FileChange, kind: str, **details: object) -> dict[str, object]:
    """The audit event for a written file, with its blob ids of the hash `kind` before and after."""
    before = None if change.before is None else blob_hash(change.before, kind)
    after = None if change.after is None else blob_hash(change.after, kind)
    return {"kind": "write", **details, "path": change.name, "before": before, "after": after}
