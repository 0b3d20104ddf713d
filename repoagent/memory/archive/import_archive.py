"""Import memories: find the file that each belongs to, then create a new memory or merge it into an existing one.

A memory matches the file at its path if they share a version. An archive does not contain the content of files, only
the hashes of their versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import blob_hash, read_source
from repoagent.git.index import paths_by_blob
from repoagent.git.worktree import WorkTree
from repoagent.memory.archive.export import move, scratch
from repoagent.memory.archive.format import (
    ARCHIVED_NOTES,
    CONVERSATION,
    EDITS,
    NOTES,
    Archive,
    ArchivedMemory,
    known_edits,
)
from repoagent.memory.archive.gc import archive_memory
from repoagent.memory.archive.merge import (
    Counts,
    arriving_notes,
    merge_memory,
    new_turns,
    nonce_of,
    said,
    same_notes,
    turns_of,
    with_edits,
    with_notes,
    with_turns,
)
from repoagent.memory.identity import resolve
from repoagent.memory.identity.hints import EARLIER, PATH, Change, IdentityIndex, open_index
from repoagent.memory.identity.record import Identity, Memory, Rekeying, save
from repoagent.memory.identity.resolve import WorkTreeFile, find, key_at
from repoagent.memory.identity.similarity import keep_content
from repoagent.memory.identity.store import freed, memory_lock, rekeying
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.layout import Layout, Warn, to_stderr


@dataclass(frozen=True)
class ImportTarget:
    """`file` is the file that a memory arrives at, None for an orphan; `folder` the memory that is here of it, or of
    the same file that is gone, "" for none. `why` says why there is no file. `not_at` are files that it is not tied to
    before a person does so."""

    file: WorkTreeFile | None
    folder: str
    why: str = ""
    not_at: tuple[str, ...] = ()


@dataclass(frozen=True)
class TargetFinder:
    """Looks for the files of arriving memories."""

    layout: Layout
    worktree: WorkTree
    index: IdentityIndex

    def of(self, parcels: Sequence[ArchivedMemory]) -> list[ImportTarget]:
        """A place for each. No file gets two: where two are meant, both arrive as orphans."""
        found = [self._of(parcel) for parcel in parcels]
        count = Counter(_claim(place) for place in found if _claim(place))
        return [
            place
            if count[_claim(place)] < 2
            else ImportTarget(None, "", "several memories match the same file", (parcel.identity.path,))
            for parcel, place in zip(parcels, found, strict=True)
        ]

    def _of(self, parcel: ArchivedMemory) -> ImportTarget:
        here = self._same_memory(parcel)
        if here:
            return ImportTarget(None, here)
        path = parcel.identity.path
        file = self._file(path)
        if file is None:
            same = self._by_blob.get(parcel.identity.blob, [])
            if len(same) > 1:  # git would call one of them the new name
                return ImportTarget(
                    None, "", f"no file {path}, and {len(same)} files have its content", tuple(same)
                )
            return ImportTarget(None, "", f"no file {path}")
        if not self._is_same_file(parcel.identity, file):
            return ImportTarget(None, "", f"{path} is a different file")
        found = find(self.layout, self.index, file)
        return ImportTarget(file, "" if found is None else found.folder)

    @cached_property
    def _by_blob(self) -> dict[str, list[str]]:
        return paths_by_blob(self.worktree)

    def _same_memory(self, parcel: ArchivedMemory) -> str:
        """The memory here that is of the same file by its path and a version that both have seen; "" for none."""
        blobs = self._telling(parcel.identity)
        found = []
        for kind in (PATH, EARLIER):
            for name in self.index.names(kind, parcel.identity.path):
                identity = self.index.identity(name)
                known = set() if identity is None else self._telling(identity)
                if identity is not None and (blobs & known or blobs == known):
                    found.append(name)
        if len(found) > 1:
            found = [name for name in reversed(names_for(parcel)) if name in found]
        return found[0] if found else ""

    def _telling(self, identity: Identity) -> set[str]:
        return set(identity.blobs) - {blob_hash(b"", self.worktree.object_format)}

    def _file(self, path: str) -> WorkTreeFile | None:
        try:
            data = read_source(self.worktree, path).data
        except (Refused, OSError, ValueError):  # a folder, a link
            return None
        return None if data is None else WorkTreeFile(self.worktree, path, data, key_at(self.worktree, path))

    def _is_same_file(self, identity: Identity, file: WorkTreeFile) -> bool:
        """Whether the memory has seen the file at its path, as it is or as HEAD has it, or git has had it as one file
        since."""
        head = resolve.in_head(self.worktree, file.path)
        if file.blob in identity.blobs:
            return True
        if head is None or not head.strip():
            return False
        if blob_hash(head, self.worktree.object_format) in identity.blobs:
            return True
        commit = identity.commit
        return bool(commit and resolve.same_through_history(self.worktree, file.path, head, commit))


def names_for(parcel: ArchivedMemory) -> tuple[str, str]:
    """The name of a folder for a memory that arrives, and another where that one is taken by another memory."""
    about = "\0".join((parcel.name, parcel.identity.path, *parcel.identity.blobs))
    mark = sha256(about.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return parcel.name, f"{parcel.name[:60]}-{mark}"


def _claim(place: ImportTarget) -> str:
    """What two memories can't both have."""
    return place.folder or (f"/{place.file.path}" if place.file else "")


