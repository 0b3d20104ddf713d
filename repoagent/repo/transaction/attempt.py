"""One try at the commit: what must be known of it before, and the index that git is given."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from repoagent.repo.branches import switch_to_new
from repoagent.repo.content import Content, look, same
from repoagent.repo.index import put_entries, reset_to
from repoagent.repo.options import Options
from repoagent.repo.status import Status
from repoagent.repo.transaction.in_place import rewritten
from repoagent.repo.transaction.journaled import keep_saved, keep_steps, save
from repoagent.repo.transaction.message import fixup_message
from repoagent.repo.transaction.other_files import remember
from repoagent.repo.transaction.other_lines import put_back
from repoagent.repo.transaction.record import COMMITTING, Record
from repoagent.repo.transaction.results import Meanwhile
from repoagent.repo.transaction.user_index import COMMITTED, begin_index
from repoagent.repo.transaction.waiting import keep_waiting
from repoagent.repo.worktree import WorkTree
from repoagent.repo.write.steps import Step
from repoagent.store.journal import Journal

MESSAGE = "message"  # in the folder of the journal
Written = dict[str, Content | None]  # what the files of the edit hold when hooks begin


def committing(
    worktree: WorkTree, record: Record, status: Status, new_branch: str | None, message: bytes
) -> Record:
    """The record of a transaction whose hooks are about to run: with the user's other work, as `status` has it."""
    own = {planned.path for planned in record.planned}
    others = tuple(path for path in status.changed if path not in own)
    files = [path for path in others if not status.changed[path].submodule]
    return replace(
        record,
        state=COMMITTING,
        uncommitted=others,
        saved=remember(worktree.top, record.id, files),
        started=time.time_ns(),
        new_branch=new_branch,
        message=os.fsdecode(message),
    )


def keep(worktree: WorkTree, journal: Journal, record: Record) -> None:
    """Write down, durably, what hooks could lose."""
    keep_saved(journal, record)
    save(journal, record)
    keep_waiting(worktree, journal)


def prepare(
    worktree: WorkTree, journal: Journal, record: Record, options: Options, *, reset: bool, switch: bool
) -> None:
    """Put the message, and HEAD with the change as an index, into the journal's folder for git.

    `reset` says that the user has something staged, `switch` that the new branch of `options` is to be made.
    """
    text = os.fsencode(record.message or "")
    if options.fixup is not None:
        text = fixup_message(worktree, options.fixup, text)
    journal.path(MESSAGE).write_bytes(text)
    index = journal.path(COMMITTED)
    begin_index(worktree, index)
    if reset:
        reset_to(worktree, index, record.head)
    bits = {planned.path: planned.bits for planned in record.planned if planned.bits}
    put_entries(worktree, index, {planned.path: planned.commit for planned in record.planned}, bits)
    if switch and options.branch is not None:
        switch_to_new(worktree, options.branch, index, record.branch or record.head or "", record.id)


def put_back_lost(worktree: WorkTree, journal: Journal, record: Record, written: Written) -> Meanwhile:
    """Put the user's work back that hooks have lost in the files of the edit.

    A file that was not as we had `written` it when hooks began, because somebody else has saved it, is left alone.
    """
    ours = tuple(step for step in record.steps if _is_ours(step, written))
    return put_back(worktree, journal, replace(record, steps=ours))


def taken_over(worktree: WorkTree, journal: Journal, record: Record, written: Written) -> Record:
    """The record, which is saved, with what is in our files after hooks: it is committed in the next try. It may be a
    save of the user's, so each step says what it `wrote` itself."""
    steps = []
    for step in record.steps:
        now = look(worktree.top, step.path)
        if step.new is not None and _is_ours(step, written) and not same(now, step.new):
            wrote = step.wrote or step.new
            step = rewritten(worktree, step, now) if record.in_place else replace(step, new=now)
            step = replace(step, wrote=wrote)
        steps.append(step)
    record = replace(record, steps=tuple(steps))
    keep_steps(journal, record)
    save(journal, record)
    return record


def _is_ours(step: Step, written: Written) -> bool:
    """Whether the file was as the step has written it when hooks began."""
    return step.path in written and same(written[step.path], step.new)
