"""Which file of this work tree an arriving memory belongs to: content decides, and where it does not, nothing is tied.

An archive does not say what a file held, but which versions it had, by their hashes: what git has of these is compared.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.memory.archive.form import EDITS, Parcel
from repoagent.memory.archive.pack import known_edits
from repoagent.memory.identity import ancestry
from repoagent.memory.identity.index import EARLIER, PATH, Index
from repoagent.memory.identity.look import File, key_at
from repoagent.memory.identity.record import Identity
from repoagent.memory.identity.resolve import find
from repoagent.memory.identity.similar import RENAME, similarity, worked_over
from repoagent.repo.index import paths_by_blob
from repoagent.repo.run import OFFLINE, GitError, git
from repoagent.repo.source import blob_hash, read_source
from repoagent.repo.worktree import WorkTree
from repoagent.store import Layout

_COMPARED = 4  # versions that git has, the last ones
_LARGEST = 4 * 2**20  # bytes of a version that is compared


@dataclass(frozen=True)
class Place:
    """`file` is the file that a memory arrives at, None for an orphan; `folder` the memory that is here of it, or of
    the same file that is gone, "" for none. `why` says how it was found, or why not. `not_at` are files that it could
    be as well, and that it is not tied to before a person does so."""

    file: File | None
    folder: str
    why: str = ""
    not_at: tuple[str, ...] = ()


@dataclass
class Places:
    """Looks for the files of arriving memories. What takes long is done once."""

    layout: Layout
    worktree: WorkTree
    index: Index

    def of(self, parcels: Sequence[Parcel]) -> list[Place]:
        """A place for each. No file gets two: where two could be meant, both arrive as orphans."""
        found = [self._of(parcel) for parcel in parcels]
        count = Counter(_claim(place) for place in found if _claim(place))
        best: dict[str, int] = {}
        for number, (parcel, place) in enumerate(zip(parcels, found, strict=True)):
            if count[_claim(place)] > 1 and _is_sure(parcel, place):
                best[_claim(place)] = -1 if _claim(place) in best else number
        return [
            place
            if count[_claim(place)] < 2 or best.get(_claim(place)) == number
            else self._left_over(parcels[number], place)
            for number, place in enumerate(found)
        ]

    def _left_over(self, parcel: Parcel, place: Place) -> Place:
        paths = () if place.file is None else (place.file.path,)
        return Place(None, self._orphan_here(parcel), "several memories arrive for one file", paths)

    def _of(self, parcel: Parcel) -> Place:
        here = self._same_memory(parcel)
        if here:
            return Place(None, here)
        for path, why in self._candidates(parcel):
            if not isinstance(path, str):
                return Place(None, "", why, path)
            file = self._file(path)
            if file is not None and self._is_continuous(parcel, file):
                found = find(self.layout, self.index, file)
                return Place(file, "" if found is None else found.folder, why)
        there = self._file(parcel.identity.path) is not None
        return Place(
            None, "", f"another file is at {parcel.identity.path}" if there else "no file here is like it"
        )

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
            found = [name for name in found if name in names_for(parcel)]
        return found[0] if len(found) == 1 else ""

    def _orphan_here(self, parcel: Parcel) -> str:
        """The same memory, arrived before without a file."""
        for name in self.index.names(PATH, parcel.identity.path):
            identity = self.index.identity(name) if name in names_for(parcel) else None
            is_orphan = identity is not None and not identity.keys
            if identity and is_orphan and self._telling(identity) == self._telling(parcel.identity):
                return name
        return ""

    def _telling(self, identity: Identity) -> set[str]:
        return set(identity.blobs) - {blob_hash(b"", self.worktree.object_format)}

    def _candidates(self, parcel: Parcel) -> Iterator[tuple[str | tuple[str, ...], str]]:
        """Paths that may be it, the likely ones first, each with the reason; several where none can be chosen."""
        identity = parcel.identity
        yield identity.path, ""
        blob = identity.blob
        same = [path for path in self._by_blob.get(blob, ()) if path != identity.path]
        if blob in self._telling(identity) and same:
            beside = self._were_there(identity, same)
            same = [path for path in same if path not in beside]
            if len(same) > 1:
                yield tuple(same), f"{len(same)} files here have its content: {', '.join(sorted(same)[:3])}"
            for path in same:
                yield path, f"the same content as {identity.path} had"
        if identity.commit:
            new = self._renamed(identity.commit).get(identity.path)
            if new is not None:
                yield new, f"renamed from {identity.path} in git"
        for path in reversed(identity.earlier_paths):
            yield path, f"{identity.path} was {path} before"

    def _file(self, path: str) -> File | None:
        try:
            data = read_source(self.worktree, path).data
        except (Refused, OSError, ValueError):  # a folder, a link
            return None
        return None if data is None else File(self.worktree, path, data, key_at(self.worktree, path))

    def _is_continuous(self, parcel: Parcel, file: File) -> bool:
        if file.blob in parcel.identity.blobs:
            return file.says_something or file.path == parcel.identity.path
        if not file.says_something:
            return False
        for content in self._versions(parcel):
            if similarity(content, file.data) >= RENAME or worked_over(content, file.data):
                return True
        commit = parcel.identity.commit
        same_path = file.path == parcel.identity.path
        return bool(
            commit
            and same_path
            and ancestry.same_through_history(self.worktree, file.path, file.data, commit)
        )

    def _versions(self, parcel: Parcel) -> Iterator[bytes]:
        """What git has of the versions that the memory has seen, the last ones first."""
        identity = parcel.identity
        names = list(reversed(identity.blobs))[:_COMPARED]
        edits = known_edits(parcel.files.get(EDITS, b""))[-_COMPARED:]
        commits = dict.fromkeys([identity.commit, *(edit.commit for edit in reversed(edits))])
        names += [f"{commit}:{identity.path}" for commit in commits if commit]
        for name in names:
            if "\n" not in name and (content := self._content(name)) is not None:
                yield content

    def _content(self, name: str) -> bytes | None:
        try:
            about = git(
                self.worktree.top, "cat-file", "--batch-check", stdin=os.fsencode(name) + b"\n", env=OFFLINE
            )
            fields = about.split()
            if len(fields) != 3 or fields[1] != b"blob" or int(fields[2]) > _LARGEST:
                return None
            return git(self.worktree.top, "cat-file", "blob", fields[0], env=OFFLINE)
        except (GitError, ValueError):
            return None

    def _were_there(self, identity: Identity, paths: Sequence[str]) -> set[str]:
        """Those of `paths` that git had beside the file when it was last edited: they are other files."""
        asked = [path for path in paths if "\n" not in path]
        if not identity.commit or not asked:
            return set()
        names = b"".join(os.fsencode(f"{identity.commit}:{path}") + b"\n" for path in asked)
        try:
            answers = git(
                self.worktree.top, "cat-file", "--batch-check", stdin=names, env=OFFLINE
            ).splitlines()
        except GitError:
            return set()
        return {
            path for path, answer in zip(asked, answers, strict=False) if not answer.endswith(b" missing")
        }

    def _renamed(self, commit: str) -> Mapping[str, str]:
        if commit not in self._renames:
            self._renames[commit] = dict(ancestry.renames_since(self.worktree, commit))
        return self._renames[commit]

    @cached_property
    def _renames(self) -> dict[str, Mapping[str, str]]:
        return {}

    @cached_property
    def _by_blob(self) -> dict[str, list[str]]:
        return paths_by_blob(self.worktree)


def names_for(parcel: Parcel) -> tuple[str, str]:
    """The name of a folder for a memory that arrives, and another where that one is taken by another memory."""
    about = "\0".join((parcel.name, parcel.identity.path, *parcel.identity.blobs))
    mark = sha256(about.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return parcel.name, f"{parcel.name[:60]}-{mark}"


def _claim(place: Place) -> str:
    """What two memories can't both have."""
    return place.folder or (f"/{place.file.path}" if place.file else "")


def _is_sure(parcel: Parcel, place: Place) -> bool:
    return place.file is not None and place.file.blob == parcel.identity.blob
