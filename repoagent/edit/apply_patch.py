"""Apply a patch that does not come from a model, and commit it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit import apply_input
from repoagent.edit.apply_input import PatchInput
from repoagent.edit.checks import preflight, refuse_untracked
from repoagent.edit.commit import CommitOutcome, SentBack, new_edit_id, signed
from repoagent.edit.draft import Draft, EditSession
from repoagent.edit.guards.off_limits import gate, holds_secrets, why_content_is_off_limits
from repoagent.edit.request import EditRequest, Target, named_files
from repoagent.edit.review_and_commit import review_and_commit
from repoagent.edit.ui import UserInterface
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.git.files import REGULAR, FileChange, Source, is_ignored, read_source
from repoagent.git.process import git
from repoagent.git.transaction.plan import refuse_operation
from repoagent.git.worktree import WorkTree
from repoagent.patch.apply_answer import apply_patches
from repoagent.patch.errors import NOTHING_TO_DO, NoPatch, PatchRefused
from repoagent.patch.model import FilePatch, SourceText, decode
from repoagent.patch.paths import NO_FILE, bad_path, spellings
from repoagent.storage.json_files import now


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
    session, remarks = _placed(worktree, patch_input, request, prefix, bindings or {})
    touched = tuple(Target(change.old_path or change.name) for change in session.draft.edits)
    refuse_untracked(worktree, replace(request, targets=touched), session.draft.sources)
    words = request.instruction or patch_input.message

    def message(changes: Sequence[FileChange]) -> str:
        return words or apply_input.plain_message(patch_input.name, changes)

    edit_id, result = commit_change(session, settings, ui, message, remarks=remarks)
    return ApplyOutcome(edit_id, result, time.monotonic() - started - ui.waited)


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
    edit_id, worktree, changes = new_edit_id(), session.worktree, session.draft.edits

    def make_commit() -> CommitOutcome:
        def message(changes: Sequence[FileChange]) -> str:
            return signed(words(changes), worktree, settings, changes, edit_id=edit_id)

        try:
            return review_and_commit(session, edit_id, message, ui, lambda: "", remarks=remarks)
        except SentBack as setback:  # a model would have to correct it
            if setback.kind == "person":
                raise NothingDone("cancelled: nothing was changed.") from setback
            raise setback.failure("" if setback.kind == "hook" else "Nothing was changed.") from setback

    if session.request.dry_run or not settings.switch("memory.enabled"):
        return edit_id, make_commit()
    from repoagent.edit.memory import Story
    from repoagent.edit.pending_memory import commit_and_remember
    from repoagent.llm.conversation import Turn
    from repoagent.llm.model import Usage

    text = words(changes).strip()
    files = named_files([Target(change.name) for change in changes])
    turn = Turn("user", text, {"edit": edit_id, "time": now(), "kind": kind, **files})
    story = Story(edit_id, text, (turn,), (), "applied", "", "", Usage(), None)
    return edit_id, commit_and_remember(session, settings, edit_id, lambda: story, make_commit, say=ui.say)


class Tree(Mapping[str, SourceText]):
    """The current content of the files `names`, each read by `read` on first access. `sources` are those read."""

    def __init__(self, names: Collection[str], read: Callable[[str], Source]) -> None:
        self.sources: dict[str, Source] = {}
        self._names = dict.fromkeys(names)
        self._read = read

    def __getitem__(self, path: str) -> SourceText:
        if path not in self._names:
            raise KeyError(path)
        source = self.source(path)
        if source.data is None:
            raise Refused(
                f"{path} is missing from the work tree but is tracked: restore it with `git restore {path}` (in a "
                "sparse checkout `git sparse-checkout add FOLDER`), or commit its removal first"
            )
        return SourceText(source.data, source.mode or REGULAR)

    def source(self, path: str) -> Source:
        """The file, existing or not, as of its first access."""
        if path not in self.sources:
            self.sources[path] = self._read(path)
        return self.sources[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, path: object) -> bool:
        return path in self._names


def _placed(
    worktree: WorkTree,
    patch_input: PatchInput,
    request: EditRequest,
    prefix: str,
    bindings: Mapping[str, str],
) -> tuple[EditSession, tuple[str, ...]]:
    """Apply the patch to the current files; returns the session, and notes for the user. Raises NothingDone if it is
    already applied, and what reading and applying raise."""
    from repoagent.syntax.regressions import parses_worse

    top, known = worktree.top, apply_input.tracked(worktree)

    def exists(name: str) -> bool:
        return name in known or (bad_path(name) is None and os.path.lexists(top / name))

    patches = apply_input.read_patches(patch_input, known, request.paths)
    patches = apply_input.from_here(patches, exists, prefix)
    names = apply_input.spelled(patches)
    # all names count as named by the user here, so that only `.repoagentignore` applies; `read` checks for secrets
    why_not = gate(top, known | names)

    def read(path: str) -> Source:
        """Read a file that the patch names. Raises Refused if a patch may not change it."""
        if reason := why_not(path):
            raise Refused(reason)
        is_allowed = path in request.paths or request.allow_sensitive
        if not is_allowed and holds_secrets(path):
            raise Refused(
                f"{path} has a name that is typical of secrets: use --allow-sensitive to let the patch change it"
            )
        source = read_source(worktree, path)
        if path not in known and path not in request.paths and path in is_ignored(worktree, [path]):
            raise Refused(
                f"{path} is ignored by git, so a patch may not change it: use --path {path} to allow it"
            )
        if not is_allowed and (reason := why_content_is_off_limits(source.data or b"")):
            raise Refused(f"refusing to edit {path}: {reason}; use --allow-sensitive to edit it anyway")
        return source

    present = Tree(known | set(filter(exists, names)), read)
    bound = {
        path: apply_input.bound_source(worktree, present.source(path), blob)
        for path, blob in bindings.items()
    }
    files = Tree(tuple(present), lambda path: bound.get(path) or present.source(path)) if bound else present
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
    if unchanged := bindings.keys() - {change.old_path for change in applied.changes}:
        raise UsageError(f"--source {', '.join(sorted(unchanged))}: the patch does not change that file")
    changes = tuple(_rebased(worktree, request, change, present) for change in applied.changes)
    remarks = [
        f"{path} has changed since {bindings[path]}; the change was merged into its current text"
        for path, source in bound.items()
        if source.blob != present.source(path).blob
    ]
    if patch_input.author and not request.commit.no_commit:
        me = git(top, "var", "GIT_AUTHOR_IDENT", ok=(0, 1, 128)).decode("utf-8", "replace")
        if not me or not patch_input.author.endswith(me[me.find("<") : me.find(">") + 1]):
            remarks.append(
                f"the patch was written by {patch_input.author}, but you are the author of the commit; "
                "`git am` keeps the author"
            )
    sides = (path for change in changes for path in (change.old_path, change.path) if path)
    draft = Draft({path: present.source(path) for path in sides}).with_changes(changes)
    if not draft.edits:
        raise NothingDone(f"no changes: the files already match {patch_input.name}")
    return EditSession(worktree, request, draft, placements=list(applied.placements)), tuple(remarks)


def _is_applied(patches: Sequence[FilePatch], files: Mapping[str, SourceText]) -> bool:
    """Whether `files` already contain all changes of the patches, under exactly the names in the patches."""

    def has_content(patch: FilePatch, source: SourceText) -> bool:
        text = decode(source.data)
        if text is None or patch.whole is None:
            lines = tuple(line.text for hunk in patch.hunks for line in hunk.new)
            return text is not None and lines == text.lines
        return patch.whole.rstrip("\n") == "\n".join(text.lines).rstrip("\n")

    edits: list[FilePatch] = []
    for patch in patches:
        old, new = spellings(patch.old, patch.new)
        if patch.action == "create" or patch.old == NO_FILE:
            is_made = any(has_content(patch, files[name]) for name in new if name in files)
        elif patch.action == "delete" or patch.new == NO_FILE:
            is_made = not any(name in files for name in old)
        else:
            is_rename = patch.action == "rename"
            is_made = not is_rename or (patch.old not in files and patch.new in files)
            if is_rename and patch.hunks:
                edits.append(replace(patch, action="edit", old=f"a/{patch.new}", new=f"b/{patch.new}"))
            elif not is_rename:
                edits.append(patch)
        if not is_made:
            return False
    try:
        if edits:
            apply_patches(edits, files)
    except PatchRefused as error:
        return error.reasons <= NOTHING_TO_DO
    return not edits


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
