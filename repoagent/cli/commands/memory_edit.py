"""`repoagent memory edit` and `repoagent memory clear`: correct what is remembered in an editor, or archive it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.commands.memory import VERSION, amount, complete, count, name, opened
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.errors import Busy, Exit, NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from repoagent.cli.commands.memory import MemoryCommand
    from repoagent.memory.editing import Part, TextProblem
    from repoagent.memory.identity.record import Memory

_SHOWN = 5  # findings
_EMPTY = b"# Notes\n\n"
EDIT_EXAMPLES = """\b
Examples:
  repoagent memory edit src/app.py
  repoagent memory edit src/app.py --conversation
  EDITOR="code --wait" repoagent memory edit src/app.py

If a command writes to the file while you edit, both changes are merged; if
they conflict, your text is saved in another file, which is named."""


@click.command("edit", epilog=EDIT_EXAMPLES)
@click.argument("file", metavar="FILE", shell_complete=complete)
@click.option("--conversation", is_flag=True, help="Edit the conversation instead of the notes.")
@json_option
@pass_session
def edit_command(session: Session, /, file: str, conversation: bool, as_json: bool) -> int:
    """Edit the notes about FILE in your editor: $VISUAL, $EDITOR, or the one that git uses.

    Each bullet and each paragraph is a note. The saved text is checked, with warnings about suspicious lines. An empty
    text changes nothing; to remove everything, use `memory clear`.
    """
    from repoagent.git.worktree import open_at_head
    from repoagent.memory.editing import keep_text, save_conversation, save_notes
    from repoagent.memory.identity.store import remember
    from repoagent.storage.atomic import read_regular

    here = opened(session)
    found = here.named(file, rekey=True)
    memory = found.memory
    if memory is None and conversation:
        raise NothingDone(f"no conversation about {found.path} yet")
    path = None if memory is None else memory.conversation if conversation else memory.notes
    before = (read_regular(path) if path is not None else None) or b""
    if conversation and not before:
        raise NothingDone(f"no conversation about {found.path} yet")
    _need_editor(here, path)
    after, problem = _edited(here, before or _EMPTY, conversation=conversation)
    if after is None:
        raise NothingDone("the editor failed or saved an empty text; nothing was changed")
    if after == (before or _EMPTY):
        raise NothingDone("nothing was changed")
    try:
        if problem is not None:
            raise problem
        if memory is None:
            head = open_at_head(here.cwd)[1]
            memory = remember(here.layout, here.worktree, found.path, found.data or b"", commit=head)
        save = save_conversation if conversation else save_notes
        joined = save(memory, here.worktree, before, after)
    except RepoagentError as error:
        kept = keep_text(memory, "conversation.md" if conversation else "notes.md", after)
        kind = Busy if isinstance(error, Busy) else Refused
        raise kind(f"{error}; your text is saved in {here.shown(kept)}") from error
    target = memory.conversation if conversation else memory.notes
    if as_json:
        content = {"version": VERSION, "file": str(target), "bytes": len(after), "joined": joined}
        here.terminal.result(json.dumps(content, indent=2) + "\n")
    else:
        beside = "; merged with what was written while you edited" if joined else ""
        here.terminal.note(f"saved {here.shown(target)}{beside}", "dim")
    return Exit.DONE


def _need_editor(here: MemoryCommand, path: object) -> None:
    """Raise UsageError if the editor would need a terminal and there is none."""
    from repoagent.git.process import git_output

    terminal = here.terminal
    if (terminal.reads and (terminal.tells or terminal.shows)) or any(
        os.environ.get(name) for name in ("GIT_EDITOR", "VISUAL", "EDITOR")
    ):
        return
    if git_output(here.worktree.top, "config", "core.editor", ok=(0, 1)).stdout.strip():
        return
    where = f", or edit {path}" if path is not None else ", or use `repoagent memory note`"
    raise UsageError(f"no terminal for an editor: set EDITOR to a program that does not need one{where}")


def _edited(here: MemoryCommand, text: bytes, *, conversation: bool) -> tuple[bytes | None, Refused | None]:
    """The edited text, None if the editor failed or saved nothing; and why it cannot be saved. Offers to reopen it."""
    from repoagent.memory.editing import check_conversation, check_notes
    from repoagent.storage.secrets import mask

    while True:
        made = here.terminal.edit_text(text.decode("utf-8", "surrogateescape"), ".md", cwd=here.cwd)
        if made is None:
            return None, None
        shown = mask(made)
        if shown != made:
            here.terminal.warn("masked what looks like a key or token in the text")
        text = shown.encode("utf-8", "surrogateescape")
        try:
            _warn_findings(here, check_conversation(text) if conversation else check_notes(text))
        except Refused as error:
            if not here.terminal.can_ask:
                return text, error
            here.terminal.warn(str(error))
            choices = {"e": "edit it again", "k": "save it in another file and change nothing"}
            if here.terminal.ask("Your text cannot be parsed", choices) == "k":
                return text, error
        else:
            return text, None


def _warn_findings(here: MemoryCommand, found: list[TextProblem]) -> None:
    for one in found[:_SHOWN]:
        here.terminal.warn(f"line {one.line}: {one.says}")
    if len(found) > _SHOWN:
        here.terminal.warn(f"and {len(found) - _SHOWN} more")


CLEAR_EXAMPLES = """\b
Examples:
  repoagent memory clear src/app.py
  repoagent memory clear src/app.py --conversation --yes
  repoagent memory clear --undo src/app.py

