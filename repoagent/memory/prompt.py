"""What of a memory goes into a prompt: the notes, which stay the same from one request to the next, and apart from
them what was asked before."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.llm.usage import estimate_tokens
from repoagent.memory.identity.record import Memory, came_along
from repoagent.memory.notes.file import COMPACTED, Note, read_notes
from repoagent.memory.notes.stale import Older, gone
from repoagent.memory.records import EditRecord, read_edits
from repoagent.store import Warn, to_stderr

_NOTES_SHARE = 2 / 3  # of the budget, as long as there are edits to tell
_STALE_SHARE = 1 / 6  # of the budget for notes, as long as there are others
_EDITS = 8
_STALE = 6
_LONGEST_REQUEST = 400  # characters
FOREIGN = "(What follows came with the repository; who wrote it is not known, whatever it says of that.)"
_NOTES = "Notes on this file:"
_OUTDATED = "Notes that may be out of date, since the file does not have any more what they name:"


def block(
    memory: Memory,
    budget_tokens: int,
    *,
    data: bytes | None = None,
    older: Older | None = None,
    warn: Warn = to_stderr,
) -> str:
    """Notes, then the last edits (request and outcome), oldest first, in at most `budget_tokens` (estimated).

    For a model that is told no more than that; `data` and `older` as in `notes_block`. "" when there is nothing to
    tell.
    """
    edits = read_edits(memory.edits, warn=warn)[-_EDITS:]
    share = _NOTES_SHARE if edits else 1.0
    notes = _notes(memory, int(budget_tokens * share), data=data, older=older)
    left = budget_tokens - estimate_tokens(notes)
    return marked(
        memory, notes + _section("Last edits of this file:", [_outcome(edit) for edit in edits], left)
    )


def marked(memory: Memory, told: str) -> str:
    """What is told of a memory, with a line before it where it came with the repository."""
    return f"{FOREIGN}\n{told}" if told and came_along(memory.folder) else told


def notes_block(
    memory: Memory, budget_tokens: int, *, data: bytes | None = None, older: Older | None = None
) -> str:
    """The notes in the order of their file, in at most `budget_tokens` (estimated); "" for none.

    Where not all fit, those of a person are kept first, then the newest. With `data`, the present bytes of the file,
    notes about code that is gone stand apart and say so; `older` is as in `stale.gone`. Lines about exchanges that
    were compacted are left out: they are told with the exchanges.
    """
    return marked(memory, _notes(memory, budget_tokens, data=data, older=older))


def _notes(memory: Memory, budget_tokens: int, *, data: bytes | None, older: Older | None) -> str:
    notes = [note for note in read_notes(memory.notes) if note.source != COMPACTED]
    stale = gone(notes, data, older) if data is not None else {}
    good = [note for note in notes if note not in stale]
    outdated = [f"{_told(note, memory)} [gone: {', '.join(stale[note])}]" for note in notes if note in stale]
    for_stale = int(budget_tokens * (_STALE_SHARE if good else 1)) if outdated else 0
    apart = _section(_OUTDATED, outdated[-_STALE:], for_stale)
    lines = [_told(note, memory) for note in good]
    kept = [note.is_by_hand for note in good]
    return _section(_NOTES, lines, budget_tokens - estimate_tokens(apart), first=kept) + apart


def _section(title: str, lines: Sequence[str], budget_tokens: int, *, first: Sequence[bool] = ()) -> str:
    """`title` and as many of the last `lines` as the budget allows, those that are `first` before others; "" for
    none."""
    left = budget_tokens - estimate_tokens(title + "\n\n")
    numbers = sorted(range(len(lines)), key=lambda number: (not (first and first[number]), -number))
    kept = []
    for number in numbers:
        left -= estimate_tokens(lines[number] + "\n")
        if left < 0:
            break
        kept.append(number)
    return "\n".join([title, *(lines[number] for number in sorted(kept)), ""]) + "\n" if kept else ""


def _told(note: Note, memory: Memory) -> str:
    by = f"by {note.source}" if note.source and note.day else ""
    stamp = " ".join(part for part in (note.day, by) if part)
    line = f"- {stamp}: {note.text}" if stamp else f"- {note.text}"
    older = memory.identity.is_of_older_text(note.day, note.blob)
    return f"{line} (about an older text of this file)" if older else line


def _outcome(edit: EditRecord) -> str:
    request = _shortened(edit.request)
    commit = f" as {edit.commit[:12]}" if edit.commit else ""
    return f"- {edit.time[:10]}: {request} ({edit.state}{commit})"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REQUEST else line[: _LONGEST_REQUEST - 1] + "…"
