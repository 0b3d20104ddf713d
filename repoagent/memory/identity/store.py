"""Look up, create and update memories. All writes happen under one lock."""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath

from repoagent.errors import Busy, Refused
from repoagent.git.worktree import WorkTree
from repoagent.memory.identity.hints import (
    BLOB,
    KEY,
    Change,
    IdentityIndex,
    folders,
    load_or_warn,
    open_index,
)
from repoagent.memory.identity.record import REWRITTEN, Identity, Memory, Rekeying, save
from repoagent.memory.identity.resolve import MemoryMatch, WorkTreeFile, find, key_at, key_of
from repoagent.memory.identity.similarity import drop_contents, keep_content
from repoagent.storage.atomic import sweep
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Layout, Warn, ensure, to_stderr
from repoagent.storage.locks import locked

_COMPARED = 2000  # memories whose identity files are compared where nothing is found: in some 10 ms


def resolve(
    layout: Layout,
    worktree: WorkTree,
    path: str,
    data: bytes,
    *,
    status: os.stat_result | None = None,
    warn: Warn = to_stderr,
) -> Memory | None:
    """The memory of the file `path` with the raw bytes `data`, or None for a file that has none.

    `status` is its stat where the caller has it. What was found by another path, inode or version is written
    down at once (re-keyed); when that can't be done now, `warn` hears why and the memory is given all the
    same. Common case: one look into the index and two small reads, no call of git.
    """
    file = _file(worktree, path, data, status)
    with open_index(layout, warn) as index:
        found = _look(layout, index, file)
        memory = None if found is None else _load(layout, index, found)
    if found is None or memory is None or _is_fresh(memory.identity, found, file):
        return memory
    try:
        with memory_lock(layout), open_index(layout, warn) as index:
            return _store(layout, index, file, found, commit=memory.identity.commit)
    except (Busy, Refused) as error:
        warn(f"could not update the memory of {path}: {error}")
        return memory


def recognize(
    layout: Layout, worktree: WorkTree, path: str, data: bytes, *, warn: Warn = to_stderr
) -> Memory | None:
    """As `resolve`, for who only looks: nothing is re-keyed and nothing is written down."""
    with open_index(layout, warn) as index:
        found = _look(layout, index, _file(worktree, path, data, None))
        return None if found is None else _load(layout, index, found)


def remember(
    layout: Layout,
    worktree: WorkTree,
    path: str,
    data: bytes,
    *,
    memory: Memory | None = None,
    commit: str | None = None,
    status: os.stat_result | None = None,
    warn: Warn = to_stderr,
) -> Memory:
    """Tie `path`, as it is now with the raw bytes `data`, to its memory; one is made where there is none.

    To be called after each write and each commit of our own. `memory` is what `resolve` gave before the write
    (of the old path, for a rename); `commit` is the commit just made, or HEAD. Raises Busy when the memory
    is locked for too long, Refused when it can't be written.
    """
    ensure(layout)
    file = _file(worktree, path, data, status)
    with memory_lock(layout), open_index(layout, warn) as index:
        before = None if memory is None else index.identity(memory.folder.name)
        if memory is not None and before is not None:
            found: MemoryMatch | None = _given(memory.folder.name, before, file)
        else:
            found = _look(layout, index, file)
        return _store(layout, index, file, found or MemoryMatch(_new_folder(layout, path)), commit=commit)


def copy_of(
    layout: Layout, worktree: WorkTree, path: str, data: bytes, *, warn: Warn = to_stderr
) -> Memory | None:
    """The memory of another file that has, or was last seen with, exactly the bytes `data`: for a file that `resolve`
    has no memory for, and that a person may have copied. It belongs to that file and not to this one.

    Of several the first by path; None for content that says nothing. One look into the index, no call of git.
    """
    file = _file(worktree, path, data, None)
    if not file.says_something:
        return None
    with open_index(layout, warn) as index:
        found = [_load(layout, index, MemoryMatch(name)) for name in index.names(BLOB, file.blob)]
    same = [
        memory
        for memory in found
        if memory is not None and memory.identity.path_in(str(worktree.top)) != path
    ]
    return min(same, key=lambda memory: (memory.identity.path, memory.folder.name), default=None)


def memories(layout: Layout, *, warn: Warn = to_stderr) -> list[Memory]:
    """All memories, by path. Each is read; `listing` is quicker where the paths are enough."""
    names = sorted(folders(layout.memory)) if _is_real(layout) else []
    found = ((layout.memory / name, load_or_warn(layout.memory / name, warn)) for name in names)
    read = [Memory(place, identity) for place, identity in found if identity is not None]
    return sorted(read, key=lambda memory: memory.identity.path)


def listing(layout: Layout, *, warn: Warn = to_stderr) -> list[tuple[str, str]]:
    """(path, name of the memory folder) of all memories, by path, without reading each; edits by hand are noticed."""
    with open_index(layout, warn) as index:
        index.look_again()
        return sorted((path, name) for name, path in index.paths())


def orphans(layout: Layout, worktree: WorkTree, *, warn: Warn = to_stderr) -> list[Memory]:
    """The memories that have no regular file at their path in this work tree now. They are kept: a checkout may bring
    the file back."""
    top = str(worktree.top)
    return [
        each for each in memories(layout, warn=warn) if not _is_file(worktree, each.identity.path_in(top))
    ]


def _is_file(worktree: WorkTree, path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(worktree.top / path).st_mode)
    except OSError:
        return False


def _is_real(layout: Layout) -> bool:
    """Whether there is a memory folder. Raises Refused when it is no real one."""
    try:
        with open_folder(layout.memory):
            return True
    except FileNotFoundError:
        return False


