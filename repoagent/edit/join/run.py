"""Edited segments become a commit of their source, on the way that an edit goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from repoagent.config import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.apply.outside import written
from repoagent.edit.apply.run import Bench, failed, landing
from repoagent.edit.dialogue import Dialogue
from repoagent.edit.draft import Draft
from repoagent.edit.join.after import bring_up_to_date, keep_diff
from repoagent.edit.join.clash import JoinClash
from repoagent.edit.join.gather import Edited, Gathered, gather
from repoagent.edit.join.merging import Merged, breaking, merged
from repoagent.edit.join.source import outside_source, present_source
from repoagent.edit.join.words import plain_words
from repoagent.edit.landing.bench import new_edit_id
from repoagent.edit.landing.commit import Landed, SentBack
from repoagent.edit.landing.land import agreed
from repoagent.edit.landing.preflight import preflight, refuse_untracked
from repoagent.edit.request import EditRequest, Target
from repoagent.errors import NothingDone, Refused, RepoagentError, UsageError
from repoagent.repo import FileChange, Source, WorkTree
from repoagent.repo.run import uninterrupted
from repoagent.repo.transaction.refusals import refuse_operation
from repoagent.split import parses_worse
from repoagent.split.artifact import holding, read_index
from repoagent.split.artifact.finding import worktree_of
from repoagent.split.artifact.shown import near
from repoagent.split.artifact.writing import finish
from repoagent.split.joining import Clash
from repoagent.split.joining.joined import How


@dataclass(frozen=True)
class JoinedSegment:
    """An edited segment: the lines put in and taken out, what became of it, and what was put right in its file."""

    file: str
    added: int
    removed: int
    how: How
    notes: tuple[str, ...]


@dataclass(frozen=True)
class JoinOutcome:
    """How it ended. `source` is the path as the index has it, `diff` the file with the diff (None for a dry run),
    `fresh` whether the folder is that of the new source; seconds are wall time."""

    edit_id: str
    landed: Landed
    source: str
    index: Path
    segments: tuple[JoinedSegment, ...]
    strangers: tuple[str, ...]
    diff: Path | None
    fresh: bool
    seconds: float

    @property
    def kind(self) -> str:
        return self.landed.kind


# (path, what clashes, the diff of what is discarded) -> whether to go on
Discards = Callable[[str, Sequence[Clash], str], bool]


def join(
    path: Path,
    cwd: Path,
    request: EditRequest,
    settings: Settings,
    dialogue: Dialogue,
    *,
    discards: Discards | None = None,
) -> JoinOutcome:
    """Join the edited segments of the split at `path` (its folder or index) into its source, and commit that.

    `request.instruction` is the message, "" for one that says what was changed. `discards` is asked before changes of
    the source are given up for segments; None refuses instead. Raises JoinClash then, NothingDone where there is
    nothing to join, and what reading, merging and landing raise. Whatever it raises, the source, the index and the
    branch are as they were, and no segment is touched, but for edits that the source has already: then the folder is
    brought up to date.
    """
    started = time.monotonic()
    with nullcontext() if request.dry_run else holding(read_index(path).folder):
        index = read_index(path)
        if (
            index.pending and not request.dry_run
        ):  # a command was killed while it brought the folder up to date
            index = finish(index)
        job = _job(gather(index, cwd), cwd, request, discards)
        done = _landed(job, request, settings, dialogue) if job.changes else None
    gathered, fresh = job.gathered, False
    if not request.dry_run:
        with uninterrupted():
            fresh = bring_up_to_date(gathered, cwd, dialogue.say)
    if done is None:
        said = f", and {near(gathered.index.folder, cwd)} is up to date with it" if fresh else ""
        raise NothingDone(
            f"nothing to join: what was edited is in {gathered.index.source.path} already{said}"
        )
    edit_id, landed, diff = done
    segments = tuple(_segment(edit, job.merged) for edit in gathered.edits)
    return JoinOutcome(
        edit_id, landed, gathered.index.source.path, gathered.index.path, segments, gathered.strangers, diff, fresh,
        time.monotonic() - started - dialogue.waited,
    )  # fmt: skip


@dataclass(frozen=True)
class _Job:
    """The edits, the source as it is now under the path `name` in the folder `top`, and what they make together."""

    gathered: Gathered
    worktree: WorkTree | None
    source: Source
    merged: Merged

    @property
    def changes(self) -> bool:
        return self.merged.data != self.source.data

    @property
    def name(self) -> str:
        return self.source.path

    @property
    def top(self) -> WorkTree:
        """Where the source is: without a repository all that is asked of it is the folder."""
        if self.worktree is not None:
            return self.worktree
        folder = Path(self.gathered.index.source.path).parent
        return WorkTree(folder, folder / ".git", folder / ".git")


def _job(gathered: Gathered, cwd: Path, request: EditRequest, discards: Discards | None) -> _Job:
    """All that can be known before anything is written, refusals too."""
    path = gathered.index.source.path
    outside = path.startswith("/")
    worktree = None if outside else worktree_of(gathered.index, cwd)
    if worktree is None and not outside:
        raise UsageError(
            f"{path}, the source of {near(gathered.index.folder, cwd)}, is a file of a repository: run this in it"
        )
    if worktree is None:
        source = outside_source(gathered.index)
    else:
        request = replace(request, targets=(Target(path),))
        source = present_source(worktree, gathered.index, request)
        preflight(worktree, request)
        if not (request.commit.no_commit or request.dry_run):
            refuse_operation(worktree)
        refuse_untracked(worktree, request, Draft({path: source}))
    present = source.data or b""
    found = merged(worktree, gathered, source.path, present)
    if found.clashes:
        if discards is None:
            raise JoinClash(path, found.clashes)
        found = merged(worktree, gathered, source.path, present, last_word=True)
        if not discards(path, found.clashes, found.lost):
            raise NothingDone("nothing was changed, as you said.")
    reason = parses_worse(path, present, found.data or b"") if request.parse_check else None
    if reason:
        files = ", ".join(breaking(gathered)) or "the segments"
        raise Refused(
            f"joined, {reason.rstrip('.')}; put that right in {files} and join again, or use --no-parse-check"
        )
    return _Job(gathered, worktree, source, found)


def _landed(
    job: _Job, request: EditRequest, settings: Settings, dialogue: Dialogue
) -> tuple[str, Landed, Path | None]:
    """The edit's id, what landed, and the file with its diff."""
    name, source = job.name, job.source
    change = FileChange(name, name, source.data, job.merged.data, source.mode, source.mode)
    request = replace(request, targets=(Target(name),))
    bench = Bench(job.top, request, Draft({name: source}).with_changes([change]), [])
    words = request.instruction or plain_words(job.gathered)
    remarks = (*job.gathered.notes, *_remarks(job))
    if job.worktree is None:
        edit_id, landed = new_edit_id(), _outside(bench, remarks, dialogue)
    else:
        edit_id, landed = landing(
            bench, settings, dialogue, lambda changes: words, kind="join", remarks=remarks
        )
    if not landed.written:
        return edit_id, landed, None
    with uninterrupted():
        try:
            return edit_id, landed, keep_diff(job.gathered.index.folder, landed.proposal.diff)
        except (RepoagentError, OSError) as error:
            dialogue.say(f"warning: the diff could not be kept ({error})")
            return edit_id, landed, None


