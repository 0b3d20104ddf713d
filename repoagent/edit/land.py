"""From a finished draft to the commit: look again at the disk, ask, write, check, commit. Or nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from repoagent.edit.commit import Landed, SentBack, commit
from repoagent.edit.dialogue import Decision, Dialogue, Proposal
from repoagent.edit.draft import Draft
from repoagent.edit.readback import DiffStat, read_back
from repoagent.edit.tools import Workbench
from repoagent.errors import LimitReached, ModelError, NothingDone, Refused
from repoagent.patch import PatchRefused, SourceText, apply_answer, canonical_diff
from repoagent.repo import FileChange, Moved, Source, read_source
from repoagent.repo.change import REGULAR
from repoagent.store.atomic import write_whole

RELOCATIONS = 3  # someone who saves more often than this between a yes and the write is still at work


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
    proposal = _agreed(bench, proposal, dialogue, explain)
    for _ in range(RELOCATIONS):
        try:
            return commit(bench, proposal, edit_id, dialogue)
        except Moved:
            dialogue.note("a file was saved meanwhile; placing the change anew")
            bench.draft = Draft(bench.draft.sources, proposal.changes)
            moved = rebind(bench, edit_id)
            proposal = _placed_anew(bench, proposal, moved)
    raise Refused(f"the files change while repoagent writes; {_keep(bench, proposal.diff, edit_id)}")


def rebind(bench: Workbench, edit_id: str) -> tuple[str, ...]:
    """Bind the draft to what is on disk now. Where the user changed a file meanwhile, the change is placed anew.

    Only exact matches count here: the text is the file's own, so anything else would be a guess. Returns what to
    tell the person. Raises Refused, with the change kept as a patch file, when it does not fit any more.
    """
    touched = [path for change in bench.draft.edits for path in (change.old_path, change.path) if path]
    fresh = {path: read_source(bench.worktree, path) for path in dict.fromkeys(touched)}
    stale = [
        path
        for path, source in fresh.items()
        if path in bench.draft.sources and _differs(bench, path, source)
    ]
    appeared = [
        c.path
        for c in bench.draft.edits
        if c.path and c.path != c.old_path and fresh[c.path].data is not None
    ]
    if not stale and not appeared:
        return ()
    diff = _shown(bench, bench.draft.edits)[0]
    if appeared:
        raise Refused(f"{', '.join(appeared)} exists by now; {_keep(bench, diff, edit_id)}")
    names = ", ".join(stale)
    texts = {
        path: SourceText(source.data, source.mode or REGULAR)
        for path, source in fresh.items()
        if source.data is not None
    }
    new = {change.path for change in bench.draft.edits if change.is_new or change.is_rename}
    try:
        applied = apply_answer(diff, texts, may_create=lambda path: path in new, strict=True)
    except PatchRefused as error:
        kept = _keep(bench, diff, edit_id)
        raise Refused(f"{names} was changed meanwhile and the edit does not fit any more; {kept}") from error
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
    diff, stat = _shown(bench, changes)
    return Proposal(changes, diff, stat, message(changes), tuple(bench.placements), remarks)


def _shown(bench: Workbench, changes: tuple[FileChange, ...]) -> tuple[str, DiffStat]:
    """The diff that says exactly what `changes` would write: a second parser has read the one in the other."""
    diff = canonical_diff(changes, hash_name=bench.worktree.object_format)
    return diff, read_back(diff, changes)


def _placed_anew(bench: Workbench, proposal: Proposal, remarks: tuple[str, ...]) -> Proposal:
    changes = bench.draft.edits
    diff, stat = _shown(bench, changes)
    return replace(
        proposal, changes=changes, diff=diff, stat=stat, placements=tuple(bench.placements),
        remarks=(*proposal.remarks, *remarks),
    )  # fmt: skip


def _agreed(bench: Workbench, proposal: Proposal, dialogue: Dialogue, explain: Callable[[], str]) -> Proposal:
    """The proposal as the person wants it. Raises NothingDone or SentBack on a no."""
    while True:
        decision: Decision = dialogue.decide(proposal)
        if decision.kind == "explain":
            try:
                dialogue.explained(explain())
            except (ModelError, LimitReached) as error:  # the change is there all the same, and the question
                dialogue.explained(f"(no explanation: {error})")
        elif decision.kind == "no" and decision.reason:
            raise SentBack("person", f"The person did not accept the change: {decision.reason}")
        elif decision.kind == "no" or decision.changes == ():
            raise NothingDone("nothing was changed, as you said.")
        elif decision.changes is not None:
            names = {change.name for change in decision.changes}
            placements = tuple(place for place in proposal.placements if place.path in names)
            diff, stat = _shown(bench, decision.changes)
            return replace(proposal, changes=decision.changes, diff=diff, stat=stat, placements=placements)
        else:
            return proposal


def _keep(bench: Workbench, diff: str, edit_id: str) -> str:
    """Keep a change that could not be applied, and say where."""
    path = bench.worktree.git_dir / "repoagent" / "proposals" / f"{edit_id}.patch"
    write_whole(path, diff.encode("utf-8", "surrogateescape"))
    return f"the change is kept in {path}"
