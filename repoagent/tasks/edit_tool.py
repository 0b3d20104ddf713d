"""The tool `edit` of a run: bind a patch to the files on disk, check it, and write it at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256

from repoagent.agent.actions import Action, Observation
from repoagent.agent.state import EDIT, Tool
from repoagent.edit.apply_files import spelled
from repoagent.edit.guards.scope import why_content_is_off_limits
from repoagent.edit.patch_tool import edit_tool
from repoagent.edit.prompt.build import masked_tool
from repoagent.edit.tools import is_ignored_here, known_or_read
from repoagent.errors import Busy, NothingDone, Refused, RepoagentError
from repoagent.git.files import FileChange, Source, is_ignored
from repoagent.git.index import read_entries
from repoagent.git.process import GitError
from repoagent.git.transaction.plan import sparse_advice
from repoagent.git.worktree import WorkTree
from repoagent.memory.identity.record import Memory
from repoagent.patch.apply_file import read_answer
from repoagent.patch.errors import PatchRefused
from repoagent.patch.files import bad_path, spellings
from repoagent.patch.model import FilePatch
from repoagent.storage import jsonl
from repoagent.storage.folders import SystemFailed
from repoagent.tasks.context import RunContext
from repoagent.tasks.refused_edit import DROPPED, SEND_WHOLE

WRITE = "write"  # how a write of a run is called in the journal: no edit that `undo` would take back alone


def writing_tool(context: RunContext, after: Callable[[Sequence[str]], str]) -> Tool:
    """The tool that a patch in a reply is. `after` is told the paths that were written, and says what came of it."""
    inner = edit_tool(context.bench)
    masked = masked_tool(inner, context.bench)

    def perform(action: Action) -> Observation:
        seen = apply(action)
        if not seen.ok and context.bench.missing:  # whatever this one was refused for
            seen = replace(seen, data={**seen.data, "partial": True})
        reasons = seen.data.get("reasons")
        context.refused.note(ok=seen.ok, reasons=map(str, reasons) if isinstance(reasons, list) else ())
        return seen

    def apply(action: Action) -> Observation:
        from repoagent.edit.commit import SentBack
        from repoagent.git.transaction.results import UnfinishedTransaction

        mark = _mark(context, action)
        if context.change_set.edit == mark:  # the run was killed before it could say so
            paths = _files_of(context, _patches(action.body))
            rest = ", with the kept part of it," if context.refused.take_notice() else ","
            said = [f"Applied: {', '.join(paths)}{rest} before the run was interrupted.", after(paths)]
            return Observation(EDIT, "\n".join(filter(None, said)), data={"files": paths})
        context.clear()
        patches = _patches(action.body)
        if refusal := bind(context, patches):
            pending = [context.bench.still_missing] if context.bench.missing else []
            return Observation(EDIT, "\n\n".join([refusal, *pending]), ok=False)
        context.refused.drop_if_changed(context.bench.draft.sources.get)
        if dropped := context.refused.take_notice():
            return Observation(EDIT, f"Not applied. {dropped}", ok=False)
        again = f"\n{DROPPED}. {SEND_WHOLE}" if context.bench.missing else ""
        stale = [
            path
            for path, blob in context.bench.draft.blobs().items()
            if context.shown.get(path, blob) != blob
        ]
        seen = masked.perform(action)
        changes = context.bench.draft.edits
        context.refused.bind()
        if not seen.ok or not changes:
            return replace(seen, final=False)
        if context.gate.mode == "read-only":
            return Observation(EDIT, "This run is read-only: nothing may be changed.", ok=False)
        try:
            changes = _land(context, mark)
        except SentBack as error:
            text = f"{error}\nThe files are unchanged.{again}"
            return Observation(EDIT, text, ok=False, data={"reasons": [error.kind]}, shown=error.shown)
        except NothingDone as error:
            return Observation(EDIT, f"{error}{again}", ok=False, error=error)
        except (Busy, SystemFailed, UnfinishedTransaction):  # a full disk, say: a model can't put that right
            raise
        except Refused as error:
            return Observation(EDIT, f"Not written: {error}{again}", ok=False, error=error)
        paths = [path for change in changes for path in (change.old_path, change.path) if path]
        _seen_now(context, changes)
        context.agreed.update(dict.fromkeys(paths) | _as_kept(context, changes))
        said = [seen.text, *_changed_meanwhile(stale), after(list(dict.fromkeys(paths)))]
        return Observation(
            EDIT, "\n".join(filter(None, said)), data={"files": [change.name for change in changes]}
        )

    return Tool(EDIT, inner.text, perform)


def write(worktree: WorkTree, changes: Sequence[FileChange], name: str) -> None:
    """Write `changes`, all of them or none, and commit nothing. Raises Moved, Refused, Busy."""
    from repoagent.git.transaction.results import Options
    from repoagent.git.transaction.transaction import Transaction

    with Transaction(worktree, changes, Options(no_commit=True), name, event=WRITE) as transaction:
        transaction.write()
        transaction.keep()


def write_back(
    worktree: WorkTree, changes: Sequence[FileChange], taken: Sequence[FileChange], name: str
) -> None:
    """Write `changes`, which take those back that are `taken`, and take out of the index what the person has staged of
    them. Raises as `write` does, and Refused where that can't be told from what else is staged."""
    from repoagent.git.file_writer import steps_of
    from repoagent.git.undo import unstage_changes

    paths = {path for change in changes for path in (change.old_path, change.path)} - {None}
    about = [change for change in taken if {change.old_path, change.path} & paths]
    if not unstage_changes(worktree, changes, steps_of(about, name), WRITE, name):
        write(worktree, changes, name)


