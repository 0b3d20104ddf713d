"""What was changed while a command was at work that a kill has interrupted: the look before it is kept in a file.

Nobody can tell by then whether the command or the person did it. So it is no part of the run's change unless it is
kept: a candidate.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.repo.blobs import from_blob
from repoagent.repo.content import Content, look
from repoagent.repo.status import Status, read_status, read_untracked
from repoagent.store import document
from repoagent.store.atomic import read_regular
from repoagent.store.folders import folder
from repoagent.work.changes.ledger import Ledger
from repoagent.work.changes.seeing import Seen, change_of
from repoagent.work.changes.telling import names_of
from repoagent.work.tools.names import named

VERSION = 1
MOST = 16 * 1024 * 1024  # bytes of uncommitted files that are kept for this
_FILE = "look.json"
_BYTES = "looks"


@dataclass(frozen=True)
class _Was:
    content: Content | None
    known: bool


def keep_look(ledger: Ledger, seen: Mapping[str, Seen]) -> None:
    """Keep what a look before a command has seen, until `forget_look`."""
    left = MOST
    found: dict[str, Any] = {}
    with folder(ledger.folder / _BYTES, create=True) as place:
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
    document.write(ledger.folder / _FILE, {"files": found}, version=VERSION, indent=None)


def _keep(place: int, name: str, data: bytes) -> None:
    """Keep bytes for as long as the machine runs: a kill leaves them, and no command waits for the disk. They are apart
    from those of the ledger, which are durable."""
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=place)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _kept(ledger: Ledger, name: str) -> bytes | None:
    """What `_keep` has kept; None where it is gone, or is half written."""
    data = read_regular(ledger.folder / _BYTES / name) if name.isalnum() else None
    return data if data is not None and sha256(data).hexdigest() == name else None


def forget_look(ledger: Ledger) -> None:
    """The command has ended, and what it changed is in the ledger."""
    (ledger.folder / _FILE).unlink(missing_ok=True)


def interrupted(ledger: Ledger) -> str:
    """What was changed since a look that was never ended, for the model; "" for nothing. It is a candidate then."""
    value = document.read(ledger.folder / _FILE, version=VERSION)
    if value is None or not isinstance(files := value.get("files"), dict):
        return ""
    was = {path: _was(ledger, one) for path, one in files.items()}
    status = read_status(ledger.worktree)
    here = [path for path, one in status.changed.items() if not one.submodule]
    here += [path for path in read_untracked(ledger.worktree) if not path.endswith("/")]
    own = {name for change in ledger.changes for name in (change.path, change.old_path)}
    found, others = [], []
    for path in sorted({*was, *here}):
        try:
            old = was[path] if path in was else _Was(_committed(ledger, status, path), True)
            now = look(ledger.worktree.top, path)
        except Refused:  # a fifo, a folder in its place
            continue
        if not old.known or old.content == now:
            continue
        if path in own:
            others.append(path)
        else:
            found.append(change_of(path, old.content, now))
    if found:
        ledger.found(found)
    forget_look(ledger)
    return "\n".join(_sentences([named(change.name) for change in found], list(map(named, others))))


def _sentences(found: list[str], others: list[str]) -> list[str]:
    """Both are names as `named` writes them."""
    said = []
    if found:
        said.append(
            f"Since the command that was interrupted began, {names_of(found)} changed, by it or by the person: no part "
            'of your change unless you say <keep path="FILE"/>.'
        )
    if others:
        said.append(f"{names_of(others)}, which you had changed, was changed again: look at it.")
    return said


def _was(ledger: Ledger, one: object) -> _Was:
    if not isinstance(one, dict) or one.get("known") is not True:
        return _Was(None, False)
    if one.get("bytes") is None:
        return _Was(None, True)
    data = _kept(ledger, str(one["bytes"]))
    return _Was(None, False) if data is None else _Was(Content(data, str(one.get("mode"))), True)


def _committed(ledger: Ledger, status: Status, path: str) -> Content | None:
    entry = status.changed[path].staged if path in status.changed else None
    return None if entry is None else from_blob(ledger.worktree, path, entry)
