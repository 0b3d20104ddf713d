"""What arrives is written into a memory that is here: each file whole and under its lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import date
from hashlib import sha256
from pathlib import Path
from time import monotonic

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused
from repoagent.memory.archive.form import ARCHIVED_NOTES, CONVERSATION, EDITS, NOTES, Parcel
from repoagent.memory.archive.pack import contents, listing
from repoagent.memory.archive.unite import (
    arriving_notes,
    new_notes,
    new_turns,
    nonce_of,
    said,
    turns_of,
    with_edits,
    with_notes,
    with_turns,
)
from repoagent.memory.notes.file import COMPACTED, Note, add_notes, entries
from repoagent.memory.notes.same import says_nothing_new
from repoagent.store import Warn, locked, read_regular, write_whole
from repoagent.store.folders import failed, folder, regular
from repoagent.store.locks import flock_until, still_at

_WAIT = 10.0  # seconds


@dataclass(frozen=True)
class Counts:
    """How many notes, edits and exchanges."""

    notes: int = 0
    edits: int = 0
    exchanges: int = 0

    def __bool__(self) -> bool:
        return bool(self.notes or self.edits or self.exchanges)


@dataclass(frozen=True)
class _Arriving:
    parcel: Parcel
    source: str
    write: bool
    instead: bool

    def file(self, path: str) -> bytes:
        return self.parcel.files.get(path, b"")


def unite(
    place: Path, parcel: Parcel, source: str, *, write: bool, instead: bool = False, warn: Warn
) -> Counts:
    """Take into the memory folder `place` what it has not; how much that is. Without `write` it is only counted. With
    `instead` what arrives takes the place of the notes, edits and conversation that are there.

    Raises Busy, and Refused where it can't be written.
    """
    arriving = _Arriving(parcel, source, write, instead)
    exchanges = _conversations(place, arriving, warn)
    return Counts(_notes(place, arriving), _edits(place, arriving), exchanges)


def _notes(place: Path, arriving: _Arriving) -> int:
    path, away = place / NOTES, place / ARCHIVED_NOTES
    today = date.today().isoformat()
    notes = arriving_notes(arriving.file(NOTES), arriving.source, today)
    old = arriving_notes(arriving.file(ARCHIVED_NOTES), arriving.source, today)
    if arriving.instead:
        if arriving.write:
            with _locked(path):
                write_whole(path, with_notes(b"", notes))
        return len(notes)
    here, put_away = read_regular(path) or b"", read_regular(away) or b""
    fresh = [
        note
        for note in new_notes(notes, here, put_away)
        if not _is_said([e.note for e in entries(here)], note)
    ]
    older = new_notes(old, here, put_away, arriving.file(NOTES))
    if arriving.write and older:
        with _locked(path):
            before = read_regular(away) or b""
            write_whole(away, with_notes(before, new_notes(older, before)))
    if arriving.write and fresh:
        add_notes(path, fresh)
    return len(fresh) + len(older)


def _is_said(known: list[Note], note: Note) -> bool:
    return note.source != COMPACTED and any(
        old.source != COMPACTED and says_nothing_new(note.text, old.text) for old in known
    )


def _edits(place: Path, arriving: _Arriving) -> int:
    path, data = place / EDITS, arriving.file(EDITS)
    if not data:
        if arriving.instead and arriving.write and read_regular(path):
            _rewritten(path, lambda before: b"")
        return 0
    if not arriving.write:
        return with_edits(read_regular(path) or b"", data, arriving.source)[1]
    new = with_edits(b"" if arriving.instead else read_regular(path) or b"", data, arriving.source)[1]
    if new:
        _rewritten(
            path, lambda before: with_edits(b"" if arriving.instead else before, data, arriving.source)[0]
        )
    return new


def _conversations(place: Path, arriving: _Arriving, warn: Warn) -> int:
    if not any(True for _ in arriving.parcel.conversations()) and not arriving.instead:
        return 0
    path = place / CONVERSATION
    if not arriving.write:
        return _said(place, arriving, warn, lambda name, data: None)
    with _locked(path):
        return _said(place, arriving, warn, lambda name, data: write_whole(place / name, data))


def _said(place: Path, arriving: _Arriving, warn: Warn, put: Callable[[str, bytes], None]) -> int:
    """What was put away before, to the archive; the rest before what was said here."""
    files = contents(place, [path for path in listing(place)[0] if path.startswith("archive/conversation-")])
    here = b"" if arriving.instead else read_regular(place / CONVERSATION) or b""
    known: set[str] = set()
    for path, data in [] if arriving.instead else [*files.items(), (CONVERSATION, here)]:
        try:
            known |= said(turns_of(data))
        except Refused as error:
            warn(f"{place / path}: {error}; what was said elsewhere is not put before it")
            if path == CONVERSATION:
                return 0
    count = 0
    for path, data in arriving.parcel.conversations():
        turns = new_turns(turns_of(data), known, arriving.source)
        count += len(said(turns))
        if path == CONVERSATION:
            whole = with_turns(here, turns, nonce_of(data))
            if whole != (read_regular(place / CONVERSATION) or b""):
                put(path, whole)
        elif turns and not (arriving.instead and path in files):
            whole = with_turns(b"", turns, nonce_of(data))
            put(path if path not in files else f"{path[:-3]}-{sha256(whole).hexdigest()[:8]}.md", whole)
    return count


def _locked(path: Path) -> AbstractContextManager[None]:
    return locked(path.with_name(path.name + ".lock"), what=f"{path.parent.name}/{path.name}")


def _rewritten(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Write what `change` makes of a file that others append to: they wait for its lock, and then see that another file
    has its name."""
    deadline = monotonic() + _WAIT
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        with folder(path.parent) as parent:
            try:
                opened = os.open(path.name, flags, 0o600, dir_fd=parent)
            except OSError as error:
                raise failed("write", path, error) from error
            try:
                regular(opened, path)
                if not flock_until(opened, deadline, path):
                    raise Busy(
                        f"{path} is being written by another process for more than {_WAIT:g} s: try again"
                    )
                if still_at(opened, parent, path.name):
                    write_whole(path, change(read_regular(path) or b""))
                    return
            finally:
                os.close(opened)
