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

_MAX_BYTES = 256 * 1024 * 1024  # of all of them; what is larger is not copied, and hooks may change it
_TRIES = 3  # how often a file may be saved in the moment in which it is put back
_COMMIT_HOOKS = (
    "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "post-index-change",
    "reference-transaction",
)  # fmt: skip


def snapshot_files(top: Path, edit_id: str, paths: Sequence[str]) -> tuple[SavedFile, ...]:
    """What the files hold."""
    found = []
    left = _MAX_BYTES
    for number, path in enumerate(paths):
        try:
            status = (top / path).lstat()
        except OSError:
            size = 0
        else:
            if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
                continue  # a folder in the place of a deleted file
            size = status.st_size
        if size <= left:
            left -= size
            found.append(SavedFile(path, look(top, path), f".repoagent-{edit_id}-other-{number}"))
    return tuple(found)


def restore_other_files(worktree: WorkTree, journal: Journal, record: Record) -> OtherChanges:
    """Give the files back what they have lost, and leave what is newer; its earlier content is kept in the journal's
    folder as `found-before-N`."""
    restored, left, sentences = [], [], []
    hooks = None
    for saved in record.saved:
        for _ in range(_TRIES):
            found = look(worktree.top, saved.path)
            if found == saved.content or saved.content is None:
                break
            if found is not None:
                hooks = has_hooks(worktree) if hooks is None else hooks
                if not hooks or not _is_as_in_head(worktree, record, saved, found):
                    break
            try:
                write_file(worktree.top, saved.path, found, saved.content, saved.temporary)
            except Moved:  # it was saved in this instant
                continue
            found = saved.content
            restored.append(saved.path)
            break
        if found == saved.content:
            continue
        left.append(saved.path)
        if saved.content is None:
            sentences.append(f"{saved.path}, which you had deleted, exists again and was left unchanged")
            continue
        said = f"{saved.path} changed while git was committing and was left unchanged"
        if found is None or found.data != saved.content.data:
            copy = keep_copy(journal, "found-before", saved.content)
            said += f"; its earlier content is in {KEPT_FOLDER}/{copy}"
        sentences.append(said)
    return OtherChanges(tuple(restored), tuple(left), sentences=tuple(sentences))


def has_hooks(worktree: WorkTree) -> bool:
    """Whether git runs a program of the user's when it commits."""
    named = git(worktree.top, "rev-parse", "--git-path", "hooks")
    folder = worktree.top / os.fsdecode(named.removesuffix(b"\n"))
    if any((folder / name).is_file() and os.access(folder / name, os.X_OK) for name in _COMMIT_HOOKS):
        return True
    return bool(git(worktree.top, "config", "--get-regexp", r"^hook\..*\.event$", ok=(0, 1)))  # git 2.54


def keep_copy(journal: Journal, name: str, content: Content) -> str:
    """Store the bytes in the journal's folder, unless they are there; the name of the file: `name` and a number."""
    number = 0
    while (file := journal.path(f"{name}-{number}")).exists():
        if read_kept(journal.folder, file.name) == content.data:
            return file.name
        number += 1
    journal.keep(file.name, content.data)
    return file.name


def _is_as_in_head(worktree: WorkTree, record: Record, saved: SavedFile, found: Content) -> bool:
    """Whether the file is what a checkout of the commit that the transaction began on writes."""
    listed = git_output(
        worktree.top, "ls-tree", "-z", "--full-tree", record.head or "HEAD", "--", saved.path, ok=(0, 128)
    )
    fields = os.fsdecode(listed.stdout).partition("\t")[0].split(" ")
    if listed.returncode or len(fields) != 3 or fields[1] != "blob":
        return False
    head = from_blob(worktree, saved.path, Entry(fields[0], fields[2]))
    # where the user has changed nothing but the mode, that is what a checkout takes back
    return same(found, head) and (not same(found, saved.content) or found.mode == head.mode)


# `git cherry-pick -n`, `git revert -n` and a resolved `git stash pop` leave them
_PENDING_MESSAGES = ("MERGE_MSG", "AUTO_MERGE")


def save_pending_messages(worktree: WorkTree, journal: Journal) -> None:
    """Remember them in the journal, before a commit."""
    for name in _PENDING_MESSAGES:
        file = worktree.git_dir / name
        if file.is_file():
            journal.keep(f"waiting-{name}", file.read_bytes())


def restore_pending_messages(worktree: WorkTree, journal: Journal) -> None:
    """Those that are gone since come back; the journal forgets them."""
    for name in _PENDING_MESSAGES:
        mine = journal.path(f"waiting-{name}")
        if not mine.exists():
            continue
        file = worktree.git_dir / name
        if not file.exists():
            write_whole(file, read_kept(journal.folder, mine.name), private=False)
        mine.unlink()


