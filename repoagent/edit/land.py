"""From a finished draft to the commit: look again at the disk, ask, write, check, commit. Or nothing at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from repoagent.edit.check import CheckResult, run_check
from repoagent.edit.dialogue import Decision, Dialogue, Proposal
from repoagent.edit.draft import Draft
from repoagent.edit.request import EditRequest
from repoagent.edit.tools import Workbench
from repoagent.errors import Busy, CheckFailed, LimitReached, ModelError, NothingDone, Refused
from repoagent.patch import PatchRefused, SourceText, apply_answer, canonical_diff
from repoagent.repo import CommitResult, FileChange, HookFailed, Moved, Options, Source, Transaction, read_source
from repoagent.repo.change import REGULAR
from repoagent.repo.index import read_status
from repoagent.store.atomic import write_whole

RELOCATIONS = 3  # someone who saves more often than this between a yes and the write is still at work
NAMED = 3  # files in a remark
LOCK_SECONDS = 10.0  # for as long another process that commits is waited for; its hooks may take a while
LOCK_POLL_SECONDS = 0.1
GOES_ON = "The model's answer is kept: the same command goes on from it, and nothing is asked twice."


@dataclass(frozen=True)
class Landed:
    """What came of it. `written` is False for a dry run, `commit` None where nothing was committed."""

    proposal: Proposal
    written: bool = False
    commit: CommitResult | None = None
    check: CheckResult | None = None

    @property
    def changes(self) -> tuple[FileChange, ...]:
        return self.proposal.changes

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person should know of how it went."""
        return (*self.proposal.remarks, *(commit_remarks(self.commit) if self.commit else ()))


class SentBack(Exception):
    """Not landed, and the model should hear why. `kind` is what said no: "person", "check" or "hook"."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class NotNow(Refused):
    """The repository is in no state to take this edit now; the answer is good, and a later run goes on from it."""


class NoCommit(CheckFailed):
    """git itself could not make the commit, whatever the change is; a later run goes on from the answer."""


def land(
    bench: Workbench,
    edit_id: str,
    message: Callable[[tuple[FileChange, ...]], str],
    dialogue: Dialogue,
    explain: Callable[[], str],
) -> Landed:
    """Take the draft through the person's yes, the write, the check and the commit.

    Raises SentBack for a no with a reason, a failed check or hook (everything is as it was); NothingDone for a plain
    no or an empty draft; Refused when the change no longer fits the files (it is kept as a patch file); NotNow,
    NoCommit and Busy when it fits but can't be committed at present.
    """
    request = bench.request
    remarks = rebind(bench, edit_id)
    if not bench.draft.edits:
        raise NothingDone("the answer changes nothing: the files are already as it wants them.")
    proposal = _propose(bench, bench.draft.edits, message, remarks)
    if request.dry_run:
        return Landed(proposal)
    proposal = _agreed(proposal, dialogue, explain)
    for _ in range(RELOCATIONS):
        try:
            return _commit(bench, proposal, edit_id, dialogue)
        except Moved:
            dialogue.note("a file was saved meanwhile; placing the change anew")
            bench.draft = Draft(bench.draft.sources, proposal.changes)
            moved = rebind(bench, edit_id)
            proposal = _propose(bench, bench.draft.edits, lambda _: proposal.message, (*proposal.remarks, *moved))
    raise Refused(f"the files change while repoagent writes; {_keep(bench, proposal.diff, edit_id)}")


def rebind(bench: Workbench, edit_id: str) -> tuple[str, ...]:
    """Bind the draft to what is on disk now. Where the user changed a file meanwhile, the change is placed anew.

    Only exact matches count here: the text is the file's own, so anything else would be a guess. Returns what to
    tell the person. Raises Refused, with the change kept as a patch file, when it does not fit any more.
    """
    touched = [path for change in bench.draft.edits for path in (change.old_path, change.path) if path]
    fresh = {path: read_source(bench.worktree, path) for path in dict.fromkeys(touched)}
    stale = [path for path, source in fresh.items() if path in bench.draft.sources and _differs(bench, path, source)]
    appeared = [c.path for c in bench.draft.edits if c.path and c.path != c.old_path and fresh[c.path].data is not None]
    if not stale and not appeared:
        return ()
    diff = canonical_diff(bench.draft.edits)
    names = ", ".join(stale or [path for path in appeared if path])
    if appeared:
        raise Refused(f"{names} exists by now; {_keep(bench, diff, edit_id)}")
    texts = {
        path: SourceText(source.data, source.mode or REGULAR)
        for path, source in fresh.items()
        if source.data is not None
    }
    new = {change.path for change in bench.draft.edits if change.is_new or change.is_rename}
    try:
        applied = apply_answer(diff, texts, may_create=lambda path: path in new, strict=True)
    except PatchRefused as error:
        raise Refused(f"{names} was changed meanwhile and the edit does not fit any more ({error}); "
                      f"{_keep(bench, diff, edit_id)}") from error  # fmt: skip
    bench.draft = Draft({**bench.draft.sources, **fresh}, applied.changes)
    bench.placements = list(applied.placements)
    return (f"{names} was changed meanwhile; the edit was placed on the new text",)


def _differs(bench: Workbench, path: str, source: Source) -> bool:
    known = bench.draft.sources[path]
    return (known.data, known.mode) != (source.data, source.mode)


def _propose(
    bench: Workbench,
    changes: tuple[FileChange, ...],
    message: Callable[[tuple[FileChange, ...]], str],
    remarks: tuple[str, ...],
) -> Proposal:
    return Proposal(changes, canonical_diff(changes), message(changes), tuple(bench.placements), remarks)


def _agreed(proposal: Proposal, dialogue: Dialogue, explain: Callable[[], str]) -> Proposal:
    """The proposal as the person wants it. Raises NothingDone or SentBack on a no."""
    while True:
        decision: Decision = dialogue.decide(proposal)
        if decision.kind == "explain":
            try:
                dialogue.explained(explain())
            except (ModelError, LimitReached) as error:  # the change is there all the same, and so is the question
                dialogue.explained(f"(no explanation: {error})")
        elif decision.kind == "no" and decision.reason:
            raise SentBack("person", f"The person did not accept the change: {decision.reason}")
        elif decision.kind == "no" or decision.changes == ():
            raise NothingDone("nothing was changed, as you said.")
        elif decision.changes is not None:
            names = {change.name for change in decision.changes}
            placements = tuple(place for place in proposal.placements if place.path in names)
            diff = canonical_diff(decision.changes)
            return replace(proposal, changes=decision.changes, diff=diff, placements=placements)
        else:
            return proposal


def _commit(bench: Workbench, proposal: Proposal, edit_id: str, dialogue: Dialogue) -> Landed:
    request = bench.request
    result: CheckResult | None = None
    commit: CommitResult | None = None
    with _begun(bench, proposal, edit_id, dialogue) as transaction:
        if request.check:
            proposal = replace(proposal, remarks=(*proposal.remarks, *_seen_by_check(bench)))
        transaction.write()
        if request.check:
            dialogue.note(f"running {request.check}")
            result = run_check(request.check, bench.worktree.top)
            if not result.passed:
                raise SentBack("check", _failure(result, f"{bench.worktree.top}/"))
        dialogue.quiet()  # an editor, a hook or a passphrase may need the terminal
        if request.no_commit:
            transaction.keep()
        else:
            try:
                commit = transaction.commit(proposal.message)
            except HookFailed as error:
                raise _not_committed(error, request) from error
    return Landed(proposal, True, commit, result)


def _seen_by_check(bench: Workbench) -> tuple[str, ...]:
    """What a check that passes does not prove of the commit: other work was around, and is not in it."""
    others = sorted(read_status(bench.worktree).changed)
    if not others:
        return ()
    names = ", ".join(others[:NAMED]) + (f" and {len(others) - NAMED} more" if len(others) > NAMED else "")
    return (f"the check saw your uncommitted work in {names} too",)


@contextmanager
def _begun(bench: Workbench, proposal: Proposal, edit_id: str, dialogue: Dialogue) -> Iterator[Transaction]:
    """The transaction, begun when nobody else is at it: another edit, or the user's own commit, is soon done."""
    options = _options(bench.request)
    deadline = time.monotonic() + LOCK_SECONDS
    waiting = False
    while True:
        transaction = Transaction(bench.worktree, proposal.changes, options, edit_id, listen=dialogue.output)
        with ExitStack() as stack:
            try:
                stack.enter_context(transaction)
            except Busy as error:
                if time.monotonic() > deadline:
                    raise Busy(f"{error}\n{GOES_ON}") from error
                if not waiting:
                    dialogue.note("waiting for another process that commits")
                waiting = True
                time.sleep(LOCK_POLL_SECONDS)
                continue
            except Refused as error:
                raise NotNow(f"{error}\n{GOES_ON}") from error
            yield transaction
            return


