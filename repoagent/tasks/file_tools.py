"""A run's file tools: `edit`, which writes a patch immediately; the tools that read files and the run's outputs;
`keep`, `restore` and `write`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.state import EDIT, Tool
from repoagent.edit.apply import possible_paths
from repoagent.edit.guards.off_limits import why_content_is_off_limits
from repoagent.edit.patch_tool import edit_tool
from repoagent.edit.prompt.blocks import model_text, quote_path
from repoagent.edit.prompt.build import masked_tool
from repoagent.edit.prompt.large_files import read_part
from repoagent.edit.tools import look_up, matches_text, search_files
from repoagent.errors import Busy, NothingDone, Refused, RepoagentError, UsageError
from repoagent.git.file_writer import FilesChanged
from repoagent.git.files import FileChange, blob_hash, is_ignored
from repoagent.git.index import read_entries
from repoagent.git.process import GitError
from repoagent.git.transaction.plan import sparse_advice
from repoagent.llm.model import fence
from repoagent.patch.apply_answer import read_answer
from repoagent.patch.model import FilePatch
from repoagent.patch.paths import bad_path, path_spellings
from repoagent.patch.refusal import PatchRefused
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.folders import SystemFailed
from repoagent.tasks.changes.change_set import names_of, paths_of
from repoagent.tasks.changes.command_watch import write_event
from repoagent.tasks.restore import revert_changes, write_changes
from repoagent.tasks.run_context import RunContext

OUTPUT = "@output/"  # prefix of the path of an output, for the model
NOTES_TOKENS = 800


def writing_tool(context: RunContext, after: Callable[[Sequence[str]], str]) -> Tool:
    """The tool `edit`. `after` gets the written paths, and returns text for the model."""
    tool_context, change_set = context.tool_context, context.change_set
    inner = edit_tool(tool_context)
    masked = masked_tool(inner, tool_context)

    def perform(action: Action) -> Observation:
        observation = apply(action)
        reasons = observation.data.get("reasons")
        context.note_edit(ok=observation.ok, reasons=map(str, reasons) if isinstance(reasons, list) else ())
        return observation

    def apply(action: Action) -> Observation:
        from repoagent.edit.commit import SentBack
        from repoagent.git.transaction.results import UnfinishedTransaction

        # identifies the edit in the run by the number of its reply and the hash of its text
        replies = sum(turn.role == "assistant" for turn in context.state.turns)
        mark = f"{replies}-{sha256(action.body.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
        try:
            patches = tuple(read_answer(action.body))
        except PatchRefused:  # `masked` reports the reason
            patches = ()
        if change_set.edit == mark:  # the run was killed after the write
            # by their names in the change set, or the likeliest name of a committed file
            known = paths_of(change_set.changes)
            sides = [side for patch in patches for side in path_spellings(patch.old, patch.new) if side]
            paths = sorted({next((name for name in side if name in known), side[0]) for side in sides})
            text = f"Applied: {', '.join(paths)}, before the run was interrupted."
            return _written([text, after(paths)], paths)
        context.forget_files()
        if refusal := _bind(context, patches):
            return Observation(EDIT, refusal, ok=False)
        blobs = tool_context.draft.blobs()
        stale = [path for path, blob in blobs.items() if context.shown.get(path, blob) != blob]
        observation = masked.perform(action)
        if not observation.ok or not tool_context.draft.edits:
            return replace(observation, final=False)
        if context.gate.mode == "read-only":
            return Observation(EDIT, "This run is read-only: nothing may be changed.", ok=False)
        accepted = context.accepted.items()
        earlier = (*change_set.changes, *change_set.candidates)
        unseen = {change.name for change in earlier if (change.name, change.after) not in accepted}
        try:
            changes = _write_draft(context, mark)
        except SentBack as error:
            text = f"{error}\nThe files are unchanged."
            return Observation(EDIT, text, ok=False, data={"reasons": [error.kind]}, shown=error.shown)
        except NothingDone as error:
            return Observation(EDIT, str(error), ok=False, error=error)
        except (Busy, SystemFailed, UnfinishedTransaction):  # the model cannot fix a full disk
            raise
        except Refused as error:
            return Observation(EDIT, f"Not written: {error}", ok=False, error=error)
        for change in changes:
            if change.old_path is not None and change.old_path != change.path:
                context.shown.pop(change.old_path, None)
                context.accepted[change.old_path] = None
        for change in changes:
            if change.path is not None and change.after is not None:
                current = change_set.of(change.path) or change  # without what others did to the file
                if unseen.isdisjoint((change.old_path, change.path)):
                    context.accepted[change.path] = current.after
                context.shown[change.path] = blob_hash(change.after, context.worktree.object_format)
        texts = [observation.text]
        if stale:
            texts.append(
                f"The content of {', '.join(stale)} has changed since you last read it, so what you read then may "
                "be out of date. Read it again before you rely on it."
            )
        both = [path for change in changes for path in (change.old_path, change.path) if path]
        return _written([*texts, after(list(dict.fromkeys(both)))], [change.name for change in changes])

    return Tool(EDIT, inner.text, perform)


def _written(texts: Sequence[str], files: list[str]) -> Observation:
    return Observation(EDIT, "\n".join(filter(None, texts)), data={"files": files})


def _bind(context: RunContext, patches: Sequence[FilePatch]) -> str:
    """Read the files of the patches and those shown before. Returns why they cannot be changed, or ""."""
    tool_context = context.tool_context
    in_patches = {name for name in possible_paths(patches) if bad_path(name) is None}
    existing = {name for name in in_patches if (context.worktree.top / name).is_file()}
    names = sorted(existing | set(context.shown))
    try:
        tool_context.not_ignored = frozenset(names) - is_ignored(context.worktree, names)
    except GitError:  # a path is behind a link, or in a submodule: then each is checked alone
        tool_context.not_ignored = frozenset()
    for path in names:
        try:
            source = tool_context.source(path)
        except RepoagentError as error:
            if path in existing:
                return str(error)
            continue
        if path in existing and path not in tool_context.editable:
            reason = why_content_is_off_limits(source.data or b"")
            if not reason and tool_context.is_ignored(path):
                reason = "git ignores it"
            if reason:
                return f"{path} may not be changed: {reason}"
        if source.data is None:  # it was shown, and is gone
            sources = {name: known for name, known in tool_context.draft.sources.items() if name != path}
            tool_context.draft = replace(tool_context.draft, sources=sources)
    absent = sorted(in_patches - existing)
    entries = read_entries(context.worktree, absent) if absent else {}
    if sparse := next((name for name, entry in entries.items() if entry.skip_worktree), None):
        return sparse_advice(sparse)
    for patch in patches:
        unseen = [name for name in possible_paths([patch]) & existing if name not in context.shown]
        if unseen and patch.whole is not None and patch.rows is None and patch.action == "edit":
            return f"{unseen[0]} already exists, and you have not read it; read it first."
    return ""


def _write_draft(context: RunContext, mark: str) -> tuple[FileChange, ...]:
    """Show the draft to the user and write it, or commit it with `commit_per_edit`."""
    from repoagent.edit.commit import new_edit_id
    from repoagent.edit.review_and_commit import RELOCATIONS, apply_to_current_files, propose_until_accepted
    from repoagent.memory.identity.store import remember_file, resolve_memory
    from repoagent.tasks.commit import commit_edit

    tool_context, change_set, edit_id = context.tool_context, context.change_set, new_edit_id()
    worktree, layout = context.worktree, context.layout
    if context.request.commit_per_edit:
        changes, accepted = commit_edit(context, edit_id, mark)
        context.unreviewed |= not accepted
        for change in changes:
            context.audit(write_event(change, worktree.object_format, edit=edit_id))
        return changes

    remarks = apply_to_current_files(tool_context, edit_id)
    proposal = propose_until_accepted(tool_context, edit_id, lambda _: "", context.ui, remarks=remarks)
    context.unreviewed |= not proposal.accepted
    if proposal.accepted:
        context.deletions.update(change.name for change in proposal.changes if change.path is None)
    changes = proposal.changes
    for _ in range(RELOCATIONS):
        memories = {
            change.old_path: resolve_memory(layout, worktree, change.old_path, change.before)
            for change in changes
            if context.settings.switch("memory.enabled") and change.old_path and change.before is not None
        }
        change_set.will_write(changes, mark)
        try:
            write_changes(worktree, changes, edit_id)
        except FilesChanged:
            change_set.wrote(())
            tool_context.draft = replace(tool_context.draft, edits=changes)
            apply_to_current_files(tool_context, edit_id)
            changes = tool_context.draft.edits
            continue
        except BaseException:
            change_set.settle_pending()
            raise
        change_set.wrote(changes, changes if proposal.accepted else ())
        for change in changes:
            context.audit(write_event(change, worktree.object_format, edit=edit_id))
            memory = memories.get(change.old_path or "")
            if memory is not None and change.path is not None and change.after is not None:
                remember_file(layout, worktree, change.path, change.after, memory=memory)
        return changes
    raise Refused("the files keep changing while repoagent writes; read them again")


def output_name(path: Path) -> str:
    return OUTPUT + path.name


def reading_tools(context: RunContext) -> tuple[Tool, ...]:
    """The tools that read the current files. The first `read` of a file also shows its notes."""
    tool_context = context.tool_context

    def on_current_files(name: str) -> Tool:
        tool = look_up(tool_context, name)

        def perform(action: Action) -> Observation:
            context.forget_files()
            path = action.args.get("path", "").strip()
            if name in ("read", "search") and path.startswith(OUTPUT):
                try:
                    return Observation(name, _of_output(context, action, path))
                except RepoagentError as error:
                    return Observation(name, str(error), ok=False)
            observation = tool.perform(action)
            if name != "read" or not observation.ok:
                return observation
            source = tool_context.source(path)
            context.shown[source.path] = source.blob
            if source.path in context.notes_shown or not context.settings.switch("memory.enabled"):
                return observation
            from repoagent.memory.identity.store import resolve_memory
            from repoagent.memory.prompt import notes_block

            context.notes_shown.add(source.path)
            data = source.data or b""
            memory = resolve_memory(context.layout, context.worktree, source.path, data)
            notes = notes_block(memory, NOTES_TOKENS, data=data).strip() if memory is not None else ""
            block = f"\nNotes from earlier edits:\n{fence(notes, 'memory')}" if notes else ""
            return replace(observation, text=observation.text + block)

        offered = (
            f'{tool.text} An output of this run is path="{OUTPUT}NAME".' if name == "read" else tool.text
        )
        return replace(masked_tool(replace(tool, text=offered, perform=perform), tool_context), replay=False)

    names = ("read", "files", "search", "outline", "history", "neighbors", "uses", "recall")
    return tuple(map(on_current_files, names))


def _of_output(context: RunContext, action: Action, path: str) -> str:
    """What `action` reads or finds in the output `path`."""
    name = path.removeprefix(OUTPUT)
    if not re.fullmatch(r"[\w][\w.,+=-]*", name):
        raise UsageError(f"{path} is not an output of this run")
    data = read_regular(context.run_dir.output / name)
    if data is None:
        raise UsageError(f"this run has no output {path}")
    if action.kind == "search":
        pattern = action.args.get("pattern") or action.body.strip()
        if not pattern.strip():
            raise UsageError("Specify what to search for.")
        return matches_text(search_files(context.run_dir.output, pattern, lambda name: "", name, output=True))
    lines, characters = action.args.get("lines", ""), action.args.get("characters", "")
    part = read_part(model_text(data), lines, characters, context.tool_context.read_limit)
    label = f'output path={quote_path(path)} lines="{part.first}-{part.last}"'
    return "\n".join(filter(None, [fence(part.text, label), part.rest]))


def change_tools(context: RunContext) -> tuple[Tool, ...]:
    change_set = context.change_set

    def path_of(action: Action) -> str:
        return action.args.get("path", "").strip().removeprefix("./")

    def keep(action: Action) -> Observation:
        path = path_of(action)
        if path in paths_of(change_set.changes):
            return Observation("keep", f"{path} is already part of your change.")
        names = [change.name for change in change_set.candidates]
        below = [name for name in names if path and name.startswith(path.rstrip("/") + "/")]
        if not change_set.keep([path, *below]):
            known = f": {', '.join(names)}" if names else "."
            text = f"cannot keep {path}: no command created or changed it{known}"
            return Observation("keep", text, ok=False)
        files = f" ({len(below)} files)" if len(below) > 1 else ""
        return Observation("keep", f"{path}{files} is now part of your change.")

    def restore(action: Action) -> Observation:
        path = path_of(action)
        if change_set.of(path) is None:
            return Observation("restore", f"You have not changed {path}.", ok=False)
        try:
            overlaps = revert_changes(change_set, [path], context.write)
        except RepoagentError as error:
            moved = f"another program is writing {path}; try again."
            return Observation("restore", moved if isinstance(error, FilesChanged) else str(error), ok=False)
        if overlaps:
            text = f"{names_of(overlaps)}: left unchanged, because the user has changed the same lines. "
            return Observation("restore", text + "Undo your change with an edit.", ok=False)
        return Observation("restore", f"{path} is restored to what it was before your change.")

    keep_text = '<keep path="FILE"/> adds a file or folder that a command created to your change.'
    restore_text = '<restore path="FILE"/> undoes all your changes to a file.'
    return Tool("keep", keep_text, keep), Tool("restore", restore_text, restore)


def scratch_tool(folder: Path) -> Tool:
    """The tool `write`, which writes files in `folder`, the $TMPDIR of commands."""

    def perform(action: Action) -> Observation:
        name = action.args.get("path", "").strip()
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}", name):
            text = (
                f"path={name!r}: use a plain file name; this file is outside the repository. To change a "
                "file in the repository, send a patch."
            )
            return Observation("write", text, ok=False)
        try:
            write_whole(folder / name, action.body.encode("utf-8", "replace"))
        except RepoagentError as error:
            return Observation("write", str(error), ok=False)
        return Observation("write", f"Written to $TMPDIR/{name}, for commands.")

    text = '<write path="NAME">TEXT</write> writes $TMPDIR/NAME, a scratch file that is never committed.'
    return Tool("write", text, perform)
