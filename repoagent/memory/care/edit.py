"""A text of a memory that a person has changed in an editor: checked, and joined with what others wrote meanwhile."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from datetime import date, datetime, timezone
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused
from repoagent.llm.conversation import BrokenConversation, NewerConversation, loads, starts
from repoagent.memory.identity.record import Memory
from repoagent.memory.notes.file import Entry, entries, rewrite_notes
from repoagent.repo.merge import Conflict, merge
from repoagent.repo.worktree import WorkTree
from repoagent.store import locked, read_regular, write_whole

NOTES_LIMIT = 256 * 1024  # bytes; a prompt shows a fraction of it
_TRIES = 5


class Clash(Refused):
    """The same lines were changed by somebody else meanwhile."""


@dataclass(frozen=True)
class Finding:
    """Something that is read otherwise than it may be meant; `line` is from 1."""

    line: int
    says: str


def check_notes(data: bytes) -> list[Finding]:
    """What in a notes file may be a slip. There is none that it can't be read with."""
    found = list(_bytes(data))
    if len(data) > NOTES_LIMIT:
        found.append(Finding(1, f"it has {len(data):,} bytes: a prompt can't show more than a few thousand"))
    for entry in entries(data):
        if entry.note.day and not _is_day(entry.note.day):
            found.append(Finding(entry.first + 1, f"{entry.note.day} is no day"))
        if not entry.note.text:
            found.append(Finding(entry.first + 1, "a note without words"))
    return found


def check_conversation(data: bytes) -> list[Finding]:
    """What in a conversation may be a slip. Raises BrokenConversation or NewerConversation, for what can't be read."""
    text = data.decode("utf-8", "surrogateescape")
    nonce = loads(text).nonce
    found = list(_bytes(data))
    headings = set(starts(text))
    position = 0
    for number, line in enumerate(text.split("\n"), 1):
        if number == 1:
            pass
        elif f"[{nonce}]" in line and position not in headings:
            found.append(
                Finding(number, "has the mark of a heading and is none: it is read as text of the turn")
            )
        elif line.strip() and position < min(headings, default=len(text)):
            found.append(Finding(number, "stands before the first turn, and is not read"))
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
    """As `save_notes`, of the conversation: turns that were added meanwhile follow what the person has made."""
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
    raise Busy(f"{path} is saved by another program all the time: try again when it is done")


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
            raise Clash("the notes were changed by somebody else meanwhile, on the same lines")
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


def _raw(lines: list[bytes], entry: Entry) -> bytes:
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
    raise Clash("the conversation was changed by somebody else meanwhile, on the same lines")


def _bytes(data: bytes) -> Iterator[Finding]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", line):
            yield Finding(number, "has control characters")
        try:
            line.decode()
        except UnicodeDecodeError:
            yield Finding(number, "is no UTF-8")


def _is_day(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False
