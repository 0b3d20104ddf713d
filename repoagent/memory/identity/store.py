"""Look up, create, update and relink memories. All writes happen under one lock."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from repoagent.errors import Busy, Refused
from repoagent.git.files import read_source
from repoagent.git.worktree import WorkTree
from repoagent.memory.identity import record, renames
from repoagent.memory.identity.memory_index import (
    KEY,
    IdentityIndex,
    load_or_warn,
    memory_folders,
    open_index,
)
from repoagent.memory.identity.record import REWRITTEN, Identity, Memory, RekeyingEvent
from repoagent.memory.identity.resolve import (
    MemoryMatch,
    WorkTreeFile,
    file_at,
    find_memory,
    find_unchanged,
    key_at,
)
from repoagent.storage.atomic import remove_temporary_files
from repoagent.storage.folders import open_folder
from repoagent.storage.json_files import timestamp
from repoagent.storage.layout import Layout, Warn, ensure_root, to_stderr
from repoagent.storage.locks import hold_lock


def resolve_memory(
    layout: Layout, worktree: WorkTree, path: str, data: bytes, *, warn: Warn = to_stderr
) -> Memory | None:
    """Return the memory of the file `path` with the raw bytes `data`; None if it has none.

    A memory found by another path, inode or version is updated; if that fails, it is returned with a warning. For a
    known file at its known path, this takes one query of the index and two small reads.
    """
    file = WorkTreeFile(worktree, path, data, key_at(worktree, path))
    found = _look(layout, file, warn)
    if found is None:
        return None
    match, memory = found
    identity = memory.identity
    seen = identity.places.get(str(worktree.top))
    is_same = seen is not None and seen.blob == file.blob and match.reason != REWRITTEN and not match.moved
    if is_same and file.key in (*identity.keys, ""):
        return memory
    try:
        with memory_lock(layout), open_index(layout, warn) as index:
            return _store(layout, index, file, match, commit=identity.commit)
    except (Busy, Refused) as error:
        warn(f"could not update the memory of {path}: {error}")
        return memory


def resolve_all(
    layout: Layout, worktree: WorkTree, contents: Iterable[tuple[str, bytes | None]]
) -> dict[str, Memory]:
    """Return the memory of each file that has one, by path.

    `contents` has pairs of a path and the file's content, which is None if the file does not exist.
    """
    memories = (
        (path, resolve_memory(layout, worktree, path, data)) for path, data in contents if data is not None
    )
    return {path: memory for path, memory in memories if memory is not None}


def recognize_memory(
    layout: Layout, worktree: WorkTree, path: str, data: bytes, *, warn: Warn = to_stderr
) -> Memory | None:
    """Like `resolve_memory`, but without writing anything."""
    found = _look(layout, WorkTreeFile(worktree, path, data, key_at(worktree, path)), warn)
    return None if found is None else found[1]


def _look(layout: Layout, file: WorkTreeFile, warn: Warn) -> tuple[MemoryMatch, Memory] | None:
    with open_index(layout, warn, refresh=False) as index:
        match = find_unchanged(layout, index, file)
        if match is None:
            index.refresh()
            match = find_memory(layout, index, file)
        identity = None if match is None else index.identity(match.folder)
        if match is None or identity is None:
            return None
        return match, Memory(layout.memory / match.folder, identity, match.reason)


def remember_file(
    layout: Layout,
    worktree: WorkTree,
    path: str,
    data: bytes,
    *,
    memory: Memory | None = None,
    commit: str | None = None,
    warn: Warn = to_stderr,
) -> Memory:
    """Associate `path`, whose raw bytes are `data`, with its memory after a write or commit. Create one if it has none.

    `memory` is the result of `resolve_memory` before the write, for the old path of a renamed file. `commit` is the new
    commit, or HEAD. Raises Busy if the lock is not released in time, Refused if the memory cannot be written.
    """
    ensure_root(layout)
    file = WorkTreeFile(worktree, path, data, key_at(worktree, path))
    with memory_lock(layout), open_index(layout, warn) as index:
        before = None if memory is None else index.identity(memory.folder.name)
        if memory is None or before is None:
            match = find_memory(layout, index, file)
        elif (former := before.path_in(str(worktree.top))) == path:
            match = MemoryMatch(memory.folder.name)
        else:
            match = MemoryMatch(memory.folder.name, f"renamed from {former}", moved=True)
        if match is None:  # the slug is for users who open the folder, the id makes its name unique
            slug = re.sub(r"[^a-z0-9]+", "-", PurePosixPath(path).name.lower()).strip("-")[:40] or "file"
            while (layout.memory / (name := f"{slug}-{secrets.token_hex(4)}")).exists():
                pass
            match = MemoryMatch(name)
        return _store(layout, index, file, match, commit=commit)


def _store(
    layout: Layout, index: IdentityIndex, file: WorkTreeFile, match: MemoryMatch, *, commit: str | None
) -> Memory:
    """Record that `file` belongs to the memory `match`."""
    folder, top = layout.memory / match.folder, str(file.worktree.top)
    before = index.identity(match.folder)
    after = before or Identity(file.path)
    reason = match.reason if before is not None else "first seen"
    is_new_key = file.key not in after.keys
    if match.moved:
        after = after.at(file.path, top)
    if file.key:
        after = after.keyed(file.key, top)
        reason = reason or ("another inode" if is_new_key else "")
    if reason and (before is None or match.moved or reason == REWRITTEN or is_new_key):
        after = after.noted(rekeying_event(reason, file))
    after = replace(after.seen(file.blob, top), commit=commit or after.commit)
    seen = None if before is None else before.places.get(top)
    _save(folder, before, after, file if seen is None or seen.blob != file.blob else None)
    release_key(layout, index, file, match.folder)
    return Memory(folder, after, match.reason)


def _save(folder: Path, before: Identity | None, after: Identity, file: WorkTreeFile | None) -> None:
    """Save the content of `file`, then the identity. The caller has locked the memory."""
    if file is not None:
        renames.keep_content(folder, file.worktree, file.data)
    if after != before:
        record.save_identity(folder, after)
    if before is not None and not before.places.keys() <= after.places.keys():
        renames.drop_contents(folder, after.places)


def rekeying_event(reason: str, file: WorkTreeFile) -> RekeyingEvent:
    """The event that records that `file` is now tied to a memory, with the `reason`."""
    return RekeyingEvent(timestamp(), reason, file.path, file.key, file.blob)


def release_key(layout: Layout, index: IdentityIndex, file: WorkTreeFile, owner: str) -> None:
    """Remove the inode of `file` from memories other than `owner`, except those of its hard links."""
    key, top = file.key, str(file.worktree.top)
    for name in index.names(KEY, key) if key else ():
        other = index.identity(name)
        if name != owner and other is not None and key in other.keys:
            path = other.path_in(top)
            if path == file.path or key_at(file.worktree, path) != key:
                record.save_identity(layout.memory / name, other.without_key(key))


def read_memories(layout: Layout, *, warn: Warn = to_stderr) -> list[Memory]:
    """Read all memories and return them, sorted by path. Raises Refused if the memory folder is a link or a file."""
    try:
        with open_folder(layout.memory):
            names = sorted(memory_folders(layout.memory))
    except FileNotFoundError:
        return []
    loaded = ((layout.memory / name, load_or_warn(layout.memory / name, warn)) for name in names)
    result = [Memory(folder, identity) for folder, identity in loaded if identity is not None]
    return sorted(result, key=lambda memory: memory.identity.path)


def memory_paths(layout: Layout, *, warn: Warn = to_stderr) -> list[tuple[str, str]]:
    """(path, folder name) of each memory, by path. Reads only identities that have changed."""
    with open_index(layout, warn) as index:
        return sorted((path, name) for name, path in index.paths())


def memory_lock(layout: Layout) -> AbstractContextManager[None]:
    """Return the lock for all identities of a repository.

    Acquiring it raises Busy after ten seconds, Refused if it cannot be created.
    """
    return hold_lock(layout.memory_lock, label="this repository's memory")


_FIRST = re.compile(r"seen(-[0-9a-f]{8})?\.z")  # the files of a memory that are written before its identity


def clear_unborn(layout: Layout) -> None:
    """Remove temporary files, and memories whose identity was never written. Raises what `memory_lock` raises."""
    if not layout.memory.is_dir():
        return
    remove_temporary_files(layout.memory)
    with memory_lock(layout):
        for folder in sorted(layout.memory.iterdir()):
            if folder.is_symlink() or not folder.is_dir():
                continue
            remove_temporary_files(folder)
            inside = list(folder.iterdir())
            if all(_FIRST.fullmatch(path.name) for path in inside):
                for path in inside:
                    path.unlink(missing_ok=True)
                folder.rmdir()


def relink_memory(
    layout: Layout, worktree: WorkTree, memory: Memory, path: str, *, warn: Warn = to_stderr
) -> Memory:
    """Associate `memory` with `path`, an existing file or one of the memory's earlier paths; return the updated memory.

    If a file still exists at the former path, it is recorded as a different file. Raises Refused if there is no such
    file or it has another memory, and what `read_source` and `memory_lock` raise.
    """
    name, top = memory.folder.name, str(worktree.top)
    with memory_lock(layout), open_index(layout, warn) as index:
        identity = index.identity(name)
        if identity is None:
            raise Refused(f"cannot read memory {memory.folder}; see `repoagent memory list`")
        read_source(worktree, path)
        # without a key: missing, a link or a folder
        file = file_at(worktree, path) or WorkTreeFile(worktree, path, b"", "")
        former_path = identity.path_in(top)
        if not file.key and path not in {former_path, identity.path, *identity.earlier_paths}:
            raise Refused(f"no such file: {path}; name an existing file or an earlier path of this memory")
        match = find_memory(layout, index, file) if file.key else None
        if match is not None and match.folder != name:
            raise Refused(
                f"{path} already has a memory ({match.folder}); link that memory to another file first"
            )
        contents = renames.last_contents(memory.folder, worktree)
        is_same_text = not file.key or file.blob in identity.blobs
        is_same_text = is_same_text or any(renames.is_alike(content, file.data) for content in contents)
        reason = f"{record.LINKED if is_same_text else record.LINKED_ANEW}, formerly {former_path}"
        tied, strangers = identity.at(path, top), [other for other in identity.strangers if other != path]
        former = file_at(worktree, former_path)
        if former is not None and former_path != path:  # another file, which must not match again
            tied = tied.without_key(former.key)
            strangers.append(former_path)
        if file.key:
            tied = tied.keyed(file.key, top).seen(file.blob, top)
        else:
            tied = replace(tied, places={**tied.places, top: record.LastSeen(path, identity.blob)})
        tied = replace(tied, strangers=tuple(dict.fromkeys(strangers))).noted(rekeying_event(reason, file))
        _save(memory.folder, identity, tied, file if file.key else None)
        release_key(layout, index, file, name)
        return Memory(memory.folder, tied, reason)
