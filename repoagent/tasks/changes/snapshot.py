"""Snapshots of the work tree before and after a command.

The snapshot before the command is stored. After a kill it is unknown whether the command or the user changed a file, so
such changes become candidates.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple

from repoagent.errors import Refused
from repoagent.git.files import Content, FileChange, read_content
from repoagent.git.index import Status, read_status_and_untracked
from repoagent.git.objects import from_blob
from repoagent.git.worktree import WorkTree
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular
from repoagent.storage.folders import open_folder
from repoagent.tasks.changes.change_set import ChangeSet, describe_changes, is_at_result, names_of, paths_of

LARGEST = 4 * 1024 * 1024  # bytes of a followed file
MOST = 2_000  # uncommitted files whose bytes are read
TOTAL = 256 * 1024 * 1024  # bytes of all followed files, which are in memory
STORED = 16 * 1024 * 1024  # bytes of uncommitted files that are stored
VERSION = 1
_SNAPSHOT, _SNAPSHOT_BYTES = "snapshot.json", "snapshots"
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class FileState(NamedTuple):
    """The state of an uncommitted or untracked path. `signature` is None if it is unknown or there is no file. The
    content of a file that exceeds the limits is not read; such a file is not `followed`."""

    signature: tuple[int, ...] | None
    content: Content | None
    tracked: bool
    followed: bool = True


class Snapshot(NamedTuple):
    """The uncommitted files of a work tree, and the repositories in untracked folders."""

    status: Status
    files: Mapping[str, FileState]
    repositories: tuple[str, ...] = ()


def take_snapshot(worktree: WorkTree, known: Mapping[str, FileState]) -> Snapshot:
    """Read all uncommitted and untracked paths. Files with the same signature in `known`, the previous snapshot, are
    not read again."""
    git_status, untracked = read_status_and_untracked(worktree)
    changed = {path: entry for path, entry in git_status.changed.items() if not entry.submodule}
    tracked = sorted(changed, key=lambda path: not changed[path].unstaged)  # unstaged files first
    files: dict[str, FileState] = {}
    remaining = TOTAL
    for is_tracked, paths in ((True, tracked), (False, untracked)):
        for number, path in enumerate(paths):
            if path.endswith("/"):  # another repository
                continue
            try:
                status = os.lstat(f"{worktree.top}/{path}")  # joined as text: there may be 100,000
            except OSError:
                files[path] = FileState(None, None, is_tracked)
                continue
            # a command cannot set st_ctime
            signature = status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode, status.st_ctime_ns
            follow = number < MOST and remaining > 0
            previous = known.get(path)
            if previous and previous.signature == signature and (follow or not previous.followed):
                state = previous._replace(tracked=is_tracked)
            else:
                state = FileState(signature, None, is_tracked, followed=False)
                if follow and status.st_size <= LARGEST:
                    with suppress(Refused):  # not a regular file
                        state = FileState(signature, read_content(worktree.top, path), is_tracked)
            files[path] = state
            remaining -= len(state.content.data) if state.content is not None else 0
    return Snapshot(git_status, files, tuple(path for path in untracked if path.endswith("/")))


def differences(
    worktree: WorkTree, earlier: Snapshot, later: Snapshot
) -> Iterator[tuple[str, Content | None, Content | None, bool]]:
    """Yield each path that differs, its old and new content, and whether both contents are known; if not, they are
    None."""
    for path in sorted({*earlier.files, *later.files}):
        before, after = earlier.files.get(path), later.files.get(path)
        if before and after and before.signature == after.signature is not None:
            continue
        if not all(state is None or state.followed for state in (before, after)):
            yield path, None, None, False
            continue
        old = None if before is None else before.content
        new = None if after is None else after.content
        entry = later.status.changed.get(path)
        if before is None and entry is not None and entry.staged and path not in earlier.status.changed:
            old = from_blob(worktree, path, entry.staged)  # it was clean, so the index has its old content
        if after is None:  # it is clean now, or gone
            with suppress(Refused):
                new = read_content(worktree.top, path)
        if old != new:
            yield path, old, new, True


def store_snapshot(change_set: ChangeSet, files: Mapping[str, FileState]) -> None:
    """Store the files of the snapshot taken before a command. They are kept until `discard_snapshot` is called."""
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
    """Remove the stored snapshot. Call this when the changes of the command are in the change set."""
    (change_set.folder / _SNAPSHOT).unlink(missing_ok=True)


def settle_command(change_set: ChangeSet) -> str:
    """After an interrupted command, add what has changed since its snapshot to the candidates. Returns text for the
    model."""
    value = json_files.read_document(change_set.folder / _SNAPSHOT, version=VERSION)
    if value is None or not isinstance(stored := value.get("files"), dict):
        return ""
    files: dict[str, FileState] = {}
    for path, item in stored.items():
        values = item if isinstance(item, dict) else {}
        followed, content = values.get("known") is True, None
        if followed and (name := values.get("bytes")) is not None:
            name = str(name)
            data = read_regular(change_set.folder / _SNAPSHOT_BYTES / name) if name.isalnum() else None
            # otherwise it is gone, or only a part of it was written
            followed = data is not None and sha256(data).hexdigest() == name
            content = Content(data or b"", str(values.get("mode"))) if followed else None
        files[path] = FileState(None, content, tracked=True, followed=followed)
    worktree = change_set.worktree
    earlier = Snapshot(Status(None, None, {}, ()), files)
    lead = "Since the interrupted command started, "
    _, _, sentences = add_unattributed(change_set, earlier, take_snapshot(worktree, {}), lead)
    discard_snapshot(change_set)
    return "\n".join(sentences)


def add_unattributed(
    change_set: ChangeSet, earlier: Snapshot, later: Snapshot, lead: str, ignored: Collection[str] = ()
) -> tuple[list[FileChange], list[str], list[str]]:
    """Add what a command or the user changed between two snapshots, except in the paths `ignored`, to the candidates.

    Returns these changes, the paths that the run had changed and that changed again, and sentences about both for the
    model, which start with `lead`.
    """
    by_path = {path: change for change in change_set.changes for path in paths_of([change])}
    changed, again, sentences = [], [], []
    for path, old, new, followed in differences(change_set.worktree, earlier, later):
        if followed and path not in by_path and path not in ignored:
            changed.append(FileChange.at(path, old, new))
        elif followed and path in by_path and not is_at_result(by_path[path], path, new):
            again.append(path)
    if changed:
        change_set.add_candidates(changed)
        sentences.append(
            f"{lead}the command or the user changed {describe_changes(changed)}: that is not part of your change "
            'unless you use <keep path="FILE"/>.'
        )
    if again:
        names = names_of(again)
        sentences.append(f"{lead}{names}, which you had changed, changed again; read the new content.")
    return changed, again, sentences
