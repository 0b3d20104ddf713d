"""An agreed change is written, checked and committed: all of it or nothing, and what says no is told apart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.edit.dialogue import Dialogue, Proposal
from repoagent.edit.landing.bench import Bench
from repoagent.edit.landing.check import Check, CheckResult, run_check
from repoagent.errors import Busy, CheckFailed, Refused
from repoagent.repo import CommitResult, FileChange, HookFailed, InPlace, Transaction, WorkTree
from repoagent.repo.status import read_status
from repoagent.repo.transaction.results import and_as_it_was, said_of_restored
from repoagent.store.folders import SystemFailed
from repoagent.store.secrets import without_secrets

NAMED = 3  # files in a remark
LOCK_SECONDS = 10.0  # for as long another process that commits is waited for; its hooks may take a while
LOCK_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Landed:
    """What came of it. `written` is False for a dry run, `commit` None where nothing was committed."""

    proposal: Proposal
    written: bool = False
    commit: CommitResult | None = None
    check: CheckResult | None = None

    @property
    def kind(self) -> Literal["committed", "written", "proposed"]:
        if self.commit is not None:
            return "committed"
        return "written" if self.written else "proposed"

    @property
    def changes(self) -> tuple[FileChange, ...]:
        return self.proposal.changes

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person should know of how it went."""
        return (*self.proposal.remarks, *(commit_remarks(self.commit) if self.commit else ()))


class SentBack(Exception):
    """Not landed, and the model should hear why. `kind` is what said no: "person", "check" or "hook". `sentence` says
    it to the user, and `printed` is what a check printed."""

    def __init__(self, kind: str, text: str, sentence: str | None = None, printed: str = "") -> None:
        from repoagent.llm.quoting import unfenced

        super().__init__(text)
        self.kind = kind
        self.sentence = unfenced(text) if sentence is None else sentence
        self.printed = printed

    @property
    def shown(self) -> str:
        """What the user sees of it: not what they said themselves."""
        return "" if self.kind == "person" else "\n".join(filter(None, [self.sentence, self.printed]))

    def failure(self, more: str = "") -> CheckFailed:
        """The error where no model goes on with it."""
        return CheckFailed(" ".join(filter(None, [self.sentence, more])), self.printed)


class NotNow(Refused):
    """The repository is in no state to take this edit now; the answer is good, and a later run goes on from it."""


class NoCommit(CheckFailed):
    """git itself could not make the commit, whatever the change is; a later run goes on from the answer."""


def commit(
    bench: Bench, proposal: Proposal, edit_id: str, dialogue: Dialogue, *, in_place: InPlace | None = None
) -> Landed:
    """Write the change, unless it is in the files already (`in_place`), run the check, make the commit (where the
    request wants them).

    Raises Moved when a file was saved meanwhile; SentBack for a failed check or hook; NotNow, NoCommit, Busy and
    SystemFailed for what is none of the change's fault. Whatever it raises, everything is as it was, but
    for what others have saved meanwhile.
    """
    request = bench.request
    result: CheckResult | None = None
    made: CommitResult | None = None
    transaction: Transaction | None = None
    try:
        with _begun(bench, proposal, edit_id, dialogue, in_place=in_place) as transaction:
            if request.check:
                proposal = replace(proposal, remarks=(*proposal.remarks, *_seen_by_check(bench)))
            transaction.write()
            if request.check:
                result = checked(request.check, bench.worktree, proposal, dialogue)
                if not result.passed:
                    raise check_failure(result, bench.worktree.top)
            dialogue.quiet()  # an editor, a hook or a passphrase may need the terminal
            if request.commit.no_commit:
                transaction.keep()
            else:
                try:
                    made = transaction.commit(proposal.message, at_once=not request.check)
                except HookFailed as error:
                    raise _not_committed(error, bench) from error
    except SentBack as setback:
        if transaction is None:
            raise
        if setback.kind == "check" and (left := transaction.meanwhile.left):  # not all is as the setback says
            said = str(setback).removesuffix(_ADVICE)
            raise Refused(f"{', '.join(left)} was saved by another program meanwhile; {said}") from setback
        if transaction.left:
            raise Refused(str(setback)) from setback
        raise
    return Landed(proposal, True, made, result)


