"""Edit, clear and restore the texts of a memory.

An edited text is checked, then merged with what others wrote in the meantime. Cleared parts move to the archive of the
memory and can be restored from there; nothing is deleted.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused
from repoagent.git.merge import Conflict, merge
from repoagent.git.worktree import WorkTree
from repoagent.llm.conversation import BrokenConversation, NewerConversation, dumps, loads, turn_offsets
from repoagent.memory.identity.record import Memory
from repoagent.memory.notes import NoteEntry, entries, rewrite_notes
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.locks import flock_until, locked, still_at

NOTES_LIMIT = 256 * 1024  # bytes; a prompt shows a fraction of it
_TRIES = 5


class EditConflict(Refused):
    """Another program changed the same lines in the meantime."""


@dataclass(frozen=True)
class TextProblem:
    """Something that is read otherwise than it may be meant; `line` is from 1."""

    line: int
    says: str


def check_notes(data: bytes) -> list[TextProblem]:
    """What in a notes file may be a slip. There is none that it can't be read with."""
    found = list(_bytes(data))
    if len(data) > NOTES_LIMIT:
        found.append(
            TextProblem(1, f"the file has {len(data):,} bytes; a prompt shows a few thousand at most")
        )
    for entry in entries(data):
        if entry.note.day and not _is_day(entry.note.day):
            found.append(TextProblem(entry.first + 1, f"invalid date {entry.note.day}"))
        if not entry.note.text:
            found.append(TextProblem(entry.first + 1, "empty note"))
    return found


def check_conversation(data: bytes) -> list[TextProblem]:
    """What in a conversation may be a slip. Raises BrokenConversation or NewerConversation, for what can't be read."""
    text = data.decode("utf-8", "surrogateescape")
    nonce = loads(text).nonce
    found = list(_bytes(data))
    headings = set(turn_offsets(text))
    position = 0
    for number, line in enumerate(text.split("\n"), 1):
        if number == 1:
            pass
        elif f"[{nonce}]" in line and position not in headings:
            found.append(
                TextProblem(number, "looks like a heading but is not valid; it is read as text of the turn")
            )
        elif line.strip() and position < min(headings, default=len(text)):
            found.append(TextProblem(number, "precedes the first turn; it is ignored"))
        position += len(line) + 1
    return found


def save_notes(memory: Memory, worktree: WorkTree, before: bytes, after: bytes) -> bool:
    """Write what a person has made (`after`) of the notes as they were (`before`); whether others had changed them
    meanwhile. Notes that were added or dropped meanwhile are added or dropped here too.

    Raises Clash when the rest was changed by both, Busy, Refused.
    """

    def change(now: bytes) -> tuple[bytes, bool]:
        return (after, False) if now == before else (_joined(worktree, before, after, now), True)

    return rewrite_notes(memory.notes, change)


def save_conversation(memory: Memory, worktree: WorkTree, before: bytes, after: bytes) -> bool:
    """As `save_notes`, of the conversation: turns that were added in the meantime follow the user's text."""
    path = memory.conversation
    with locked(
        path.with_name(path.name + ".lock"), what=f"the conversation {memory.folder.name}/{path.name}"
    ):
        for _ in range(_TRIES):
            now = read_regular(path) or b""
            whole = after if now == before else _with_turns(worktree, before, after, now)
            if (read_regular(path) or b"") == now:
                write_whole(path, whole)
                return now != before
    raise Busy(f"another program keeps saving {path}; try again later")