def _as_kept(context: RunContext, changes: Sequence[FileChange]) -> dict[str, bytes | None]:
    """What the changes have left of the run's, whatever else is in the files."""
    return {
        one.path: (context.change_set.of(one.path) or one).after for one in changes if one.path is not None
    }


def _mark(context: RunContext, action: Action) -> str:
    """What tells an edit from all others of the run: of which reply it is, and what it says."""
    replies = sum(turn.role == "assistant" for turn in context.state.turns)
    return f"{replies}-{sha256(action.body.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _patches(answer: str) -> tuple[FilePatch, ...]:
    """What the answer names; nothing where it can't be read, which is said elsewhere."""
    try:
        return tuple(read_answer(answer))
    except PatchRefused:
        return ()


def _files_of(context: RunContext, patches: Sequence[FilePatch]) -> list[str]:
    """The files that the patches were for, by the names that the ledger has; of what is committed, the likeliest."""
    known = {path for change in context.change_set.changes for path in (change.old_path, change.path)}
    sides = [side for patch in patches for side in spellings(patch.old, patch.new) if side]
    return sorted({next((name for name in side if name in known), side[0]) for side in sides})


def _land(context: RunContext, mark: str) -> tuple[FileChange, ...]:
    """Take the draft through the person's yes into the files; with a commit of its own where each edit has one."""
    from repoagent.edit.commit import new_edit_id
    from repoagent.edit.review_and_commit import RELOCATIONS, agreed, rebind
    from repoagent.git.file_writer import Moved
    from repoagent.tasks.commit import commit_edit

    bench, edit_id = context.bench, new_edit_id()
    if context.request.commit_per_edit:
        changes, accepted = commit_edit(context, edit_id, mark)
        context.unseen |= not accepted
        _audit(context, changes, edit_id)
        return changes
    remarks = rebind(bench, edit_id)
    proposal = agreed(bench, edit_id, _no_message, context.ui, lambda: _own_words(context), remarks=remarks)
    context.unseen |= not proposal.accepted
    if proposal.accepted:
        context.deletions.update(change.name for change in proposal.changes if change.path is None)
    for _ in range(RELOCATIONS):
        changes = proposal.changes
        memories = {path: _memory(context, path, data) for path, data in _before(changes)}
        context.change_set.will_write(changes, mark)
        try:
            write(context.worktree, changes, edit_id)
        except Moved:
            context.change_set.wrote(())
            bench.draft = replace(bench.draft, edits=changes)
            rebind(bench, edit_id)
            proposal = replace(proposal, changes=bench.draft.edits)
            continue
        except BaseException:
            context.change_set.came()
            raise
        context.change_set.wrote(changes)
        _audit(context, changes, edit_id)
        for change in changes:
            file_memory = memories.get(change.old_path or "")
            if file_memory is not None and change.path is not None and change.after is not None:
                from repoagent.memory.identity.store import remember

                remember(context.layout, context.worktree, change.path, change.after, memory=file_memory)
        return changes
    raise Refused("the files keep changing while repoagent writes; read them again")


