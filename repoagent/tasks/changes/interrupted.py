"""Settle the changes of a command, and the commit, that a kill interrupted.

The snapshot before a command is stored. After a kill it is unknown whether the command or the user changed a file, so
such changes become candidates. A commit is announced before it is made, so that a kill neither loses nor repeats it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

from repoagent.errors import Refused
from repoagent.git.files import Content, look
from repoagent.git.index import read_status_and_untracked
from repoagent.git.objects import from_blob
from repoagent.git.undo_log import list_edits
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular
from repoagent.storage.folders import open_folder
from repoagent.tasks.changes.change_set import ChangeSet, change_between, paths_of
from repoagent.tasks.changes.snapshot import FileState, names_of
from repoagent.tasks.earlier_version import current

VERSION = 1
MOST = 16 * 1024 * 1024  # bytes of uncommitted files that are stored
_SNAPSHOT, _SNAPSHOT_BYTES, _COMMIT = "snapshot.json", "snapshots", "commit.json"
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def store_snapshot(change_set: ChangeSet, files: Mapping[str, FileState]) -> None:
    """Store the files of the snapshot before a command, until `discard_snapshot`."""
    remaining = MOST
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
    value = json_files.read_document(current(change_set.folder / _SNAPSHOT), version=VERSION)
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
                entry = status.changed[path].staged if path in status.changed else None
                known, old = True, None if entry is None else from_blob(worktree, path, entry)
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
    data = read_regular(current(change_set.folder / _SNAPSHOT_BYTES) / name) if name.isalnum() else None
    if data is None or sha256(data).hexdigest() != name:  # gone, or half written
        return False, None
    return True, Content(data, str(item.get("mode")))


def will_commit(change_set: ChangeSet, edit_id: str, mark: str = "") -> None:
    """Announce the commit of edit `edit_id`: of the edit that `mark` identifies, or without it of all changes."""
    _write_commit(change_set, edit_id, mark, settled=False)


def committed(change_set: ChangeSet, edit_id: str, mark: str = "") -> None:
    """Record that the commit was made, and drop its changes."""
    if mark:
        change_set.edit = mark
    change_set.drop([] if mark else [change.name for change in change_set.changes])
    _write_commit(change_set, edit_id, mark, settled=True)


def settle_commit(change_set: ChangeSet) -> str | None:
    """After a kill: the last commit of the run, None if it has none; its changes are dropped. Call after the journals
    are settled, because they record the commits."""
    value = json_files.read_document(current(change_set.folder / _COMMIT), version=VERSION)
    if value is None:
        return None
    edit = next((edit for edit in list_edits(change_set.worktree) if edit.id == value.get("edit")), None)
    if edit is None or edit.commit is None:
        return None
    if value.get("settled") is not True:
        committed(change_set, edit.id, str(value.get("mark", "")))
    return None if edit.undone else edit.commit


def _write_commit(change_set: ChangeSet, edit_id: str, mark: str, *, settled: bool) -> None:
    value = {"edit": edit_id, "mark": mark, "settled": settled}
    json_files.write_document(change_set.folder / _COMMIT, value, version=VERSION)