Mode = Literal["merge", "ours", "theirs"]
Outcome = Literal["new", "orphaned", "merged", "same", "kept", "replaced"]


@dataclass(frozen=True)
class Import:
    """`source` marks what arrives ("imported from team"), "" for what was put away here and comes back. Where there is
    a memory already both are united, or `ours` stays as it is, or `theirs` takes its place."""

    source: str
    mode: Mode = "merge"
    dry_run: bool = False

    @property
    def own(self) -> bool:
        return not self.source


@dataclass(frozen=True)
class Arrival:
    """What came of one memory. `path` is that of its file where it comes from, `at` here, None for no file here;
    `folder` is its memory here. `why` says why no file was found. `counts` is what is new here."""

    path: str
    at: str | None
    folder: str
    outcome: Outcome
    why: str
    counts: Counts


def import_memories(
    layout: Layout, worktree: WorkTree, archive: Archive, how: Import, *, warn: Warn = to_stderr
) -> list[Arrival]:
    """Take the memories of `archive` in. After a kill each new one is here as a whole or not at all; to do it again
    completes it, and what is here already is not taken twice.

    Raises Busy when another process imports or holds a lock for too long, Refused where nothing can be written.
    """
    with open_index(layout, warn) as index:
        index.look_again()
        places = TargetFinder(layout, worktree, index).of(archive.parcels)
        here = {
            name: identity
            for place in places
            if (name := place.folder) and (identity := index.identity(name))
        }
    pairs = list(zip(archive.parcels, places, strict=True))
    if how.dry_run:
        return [_told(layout, parcel, place, here.get(place.folder), how) for parcel, place in pairs]
    context = _Importer(layout, worktree, how, warn)
    with scratch(layout) as stage:
        return [context.take(parcel, place, here.get(place.folder), stage) for parcel, place in pairs]


def _told(
    layout: Layout, parcel: ArchivedMemory, place: ImportTarget, identity: Identity | None, how: Import
) -> Arrival:
    """What would come of it."""
    if not place.folder or identity is None:
        _, counts = fresh_files(parcel, how)
        name = names_for(parcel)[0]
        return _new(parcel, place, name, counts)
    folder = layout.memory / place.folder
    if how.mode == "ours":
        return _known(parcel, place, identity, "kept", Counts())
    if how.mode == "theirs":
        same = is_same(folder, parcel)
        return _known(parcel, place, identity, "same" if same else "replaced", Counts())
    counts = merge_memory(folder, parcel, how.source, write=False, warn=lambda sentence: None)
    return _known(parcel, place, identity, "merged" if counts else "same", counts)


