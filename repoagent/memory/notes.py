"""`notes.md`: what was learned about a file, one bullet each, for people to edit.

    # Notes

    - 2026-11-21 3f2a9c1: callers rely on the order of the result

Any bullet is a note, with or without date and blob; indented lines go on with it, and a paragraph is a
note too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from repoagent.store import append_line, read_regular

_HEAD = "# Notes\n\n"
_STAMPED = re.compile(r"(\d{4}-\d\d-\d\d)(?: ([0-9a-f]{7,64}))?: (.*)", re.DOTALL)
_SHORT = 12  # digits of a blob: enough to look it up, short enough to read


@dataclass(frozen=True)
class Note:
    """`day` is "YYYY-MM-DD" and `blob` the abbreviated version it is about; "" where a person left them
    out."""

    text: str
    day: str = ""
    blob: str = ""

    def __str__(self) -> str:
        stamp = " ".join(part for part in (self.day, self.blob) if part)
        return f"- {stamp}: {self.text}" if stamp else f"- {self.text}"


def add_note(path: Path, text: str, *, blob: str = "", day: date | None = None) -> Note:
    """Append `text` (its lines joined) to the notes file `path`, dated today, about the version `blob`."""
    note = Note(" ".join(text.split()), (day or date.today()).isoformat(), blob[:_SHORT])
    head = "" if read_regular(path) else _HEAD
    append_line(path, f"{head}{note}".encode(errors="replace"))
    return note


def read_notes(path: Path) -> tuple[Note, ...]:
    """The notes in `path`, in order; headings and blank lines are not notes."""
    text = (read_regular(path) or b"").decode(errors="replace")
    items: list[list[str]] = []
    goes_on = False
    for line in text.split("\n"):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            goes_on = False
        elif re.match(r"[-*+] ", line):
            items.append([stripped[2:].strip()])
            goes_on = True
        elif goes_on:
            items[-1].append(stripped)
        else:
            items.append([stripped])
            goes_on = True
    return tuple(_note(" ".join(item)) for item in items)


def _note(text: str) -> Note:
    stamped = _STAMPED.fullmatch(text)
    return Note(stamped[3], stamped[1], stamped[2] or "") if stamped else Note(text)
