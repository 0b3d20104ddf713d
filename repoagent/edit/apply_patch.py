"""Apply a patch that did not come from a model: as a commit in a repository, or to a plain folder.

In a folder without a repository the files are written all or none, without a commit or memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.apply_input import (
    PatchInput,
    Tree,
    bound_source,
    from_here,
    is_there,
    place_patches,
    plain_message,
    read_patches,
    reader,
    rebase_changes,
    spelled,
    tracked,
    untracked,
    with_names,
)
from repoagent.edit.checks import preflight, refuse_untracked, run_check
from repoagent.edit.commit import (
    CommitOutcome,
    SentBack,
    check_failure,
    new_edit_id,
    trailers_of,
    with_trailers,
)
from repoagent.edit.guards.off_limits import holds_secrets, why_content_is_off_limits
from repoagent.edit.request import Draft, EditRequest, Target, named_files
from repoagent.edit.review_and_commit import agreed, review_and_commit
from repoagent.edit.ui import Proposal, UserInterface
from repoagent.errors import NothingDone, Refused, RepoagentError, UsageError
from repoagent.git.file_writer import (
    Step,
    new_folders,
    refuse_moved,
    revert_step,
    steps_of,
    with_permissions,
    write_step,
)
from repoagent.git.files import FileChange, Source, blob_hash, check_path, look
from repoagent.git.process import git, uninterrupted
from repoagent.git.transaction.plan import refuse_operation
from repoagent.git.worktree import WorkTree, layout
from repoagent.memory.identity.store import resolve
from repoagent.patch.locate.exact import Placement
from repoagent.patch.paths import known_path
from repoagent.storage.json_files import now
from repoagent.storage.layout import ensure

if TYPE_CHECKING:
    from repoagent.edit.memory import Story
    from repoagent.memory.identity.record import Memory


@dataclass
class ApplySession:
    """The change to be committed, as `review_and_commit` takes it; see `repoagent.edit.commit`."""

    worktree: WorkTree
    request: EditRequest
    draft: Draft
    placements: list[Placement]
    resume_hint: str = ""


@dataclass(frozen=True)
class ApplyOutcome:
    """How it ended; `seconds` is wall time without the time spent waiting for the user."""

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

    `request.targets` has the file for a patch that names none, `instruction` the commit message ("" for the patch's
    own). Names may be relative to the folder `prefix` ("" or ending in /); `bindings` has the blob that the patch was
    made for, by path. Raises what each step raises; the user's files, index and branch are unchanged then.
    """
    started = time.monotonic()
    preflight(worktree, request)
    if not (request.commit.no_commit or request.dry_run):
        refuse_operation(worktree)
    session, remarks = _placed(worktree, patch_input, request, prefix, bindings or {})
    changes = session.draft.edits
    touched = tuple(Target(path) for path in dict.fromkeys(c.old_path or c.name for c in changes))
    refuse_untracked(worktree, replace(request, targets=touched), session.draft)
    words = request.instruction or patch_input.message
    edit_id, result = commit_change(
        session,
        settings,
        ui,
        lambda changes: words or plain_message(patch_input.name, changes),
        remarks=remarks,
    )
    return ApplyOutcome(edit_id, result, time.monotonic() - started - ui.waited)


def commit_change(
    session: ApplySession,
    settings: Settings,
    ui: UserInterface,
    words: Callable[[Sequence[FileChange]], str],
    *,
    kind: str = "apply",
    remarks: tuple[str, ...] = (),
) -> tuple[str, CommitOutcome]:
    """Commit a change that no model has made, with the message `words` and our trailers, and remember it as a `kind`.

    Returns its id and the outcome. Raises as `review_and_commit`, a failed check or hook as CheckFailed.
    """
    edit_id = new_edit_id()
    worktree = session.worktree

    def message(changes: Sequence[FileChange]) -> str:
        return with_trailers(
            words(changes), trailers_of(worktree, settings, "", edit_id, changes), worktree.top
        )

    if session.request.dry_run or not settings.switch("memory.enabled"):
        return edit_id, _commit(session, edit_id, message, ui, remarks)
    from repoagent.edit.memory import remember
    from repoagent.edit.pending_memory import pending, to_remember

    before = dict(session.draft.sources)
    story, memories = _story(session, edit_id, words(session.draft.edits).strip(), kind), _memories(session)
    with pending(worktree, edit_id, "edit") as record:
        record.keep(memories, to_remember(story, session.draft.edits, session.placements))
        result = _commit(session, edit_id, message, ui, remarks)
        with uninterrupted():  # the change is made: neither ^C nor a memory that cannot be written undoes it
            try:
                ensure(layout(worktree))
                remember(worktree, story, before, memories, (), result=result)
            except (RepoagentError, OSError) as error:
                ui.say(
                    f"warning: could not record this change in memory ({error}); the next command will retry"
                )
            else:
                record.drop()
    return edit_id, result