def restore_mixed_files(worktree: WorkTree, journal: Journal, record: Record) -> OtherChanges:
    """Put the lost work back. What was found instead is kept in the journal's folder as `found-own-N`."""
    restored = []
    hooks = None
    for step, planned in _mixed(record):
        now = look(worktree.top, step.path)
        if same(now, step.new) or step.new is None:
            continue
        if now is not None:
            hooks = has_hooks(worktree) if hooks is None else hooks
            if not hooks or not _is_lost(worktree, planned, step.new, now):
                continue
        whole = step.new if now is None else _with_work(worktree, planned, step.new, now)
        if same(now, whole):
            continue
        if now is not None:
            keep_copy(journal, "found-own", now)
        try:
            write_file(worktree.top, step.path, now, whole, step.temporary)
        except Moved:  # it was saved in this instant
            continue
        restored.append(step.path)
    return OtherChanges(tuple(restored))


def with_lost_files(worktree: WorkTree, record: Record) -> Record:
    """The record with steps that can be taken back where hooks were killed between a stash and its pop: the
    file then is just what was to be committed, or missing."""
    if record.state != COMMITTING:
        return record
    mixed = {step.path: planned for step, planned in _mixed(record)}
    steps = []
    for step in record.steps:
        now = look(worktree.top, step.path)
        planned = mixed.get(step.path)
        lost = now is None or (planned is not None and same(now, _checked_out(worktree, planned)))
        steps.append(replace(step, new=now) if lost else step)
    return replace(record, steps=tuple(steps))


def _mixed(record: Record) -> Iterator[tuple[Step, PlannedPath]]:
    """The files that hold more than what is committed."""
    planned = {one.path: one for one in record.planned}
    for step in record.steps:
        one = planned.get(step.path)
        if one is not None and one.has_other_work and one.commit != one.work and step.new is not None:
            yield step, one


def _is_lost(worktree: WorkTree, planned: PlannedPath, ours: Content, now: Content) -> bool:
    """Whether none of the user's other lines is in the file any more: a hook has taken them, not a save."""
    base = _checked_out(worktree, planned)
    lines = set(ours.data.splitlines()) - set(() if base is None else base.data.splitlines())
    return lines.isdisjoint(now.data.splitlines())


def _with_work(worktree: WorkTree, planned: PlannedPath, ours: Content, now: Content) -> Content:
    """The file as a hook left it, with the user's work; as it is where that is on the same lines."""
    base = _checked_out(worktree, planned)
    if base is None or now.is_link or ours.is_link:
        return now
    merged = merge(worktree, now.data, base.data, ours.data, exact=True)
    return now if isinstance(merged, Conflict) else replace(now, data=merged)


def _checked_out(worktree: WorkTree, planned: PlannedPath) -> Content | None:
    """What a checkout of what is committed writes."""
    return None if planned.commit is None else from_blob(worktree, planned.path, planned.commit)


NEXT = "next"  # in the folder of the journal: the index to be
COMMITTED = "index"  # and the one that git commits


def copy_user_index(worktree: WorkTree, file: Path) -> None:
    """Make `file`, in a journal's folder, a copy of the index. A git that was killed while it wrote there has left
    its lock, and nobody else works there."""
    file.with_name(f"{file.name}.lock").unlink(missing_ok=True)
    copy_index(worktree, file)


def update_user_index(
    worktree: WorkTree,
    journal: Journal,
    record: Record,
    other: Mapping[str, Entry | None],
    leave: Collection[str] = (),
) -> None:
    """Put the change, and the `other` entries, into the user's index, and end the lock.

    Raises Busy when somebody has removed our lock and holds one now: recovery does it later.
    """
    if not locks.is_ours(worktree, journal):
        locks.acquire(worktree, journal)
    file = journal.path(NEXT)
    copy_user_index(worktree, file)
    entries = {**{planned.path: planned.stage for planned in record.planned}, **other}
    entries = {path: entry for path, entry in entries.items() if path not in leave}
    put_entries(worktree, file, entries, {p.path: p.bits for p in record.planned if p.bits})
    refresh(
        worktree, file, [path for path, entry in entries.items() if entry and (worktree.top / path).exists()]
    )
    if file.exists():
        file.replace(index_path(worktree))
    locks.release(worktree, journal)


def install_committed_index(worktree: WorkTree, journal: Journal, commit: str) -> bool:
    """Make the index that git has committed the user's, and end the lock, where that comes to the same as
    `give_index` and is sure to: False, and nothing done, elsewhere.

    To be called where nothing was staged before, and nothing of the change but what is in the commit is to be. Then
    what is in the tree of the commit is all that is to be staged; and git has looked at every file for it.
    """
    file = journal.path(COMMITTED)
    if any(worktree.git_dir.glob("sharedindex.*")) or not locks.is_ours(worktree, journal):
        return False
    if not file.exists() or not is_tree_of(worktree, file, commit):
        return False
    file.replace(index_path(worktree))
    locks.release(worktree, journal)
    return True
