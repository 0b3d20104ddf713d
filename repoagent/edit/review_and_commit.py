"""From a finished draft to the commit: compare with the disk, ask, write, check, commit. Or nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from repoagent.edit.commit import CommitOutcome, EditSession, SentBack, commit
from repoagent.edit.diff_crosscheck import DiffStat, read_back
from repoagent.edit.guards.sensitive import concerns, described, hidden_changes
from repoagent.edit.request import Draft
from repoagent.edit.ui import CANCELLED, Decision, Proposal, UserInterface
from repoagent.errors import LimitReached, ModelError, NothingDone, Refused, RepoagentError
from repoagent.git.file_writer import Moved
from repoagent.git.files import REGULAR, FileChange, read_source
from repoagent.patch.apply_file import apply_answer
from repoagent.patch.errors import PatchRefused
from repoagent.patch.model import SourceText
from repoagent.patch.render import canonical_diff
from repoagent.storage.atomic import write_whole

RELOCATIONS = 3  # someone who saves more often than this between a yes and the write is still at work


class _Sensitive(RepoagentError):
    def __init__(self, sentence: str, paths: tuple[str, ...]) -> None:
        super().__init__(sentence)
        self.paths = paths


class Unasked(_Sensitive, Refused):
    """The change contains the sensitive files `paths`, which the user did not request, and there is no user to ask."""


class Unwanted(_Sensitive, NothingDone):
    """The user rejected the change of the sensitive files `paths`."""


def review_and_commit(
    session: EditSession,
    edit_id: str,
    message: Callable[[tuple[FileChange, ...]], str],
    ui: UserInterface,
    explain: Callable[[], str],
    *,
    remarks: tuple[str, ...] = (),
) -> CommitOutcome:
    """Take the draft through the user's review, the write, the check and the commit.

    Raises SentBack for a rejection with a reason, a failed check or hook (everything is unchanged); NothingDone for a
    plain rejection or an empty draft; Refused when the change no longer fits the files, or contains sensitive ones that
    were not requested (it is saved as a patch file); NotNow, NoCommit and Busy when it fits but cannot be committed
    now.
    """
    remarks = (*remarks, *rebind(session, edit_id))
    proposal = agreed(session, edit_id, message, ui, explain, remarks=remarks)
    if session.request.dry_run:
        return CommitOutcome(proposal)
    for _ in range(RELOCATIONS):
        try:
            return commit(session, proposal, edit_id, ui)
        except Moved:
            ui.note("a file has changed; applying the edit to its new text")
            session.draft = Draft(session.draft.sources, proposal.changes)
            remarks = rebind(session, edit_id)
            changes = session.draft.edits
            diff, stat = _shown(session, changes)
            proposal = replace(
                proposal, changes=changes, diff=diff, stat=stat, placements=tuple(session.placements),
                remarks=(*proposal.remarks, *remarks),
            )  # fmt: skip
    raise Refused(
        f"the files keep changing while repoagent writes them; {_keep(session, proposal.diff, edit_id)}"
    )


def agreed(
    session: EditSession,
    edit_id: str,
    message: Callable[[tuple[FileChange, ...]], str],
    ui: UserInterface,
    explain: Callable[[], str],
    *,
    remarks: tuple[str, ...] = (),
) -> Proposal:
    """The draft as a proposal that the user has accepted; a dry run does not ask. Raises as `review_and_commit`."""
    if not session.draft.edits:
        raise NothingDone("no changes: the files already match the answer.")
    proposal = _propose(session, session.draft.edits, message, remarks)
    if session.request.dry_run:
        return proposal
    while (decision := _agreed(proposal, ui, explain)).kind == "revise" and decision.changes:
        if why := _parses_worse(session, decision.changes):
            ui.say(f"not accepted: {why}")
            continue
        proposal = _propose(session, decision.changes, message, remarks)
    if decision.changes is not None and decision.changes != proposal.changes:
        proposal = _propose(session, decision.changes, message, remarks)
    proposal = replace(proposal, accepted=decision.by_person)
    _agreed_apart(session, proposal, ui, edit_id)
    return proposal


def rebind(session: EditSession, edit_id: str) -> tuple[str, ...]:
    """Bind the draft to the files on disk; a file that the user changed since gets the change applied to its new text.

    Only exact matches count: the lines are the file's own, so anything else would be a guess. Returns notes for the
    user. Raises Refused, with the change saved as a patch file, when it no longer fits.
    """
    touched = [path for change in session.draft.edits for path in (change.old_path, change.path) if path]
    fresh = {path: read_source(session.worktree, path) for path in dict.fromkeys(touched)}
    stale = [
        path
        for path, source in fresh.items()
        if (known := session.draft.sources.get(path)) is not None
        and (known.data, known.mode) != (source.data, source.mode)
    ]
    appeared = [
        c.path
        for c in session.draft.edits
        if c.path and c.path != c.old_path and fresh[c.path].data is not None
    ]
    if not stale and not appeared:
        return ()
    diff = _shown(session, session.draft.edits)[0]
    if appeared:
        raise Refused(f"{', '.join(appeared)} now exists; {_keep(session, diff, edit_id)}")
    names = ", ".join(stale)
    texts = {
        path: SourceText(source.data, source.mode or REGULAR)
        for path, source in fresh.items()
        if source.data is not None
    }
    new = {change.path for change in session.draft.edits if change.is_new or change.is_rename}
    try:
        applied = apply_answer(diff, texts, may_create=lambda path: path in new, strict=True)
    except PatchRefused as error:
        kept = _keep(session, diff, edit_id)
        raise Refused(f"{names} has changed and the edit no longer applies; {kept}") from error
    session.draft = Draft({**session.draft.sources, **fresh}, applied.changes)
    session.placements = list(applied.placements)
    return (f"{names} has changed; the edit was applied to its new text",)


def _propose(
    session: EditSession,
    changes: tuple[FileChange, ...],
    message: Callable[[tuple[FileChange, ...]], str],
    remarks: tuple[str, ...],
) -> Proposal:
    from repoagent.syntax.regressions import parse_doubt

    diff, stat = _shown(session, changes)
    names = {change.name for change in changes}
    doubts = [
        doubt
        for change in changes
        if change.path is not None
        and change.after is not None
        and (doubt := parse_doubt(change.path, change.before, change.after))
    ]
    request = session.request
    found = concerns(changes, request.paths, session.worktree, request.sensitive)
    return Proposal(
        changes, diff, stat, message(changes),
        placements=tuple(place for place in session.placements if place.path in names),
        remarks=(*remarks, *(concern.sentence for concern in found), *hidden_changes(changes), *doubts),
        concerns=found,
    )  # fmt: skip


def _parses_worse(session: EditSession, changes: Sequence[FileChange]) -> str:
    """Which file would no longer parse, and why; "" for none, or where that is not asked for."""
    from repoagent.syntax.regressions import parses_worse

    for change in changes if session.request.parse_check else ():
        after = change.after if change.path is not None else None
        if after is not None and (worse := parses_worse(change.name, change.before, after)):
            return f"{worse} (use --no-parse-check to accept it)"
    return ""


def _shown(session: EditSession, changes: tuple[FileChange, ...]) -> tuple[str, DiffStat]:
    """The diff that says exactly what `changes` would write: a second parser has read the one in the other."""
    diff = canonical_diff(changes, hash_name=session.worktree.object_format)
    return diff, read_back(diff, changes)


def _agreed(proposal: Proposal, ui: UserInterface, explain: Callable[[], str]) -> Decision:
    """The yes, with the changes as the user wants them, or what to ask about instead. Raises NothingDone or
    SentBack on a no."""
    while True:
        decision: Decision = ui.decide(proposal)
        if decision.kind == "explain":
            try:
                ui.explained(explain())
            except (ModelError, LimitReached) as error:  # the change is there all the same, and the question
                ui.explained(f"(no explanation: {error})")
        elif decision.kind == "no" and decision.reason:
            raise SentBack("person", f"The user rejected the change: {decision.reason}")
        elif decision.kind == "no" or decision.changes == ():
            raise NothingDone(f"{CANCELLED}.")
        else:
            return decision


def _agreed_apart(session: EditSession, proposal: Proposal, ui: UserInterface, edit_id: str) -> None:
    """A yes of its own for sensitive files that no one asked for. Raises NothingDone, or Refused without the user."""
    unasked = [concern for concern in proposal.concerns if not concern.asked]
    if not unasked or session.request.allow_sensitive:
        return
    agreed = ui.agrees(unasked)
    if agreed:
        return
    kept = _keep(session, proposal.diff, edit_id)
    paths = tuple(concern.path for concern in unasked)
    if agreed is None:
        raise Unasked(
            f"{described(unasked)}, which you did not request: use --allow-sensitive to allow it; {kept}",
            paths,
        )
    raise Unwanted(f"{CANCELLED}; {kept}", paths)


def _keep(session: EditSession, diff: str, edit_id: str) -> str:
    """Keep a change that could not be applied, and say where; outside of a repository there is no place for it."""
    if not session.worktree.git_dir.is_dir():
        return "nothing was written"
    path = session.worktree.git_dir / "repoagent" / "proposals" / f"{edit_id}.patch"
    write_whole(path, diff.encode("utf-8", "surrogateescape"))
    return f"the change is saved in {path}"
