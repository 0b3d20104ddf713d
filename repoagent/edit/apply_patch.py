"""Apply a patch that does not come from a model: as a commit in a repository, or to a plain folder.

In a folder without a repository all files are written or none, without a commit or memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit import apply_input
from repoagent.edit.apply_input import PatchInput, Tree
from repoagent.edit.checks import CheckResult, preflight, refuse_untracked, run_check
from repoagent.edit.commit import (
    CommitOutcome,
    SentBack,
    check_failure,
    new_edit_id,
    trailers_of,
    with_trailers,
)
from repoagent.edit.draft import Draft, EditSession
from repoagent.edit.guards.off_limits import gate, holds_secrets, why_content_is_off_limits
from repoagent.edit.request import EditRequest, Target, named_files
from repoagent.edit.review_and_commit import agreed, review_and_commit
from repoagent.edit.ui import Proposal, UserInterface
from repoagent.errors import NothingDone, Refused, RepoagentError, UsageError
from repoagent.git import file_writer
from repoagent.git.files import FileChange, Source, blob_hash, check_path, is_ignored, look, read_source
from repoagent.git.process import git, uninterrupted
from repoagent.git.transaction.plan import refuse_operation
from repoagent.git.worktree import WorkTree, layout
from repoagent.patch.apply_answer import Applied, apply_patches
from repoagent.patch.errors import NOTHING_TO_DO, NoPatch, PatchRefused
from repoagent.patch.model import FilePatch, SourceText, decode
from repoagent.patch.paths import NO_FILE, known_path, spellings
from repoagent.storage.json_files import now
from repoagent.storage.layout import ensure

if TYPE_CHECKING:
    from repoagent.edit.memory import Story


@dataclass(frozen=True)
class ApplyOutcome:
    """The outcome; `seconds` is wall time without the time spent waiting for the user."""

    edit_id: str
    result: CommitOutcome
    seconds: float

    @property
    def kind(self) -> str:
        return self.result.kind


def apply(
    worktree: WorkTree,
    patch_input: PatchInput,
    request: EditRequest,
    settings: Settings,
    ui: UserInterface,
    *,
    prefix: str = "",
    bindings: Mapping[str, str] | None = None,
) -> ApplyOutcome:
    """Apply the patch and commit it as the user's own.

    `request.targets` is the file of a patch that names none, `request.instruction` the commit message ("" for that of
    the patch). Names may be relative to the folder `prefix` ("" or ending in /); `bindings` has the blobs that the
    patch was made for, by path. Raises the errors of its steps; files, index and branch are then unchanged.
    """
    started = time.monotonic()
    preflight(worktree, request)
    if request.commits:
        refuse_operation(worktree)
    session, remarks = _in_repository(worktree, patch_input, request, prefix, bindings or {})
    touched = tuple(Target(change.old_path or change.name) for change in session.draft.edits)
    refuse_untracked(worktree, replace(request, targets=touched), session.draft.sources)
    words = request.instruction or patch_input.message

    def message(changes: Sequence[FileChange]) -> str:
        return words or apply_input.plain_message(patch_input.name, changes)

    edit_id, result = commit_change(session, settings, ui, message, remarks=remarks)
    return ApplyOutcome(edit_id, result, time.monotonic() - started - ui.waited)


def apply_outside(
    top: Path, patch_input: PatchInput, request: EditRequest, ui: UserInterface
) -> ApplyOutcome:
    """Apply the patch to the files of the folder `top`, to which its names are relative.

    Raises the errors of its steps, and CheckFailed for a failed check. The files are then unchanged, except those that
    another program saved at the same time.
    """
    started = time.monotonic()
    patches = apply_input.with_names(
        apply_input.read_patches(patch_input),
        patch_input,
        request.paths,
        lambda name: apply_input.is_there(top, name, ()),
    )
    names = {name for name in apply_input.spelled(patches) if apply_input.is_there(top, name, ())}
    files = Tree(names, lambda path: _read_outside(top, path, request))
    applied = _place(patches, files, patch_input, request)
    draft = Draft(_touched(applied.changes, files)).with_changes(applied.changes)
    session = EditSession(no_repository(top), request, draft, placements=list(applied.placements))
    edit_id, result = write_outside(session, ui)
    return ApplyOutcome(edit_id, result, time.monotonic() - started - ui.waited)


def no_repository(top: Path) -> WorkTree:
    """A WorkTree for a folder without a repository: only `top` may be used."""
    return WorkTree(top, top / ".git", top / ".git")


def commit_change(
    session: EditSession,
    settings: Settings,
    ui: UserInterface,
    words: Callable[[Sequence[FileChange]], str],
    *,
    kind: str = "apply",
    remarks: tuple[str, ...] = (),
) -> tuple[str, CommitOutcome]:
    """Commit a change that does not come from a model, with the message `words` and our trailers, and record it in
    memory as `kind`.

    Returns its id and the outcome. Raises as `review_and_commit`; CheckFailed for a failed check or hook.
    """
    edit_id, worktree, draft = new_edit_id(), session.worktree, session.draft

    def commit() -> CommitOutcome:
        def message(changes: Sequence[FileChange]) -> str:
            trailers = trailers_of(worktree, settings, "", edit_id, changes)
            return with_trailers(words(changes), trailers, worktree.top)

        try:
            return review_and_commit(session, edit_id, message, ui, lambda: "", remarks=remarks)
        except SentBack as setback:
            raise _user_error(setback) from setback

    if session.request.dry_run or not settings.switch("memory.enabled"):
        return edit_id, commit()
    from repoagent.edit.memory import remember
    from repoagent.edit.pending_memory import pending, to_remember
    from repoagent.memory.identity.store import resolve

    memories = {
        path: memory
        for path, source in draft.sources.items()
        if source.data is not None
        and (memory := resolve(layout(worktree), worktree, path, source.data)) is not None
    }
    story = _story(draft, edit_id, words(draft.edits).strip(), kind)
    with pending(worktree, edit_id, "edit") as record:
        record.keep(memories, to_remember(story, draft.edits, session.placements))
        result = commit()
        with uninterrupted():  # the change is made: defer ^C, and only warn if the memory cannot be written
            try:
                ensure(layout(worktree))
                remember(worktree, story, draft.sources, memories, (), result=result)
            except (RepoagentError, OSError) as error:
                ui.say(
                    f"warning: could not record this change in memory ({error}); the next command will retry"
                )
            else:
                record.drop()
    return edit_id, result


def _story(draft: Draft, edit_id: str, words: str, kind: str) -> Story:
    """The record of the change for the memory of its files; `words` is the commit message."""
    from repoagent.edit.memory import Story
    from repoagent.llm.conversation import Turn
    from repoagent.llm.model import Usage

    files = named_files([Target(change.name) for change in draft.edits])
    turn = Turn("user", words, {"edit": edit_id, "time": now(), "kind": kind, **files})
    return Story(
        edit_id=edit_id, request=words, turns=(turn,), notes=(), ended="applied", answer="", model="",
        usage=Usage(), cost=None,
    )  # fmt: skip


def _user_error(setback: SentBack) -> RepoagentError:
    """Turn a setback, which a model would have to correct, into an error for the user."""
    if setback.kind == "person":
        return NothingDone("cancelled: nothing was changed.")
    return setback.failure("" if setback.kind == "hook" else "Nothing was changed.")


def _in_repository(
    worktree: WorkTree,
    patch_input: PatchInput,
    request: EditRequest,
    prefix: str,
    bindings: Mapping[str, str],
) -> tuple[EditSession, tuple[str, ...]]:
    """Apply the patch to the current files; returns the session, and notes for the user."""
    known = apply_input.tracked(worktree)

    def exists(name: str) -> bool:
        return apply_input.is_there(worktree.top, name, known)

    def exists_somewhere(name: str) -> bool:
        return exists(name) or exists(prefix + name) or known_path([name], known) is not None

    patches = apply_input.with_names(
        apply_input.read_patches(patch_input, known), patch_input, request.paths, exists_somewhere
    )
    patches = apply_input.from_here(patches, exists, prefix)
    names = apply_input.spelled(patches)
    # all names count as named by the user here, so that only `.repoagentignore` applies; `_read` checks for secrets
    why_not = gate(worktree.top, known | names)

    def read(path: str) -> Source:
        if reason := why_not(path):
            raise Refused(reason)
        return _read(worktree, path, request, is_known=path in known)

    present = Tree(known | set(filter(exists, names)), read)
    bound = {
        path: apply_input.bound_source(worktree, present.source(path), blob)
        for path, blob in bindings.items()
    }
    files = Tree(tuple(present), lambda path: bound.get(path) or present.source(path)) if bound else present
    applied = _place(patches, files, patch_input, request)
    if unchanged := bindings.keys() - {change.old_path for change in applied.changes}:
        raise UsageError(f"--source {', '.join(sorted(unchanged))}: the patch does not change that file")
    changes = tuple(_rebased(worktree, request, change, present) for change in applied.changes)
    remarks = [
        f"{path} has changed since {bindings[path]}; the change was merged into its current text"
        for path, source in bound.items()
        if source.blob != present.source(path).blob
    ]
    if patch_input.author and not request.commit.no_commit:
        me = git(worktree.top, "var", "GIT_AUTHOR_IDENT", ok=(0, 1, 128)).decode("utf-8", "replace")
        if not me or not patch_input.author.endswith(me[me.find("<") : me.find(">") + 1]):
            remarks.append(
                f"the patch was written by {patch_input.author}, but you are the author of the commit; "
                "`git am` keeps the author"
            )
    draft = Draft(_touched(changes, present)).with_changes(changes)
    if not draft.edits:
        raise NothingDone(f"no changes: the files already match {patch_input.name}")
    return EditSession(worktree, request, draft, placements=list(applied.placements)), tuple(remarks)


def _touched(changes: Sequence[FileChange], files: Tree) -> dict[str, Source]:
    return {path: files.source(path) for change in changes for path in (change.old_path, change.path) if path}


def _refuse_off_limits(path: str, request: EditRequest, data: bytes | None = None) -> None:
    """Raise Refused for likely secrets and generated files, unless the user named the file itself."""
    if path in request.paths or request.allow_sensitive:
        return
    if holds_secrets(path):
        raise Refused(
            f"{path} has a name that is typical of secrets: use --allow-sensitive to let the patch change it"
        )
    if data is not None and (reason := why_content_is_off_limits(data)):
        raise Refused(f"refusing to edit {path}: {reason}; use --allow-sensitive to edit it anyway")


def _read(worktree: WorkTree, path: str, request: EditRequest, *, is_known: bool) -> Source:
    """Read a file that a patch names; `is_known`: git tracks it. Raises Refused if a patch may not change it."""
    _refuse_off_limits(path, request)
    source = read_source(worktree, path)
    if not is_known and path not in request.paths and path in is_ignored(worktree, [path]):
        raise Refused(
            f"{path} is ignored by git, so a patch may not change it: use --path {path} to allow it"
        )
    _refuse_off_limits(path, request, source.data)
    return source


def _read_outside(top: Path, path: str, request: EditRequest) -> Source:
    """Read a file without following symbolic links. Raises Refused if a patch may not change it."""
    check_path(path)
    _refuse_off_limits(path, request)
    for folder in [path, *(parent.as_posix() for parent in Path(path).parents)][:-1]:
        if (top / folder).is_symlink():
            where = "is a symbolic link" if folder == path else f"leads through {folder}, a symbolic link"
            raise Refused(f"{path} {where}: name its target")
    if (top / path).is_dir():
        raise Refused(f"{path} is a folder: name a file in it")
    try:
        content = look(top, path)
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from error
    if content is None:
        return Source(path, None, None, "")
    _refuse_off_limits(path, request, content.data)
    return Source(path, content.data, content.mode, blob_hash(content.data))


def _place(
    patches: Sequence[FilePatch], files: Tree, patch_input: PatchInput, request: EditRequest
) -> Applied:
    """Apply the patches to `files`. Raises NothingDone if they are already applied, PatchRefused, and what reading
    raises."""
    from repoagent.syntax.regressions import parses_worse

    try:
        applied = apply_patches(
            patches, files, may_create=lambda path: files.source(path).data is None, strict=request.strict,
            parses_worse=parses_worse if request.parse_check else None,
        )  # fmt: skip
    except NoPatch:
        raise Refused(f"{patch_input.name} contains no patch for these files") from None
    except PatchRefused as error:
        if error.reasons <= NOTHING_TO_DO or _is_applied(patches, files):
            raise NothingDone(f"no changes: {patch_input.name} is already applied") from error
        raise
    if any(placement.level == "whole-file" for placement in applied.placements):
        from repoagent.edit.guards.unrequested_losses import left_out

        if lost := left_out(applied, f"{patch_input.message} {request.instruction}", patch_input.text):
            raise Refused(lost)
    return applied


def _is_applied(patches: Sequence[FilePatch], files: Mapping[str, SourceText]) -> bool:
    """Whether `files` already contain all changes of the patches, under exactly the names in the patches."""
    edits: list[FilePatch] = []
    for patch in patches:
        old, new = spellings(patch.old, patch.new)
        if patch.action == "create" or patch.old == NO_FILE:
            applied = any(_has_content(patch, files[name]) for name in new if name in files)
        elif patch.action == "delete" or patch.new == NO_FILE:
            applied = not any(name in files for name in old)
        elif patch.action == "rename":
            applied = patch.old not in files and patch.new in files
            if patch.hunks:
                edits.append(replace(patch, action="edit", old=f"a/{patch.new}", new=f"b/{patch.new}"))
        else:
            applied = True
            edits.append(patch)
        if not applied:
            return False
    try:
        if edits:
            apply_patches(edits, files)
    except PatchRefused as error:
        return error.reasons <= NOTHING_TO_DO
    return not edits


def _has_content(patch: FilePatch, source: SourceText) -> bool:
    text = decode(source.data)
    if text is None:
        return False
    if patch.whole is not None:
        return patch.whole.rstrip("\n") == "\n".join(text.lines).rstrip("\n")
    return tuple(line.text for hunk in patch.hunks for line in hunk.new) == text.lines


def _rebased(worktree: WorkTree, request: EditRequest, change: FileChange, present: Tree) -> FileChange:
    """Merge the change of an older text (`--source`) into the current one, by git's three-way merge. Raises Refused on
    conflict, and if the merged text does not parse although both texts do."""
    source = present.sources.get(change.old_path or "")
    if source is None or source.data is None or source.data == change.before:
        return change
    from repoagent.git.merge import Conflict, lines_text, merge
    from repoagent.syntax.regressions import parses_worse

    if change.after is None or change.before is None:
        raise Refused(
            f"{change.name} has changed since the patch that deletes it was made: review it and recreate the patch"
        )
    merged = merge(worktree, source.data, change.before, change.after)
    if isinstance(merged, Conflict):
        where = f" on {lines_text(merged.lines)} of that text" if merged.lines else ""
        raise Refused(f"{change.name} has changed{where} since the patch was made: recreate the patch")
    if request.parse_check and (reason := parses_worse(change.name, source.data, merged)):
        raise Refused(f"merged into the current text, {reason} Use --no-parse-check to accept it.")
    return replace(change, before=source.data, after=merged)


def write_outside(
    session: EditSession, ui: UserInterface, remarks: tuple[str, ...] = ()
) -> tuple[str, CommitOutcome]:
    """Review a change outside of any repository, write the files and run the check; restore the files on failure.
    Returns the id of the edit and the outcome."""
    edit_id, request, top = new_edit_id(), session.request, session.worktree.top
    try:
        proposal = agreed(session, edit_id, lambda changes: "", ui, lambda: "", remarks=remarks)
        if request.dry_run:
            return edit_id, CommitOutcome(proposal)
        check = _write_and_check(top, proposal, request, edit_id, ui)
    except SentBack as setback:
        raise _user_error(setback) from setback
    ui.quiet()
    return edit_id, CommitOutcome(proposal, True, None, check)


def _write_and_check(
    top: Path, proposal: Proposal, request: EditRequest, edit_id: str, ui: UserInterface
) -> CheckResult | None:
    steps = file_writer.steps_of(proposal.changes, edit_id)
    steps = file_writer.with_permissions(top, steps, proposal.changes)
    file_writer.refuse_moved(top, steps)
    folders = file_writer.new_folders(top, steps)
    result = None
    try:
        for step in steps:
            file_writer.write_step(top, step)
        if request.check:
            result = run_check(
                request.check, no_repository(top), accepted=proposal.accepted, running=ui.running
            )
            if not result.passed:
                raise check_failure(result, top)
    except BaseException as error:
        left = []  # files that another program has saved since
        with uninterrupted():
            for step in reversed(steps):
                try:
                    restored = file_writer.revert_step(top, step)
                except Refused:  # no longer writable: restore the other files
                    restored = False
                left += [] if restored else [step.path]
            for folder in folders:
                try:
                    (top / folder).rmdir()
                except OSError:  # not made yet, or not empty
                    continue
        if left and isinstance(error, (SentBack, RepoagentError)):
            reason = error.shown if isinstance(error, SentBack) else error
            raise Refused(
                f"another program has changed {', '.join(left)}, which was left alone; {reason}"
            ) from error
        raise
    return result
