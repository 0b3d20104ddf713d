"""Find the memory that a user names, and collect its contents."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from shlex import quote

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.git.files import no_such_file, read_source
from repoagent.git.worktree import WorkTree, relative_path
from repoagent.llm.conversation import Turn, read_conversation
from repoagent.memory.edit_records import EditRecord, group_turns, read_edits
from repoagent.memory.editing import ArchivedParts, archived_parts
from repoagent.memory.identity.memory_index import EARLIER, PATH, memory_folders, open_index
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.resolve import file_at
from repoagent.memory.identity.store import recognize_memory, resolve_memory
from repoagent.memory.listing import FileLocator, MemoryLocation, MemoryUse, measure_memory
from repoagent.memory.notes import Note, older_texts, read_notes, stale_notes
from repoagent.storage.layout import Layout, Warn

_ID = re.compile(r"[0-9a-f]{8}")
_NAME = re.compile(r"[a-z0-9-]*-[0-9a-f]{8}")


@dataclass(frozen=True)
class MemoryTarget:
    """The file that a user named as `typed`.

    path: its path in this work tree.
    data: its bytes; None if it does not exist.
    memory: its memory; None if it has none.
    """

    path: str
    data: bytes | None
    memory: Memory | None
    typed: str


def find_target(
    layout: Layout, worktree: WorkTree, name: str, cwd: Path, *, warn: Warn, rekey: bool = False
) -> MemoryTarget:
    """Find the file or memory `name`, relative to `cwd` or, if nothing is at that path, to the top of the work tree.

    With `rekey`, a memory found by inode or content is updated, as an edit would do. Raises UsageError for a folder, if
    nothing matches, or if memories of several deleted files match; Refused if the file cannot be read.
    """
    if os.path.lexists(cwd / name):
        is_memory = Path(os.path.realpath(cwd / name)).parent == layout.memory
    else:
        is_memory = bool(_ID.fullmatch(name) or (_NAME.fullmatch(name) and (layout.memory / name).is_dir()))
    if is_memory:
        return _by_folder(layout, worktree, name, warn)
    path = relative_path(worktree, name, cwd)
    if path == "." or ((worktree.top / path).is_dir() and not (worktree.top / path).is_symlink()):
        raise UsageError(
            f"{name} is a folder; name a file (`repoagent memory list {quote(name)}` lists its memories)"
        )
    problem: Refused | None = None
    try:
        data = read_source(worktree, path).data
    except Refused as error:  # for example a link that replaced a file with a memory
        data, problem = None, error
    if data is not None:
        look = resolve_memory if rekey else recognize_memory
        return MemoryTarget(path, data, look(layout, worktree, path, data, warn=warn), name)
    if gone := _deleted(layout, worktree, path, warn):
        return MemoryTarget(path, None, gone, name)
    if problem is None and cwd != worktree.top and not name.startswith((".", "/")):
        with suppress(UsageError):  # report the error below instead, about the current folder
            return find_target(layout, worktree, name, worktree.top, warn=warn, rekey=rekey)
    if problem is not None:
        raise problem
    with open_index(layout, warn) as index:
        loaded = [index.identity(folder) for folder in index.names(EARLIER, path)]
    current = sorted({identity.path for identity in loaded if identity is not None})
    remedy = f"it was renamed to {quote(current[0])}" if current else ""
    raise no_such_file(path, worktree.top, reason="and there is no memory for it", remedy=remedy)


def _by_folder(layout: Layout, worktree: WorkTree, name: str, warn: Warn) -> MemoryTarget:
    folder = Path(name).name
    if _ID.fullmatch(folder):
        matching = [
            candidate for candidate in memory_folders(layout.memory) if candidate.endswith(f"-{folder}")
        ]
        folder = matching[0] if len(matching) == 1 else folder
    with open_index(layout, warn) as index:
        identity = index.identity(folder)
    if identity is None:
        raise UsageError(f"no file or memory named {name}; see `repoagent memory list`")
    memory = Memory(layout.memory / folder, identity)
    path = identity.path_in(str(worktree.top))
    file = file_at(worktree, path)
    owner = None if file is None else recognize_memory(layout, worktree, path, file.data, warn=warn)
    is_owner = owner is not None and owner.folder == memory.folder
    return MemoryTarget(path, file.data if file is not None and is_owner else None, memory, name)


def _deleted(layout: Layout, worktree: WorkTree, path: str, warn: Warn) -> Memory | None:
    """The memory of a deleted file at `path`. Raises UsageError if there are several."""
    with open_index(layout, warn) as index:
        loaded = [(name, index.identity(name)) for name in index.names(PATH, path)]
    matches = [
        Memory(layout.memory / name, identity)
        for name, identity in loaded
        if identity is not None and path in (identity.path_in(str(worktree.top)), identity.path)
    ]
    if len(matches) > 1:
        names = ", ".join(memory.folder.name for memory in matches)
        raise UsageError(
            f"{path} is ambiguous: several deleted files had this path; name one of their memories ({names})"
        )
    return matches[0] if matches else None


def require_memory(layout: Layout, worktree: WorkTree, target: MemoryTarget, *, warn: Warn) -> Memory:
    """The memory of the target. Raises NothingDone, with suggestions, if it has none."""
    if target.memory is not None:
        return target.memory
    hint = ""
    if earlier := _deleted(layout, worktree, target.path, warn):
        relink = f"`repoagent memory relink {quote(target.typed)} --from {earlier.folder.name}`"
        hint = f"; an earlier file at this path had one: {relink} links it to this file"
    raise NothingDone(f"{target.path} has no memory{hint}")


@dataclass(frozen=True)
class NoteStatus:
    """A note, the names in it that the file no longer contains, and whether it is about an older version."""

    note: Note
    gone: tuple[str, ...]
    older: bool


@dataclass(frozen=True)
class FileMemory:
    """The contents of a memory. `broken` is the error if its conversation cannot be read, else ""."""

    memory: Memory
    location: MemoryLocation
    measure: MemoryUse
    notes: tuple[NoteStatus, ...]
    edits: tuple[EditRecord, ...]
    turns: tuple[Turn, ...]
    broken: str
    cleared: tuple[ArchivedParts, ...]
    archived: tuple[Path, ...]

    @property
    def exchanges(self) -> int:
        return len(group_turns(self.turns))


def load_file_memory(
    layout: Layout, worktree: WorkTree, memory: Memory, data: bytes | None, *, warn: Warn
) -> FileMemory:
    """Load a memory. `data` is the content of its file, None if the file is gone. Unreadable parts are reported and
    left out."""
    identity = memory.identity
    with open_index(layout, warn) as index:
        location = FileLocator(layout, worktree, index).locate(memory.folder.name, identity.path)
    turns: tuple[Turn, ...] = ()
    notes: tuple[Note, ...] = ()
    edits: list[EditRecord] = []
    broken = ""
    try:
        conversation = read_conversation(memory.conversation)
        turns = conversation.turns if conversation else ()
    except Refused as error:
        broken = str(error)
    try:
        notes = read_notes(memory.notes)
    except Refused as error:
        warn(str(error))
    try:
        edits = read_edits(memory.edits, warn=warn)
    except Refused as error:
        warn(str(error))
    stale = {} if data is None else stale_notes(notes, data, older_texts(worktree))
    statuses = [
        NoteStatus(note, stale.get(note, ()), identity.is_of_older_text(note.day, note.blob))
        for note in notes
    ]
    archive = memory.folder / "archive"
    files = archive.iterdir() if archive.is_dir() and not archive.is_symlink() else ()
    archived = tuple(sorted(path for path in files if path.is_file() and not path.name.startswith(".")))
    size, cleared = measure_memory(memory.folder), tuple(archived_parts(memory))
    return FileMemory(memory, location, size, tuple(statuses), tuple(edits), turns, broken, cleared, archived)