def _look(layout: Layout, index: IdentityIndex, file: WorkTreeFile) -> MemoryMatch | None:
    """`find`, and once more where nothing is found and an identity file was edited by hand meanwhile. With very many
    memories all of them are compared by `listing` only."""
    found = find(layout, index, file)
    if found is None and index.count(_COMPARED) < _COMPARED and index.look_again():
        found = find(layout, index, file)
    return found


def _file(worktree: WorkTree, path: str, data: bytes, status: os.stat_result | None) -> WorkTreeFile:
    return WorkTreeFile(worktree, path, data, key_at(worktree, path) if status is None else key_of(status))


def memory_lock(layout: Layout) -> AbstractContextManager[None]:
    return locked(layout.memory_lock, what="the memory of this repository")


def _load(layout: Layout, index: IdentityIndex, found: MemoryMatch) -> Memory | None:
    identity = index.identity(found.folder)
    return None if identity is None else Memory(layout.memory / found.folder, identity, found.reason)


def _is_fresh(identity: Identity, found: MemoryMatch, file: WorkTreeFile) -> bool:
    seen = identity.places.get(str(file.worktree.top))
    known = seen is not None and seen.blob == file.blob
    return known and not found.moved and found.reason != REWRITTEN and file.key in (*identity.keys, "")


def _given(name: str, before: Identity, file: WorkTreeFile) -> MemoryMatch:
    """What the caller knows already: a renamed file moved."""
    path = before.path_in(str(file.worktree.top))
    if path == file.path:
        return MemoryMatch(name)
    return MemoryMatch(name, f"renamed from {path}", moved=True)


def _store(
    layout: Layout, index: IdentityIndex, file: WorkTreeFile, found: MemoryMatch, *, commit: str | None
) -> Memory:
    """Write down that `file` is the file of the memory `found`: the hints, the content, then the identity."""
    place = layout.memory / found.folder
    before = index.identity(found.folder)
    after = _after(before, file, found, commit)
    changes = [(found.folder, before, after)] if after != before else []
    changes += freed(index, file, found.folder)
    save_all(layout, index, changes, (place, file) if _is_new_content(before, file) else None)
    return Memory(place, after, found.reason)


def save_all(
    layout: Layout, index: IdentityIndex, changes: list[Change], content: tuple[Path, WorkTreeFile] | None
) -> None:
    """Save the identities, the hints of them first, and the content that was seen. The caller holds the lock."""
    if changes:
        index.note(changes)
    if content is not None:
        place, file = content
        keep_content(place, file.worktree, file.data)
    for name, before, after in changes:
        save(layout.memory / name, after)
        if before is not None and not before.places.keys() <= after.places.keys():
            drop_contents(layout.memory / name, after.places)


def _is_new_content(before: Identity | None, file: WorkTreeFile) -> bool:
    seen = None if before is None else before.places.get(str(file.worktree.top))
    return seen is None or seen.blob != file.blob


def _after(before: Identity | None, file: WorkTreeFile, found: MemoryMatch, commit: str | None) -> Identity:
    reason = found.reason if before is not None else "first seen"
    top = str(file.worktree.top)
    identity = before or Identity(file.path)
    if found.moved:
        identity = identity.at(file.path, top)
    if file.key:
        if before is not None and not reason and file.key not in before.keys:
            reason = "another inode"
        identity = identity.keyed(file.key, top)
    if reason and (before is None or found.moved or reason == REWRITTEN or file.key not in before.keys):
        identity = identity.noted(rekeying(reason, file))
    return replace(identity.seen(file.blob, top), commit=commit or identity.commit)


def rekeying(reason: str, file: WorkTreeFile) -> Rekeying:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Rekeying(now, reason, file.path, file.key, file.blob)


def freed(index: IdentityIndex, file: WorkTreeFile, owner: str) -> list[Change]:
    """The other memories that claim the inode of `file`, without it: it was reused, or another file took it
    over. Two names of one file, by a hard link, both keep it."""
    key, top = file.key, str(file.worktree.top)
    others = [name for name in index.names(KEY, key) if name != owner] if key else []
    loaded = ((name, index.identity(name)) for name in others)
    return [
        (name, one, one.without_key(key))
        for name, one in loaded
        if one is not None
        and key in one.keys
        and (one.path_in(top) == file.path or key_at(file.worktree, one.path_in(top)) != key)
    ]


def _new_folder(layout: Layout, path: str) -> str:
    """`<slug>-<id>`: the slug is for people who look into the folder, the id makes it unique."""
    slug = re.sub(r"[^a-z0-9]+", "-", PurePosixPath(path).name.lower()).strip("-")[:40] or "file"
    while True:
        name = f"{slug}-{secrets.token_hex(4)}"
        if not Path(layout.memory / name).exists():
            return name


_FIRST = re.compile(r"seen(-[0-9a-f]{8})?\.z")  # what is written of a memory before it has its identity


def clear_unborn(layout: Layout) -> None:
    """Remove temporary files, and memories that never got their identity. Raises Busy or Refused."""
    if not layout.memory.is_dir():
        return
    sweep(layout.memory)
    with locked(layout.memory_lock, what="the memory of this repository"):
        for folder in sorted(layout.memory.iterdir()):
            if folder.is_symlink() or not folder.is_dir():
                continue
            sweep(folder)
            inside = list(folder.iterdir())
            if all(_FIRST.fullmatch(path.name) for path in inside):
                for path in inside:
                    path.unlink(missing_ok=True)
                folder.rmdir()