def keep_text(memory: Memory | None, name: str, data: bytes) -> Path:
    """Keep a person's text that could not be saved, in the archive, or where the system keeps temporary files; where
    it is now."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    if memory is not None:
        path = memory.folder / "archive" / f"edited-{stamp}-{name}"
        try:
            write_whole(path, data)
        except Refused:  # what could not be saved can't be saved there either
            pass
        else:
            return path
    with tempfile.NamedTemporaryFile(prefix="repoagent-", suffix=f"-{name}", delete=False) as file:
        file.write(data)
    return Path(file.name)


def _joined(worktree: WorkTree, before: bytes, after: bytes, now: bytes) -> bytes:
    was, came, mine = (_pieces(data) for data in (before, now, after))
    if was.rest != came.rest:  # headings too: lines are all there is to go by
        merged = merge(worktree, now, before, after)
        if isinstance(merged, Conflict):
            raise EditConflict("another program changed the same lines of the notes")
        return merged
    gone = set(was.notes) - set(came.notes)
    added = [note for note in came.notes if note not in was.notes and note not in mine.notes]
    lines = after.split(b"\n")
    dropped = {n for e in entries(after) if _raw(lines, e) in gone for n in range(e.first, e.end)}
    kept = b"\n".join(line for number, line in enumerate(lines) if number not in dropped)
    kept += b"" if kept.endswith(b"\n") or not kept else b"\n"
    return kept + b"".join(note + b"\n" for note in added)


@dataclass(frozen=True)
class _Pieces:
    notes: list[bytes]
    rest: list[bytes]


def _pieces(data: bytes) -> _Pieces:
    """The notes of a file as they stand there, and its other lines, blank ones left out."""
    lines = data.split(b"\n")
    found = entries(data)
    inside = {number for entry in found for number in range(entry.first, entry.end)}
    rest = [line for number, line in enumerate(lines) if number not in inside and line.strip()]
    return _Pieces([_raw(lines, entry) for entry in found], rest)


def _raw(lines: list[bytes], entry: NoteEntry) -> bytes:
    return b"\n".join(lines[entry.first : entry.end])


def _with_turns(worktree: WorkTree, before: bytes, after: bytes, now: bytes) -> bytes:
    if before and now.startswith(before) and before.split(b"\n", 1)[0] == after.split(b"\n", 1)[0]:
        return after + (b"" if after.endswith(b"\n") else b"\n") + now[len(before) :]
    merged = merge(worktree, now, before, after)
    if not isinstance(merged, Conflict):
        try:
            loads(merged.decode("utf-8", "surrogateescape"))
        except (BrokenConversation, NewerConversation):
            pass
        else:
            return merged
    raise EditConflict("another program changed the same lines of the conversation")


def _bytes(data: bytes) -> Iterator[TextProblem]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", line):
            yield TextProblem(number, "contains control characters")
        try:
            line.decode()
        except UnicodeDecodeError:
            yield TextProblem(number, "is not UTF-8")


def _is_day(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


Part = Literal["notes", "conversation", "edits"]
PARTS: tuple[Part, ...] = ("notes", "conversation", "edits")
_FOLDER = re.compile(r"cleared-\d{8}T\d{6}Z(-\d+)?")
_WAIT = 10.0  # seconds for who writes edits.jsonl


@dataclass(frozen=True)
class ArchivedParts:
    """What is in the archive of a memory, or went there: the folder, and the size of each part in bytes."""

    folder: Path
    parts: dict[Part, int]


def part_file(memory: Memory, part: Part) -> Path:
    return {"notes": memory.notes, "conversation": memory.conversation, "edits": memory.edits}[part]


def part_sizes(memory: Memory, parts: Collection[Part] = PARTS) -> dict[Part, int]:
    """Those of `parts` that hold something, with their size in bytes. Raises Refused for what is no regular file."""
    found: dict[Part, int] = {}
    for part in PARTS:
        data = read_regular(part_file(memory, part)) if part in parts else None
        if data and not (part == "notes" and not entries(data)):
            found[part] = len(data)
    return found


def clear(memory: Memory, parts: Collection[Part] = PARTS) -> ArchivedParts | None:
    """Move `parts` to a folder of their own in the archive; None when there is nothing to move.

    Each moves at once, so a kill leaves it here or there. Raises Busy when a lock is held for too long, Refused when
    the system says no.
    """
    there = part_sizes(memory, parts)
    if not there:
        return None
    place = _new_folder(memory.folder / "archive")
    moved: dict[Part, int] = {}
    for part, size in there.items():
        with _alone(memory, part):
            if _move(part_file(memory, part), place / part_file(memory, part).name):
                moved[part] = size
    return ArchivedParts(place, moved)


def archived_parts(memory: Memory) -> list[ArchivedParts]:
    """What `clear` has put into the archive and is still there, the newest last."""
    archive = memory.folder / "archive"
    names = [path.name for path in archive.iterdir()] if archive.is_dir() else []
    found = []
    for name in sorted(name for name in names if _FOLDER.fullmatch(name)):
        place = archive / name
        files: dict[Part, Path] = {part: place / part_file(memory, part).name for part in PARTS}
        parts = {part: path.lstat().st_size for part, path in files.items() if path.is_file()}
        if parts:
            found.append(ArchivedParts(place, parts))
    return found


def restore(memory: Memory, put: ArchivedParts) -> None:
    """Restore what was archived, before what was added since.

    Raises as `clear`, and as `llm.conversation.loads` where a conversation can't be read; that is left as it is.
    """
    for part in put.parts:
        source, target = put.folder / part_file(memory, part).name, part_file(memory, part)
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
        pass  # the user has put a file there


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
    """Hold the lock of the writers of this part: that of its lock file, or of `edits.jsonl` itself."""
    path = part_file(memory, part)
    if part != "edits":
        with locked(path.with_name(path.name + ".lock"), what=f"the {part} {memory.folder.name}/{path.name}"):
            yield
        return
    deadline = time.monotonic() + _WAIT
    with open_folder(path.parent) as parent:
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            try:
                descriptor = os.open(path.name, flags, 0o600, dir_fd=parent)
            except OSError as error:
                raise system_failed("open", path, error) from error
            try:
                if not flock_until(descriptor, deadline, path):
                    raise Busy(
                        f"another process has been writing {path} for more than {_WAIT:g} s; try again"
                    )
                if still_at(descriptor, parent, path.name):
                    yield
                    return
            finally:
                os.close(descriptor)


def _new_folder(archive: Path) -> Path:
    stamp = datetime.now(timezone.utc).strftime("cleared-%Y%m%dT%H%M%SZ")
    number = 1
    with open_folder(archive, create=True) as parent:
        while True:
            name = stamp if number == 1 else f"{stamp}-{number}"
            try:
                os.mkdir(name, 0o700, dir_fd=parent)
            except FileExistsError:
                number += 1
            except OSError as error:
                raise system_failed("make", archive / name, error) from error
            else:
                return archive / name


def _move(source: Path, target: Path) -> bool:
    """Whether there was something to move."""
    with open_folder(source.parent) as here, open_folder(target.parent) as there:
        try:
            os.rename(source.name, target.name, src_dir_fd=here, dst_dir_fd=there)
            os.fsync(there)
            os.fsync(here)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise system_failed("move", source, error) from error
    return True
