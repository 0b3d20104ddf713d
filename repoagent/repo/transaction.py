"""One edit from its first byte to its commit: locked, journaled, and either all there or not at all.

with Transaction(worktree, changes, options, edit_id) as edit:
    edit.write()
    ...                                # look at the result; everything is put back if this raises
    result = edit.commit(message)      # or edit.keep()
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TypeVar

from repoagent.errors import Busy, CheckFailed, NothingDone, Refused, RepoagentError
from repoagent.repo import lock
from repoagent.repo.branches import check_new, switch_to_new
from repoagent.repo.change import FileChange
from repoagent.repo.commit import (
    Listen,
    Made,
    Options,
    encode,
    head,
    read_commit,
    run_commit,
    tidy,
    withdraw,
)
from repoagent.repo.content import Content, look, same
from repoagent.repo.found import find_made, is_ours
from repoagent.repo.index import Status, index_path, put_entries, read_status, reset_to
from repoagent.repo.others import put_right, remember
from repoagent.repo.own import put_back
from repoagent.repo.plan import Plan, make_plan, refuse_operation, refuse_unmerged
from repoagent.repo.record import COMMITTING, LOCKED, WRITING, Record, keep_saved, keep_steps
from repoagent.repo.run import uninterrupted
from repoagent.repo.settle import (
    TEMPORARY,
    CommitResult,
    Unsettled,
    archive,
    begin_index,
    edit_folder,
    roll_back,
    settle,
)
from repoagent.repo.steps import new_folders, refuse_moved, steps_of, take, with_after, with_permissions
from repoagent.repo.waiting import keep_waiting
from repoagent.repo.worktree import WorkTree, layout
from repoagent.repo.write import Moved
from repoagent.store.journal import Journal, create

_MESSAGE = "message"
_DIED = 128  # the exit code of a git that can't go on; after a hook's no it is 1
_TAKEN_AWAY = b"A hook took the change out of the commit again.\n"
_BY_A_HOOK = "git ended with an error, but the commit is there: a hook has made it"
_Self = TypeVar("_Self", bound="Transaction")


class HookFailed(CheckFailed):
    """git or one of its hooks would not make the commit; `output` is what they printed. All is as it was.

    `by_git` says that it was git itself (no identity, no signature) or the person at the editor, which no
    other edit would change.
    """

    def __init__(self, output: bytes, *, by_git: bool = False, left: Sequence[str] = ()) -> None:
        self.output = output
        self.by_git = by_git
        said = output.decode(errors="replace").strip()
        but = f" but {', '.join(left)}, which somebody has changed meanwhile," if left else ""
        super().__init__(f"git commit failed, and everything{but} is as it was:\n{said}")


def new_edit_id() -> str:
    """A name for an edit: it stands in the commit as `Repoagent-Edit`."""
    return secrets.token_hex(6)


class Transaction:
    """A change of files that becomes one commit. Use it as a context manager, see the module.

    Entering it takes git's index lock and plans the commit; leaving it without `commit` or `keep` puts
    everything back, except the files `left`, which somebody else has changed meanwhile. `plan` says what
    would be committed, `result` what was.
    """

    def __init__(
        self,
        worktree: WorkTree,
        changes: Sequence[FileChange],
        options: Options | None = None,
        edit_id: str | None = None,
        *,
        event: str = "edit",
        listen: Listen | None = None,
    ) -> None:
        self.id = edit_id or new_edit_id()
        self.options = options or Options()
        self.plan = Plan(None, None)
        self.result: CommitResult | None = None
        self.left: tuple[str, ...] = ()
        self._worktree = worktree
        self._changes = tuple(changes)
        self._listen = listen
        self._journal: Journal | None = None
        self._written: dict[str, Content | None] = {}
        self._restored: tuple[str, ...] = ()
        self._record = Record(
            self.id, event, LOCKED, commits=not self.options.no_commit, steps=steps_of(changes, self.id)
        )

    def __enter__(self: _Self) -> _Self:
        """Raises Refused or Busy, nothing touched, when the commit can't be planned."""
        record = replace(self._record, steps=())
        if record.commits:
            refuse_operation(self._worktree, offer=record.event == "edit")
            index_path(self._worktree)
        if record.event == "edit" and edit_folder(self._worktree, self.id).exists():
            raise Refused(f"there is an edit {self.id} already: give this one another name")
        files = {lock.MARK: lock.mark(self.id)}
        name = f"{self.id}-{record.event}"
        self._journal = create(layout(self._worktree).journal, name, record.to_dict(), files)
        try:
            if record.commits:
                self._lock_and_plan(self._journal)
        except BaseException:
            with uninterrupted():
                self._record = record
                self._end()
            raise
        return self

    def _lock_and_plan(self, journal: Journal) -> None:
        lock.take(self._worktree, journal)
        status = read_status(self._worktree)
        refuse_unmerged(status, offer=self._record.event == "edit")
        self.plan = self._make_plan(status, self._changes)
        self._record = replace(self._record, head=status.head, branch=status.branch, planned=self.plan.paths)

    def _make_plan(self, status: Status, changes: Sequence[FileChange]) -> Plan:
        if self.options.branch is not None:
            check_new(self._worktree, self.options.branch)
        dirty, offer = self.options.include_dirty, self._record.event == "edit"
        return make_plan(self._worktree, changes, status, include_dirty=dirty, offer=offer)

    def write(self) -> None:
        """Write the files.

        Raises Moved, nothing written, when one of them is not what the change was made for.
        """
        journal, top = self._open(), self._worktree.top
        refuse_moved(top, self._record.steps)
        steps = with_permissions(top, self._record.steps, self._changes)
        self._record = replace(self._record, state=WRITING, steps=steps, folders=new_folders(top, steps))
        keep_steps(journal, self._record)
        journal.save(self._record.to_dict())
        for number, step in enumerate(steps):
            try:
                take(top, step)
            except Moved:
                self._record = replace(self._record, steps=steps[:number])  # the rest is not ours
                raise

    def commit(self, message: str | bytes) -> CommitResult:
        """Make the commit, with the user's hooks, signature and identity.

        A str is encoded as the repository wants its messages. Raises HookFailed, everything as it was, when
        git or a hook says no.
        """
        journal, text = self._open(), encode(self._worktree, message)
        self._prepare(journal, text)
        made, code, output = self._run(journal)
        before, rewritten = self._record.steps, list[str]()
        if made is None and self._fold(journal):
            rewritten = [now.path for now, was in zip(self._record.steps, before, strict=True) if now != was]
            self._prepare(journal, text)
            made, code, again = self._run(journal)
            output += again
        with uninterrupted():
            if made is None:
                self._end()
                by_git = code == _DIED or code < 0 or self.options.edit_message
                raise HookFailed(output, by_git=by_git, left=self.left)
            self._end(made)
        tidy(self._worktree)
        if self.result is None:
            raise AssertionError("a commit without a result")
        folded = tuple(dict.fromkeys([*rewritten, *self.result.folded]))
        restored = tuple(dict.fromkeys([*self._restored, *self.result.restored]))
        notes = (*self.plan.notes, *self.result.notes, *((_BY_A_HOOK,) if code > 0 else ()))
        self.result = replace(self.result, folded=folded, restored=restored, notes=notes, output=output)
        return self.result

    def keep(self) -> None:
        """Leave the files as they were written, without a commit."""
        journal = self._open()
        with uninterrupted():
            if self._record.commits:
                lock.release(self._worktree, journal)
            archive(self._worktree, journal, replace(self._record, commits=False))
            self._close(journal)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._journal is not None:
            with uninterrupted():
                self._end(self._find_commit())

    def _open(self) -> Journal:
        if self._journal is None:
            raise RuntimeError("the transaction has ended")
        return self._journal

    def _status_as_planned(self) -> Status:
        record, status = self._record, read_status(self._worktree)
        if (status.head, status.branch) != (record.head, record.new_branch or record.branch):
            raise Busy("HEAD was moved by another program while the edit was made: run the edit again")
        return status

    def _prepare(self, journal: Journal, message: bytes) -> None:
        """All but the commit: the user's other files go into the journal, HEAD and the change into an
        index."""
        worktree, record, status = self._worktree, self._record, self._status_as_planned()
        own = {planned.path for planned in record.planned}
        others = tuple(path for path in status.changed if path not in own)
        files = [path for path in others if not status.changed[path].submodule]
        self._written = {step.path: look(worktree.top, step.path) for step in record.steps}
        self._record = replace(
            record,
            state=COMMITTING,
            uncommitted=others,
            saved=remember(worktree.top, self.id, files),
            started=time.time_ns(),
            new_branch=self.options.branch,
            message=os.fsdecode(message),
        )
        keep_saved(journal, self._record)
        journal.save(self._record.to_dict())
        journal.path(_MESSAGE).write_bytes(message)
        keep_waiting(worktree, journal)
        index = journal.path(TEMPORARY)
        begin_index(worktree, index)
        if status.has_staged:
            reset_to(worktree, index, record.head)
        bits = {planned.path: planned.bits for planned in record.planned if planned.bits}
        put_entries(worktree, index, {planned.path: planned.commit for planned in record.planned}, bits)
        if self.options.branch is not None and record.new_branch is None:
            switch_to_new(worktree, self.options.branch, index)

    def _run(self, journal: Journal) -> tuple[Made | None, int, bytes]:
        """Run `git commit`: the commit, if there is one, the exit code, and what was printed."""
        code, output = run_commit(
            self._worktree,
            journal.path(TEMPORARY),
            journal.path(_MESSAGE),
            self.options,
            listen=self._listen,
            inherit=journal.descriptor,
        )
        self._put_back(journal)
        if code < 0:
            output += f"git was ended by signal {-code}\n".encode()
            lock.remove_left(self._worktree, self._record)
        if code != 0:
            return self._find_commit(), code, output
        made = find_made(self._worktree, self._record, surely=True)
        if made is None:
            made = read_commit(self._worktree)
            if is_ours(self._worktree, self._record, made):
                withdraw(self._worktree, made)
            raise Busy("HEAD was moved by another program while the edit was committed: run the edit again")
        changed = any(planned.path in made.changed for planned in self._record.planned)
        if not changed and head(self._worktree) == made.commit:
            withdraw(self._worktree, made)
            return None, 1, output + _TAKEN_AWAY
        return made, code, output

    def _put_back(self, journal: Journal) -> None:
        """Put the user's work back that hooks have lost in our own files; a file that was saved by somebody else
        before them is left alone."""
        ours = tuple(step for step in self._record.steps if same(self._written[step.path], step.new))
        found = put_back(self._worktree, journal, replace(self._record, steps=ours))
        self._restored = tuple(dict.fromkeys([*self._restored, *found]))

    def _find_commit(self) -> Made | None:
        """The commit of this transaction, if HEAD has it: HEAD decides, not an exit code."""
        return find_made(self._worktree, self._record) if self._record.state == COMMITTING else None

    def _fold(self, journal: Journal) -> bool:
        """After a failed commit: if a hook rewrote files of the edit, as formatters do, plan again with what
        it made of them. Whether there is something new to commit."""
        put_right(self._worktree.top, journal, self._record.saved)
        if not self._take_over(journal):
            return False
        changes = [with_after(change, self._record.steps) for change in self._changes]
        try:
            status = read_status(self._worktree)
            plan = make_plan(self._worktree, changes, status, include_dirty=self.options.include_dirty)
        except (Refused, NothingDone):
            return False
        self._record = replace(self._record, planned=plan.paths)
        return True

    def _take_over(self, journal: Journal) -> bool:
        """What hooks made of our bytes counts as ours from here, and can be taken back; whether there is any.
        A copy is kept: it might be somebody's save after all."""
        steps = []
        for number, step in enumerate(self._record.steps):
            now = look(self._worktree.top, step.path)
            ours = step.path in self._written and same(self._written[step.path], step.new)
            if ours and not same(now, step.new):
                step = replace(step, new=now)
                if now is not None:
                    journal.keep(f"found-new-{number}", now.data)
            steps.append(step)
        changed = tuple(steps) != self._record.steps
        self._record = replace(self._record, steps=tuple(steps))
        keep_steps(journal, self._record)
        journal.save(self._record.to_dict())
        return changed

    def _end(self, made: Made | None = None) -> None:
        """Complete it with the commit, or take it back. Raises Unsettled where that can't be done now."""
        journal = self._open()
        try:
            self._finish(journal, made)
        except (RepoagentError, OSError):
            try:  # once more: what failed may have been a git that was killed
                self._finish(journal, self._find_commit())
            except (RepoagentError, OSError) as error:
                self._close(journal)
                raise Unsettled(self._why_unsettled(error)) from error
        self._close(journal)

    def _finish(self, journal: Journal, made: Made | None) -> None:
        if made is not None:
            self.result = settle(self._worktree, journal, self._record, made, key=self.options.sign)
            return
        if self._record.state == LOCKED:
            self._record = replace(self._record, steps=())
        if self._record.state == COMMITTING:
            self._take_over(journal)
        self.left = tuple(roll_back(self._worktree, journal, self._record))

    def _why_unsettled(self, error: Exception) -> str:
        return (
            f"the {self._record.event} {self.id} could not be brought to its end ({error}): put that right, and "
            "the next repoagent command completes it or takes it back; until then git may say that it is locked"
        )

    def _close(self, journal: Journal) -> None:
        journal.close()
        self._journal = None