def _outside(bench: Bench, remarks: tuple[str, ...], dialogue: Dialogue) -> Landed:
    edit_id = new_edit_id()
    try:
        proposal = agreed(bench, edit_id, lambda changes: "", dialogue, lambda: "", remarks=remarks)
        if bench.request.dry_run:
            return Landed(proposal)
        return written(bench.worktree.top, proposal, bench.request, edit_id, dialogue)
    except SentBack as setback:
        raise failed(setback) from setback


def _remarks(job: _Job) -> tuple[str, ...]:
    """What a person should know of how it was merged."""
    how, path = job.merged.how, job.gathered.index.source.path
    both = [file for file, one in how.items() if one == "merged"]
    already = [file for file, one in how.items() if one == "already"]
    remarks = []
    if both:
        remarks.append(
            f"{path} has changed since it was split, in {', '.join(both)} too; both changes are in it"
        )
    elif job.source.data != job.gathered.base:
        other = "other " if job.merged.lost else ""
        remarks.append(f"{path} has changed since it was split; its {other}changes are kept")
    if already:
        remarks.append(f"in {path} already: {', '.join(already)}")
    if job.merged.lost:
        back = "`repoagent undo` brings them back" if job.worktree else "the diff of the join still has them"
        remarks.append(f"changes of {path} were discarded for {', '.join(_clashing(job))}; {back}")
    return tuple(remarks)


def _clashing(job: _Job) -> list[str]:
    return list(dict.fromkeys(file for clash in job.merged.clashes for file in clash.files))


def _segment(edit: Edited, found: Merged) -> JoinedSegment:
    return JoinedSegment(edit.file, *edit.counts(), found.how[edit.file], edit.notes)
