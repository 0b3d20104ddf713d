"""Join the edited segments of a split into their source and commit it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.apply_patch import ApplySession, commit_change, user_error, write_files
from repoagent.edit.checks import preflight, refuse_untracked
from repoagent.edit.commit import SUBJECT_WIDTH, CommitOutcome, SentBack, compose, new_edit_id
from repoagent.edit.guards.off_limits import gate
from repoagent.edit.request import Draft, EditRequest, Target
from repoagent.edit.review_and_commit import agreed
from repoagent.edit.ui import UserInterface
from repoagent.errors import NothingDone, Refused, RepoagentError, UsageError
from repoagent.git.files import FileChange, Source, blob_hash, look, read_source
from repoagent.git.process import uninterrupted
from repoagent.git.transaction.plan import refuse_operation
from repoagent.git.worktree import WorkTree
from repoagent.history.graph import shown
from repoagent.patch.render import differing
from repoagent.split.folder_index import Index, display_path, lock_split, quoted_path, read_index
from repoagent.split.folder_writer import finish
from repoagent.split.join import (
    How,
    JoinConflict,
    MergeResult,
    SegmentConflict,
    SegmentEdits,
    breaking_segments,
    lines_of,
    merge_edits,
    read_segment_edits,
)
from repoagent.split.refresh import refresh
from repoagent.split.source import missing_source_message, wide_encoding, worktree_of
from repoagent.storage.atomic import write_whole
from repoagent.syntax.regressions import parses_worse
from repoagent.syntax.symbol import Symbol


def save_diff(folder: Path, diff: str) -> Path:
    """Write the diff into the folder under a free name: join.diff, join-2.diff and so on."""
    path, number = folder / "join.diff", 1
    while path.exists() or path.is_symlink():
        number += 1
        path = folder / f"join-{number}.diff"
    write_whole(path, diff.encode("utf-8", "surrogateescape"), private=False)
    return path


def refresh_split(segment_edits: SegmentEdits, cwd: Path, say: Callable[[str], None]) -> bool:
    """Refresh the folder's segments from the current source, except files that were saved after the join.

    The join is done: failures are reported and left to `--refresh`. Returns whether the folder is up to date.
    """
    joined = {edit.file: edit.file_hash for edit in segment_edits.edits}
    folder = segment_edits.index.folder
    try:
        done = refresh(folder, cwd, joined=joined)
    except (RepoagentError, OSError) as error:
        again = f"`repoagent split --refresh {quoted_path(folder, cwd)}` retries"
        say(f"warning: could not update {display_path(folder, cwd)} ({error}); {again}")
        return False
    if done.edited:
        say(f"note: kept your newer changes in {', '.join(done.edited)}")
    return True


def present_source(worktree: WorkTree, index: Index, request: EditRequest) -> Source:
    """The source of the split in the work tree. Raises Refused if it is missing, a link, binary, or off limits."""
    path = index.source.path
    if reason := gate(worktree.top, request.paths)(path):
        raise Refused(reason)
    source = read_source(worktree, path)
    if source.data is None:
        raise Refused(missing_source_message(worktree, index, Path.cwd()))
    return _text(index, source)


def outside_source(index: Index) -> Source:
    """The source of a split outside of any repository. Raises Refused as `present_source`."""
    path = Path(index.source.path)
    if path.is_symlink():
        raise Refused(f"{path} is now a symbolic link: split its target instead")
    try:
        found = look(path.parent, path.name)
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from error
    if found is None:
        raise Refused(f"{path} no longer exists: restore it and join again")
    return _text(index, Source(path.name, found.data, found.mode, blob_hash(found.data)))


def _text(index: Index, source: Source) -> Source:
    if index.source.encoding == "binary" or source.blob == index.source.blob:
        return source
    if encoding := wide_encoding(source.data or b""):
        raise Refused(f"{index.source.path} is now encoded in {encoding}: save it as UTF-8 and join again")
    if source.binary:
        raise Refused(f"{index.source.path} is now binary but was text when it was split: split it again")
    return source


NAMED = 3  # definitions in a subject


def default_subject(segment_edits: SegmentEdits) -> str:
    """A subject that names the innermost definitions whose lines were edited, or else the lines."""
    symbols = [symbol for segment in segment_edits.index.segments for symbol in segment.symbols]
    ranges = []  # the edited lines of the source; those around lines that were only added
    for edit in segment_edits.edits:
        first = edit.segment.first_line
        for i1, i2, _, _ in differing(lines_of(edit.before), lines_of(edit.after)):
            ranges.append((first + i1, first + i2 - 1) if i1 < i2 else (first + i1 - 1, first + i1))
    innermost: dict[Symbol | None, None] = {}
    for first, last in ranges:
        around = [symbol for symbol in symbols if symbol.first_line <= first and last <= symbol.last_line]
        depth = max((symbol.depth for symbol in around), default=0)
        deepest = [symbol for symbol in around if symbol.depth == depth]
        innermost[deepest[0] if len(deepest) == 1 else None] = None
    whole = [symbol for symbol in innermost if symbol is not None]
    qualified = list(dict.fromkeys(symbol.qualified_name for symbol in whole))
    path = shown(segment_edits.index.source.path)
    choices = []
    if whole and len(whole) == len(innermost):
        if len(qualified) <= NAMED:
            for names in (qualified, list(dict.fromkeys(symbol.name for symbol in whole))):
                choices.append(" and ".join(filter(None, [", ".join(names[:-1]), names[-1]])))
        if len(qualified) > 1:
            choices.append(f"{len(qualified)} parts")
    for subject in (
        f"Change {what} in {name}" for what in choices for name in (path, path.rpartition("/")[2])
    ):
        if len(subject) <= SUBJECT_WIDTH:
            return compose(subject, "")
    low, high = max(1, min(first for first, _ in ranges)), max(last for _, last in ranges)
    return compose(f"Change {f'line {low}' if low >= high else f'lines {low}-{high}'} of {path}", "")


@dataclass(frozen=True)
class JoinedSegment:
    """An edited segment: lines added and removed, how it was merged, and what was repaired in its file."""

    file: str
    added: int
    removed: int
    how: How
    notes: tuple[str, ...]


@dataclass(frozen=True)
class JoinOutcome:
    """How a join ended. `source` is the path in the index, `diff` the saved diff (None for a dry run), `fresh`
    whether the folder was refreshed; `seconds` is wall time without the user's."""

    edit_id: str
    result: CommitOutcome
    source: str
    index: Path
    segments: tuple[JoinedSegment, ...]
    other_files: tuple[str, ...]
    diff: Path | None
    fresh: bool
    seconds: float

    @property
    def kind(self) -> str:
        return self.result.kind