def _before(changes: Sequence[FileChange]) -> list[tuple[str, bytes]]:
    return [
        (change.old_path, change.before)
        for change in changes
        if change.old_path is not None and change.before is not None
    ]


def _memory(context: RunContext, path: str, data: bytes) -> Memory | None:
    if not context.settings.switch("memory.enabled"):
        return None
    from repoagent.memory.identity.store import resolve

    return resolve(context.layout, context.worktree, path, data)


def _no_message(changes: Sequence[FileChange]) -> str:
    return ""


def _own_words(context: RunContext) -> str:
    """What the model said with the patch, where the person asks for an explanation."""
    said = [turn.text for turn in context.state.turns if turn.role == "assistant"]
    return said[-1] if said else ""


def _audit(context: RunContext, changes: Sequence[FileChange], edit_id: str) -> None:
    from repoagent.git.files import blob_hash

    kind = context.worktree.object_format
    for change in changes:
        jsonl.record(
            context.layout,
            {
                "kind": "write",
                "run": context.run_dir.name,
                "edit": edit_id,
                "path": change.name,
                "before": None if change.before is None else blob_hash(change.before, kind),
                "after": None if change.after is None else blob_hash(change.after, kind),
            },
        )


def _seen_now(context: RunContext, changes: Sequence[FileChange]) -> None:
    from repoagent.git.files import blob_hash

    for change in changes:
        if change.old_path is not None and change.old_path != change.path:
            context.shown.pop(change.old_path, None)
        if change.path is not None and change.after is not None:
            context.shown[change.path] = blob_hash(change.after, context.worktree.object_format)


def _changed_meanwhile(stale: Sequence[str]) -> list[str]:
    if not stale:
        return []
    return [
        (
            f"{', '.join(map(os.fspath, stale))} changed since you last read it, so the rest of what you know "
            "of it may be out of date."
        )
    ]


def bind(context: RunContext, patches: Sequence[FilePatch]) -> str:
    """Bind the files that the patches name, those of a partly refused edit and those seen before, to what is on disk;
    why they can't be, or ""."""
    bench = context.bench
    named = spelled(patches) | context.refused.files.keys()
    here = {name for name in named if bad_path(name) is None and (context.worktree.top / name).is_file()}
    names = sorted(here | set(context.shown))
    bench.not_ignored = _not_ignored(context, names)
    for path in names:
        try:
            source = known_or_read(bench, path)
        except RepoagentError as error:
            if path in here:
                return str(error)
            continue
        if path in here and path not in bench.editable and (reason := _why_closed(context, source)):
            return f"{path} may not be changed: {reason}"
        if source.data is None:  # it was shown, and is gone
            bench.draft = replace(
                bench.draft, sources={p: s for p, s in bench.draft.sources.items() if p != path}
            )
    missing = [name for name in sorted(set(spelled(patches)) - here) if bad_path(name) is None]
    if refusal := _left_out(context, missing):
        return refusal
    for patch in patches:
        unseen = [name for name in spelled([patch]) & here if name not in context.shown]
        if unseen and patch.whole is not None and patch.rows is None and patch.action == "edit":
            return f"{unseen[0]} already exists, and you have not read it; read it first."
    return ""


def _not_ignored(context: RunContext, names: Sequence[str]) -> frozenset[str]:
    """Those that git does not ignore, by one call of git; none where it can't say it of all of them."""
    try:
        return frozenset(names) - is_ignored(context.worktree, names)
    except GitError:  # one is behind a link, or in a submodule: then each is asked about alone
        return frozenset()


def _why_closed(context: RunContext, source: Source) -> str:
    """Why a file that is there is not among those that may be changed."""
    if why := why_content_is_off_limits(source.data or b""):
        return why
    return "git ignores it" if is_ignored_here(context.bench, source.path) else ""


def _left_out(context: RunContext, names: Sequence[str]) -> str:
    """Of files that are not there: what to say where git has one of them, and leaves it out of the work tree."""
    known = read_entries(context.worktree, names) if names else {}
    return next((sparse_advice(name) for name, entry in known.items() if entry.skip_worktree), "")
