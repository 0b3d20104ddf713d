"""A patch from anywhere becomes a commit, on the way that an edit goes, with nobody asked for it but the person."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from repoagent.config import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.apply.bound import bound_source, carried
from repoagent.edit.apply.given import Given, plain_message
from repoagent.edit.apply.placing import named, placed, read_patches
from repoagent.edit.apply.tree import Tree, from_here, is_there, reader, spelled, tracked, untracked
from repoagent.edit.dialogue import Dialogue
from repoagent.edit.draft import Draft
from repoagent.edit.landing.bench import new_edit_id
from repoagent.edit.landing.commit import Landed, SentBack
from repoagent.edit.landing.land import land
from repoagent.edit.landing.message import EDIT_TRAILER, SOURCE_TRAILER, with_trailers
from repoagent.edit.landing.preflight import preflight, refuse_untracked
from repoagent.edit.request import EditRequest, Target
from repoagent.errors import NothingDone, Refused, RepoagentError, UsageError
from repoagent.patch import Placement, known_path
from repoagent.repo import FileChange, WorkTree, git, head_blobs
from repoagent.repo.transaction.refusals import refuse_operation


@dataclass
class Bench:
    """The change on the table, as `land` takes it; see `repoagent.edit.landing.bench`."""

    worktree: WorkTree
    request: EditRequest
    draft: Draft
    placements: list[Placement]
    goes_on: str = ""


@dataclass(frozen=True)
class ApplyOutcome:
    """How it ended; seconds are wall time."""

    edit_id: str
    landed: Landed
    seconds: float

    @property
    def kind(self) -> str:
        return self.landed.kind


def apply(
    worktree: WorkTree,
    given: Given,
    request: EditRequest,
    settings: Settings,
    dialogue: Dialogue,
    *,
    prefix: str = "",
    bindings: Mapping[str, str] | None = None,
) -> ApplyOutcome:
    """Apply the patch and commit it as the person's own.

    `request.targets` is the file for a patch that names none, `instruction` what the person has said of the commit (""
    for nothing). `prefix` is the folder, "" or with a / at its end, that names may be relative to; `bindings` say by
    path which text the patch was made for. Raises what each step raises; whatever it raises, the user's files, index
    and branch are as they were.
    """
    started = time.monotonic()
    preflight(worktree, request)
    if not (request.commit.no_commit or request.dry_run):
        refuse_operation(worktree)
    bench, remarks = _placed(worktree, given, request, prefix, bindings or {})
    changes = bench.draft.edits
    touched = tuple(Target(path) for path in dict.fromkeys(c.old_path or c.name for c in changes))
    refuse_untracked(worktree, replace(request, targets=touched), bench.draft)
    words = request.instruction or given.message
    edit_id, landed = landing(
        bench,
        settings,
        dialogue,
        lambda changes: words or plain_message(given.name, changes),
        remarks=remarks,
    )
    return ApplyOutcome(edit_id, landed, time.monotonic() - started - dialogue.waited)


def landing(
    bench: Bench,
    settings: Settings,
    dialogue: Dialogue,
    words: Callable[[Sequence[FileChange]], str],
    *,
    kind: str = "apply",
    remarks: tuple[str, ...] = (),
) -> tuple[str, Landed]:
    """Land a change that no model has made, with the message `words` and our trailers, and have it remembered as one of
    the `kind`; its id, and what landed. Raises as `land`, a failed check or hook as CheckFailed."""
    edit_id = new_edit_id()
    worktree = bench.worktree

    def message(changes: Sequence[FileChange]) -> str:
        return with_trailers(words(changes), _trailers(worktree, settings, edit_id, changes), worktree.top)

    with _remembering(bench, edit_id, words(bench.draft.edits), settings, dialogue, kind=kind) as remember:
        try:
            landed = land(bench, edit_id, message, dialogue, lambda: "", remarks=remarks)
        except SentBack as setback:
            raise failed(setback) from setback
        remember(landed)
    return edit_id, landed


def _remembering(
    bench: Bench, edit_id: str, words: str, settings: Settings, dialogue: Dialogue, *, kind: str
) -> AbstractContextManager[Callable[[Landed], None]]:
    if bench.request.dry_run or not settings.switch("memory.enabled"):
        return nullcontext(lambda landed: None)
    from repoagent.edit.apply.remember import remembering

    return remembering(bench, edit_id, words.strip(), dialogue, kind=kind)


def _placed(
    worktree: WorkTree, given: Given, request: EditRequest, prefix: str, bindings: Mapping[str, str]
) -> tuple[Bench, tuple[str, ...]]:
    """The patch as a change of the files as they are now, and what to tell the person of it."""
    known = tracked(worktree)

    def there(name: str) -> bool:
        return is_there(worktree.top, name, known)

    def meant(name: str) -> bool:
        return there(name) or there(prefix + name) or known_path([name], known) is not None

    patches = from_here(
        named(read_patches(given, known), given, request.paths, meant),
        there,
        prefix,
    )
    read = reader(worktree, request, known, spelled(patches))
    present = Tree(known | untracked(worktree.top, patches, known), read)
    bound = {path: bound_source(worktree, present.source(path), blob) for path, blob in bindings.items()}
    files = Tree(tuple(present), lambda path: bound.get(path) or present.source(path)) if bound else present
    applied = placed(patches, files, given, request)
    if strangers := bindings.keys() - {change.old_path for change in applied.changes}:
        raise UsageError(f"--source {', '.join(sorted(strangers))}: the patch does not change that file")
    changes = carried(worktree, applied.changes, present.sources)
    if request.parse_check:
        _refuse_worse(changes, applied.changes)
    moved = [path for path, source in bound.items() if source.blob != present.source(path).blob]
    remarks = tuple(
        f"{path} has changed since {bindings[path]}; the change was carried over to its present text"
        for path in moved
    )
    sources = {
        path: present.source(path) for change in changes for path in (change.old_path, change.path) if path
    }
    if given.author and not request.commit.no_commit and not _is_me(worktree, given.author):
        remarks += (f"it was written by {given.author}, and the commit is yours; `git am` keeps the author",)
    draft = Draft(sources).with_changes(changes)
    if not draft.edits:
        raise NothingDone(f"nothing was changed: the files are already as {given.name} wants them")
    return Bench(worktree, request, draft, list(applied.placements)), remarks


def _refuse_worse(changes: Sequence[FileChange], placed: Sequence[FileChange]) -> None:
    """Raise Refused where two texts that parse make, merged, one that does not."""
    from repoagent.split import parses_worse

    for change, before in zip(changes, placed, strict=True):
        if change is not before and (
            reason := parses_worse(change.name, change.before or b"", change.after or b"")
        ):
            raise Refused(f"carried over to the present text, {reason} Use --no-parse-check if it is right.")


def _is_me(worktree: WorkTree, author: str) -> bool:
    me = git(worktree.top, "var", "GIT_AUTHOR_IDENT", ok=(0, 1, 128)).decode("utf-8", "replace")
    return bool(me) and author.endswith(me[me.find("<") : me.find(">") + 1])


def failed(setback: SentBack) -> RepoagentError:
    """What a person hears where a model would have been sent back to work."""
    if setback.kind == "person":
        return NothingDone("nothing was changed, as you said.")
    return setback.failure("" if setback.kind == "hook" else "Everything is as it was.")


def _trailers(
    worktree: WorkTree, settings: Settings, edit_id: str, changes: Sequence[FileChange]
) -> list[tuple[str, str]]:
    """Those of an edit, but for the model: none took part that we know of."""
    if not settings.switch("commit.trailers"):
        return []
    paths = [change.old_path for change in changes if change.old_path is not None]
    blobs = head_blobs(worktree, paths)
    return [(EDIT_TRAILER, edit_id), *((SOURCE_TRAILER, blobs[path]) for path in paths if path in blobs)]
