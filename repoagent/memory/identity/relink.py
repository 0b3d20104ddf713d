"""Tie a memory to a file by hand: where nothing could tell, or to take back what was told wrong."""

from __future__ import annotations

from dataclasses import replace

from repoagent.errors import Refused
from repoagent.memory.identity.content import keep_content
from repoagent.memory.identity.index import Change, Index, open_index
from repoagent.memory.identity.look import File, key_at
from repoagent.memory.identity.record import Identity, Memory, Seen
from repoagent.memory.identity.remember import freed, memory_lock, rekeying, save_all
from repoagent.memory.identity.resolve import find
from repoagent.repo.source import read_source
from repoagent.repo.worktree import WorkTree
from repoagent.store import Layout, Warn, to_stderr


def relink(
    layout: Layout,
    worktree: WorkTree,
    memory: Memory,
    path: str,
    *,
    swap: bool = False,
    warn: Warn = to_stderr,
) -> Memory:
    """Tie `memory` to `path`; the file that it had until now is a stranger to it from then on.

    So a re-keying is taken back by naming the path from before: also one where no file is now, if the memory had it
    once. With `swap` a memory that `path` has goes to the path that this one had. The re-keying is recorded. Raises
    Refused where there is no such file or it has a memory (without `swap`), and as `read_source` does; Busy.
    """
    with memory_lock(layout), open_index(layout, warn) as index:
        index.look_again()
        identity = index.identity(memory.folder.name)
        if identity is None:
            raise Refused(f"{memory.folder} holds no memory that can be read: see `repoagent memory list`")
        file, former = _file(worktree, path), _file(worktree, identity.path_in(str(worktree.top)))
        if not file.key and path not in {former.path, identity.path, *identity.earlier_paths}:
            raise Refused(
                f"there is no file {path}: name one that is there, or a path that this memory had before"
            )
        changes: list[Change] = [(memory.folder.name, identity, _tied(identity, file, former))]
        other = _owner(layout, index, file, memory)
        if other is not None and not swap:
            raise Refused(
                f"{path} has a memory of its own ({other[0]}): link that one to another file first, or swap the two"
            )
        if other is not None:
            changes.append((other[0], other[1], _tied(other[1], former, file)))
        _write(layout, index, changes, [file, former])
        return Memory(memory.folder, changes[0][2], changes[0][2].rekeyings[-1].reason)


def _file(worktree: WorkTree, path: str) -> File:
    data = read_source(worktree, path).data
    return File(worktree, path, data or b"", "" if data is None else key_at(worktree, path))


def _owner(layout: Layout, index: Index, file: File, memory: Memory) -> tuple[str, Identity] | None:
    """The memory that the file has now, other than `memory`."""
    found = find(layout, index, file) if file.key else None
    if found is None or found.folder == memory.folder.name:
        return None
    identity = index.identity(found.folder)
    return None if identity is None else (found.folder, identity)


def _tied(identity: Identity, file: File, former: File) -> Identity:
    """`identity` as that of `file`, and of `former` no more."""
    top, old = str(file.worktree.top), identity.path_in(str(file.worktree.top))
    identity = identity.at(file.path, top)
    strangers = [path for path in identity.strangers if path != file.path]
    if former.key and former.key != file.key:  # another file: nothing of it shall lead back to it
        identity = identity.without_key(former.key)
        strangers.append(former.path)
    identity = replace(identity, strangers=tuple(dict.fromkeys(strangers)))
    if file.key:
        identity = identity.keyed(file.key, top).seen(file.blob, top)
    else:
        identity = replace(identity, places={**identity.places, top: Seen(file.path, identity.blob)})
    return identity.noted(rekeying(f"linked by hand, before that {old}", file))


def _write(layout: Layout, index: Index, changes: list[Change], files: list[File]) -> None:
    tied = {name for name, _, _ in changes}
    for file in files[: len(changes)]:
        others = freed(index, file.key, "") if file.key else []
        changes = [*changes, *(change for change in others if change[0] not in tied)]
        tied |= {name for name, _, _ in others}
    for (name, _, _), file in zip(changes, files, strict=False):
        if file.key and name in tied:
            keep_content(layout.memory / name, file.worktree, file.data)
    save_all(layout, index, changes, None)
