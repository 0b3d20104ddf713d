"""Import memories: find the file of each, then create a memory, or add missing notes to the existing one.

A memory matches the file at its path if they share a version. An archive does not contain the content of files, only
the hashes of their versions. Imported notes are marked by their source ("person, imported from team.tar.gz"); they are
compared without the mark, so importing twice adds nothing.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import blob_hash
from repoagent.git.worktree import WorkTree
from repoagent.memory.archive.format import (
    ARCHIVED_NOTES,
    NOTES,
    SHARED,
    ArchivedMemory,
    masked_text,
    records_of,
    turns_of,
)
from repoagent.memory.edit_records import group_turns
from repoagent.memory.identity.git_renames import blob_at, same_through_history
from repoagent.memory.identity.hints import EARLIER, PATH, Change, IdentityIndex, open_index
from repoagent.memory.identity.record import Identity, save
from repoagent.memory.identity.resolve import WorkTreeFile, file_at, find
from repoagent.memory.identity.similarity import keep_content
from repoagent.memory.identity.store import freed, memory_lock, rekeying
from repoagent.memory.notes import COMPACTED, USER, Note, add_notes, entries, says_nothing_new
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.layout import Layout, Warn, ensure, to_stderr
from repoagent.storage.locks import locked

_MARKED = re.compile(r"(?:(.{1,60}?), )?imported(?: from .{0,40})?")
_AUTHOR, _FROM = 36, 28  # characters: a source has at most 80
Outcome = Literal["new", "orphaned", "merged", "same"]


@dataclass(frozen=True)
class Counts:
    """Numbers of new notes, edits and exchanges."""

    notes: int = 0
    edits: int = 0
    exchanges: int = 0


@dataclass(frozen=True)
class Arrival:
    """The result for one memory. `path` is the path of its file in the archive, `at` in this work tree, None if it
    is missing; `folder` is its memory in this repository, `why` the reason if no file matches."""

    path: str
    at: str | None
    folder: str
    outcome: Outcome
    why: str
    counts: Counts


def import_memories(
    layout: Layout,
    worktree: WorkTree,
    parcels: Sequence[ArchivedMemory],
    source: str,
    *,
    dry_run: bool = False,
    warn: Warn = to_stderr,
) -> list[Arrival]:
    """Import memories. `source` marks them ("imported from team"); "" restores memories that `gc` archived.

    If the process is killed, each new memory is complete or missing; importing again adds the rest. Raises Busy if
    another process is importing or does not release a lock in time, Refused if a memory cannot be written.
    """
    with ExitStack() as stack:
        stage = None if dry_run else stack.enter_context(_scratch(layout))
        return [
            _import(layout, worktree, parcel, source=source, stage=stage, warn=warn) for parcel in parcels
        ]


def _import(
    layout: Layout, worktree: WorkTree, parcel: ArchivedMemory, *, source: str, stage: Path | None, warn: Warn
) -> Arrival:
    """Import one memory; without `stage` only report what would be done."""
    path = parcel.identity.path
    with ExitStack() as stack:
        if stage is not None:
            stack.enter_context(memory_lock(layout))
        index = stack.enter_context(open_index(layout, warn))
        file, folder, why = _find_target(layout, worktree, index, parcel)
        identity = index.identity(folder) if folder else None
        if identity is not None:
            notes = _missing_notes(layout.memory / folder, parcel, source)
            if notes and stage is not None:
                add_notes(layout.memory / folder / NOTES, notes)
            at = identity.path if file is None else file.path
            return Arrival(path, at, folder, "merged" if notes else "same", "", Counts(len(notes)))
        names = (parcel.name, *(f"{parcel.name[:70]}-{number}" for number in range(2, 1000)))
        folder = next(name for name in names if not (layout.memory / name).exists())
        files, counts = fresh_files(parcel, source)
        if stage is not None:
            for name, data in files.items():
                write_whole(stage / folder / name, data)
            changes: list[Change] = []
            if file is not None:
                keep_content(stage / folder, worktree, file.data)
                changes = freed(index, file, folder)
            identity = _identity(parcel, file, worktree, source, why)
            save(stage / folder, identity)
            move(stage / folder, layout.memory / folder)  # first: a new folder is found even without hints
            index.note([(folder, None, identity), *changes])
            for other, _, after in changes:
                save(layout.memory / other, after)
        if file is None:
            return Arrival(path, None, folder, "orphaned", why, counts)
        return Arrival(path, file.path, folder, "new", why, counts)


def _find_target(
    layout: Layout, worktree: WorkTree, index: IdentityIndex, parcel: ArchivedMemory
) -> tuple[WorkTreeFile | None, str, str]:
    """The file of a memory and its folder here ("" for none), and the reason if there is neither."""
    empty = blob_hash(b"", worktree.object_format)
    blobs = set(parcel.identity.blobs) - {empty}
    folders = []
    for name in (name for kind in (PATH, EARLIER) for name in index.names(kind, parcel.identity.path)):
        identity = index.identity(name)
        versions = set() if identity is None else set(identity.blobs) - {empty}
        if identity is not None and (blobs & versions or blobs == versions):
            folders.append(name)
    if folders:
        return None, parcel.name if parcel.name in folders else folders[0], ""
    path = parcel.identity.path
    file = file_at(worktree, path)
    if file is None:
        return None, "", f"no file {path}"
    if not _is_same_file(worktree, parcel.identity, file):
        return None, "", f"{path} is a different file"
    match = find(layout, index, file)
    return file, "" if match is None else match.folder, ""


def _is_same_file(worktree: WorkTree, identity: Identity, file: WorkTreeFile) -> bool:
    """Whether the memory has seen this version or the one in HEAD, or the history of the file leads to it."""
    if file.blob in identity.blobs:
        return True
    head = blob_at(worktree, f"HEAD:{file.path}")
    if head is None or not head.strip():
        return False
    if blob_hash(head, worktree.object_format) in identity.blobs:
        return True
    commit = identity.commit
    return commit is not None and same_through_history(worktree, file.path, head, commit)


def _identity(
    parcel: ArchivedMemory, file: WorkTreeFile | None, worktree: WorkTree, source: str, why: str
) -> Identity:
    identity = replace(parcel.identity, keys={}, places={}) if source else parcel.identity
    reason = "; ".join(filter(None, [source or "restored", why]))
    if file is None:
        step = rekeying(reason, WorkTreeFile(worktree, identity.path, b"", ""))
        return identity.noted(replace(step, blob=identity.blob))
    top = str(worktree.top)
    if identity.path_in(top) != file.path:
        identity = identity.at(file.path, top)
    if file.key:
        identity = identity.keyed(file.key, top)
    return identity.noted(rekeying(reason, file)).seen(file.blob, top)


def source_of(name: str) -> str:
    """The mark of items from the archive `name`: short, on one line, and unlike the stamp of a note."""
    plain = " ".join(re.sub(r"[^\w .@+-]", " ", name.removesuffix(".tar.gz")).split())[:_FROM].strip()
    return f"imported from {plain}" if plain else "imported"


def fresh_files(parcel: ArchivedMemory, source: str) -> tuple[dict[str, bytes], Counts]:
    """The files of a new memory, masked, with marked notes, and their counts; those of a restored one are unchanged."""
    files = dict(parcel.files)
    if source:
        files = {path: masked_text(path, data) for path, data in files.items() if SHARED.fullmatch(path)}
    for path in (ARCHIVED_NOTES, NOTES) if source else ():
        if notes := imported_notes(files.pop(path, b""), source):
            files[path] = ("# Notes\n\n" + "".join(f"{note}\n" for note in notes)).encode(errors="replace")
    turns = [turn for path, data in parcel.conversations() for turn in turns_of(data)] if source else []
    edits = records_of(files.get("edits.jsonl", b""))
    return files, Counts(len(entries(files.get(NOTES, b""))), len(edits), len(group_turns(turns)))


def imported_notes(data: bytes, source: str) -> list[Note]:
    """The notes in the bytes of a notes file, masked, and marked with `source` if it is not ""."""
    notes = []
    for note in (entry.note for entry in entries(masked_text(NOTES, data))):
        author, day = note.source, note.day
        if source and author != COMPACTED:
            if marked := _MARKED.fullmatch(author):
                author = marked[1] or ""
            author = re.sub(r":(?= |\Z)", "", author or USER)[:_AUTHOR].strip()
            author, day = f"{author}, {source}", day or date.today().isoformat()
        if note.text:
            notes.append(replace(note, source=author, day=day))
    return notes


def _missing_notes(folder: Path, parcel: ArchivedMemory, source: str) -> list[Note]:
    """The notes of `parcel` that the memory in `folder` and its archive lack."""
    current = [entry.note for entry in entries(read_regular(folder / NOTES) or b"")]
    archived = [entry.note for entry in entries(read_regular(folder / ARCHIVED_NOTES) or b"")]
    known = {(note.text, note.blob) for note in (*current, *archived)}
    texts = [note.text for note in current if note.source != COMPACTED]
    missing = []
    for note in imported_notes(parcel.files.get(NOTES, b""), source):
        if note.source == COMPACTED or (note.text, note.blob) in known:
            continue
        if not any(says_nothing_new(note.text, text) for text in texts):
            known.add((note.text, note.blob))
            missing.append(note)
    return missing


@contextmanager
def _scratch(layout: Layout) -> Iterator[Path]:
    """A temporary folder on the file system of the memories. Raises Busy while another import is running, Refused if it
    cannot be created."""
    ensure(layout)
    folder = layout.root / "arriving"

    def remove() -> None:
        if folder.is_symlink():
            raise Refused(f"{folder} is a symbolic link; remove it")
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise system_failed("remove", folder, error) from error

    with locked(layout.root / "archive.lock", what="the import of memories"):
        remove()  # left by a killed process
        with open_folder(folder, create=True):
            pass
        try:
            yield folder
        finally:
            remove()


def move(folder: Path, to: Path) -> None:
    """Rename a folder and sync both parents. Raises OSError if `to` exists."""
    with open_folder(folder.parent) as source, open_folder(to.parent, create=True) as target:
        os.rename(folder.name, to.name, src_dir_fd=source, dst_dir_fd=target)
        os.fsync(target)
        os.fsync(source)
