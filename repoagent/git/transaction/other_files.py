"""The user's uncommitted work: copied before hooks run, and restored where they lost it.

Hooks lose work when they stash or check out files and do not restore them. The file is then missing or holds what HEAD
has; `git stash --keep-index` in a hook that fails leaves only the committed text. Anything else in a file is a newer
save and stays. The index, MERGE_MSG and AUTO_MERGE are the user's, too.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from repoagent.git.file_writer import Moved, Step, write_file
from repoagent.git.files import Content, look, same
from repoagent.git.index import Entry, copy_index, index_path, is_tree_of, put_entries, refresh
from repoagent.git.merge import Conflict, merge
from repoagent.git.objects import from_blob
from repoagent.git.process import git, git_output
from repoagent.git.transaction import locks
from repoagent.git.transaction.journal import COMMITTING, PlannedPath, Record, SavedFile
from repoagent.git.transaction.results import KEPT_FOLDER, OtherChanges
from repoagent.git.worktree import WorkTree
from repoagent.storage.atomic import write_whole
from repoagent.storage.journal import Journal, read_kept

NEXT = "next"  # in the folder of the journal: the index to be
COMMITTED = "index"  # and the one that git commits
_MAX_BYTES = 256 * 1024 * 1024  # of all files; what is larger is not copied, and hooks may change it
_TRIES = 3  # how often a file may be saved in the moment in which it is put back
_COMMIT_HOOKS = (
    "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "post-index-change",
    "reference-transaction",
)  # fmt: skip
# `git cherry-pick -n`, `git revert -n` and a resolved `git stash pop` leave them
_PENDING_MESSAGES = ("MERGE_MSG", "AUTO_MERGE")


def has_hooks(worktree: WorkTree) -> bool:
    """Whether git runs a program of the user's when it commits."""
    path = git(worktree.top, "rev-parse", "--git-path", "hooks")
    folder = worktree.top / os.fsdecode(path.removesuffix(b"\n"))
    if any((folder / name).is_file() and os.access(folder / name, os.X_OK) for name in _COMMIT_HOOKS):
        return True
    return bool(git(worktree.top, "config", "--get-regexp", r"^hook\..*\.event$", ok=(0, 1)))  # git 2.54


def snapshot_files(top: Path, edit_id: str, paths: Sequence[str]) -> tuple[SavedFile, ...]:
    """What the files hold."""
    saved = []
    budget = _MAX_BYTES
    for number, path in enumerate(paths):
        size = 0
        try:
            status = (top / path).lstat()
        except OSError:
            pass
        else:
            if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
                continue  # a folder in the place of a deleted file
            size = status.st_size
        if size <= budget:
            budget -= size
            saved.append(SavedFile(path, look(top, path), f".repoagent-{edit_id}-other-{number}"))
    return tuple(saved)


def restore_other_files(worktree: WorkTree, journal: Journal, record: Record) -> OtherChanges:
    """Give the files back what they have lost, and leave what is newer; its earlier content is kept in the journal's
    folder as `found-before-N`."""
    restored, left, sentences = [], [], []
    for saved in record.saved:
        for _ in range(_TRIES):
            current = look(worktree.top, saved.path)
            if current == saved.content or saved.content is None:
                break
            if current is not None and not (
                has_hooks(worktree) and _is_as_in_head(worktree, record, saved, current)
            ):
                break
            try:
                write_file(worktree.top, saved.path, current, saved.content, saved.temporary)
            except Moved:  # it was saved in this instant
                continue
            current = saved.content
            restored.append(saved.path)
            break
        if current == saved.content:
            continue
        left.append(saved.path)
        if saved.content is None:
            sentences.append(f"{saved.path}, which you had deleted, exists again and was left unchanged")
            continue
        sentence = f"{saved.path} changed while git was committing and was left unchanged"
        if current is None or current.data != saved.content.data:
            copy = keep_copy(journal, "found-before", saved.content)
            sentence += f"; its earlier content is in {KEPT_FOLDER}/{copy}"
        sentences.append(sentence)
    return OtherChanges(tuple(restored), tuple(left), sentences=tuple(sentences))


def _is_as_in_head(worktree: WorkTree, record: Record, saved: SavedFile, current: Content) -> bool:
    """Whether the file is what a checkout of the commit that the transaction began on writes."""
    arguments = ("ls-tree", "-z", "--full-tree", record.head or "HEAD", "--", saved.path)
    listing = git_output(worktree.top, *arguments, ok=(0, 128))
    fields = os.fsdecode(listing.stdout).partition("\t")[0].split(" ")
    if listing.returncode or len(fields) != 3 or fields[1] != "blob":
        return False
    head = from_blob(worktree, saved.path, Entry(fields[0], fields[2]))
    # where the user has changed nothing but the mode, that is what a checkout reverts
    return same(current, head) and (not same(current, saved.content) or current.mode == head.mode)


def keep_copy(journal: Journal, name: str, content: Content) -> str:
    """Store the bytes in the journal's folder, unless they are there; the name of the file: `name` and a number."""
    number = 0
    while (file := journal.path(f"{name}-{number}")).exists():
        if read_kept(journal.folder, file.name) == content.data:
            return file.name
        number += 1
    journal.keep(file.name, content.data)
    return file.name