# (path, what clashes, the diff of what is discarded) -> whether to go on
Discards = Callable[[str, Sequence[SegmentConflict], str], bool]


def join(
    path: Path,
    cwd: Path,
    request: EditRequest,
    settings: Settings,
    ui: UserInterface,
    *,
    discards: Discards | None = None,
) -> JoinOutcome:
    """Join the edited segments of the split at `path` (its folder or index) into its source, and commit that.

    `request.instruction` is the message, "" for a generated one. `discards` is asked before changes of the source are
    discarded for segments; None raises JoinClash instead. Raises NothingDone if there is nothing to join, and what
    reading, merging and committing raise. The source, the index and the branch are unchanged then, and segments too,
    except that edits which the source already has lead to a refresh of the folder.
    """
    started = time.monotonic()
    with nullcontext() if request.dry_run else lock_split(read_index(path).folder):
        index = read_index(path)
        if (
            index.pending and not request.dry_run
        ):  # a command was killed while it brought the folder up to date
            index = finish(index)
        job = _job(read_segment_edits(index, cwd), cwd, request, discards)
        done = _commit(job, request, settings, ui) if job.changes else None
    segment_edits, fresh = job.segment_edits, False
    if not request.dry_run:
        with uninterrupted():
            fresh = refresh_split(segment_edits, cwd, ui.say)
    if done is None:
        said = f", and {display_path(segment_edits.index.folder, cwd)} is up to date" if fresh else ""
        raise NothingDone(f"nothing to join: {segment_edits.index.source.path} already has your edits{said}")
    edit_id, result, diff = done
    segments = tuple(
        JoinedSegment(edit.file, *edit.counts(), job.merged.how[edit.file], edit.notes)
        for edit in segment_edits.edits
    )
    return JoinOutcome(
        edit_id, result, segment_edits.index.source.path, segment_edits.index.path, segments,
        segment_edits.other_files, diff, fresh, time.monotonic() - started - ui.waited,
    )  # fmt: skip