Nothing is deleted: it moves to the archive/ folder of the memory, where
prompts and searches ignore it, and --undo restores what was cleared last. To
delete it for good, delete that folder. The memory stays attached to its
file."""


@click.command("clear", epilog=CLEAR_EXAMPLES)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, shell_complete=complete)
@click.option("--notes", "parts", flag_value="notes", multiple=True, help="Clear the notes.")
@click.option(
    "--conversation", "parts", flag_value="conversation", multiple=True, help="Clear the conversation."
)
@click.option("--edits", "parts", flag_value="edits", multiple=True, help="Clear the list of edits.")
@click.option("--all", "everything", is_flag=True, help="Clear all of these (the default).")
@click.option("--undo", is_flag=True, help="Restore what was cleared last.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be cleared; do nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@pass_session
def clear_command(session: Session, /, files: tuple[str, ...], **options: Any) -> int:
    """Clear what is remembered about FILES: move it to the archive."""
    from repoagent.memory.editing import PARTS
    from repoagent.memory.lookup import require_memory

    parts: list[Part] = [part for part in PARTS if part in options["parts"]]
    if options["undo"] and (parts or options["everything"]):
        raise UsageError(
            "--undo restores everything that was cleared last; it cannot be combined with other options"
        )
    here = opened(session)
    chosen: dict[Path, Memory] = {}
    for file in files:
        found = here.named(file, rekey=not options["dry_run"])
        memory = require_memory(here.layout, here.worktree, found, warn=here.terminal.warn)
        chosen[memory.folder] = memory
    memories = list(chosen.values())
    if options["undo"]:
        return _undo(here, memories, options)
    return _clear(here, memories, parts if parts and not options["everything"] else list(PARTS), options)


def _clear(here: MemoryCommand, memories: list[Memory], parts: list[Part], options: dict[str, Any]) -> int:
    from repoagent.memory.editing import clear, part_sizes

    there = {memory.folder: part_sizes(memory, parts) for memory in memories}
    full = [memory for memory in memories if there[memory.folder]]
    if not full:
        raise NothingDone("nothing to clear")
    for memory in full:
        what = ", ".join(f"{part} ({amount(size)})" for part, size in there[memory.folder].items())
        if not options["as_json"]:
            here.terminal.note(f"{name(memory.identity.path)}: {what}")
    if options["dry_run"]:
        _report_cleared(here, [(memory, None, there[memory.folder]) for memory in full], options)
        return Exit.DONE
    _agree(here, f"Clear this for {count(len(full), 'file')}", options)
    done = []
    for memory in full:
        put = clear(memory, parts)
        if put is not None:
            done.append((memory, put.folder, put.parts))
            if not options["as_json"]:
                here.terminal.note(f"moved to {here.shown(put.folder)}", "dim")
    _report_cleared(here, done, options)
    if done and not options["as_json"]:
        here.terminal.note(f"restore it with: repoagent memory clear --undo {_words(full)}", "dim")
    return Exit.DONE if done else Exit.NOTHING


def _undo(here: MemoryCommand, memories: list[Memory], options: dict[str, Any]) -> int:
    from repoagent.memory.editing import archived_parts, restore

    last = [(memory, puts[-1]) for memory in memories if (puts := archived_parts(memory))]
    if not last:
        raise NothingDone("nothing to restore: the archive has nothing that was cleared")
    for memory, put in last:
        if not options["dry_run"]:
            restore(memory, put)
        if not options["as_json"]:
            verb = "would restore" if options["dry_run"] else "restored"
            here.terminal.note(f"{name(memory.identity.path)}: {verb} {', '.join(put.parts)}")
    _report_cleared(here, [(memory, put.folder, put.parts) for memory, put in last], options)
    return Exit.DONE


def _agree(here: MemoryCommand, question: str, options: dict[str, Any]) -> None:
    if options["yes"]:
        return
    if not here.terminal.can_ask or options["as_json"]:
        raise UsageError(
            "cannot ask for confirmation without a terminal; use --yes to clear it, or --dry-run to preview"
        )
    if here.terminal.ask(question, {"y": "move it to the archive", "n": "change nothing"}) == "n":
        raise NothingDone("nothing was cleared")


def _report_cleared(here: MemoryCommand, done: list[Any], options: dict[str, Any]) -> None:
    if not options["as_json"]:
        return
    files = [
        {
            "path": memory.identity.path,
            "memory": memory.folder.name,
            "parts": dict(parts),
            "archive": None if place is None else str(place),
        }
        for memory, place, parts in done
    ]
    kind = "undo" if options["undo"] else "clear"
    content = {"version": VERSION, "did": None if options["dry_run"] else kind, "files": files}
    here.terminal.result(json.dumps(content, indent=2) + "\n")


def _words(memories: list[Memory]) -> str:
    import shlex

    paths = [memory.identity.path for memory in memories]
    return " ".join(
        shlex.quote(path) if path.isprintable() else memory.folder.name
        for path, memory in zip(paths, memories, strict=True)
    )
