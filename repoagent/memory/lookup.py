"""Resolve what a user names to a memory, and collect what is known about one or all of them."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.git.files import read_source
from repoagent.git.similar_paths import no_such_file
from repoagent.git.worktree import WorkTree, relative
from repoagent.llm.conversation import Turn, read
from repoagent.memory.edit_records import EditRecord, group_turns, read_edits
from repoagent.memory.editing import ArchivedParts, archived_parts
from repoagent.memory.identity.hints import EARLIER, FEW, PATH, IdentityIndex, cache_file, folders, open_index
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import Step, copy_of, last_step, recognize, resolve, steps
from repoagent.memory.listing import FileLocation, FileLocator, Measure, measured
from repoagent.memory.notes import Note, older_texts, read_notes, stale_notes
from repoagent.storage.layout import Layout, Warn
from repoagent.storage.locks import held_by, trouble_with_locks

_ID = re.compile(r"[0-9a-f]{8}")
_NAME = re.compile(r"[a-z0-9-]*-[0-9a-f]{8}")


@dataclass(frozen=True)
class MemoryTarget:
    """`path` is that of the file in this work tree, `data` its bytes, None where there is no file. `memory` is None
    for a file that has none. `typed` is what it was called by."""

    path: str
    data: bytes | None
    memory: Memory | None
    typed: str


def find_target(
    layout: Layout, worktree: WorkTree, name: str, cwd: Path, *, warn: Warn, rekey: bool = False
) -> MemoryTarget:
    """What `name` means to somebody in `cwd`: what is there, or else a path from the top. With `rekey` a file that
    was found by its inode or content is written down as found, as an edit would.

    Raises UsageError for a folder, for what is neither a file nor remembered, and for a path that several memories of
    files that are gone have; Refused for what can't be read.
    """
    path = _relative(layout, worktree, name, cwd)
    if path is None:
        return _of_folder(layout, worktree, name, warn)
    if path == "." or ((worktree.top / path).is_dir() and not (worktree.top / path).is_symlink()):
        raise UsageError(
            f"{name} is a folder; name a file (`repoagent memory list {_shell(name)}` lists its memories)"
        )
    problem: Refused | None = None
    try:
        data = read_source(worktree, path).data
    except Refused as error:  # a link by now, say: the file that was there may be remembered
        data, problem = None, error
    if data is not None:
        look = resolve if rekey else recognize
        return MemoryTarget(path, data, look(layout, worktree, path, data, warn=warn), name)
    found = _gone(layout, worktree, path, warn)
    if found:
        return MemoryTarget(path, None, found, name)
    if problem is None and cwd != worktree.top and not name.startswith((".", "/")):
        with suppress(UsageError):  # what is said is of the folder the person is in
            return find_target(layout, worktree, name, worktree.top, warn=warn, rekey=rekey)
    raise problem or _not_there(layout, worktree, path, warn)


def require_memory(layout: Layout, worktree: WorkTree, found: MemoryTarget, *, warn: Warn) -> Memory:
    """The memory that was named. Raises NothingDone, with what may have been meant, for a file that has none."""
    if found.memory is not None:
        return found.memory
    sentence = f"no memory of {found.path}"
    original = copy_of(layout, worktree, found.path, found.data or b"", warn=warn)
    if original is not None:
        raise NothingDone(
            f"{sentence}; it {is_copy(original, worktree, found.typed)}; `repoagent memory relink "
            f"{_shell(found.typed)} --from {original.folder.name}` moves the memory here"
        )
    other = _gone(layout, worktree, found.path, warn)
    if other is not None:
        raise NothingDone(
            f"{sentence}, but of another file that was there before ({other.folder.name}); "
            f"`repoagent memory relink {_shell(found.typed)} --from {other.folder.name}` links it to this file"
        )
    raise NothingDone(sentence)


def is_copy(original: Memory, worktree: WorkTree, typed: str) -> str:
    """ "is a copy of …", of a file with the memory `original`, and how to have its notes too. `typed` is what the copy
    is called by."""
    sentence = f"is a copy of {original.identity.path_in(str(worktree.top))} and does not inherit its memory"
    if not read_notes(original.notes):
        return sentence
    return (
        f"{sentence}: `repoagent memory note {_shell(typed)} --from {original.folder.name}` copies its notes"
    )


def by_prefix(layout: Layout, worktree: WorkTree, beginning: str, most: int) -> list[str]:
    """At most `most` remembered paths that begin like this, sorted; for the completion of a shell, which is never told
    of what is wrong."""
    with open_index(layout, lambda sentence: None) as index:
        return index.paths_from(beginning, most)


def _relative(layout: Layout, worktree: WorkTree, name: str, cwd: Path) -> str | None:
    """The path of a file; None where the name is that of a memory."""
    if os.path.lexists(cwd / name):
        full = Path(os.path.realpath(cwd / name))
        return None if full.parent == layout.memory else relative(worktree, name, cwd)
    is_memory = _NAME.fullmatch(name) and (layout.memory / name).is_dir()
    if is_memory or _ID.fullmatch(name):
        return None
    return relative(worktree, name, cwd)


def _of_folder(layout: Layout, worktree: WorkTree, name: str, warn: Warn) -> MemoryTarget:
    wanted = Path(name).name
    if _ID.fullmatch(wanted):
        found = [folder for folder in folders(layout.memory) if folder.endswith(f"-{wanted}")]
        wanted = found[0] if len(found) == 1 else wanted
    with open_index(layout, warn) as index:
        identity = index.identity(wanted)
    if identity is None:
        raise UsageError(f"no file or memory {name}; see `repoagent memory list`")
    memory = Memory(layout.memory / wanted, identity)
    path = identity.path_in(str(worktree.top))
    try:
        data = read_source(worktree, path).data
    except Refused:
        data = None
    mine = None if data is None else recognize(layout, worktree, path, data, warn=warn)
    is_mine = mine is not None and mine.folder == memory.folder
    return MemoryTarget(path, data if is_mine else None, memory, name)


def _gone(layout: Layout, worktree: WorkTree, path: str, warn: Warn) -> Memory | None:
    """The memory of a file that was at `path`. Raises UsageError where there are several."""
    with open_index(layout, warn) as index:
        found = list(_at(index, layout, worktree, path))
    if len(found) > 1:
        names = ", ".join(memory.folder.name for memory in found)
        raise UsageError(f"{path} is ambiguous: several deleted files were there; name the memory: {names}")
    return found[0] if found else None


def _at(index: IdentityIndex, layout: Layout, worktree: WorkTree, path: str) -> list[Memory]:
    loaded = ((name, index.identity(name)) for name in index.names(PATH, path))
    return [
        Memory(layout.memory / name, identity)
        for name, identity in loaded
        if identity is not None and path in (identity.path_in(str(worktree.top)), identity.path)
    ]


def _not_there(layout: Layout, worktree: WorkTree, path: str, warn: Warn) -> UsageError:
    reason = "and it has no memory"
    with open_index(layout, warn) as index:
        loaded = [index.identity(folder) for folder in index.names(EARLIER, path)]
    now = sorted({identity.path for identity in loaded if identity is not None})
    if now:
        return no_such_file(
            path, worktree.top, reason=reason, remedy=f"{_shell(now[0])} had that name before"
        )
    return no_such_file(path, worktree.top, reason=reason)


def _shell(name: str) -> str:
    return shlex.quote(name)


@dataclass(frozen=True)
class NoteStatus:
    """A note, what it names that is gone, and whether it is about an older text of the file."""

    note: Note
    gone: tuple[str, ...]
    older: bool


@dataclass(frozen=True)
class FileMemory:
    """`turns` are of the conversation, in so many `exchanges`; `broken` says why it can't be read, "" for nothing.
    `undo` is the re-keying that can be taken back first; `archived` are the other files of the archive."""

    memory: Memory
    standing: FileLocation
    measure: Measure
    notes: tuple[NoteStatus, ...]
    edits: tuple[EditRecord, ...]
    turns: tuple[Turn, ...]
    exchanges: int
    broken: str
    steps: tuple[Step, ...]
    undo: Step | None
    cleared: tuple[ArchivedParts, ...]
    archived: tuple[Path, ...]


def load_file_memory(
    layout: Layout, worktree: WorkTree, memory: Memory, data: bytes | None, *, warn: Warn
) -> FileMemory:
    """What the memory holds about a file with the bytes `data`, None for one that is gone. Nothing is changed.

    What can't be read is left out, and said to `warn` or in the answer.
    """
    with open_index(layout, warn) as index:
        standing = FileLocator(layout, worktree, index).standing(memory.folder.name, memory.identity.path)
    turns: tuple[Turn, ...] = ()
    broken = ""
    try:
        found = read(memory.conversation)
        turns = found.turns if found else ()
    except Refused as error:
        broken = str(error)
    return FileMemory(
        memory,
        standing,
        measured(memory.folder),
        _notes(memory, worktree, data, warn),
        _read_edits(memory, warn),
        turns,
        len(group_turns(turns)),
        broken,
        tuple(steps(memory.identity)),
        last_step(memory.identity, worktree),
        tuple(archived_parts(memory)),
        tuple(_archived(memory)),
    )


def _notes(memory: Memory, worktree: WorkTree, data: bytes | None, warn: Warn) -> tuple[NoteStatus, ...]:
    try:
        notes = read_notes(memory.notes)
    except Refused as error:
        warn(str(error))
        return ()
    stale = stale_notes(notes, data, older_texts(worktree)) if data is not None else {}
    older = memory.identity.is_of_older_text
    return tuple(NoteStatus(note, stale.get(note, ()), older(note.day, note.blob)) for note in notes)


def _read_edits(memory: Memory, warn: Warn) -> tuple[EditRecord, ...]:
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


_BROKEN = re.compile(r".+\.broken-\d+")


@dataclass(frozen=True)
class Totals:
    """`states` counts memories. `lacking` are folders without an identity that can be used. `set_aside` are paths of
    what was broken, `held` are (lock, who) of locks that are held now. `index` says how memories are found, in words,
    and `locks` what is wrong with the locks of the file system, "" for nothing."""

    states: Counter[str]
    lacking: tuple[str, ...]
    size: int
    edits: int
    notes: int
    sent: int
    set_aside: tuple[Path, ...]
    held: tuple[tuple[Path, str], ...]
    index: str
    locks: str

    @property
    def count(self) -> int:
        return self.states.total()


def totals(layout: Layout, worktree: WorkTree, warn: Warn) -> Totals:
    """Looks at every memory. Raises Refused where the memory folder is no real one."""
    states: Counter[str] = Counter()
    sums = [0, 0, 0]
    known = set()
    aside, locks = [*_aside(layout.root)], [layout.memory_lock, *_locks(layout.locks, "")]
    with open_index(layout, warn) as index:
        index.look_again()
        census = FileLocator(layout, worktree, index)
        for name, path in index.paths():
            known.add(name)
            states[census.standing(name, path).state] += 1
    names = sorted(folders(layout.memory))
    for name in names:
        place = layout.memory / name
        measure = measured(place)
        sums = [total + one for total, one in zip(sums, measure[:3], strict=True)]
        aside += _aside(place)
        locks += _locks(place)
    return Totals(
        states=states,
        lacking=tuple(name for name in names if name not in known),
        size=sums[0],
        edits=sums[1],
        notes=sums[2],
        sent=sum(entry.stat(follow_symlinks=False).st_size for entry in _entries(layout.sent)),
        set_aside=tuple(sorted(aside)),
        held=tuple((lock, who) for lock in locks if (who := held_by(lock)) is not None),
        index=_index(layout, len(names)),
        locks=trouble_with_locks(layout.memory if layout.memory.is_dir() else worktree.top),
    )


def _index(layout: Layout, count: int) -> str:
    if count <= FEW:
        return "not needed for so few memories"
    try:
        size = cache_file(layout).stat().st_size
    except OSError:
        return "unusable; every memory is read each time"
    return f"up to date, {size:,} bytes"


def _aside(folder: Path) -> Iterator[Path]:
    return (folder / entry.name for entry in _entries(folder) if _BROKEN.fullmatch(entry.name))


def _locks(folder: Path, ending: str = ".lock") -> Iterator[Path]:
    """Lock files that somebody has signed: who gives a lock back empties it."""
    for entry in _entries(folder):
        if entry.name.endswith(ending) and entry.stat(follow_symlinks=False).st_size:
            yield folder / entry.name


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from (entry for entry in found)
    except OSError:
        return