def _commit(
    session: ApplySession,
    edit_id: str,
    message: Callable[[Sequence[FileChange]], str],
    ui: UserInterface,
    remarks: tuple[str, ...],
) -> CommitOutcome:
    try:
        return review_and_commit(session, edit_id, message, ui, lambda: "", remarks=remarks)
    except SentBack as setback:
        raise user_error(setback) from setback


def _story(session: ApplySession, edit_id: str, words: str, kind: str) -> Story:
    """The change as its files remember it; `words` is its message."""
    from repoagent.edit.memory import Story
    from repoagent.llm.conversation import Turn
    from repoagent.llm.model import Usage

    files = [Target(change.name) for change in session.draft.edits]
    meta = {"edit": edit_id, "time": now(), "kind": kind, **named_files(files)}
    return Story(
        edit_id=edit_id, request=words, turns=(Turn("user", words, meta),), notes=(), ended="applied", answer="",
        model="", usage=Usage(), cost=None,
    )  # fmt: skip


def _memories(session: ApplySession) -> dict[str, Memory]:
    dirs = layout(session.worktree)
    found = {
        path: resolve(dirs, session.worktree, path, source.data)
        for path, source in session.draft.sources.items()
        if source.data is not None
    }
    return {path: memory for path, memory in found.items() if memory is not None}


def _placed(
    worktree: WorkTree,
    patch_input: PatchInput,
    request: EditRequest,
    prefix: str,
    bindings: Mapping[str, str],
) -> tuple[ApplySession, tuple[str, ...]]:
    """The patch as a change of the files in their current state, and what to tell the user of it."""
    known = tracked(worktree)

    def there(name: str) -> bool:
        return is_there(worktree.top, name, known)

    def meant(name: str) -> bool:
        return there(name) or there(prefix + name) or known_path([name], known) is not None

    patches = from_here(
        with_names(read_patches(patch_input, known), patch_input, request.paths, meant), there, prefix
    )
    read = reader(worktree, request, known, spelled(patches))
    present = Tree(known | untracked(worktree.top, patches, known), read)
    bound = {path: bound_source(worktree, present.source(path), blob) for path, blob in bindings.items()}
    files = Tree(tuple(present), lambda path: bound.get(path) or present.source(path)) if bound else present
    applied = place_patches(patches, files, patch_input, request)
    if strangers := bindings.keys() - {change.old_path for change in applied.changes}:
        raise UsageError(f"--source {', '.join(sorted(strangers))}: the patch does not change that file")
    changes = rebase_changes(worktree, applied.changes, present.sources)
    if request.parse_check:
        _refuse_worse(changes, applied.changes)
    moved = [path for path, source in bound.items() if source.blob != present.source(path).blob]
    remarks = tuple(
        f"{path} has changed since {bindings[path]}; the change was merged into its current text"
        for path in moved
    )
    sources = {
        path: present.source(path) for change in changes for path in (change.old_path, change.path) if path
    }
    if patch_input.author and not request.commit.no_commit and not _is_me(worktree, patch_input.author):
        remarks += (
            f"the patch was written by {patch_input.author}, but you are the author of the commit; "
            "`git am` keeps the author",
        )
    draft = Draft(sources).with_changes(changes)
    if not draft.edits:
        raise NothingDone(f"no changes: the files already match {patch_input.name}")
    return ApplySession(worktree, request, draft, list(applied.placements)), remarks


def _refuse_worse(changes: Sequence[FileChange], placed: Sequence[FileChange]) -> None:
    """Raise Refused where two texts that parse make, merged, one that does not."""
    from repoagent.syntax.regressions import parses_worse

    for change, before in zip(changes, placed, strict=True):
        if change is not before and (
            reason := parses_worse(change.name, change.before or b"", change.after or b"")
        ):
            raise Refused(f"merged into the current text, {reason} Use --no-parse-check to accept it.")


def _is_me(worktree: WorkTree, author: str) -> bool:
    me = git(worktree.top, "var", "GIT_AUTHOR_IDENT", ok=(0, 1, 128)).decode("utf-8", "replace")
    return bool(me) and author.endswith(me[me.find("<") : me.find(">") + 1])


