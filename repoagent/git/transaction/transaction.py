"""One edit from its first byte to its commit: locked, journaled, and either all there or not at all.

with Transaction(worktree, changes, options, edit_id) as edit:
    edit.write()
    ...                                # look at the result; everything is put back if this raises
    result = edit.commit(message)      # or edit.keep()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from repoagent.errors import NothingDone, Refused
from repoagent.git.facts import current_branch
from repoagent.git.file_writer import with_after
from repoagent.git.files import FileChange, look
from repoagent.git.index import Status
from repoagent.git.objects import Commit, head_commit, refuse_invalid_branch
from repoagent.git.process import GitError, uninterrupted
from repoagent.git.transaction import commit
from repoagent.git.transaction.base import BaseTransaction, new_edit_id
from repoagent.git.transaction.commit import (
    OnOutput,
    collect_garbage,
    encode,
    find_commit,
    run_commit,
    verified_commit,
)
from repoagent.git.transaction.finish import complete, folder_after
from repoagent.git.transaction.hooks import CommitWithdrawn
from repoagent.git.transaction.journal import COMMITTING
from repoagent.git.transaction.locks import remove_stale_ref_locks
from repoagent.git.transaction.other_files import COMMITTED, has_hooks, restore_other_files
from repoagent.git.transaction.plan import Plan, make_plan
from repoagent.git.transaction.results import CommitResult, HookFailed, InPlace, Options
from repoagent.git.worktree import WorkTree
from repoagent.storage.journal import Journal

_GIT_FAILED = 128  # the exit code of a git that can't go on; after a hook's no it is 1
_REMOVED_BY_HOOK = b"A hook removed the change from the commit.\n"
_MADE_BY_HOOK = "git failed, but the commit exists: a hook made it"


class Transaction(BaseTransaction):
    """A change of files that becomes one commit. Use it as a context manager, see the module.

    Entering it takes git's index lock and plans the commit; leaving it without `commit` or `keep` puts
    everything back. Where others have worked on files `meanwhile`, that stays, and is said. `plan` says what
    would be committed, `result` what was. With `in_place` the files hold the change already, and keep it when it comes
    to nothing.
    """

    def __init__(
        self,
        worktree: WorkTree,
        changes: Sequence[FileChange],
        options: Options | None = None,
        edit_id: str | None = None,
        *,
        event: str = "edit",
        listen: OnOutput | None = None,
        in_place: InPlace | None = None,
    ) -> None:
        self.options = options or Options()
        super().__init__(
            worktree, changes, event, edit_id or new_edit_id(),
            commits=not self.options.no_commit, in_place=in_place,
        )  # fmt: skip
        self.result: CommitResult | None = None
        self._listen = listen
        self._written: commit.WrittenFiles = {}
        self._withdrawn = ""

    def commit(self, message: str | bytes, *, at_once: bool = False) -> CommitResult:
        """Make the commit, with the user's hooks, signature and identity.

        A str is encoded as the repository wants its messages. `at_once` says that nothing ran and nobody was asked
        since the transaction was entered: then the user's other work is not looked for again. Raises HookFailed,
        everything as it was, when git or a hook says no, and Busy when HEAD was moved meanwhile.
        """
        journal, text = self._open(), encode(self._worktree, message)
        if self._status is None or not at_once:
            self._status = self._look_again()
        else:
            self._refuse_moved(head_commit(self._worktree), current_branch(self._worktree))
        before = self._record.steps
        made, code, output = self._attempt(journal, self._status, text)
        if made is None:
            status = self._fold(journal)
            if status is not None:
                made, code, again = self._attempt(journal, status, text)
                output += again
        rewritten = [now.path for now, was in zip(self._record.steps, before, strict=True) if now != was]
        with uninterrupted():
            self._end(made)
            if self.result is None:
                by_git = code == _GIT_FAILED or code < 0 or self.options.edit_message or bool(self._withdrawn)
                output = output.rstrip() + self._withdrawn.encode()
                raise HookFailed(output, by_git=by_git, remarks=self.other_changes.remarks(self._home))
        collect_garbage(self._worktree)
        self.result = replace(
            self.result,
            folded=_merged(rewritten, self.result.folded),
            restored=_merged(self.other_changes.restored, self.result.restored),
            notes=(
                *self.plan.notes,
                *_merged(self.other_changes.notes(self._home), self.result.notes),
                *((_MADE_BY_HOOK,) if code > 0 else ()),
            ),
            output=output,
        )
        return self.result

    def _make_plan(self, status: Status) -> Plan:
        if self.options.branch is not None:
            refuse_invalid_branch(self._worktree, self.options.branch)
        dirty = self.options.include_dirty
        return make_plan(
            self._worktree, self._changes, status,
            include_dirty=dirty, offer=self._is_edit, in_place=self._in_place,
        )  # fmt: skip

    def _attempt(self, journal: Journal, status: Status, message: bytes) -> tuple[Commit | None, int, bytes]:
        """Run `git commit`: the commit, if there is one, the exit code, and what was printed."""
        worktree, branch = self._worktree, self.options.branch
        first = self._record.new_branch is None
        self._written = {step.path: look(worktree.top, step.path) for step in self._record.steps}
        self._record = commit.record_before_hooks(worktree, self._record, status, branch, message)
        commit.save_before_hooks(worktree, journal, self._record)
        try:
            commit.prepare(
                worktree, journal, self._record, self.options, reset=status.has_staged, switch=first
            )
        except GitError as error:
            if error.returncode < 0:
                remove_stale_ref_locks(worktree, self._record)
            elif first and current_branch(worktree) != branch:  # one of this name, if there is, is not ours
                self._record = replace(self._record, new_branch=None)
            raise
        code, output = run_commit(
            worktree,
            journal.path(COMMITTED),
            journal.path(commit.MESSAGE),
            self.options,
            listen=self._listen,
            inherit=journal.descriptor,
        )
        self.other_changes += commit.restore_own_files(worktree, journal, self._record, self._written)
        if code < 0:
            output += f"git was killed by signal {-code}\n".encode()
            remove_stale_ref_locks(worktree, self._record)
        if code != 0:
            return self._find_commit(), code, output
        made = verified_commit(worktree, self._record)
        return (made, code, output) if made is not None else (None, 1, output + _REMOVED_BY_HOOK)

    def _find_commit(self) -> Commit | None:
        """The commit of this transaction, if HEAD has it: HEAD decides, not an exit code."""
        return find_commit(self._worktree, self._record) if self._record.state == COMMITTING else None

    def _fold(self, journal: Journal) -> Status | None:
        """After a failed commit: if a hook rewrote files of the edit, as formatters do, plan again with what
        it made of them. The work tree as it is then; None where there is nothing new to commit."""
        before = self._record.steps
        if not has_hooks(self._worktree):
            return None
        self._record = commit.adopt_hook_changes(self._worktree, journal, self._record, self._written)
        if self._record.steps == before:
            return None
        self.other_changes += restore_other_files(self._worktree, journal, self._record)
        changes = [with_after(change, self._record.steps) for change in self._changes]
        in_place = None if self._in_place is None else self._in_place.as_found(self._record.steps)
        self._status = status = self._look_again()
        try:
            plan = make_plan(
                self._worktree, changes, status,
                include_dirty=self.options.include_dirty, in_place=in_place,
            )  # fmt: skip
        except (Refused, NothingDone):
            return None
        self._record = replace(self._record, planned=plan.paths)
        return status

    def _finish(self, journal: Journal, made: Commit | None) -> None:
        if made is not None:
            self._home = folder_after(self._worktree, journal, self._record, done=True)
            nothing_staged = self._status is not None and not self._status.has_staged
            try:
                self.result = complete(
                    self._worktree,
                    journal,
                    self._record,
                    made,
                    key=self.options.sign,
                    nothing_staged=nothing_staged,
                )
                return
            except CommitWithdrawn as error:
                self._withdrawn = f"\n{error}"
        super()._finish(journal, None)


def _merged(some: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*some, *more]))
