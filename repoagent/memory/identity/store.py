"""Look up, create, update and link memories. All writes happen under one lock."""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path, PurePosixPath

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused
from repoagent.git.files import read_source
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
from repoagent.memory.identity.record import (
    LINKED,
    LINKED_ANEW,
    LINKED_BACK,
    REWRITTEN,
    Identity,
    Memory,
    Rekeying,
    Seen,
    save,
)
from repoagent.memory.identity.resolve import MemoryMatch, WorkTreeFile, find, key_at, key_of
from repoagent.memory.identity.similarity import (
    RENAME,
    drop_contents,
    is_sample,
    keep_content,
    last_contents,
    likeness,
    worked_over,
)
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


_BY_HAND = (LINKED, LINKED_ANEW, LINKED_BACK)


def relink(
    layout: Layout,
    worktree: WorkTree,
    memory: Memory,
    path: str,
    *,
    swap: bool = False,
    dry_run: bool = False,
    warn: Warn = to_stderr,
) -> Memory:
    """Tie `memory` to `path`; the file that it had until now is a stranger to it from then on.

    So a re-keying is taken back by naming the path from before: also one where no file is now, if the memory had it
    once. With `swap` a memory that `path` has goes to the path that this one had. The re-keying is recorded; with
    `dry_run` nothing is, and what it would be is returned. Raises
    Refused where there is no such file or it has a memory (without `swap`), and as `read_source` does; Busy.
    """
    with memory_lock(layout), open_index(layout, warn) as index:
        index.look_again()
        identity = index.identity(memory.folder.name)
        if identity is None:
            raise Refused(f"cannot read the memory {memory.folder}; see `repoagent memory list`")
        file, former = _current_file(worktree, path), _former(worktree, identity.path_in(str(worktree.top)))
        if not file.key and path not in {former.path, identity.path, *identity.earlier_paths}:
            raise Refused(f"no such file: {path}; name an existing file or an earlier path of this memory")
        tied = _tied(layout, memory.folder.name, identity, file, former)
        changes: list[Change] = [(memory.folder.name, identity, tied)]
        other = _owner(layout, index, file, memory)
        if other is not None and not swap:
            raise Refused(
                f"{path} already has a memory ({other[0]}); link that one to another file first, or swap the two"
            )
        if other is not None:
            changes.append((*other, _tied(layout, *other, former, file)))
        if not dry_run:
            _save_link(layout, index, changes, [file, former])
        return Memory(memory.folder, changes[0][2], changes[0][2].rekeyings[-1].reason)


def _current_file(worktree: WorkTree, path: str) -> WorkTreeFile:
    data = read_source(worktree, path).data
    return WorkTreeFile(worktree, path, data or b"", "" if data is None else key_at(worktree, path))


def _former(worktree: WorkTree, path: str) -> WorkTreeFile:
    """The file that a memory had; where a link or a folder is by now, it has none."""
    try:
        return _current_file(worktree, path)
    except Refused:
        return WorkTreeFile(worktree, path, b"", "")


def _owner(
    layout: Layout, index: IdentityIndex, file: WorkTreeFile, memory: Memory
) -> tuple[str, Identity] | None:
    """The memory that the file has now, other than `memory`."""
    found = find(layout, index, file) if file.key else None
    if found is None or found.folder == memory.folder.name:
        return None
    identity = index.identity(found.folder)
    return None if identity is None else (found.folder, identity)


def _tied(
    layout: Layout, name: str, identity: Identity, file: WorkTreeFile, former: WorkTreeFile
) -> Identity:
    """`identity`, of the memory in the folder `name`, as that of `file`, and of `former` no more."""
    top, old = str(file.worktree.top), identity.path_in(str(file.worktree.top))
    reason = _reason(layout, name, identity, file)
    identity = identity.at(file.path, top)
    strangers = [path for path in identity.strangers if path != file.path]
    if former.key and former.path != file.path:  # another file: nothing of it shall lead back to it
        identity = identity.without_key(former.key)
        strangers.append(former.path)
    identity = replace(identity, strangers=tuple(dict.fromkeys(strangers)))
    if file.key:
        identity = identity.keyed(file.key, top).seen(file.blob, top)
    else:
        identity = replace(identity, places={**identity.places, top: Seen(file.path, identity.blob)})
    return identity.noted(rekeying(reason + old, file))


def _reason(layout: Layout, name: str, identity: Identity, file: WorkTreeFile) -> str:
    """Whether the text of `file` is the one that the memory is about, another one, or the one it was about before."""
    broken = last_link_anew(identity)
    if file.blob in identity.blobs or not file.key:
        return LINKED_BACK if broken is not None and broken.blob != file.blob else LINKED
    kept = last_contents(layout.memory / name, file.worktree)
    alike = any(
        likeness(one, file.data) >= RENAME or (not is_sample(one) and worked_over(one, file.data))
        for one in kept
    )
    return LINKED if alike else LINKED_ANEW


def last_link_anew(identity: Identity) -> Rekeying | None:
    """The last time that the memory was tied to another text by hand, unless that was taken back."""
    links: list[Rekeying] = []
    for one in identity.rekeyings:
        if one.reason.startswith(LINKED_ANEW):
            links.append(one)
        elif one.reason.startswith(LINKED_BACK) and links:
            links.pop()
    return links[-1] if links else None


@dataclass(frozen=True)
class Step:
    """A re-keying that moved a memory from the path `before` to `after`."""

    rekeying: Rekeying
    before: str
    after: str


def steps(identity: Identity) -> list[Step]:
    """The re-keyings that gave the file another path, oldest first."""
    return [
        Step(then, before.path, then.path)
        for before, then in pairwise(identity.rekeyings)
        if before.path != then.path
    ]


def last_step(identity: Identity, worktree: WorkTree) -> Step | None:
    """The last one that led to where the file is now in this work tree: what `--undo` takes back; None for none."""
    path = identity.path_in(str(worktree.top))
    return next((step for step in reversed(steps(identity)) if step.after == path), None)


def _save_link(
    layout: Layout, index: IdentityIndex, changes: list[Change], files: list[WorkTreeFile]
) -> None:
    tied = {name for name, _, _ in changes}
    for file in files[: len(changes)]:
        others = freed(index, file, "")
        changes = [*changes, *(change for change in others if change[0] not in tied)]
        tied |= {name for name, _, _ in others}
    for (name, _, _), file in zip(changes, files, strict=False):
        if file.key and name in tied:
            keep_content(layout.memory / name, file.worktree, file.data)
    save_all(layout, index, changes, None)


def is_swapped(layout: Layout, worktree: WorkTree, step: Step, *, warn: Warn = to_stderr) -> bool:
    """Whether another memory was tied to where this one came from in the same step, so that both go back together."""
    if not step.rekeying.reason.startswith(_BY_HAND):
        return False
    there = _former(worktree, step.before)
    with open_index(layout, warn) as index:
        found = find(layout, index, there) if there.key else None
        identity = None if found is None else index.identity(found.folder)
    last = identity.rekeyings[-1] if identity is not None and identity.rekeyings else None
    return last is not None and last.reason in {by_hand + step.after for by_hand in _BY_HAND}
