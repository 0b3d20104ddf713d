"""Which memories go into an archive, and the archive of them."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.memory.archive.form import dumps, of_parcels
from repoagent.memory.archive.pack import Packed, pack
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.remember import memories, recognize
from repoagent.repo.source import read_source
from repoagent.repo.worktree import WorkTree
from repoagent.store import Layout, Warn, to_stderr


@dataclass(frozen=True)
class Exported:
    """The bytes of the archive, and what went into it; `path` of a memory is where its file was last seen."""

    data: bytes
    packed: tuple[Packed, ...]


def export(
    layout: Layout,
    worktree: WorkTree,
    paths: Sequence[str] = (),
    *,
    conversations: bool = True,
    warn: Warn = to_stderr,
) -> Exported:
    """An archive of the memories of the files `paths` and of those in the folders `paths` (relative to the top, "." is
    all of it); of all for none.

    The same memories make the same bytes. Raises UsageError for a path of which nothing is remembered, NothingDone
    where nothing is remembered at all, Busy, and Refused for what is too large.
    """
    known = memories(layout, warn=warn)
    if not known:
        raise NothingDone(
            "nothing is remembered in this repository yet: the first edit makes the first memory"
        )
    chosen = _chosen(layout, worktree, known, paths, warn) if paths else known
    packed = [pack(memory, warn, conversations=conversations) for memory in chosen]
    return Exported(dumps(of_parcels((one.parcel for one in packed), worktree.object_format)), tuple(packed))


def _chosen(
    layout: Layout, worktree: WorkTree, known: Sequence[Memory], paths: Sequence[str], warn: Warn
) -> list[Memory]:
    found: dict[str, Memory] = {}
    for path in paths:
        under = path.rstrip("/") + "/"
        some = [
            memory
            for memory in known
            if path in (".", memory.identity.path, memory.folder.name)
            or memory.identity.path_in(str(worktree.top)) == path
            or memory.identity.path.startswith(under)
        ]
        some = some or _recognized(layout, worktree, path, warn)
        if not some:
            raise UsageError(f"nothing is remembered of {path}: `repoagent memory list` shows what is")
        found |= {memory.folder.name: memory for memory in some}
    return [found[name] for name in sorted(found)]


def _recognized(layout: Layout, worktree: WorkTree, path: str, warn: Warn) -> list[Memory]:
    """The memory of a file that was renamed since it was last seen."""
    try:
        data = read_source(worktree, path).data
    except Refused:  # a folder of which nothing is remembered, a link
        return []
    memory = None if data is None else recognize(layout, worktree, path, data, warn=warn)
    return [] if memory is None else [memory]
