"""Tie files to memories: look one up, make one, keep its keys fresh. All writes are under one lock."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath

from repoagent.errors import Busy, Refused
from repoagent.memory.identity import REWRITTEN, Identity, Memory, Rekeying, keep_content, load, save
from repoagent.memory.index import Index, open_index, updated, write_index
from repoagent.memory.resolve import File, Found, find, key_at, key_of
from repoagent.repo.worktree import WorkTree
from repoagent.store import Layout, Warn, ensure, locked, to_stderr


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
    same. Common case: one folder listing and two small reads, no call of git.
    """
    file = _file(worktree, path, data, status)
    index = open_index(layout, warn)
    found = find(layout, index, file, warn)
    memory = None if found is None else _load(layout, found, warn)
    if found is None or memory is None or _is_fresh(memory.identity, found, file):
        return memory
    try:
        with _lock(layout):
            return _store(
                layout, open_index(layout, warn), file, found, commit=memory.identity.commit, warn=warn
            )
    except (Busy, Refused) as error:
        warn(f"the memory of {path} was not brought up to date: {error}")
        return memory


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
    with _lock(layout):
        index = open_index(layout, warn)
        if memory is not None and memory.folder.name in index.entries:
            found: Found | None = _given(index, memory, file)
        else:
            found = find(layout, index, file, warn)
        return _store(
            layout, index, file, found or Found(_new_folder(layout, path)), commit=commit, warn=warn
        )


def memories(layout: Layout, *, warn: Warn = to_stderr) -> list[Memory]:
    """All memories, by path."""
    index = open_index(layout, warn)
    found = [_load(layout, Found(name), warn) for name in index.entries]
    return sorted((memory for memory in found if memory is not None), key=lambda memory: memory.identity.path)


def orphans(layout: Layout, worktree: WorkTree, *, warn: Warn = to_stderr) -> list[Memory]:
    """The memories whose path is not in this work tree now. They are kept: a checkout may bring the file
    back."""
    return [memory for memory in memories(layout, warn=warn) if not key_at(worktree, memory.identity.path)]


def _file(worktree: WorkTree, path: str, data: bytes, status: os.stat_result | None) -> File:
    return File(worktree, path, data, key_at(worktree, path) if status is None else key_of(status))


def _lock(layout: Layout) -> AbstractContextManager[None]:
    return locked(layout.memory_lock, what="the memory of this repository")


def _load(layout: Layout, found: Found, warn: Warn) -> Memory | None:
    folder = layout.memory / found.folder
    identity = load(folder, warn=warn)
    return None if identity is None else Memory(folder, identity, found.reason)


def _is_fresh(identity: Identity, found: Found, file: File) -> bool:
    return (
        not found.moved
        and found.reason != REWRITTEN
        and identity.blob == file.blob
        and file.key in identity.keys
    )


def _given(index: Index, memory: Memory, file: File) -> Found:
    """What the caller knows already: a renamed file moved, unless the old path is a hard link of the new
    one."""
    entry = index.entries[memory.folder.name]
    if entry.path == file.path or (file.key and key_at(file.worktree, entry.path) == file.key):
        return Found(entry.folder)
    return Found(entry.folder, f"renamed from {entry.path}", moved=True)


def _store(
    layout: Layout, index: Index, file: File, found: Found, *, commit: str | None, warn: Warn
) -> Memory:
    """Write down that `file` is the file of the memory `found`: content, identity, then the index."""
    folder = layout.memory / found.folder
    before = load(folder, warn=warn) if found.folder in index.entries else None
    after = _after(before, file, found, commit)
    changed = [(found.folder, after)] if after != before else []
    if file.key:
        changed += _freed(layout, index, file.key, found.folder, warn)
    if before is None or file.blob != before.blob:
        keep_content(folder, file.data)
    for name, identity in changed:
        save(layout.memory / name, identity)
    if changed:
        write_index(layout, updated(index, layout, changed))
    return Memory(folder, after, found.reason)


def _after(before: Identity | None, file: File, found: Found, commit: str | None) -> Identity:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    reason = found.reason if before is not None else "first seen"
    identity = before or Identity(file.path)
    if found.moved:
        identity = identity.at(file.path)
    if file.key:
        if before is not None and not reason and file.key not in before.keys:
            reason = "another inode"
        identity = identity.keyed(file.key, str(file.worktree.top))
    if reason and (before is None or found.moved or reason == REWRITTEN or file.key not in before.keys):
        identity = identity.noted(Rekeying(now, reason, file.path, file.key, file.blob))
    return replace(identity.seen(file.blob), commit=commit or identity.commit)


def _freed(layout: Layout, index: Index, key: str, owner: str, warn: Warn) -> list[tuple[str, Identity]]:
    """The other memories that claim the inode `key`, without it: it was reused, or another file took it
    over."""
    others = [entry.folder for entry in index.with_key(key) if entry.folder != owner]
    loaded = ((name, load(layout.memory / name, warn=warn)) for name in others)
    return [(name, identity.without_key(key)) for name, identity in loaded if identity is not None]


def _new_folder(layout: Layout, path: str) -> str:
    """`<slug>-<id>`: the slug is for people who look into the folder, the id makes it unique."""
    slug = re.sub(r"[^a-z0-9]+", "-", PurePosixPath(path).name.lower()).strip("-")[:40] or "file"
    while True:
        name = f"{slug}-{secrets.token_hex(4)}"
        if not Path(layout.memory / name).exists():
            return name