def _not_committed(error: HookFailed, request: EditRequest) -> Exception:
    """A hook that says no is something for the model; a git that can't commit, or a person who left the message
    empty, is not."""
    if error.by_git and request.edit_message:  # git had the terminal: what it was stands there
        return NoCommit(f"the commit was not made, and everything is as it was. {GOES_ON}")
    if error.by_git:
        return NoCommit(f"{error}\n{GOES_ON}")
    return SentBack("hook", str(error))


def commit_remarks(commit: CommitResult) -> tuple[str, ...]:
    """What the hooks did to the commit and to the user's other files, in sentences."""
    remarks = list(commit.notes)
    if commit.folded:
        remarks.append(f"a hook rewrote {', '.join(commit.folded)}; its version is committed")
    if commit.taken_out:
        remarks.append(f"a hook had added {', '.join(commit.taken_out)} to the commit; taken out again")
    if commit.restored:
        remarks.append(f"a hook had changed your uncommitted work in {', '.join(commit.restored)}; put right")
    return tuple(remarks)


def _options(request: EditRequest) -> Options:
    return Options(
        no_commit=request.no_commit,
        no_verify=request.no_verify,
        include_dirty=request.include_dirty,
        branch=request.branch,
        signoff=request.signoff,
        fixup=request.fixup,
        edit_message=request.edit_message,
        sign=request.sign,
    )


def _failure(result: CheckResult, top: str) -> str:
    """What the model hears of a failed check: paths as it knows them, without `top`, and last what it is to do."""
    output = result.excerpt().replace(top, "").rstrip()
    return (
        f"The check `{result.command}` failed with exit code {result.returncode} after your edit. Its output:\n"
        f"{output}\n\nThe files are as they were before it. Write an edit that passes."
    )


def _keep(bench: Workbench, diff: str, edit_id: str) -> str:
    """Keep a change that could not be applied, and say where."""
    path = bench.worktree.git_dir / "repoagent" / "proposals" / f"{edit_id}.patch"
    write_whole(path, diff.encode("utf-8", "surrogateescape"))
    return f"the change is kept in {path}"
