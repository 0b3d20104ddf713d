"""Changes by a command that a kill interrupted, and commits that a kill interrupted.

The look at the work tree before a command is kept in a file. After a kill it is unknown whether the command or the user
changed a file, so such changes are candidates. A commit is noted before it is made, so that a kill neither loses nor
repeats it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import Content, look
from repoagent.git.index import Status, read_status, read_untracked
from repoagent.git.objects import from_blob
from repoagent.git.undo_log import list_edits
from repoagent.storage import jsonl
from repoagent.storage.atomic import read_regular
from repoagent.storage.folders import open_folder
from repoagent.tasks.changes.change_set import ChangeSet
from repoagent.tasks.changes.detect import Seen, change_of, named, names_of

VERSION = 1
MOST = 16 * 1024 * 1024  # bytes of uncommitted files that are kept for this
_SNAPSHOT_FILE = "look.json"
_BYTES = "looks"


@dataclass(frozen=True)
class _Was:
    content: Content | None
    known: bool


def keep_look(change_set: ChangeSet, seen: Mapping[str, Seen]) -> None:
    """Keep what a look before a command has seen, until `forget_look`."""
    left = MOST
    found: dict[str, Any] = {}
    with open_folder(change_set.folder / _BYTES, create=True) as place:
        there = set(os.listdir(place))  # noqa: PTH208 (of a descriptor)
        for path, one in seen.items():
            content = one.content
            known = one.followed and (content is None or len(content.data) <= left)
            name = None
            if known and content is not None:
                left -= len(content.data)
                name = sha256(content.data).hexdigest()
                if name not in there:
                    _keep(place, name, content.data)
            found[path] = {"bytes": name, "mode": content.mode if content else None, "known": known}
    jsonl.write_document(change_set.folder / _SNAPSHOT_FILE, {"files": found}, version=VERSION, indent=None)


def _keep(place: int, name: str, data: bytes) -> None:
    """Keep bytes for as long as the machine runs: a kill leaves them, and no command waits for the disk. They are apart
    from those of the ledger, which are durable."""
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=place)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _kept(change_set: ChangeSet, name: str) -> bytes | None:
    """What `_keep` has kept; None where it is gone, or is half written."""
    data = read_regular(change_set.folder / _BYTES / name) if name.isalnum() else None
    return data if data is not None and sha256(data).hexdigest() == name else None


def forget_look(change_set: ChangeSet) -> None:
    """The command has ended, and what it changed is in the ledger."""
    (change_set.folder / _SNAPSHOT_FILE).unlink(missing_ok=True)


def interrupted(change_set: ChangeSet) -> str:
    """What was changed since a look that was never ended, for the model; "" for nothing. It is a candidate then."""
    value = jsonl.read_document(change_set.folder / _SNAPSHOT_FILE, version=VERSION)
    if value is None or not isinstance(files := value.get("files"), dict):
        return ""
    was = {path: _was(change_set, one) for path, one in files.items()}
    status = read_status(change_set.worktree)
    here = [path for path, one in status.changed.items() if not one.submodule]
    here += [path for path in read_untracked(change_set.worktree) if not path.endswith("/")]
    own = {name for change in change_set.changes for name in (change.path, change.old_path)}
    found, others = [], []
    for path in sorted({*was, *here}):
        try:
            old = was[path] if path in was else _Was(_committed(change_set, status, path), True)
            now = look(change_set.worktree.top, path)
        except Refused:  # a fifo, a folder in its place
            continue
        if not old.known or old.content == now:
            continue
        if path in own:
            others.append(path)
        else:
            found.append(change_of(path, old.content, now))
    if found:
        change_set.found(found)
    forget_look(change_set)
    return "\n".join(_sentences([named(change.name) for change in found], list(map(named, others))))


def _sentences(found: list[str], others: list[str]) -> list[str]:
    """Both are names as `named` writes them."""
    said = []
    if found:
        said.append(
            f"Since the interrupted command started, the command or the user changed {names_of(found)}: not "
            'part of your change unless you use <keep path="FILE"/>.'
        )
    if others:
        said.append(f"{names_of(others)}, which you had changed, has changed again; look at it.")
    return said


def _was(change_set: ChangeSet, one: object) -> _Was:
    if not isinstance(one, dict) or one.get("known") is not True:
        return _Was(None, False)
    if one.get("bytes") is None:
        return _Was(None, True)
    data = _kept(change_set, str(one["bytes"]))
    return _Was(None, False) if data is None else _Was(Content(data, str(one.get("mode"))), True)


def _committed(change_set: ChangeSet, status: Status, path: str) -> Content | None:
    entry = status.changed[path].staged if path in status.changed else None
    return None if entry is None else from_blob(change_set.worktree, path, entry)


COMMITTING_VERSION = 1
_COMMITTING_FILE = "landing.json"


def will_commit(change_set: ChangeSet, edit_id: str, mark: str = "") -> None:
    """To be called before the edit `edit_id` is committed: of the one edit `mark`, or, without that, of all changes."""
    _write(change_set, edit_id, mark, settled=False)


def committed(change_set: ChangeSet, edit_id: str, mark: str = "") -> None:
    """It is made, and the changes that are in it are not to be committed any more."""
    if mark:
        change_set.edit = mark
        change_set.drop(())
    else:
        change_set.drop([change.name for change in change_set.changes])
    _write(change_set, edit_id, mark, settled=True)


def settle_commit(change_set: ChangeSet) -> str | None:
    """After a kill: the last commit of the run, None where it has none. What is in it leaves the ledger.

    To be called when the journals are settled, for those say which commits there are.
    """
    value = jsonl.read_document(change_set.folder / _COMMITTING_FILE, version=COMMITTING_VERSION)
    if value is None:
        return None
    name = value.get("edit")
    made = next((edit for edit in list_edits(change_set.worktree) if edit.id == name), None)
    if made is None or made.commit is None:
        return None
    if value.get("settled") is not True:
        committed(change_set, made.id, str(value.get("mark", "")))
    return None if made.undone else made.commit


def _write(change_set: ChangeSet, edit_id: str, mark: str, *, settled: bool) -> None:
    value = {"edit": edit_id, "mark": mark, "settled": settled}
    jsonl.write_document(change_set.folder / _COMMITTING_FILE, value, version=COMMITTING_VERSION)