def user_error(setback: SentBack) -> RepoagentError:
    """The error for the user where a model would have had to correct its edit."""
    if setback.kind == "person":
        return NothingDone("cancelled: nothing was changed.")
    return setback.failure("" if setback.kind == "hook" else "Nothing was changed.")


def apply_outside(
    top: Path, patch_input: PatchInput, request: EditRequest, ui: UserInterface
) -> ApplyOutcome:
    """Apply the patch to the files of the folder `top`, to which its names are relative.

    Raises what reading, placing and the user interface raise, and CheckFailed for a failed check. The files are
    unchanged then, except those that another program saved at the same time.
    """
    started = time.monotonic()
    patches = with_names(
        read_patches(patch_input), patch_input, request.paths, lambda name: is_there(top, name, ())
    )
    files = Tree(untracked(top, patches, ()), lambda path: _read(top, path, request))
    applied = place_patches(patches, files, patch_input, request)
    sources = {path: files.source(path) for c in applied.changes for path in (c.old_path, c.path) if path}
    draft = Draft(sources).with_changes(applied.changes)
    nowhere = WorkTree(
        top, top / ".git", top / ".git"
    )  # no repository, but all that is asked of it is the folder
    session = ApplySession(nowhere, request, draft, list(applied.placements))
    edit_id = new_edit_id()
    try:
        proposal = agreed(session, edit_id, lambda changes: "", ui, lambda: "")
        result = (
            CommitOutcome(proposal) if request.dry_run else write_files(top, proposal, request, edit_id, ui)
        )
    except SentBack as setback:
        raise user_error(setback) from setback
    return ApplyOutcome(edit_id, result, time.monotonic() - started - ui.waited)


def _read(top: Path, path: str, request: EditRequest) -> Source:
    """The file, no symbolic link followed. Raises Refused for one that a patch may not touch."""
    check_path(path)
    named = path in request.paths or request.allow_sensitive
    if not named and holds_secrets(path):
        raise Refused(
            f"{path} has a name that is typical of secrets: use --allow-sensitive to let the patch change it"
        )
    for folder in [path, *(parent.as_posix() for parent in Path(path).parents)][:-1]:
        if (top / folder).is_symlink():
            where = "is a symbolic link" if folder == path else f"leads through {folder}, a symbolic link"
            raise Refused(f"{path} {where}: name its target")
    if (top / path).is_dir():
        raise Refused(f"{path} is a folder: name a file in it")
    try:
        found = look(top, path)
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from error
    if found is None:
        return Source(path, None, None, "")
    if (reason := why_content_is_off_limits(found.data)) and not named:
        raise Refused(f"refusing to edit {path}: {reason}; use --allow-sensitive to edit it anyway")
    return Source(path, found.data, found.mode, blob_hash(found.data))


def write_files(
    top: Path, proposal: Proposal, request: EditRequest, edit_id: str, ui: UserInterface
) -> CommitOutcome:
    """Write the files and run the check; restore all of them on failure."""
    steps = with_permissions(top, steps_of(proposal.changes, edit_id), proposal.changes)
    refuse_moved(top, steps)
    folders = new_folders(top, steps)
    result = None
    try:
        for step in steps:
            write_step(top, step)
        if request.check:
            nowhere = WorkTree(top, top / ".git", top / ".git")
            result = run_check(request.check, nowhere, accepted=proposal.accepted, running=ui.running)
            if not result.passed:
                raise check_failure(result, top)
    except BaseException as error:
        with uninterrupted():
            left = _taken_back(top, steps, folders)
        if left and isinstance(error, (SentBack, RepoagentError)):
            names, said = ", ".join(left), error.shown if isinstance(error, SentBack) else error
            raise Refused(f"another program has changed {names}, which was left alone; {said}") from error
        raise
    ui.quiet()
    return CommitOutcome(proposal, True, None, result)


def _taken_back(top: Path, steps: Sequence[Step], folders: Sequence[str]) -> list[str]:
    """Restore what was written; returns the paths that another program has saved since."""
    left = []
    for step in reversed(steps):
        try:
            back = revert_step(top, step)
        except Refused:  # it cannot be written any more; the others can
            back = False
        left += [] if back else [step.path]
    for folder in folders:
        try:
            (top / folder).rmdir()
        except OSError:  # not made yet, or not empty
            continue
    return left
