"""Link a memory to another file by hand, and undo such links."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import read_source
from repoagent.git.worktree import WorkTree
from repoagent.memory.identity.hints import Change, IdentityIndex, open_index
from repoagent.memory.identity.record import (
    LINKED,
    LINKED_ANEW,
    LINKED_BACK,
    Identity,
    Memory,
    Rekeying,
    Seen,
)
from repoagent.memory.identity.resolve import WorkTreeFile, find, key_at
from repoagent.memory.identity.similarity import (
    RENAME,
    is_sample,
    keep_content,
    last_contents,
    likeness,
    worked_over,
)
from repoagent.memory.identity.store import freed, memory_lock, rekeying, save_all
from repoagent.storage.layout import Layout, Warn, to_stderr

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
        file, former = _file(worktree, path), _former(worktree, identity.path_in(str(worktree.top)))
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
            _write(layout, index, changes, [file, former])
        return Memory(memory.folder, changes[0][2], changes[0][2].rekeyings[-1].reason)


def _file(worktree: WorkTree, path: str) -> WorkTreeFile:
    data = read_source(worktree, path).data
    return WorkTreeFile(worktree, path, data or b"", "" if data is None else key_at(worktree, path))


def _former(worktree: WorkTree, path: str) -> WorkTreeFile:
    """The file that a memory had; where a link or a folder is by now, it has none."""
    try:
        return _file(worktree, path)
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


def _write(layout: Layout, index: IdentityIndex, changes: list[Change], files: list[WorkTreeFile]) -> None:
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
