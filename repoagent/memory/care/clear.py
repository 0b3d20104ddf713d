"""Parts of a memory are put away in its archive, and brought back from there: nothing is deleted."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Busy
from repoagent.llm.conversation import BrokenConversation, NewerConversation, dumps, loads
from repoagent.memory.identity.record import Memory
from repoagent.memory.notes.file import entries
from repoagent.store import locked, read_regular, write_whole
from repoagent.store.folders import failed, folder
from repoagent.store.locks import flock_until, still_at

Part = Literal["notes", "conversation", "edits"]
PARTS: tuple[Part, ...] = ("notes", "conversation", "edits")
_FOLDER = re.compile(r"cleared-\d{8}T\d{6}Z(-\d+)?")
_WAIT = 10.0  # seconds for who writes edits.jsonl


@dataclass(frozen=True)
class Put:
    """What is in the archive of a memory, or went there: the folder, and the size of each part in bytes."""

    folder: Path
    parts: dict[Part, int]


def file_of(memory: Memory, part: Part) -> Path:
    return {"notes": memory.notes, "conversation": memory.conversation, "edits": memory.edits}[part]


def held(memory: Memory, parts: Collection[Part] = PARTS) -> dict[Part, int]:
    """Those of `parts` that hold something, with their size in bytes. Raises Refused for what is no regular file."""
    found: dict[Part, int] = {}
    for part in PARTS:
        data = read_regular(file_of(memory, part)) if part in parts else None
        if data and not (part == "notes" and not entries(data)):
            found[part] = len(data)
    return found


def clear(memory: Memory, parts: Collection[Part] = PARTS) -> Put | None:
    """Move `parts` to a folder of their own in the archive; None when there is nothing to move.

    Each moves at once, so a kill leaves it here or there. Raises Busy when a lock is held for too long, Refused when
    the system says no.
    """
    there = held(memory, parts)
    if not there:
        return None
    place = _new_folder(memory.folder / "archive")
    moved: dict[Part, int] = {}
    for part, size in there.items():
        with _alone(memory, part):
            if _move(file_of(memory, part), place / file_of(memory, part).name):
                moved[part] = size
    return Put(place, moved)


def put_away(memory: Memory) -> list[Put]:
    """What `clear` has put into the archive and is still there, the newest last."""
    archive = memory.folder / "archive"
    names = [path.name for path in archive.iterdir()] if archive.is_dir() else []
    found = []
    for name in sorted(name for name in names if _FOLDER.fullmatch(name)):
        place = archive / name
        files: dict[Part, Path] = {part: place / file_of(memory, part).name for part in PARTS}
        parts = {part: path.lstat().st_size for part, path in files.items() if path.is_file()}
        if parts:
            found.append(Put(place, parts))
    return found


def bring_back(memory: Memory, put: Put) -> None:
    """Bring back what was put away, before what has come since.

    Raises as `clear`, and as `llm.conversation.loads` where a conversation can't be read; that is left as it is.
    """
    for part in put.parts:
        source, target = put.folder / file_of(memory, part).name, file_of(memory, part)
        with _alone(memory, part):
            old, now = read_regular(source), read_regular(target)
            if old is None:
                continue
            if not now:
                _move(source, target)
                continue
            for path, data in ((source, old), (target, now)) if part == "conversation" else ():
                _readable(path, data)
            write_whole(target, _JOIN[part](old, now))
            source.unlink()
    try:
        put.folder.rmdir()
    except OSError:
        pass  # a person has put something of their own beside it


def _readable(path: Path, data: bytes) -> None:
    try:
        loads(data.decode("utf-8", "surrogateescape"))
    except (BrokenConversation, NewerConversation) as error:
        raise type(error)(f"{path}: {error}") from error


def _joined_notes(old: bytes, now: bytes) -> bytes:
    known = {entry.note for entry in entries(old)}
    lines = now.split(b"\n")
    new = [b"\n".join(lines[e.first : e.end]) for e in entries(now) if e.note not in known]
    return _ended(old) + b"".join(note + b"\n" for note in new)


def _joined_edits(old: bytes, now: bytes) -> bytes:
    return now if now.startswith(old) else _ended(old) + now


def _joined_conversation(old: bytes, now: bytes) -> bytes:
    before, after = (loads(data.decode("utf-8", "surrogateescape")) for data in (old, now))
    if after.turns[: len(before.turns)] == before.turns:  # a kill came in between, the last time
        return now
    return dumps((*before.turns, *after.turns), before.nonce).encode("utf-8", "surrogateescape")


_JOIN: dict[Part, Callable[[bytes, bytes], bytes]] = {
    "notes": _joined_notes,
    "conversation": _joined_conversation,
    "edits": _joined_edits,
}


def _ended(data: bytes) -> bytes:
    return data if data.endswith(b"\n") else data + b"\n"


@contextmanager
def _alone(memory: Memory, part: Part) -> Iterator[None]:
    """Hold the lock that writers of this part take: of a file beside it, or of `edits.jsonl` itself."""
    path = file_of(memory, part)
    if part != "edits":
        with locked(path.with_name(path.name + ".lock"), what=f"the {part} {memory.folder.name}/{path.name}"):
            yield
        return
    deadline = time.monotonic() + _WAIT
    with folder(path.parent) as parent:
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            try:
                descriptor = os.open(path.name, flags, 0o600, dir_fd=parent)
            except OSError as error:
                raise failed("open", path, error) from error
            try:
                if not flock_until(descriptor, deadline, path):
                    raise Busy(
                        f"{path} is being written by another process for more than {_WAIT:g} s: try again"
                    )
                if still_at(descriptor, parent, path.name):
                    yield
                    return
            finally:
                os.close(descriptor)


def _new_folder(archive: Path) -> Path:
    stamp = datetime.now(timezone.utc).strftime("cleared-%Y%m%dT%H%M%SZ")
    number = 1
    with folder(archive, create=True) as parent:
        while True:
            name = stamp if number == 1 else f"{stamp}-{number}"
            try:
                os.mkdir(name, 0o700, dir_fd=parent)
            except FileExistsError:
                number += 1
            except OSError as error:
                raise failed("make", archive / name, error) from error
            else:
                return archive / name


def _move(source: Path, target: Path) -> bool:
    """Whether there was something to move."""
    with folder(source.parent) as here, folder(target.parent) as there:
        try:
            os.rename(source.name, target.name, src_dir_fd=here, dst_dir_fd=there)
            os.fsync(there)
            os.fsync(here)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise failed("move", source, error) from error
    return True
