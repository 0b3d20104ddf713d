"""Import memories: find the file of each, then create a memory, or add missing notes to the existing one.

A memory matches the file at its path if they share a version. An archive does not contain the content of files, only
the hashes of their versions. Imported items are marked: a note by its source ("person, imported from team.tar.gz"), a
turn and an edit by a field `imported`. Notes are compared without the mark, so importing twice adds nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.git.files import blob_hash
from repoagent.git.index import paths_by_blob
from repoagent.git.worktree import WorkTree
from repoagent.llm.conversation import dumps, loads
from repoagent.memory.archive.format import (
    ARCHIVED_NOTES,
    EDITS,
    NOTES,
    Archive,
    ArchivedMemory,
    move,
    records_of,
    scratch,
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
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.layout import Layout, Warn, to_stderr
from repoagent.storage.secrets import mask

_MARKED = re.compile(r"(?:(.{1,60}?), )?imported(?: from .{0,40})?")
_AUTHOR, _FROM = 36, 28  # characters: a source has at most 80
Outcome = Literal["new", "orphaned", "merged", "same"]


@dataclass(frozen=True)
class Counts:
    """Numbers of notes, edits and exchanges."""

    notes: int = 0
    edits: int = 0
    exchanges: int = 0


@dataclass(frozen=True)
class Arrival:
    """The result for one memory. `path` is the path of its file in the archive, `at` in this work tree, None if there
    is no file; `folder` is its memory in this repository, `why` the reason if no file matches. `counts` are of new
    items."""

    path: str
    at: str | None
    folder: str
    outcome: Outcome
    why: str
    counts: Counts


@dataclass(frozen=True)
class _Target:
    """`file` is the matching file, None for an orphan; `folder` its existing memory, "" if none. `why` is the reason if
    no file matches. `strangers` are files that only a user may link it to."""

    file: WorkTreeFile | None
    folder: str = ""
    why: str = ""
    strangers: tuple[str, ...] = ()


def import_memories(
    layout: Layout,
    worktree: WorkTree,
    archive: Archive,
    source: str,
    *,
    dry_run: bool = False,
    warn: Warn = to_stderr,
) -> list[Arrival]:
    """Import the memories of `archive`. `source` marks them ("imported from team"); "" restores memories that `gc`
    archived.

    If the process is killed, each new memory is complete or missing; importing again adds the rest. Raises Busy if
    another process is importing or does not release a lock in time, Refused if a memory cannot be written.
    """
    with open_index(layout, warn) as index:
        index.look_again()
        targets = _targets(layout, worktree, index, archive.parcels)
        folders = {target.folder for target in targets if target.folder}
        known = {folder: identity for folder in folders if (identity := index.identity(folder))}
    pairs = list(zip(archive.parcels, targets, strict=True))

    def add(parcel: ArchivedMemory, target: _Target, identity: Identity) -> Arrival:
        notes = _missing_notes(layout.memory / target.folder, parcel, source)
        if notes and not dry_run:
            add_notes(layout.memory / target.folder / NOTES, notes)
        at = identity.path if target.file is None else target.file.path
        outcome: Outcome = "merged" if notes else "same"
        return Arrival(parcel.identity.path, at, target.folder, outcome, target.why, Counts(len(notes)))

    def created(parcel: ArchivedMemory, target: _Target, folder: str) -> Arrival:
        at = None if target.file is None else target.file.path
        outcome: Outcome = "orphaned" if at is None else "new"
        counts = fresh_files(parcel, source)[1]
        return Arrival(parcel.identity.path, at, folder, outcome, target.why, counts)

    def create(parcel: ArchivedMemory, target: _Target, stage: Path) -> Arrival:
        """Stage the memory and move it into place under the first free name."""
        identity = _new_identity(parcel, target, worktree, source)
        for path, data in fresh_files(parcel, source)[0].items():
            write_whole(stage / parcel.name / path, data)
        if target.file is not None:
            keep_content(stage / parcel.name, worktree, target.file.data)
        save(stage / parcel.name, identity)
        with memory_lock(layout), open_index(layout, warn) as index:
            match = None if target.file is None else find(layout, index, target.file)
            if match is not None and (existing := index.identity(match.folder)) is not None:
                # another process has just created it
                return add(parcel, replace(target, folder=match.folder), existing)
            other = _other_name(parcel)
            names = (parcel.name, other, *(f"{other}-{number}" for number in range(2, 100)))
            name = next(name for name in names if not (layout.memory / name).exists())
            changes: list[Change] = [] if target.file is None else freed(index, target.file, name)
            # move first: a new folder is found even without hints
            move(stage / parcel.name, layout.memory / name)
            index.note([(name, None, identity), *changes])
            for folder, _, after in changes:
                save(layout.memory / folder, after)
            return created(parcel, target, name)

    def arrive(parcel: ArchivedMemory, target: _Target, stage: Path | None) -> Arrival:
        if target.folder in known:
            return add(parcel, target, known[target.folder])
        return created(parcel, target, parcel.name) if stage is None else create(parcel, target, stage)

    if dry_run:
        return [arrive(parcel, target, None) for parcel, target in pairs]
    with scratch(layout) as stage:
        return [arrive(parcel, target, stage) for parcel, target in pairs]


def _targets(
    layout: Layout, worktree: WorkTree, index: IdentityIndex, parcels: Sequence[ArchivedMemory]
) -> list[_Target]:
    """A target for each memory. Memories that match the same file all become orphans."""
    empty = blob_hash(b"", worktree.object_format)

    def versions(identity: Identity) -> set[str]:
        return set(identity.blobs) - {empty}

    def same_memory(parcel: ArchivedMemory) -> str:
        """The memory of the same file, by path and a common version; "" if none."""
        blobs, folders = versions(parcel.identity), []
        for kind in (PATH, EARLIER):
            for name in index.names(kind, parcel.identity.path):
                identity = index.identity(name)
                if identity is not None and (blobs & versions(identity) or blobs == versions(identity)):
                    folders.append(name)
        if len(folders) > 1:
            folders = [name for name in (_other_name(parcel), parcel.name) if name in folders]
        return folders[0] if folders else ""

    def target_of(parcel: ArchivedMemory) -> _Target:
        if folder := same_memory(parcel):
            return _Target(None, folder)
        path = parcel.identity.path
        file = file_at(worktree, path)
        if file is None:
            same = paths_by_blob(worktree).get(parcel.identity.blob, [])
            several = f", and {len(same)} files have its content" if len(same) > 1 else ""
            return _Target(None, "", f"no file {path}{several}", tuple(same) if several else ())
        if not _is_same_file(worktree, parcel.identity, file):
            return _Target(None, "", f"{path} is a different file")
        match = find(layout, index, file)
        return _Target(file, "" if match is None else match.folder)

    targets = [target_of(parcel) for parcel in parcels]
    claims = [target.folder or (f"/{target.file.path}" if target.file else "") for target in targets]
    total = Counter(filter(None, claims))
    return [
        target
        if total[claim] < 2
        else _Target(None, "", "several memories match the same file", (parcel.identity.path,))
        for parcel, target, claim in zip(parcels, targets, claims, strict=True)
    ]


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


def _other_name(parcel: ArchivedMemory) -> str:
    """The folder name for a memory whose name is already used by another one."""
    about = "\0".join((parcel.name, parcel.identity.path, *parcel.identity.blobs))
    return f"{parcel.name[:60]}-{sha256(about.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _new_identity(parcel: ArchivedMemory, target: _Target, worktree: WorkTree, source: str) -> Identity:
    identity = replace(parcel.identity, keys={}, places={}) if source else parcel.identity
    reason = "; ".join(filter(None, [source or "restored", target.why]))
    file, top = target.file, str(worktree.top)
    if file is None:
        strangers = tuple(dict.fromkeys((*identity.strangers, *target.strangers)))
        step = replace(rekeying(reason, WorkTreeFile(worktree, identity.path, b"", "")), blob=identity.blob)
        return replace(identity, strangers=strangers).noted(step)
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
    """The files of a new memory, masked and marked, and their counts; the files of a restored one are unchanged."""
    notes = {path: imported_notes(parcel.files.get(path, b""), source) for path in (ARCHIVED_NOTES, NOTES)}
    edits = records_of(parcel.files.get(EDITS, b"")).values()
    if not source:
        return dict(parcel.files), Counts(len(notes[NOTES]), len(edits))
    files = {
        path: ("# Notes\n\n" + "".join(f"{note}\n" for note in new)).encode(errors="replace")
        for path, new in notes.items()
        if new
    }
    if edits:
        clean = ({**value, "request": mask(value["request"]), "imported": source} for value in edits)
        files[EDITS] = b"".join(json_files.dumps(value) + b"\n" for value in clean)
    exchanges = 0
    for path, data in parcel.conversations():
        turns = [
            replace(turn, text=mask(turn.text), meta={**turn.meta, "imported": source})
            for turn in turns_of(data)
        ]
        if turns:
            exchanges += len(group_turns(turns))
            text = dumps(turns, loads(data.decode("utf-8", "surrogateescape")).nonce)
            text = re.sub("[\ud800-\udc7f\udd00-\udfff]", "\ufffd", text)
            files[path] = text.encode("utf-8", "surrogateescape")
    return files, Counts(len(notes[NOTES]), len(edits), exchanges)


def imported_notes(data: bytes, source: str) -> list[Note]:
    """The notes in the bytes of a notes file, masked, and marked with `source` if it is not ""."""
    notes = []
    for note in (entry.note for entry in entries(data)):
        text, author, day = " ".join(mask(note.text).split()), note.source, note.day
        if source and author != COMPACTED:
            if marked := _MARKED.fullmatch(author):
                author = marked[1] or ""
            author = re.sub(r":(?= |\Z)", "", author or USER)[:_AUTHOR].strip()
            author, day = f"{author}, {source}", day or date.today().isoformat()
        if text:
            notes.append(replace(note, text=text, source=author, day=day))
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
