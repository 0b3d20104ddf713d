"""What a command has changed: the work tree is looked at before it and after it.

A look costs one `git status` and the bytes of what is uncommitted; ignored files are not looked at. What somebody saves
while the command runs counts as the command's: nobody can tell them apart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from repoagent.errors import Refused
from repoagent.repo import FileChange, WorkTree, blob_hash
from repoagent.repo.blobs import from_blob
from repoagent.repo.content import Content, look
from repoagent.repo.status import Status, read_status_and_untracked
from repoagent.work.changes.ledger import Ledger
from repoagent.work.changes.submodules import checked_out, look_inside, told
from repoagent.work.changes.unwatched import forget_look, keep_look
from repoagent.work.tools.names import named
from repoagent.work.tools.obeyed import watch_usual

LARGEST = 4 * 1024 * 1024  # bytes of a file that is followed
MOST = 2_000  # uncommitted files whose bytes are looked at
IN_ALL = 256 * 1024 * 1024  # bytes of all that are followed: they are held in memory
NAMED = 20

Signature = tuple[int, ...]
Audit = Callable[[Sequence[Mapping[str, object]]], None]


@dataclass(frozen=True)
class Seen:
    """One uncommitted or untracked path: its signature, and its bytes where they are followed."""

    signature: Signature | None
    content: Content | None
    tracked: bool
    followed: bool = True


def watch(
    worktree: WorkTree, ledger: Ledger, say: Callable[[str], None], audit: Audit = lambda _: None
) -> Callable[[], Callable[[], str]]:
    """What looks before a command, and returns what looks after it: that tells the model what has changed.

    `say` gets a sentence where the person's own uncommitted work was changed, what is in a submodule, or what other
    programs obey. `audit` is told of each file that was written.
    """
    look_at_usual = watch_usual(worktree.top, say)
    submodules = checked_out(worktree)  # those of the beginning, whose .git no command in a sandbox may write
    known: dict[str, Seen] = {}  # from look to look, so that a file that stays as it is is read once

    def before() -> Callable[[], str]:
        status, seen = _look(worktree, known)
        known.clear()
        known.update(seen)
        keep_look(ledger, seen)
        inside = look_inside(worktree, submodules)

        def after() -> str:
            look_at_usual()
            others = told(inside, look_inside(worktree, submodules))
            audit([_written(path) for _, paths in others for path in paths])
            return "\n".join(
                filter(
                    None,
                    [_after(worktree, ledger, status, seen, say, audit=audit), *_in_submodules(others, say)],
                )
            )

        return after

    return before


def _after(
    worktree: WorkTree,
    ledger: Ledger,
    was: Status,
    seen: dict[str, Seen],
    say: Callable[[str], None],
    *,
    audit: Audit,
) -> str:
    status, now = _look(worktree, seen)
    changes: list[FileChange] = []
    candidates: list[FileChange] = []
    large: list[str] = []
    for path in sorted({*seen, *now}):
        before, after = seen.get(path), now.get(path)
        if before is not None and after is not None and before.signature == after.signature:
            continue
        if not (before or after or _NONE).followed or not (after or before or _NONE).followed:
            large.append(path)
            if (before or after or _NONE).tracked:
                say(
                    f"{path} was changed by the command, and is too large to be followed: it is not in the commit"
                )
            continue
        old = before.content if before is not None else _committed(worktree, status, was, path)
        new = after.content if after is not None else _present(worktree, path)
        if old == new:
            continue
        tracked = (before or after or _NONE).tracked
        own = ledger.of(path) is not None
        (changes if tracked or (own and path not in _candidates(ledger)) else candidates).append(
            _change(path, old, new)
        )
        if tracked and before is not None and old is not None and not own:
            say(f"{path}, which holds your uncommitted work, was changed by the command; {_undo(path)}")
    if changes:
        ledger.wrote(changes)
    if candidates:
        ledger.found(candidates)
    kind = worktree.object_format
    audit(
        [_written(change.name, change, kind) for change in (*changes, *candidates)] + [*map(_written, large)]
    )
    forget_look(ledger)
    return _told(changes, candidates, large)


_NONE = Seen(None, None, True)


def _written(path: str, change: FileChange | None = None, kind: str = "sha1") -> dict[str, object]:
    """What the audit keeps of a file that a command has written: without its blobs where it was not followed."""
    if change is None:
        return {"kind": "write", "by": "command", "path": path}
    before = None if change.before is None else blob_hash(change.before, kind)
    after = None if change.after is None else blob_hash(change.after, kind)
    return {**_written(path), "before": before, "after": after}


def _in_submodules(others: Sequence[tuple[str, list[str]]], say: Callable[[str], None]) -> Iterator[str]:
    """Sentences for the model, which the person gets in other words."""
    for what, paths in others:
        files = f" ({_names(list(map(named, paths)))})" if paths else ""
        say(f"the command changed the submodule {what}{files}: that is not in the commit")
        yield f"It changed the submodule {what}{files}: another repository, so no part of your change."


def _undo(path: str) -> str:
    return "its bytes before are kept in the run's folder until the run is deleted"


def _candidates(ledger: Ledger) -> set[str]:
    return {change.name for change in ledger.candidates}


def _look(worktree: WorkTree, known: dict[str, Seen]) -> tuple[Status, dict[str, Seen]]:
    """All paths with uncommitted bytes in the work tree, and all untracked ones."""
    status, others = read_status_and_untracked(worktree)
    changed = {path: one for path, one in status.changed.items() if not one.submodule}
    tracked = [path for path, one in changed.items() if one.unstaged]
    staged = [path for path, one in changed.items() if not one.unstaged]
    found: dict[str, Seen] = {}
    left = IN_ALL
    for is_tracked, paths in ((True, (*tracked, *staged)), (False, others)):
        for n, path in enumerate(paths):
            if path.endswith("/"):  # another repository
                continue
            follow = n < MOST and left > 0
            found[path] = seen = _see(worktree, path, known.get(path), tracked=is_tracked, follow=follow)
            left -= len(seen.content.data) if seen.content is not None else 0
    return status, found


def _see(worktree: WorkTree, path: str, known: Seen | None, *, tracked: bool, follow: bool) -> Seen:
    signature = _signature(worktree, path)
    if known is not None and signature is not None and known.signature == signature:
        if known.tracked == tracked and (follow or not known.followed):
            return known
        if follow:
            return Seen(signature, known.content, tracked, known.followed)
    if signature is None:
        return Seen(None, None, tracked)
    if not follow or signature[1] > LARGEST:
        return Seen(signature, None, tracked, followed=False)
    try:
        return Seen(signature, look(worktree.top, path), tracked)
    except Refused:  # a fifo, a folder in its place
        return Seen(signature, None, tracked, followed=False)


def _signature(worktree: WorkTree, path: str) -> Signature | None:
    try:
        found = os.lstat(f"{worktree.top}/{path}")  # joined as text: there may be 100,000
    except OSError:
        return None
    # the time of the last change of any kind is the one that a command can't set
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, found.st_ctime_ns


def _committed(worktree: WorkTree, status: Status, was: Status, path: str) -> Content | None:
    """What a file held that was as it is staged, and is not any more."""
    if path not in status.changed or path in was.changed:
        return None
    entry = status.changed[path].staged
    return None if entry is None else from_blob(worktree, path, entry)


def _present(worktree: WorkTree, path: str) -> Content | None:
    """What a file holds that has nothing uncommitted any more, or is gone."""
    try:
        return look(worktree.top, path)
    except Refused:
        return None


def _change(path: str, old: Content | None, new: Content | None) -> FileChange:
    return FileChange(
        path if old is not None else None,
        path if new is not None else None,
        old.data if old is not None else None,
        new.data if new is not None else None,
        old.mode if old is not None else None,
        new.mode if new is not None else None,
    )


def _told(changes: Sequence[FileChange], candidates: Sequence[FileChange], large: Sequence[str]) -> str:
    return "\n".join(_sentences(changes, candidates, large))


def _sentences(
    changes: Sequence[FileChange], candidates: Sequence[FileChange], large: Sequence[str]
) -> Iterator[str]:
    if changes:
        yield f"It changed {_names([_verb(change) for change in changes])}: a part of your change now."
    made = [named(change.name) for change in candidates if change.after is not None]
    if made:
        yield (
            f"It made {_names(made)}, which git does not know: no part of your change unless you say "
            f'<keep path="FILE"/>.'
        )
    if large:
        why = "is too large, not a file, or one of too many to be a part of your change"
        yield f"{_names(list(map(named, large)))} changed too, and {why}."


def _verb(change: FileChange) -> str:
    if change.before is None:
        return f"{named(change.name)} (new)"
    return f"{named(change.name)} (deleted)" if change.after is None else named(change.name)


def _names(names: Sequence[str]) -> str:
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
