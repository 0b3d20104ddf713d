"""Join the edited segments of a split into their source and commit it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.apply import ApplyOutcome, commit_change
from repoagent.edit.checks import preflight, refuse_untracked
from repoagent.edit.commit import compose_message
from repoagent.edit.draft import Draft, EditSession
from repoagent.edit.guards.off_limits import off_limits_gate
from repoagent.edit.request import EditRequest, Target
from repoagent.edit.ui import UserInterface
from repoagent.errors import NothingDone, Refused, RepoagentError, UsageError
from repoagent.git.files import FileChange, Source, read_source
from repoagent.git.process import defer_signals
from repoagent.git.transaction.plan import refuse_operation
from repoagent.git.worktree import WorkTree
from repoagent.history.graph import printable_line
from repoagent.split import join as segments
from repoagent.split.folder_index import display_path, lock_split, quoted_path, read_index
from repoagent.split.folder_writer import finish_update
from repoagent.split.join import MergeResult, SegmentConflict, SegmentEdits
from repoagent.split.refresh import refresh_split
from repoagent.split.source import missing_source_message, wide_encoding, worktree_of
from repoagent.storage.atomic import write_whole
from repoagent.syntax.regressions import parses_worse

# (path, what conflicts, the diff of what is discarded) -> whether to continue
Discards = Callable[[str, Sequence[SegmentConflict], str], bool]


@dataclass(frozen=True)
class JoinedSegment:
    file: str
    added: int
    removed: int
    how: segments.How
    notes: tuple[str, ...]  # on repairs in the file


@dataclass(frozen=True)
class JoinOutcome(ApplyOutcome):
    source: str  # its path in the split's index
    index: Path
    segments: tuple[JoinedSegment, ...]
    other_files: tuple[str, ...]
    diff: Path | None  # the saved diff, None for a dry run
    fresh: bool  # whether the folder was refreshed


def join_split(
    path: Path,
    cwd: Path,
    request: EditRequest,
    settings: Settings,
    ui: UserInterface,
    *,
    discards: Discards | None = None,
) -> JoinOutcome:
    """Join the edited segments of the split at `path` (its folder or index) into its source, and commit the result.

    `request.instruction` is the commit message, "" for a generated one. `discards` is called before changes to the
    source are discarded in favor of segments; if it is None, JoinConflict is raised instead. Raises NothingDone if
    there is nothing to join (the folder is refreshed then), and what reading, merging and committing raise. After an
    error the source, the index, the branch and the segments are unchanged.
    """
    started = time.monotonic()
    done = None
    with nullcontext() if request.dry_run else lock_split(read_index(path).folder):
        index = read_index(path)
        if index.pending and not request.dry_run:  # a killed command was updating the folder
            index = finish_update(index)
        name, folder = index.source.path, index.folder
        if name.startswith("/"):
            raise UsageError(
                f"{name} is not in a git repository: run `git init` in its folder, then split it again"
            )
        edits = segments.read_segment_edits(index, cwd)
        worktree = worktree_of(index, cwd)
        if worktree is None:
            raise UsageError(
                f"{name}, the source of {display_path(folder, cwd)}, belongs to a repository: run the "
                "command inside that repository"
            )
        request = replace(request, targets=(Target(name),))
        preflight(worktree, request)
        source = _source(worktree, edits, request)
        merged = segments.merge_edits(worktree, edits, source.data or b"")
        if merged.conflicts and discards is None:
            raise segments.JoinConflict(name, merged.conflicts)
        if merged.conflicts and discards and not discards(name, merged.conflicts, merged.discarded):
            raise NothingDone("cancelled: nothing was changed.")
        if request.parse_check and (reason := parses_worse(name, source.data or b"", merged.data)):
            files = ", ".join(segments.breaking_segments(edits)) or "the segments"
            raise Refused(
                f"after the join, {reason.rstrip('.')}; fix {files} and join again, or use --no-parse-check"
            )
        if source.content and merged.data != source.data:
            change = FileChange.at(name, source.content, replace(source.content, data=merged.data))
            session = EditSession(worktree, request, Draft({name: source}).with_changes([change]))
            words = request.instruction or compose_message(f"Change {printable_line(name)}", "")
            remarks = (*edits.notes, *_remarks(edits, source, merged))
            edit_id, result = commit_change(
                session, settings, ui, lambda _: words, kind="join", remarks=remarks
            )
            saved = None
            with defer_signals():
                try:
                    diff, number = folder / "join.diff", 1
                    while diff.exists() or diff.is_symlink():
                        number += 1
                        diff = folder / f"join-{number}.diff"
                    if result.written:
                        data = result.proposal.diff.encode("utf-8", "surrogateescape")
                        write_whole(diff, data, private=False)
                        saved = diff
                except (RepoagentError, OSError) as error:
                    ui.say(f"warning: could not save the diff ({error})")
            done = edit_id, result, saved
    fresh = False
    if not request.dry_run:
        # from the current source, except files that were saved after the join, which is done: a failure is a warning
        with defer_signals():
            try:
                refreshed = refresh_split(
                    folder, cwd, joined={edit.file: edit.file_hash for edit in edits.edits}
                )
            except (RepoagentError, OSError) as error:
                again = f"retry with `repoagent split --refresh {quoted_path(folder, cwd)}`"
                ui.say(f"warning: could not update {display_path(folder, cwd)} ({error}); {again}")
            else:
                fresh = True
                if refreshed.edited:
                    ui.say(f"note: kept your newer changes in {', '.join(refreshed.edited)}")
    if done is None:
        updated = f", and {display_path(folder, cwd)} is up to date" if fresh else ""
        raise NothingDone(f"nothing to join: {name} already has your edits{updated}")
    edit_id, result, saved = done
    joined = tuple(
        JoinedSegment(edit.file, *edit.counts(), merged.how[edit.file], edit.notes) for edit in edits.edits
    )
    return JoinOutcome(
        edit_id, result, time.monotonic() - started - ui.waited,
        name, index.path, joined, edits.other_files, saved, fresh,
    )  # fmt: skip


def _source(worktree: WorkTree, edits: SegmentEdits, request: EditRequest) -> Source:
    """Read the source of the split. Raises Refused if it is missing, a link, binary, or off limits."""
    name = edits.index.source.path
    if request.commits:
        refuse_operation(worktree)
    if reason := off_limits_gate(worktree.top, request.paths)(name):
        raise Refused(reason)
    source = read_source(worktree, name)
    if source.data is None:
        raise Refused(missing_source_message(edits.index, Path.cwd()))
    if edits.index.source.encoding != "binary" and source.blob != edits.index.source.blob:
        if encoding := wide_encoding(source.data):
            raise Refused(f"{name} is now encoded in {encoding}: save it as UTF-8 and join again")
        if source.binary:
            raise Refused(f"{name} is now binary but was text when it was split: split it again")
    refuse_untracked(worktree, request, {name: source})
    return source


def _remarks(edits: SegmentEdits, source: Source, merged: MergeResult) -> list[str]:
    path = edits.index.source.path
    both = [file for file, kind in merged.how.items() if kind == "merged"]
    already = [file for file, kind in merged.how.items() if kind == "already"]
    remarks = []
    if both:
        remarks.append(f"merged the changes to {path} since the split with your edits in {', '.join(both)}")
    elif source.data != edits.base:
        remaining = "other " if merged.discarded else ""
        remarks.append(f"{path} has changed since the split; kept its {remaining}changes")
    if already:
        remarks.append(f"{path} already contains the edits in {', '.join(already)}")
    if merged.discarded:
        files = ", ".join(dict.fromkeys(file for conflict in merged.conflicts for file in conflict.files))
        remarks.append(f"discarded changes to {path} in favor of {files}; `repoagent undo` restores them")
    return remarks
