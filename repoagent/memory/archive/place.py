"""Which memory and which file here an arriving memory belongs to: those at its path that share a version with it.

An archive does not say what a file held, but which versions it had, by their hashes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.memory.archive.form import Parcel
from repoagent.memory.identity import ancestry
from repoagent.memory.identity.index import EARLIER, PATH, Index
from repoagent.memory.identity.look import File, key_at
from repoagent.memory.identity.record import Identity
from repoagent.memory.identity.resolve import find
from repoagent.repo.index import paths_by_blob
from repoagent.repo.source import blob_hash, read_source
from repoagent.repo.worktree import WorkTree
from repoagent.store import Layout


@dataclass(frozen=True)
class Place:
    """`file` is the file that a memory arrives at, None for an orphan; `folder` the memory that is here of it, or of
    the same file that is gone, "" for none. `why` says why there is no file. `not_at` are files that it is not tied to
    before a person does so."""

    file: File | None
    folder: str
    why: str = ""
    not_at: tuple[str, ...] = ()


@dataclass(frozen=True)
class Places:
    """Looks for the files of arriving memories."""

    layout: Layout
    worktree: WorkTree
    index: Index

    def of(self, parcels: Sequence[Parcel]) -> list[Place]:
        """A place for each. No file gets two: where two are meant, both arrive as orphans."""
        found = [self._of(parcel) for parcel in parcels]
        count = Counter(_claim(place) for place in found if _claim(place))
        return [
            place
            if count[_claim(place)] < 2
            else Place(None, "", "several memories arrive for one file", (parcel.identity.path,))
            for parcel, place in zip(parcels, found, strict=True)
        ]

    def _of(self, parcel: Parcel) -> Place:
        here = self._same_memory(parcel)
        if here:
            return Place(None, here)
        path = parcel.identity.path
        file = self._file(path)
        if file is None:
            same = self._by_blob.get(parcel.identity.blob, [])
            if len(same) > 1:  # git would call one of them the new name
                return Place(None, "", f"no file is at {path}, and {len(same)} have its content", tuple(same))
            return Place(None, "", f"no file is at {path}")
        if not self._is_same_file(parcel.identity, file):
            return Place(None, "", f"another file is at {path}")
        found = find(self.layout, self.index, file)
        return Place(file, "" if found is None else found.folder)

    @cached_property
    def _by_blob(self) -> dict[str, list[str]]:
        return paths_by_blob(self.worktree)

    def _same_memory(self, parcel: Parcel) -> str:
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

    def _file(self, path: str) -> File | None:
        try:
            data = read_source(self.worktree, path).data
        except (Refused, OSError, ValueError):  # a folder, a link
            return None
        return None if data is None else File(self.worktree, path, data, key_at(self.worktree, path))

    def _is_same_file(self, identity: Identity, file: File) -> bool:
        """Whether the memory has seen the file at its path, as it is or as HEAD has it, or git has had it as one file
        since."""
        head = ancestry.in_head(self.worktree, file.path)
        if file.blob in identity.blobs:
            return True
        if head is None or not head.strip():
            return False
        if blob_hash(head, self.worktree.object_format) in identity.blobs:
            return True
        commit = identity.commit
        return bool(commit and ancestry.same_through_history(self.worktree, file.path, head, commit))


def names_for(parcel: Parcel) -> tuple[str, str]:
    """The name of a folder for a memory that arrives, and another where that one is taken by another memory."""
    about = "\0".join((parcel.name, parcel.identity.path, *parcel.identity.blobs))
    mark = sha256(about.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return parcel.name, f"{parcel.name[:60]}-{mark}"


def _claim(place: Place) -> str:
    """What two memories can't both have."""
    return place.folder or (f"/{place.file.path}" if place.file else "")