@dataclass(frozen=True)
class _Job:
    """The edits, the current source under the path `name` in the folder `top`, and their merge."""

    segment_edits: SegmentEdits
    worktree: WorkTree | None
    source: Source
    merged: MergeResult

    @property
    def changes(self) -> bool:
        return self.merged.data != self.source.data

    @property
    def name(self) -> str:
        return self.source.path

    @property
    def top(self) -> WorkTree:
        """The folder of the source; without a repository only the folder is used."""
        if self.worktree is not None:
            return self.worktree
        folder = Path(self.segment_edits.index.source.path).parent
        return WorkTree(folder, folder / ".git", folder / ".git")


def _job(segment_edits: SegmentEdits, cwd: Path, request: EditRequest, discards: Discards | None) -> _Job:
    """All that can be known before anything is written, refusals too."""
    path = segment_edits.index.source.path
    outside = path.startswith("/")
    worktree = None if outside else worktree_of(segment_edits.index, cwd)
    if worktree is None and not outside:
        raise UsageError(
            f"{path}, the source of {display_path(segment_edits.index.folder, cwd)}, belongs to a repository: "
            "run this in it"
        )
    if worktree is None:
        source = outside_source(segment_edits.index)
    else:
        request = replace(request, targets=(Target(path),))
        source = present_source(worktree, segment_edits.index, request)
        preflight(worktree, request)
        if not (request.commit.no_commit or request.dry_run):
            refuse_operation(worktree)
        refuse_untracked(worktree, request, Draft({path: source}))
    present = source.data or b""
    found = merge_edits(worktree, segment_edits, present)
    if found.conflicts:
        if discards is None:
            raise JoinConflict(path, found.conflicts)
        if not discards(path, found.conflicts, found.discarded):
            raise NothingDone("cancelled: nothing was changed.")
    reason = parses_worse(path, present, found.data) if request.parse_check else None
    if reason:
        files = ", ".join(breaking_segments(segment_edits)) or "the segments"
        raise Refused(f"joined, {reason.rstrip('.')}; fix {files} and join again, or use --no-parse-check")
    return _Job(segment_edits, worktree, source, found)


def _commit(
    job: _Job, request: EditRequest, settings: Settings, ui: UserInterface
) -> tuple[str, CommitOutcome, Path | None]:
    """The edit's id, what was committed, and the file with its diff."""
    name, source = job.name, job.source
    change = FileChange(name, name, source.data, job.merged.data, source.mode, source.mode)
    request = replace(request, targets=(Target(name),))
    session = ApplySession(job.top, request, Draft({name: source}).with_changes([change]), [])
    words = request.instruction or default_subject(job.segment_edits)
    remarks = (*job.segment_edits.notes, *_remarks(job))
    if job.worktree is not None:
        edit_id, result = commit_change(
            session, settings, ui, lambda changes: words, kind="join", remarks=remarks
        )
    else:
        edit_id = new_edit_id()
        try:
            proposal = agreed(session, edit_id, lambda changes: "", ui, lambda: "", remarks=remarks)
            result = CommitOutcome(proposal)
            if not request.dry_run:
                result = write_files(session.worktree.top, proposal, request, edit_id, ui)
        except SentBack as setback:
            raise user_error(setback) from setback
    if not result.written:
        return edit_id, result, None
    with uninterrupted():
        try:
            return edit_id, result, save_diff(job.segment_edits.index.folder, result.proposal.diff)
        except (RepoagentError, OSError) as error:
            ui.say(f"warning: could not save the diff ({error})")
            return edit_id, result, None


def _remarks(job: _Job) -> tuple[str, ...]:
    """What the user should know of how it was merged."""
    how, path = job.merged.how, job.segment_edits.index.source.path
    both = [file for file, kind in how.items() if kind == "merged"]
    already = [file for file, kind in how.items() if kind == "already"]
    remarks = []
    if both:
        remarks.append(
            f"{path} has changed since the split, also in {', '.join(both)}; both changes are merged"
        )
    elif job.source.data != job.segment_edits.base:
        other = "other " if job.merged.discarded else ""
        remarks.append(f"{path} has changed since the split; its {other}changes are kept")
    if already:
        remarks.append(f"already in {path}: {', '.join(already)}")
    if job.merged.discarded:
        files = ", ".join(dict.fromkeys(file for conflict in job.merged.conflicts for file in conflict.files))
        back = "`repoagent undo` restores them" if job.worktree else "the diff of the join contains them"
        remarks.append(f"changes of {path} were discarded for {files}; {back}")
    return tuple(remarks)
