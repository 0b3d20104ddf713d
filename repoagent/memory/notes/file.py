"""`notes.md`: what was learned about a file, one bullet each, for people to edit.

    # Notes

    - 2026-11-21 3f2a9c1 by anthropic/claude-sonnet-5-5: callers rely on the order of the result

Any bullet is a note, with or without date, blob and source; indented lines go on with it, and a paragraph is a
note too. What says nothing new is not added. Of too many notes those that count least go to `archive/notes.md`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import TypeVar

from repoagent.dataclass import dataclass
from repoagent.errors import Busy
from repoagent.memory.notes.same import says_nothing_new
from repoagent.store import locked, read_regular, write_whole

PERSON, PROGRAM, COMPACTED = "person", "repoagent", "compact"  # sources other than the names of models
LIMIT, COMPACTED_LIMIT = 80, 200  # notes kept in the file
LONGEST = 400  # characters of a note that no person has written
_HEAD = b"# Notes\n\n"
_STAMPED = re.compile(r"(\d{4}-\d\d-\d\d)(?: ([0-9a-f]{7,64}))?(?: by (.{1,80}?))?: (.*)", re.DOTALL)
_BULLET = re.compile(r"[-*+] ")
_SHORT = 12  # digits of a blob: enough to look it up, short enough to read
_TRIES = 5  # to write, while somebody saves the file in an editor


@dataclass(frozen=True)
class Note:
    """`day` is "YYYY-MM-DD", `blob` the abbreviated version it is true of, and `source` who says it: a model's name,
    PERSON, PROGRAM (it tells what happened) or COMPACTED; "" where a person left them out."""

    text: str
    day: str = ""
    blob: str = ""
    source: str = ""

    def __str__(self) -> str:
        by = f"by {self.source}" if self.source and self.day else ""
        stamp = " ".join(part for part in (self.day, self.blob, by) if part)
        return f"- {stamp}: {self.text}" if stamp else f"- {self.text}"

    @property
    def is_by_hand(self) -> bool:
        """Whether a person has said it: such a note is never put away."""
        return self.source in ("", PERSON)


T = TypeVar("T")
IsStale = Callable[[Note], bool]


@dataclass(frozen=True)
class Entry:
    """A note and the lines of the file that it stands on: from `first` (from 0) to before `end`."""

    note: Note
    first: int
    end: int


def made_note(text: str, *, blob: str = "", day: date | None = None, source: str = "") -> Note:
    """A note dated today (or `day`), its text on one line."""
    by = re.sub(r":(?= |\Z)", "", _one_line(source))[:60].strip()
    return Note(_one_line(text), (day or date.today()).isoformat(), blob[:_SHORT], by)


def shortened(text: str) -> str:
    """`text` on one line of at most LONGEST characters, cut between words."""
    line = _one_line(text)
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rsplit(" ", 1)[0].rstrip() + "…"


def add_note(
    path: Path,
    text: str,
    *,
    blob: str = "",
    day: date | None = None,
    source: str = "",
    is_stale: IsStale | None = None,
) -> Note:
    """Add `text` to the notes file `path`, about the version `blob`; the note that stands there now, also where one
    that says the same was there already. Raises as `add_notes`."""
    note = made_note(text, blob=blob, day=day, source=source)
    return next(iter(add_notes(path, [note], is_stale=is_stale)), note)


def add_notes(path: Path, notes: Iterable[Note], *, is_stale: IsStale | None = None) -> list[Note]:
    """Add what is new of `notes` to the file `path`; for each the note that says it there.

    A note that `is_stale` does not count as saying it still. Above LIMIT the oldest stale ones go to the archive
    beside it, then the oldest that tell what happened, then the oldest of models; what a person has said stays.
    Raises Busy when the lock is held for too long, or somebody saves the file all the time, Refused when it can't be
    written.
    """
    given = [note for note in notes if note.text]

    def change(data: bytes) -> tuple[bytes, list[Note]]:
        known = [entry.note for entry in entries(data)]
        said, new = [], list[Note]()
        for note in given:
            same = next((old for old in (*known, *new) if _says(old, note, is_stale)), None)
            said.append(same or note)
            new += [] if same else [note]
        if not new:
            return data, said
        whole = data or _HEAD
        whole += b"" if whole.endswith(b"\n") else b"\n"
        whole += "".join(f"{note}\n" for note in new).encode(errors="replace")
        return _within_limits(path, whole, is_stale), said

    return _changed(path, change) if given else []


def drop_note(path: Path, text: str) -> bool:
    """Take the note `text` out of the file again; whether it was there."""
    wanted = made_note(text).text
    return drop_notes(path, lambda note: note.text == wanted)


def drop_notes(path: Path, is_meant: Callable[[Note], bool]) -> bool:
    """Take the notes that are meant out of the file; whether there was one. Raises as `add_notes`."""

    def change(data: bytes) -> tuple[bytes, bool]:
        found = [entry for entry in entries(data) if is_meant(entry.note)]
        return _without(data, found), bool(found)

    return read_regular(path) is not None and _changed(path, change)


def rewrite_notes(path: Path, change: Callable[[bytes], tuple[bytes, T]]) -> T:
    """Write what `change` makes of the bytes of the file (b"" for none), and return what it tells beside them.

    It is asked once more where somebody saves the file meanwhile. Raises as `add_notes`.
    """
    return _changed(path, change)


def read_notes(path: Path) -> tuple[Note, ...]:
    """The notes in `path`, in order; headings and blank lines are not notes."""
    return tuple(entry.note for entry in entries(read_regular(path) or b""))


def entries(data: bytes) -> list[Entry]:
    """The notes in the bytes of a notes file, each with its lines."""
    found: list[tuple[list[str], int, int]] = []
    goes_on = False
    for number, line in enumerate(data.decode(errors="replace").split("\n")):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            goes_on = False
        elif goes_on and not _BULLET.match(line):
            words, first, _ = found[-1]
            found[-1] = ([*words, stripped], first, number + 1)
        else:
            text = stripped[2:].strip() if _BULLET.match(line) else stripped
            found.append(([text], number, number + 1))
            goes_on = True
    return [Entry(_note(" ".join(words)), first, end) for words, first, end in found]


def _note(text: str) -> Note:
    stamped = _STAMPED.fullmatch(text)
    return Note(stamped[4], stamped[1], stamped[2] or "", stamped[3] or "") if stamped else Note(text)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _says(old: Note, new: Note, is_stale: IsStale | None) -> bool:
    if old.text == new.text and old.blob == new.blob:
        return True
    if is_stale is not None and is_stale(old) and not is_stale(new):  # both: what it names is of other files
        return False
    if COMPACTED in (old.source, new.source):
        return old.source == new.source and old.text == new.text and old.day == new.day
    return says_nothing_new(new.text, old.text)


def _within_limits(path: Path, data: bytes, is_stale: IsStale | None) -> bytes:
    """`data` without what is too much; that is in the archive before it is missing here."""
    found = entries(data)
    lines = [entry for entry in found if entry.note.source == COMPACTED]
    notes = [entry for entry in found if entry.note.source != COMPACTED]

    def rank(entry: Entry) -> int:
        if is_stale is not None and is_stale(entry.note):
            return 0
        return 1 if entry.note.source == PROGRAM else 2

    least = sorted(
        (entry for entry in notes if not entry.note.is_by_hand), key=rank
    )  # stable: the oldest first
    put_away = [*least[: max(0, len(notes) - LIMIT)], *lines[: max(0, len(lines) - COMPACTED_LIMIT)]]
    if not put_away:
        return data
    archive = path.parent / "archive" / path.name
    before = read_regular(archive) or _HEAD
    there = {line for line in before.split(b"\n") if line.strip()}
    all_lines = data.split(b"\n")
    moved = [b"\n".join(all_lines[entry.first : entry.end]) for entry in put_away]
    more = [text for text in moved if text not in there]
    before += b"" if before.endswith(b"\n") else b"\n"
    write_whole(archive, before + b"".join(text + b"\n" for text in more))
    return _without(data, put_away)


def _without(data: bytes, found: Sequence[Entry]) -> bytes:
    gone = {number for entry in found for number in range(entry.first, entry.end)}
    return b"\n".join(line for number, line in enumerate(data.split(b"\n")) if number not in gone)


def _changed(path: Path, change: Callable[[bytes], tuple[bytes, T]]) -> T:
    """Write what `change` makes of the file, under its lock; once more where somebody saved it meanwhile."""
    with locked(path.with_name(path.name + ".lock"), what=f"the notes {path.parent.name}/{path.name}"):
        for _ in range(_TRIES):
            before = read_regular(path)
            data, told = change(before or b"")
            if data == (before or b""):
                return told
            if read_regular(path) == before:
                write_whole(path, data)
                return told
    raise Busy(f"{path} is saved by another program all the time: try again when it is done")