@dataclass(frozen=True)
class _Importer:
    layout: Layout
    worktree: WorkTree
    how: Import
    warn: Warn

    def take(
        self, parcel: ArchivedMemory, place: ImportTarget, identity: Identity | None, stage: Path
    ) -> Arrival:
        if not place.folder or identity is None:
            files, counts = fresh_files(parcel, self.how)
            name, mine = self._move_in(parcel, place, files, stage / parcel.name)
            if mine is None:
                return _new(parcel, place, name, counts)
            place, identity = replace(place, folder=name), mine  # another process has made it meanwhile
        memory = Memory(self.layout.memory / place.folder, identity)
        if self.how.mode == "ours":
            return _known(parcel, place, identity, "kept", Counts())
        if self.how.mode == "theirs":
            if is_same(memory.folder, parcel):
                return _known(parcel, place, identity, "same", Counts())
            archive_memory(self.layout, memory, self.worktree.object_format)
            counts = merge_memory(
                memory.folder, parcel, self.how.source, write=True, instead=True, warn=self.warn
            )
            return _known(parcel, place, identity, "replaced", counts)
        counts = merge_memory(memory.folder, parcel, self.how.source, write=True, warn=self.warn)
        return _known(parcel, place, identity, "merged" if counts else "same", counts)

    def _move_in(
        self, parcel: ArchivedMemory, place: ImportTarget, files: Mapping[str, bytes], stage: Path
    ) -> tuple[str, Identity | None]:
        """The name of the new folder, or of a memory that the file has by now and its identity."""
        identity = self._identity(parcel, place)
        for path, data in files.items():
            write_whole(stage / path, data)
        if place.file is not None:
            keep_content(stage, self.worktree, place.file.data)
        save(stage, identity)
        with memory_lock(self.layout), open_index(self.layout, self.warn) as index:
            found = None if place.file is None else find(self.layout, index, place.file)
            if found is not None and (mine := index.identity(found.folder)) is not None:
                return found.folder, mine
            name = next(
                name
                for name in (*names_for(parcel), *_numbered(parcel))
                if not (self.layout.memory / name).exists()
            )
            changes: list[Change] = [(name, None, identity)]
            if place.file is not None:
                changes += freed(index, place.file, name)
            move(
                stage, self.layout.memory / name
            )  # the folder is seen to be new, should its hints not be written
            index.note(changes)
            for other, _, after in changes[1:]:
                save(self.layout.memory / other, after)
        return name, None

    def _identity(self, parcel: ArchivedMemory, place: ImportTarget) -> Identity:
        identity = parcel.identity if self.how.own else replace(parcel.identity, keys={}, places={})
        reason = "; ".join(filter(None, [self.how.source or "restored", place.why]))
        file, top = place.file, str(self.worktree.top)
        if file is None:
            strangers = dict.fromkeys((*identity.strangers, *place.not_at))
            identity = replace(identity, strangers=tuple(strangers))
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            return identity.noted(Rekeying(now, reason, identity.path, "", identity.blob))
        if identity.path_in(top) != file.path:
            identity = identity.at(file.path, top)
        if file.key:
            identity = identity.keyed(file.key, top)
        return identity.noted(rekeying(reason, file)).seen(file.blob, top)


def fresh_files(parcel: ArchivedMemory, how: Import) -> tuple[dict[str, bytes], Counts]:
    """The files of a memory that is new here, and how much is in them."""
    today = date.today().isoformat()
    found: dict[str, bytes] = {}
    notes = {
        path: arriving_notes(parcel.files[path], how.source, today)
        for path in (ARCHIVED_NOTES, NOTES)
        if path in parcel.files
    }
    edits, count = with_edits(b"", parcel.files.get(EDITS, b""), how.source)
    counts = Counts(len(notes.get(NOTES, ())), count)
    if how.own:  # as it stood, whatever that is
        return dict(parcel.files), counts
    found |= {path: with_notes(b"", each) for path, each in notes.items() if each}
    if edits:
        found[EDITS] = edits
    known: set[str] = set()
    for path, data in parcel.conversations():
        turns = new_turns(turns_of(data), known, how.source)
        if turns:
            found[path] = with_turns(b"", turns, nonce_of(data))
            counts = replace(counts, exchanges=counts.exchanges + len(said(turns)))
    return found, counts


def is_same(folder: Path, parcel: ArchivedMemory) -> bool:
    """Whether a memory here says just what the parcel does, whoever says it."""
    files = {path: read_regular(folder / path) or b"" for path in (NOTES, EDITS, CONVERSATION)}
    mine, theirs = (
        (
            same_notes(arriving_notes(each.get(NOTES, b""), "", "")),
            known_edits(each.get(EDITS, b"")),
            said(turns_of(each.get(CONVERSATION, b""))),
        )
        for each in (files, parcel.files)
    )
    return mine == theirs


def _numbered(parcel: ArchivedMemory) -> Sequence[str]:
    return [f"{names_for(parcel)[1]}-{number}" for number in range(2, 100)]


def _new(parcel: ArchivedMemory, place: ImportTarget, name: str, counts: Counts) -> Arrival:
    at = None if place.file is None else place.file.path
    return Arrival(parcel.identity.path, at, name, "orphaned" if at is None else "new", place.why, counts)


def _known(
    parcel: ArchivedMemory, place: ImportTarget, identity: Identity, outcome: Outcome, counts: Counts
) -> Arrival:
    at = place.file.path if place.file is not None else identity.path
    return Arrival(parcel.identity.path, at, place.folder, outcome, place.why, counts)
