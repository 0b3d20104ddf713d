"""What a command has changed: the work tree is looked at before it and after it.

A look costs one `git status` and the bytes of what is uncommitted; ignored files are not looked at. What somebody saves
while the command runs counts as the command's: nobody can tell them apart. What has changed between two looks while a
command ran in the background is a candidate, and said to the person.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from repoagent.errors import Refused
from repoagent.repo import FileChange, WorkTree, blob_hash
from repoagent.repo.blobs import from_blob
from repoagent.repo.content import Content, look
from repoagent.repo.status import Status, read_status_and_untracked
from repoagent.work.changes.ledger import Ledger
from repoagent.work.changes.submodules import checked_out, look_inside, told
from repoagent.work.changes.unwatched import forget_look, keep_look
from repoagent.work.tools.names import named
from repoagent.work.tools.obeyed import tracked_folders, watch_usual

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


@dataclass(frozen=True)
class _Look:
    """What a look has seen, and what the ledger held then. `repositories` are others, in folders that git does not
    know."""

    status: Status
    seen: dict[str, Seen]
    entries: frozenset[FileChange]
    repositories: tuple[str, ...]


def watch(
    worktree: WorkTree, ledger: Ledger, say: Callable[[str], None], audit: Audit = lambda _: None
) -> Callable[[bool], Callable[[], str]]:
    """What looks before a command, and returns what looks after it: that tells the model what has changed. It is told
    whether something else that the run has started may have written since the last look.

    `say` gets a sentence where the person's own uncommitted work was changed, what is in a submodule, what other
    programs obey, and what changed in the background. `audit` is told of each file that was written.
    """
    look_at_usual = watch_usual(worktree.top, say, tracked_folders(worktree))
    submodules = checked_out(worktree)  # those of the beginning, whose .git no command in a sandbox may write
    last: _Look | None = None  # from look to look, so that a file that stays as it is is read once

    def before(background: bool = False) -> Callable[[], str]:
        nonlocal last
        was, last = last, _look(worktree, ledger, last.seen if last else {})
        first = last
        if was is None:
            look_at_usual(first.repositories, tell=False)
        meanwhile = _meanwhile(worktree, ledger, was, first, say, audit=audit) if background and was else ""
        keep_look(ledger, first.seen)
        inside = look_inside(worktree, submodules)

        def after() -> str:
            nonlocal last
            last = _look(worktree, ledger, first.seen)
            look_at_usual(last.repositories)
            others = told(inside, look_inside(worktree, submodules))
            audit([_written(path) for _, paths in others for path in paths])
            changed = _after(worktree, ledger, first, last, say, audit=audit)
            last = replace(last, entries=_entries(ledger))
            return "\n".join(filter(None, [meanwhile, changed, *_in_submodules(others, say)]))

        return after

    return before


def _after(
    worktree: WorkTree, ledger: Ledger, was: _Look, now: _Look, say: Callable[[str], None], *, audit: Audit
) -> str:
    changes: list[FileChange] = []
    candidates: list[FileChange] = []
    large: list[str] = []
    for path, old, new in _differences(worktree, was, now):
        before, after = was.seen.get(path), now.seen.get(path)
        tracked = (before or after or _NONE).tracked
        if not (before or after or _NONE).followed or not (after or before or _NONE).followed:
            large.append(path)
            if tracked:
                too_large = "is too large to be followed: it is not in the commit"
                say(f"{named(path)} was changed by the command, and {too_large}")
            continue
        own = ledger.of(path) is not None
        (changes if tracked or (own and path not in _candidates(ledger)) else candidates).append(
            _change(path, old, new)
        )
        if before is not None and old is not None and not own:
            what = "holds your uncommitted work" if tracked else "git does not know"
            say(f"{named(path)}, which {what}, was changed by the command; {_undo(path)}")
    if changes:
        ledger.wrote(changes)
    if candidates:
        ledger.found(candidates)
    kind = worktree.object_format
    audit(
        [_written(change.name, change, kind) for change in (*changes, *candidates)] + [*map(_written, large)]
    )
    forget_look(ledger)
    was_there = {change.name: change.before is not None for change in ledger.candidates}
    return "\n".join(_sentences(changes, candidates, large, was_there))


def _meanwhile(
    worktree: WorkTree, ledger: Ledger, was: _Look, now: _Look, say: Callable[[str], None], *, audit: Audit
) -> str:
    """What has changed since the last look, while a command ran in the background: by it or by the person, but not by
    what the run itself has written. It is a candidate then; of a file that the run has changed it is only said."""
    touched = {
        path
        for change in was.entries ^ _entries(ledger)
        for path in (change.path, change.old_path)
        if path is not None
    }
    own = {path: change for change in ledger.changes for path in (change.path, change.old_path) if path}
    found, again = [], []
    for path, old, new in _differences(worktree, was, now):
        if not now.seen.get(path, _NONE).followed or not was.seen.get(path, _NONE).followed:
            continue
        if path not in own and path not in touched:
            found.append(_change(path, old, new))
        elif path in own and not _is_left_by(own[path], path, new):
            again.append(path)
    if not found and not again:
        return ""
    ledger.found(found)
    kind = worktree.object_format
    events = [_written(change.name, change, kind) for change in found] + [*map(_written, again)]
    audit([{**event, "by": "background"} for event in events])
    sentences = []
    if found:
        names = _names([_verb(change) for change in found])
        say(
            f"note: {names} changed while a command ran in the background, by it or by you: no part of the run's "
            "change unless the model keeps it"
        )
        sentences.append(
            f"While a command ran in the background, {names} changed, by it or by the person: no part of your change "
            'unless you say <keep path="FILE"/>.'
        )
    if again:
        names = _names(list(map(named, again)))
        sentences.append(
            f"While a command ran in the background, {names}, which you had changed, changed again: look at it."
        )
    return "\n".join(sentences)


def _is_left_by(change: FileChange, path: str, now: Content | None) -> bool:
    """Whether a file is as this change of the run has left it."""
    after = change.after if path == change.path else None
    return (None if now is None else now.data) == after


def _entries(ledger: Ledger) -> frozenset[FileChange]:
    return frozenset((*ledger.changes, *ledger.candidates))


def _differences(
    worktree: WorkTree, was: _Look, now: _Look
) -> Iterator[tuple[str, Content | None, Content | None]]:
    """Each path that is another than it was, with what it held and what it holds, where that is followed."""
    for path in sorted({*was.seen, *now.seen}):
        before, after = was.seen.get(path), now.seen.get(path)
        if before is not None and after is not None and before.signature == after.signature:
            continue
        if not (before or after or _NONE).followed or not (after or before or _NONE).followed:
            yield path, None, None
            continue
        old = before.content if before is not None else _committed(worktree, now.status, was.status, path)
        new = after.content if after is not None else _present(worktree, path)
        if old != new:
            yield path, old, new


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


def _look(worktree: WorkTree, ledger: Ledger, known: dict[str, Seen]) -> _Look:
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
    return _Look(status, found, _entries(ledger), tuple(path for path in others if path.endswith("/")))


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


def _sentences(
    changes: Sequence[FileChange],
    candidates: Sequence[FileChange],
    large: Sequence[str],
    was_there: Mapping[str, bool],
) -> Iterator[str]:
    """`was_there` says of all that are candidates now whether they were files before the run."""
    if changes:
        yield f"It changed {_names([_verb(change) for change in changes])}: a part of your change now."
    theirs = [_verb(change) for change in candidates if was_there.get(change.name) is True]
    if theirs:
        yield (
            f"It changed {_names(theirs)}, which git does not know: no part of your change, and "
            f'<restore path="FILE"/> takes that back.'
        )
    made = [named(change.name) for change in candidates if was_there.get(change.name) is False]
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
