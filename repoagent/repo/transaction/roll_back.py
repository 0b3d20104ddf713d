"""Take back what a transaction has done: the other one of its two ends."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from repoagent.repo.blobs import from_blob
from repoagent.repo.branches import switch_back
from repoagent.repo.content import Content, look, same
from repoagent.repo.index import staged_entries
from repoagent.repo.merge import Conflict, carry
from repoagent.repo.transaction import lock
from repoagent.repo.transaction.archive import kept_after, retire_to
from repoagent.repo.transaction.other_files import has_hooks, keep_free, put_right
from repoagent.repo.transaction.other_lines import taken_for_ours
from repoagent.repo.transaction.record import COMMITTING, Record
from repoagent.repo.transaction.results import HOME, Meanwhile
from repoagent.repo.transaction.user_index import COMMITTED
from repoagent.repo.transaction.waiting import give_back
from repoagent.repo.worktree import WorkTree
from repoagent.repo.write import Moved, put
from repoagent.repo.write.steps import Step, take_back
from repoagent.store.journal import Journal

_TRIES = 3  # how often a file may be saved in the moment in which the edit is taken out of it
_LAYOUT = re.compile(rb"[\s'\"`,;()\\]+")  # what formatters change


def roll_back(worktree: WorkTree, journal: Journal, record: Record) -> Meanwhile:
    """Make everything what it was before; the journal ends.

    Where a file of the edit was saved since, the edit alone is taken out of it. Where that can't be done the file is
    left as it is. Either is in what is returned. If bytes are left that the user may want, the journal's folder is kept
    under `kept`.
    """
    others = Meanwhile()
    home = kept_after(worktree, journal, record, done=False)
    written = replace(record, steps=tuple(_as_written(step) for step in record.steps))
    for number, step in reversed(list(enumerate(taken_for_ours(worktree, written).steps))):
        if not take_back(worktree.top, step):
            others += _without_edit(worktree, journal, record, number, step)
    for folder in record.folders:
        with suppress(OSError):  # not empty: something else is in it by now
            (worktree.top / folder).rmdir()
    others += put_right(worktree, journal, record)
    give_back(worktree, journal)
    if record.new_branch is not None:
        switch_back(worktree, record.new_branch, record.head, record.branch, record.id)
    if record.commits:
        lock.release(worktree, journal)
    if others.left or any(journal.folder.glob("found-*")):
        retire_to(journal, home)
    else:
        journal.retire()
    return others


def _as_written(step: Step) -> Step:
    """The step with what it has written itself, not with what was found after hooks."""
    return step if step.wrote is None else replace(step, new=step.wrote, wrote=None)


def _without_edit(worktree: WorkTree, journal: Journal, record: Record, number: int, step: Step) -> Meanwhile:
    """Take the edit out of a file that holds something else besides, by a three-way merge as `undo` does."""
    path = step.path
    for _ in range(_TRIES):
        found = look(worktree.top, path)
        by_hook = record.state == COMMITTING and _is_reformatted(found, step.new) and has_hooks(worktree)
        if by_hook:
            target: Content | Conflict | None = step.old
        elif step.new is None:  # the edit had deleted it: nothing of the edit is in it
            target = found
        else:
            target = carry(worktree, found, step.new, step.old)
        if isinstance(target, Conflict):
            if not _is_staged(worktree, journal, record, step, found):
                break
            by_hook, target = True, step.old
        try:
            put(worktree.top, path, found, target, step.temporary, permissions=step.permissions)
        except Moved:  # it was saved in this instant
            continue
        if by_hook and found is not None:
            copy = keep_free(journal, "found-own", found)
            return Meanwhile(sentences=(f"a hook's version of {path} is kept in {HOME}/{copy}",))
        said = f"{path} changed after the {record.event} was written"
        if same(found, target):
            said += " and was left unchanged"
        else:
            said += f": the {record.event} was removed and your other changes were kept"
        return _left(said, f"; the text from before the {record.event}", step, number)
    said = f"{path} changed on the lines of the {record.event} and was left unchanged, with both in it"
    journal.keep(f"new-{number}", step.new.data if step.new else b"")
    said += f"; the edited text is in {HOME}/new-{number}"
    return replace(_left(said, ", the text from before", step, number), conflicts=(path,))


def _left(said: str, before: str, step: Step, number: int) -> Meanwhile:
    """What is left of a file; where there was one before, its text is named with the words `before`."""
    where = f"{before} is in {HOME}/old-{number}" if step.old is not None else ""
    return Meanwhile(left=(step.path,), sentences=(said + where,))


def _is_staged(
    worktree: WorkTree, journal: Journal, record: Record, step: Step, found: Content | None
) -> bool:
    """Whether a hook has added to the commit what is new in the file."""
    index = journal.path(COMMITTED)
    if found is None or step.new is None or found.is_link or not index.exists():
        return False
    staged = staged_entries(worktree, [step.path], index).get(step.path)
    ours = next((planned.commit for planned in record.planned if planned.path == step.path), None)
    if staged is None or staged == ours:
        return False
    new = set(found.data.splitlines()) - set(step.new.data.splitlines())
    return bool(new) and new <= set(from_blob(worktree, step.path, staged).data.splitlines())


def _is_reformatted(found: Content | None, wrote: Content | None) -> bool:
    """Whether nothing but the layout differs, as after a formatter."""
    if found is None or wrote is None or found.is_link or wrote.is_link:
        return False
    return _LAYOUT.sub(b"", found.data) == _LAYOUT.sub(b"", wrote.data)