def checked(check: Check, worktree: WorkTree, proposal: Proposal, dialogue: Dialogue) -> CheckResult:
    """How the check ended on the files as they now are."""
    return run_check(check, worktree, accepted=proposal.accepted, running=dialogue.running)


def _seen_by_check(bench: Bench) -> tuple[str, ...]:
    """What a check that passes does not prove of the commit: other work was around, and is not in it."""
    others = sorted(read_status(bench.worktree).changed)
    if not others:
        return ()
    names = ", ".join(others[:NAMED]) + (f" and {len(others) - NAMED} more" if len(others) > NAMED else "")
    return (f"the check saw your uncommitted work in {names} too",)


@contextmanager
def _begun(
    bench: Bench, proposal: Proposal, edit_id: str, dialogue: Dialogue, *, in_place: InPlace | None
) -> Iterator[Transaction]:
    """The transaction, begun when nobody else is at it: another edit, or the user's own commit, is soon done."""
    options = bench.request.commit
    deadline = time.monotonic() + LOCK_SECONDS
    waiting = False
    while True:
        transaction = Transaction(
            bench.worktree, proposal.changes, options, edit_id, listen=dialogue.output, in_place=in_place
        )
        with ExitStack() as stack:
            try:
                stack.enter_context(transaction)
            except Busy as error:
                if time.monotonic() > deadline:
                    raise Busy(f"{error}\n{bench.goes_on}".rstrip()) from error
                if not waiting:
                    dialogue.note("waiting for another process that commits")
                waiting = True
                time.sleep(LOCK_POLL_SECONDS)
                continue
            except SystemFailed as error:
                raise SystemFailed(f"{error}\n{bench.goes_on}".rstrip()) from error
            except Refused as error:
                raise NotNow(f"{error}\n{bench.goes_on}".rstrip()) from error
            yield transaction
            return


def _not_committed(error: HookFailed, bench: Bench) -> Exception:
    """A hook that says no is something for the model; a git that can't commit, or a person who left the message
    empty, is not."""
    if error.by_git and bench.request.commit.edit_message:  # git had the terminal: what it was stands there
        return NoCommit(f"the commit was not made{and_as_it_was(error.remarks)}. {bench.goes_on}".rstrip())
    if error.by_git:
        return NoCommit(f"{without_secrets(str(error))}\n{bench.goes_on}".rstrip())
    return SentBack("hook", without_secrets(str(error)))


def commit_remarks(commit: CommitResult) -> tuple[str, ...]:
    """What the hooks did to the commit and to the user's other files, in sentences."""
    remarks = list(commit.notes)
    if commit.folded:
        remarks.append(f"{', '.join(commit.folded)} changed while hooks ran; that version is committed")
    if commit.taken_out:
        remarks.append(f"a hook had added {', '.join(commit.taken_out)} to the commit; taken out again")
    remarks.extend(said_of_restored(commit.restored))
    return tuple(remarks)


_OUTPUT = "Its output:\n"
_ADVICE = (
    "\n\nYour edit is kept as a draft, not yet written: "
    "send only what has to change in it for the check to pass."
)


def check_failure(result: CheckResult, top: Path) -> SentBack:
    """What the model hears of a failed check: paths as it knows them, without `top`, and last what it is to do."""
    output = result.excerpt().replace(f"{top}/", "").rstrip()
    head = f"The check `{without_secrets(result.command)}` {result.how}"
    text = [f"{head} after your edit.", result.advice, f"{_OUTPUT}{output}{_ADVICE}"]
    sentence = " ".join(filter(None, [f"{head}.", result.advice]))
    return SentBack("check", " ".join(filter(None, text)), sentence, output)


def output_of(failure: str) -> str:
    """The output alone in what the model heard of a failed check; all of it where a person has edited that."""
    return failure.partition(_OUTPUT)[2].rpartition(_ADVICE)[0] or failure
