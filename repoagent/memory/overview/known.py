"""All that is known about one file, put together to be shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.llm.conversation import Turn, read
from repoagent.memory.care.clear import Put, put_away
from repoagent.memory.identity.index import open_index
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.relink import Step, last_step, steps
from repoagent.memory.notes.file import Note, read_notes
from repoagent.memory.notes.stale import gone, older_texts
from repoagent.memory.overview.rows import Measure, measured
from repoagent.memory.overview.state import Census, Standing
from repoagent.memory.records import EditRecord, read_edits
from repoagent.memory.turns.exchanges import grouped
from repoagent.repo.worktree import WorkTree
from repoagent.store import Layout, Warn


@dataclass(frozen=True)
class ToldNote:
    """A note, what it names that is gone, and whether it is about an older text of the file."""

    note: Note
    gone: tuple[str, ...]
    older: bool


@dataclass(frozen=True)
class Known:
    """`turns` are of the conversation, in so many `exchanges`; `broken` says why it can't be read, "" for nothing.
    `undo` is the re-keying that can be taken back first; `archived` are the other files of the archive."""

    memory: Memory
    standing: Standing
    measure: Measure
    notes: tuple[ToldNote, ...]
    edits: tuple[EditRecord, ...]
    turns: tuple[Turn, ...]
    exchanges: int
    broken: str
    steps: tuple[Step, ...]
    undo: Step | None
    cleared: tuple[Put, ...]
    archived: tuple[Path, ...]


def known(layout: Layout, worktree: WorkTree, memory: Memory, data: bytes | None, *, warn: Warn) -> Known:
    """What the memory holds about a file with the bytes `data`, None for one that is gone. Nothing is changed.

    What can't be read is left out, and said to `warn` or in the answer.
    """
    with open_index(layout, warn) as index:
        standing = Census(layout, worktree, index).standing(memory.folder.name, memory.identity.path)
    turns: tuple[Turn, ...] = ()
    broken = ""
    try:
        found = read(memory.conversation)
        turns = found.turns if found else ()
    except Refused as error:
        broken = str(error)
    return Known(
        memory,
        standing,
        measured(memory.folder),
        _notes(memory, worktree, data, warn),
        _edits(memory, warn),
        turns,
        len(grouped(turns)),
        broken,
        tuple(steps(memory.identity)),
        last_step(memory.identity, worktree),
        tuple(put_away(memory)),
        tuple(_archived(memory)),
    )


def _notes(memory: Memory, worktree: WorkTree, data: bytes | None, warn: Warn) -> tuple[ToldNote, ...]:
    try:
        notes = read_notes(memory.notes)
    except Refused as error:
        warn(str(error))
        return ()
    stale = gone(notes, data, older_texts(worktree)) if data is not None else {}
    older = memory.identity.is_of_older_text
    return tuple(ToldNote(note, stale.get(note, ()), older(note.day, note.blob)) for note in notes)


def _edits(memory: Memory, warn: Warn) -> tuple[EditRecord, ...]:
    try:
        return tuple(read_edits(memory.edits, warn=warn))
    except Refused as error:
        warn(str(error))
        return ()


def _archived(memory: Memory) -> Iterator[Path]:
    archive = memory.folder / "archive"
    if archive.is_dir() and not archive.is_symlink():
        yield from sorted(
            path for path in archive.iterdir() if path.is_file() and not path.name.startswith(".")
        )
