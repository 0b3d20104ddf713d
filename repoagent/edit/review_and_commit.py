"""Turn a finished draft into a commit: compare it with the files on disk, ask the user, write, check and commit."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.edit.commit import CommitOutcome, SentBack, commit
from repoagent.edit.draft import Draft, EditSession
from repoagent.edit.guards.risky_changes import concerns_text, find_concerns, hidden_changes
from repoagent.edit.ui import CANCELLED, Decision, DiffStat, Proposal, UserInterface
from repoagent.errors import NothingDone, Refused, RepoagentError
from repoagent.git.file_writer import FilesChanged
from repoagent.git.files import REGULAR, SYMLINK, Content, FileChange, read_source
from repoagent.patch.apply_answer import apply_answer
from repoagent.patch.refusal import PatchRefused
from repoagent.patch.render import RenderedHunk, canonical_diff, hunks_of
from repoagent.storage.atomic import write_whole

Message = Callable[[tuple[FileChange, ...]], str]
_LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")
RELOCATIONS = 3  # give up if a file changes more often than this between the user's yes and the write


class _Sensitive(RepoagentError):
    def __init__(self, sentence: str, paths: tuple[str, ...]) -> None:
        super().__init__(sentence)
        self.paths = paths


class SensitiveNotRequested(_Sensitive, Refused):
    """The change contains the sensitive files `paths`, which were not requested, and there is no user to ask."""


class SensitiveRejected(_Sensitive, NothingDone):
    """The user rejected the change to the sensitive files `paths`."""


def review_and_commit(
    session: EditSession, edit_id: str, message: Message, ui: UserInterface, *, remarks: tuple[str, ...] = ()
) -> CommitOutcome:
    """Review the draft with the user, write it, run the check and commit, all or nothing.

    Raises SentBack if the user rejects the change with a reason or a check or hook fails, and NothingDone if the user
    rejects it without a reason or the draft is empty. Raises Refused if the change no longer applies or contains
    sensitive files that were not requested; the change is then saved as a patch file. Raises CannotCommitNow,
    CommitFailed or Busy if it cannot be committed now.
    """
    remarks = (*remarks, *apply_to_current_files(session, edit_id))
    proposal = propose_until_accepted(session, edit_id, message, ui, remarks=remarks)
    if session.request.dry_run:
        return CommitOutcome(proposal)
    for _ in range(RELOCATIONS):
        try:
            return commit(session, proposal, edit_id, ui)
        except FilesChanged:
            ui.note("a file has changed; applying the edit to its new content")
            session.draft = Draft(session.draft.sources, proposal.changes)
            remarks = (*proposal.remarks, *apply_to_current_files(session, edit_id))
            diff, stat = _diff(session, session.draft.edits)
            proposal = replace(
                proposal, changes=session.draft.edits, diff=diff, stat=stat,
                placements=tuple(session.placements), remarks=remarks,
            )  # fmt: skip
    saved = _save_patch(session, proposal.diff, edit_id)
    raise Refused(f"the files keep changing while repoagent writes them; {saved}")


def propose_until_accepted(
    session: EditSession, edit_id: str, message: Message, ui: UserInterface, *, remarks: tuple[str, ...] = ()
) -> Proposal:
    """Propose the draft to the user until it is accepted, and return the accepted proposal.

    A dry run does not ask. Raises what `review_and_commit` raises.
    """
    if not session.draft.edits:
        raise NothingDone("no changes: the files already match the model's answer.")
    proposal = _propose(session, session.draft.edits, message, remarks)
    if session.request.dry_run:
        return proposal
    while True:
        decision: Decision = ui.decide(proposal)
        if decision.kind == "no" and decision.reason:
            raise SentBack("person", f"The user rejected the change: {decision.reason}")
        if decision.kind == "no" or decision.changes == ():
            raise NothingDone(f"{CANCELLED}.")
        if decision.kind == "revise" and decision.changes:
            from repoagent.syntax.regressions import parses_worse

            edited = decision.changes if session.request.parse_check else ()
            reasons = (
                parses_worse(each.name, each.before, each.after) for each in edited if each.after is not None
            )
            if reason := next(filter(None, reasons), None):
                ui.say(f"edited diff not accepted: {reason} (use --no-parse-check to accept it)")
            else:
                proposal = _propose(session, decision.changes, message, remarks)
        else:
            break
    if decision.changes is not None and decision.changes != proposal.changes:
        proposal = _propose(session, decision.changes, message, remarks)
    unasked = [concern for concern in proposal.concerns if not concern.asked]
    if unasked and not session.request.allow_sensitive and not (answer := ui.agrees(unasked)):
        saved = _save_patch(session, proposal.diff, edit_id)
        paths = tuple(concern.path for concern in unasked)
        if answer is not None:
            raise SensitiveRejected(f"{CANCELLED}; {saved}", paths)
        use = "use --allow-sensitive to allow it"
        raise SensitiveNotRequested(
            f"the change goes beyond your request: {concerns_text(unasked)}; {use}; {saved}", paths
        )
    return replace(proposal, accepted=decision.by_person)


def apply_to_current_files(session: EditSession, edit_id: str) -> tuple[str, ...]:
    """Apply the draft to the current content of files that have changed since they were read.

    Only exact matches are accepted. Returns notes for the user. If the change no longer applies, saves it as a patch
    file and raises Refused.
    """
    edits, known = session.draft.edits, session.draft.sources
    touched = [path for change in edits for path in (change.old_path, change.path) if path]
    fresh = {path: read_source(session.worktree, path) for path in dict.fromkeys(touched)}
    stale = [path for path, source in fresh.items() if known.get(path, source).content != source.content]
    new = [change.path for change in edits if change.path and change.path != change.old_path]
    appeared = [path for path in new if fresh[path].data is not None]
    if not stale and not appeared:
        return ()
    diff = _diff(session, edits)[0]
    if appeared:
        raise Refused(f"another program created {', '.join(appeared)}; {_save_patch(session, diff, edit_id)}")
    texts = {path: source.content for path, source in fresh.items() if source.content is not None}
    try:
        applied = apply_answer(diff, texts, may_create=lambda path: path in new, strict=True)
    except PatchRefused as error:
        saved = _save_patch(session, diff, edit_id)
        raise Refused(f"{', '.join(stale)} changed, and the edit no longer applies; {saved}") from error
    session.draft = Draft({**known, **fresh}, applied.changes)
    session.placements = list(applied.placements)
    return (f"{', '.join(stale)} changed in the meantime; the edit was applied to the new content",)


def _propose(
    session: EditSession, changes: tuple[FileChange, ...], message: Message, remarks: tuple[str, ...]
) -> Proposal:
    from repoagent.syntax.regressions import parse_doubt

    diff, stat = _diff(session, changes)
    names, request = {change.name for change in changes}, session.request
    doubts = (
        parse_doubt(change.path, change.before, change.after)
        for change in changes
        if change.path is not None and change.after is not None
    )
    sensitive = find_concerns(changes, request.paths, session.worktree, request.sensitive)
    sentences = (concern.sentence for concern in sensitive)
    return Proposal(
        changes, diff, stat, message(changes),
        placements=tuple(placement for placement in session.placements if placement.path in names),
        remarks=(*remarks, *sentences, *hidden_changes(changes), *filter(None, doubts)),
        concerns=sensitive,
    )  # fmt: skip


def _diff(session: EditSession, changes: tuple[FileChange, ...]) -> tuple[str, DiffStat]:
    """The canonical diff of `changes`, verified by `read_back`."""
    diff = canonical_diff(changes, hash_name=session.worktree.object_format)
    return diff, read_back(diff, changes)


def _save_patch(session: EditSession, diff: str, edit_id: str) -> str:
    """Save a change that could not be applied; returns a clause that says where."""
    path = session.worktree.git_dir / "repoagent" / "proposals" / f"{edit_id}.patch"
    write_whole(path, diff.encode("utf-8", "surrogateescape"))
    return f"the change is saved in {path}"


def read_back(diff: str, changes: Sequence[FileChange]) -> DiffStat:
    """Parse `diff`, the canonical diff of `changes`, with an independent parser and count its lines.

    Raises ValueError if the hunks, applied to the old bytes, do not produce the new bytes. That is a bug, and nothing
    may be written.
    """
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    try:
        files = PatchSet(io.StringIO(diff, newline="\n"))
    except UnidiffParseError as error:
        raise ValueError(f"cannot parse the canonical diff: {error}") from error
    if len(files) != len(changes):
        raise ValueError(f"the canonical diff has {len(files)} files for {len(changes)} changes")
    for file, change in zip(files, changes, strict=True):
        if file.is_binary_file:
            continue
        lines, after, at = _LINE.findall(change.before or b""), list[bytes](), 0
        for hunk in file:  # apply it by line number alone
            start = hunk.source_start - (hunk.source_length > 0)
            after += lines[at:start]
            old: list[bytes] = []
            new: list[bytes] = []
            sides: list[list[bytes]] = []
            for line in hunk:
                if line.line_type == "\\":  # the previous line has no newline
                    for side in sides:
                        side[-1] = side[-1].removesuffix(b"\n")
                    continue
                sides = [side for side, types in ((old, " -"), (new, " +")) if line.line_type in types]
                for side in sides:
                    side.append(line.value.encode("utf-8", "surrogateescape"))
            at = start + len(old)
            if lines[start:at] != old:
                raise ValueError(f"the canonical diff of {change.name} quotes lines that do not exist")
            after += new
        if b"".join(after + lines[at:]) != (change.after or b""):
            raise ValueError(f"the canonical diff of {change.name} does not produce the bytes to write")
    return DiffStat(len(files), files.added, files.removed)


@dataclass(frozen=True)
class ChangePiece:
    """A part of a change that the user can accept on its own: a hunk, the rename, the new mode or the whole file.

    `change` is the index of the change.
    """

    change: int
    kind: Literal["file", "rename", "mode", "hunk"]
    hunk: RenderedHunk | None = None


def split_changes(changes: Sequence[FileChange]) -> tuple[ChangePiece, ...]:
    """The pieces of `changes`, in order. A new, deleted or binary file is one piece."""
    result: list[ChangePiece] = []
    for number, change in enumerate(changes):
        if _is_whole(change):
            result.append(ChangePiece(number, "file"))
            continue
        result += [ChangePiece(number, "rename")] if change.is_rename else []
        result += [ChangePiece(number, "mode")] if change.mode != change.old_mode else []
        if change.before != change.after:
            hunks = [ChangePiece(number, "hunk", hunk) for hunk in hunks_of(change)]
            result += hunks or [ChangePiece(number, "file")]  # binary
    return tuple(result)


def _is_whole(change: FileChange) -> bool:
    """Whether the file is new, deleted, or changes from or to a symbolic link."""
    changes_type = change.mode != change.old_mode and SYMLINK in (change.mode, change.old_mode)
    return change.is_new or change.is_deletion or changes_type


def split_piece(piece: ChangePiece) -> tuple[ChangePiece, ...]:
    """Split a hunk into its runs of changed lines; a piece that cannot be split is returned alone."""
    if piece.hunk is None:
        return (piece,)
    ranges = piece.hunk.ranges
    starts = [piece.hunk.start, *(end for _, end, _, _ in ranges[:-1])]
    ends = [*(start for start, _, _, _ in ranges[1:]), piece.hunk.end]
    return tuple(
        replace(piece, hunk=replace(piece.hunk, ranges=(part,), start=start, end=end))
        for part, start, end in zip(ranges, starts, ends, strict=True)
    )


def select_pieces(changes: Sequence[FileChange], accepted: Collection[ChangePiece]) -> list[FileChange]:
    """Reduce `changes` to the `accepted` pieces or parts of pieces, byte for byte; omit changes that become empty.

    Raises Refused if an accepted piece needs a path that a rejected piece would have freed.
    """
    chosen = []
    for number, change in enumerate(changes):
        own = [piece for piece in accepted if piece.change == number]
        kinds = {piece.kind for piece in own}
        if _is_whole(change):
            chosen += [change] if kinds else []
            continue
        path = change.path if "rename" in kinds else change.old_path
        mode = change.mode if "mode" in kinds else change.old_mode
        after = change.after or b""
        if "file" not in kinds:  # the old bytes, with the ranges of the accepted hunks from the new bytes
            before, new = (io.BytesIO(data or b"").readlines() for data in (change.before, change.after))
            lines, done = list[bytes](), 0
            for a, b, c, d in sorted(part for piece in own if piece.hunk for part in piece.hunk.ranges):
                lines += before[done:a] + new[c:d]
                done = b
            after = b"".join(lines + before[done:])
        part = FileChange(change.old_path, path, change.old, Content(after, mode or REGULAR))
        chosen += [] if part.is_noop else [part]
    freed, still_freed = ({c.old_path for c in group if c.old_path != c.path} for group in (changes, chosen))
    for change in sorted(chosen, key=lambda change: change.name):
        if change.path and change.path != change.old_path and change.path in freed - still_freed:
            raise Refused(f"cannot create {change.name}: the removal of the existing file is not selected")
    return chosen
