"""A note that a person makes about a file, as it is now."""

from __future__ import annotations

import re

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, UsageError
from repoagent.memory.identity.record import Memory
from repoagent.memory.notes.file import (
    COMPACTED,
    PERSON,
    PROGRAM,
    IsStale,
    Note,
    add_notes,
    made_note,
    read_notes,
)
from repoagent.memory.notes.stale import older_texts, staleness
from repoagent.repo.source import blob_hash
from repoagent.repo.worktree import WorkTree
from repoagent.store.masking import mask

LONGEST = 4_000  # characters of a note of a person
MOST = 80  # notes at once
_BULLET = re.compile(r"[-*+] ")


@dataclass(frozen=True)
class Noted:
    """The notes that are there now; how many of them are new, and whether keys or tokens in them were masked."""

    notes: tuple[Note, ...]
    new: int
    masked: bool


def written_notes(text: str) -> list[str]:
    """The notes in a text of several lines: bullets and paragraphs, as they are read from a notes file."""
    found: list[str] = []
    goes_on = False
    for line in text.splitlines():
        bare = line.strip()
        if not bare or bare == "# Notes":
            goes_on = False
        elif goes_on and not _BULLET.match(line):
            found[-1] += f" {bare}"
        else:
            found.append(bare[2:].strip() if _BULLET.match(line) else bare)
            goes_on = True
    return [note for note in found if note]


def check_notes(texts: list[str]) -> None:
    """Raises UsageError for none, too many, and one that is too long to be read in each prompt."""
    if not any(text.strip() for text in texts):
        raise UsageError('the note is empty: say what to remember, `repoagent memory note FILE "..."`')
    if len(texts) > MOST:
        raise UsageError(f"these are {len(texts)} notes; at most {MOST} are taken at once")
    longest = max(map(len, texts))
    if longest > LONGEST:
        raise UsageError(
            f"a note has at most {LONGEST:,} characters and this one has {longest:,}: put a text of that length into a "
            "file, and name that with the option `context`"
        )


def take_notes(memory: Memory, worktree: WorkTree, texts: list[str], data: bytes | None) -> Noted:
    """Add notes of a person, about the file as it is: `data` are its bytes, None for a file that is gone.

    What says nothing new is not added, unless what says it is about an older text. Raises as `add_notes`.
    """
    blob = "" if data is None else blob_hash(data, worktree.object_format)
    shown = [mask(text) for text in texts]
    given = [made_note(text, blob=blob, source=PERSON) for text in shown]
    is_stale = None if data is None else staleness(memory, data, older_texts(worktree))
    return _added(memory, given, is_stale, masked=shown != texts)


def copy_notes(memory: Memory, source: Memory) -> Noted:
    """Add what was learned of another file, with its day, version and author, to the notes of `memory`.

    What happened to that file, and the lines of its old exchanges, stay with it. Raises NothingDone where there is
    nothing else, and as `add_notes`.
    """
    learned = [note for note in read_notes(source.notes) if note.source not in (PROGRAM, COMPACTED)]
    if not learned:
        raise NothingDone(f"there are no notes on {source.identity.path} that could be copied")
    return _added(memory, learned, None, masked=False)


def _added(memory: Memory, given: list[Note], is_stale: IsStale | None, *, masked: bool) -> Noted:
    before = set(read_notes(memory.notes))
    said = add_notes(memory.notes, given, is_stale=is_stale)
    return Noted(tuple(said), len(set(said) - before), masked)
