"""The two ends of a transaction, a live one or a crashed one: all of it is there, or none of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from repoagent.errors import Refused
from repoagent.repo import lock
from repoagent.repo.blobs import from_blob
from repoagent.repo.branches import switch_back
from repoagent.repo.commit import Made, head, with_other_tree
from repoagent.repo.content import look
from repoagent.repo.found import committed_since
from repoagent.repo.hooks import Verdict, judge
from repoagent.repo.index import Entry, copy_index, index_path, put_entries, read_entries, refresh
from repoagent.repo.others import put_right
from repoagent.repo.own import taken_for_ours
from repoagent.repo.record import DONE, Record, keep_steps
from repoagent.repo.run import GitError, git
from repoagent.repo.steps import Step, take_back
from repoagent.repo.waiting import give_back
from repoagent.repo.worktree import WorkTree, layout
from repoagent.store import jsonl
from repoagent.store.folders import SystemFailed
from repoagent.store.journal import Journal, remove_folder

_NEXT = "next"  # the index to be
TEMPORARY = "index"  # the index that git commits
_KEPT = 100  # finished edits, for undo, and as many folders of what could not be put back


class Unsettled(Refused):
    """A transaction could be brought neither to its end nor back; its journal is there, and the next command does
    it."""


@dataclass(frozen=True)
class CommitResult:
    """The commit. `folded` are paths where what a hook made of them is in it, `taken_out` those where a hook
    had added the user's other work, which is out again, `restored` files of the user that a hook had changed
    and that are as they were. `output` is what git and the hooks printed."""

    commit: str
    parent: str | None
    branch: str | None
    folded: tuple[str, ...] = ()
    taken_out: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    output: bytes = b""


def settle(
    worktree: WorkTree,
    journal: Journal,
    record: Record,
    made: Made,
    *,
    key: str | None = None,
    leave: Collection[str] = (),
) -> CommitResult:
    """After the commit `made`: what hooks swept in goes out of it, the user's files and index are put right,
    the lock is released, and the journal becomes the record of the edit.

    `key` signs a commit that has to be made again. The index entries `leave` stay as they are.
    """
    verdict = judge(worktree, record, made)
    since = committed_since(worktree, journal.path(TEMPORARY), made, _staged(record, verdict))
    commit, notes = _put_right_in_commit(worktree, journal, made, verdict, key)
    if since:
        notes = (*notes, f"a hook has committed on top of it: {', '.join(sorted(since))}")
    if commit == made.commit:
        since = {**_stays(worktree, record, made, verdict), **since}
    restored = put_right(worktree.top, journal, record.saved)
    give_index(worktree, journal, record, {**verdict.stage, **since}, leave)
    give_back(worktree, journal)
    done = replace(record, commit=commit, steps=_steps_done(worktree, record, made, verdict))
    if done.steps != record.steps:
        keep_steps(journal, done)
    archive(worktree, journal, done)
    return CommitResult(
        commit,
        made.parent,
        record.new_branch or record.branch,
        tuple(verdict.folded),
        tuple(verdict.taken_out) if commit != made.commit else (),
        tuple(restored),
        notes,
    )


def _stays(worktree: WorkTree, record: Record, made: Made, verdict: Verdict) -> dict[str, Entry | None]:
    """What of the corrections that were not made the index is to have, so that what stays in the commit is not
    staged to be taken back."""
    if not verdict.corrections:
        return {}
    mine = {path: one.entry for path, one in read_entries(worktree, list(verdict.corrections)).items()}
    will = {**mine, **_staged(record, verdict)}
    return {
        path: made.changed[path]
        for path, right in verdict.corrections.items()
        if path in made.changed and will.get(path) == right
    }


def _put_right_in_commit(
    worktree: WorkTree, journal: Journal, made: Made, verdict: Verdict, key: str | None
) -> tuple[str, tuple[str, ...]]:
    """The commit without what hooks swept in, and what to tell of it.

    Where it can't be made again (a hook has committed on top, or forbids it; there is no signature now), that
    stays in: it is in the history then, and as it was in the files and in the index.
    """
    if not verdict.corrections:
        return made.commit, ()
    names = ", ".join(verdict.taken_out)
    stays = f"a hook had added {names} to the commit, where it has to stay"
    if head(worktree) != made.commit:
        return made.commit, (f"{stays}: another commit stands on it",)
    journal.path(f"{TEMPORARY}.lock").unlink(missing_ok=True)
    try:
        commit = with_other_tree(worktree, journal.path(TEMPORARY), made, verdict.corrections, key)
    except GitError as error:
        return made.commit, (f"{stays}: {error.stderr.splitlines()[-1] if error.stderr else error}",)
    seen = git(
        worktree.top, "for-each-ref", "--format=%(refname:short)", f"--contains={made.commit}",
        "refs/remotes", "refs/tags",
    )  # fmt: skip
    if not seen:
        return commit, ()
    where = ", ".join(seen.decode(errors="replace").split())
    return commit, (
        f"a hook had pushed or tagged the commit as {made.commit[:12]}, with your work in {names} in it, before that "
        f"was taken out: {where} has it; put that right, as `git push --force-with-lease` does",
    )


def _staged(record: Record, verdict: Verdict) -> dict[str, Entry | None]:
    return {**{planned.path: planned.stage for planned in record.planned}, **verdict.stage}


def _steps_done(worktree: WorkTree, record: Record, made: Made, verdict: Verdict) -> tuple[Step, ...]:
    """The steps as hooks have made them, and those that hooks have added: undo must know."""
    done = [
        replace(step, new=look(worktree.top, step.path)) if step.path in verdict.folded else step
        for step in record.steps
    ]
    own = {step.path for step in record.steps}
    for path in verdict.folded:
        if path not in own:
            before = made.was[path]
            old = None if before is None else from_blob(worktree, path, before)
            done.append(Step(path, old, look(worktree.top, path), f"{record.id}-{len(done)}"))
    return tuple(done)


def give_index(
    worktree: WorkTree,
    journal: Journal,
    record: Record,
    other: Mapping[str, Entry | None],
    leave: Collection[str] = (),
) -> None:
    """Put the change, and the `other` entries, into the user's index, and end the lock.

    Raises Busy when somebody has removed our lock and holds one now: recovery does it later.
    """
    if not lock.is_ours(worktree, journal):
        lock.take(worktree, journal)
    file = journal.path(_NEXT)
    begin_index(worktree, file)
    entries = {**{planned.path: planned.stage for planned in record.planned}, **other}
    entries = {path: entry for path, entry in entries.items() if path not in leave}
    put_entries(worktree, file, entries, {p.path: p.bits for p in record.planned if p.bits})
    refresh(
        worktree, file, [path for path, entry in entries.items() if entry and (worktree.top / path).exists()]
    )
    if file.exists():
        file.replace(index_path(worktree))
    lock.release(worktree, journal)


def begin_index(worktree: WorkTree, file: Path) -> None:
    """Make `file`, in a journal's folder, a copy of the index. A git that was killed while it wrote there has left
    its lock, and nobody else works there."""
    file.with_name(f"{file.name}.lock").unlink(missing_ok=True)
    copy_index(worktree, file)


def roll_back(worktree: WorkTree, journal: Journal, record: Record) -> list[str]:
    """Make everything what it was before; the journal ends.

    A file that holds anything but what we wrote is left as it is and returned; the journal's folder, with the
    bytes before and after, then is kept under `kept`.
    """
    steps = taken_for_ours(worktree, record).steps
    left = [step.path for step in reversed(steps) if not take_back(worktree.top, step)]
    for folder in record.folders:
        with suppress(OSError):  # not empty: something else is in it by now
            (worktree.top / folder).rmdir()
    put_right(worktree.top, journal, record.saved)
    give_back(worktree, journal)
    if record.new_branch is not None:
        switch_back(worktree, record.new_branch, record.head, record.branch)
    if record.commits:
        lock.release(worktree, journal)
    if left or any(journal.folder.glob("found-*")):
        kept = kept_folder(worktree, journal)
        journal.retire(kept)
        _prune(kept.parent)
    else:
        journal.retire()
    return left


def kept_folder(worktree: WorkTree, journal: Journal) -> Path:
    """Where the bytes will stay that could not be put back: a free name."""
    folder = layout(worktree).private / "kept" / journal.name
    number = 1
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{journal.name}-{number}")
    return folder


def edit_folder(worktree: WorkTree, edit_id: str) -> Path:
    """Where the bytes of a finished edit are kept, for undo."""
    return layout(worktree).private / "edits" / edit_id


def archive(worktree: WorkTree, journal: Journal, record: Record) -> None:
    """The journal of a finished edit becomes what undo and redo need; each of them only leaves a line."""
    line = {
        "version": 1,
        "event": record.event,
        "id": record.id,
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "branch": record.new_branch or record.branch,
        "commit": record.commit,
        "parent": record.head,
        "paths": [step.path for step in record.steps],
        "no_commit": not record.commits,
        "moved": record.moves_to is not None,
    }
    jsonl.append(layout(worktree).edits, line)
    journal.save(replace(record, saved=(), uncommitted=(), state=DONE).to_dict())
    with suppress(OSError, SystemFailed):  # it is done: what is left to clear away the next command does
        shelve(worktree, journal, record)


def shelve(worktree: WorkTree, journal: Journal, record: Record) -> None:
    """The last part of `archive`."""
    if record.event != "edit":
        journal.retire()
        return
    locks = (f"{name}.lock" for name in (_NEXT, TEMPORARY))
    for name in (
        _NEXT,
        TEMPORARY,
        lock.MARK,
        *locks,
        *(path.name for path in journal.folder.glob("saved-*")),
    ):
        journal.path(name).unlink(missing_ok=True)
    folder = edit_folder(worktree, record.id)
    journal.retire(folder)
    _prune(folder.parent)


def _prune(folder: Path) -> None:
    kept = sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for old in kept[:-_KEPT]:
        remove_folder(old)
