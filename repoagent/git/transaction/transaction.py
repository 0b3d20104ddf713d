"""One edit from its first write to its commit: locked, journaled, and applied completely or not at all.

with Transaction(worktree, changes, options, edit_id) as edit:
    edit.write()
    ...                                # examine the result; everything is restored if this raises
    result = edit.commit(message)      # or edit.keep()
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from repoagent.errors import Busy, NothingDone, Refused, RepoagentError
from repoagent.git import file_writer
from repoagent.git.files import Content, FileChange, read_content, same_content
from repoagent.git.index import Status, index_path, read_status
from repoagent.git.objects import Commit, head_commit, refuse_invalid_branch
from repoagent.git.process import defer_signals
from repoagent.git.transaction import commit, finish, hook_changes, journal, other_files, results
from repoagent.git.transaction.journal import COMMITTING, LOCKED, WRITING, EditJournal, JournalRecord
from repoagent.git.transaction.plan import CommitPlan, make_plan, refuse_operation, refuse_unmerged
from repoagent.git.worktree import WorkTree, current_branch
from repoagent.storage.layout import to_stderr

_Self = TypeVar("_Self", bound="BaseTransaction")
_GIT_FAILED = 128  # git's exit code for a fatal error; it is 1 if a hook refuses


def new_edit_id() -> str:
    return secrets.token_hex(6)


class BaseTransaction(ABC):
    """A change to files as a context manager; leaving it early restores everything.

    What other programs have changed in the meantime is kept. `Transaction` ends with a commit, `MoveTransaction` moves
    HEAD to an existing one. If `commits` is false, only files are written and no lock is taken. `in_place` means that
    the files already have the change.
    """

    def __init__(
        self,
        worktree: WorkTree,
        changes: Sequence[FileChange],
        event: str,
        edit_id: str,
        *,
        commits: bool = True,
        in_place: results.InPlace | None = None,
        moves_to: str | None = None,
    ) -> None:
        self.id = edit_id
        self.plan = CommitPlan()
        self.other_changes = results.OtherChanges()
        self._kept_folder = Path()  # the folder with the bytes that `other_changes` mentions
        self._worktree = worktree
        self._changes = tuple(changes)
        self._journal: EditJournal | None = None  # until the end
        self._status: Status | None = None  # the user's other work, as last read
        self._in_place = in_place
        # moving HEAD would disturb a merge or rebase in progress; changing only the index does not
        self._changes_head = True
        self._is_edit = event == "edit"  # an undo or redo has no option --no-commit
        self._first = JournalRecord(
            edit_id, event, LOCKED, commits, moves_to=moves_to, in_place=in_place is not None
        )

    def __enter__(self: _Self) -> _Self:
        """Raises Refused or Busy, with nothing changed, if the commit cannot be planned."""
        worktree = self._worktree
        if self._first.commits:
            if self._changes_head:
                refuse_operation(worktree, offer=self._is_edit)
            index_path(worktree)
        if self._is_edit and finish.edit_folder(worktree, self.id).exists():
            raise Refused(f"edit {self.id} already exists: use another id")
        self._journal = opened = journal.create(worktree, self._first)
        try:
            if self._first.commits:
                opened.lock_index()
                self._status = status = read_status(worktree)
                if self._changes_head:
                    refuse_unmerged(status, offer=self._is_edit)
                self.plan = self._make_plan(status)
                opened.change(head=status.head, branch=status.branch, planned=self.plan.paths)
        except BaseException:
            with defer_signals():
                self._end()
            raise
        return self

    def write(self) -> None:
        """Write the files. Raises FilesChanged, with nothing written, if one has changed since the change was made."""
        top, in_place = self._worktree.top, self._in_place
        steps = file_writer.steps_of(self._changes, self.id, None if in_place is None else in_place.current)
        file_writer.refuse_moved(top, steps)
        if in_place is None:
            steps = file_writer.with_permissions(top, steps, self._changes)
        self._open.store_contents(steps)
        self._open.store(state=WRITING, steps=steps, folders=file_writer.new_folders(top, steps))
        for number, step in enumerate(steps if in_place is None else ()):
            try:
                file_writer.write_file(
                    top, step.path, step.old, step.new, step.temporary, permissions=step.permissions
                )
            except file_writer.FilesChanged:
                self._open.change(steps=steps[:number])  # the rest was not written
                raise

    def keep(self) -> None:
        """Keep the written files without a commit."""
        with defer_signals():
            if self._open.record.commits:
                self._open.unlock_index()
            finish.archive_edit(self._open, commits=False)
            self._close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._journal is not None:
            with defer_signals():
                if kind is not None and not issubclass(kind, Exception):
                    self._journal.remove_stale_ref_locks()  # a signal may have ended git as it created one
                self._end()
            for sentence in self.other_changes.remarks(self._kept_folder):
                to_stderr(sentence)

    @property
    def left(self) -> tuple[str, ...]:
        """The files that still contain the edit, because another program has changed its lines since."""
        return self.other_changes.conflicts

    @abstractmethod
    def _make_plan(self, status: Status) -> CommitPlan:
        pass

    def _find_commit(self) -> Commit | None:
        return None

    @property
    def _open(self) -> EditJournal:
        if self._journal is None:
            raise RuntimeError("the transaction has ended")
        return self._journal

    def _refuse_moved(self, head: str | None, branch: str | None) -> None:
        record = self._open.record
        if (head, branch) != (record.head, record.new_branch or record.branch):
            raise Busy("another program moved HEAD during the edit: run the edit again")

    def _end(self, made: Commit | None = None) -> None:
        """Complete the transaction with the commit, by default that in HEAD, or roll back. Raises
        UnfinishedTransaction."""
        try:
            self._finish(made or self._find_commit())
        except (RepoagentError, OSError):
            try:  # once more: git may have been killed
                self._finish(self._find_commit())
            except (RepoagentError, OSError) as error:
                event = self._open.record.event
                self._close()
                raise results.UnfinishedTransaction(event, self.id, error) from error
        self._close()

    def _finish(self, made: Commit | None) -> None:
        """Roll back; a subclass completes the transaction if the commit was `made`."""
        if not finish.end_if_archived(self._open):
            self._kept_folder = finish.folder_after(self._open, done=False)
            self.other_changes += finish.roll_back(self._open)

    def _close(self) -> None:
        self._open.close()
        self._journal = None


class Transaction(BaseTransaction):
    """A change that becomes one commit; see the module's docstring for its use.

    `plan` is what would be committed, `result` what was committed. With `in_place`, the files keep the change even
    without a commit.
    """

    def __init__(
        self,
        worktree: WorkTree,
        changes: Sequence[FileChange],
        options: results.Options | None = None,
        edit_id: str | None = None,
        *,
        event: str = "edit",
        listen: commit.OnOutput | None = None,
        in_place: results.InPlace | None = None,
    ) -> None:
        self.options = options or results.Options()
        commits = not self.options.no_commit
        super().__init__(
            worktree, changes, event, edit_id or new_edit_id(), commits=commits, in_place=in_place
        )
        self.result: results.CommitResult | None = None
        self._listen = listen
        self._written: dict[str, Content | None] = {}  # the content of the files when hooks start
        self._withdrawn = ""

    def commit(self, message: str | bytes, *, at_once: bool = False) -> results.CommitResult:
        """Make the commit, with the user's hooks, signature and identity.

        `at_once` promises that nothing has run since the transaction was entered, so the status is not read again.
        Raises HookFailed, with everything restored, if git or a hook refuses, and Busy if another program moved HEAD.
        """
        text = commit.encode_message(self._worktree, message)
        if self._status is None or not at_once:
            self._status = self._read_status()
        else:
            self._refuse_moved(head_commit(self._worktree), current_branch(self._worktree))
        before = self._open.record.steps
        made, code, output = self._attempt(self._status, text)
        if made is None:
            status = self._fold()
            if status is not None:
                made, code, more = self._attempt(status, text)
                output += more
        rewritten = [new.path for new, old in zip(self._open.record.steps, before, strict=True) if new != old]
        with defer_signals():
            self._end(made)
            if self.result is None:
                by_git = code == _GIT_FAILED or code < 0 or self.options.edit_message or bool(self._withdrawn)
                output = output.rstrip() + self._withdrawn.encode()
                remarks = self.other_changes.remarks(self._kept_folder)
                raise results.HookFailed(output, by_git=by_git, remarks=remarks)
        notes = results.merged(self.other_changes.notes(self._kept_folder), self.result.notes)
        by_hook = ("git failed, but the commit exists: a hook made it",) if code > 0 else ()
        self.result = replace(
            self.result,
            folded=results.merged(rewritten, self.result.folded),
            restored=results.merged(self.other_changes.restored, self.result.restored),
            notes=(*self.plan.notes, *notes, *by_hook),
            output=output,
        )
        return self.result

    def _make_plan(self, status: Status) -> CommitPlan:
        if self.options.branch is not None:
            refuse_invalid_branch(self._worktree, self.options.branch)
        return make_plan(
            self._worktree,
            self._changes,
            status,
            include_dirty=self.options.include_dirty,
            offer=self._is_edit,
            in_place=self._in_place,
        )

    def _find_commit(self) -> Commit | None:
        """The commit of this transaction if HEAD contains it."""
        return commit.find_commit(self._open) if self._open.record.state == COMMITTING else None

    def _read_status(self) -> Status:
        """Raises Busy if HEAD was moved since the transaction began."""
        status = read_status(self._worktree)
        self._refuse_moved(status.head, status.branch)
        return status

    def _attempt(self, status: Status, message: bytes) -> tuple[Commit | None, int, bytes]:
        """Run `git commit`; return the commit, if any, the exit code, and the output."""
        opened = self._open
        self._written = {
            step.path: read_content(self._worktree.top, step.path) for step in opened.record.steps
        }
        commit.prepare_commit(opened, status, message, self.options)
        code, output = commit.run_commit(opened, self.options, self._listen)
        self.other_changes += other_files.restore_mixed_files(opened, self._written)
        if code < 0:
            output += f"git was killed by signal {-code}\n".encode()
            opened.remove_stale_ref_locks()
        if code != 0:
            return self._find_commit(), code, output
        made = commit.verified_commit(opened)
        if made is None:
            return None, 1, output + b"A hook removed the change from the commit.\n"
        return made, code, output

    def _fold(self) -> Status | None:
        """After a failed commit: if a hook rewrote files of the edit, as formatters do, plan again with its version;
        return the new status, or None. A file may have a save by the user, so each step records what it `wrote`."""
        worktree, opened = self._worktree, self._open
        if not other_files.has_hooks(worktree):
            return None
        steps = []
        for step in opened.record.steps:
            now = read_content(worktree.top, step.path)
            is_ours = same_content(self._written[step.path], step.new)  # not a save by another program
            if step.new is not None and is_ours and not same_content(now, step.new):
                wrote = step.wrote or step.new
                if opened.record.in_place:
                    step = hook_changes.step_after_hook(worktree, step, now, step.new, now)
                step = replace(step, new=now, wrote=wrote)
            steps.append(step)
        is_rewritten = opened.record.steps != tuple(steps)
        opened.store_contents(steps)
        opened.store(steps=tuple(steps))
        if not is_rewritten:
            return None
        self.other_changes += other_files.restore_other_files(opened)
        contents = {step.path: step.done or step.new for step in steps}
        changes = []
        for change in self._changes:
            content = contents.get(change.path) if change.path is not None else None
            changes.append(change if content is None else change.with_data(change.before, content.data))
        in_place = self._in_place
        if in_place is not None:
            current = {step.path: step.new for step in steps if not same_content(step.new, step.done)}
            in_place = replace(in_place, current=current)
        self._status = status = self._read_status()
        try:
            plan = make_plan(
                worktree, changes, status, include_dirty=self.options.include_dirty, in_place=in_place
            )
        except (Refused, NothingDone):
            return None
        opened.change(planned=plan.paths)
        return status

    def _finish(self, made: Commit | None) -> None:
        if made is None:
            super()._finish(None)
            return
        self._kept_folder = finish.folder_after(self._open, done=True)
        try:
            self.result = finish.complete_transaction(self._open, made, key=self.options.sign)
        except hook_changes.CommitWithdrawn as error:
            self._withdrawn = f"\n{error}"
            super()._finish(None)