def save_pending_messages(worktree: WorkTree, journal: Journal) -> None:
    """Keep them in the journal, before a commit."""
    for name in _PENDING_MESSAGES:
        file = worktree.git_dir / name
        if file.is_file():
            journal.keep(f"waiting-{name}", file.read_bytes())


def restore_pending_messages(worktree: WorkTree, journal: Journal) -> None:
    """Restore those that are gone since; the journal forgets them."""
    for name in _PENDING_MESSAGES:
        copy = journal.path(f"waiting-{name}")
        if not copy.exists():
            continue
        file = worktree.git_dir / name
        if not file.exists():
            write_whole(file, read_kept(journal.folder, copy.name), private=False)
        copy.unlink()


def restore_mixed_files(worktree: WorkTree, journal: Journal, record: Record) -> OtherChanges:
    """Restore the user's work that hooks have lost in the files of the edit. What was in a file instead is kept in the
    journal's folder as `found-own-N`."""
    restored = []
    for step, planned in _mixed(record):
        current = look(worktree.top, step.path)
        if same(current, step.new) or step.new is None:
            continue
        whole = step.new
        if current is not None:
            if not has_hooks(worktree):
                continue
            base = _checked_out(worktree, planned)
            other_lines = set(step.new.data.splitlines()) - set(base.data.splitlines() if base else ())
            if not other_lines.isdisjoint(
                current.data.splitlines()
            ):  # some are there: not a hook has taken them
                continue
            whole = current
            if base is not None and not current.is_link and not step.new.is_link:
                merged = merge(worktree, current.data, base.data, step.new.data, exact=True)
                if not isinstance(merged, Conflict):
                    whole = replace(current, data=merged)
            if same(current, whole):
                continue
            keep_copy(journal, "found-own", current)
        try:
            write_file(worktree.top, step.path, current, whole, step.temporary)
        except Moved:  # it was saved in this instant
            continue
        restored.append(step.path)
    return OtherChanges(tuple(restored))


def with_lost_files(worktree: WorkTree, record: Record) -> Record:
    """The record with steps that can be reverted where hooks were killed between a stash and its pop: the
    file then is just what was to be committed, or missing."""
    if record.state != COMMITTING:
        return record
    mixed = {step.path: planned for step, planned in _mixed(record)}
    steps = []
    for step in record.steps:
        current = look(worktree.top, step.path)
        planned = mixed.get(step.path)
        lost = current is None or (planned is not None and same(current, _checked_out(worktree, planned)))
        steps.append(replace(step, new=current) if lost else step)
    return replace(record, steps=tuple(steps))


def _mixed(record: Record) -> Iterator[tuple[Step, PlannedPath]]:
    """The files that hold more than what is committed."""
    plans = {planned.path: planned for planned in record.planned}
    for step in record.steps:
        planned = plans.get(step.path)
        if planned and planned.has_other_work and planned.commit != planned.work and step.new is not None:
            yield step, planned


def _checked_out(worktree: WorkTree, planned: PlannedPath) -> Content | None:
    """What a checkout of what is committed writes."""
    return None if planned.commit is None else from_blob(worktree, planned.path, planned.commit)


def copy_user_index(worktree: WorkTree, file: Path) -> None:
    """Make `file`, in a journal's folder, a copy of the index. A git that was killed while it wrote there has left
    its lock, and no other program works there."""
    file.with_name(f"{file.name}.lock").unlink(missing_ok=True)
    copy_index(worktree, file)


def update_user_index(
    worktree: WorkTree,
    journal: Journal,
    record: Record,
    other: Mapping[str, Entry | None],
    leave: Collection[str] = (),
) -> None:
    """Put the change, and the `other` entries, into the user's index, except at the paths `leave`, and release the
    lock.

    Raises Busy when somebody has removed our lock and holds one now: recovery does it later.
    """
    if not locks.is_ours(worktree, journal):
        locks.acquire(worktree, journal)
    file = journal.path(NEXT)
    copy_user_index(worktree, file)
    entries = {**{planned.path: planned.stage for planned in record.planned}, **other}
    entries = {path: entry for path, entry in entries.items() if path not in leave}
    put_entries(worktree, file, entries, {p.path: p.bits for p in record.planned if p.bits})
    present = [path for path, entry in entries.items() if entry and (worktree.top / path).exists()]
    refresh(worktree, file, present)
    if file.exists():
        file.replace(index_path(worktree))
    locks.release(worktree, journal)


def install_committed_index(worktree: WorkTree, journal: Journal, commit: str) -> bool:
    """Make the index that git has committed the user's, and release the lock, where that is sure to come to the same
    as `update_user_index`; elsewhere False, and nothing done.

    To be called where nothing was staged before, and nothing of the change but what is in the commit is to be. Then
    what is in the tree of the commit is all that is to be staged; and git has read every file for it.
    """
    file = journal.path(COMMITTED)
    if any(worktree.git_dir.glob("sharedindex.*")) or not locks.is_ours(worktree, journal):
        return False
    if not file.exists() or not is_tree_of(worktree, file, commit):
        return False
    file.replace(index_path(worktree))
    locks.release(worktree, journal)
    return True
