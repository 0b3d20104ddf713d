"""Export memories to an archive, and the scratch folder that import and gc share.

One command at a time holds the scratch folder; what it finds there was left by one that was killed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.git.files import read_source
from repoagent.git.worktree import WorkTree
from repoagent.memory.archive.format import PackedMemory, dumps, of_parcels, pack
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import memories, recognize
from repoagent.storage.atomic import sweep
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.layout import Layout, Warn, ensure, to_stderr
from repoagent.storage.locks import locked


@dataclass(frozen=True)
class Exported:
    """The bytes of the archive, and what went into it; `path` of a memory is where its file was last seen."""

    data: bytes
    packed: tuple[PackedMemory, ...]


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
        raise NothingDone("this repository has no memories yet; the first edit creates one")
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
            raise UsageError(f"no memory of {path}; `repoagent memory list` lists all memories")
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


ARCHIVE = "archive"  # what was put away
_NAME, _LOCK = "arriving", "archive.lock"


@contextmanager
def scratch(layout: Layout) -> Iterator[Path]:
    """An empty folder on the disk of the memories, for the block. Raises Busy while another import or gc is at work,
    Refused where it can't be made."""
    ensure(layout)
    place = layout.root / _NAME
    with locked(layout.root / _LOCK, what="the import or cleanup of memories"):
        _clear(place)
        sweep(layout.root / ARCHIVE)
        with open_folder(place, create=True):
            pass
        try:
            yield place
        finally:
            _clear(place)


def move(place: Path, to: Path) -> None:
    """Rename a folder, durably. Raises OSError where something is in the way."""
    with open_folder(place.parent) as source, open_folder(to.parent, create=True) as target:
        os.rename(place.name, to.name, src_dir_fd=source, dst_dir_fd=target)
        os.fsync(target)
        os.fsync(source)


def _clear(place: Path) -> None:
    if place.is_symlink():
        raise Refused(f"{place} is a symbolic link; remove it")
    try:
        shutil.rmtree(place)
    except FileNotFoundError:
        return
    except OSError as error:
        raise system_failed("remove", place, error) from error
