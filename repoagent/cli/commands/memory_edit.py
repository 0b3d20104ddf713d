"""`repoagent memory edit`: the notes or the conversation of a file, in an editor.

`repoagent memory clear`: take away what is known about files, or bring it back.
"""

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

    from repoagent.cli.commands.memory import Here
    from repoagent.memory.editing import Finding, Part
    from repoagent.memory.identity.record import Memory

_SHOWN = 5  # findings
_EMPTY = b"# Notes\n\n"
EDIT_EXAMPLES = """\b
Examples:
  repoagent memory edit src/app.py
  repoagent memory edit src/app.py --conversation
  EDITOR="code --wait" repoagent memory edit src/app.py

What a command writes meanwhile is joined with your text; where both changed
the same lines, yours is kept as a file beside it and named."""


@click.command("edit", epilog=EDIT_EXAMPLES)
@click.argument("file", metavar="FILE", shell_complete=complete)
@click.option("--conversation", is_flag=True, help="Edit the conversation instead of the notes.")
@json_option
@pass_session
def edit_command(session: Session, /, file: str, conversation: bool, as_json: bool) -> int:
    """Change the notes of FILE in your editor: $VISUAL, $EDITOR, or the one that git uses.

    Any bullet or paragraph is a note. The text is checked afterwards, and what is odd in it is said. To take all of it
    away, use `memory clear`: an empty text changes nothing.
    """
    from repoagent.git.worktree import open_at_head
    from repoagent.memory.editing import keep_text, save_conversation, save_notes
    from repoagent.memory.identity.store import remember
    from repoagent.storage.atomic import read_regular

    here = opened(session)
    found = here.named(file, rekey=True)
    memory = found.memory
    if memory is None and conversation:
        raise NothingDone(f"nothing was said about {found.path} yet")
    path = None if memory is None else memory.conversation if conversation else memory.notes
    before = (read_regular(path) if path is not None else None) or b""
    if conversation and not before:
        raise NothingDone(f"nothing was said about {found.path} yet")
    _need_editor(here, path)
    after, problem = _edited(here, before or _EMPTY, conversation=conversation)
    if after is None:
        raise NothingDone("the editor failed or left nothing: all is as it was")
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
        raise kind(f"{error}; your text is kept in {here.shown(kept)}") from error
    target = memory.conversation if conversation else memory.notes
    if as_json:
        content = {"version": VERSION, "file": str(target), "bytes": len(after), "joined": joined}
        here.terminal.result(json.dumps(content, indent=2) + "\n")
    else:
        beside = "; joined with what was written meanwhile" if joined else ""
        here.terminal.note(f"saved {here.shown(target)}{beside}", "dim")
    return Exit.DONE


def _need_editor(here: Here, path: object) -> None:
    """Raise UsageError where an editor that needs a terminal would be started without one."""
    from repoagent.git.process import git_output

    terminal = here.terminal
    if (terminal.reads and (terminal.tells or terminal.shows)) or any(
        os.environ.get(name) for name in ("GIT_EDITOR", "VISUAL", "EDITOR")
    ):
        return
    if git_output(here.worktree.top, "config", "core.editor", ok=(0, 1)).stdout.strip():
        return
    where = f", or change {path}" if path is not None else ", or use `repoagent memory note`"
    raise UsageError(f"there is no terminal for an editor: set EDITOR to a program that needs none{where}")


def _edited(here: Here, text: bytes, *, conversation: bool) -> tuple[bytes | None, Refused | None]:
    """What the person makes of `text`, None when the editor failed or left nothing; and why it can't be saved. It is
    opened again if they like."""
    from repoagent.memory.editing import check_conversation, check_notes
    from repoagent.storage.secrets import mask

    while True:
        made = here.terminal.edit_text(text.decode("utf-8", "surrogateescape"), ".md", cwd=here.cwd)
        if made is None:
            return None, None
        shown = mask(made)
        if shown != made:
            here.terminal.warn("the text held what looks like a key or a token: that is masked")
        text = shown.encode("utf-8", "surrogateescape")
        try:
            _warn_findings(here, check_conversation(text) if conversation else check_notes(text))
        except Refused as error:
            if not here.terminal.can_ask:
                return text, error
            here.terminal.warn(str(error))
            choices = {"e": "edit it again", "k": "keep it as a file, and leave all as it was"}
            if here.terminal.ask("Your text can't be read", choices) == "k":
                return text, error
        else:
            return text, None


def _warn_findings(here: Here, found: list[Finding]) -> None:
    for one in found[:_SHOWN]:
        here.terminal.warn(f"line {one.line}: {one.says}")
    if len(found) > _SHOWN:
        here.terminal.warn(f"and {len(found) - _SHOWN} more of such lines")


CLEAR_EXAMPLES = """\b
Examples:
  repoagent memory clear src/app.py
  repoagent memory clear src/app.py --conversation --yes
  repoagent memory clear --undo src/app.py

Nothing is deleted: it goes to the archive/ folder of the memory, where no
prompt and no search finds it, and --undo brings the last of it back. To be rid
of it for good, delete that folder. Which file the memory belongs to is kept."""


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
    """Take away what is known about FILES, and put it into the archive."""
    from repoagent.memory.editing import PARTS
    from repoagent.memory.lookup import needed

    parts: list[Part] = [part for part in PARTS if part in options["parts"]]
    if options["undo"] and (parts or options["everything"]):
        raise UsageError(
            "--undo brings back what was cleared last, whatever it was: leave the other options out"
        )
    here = opened(session)
    chosen: dict[Path, Memory] = {}
    for file in files:
        found = here.named(file, rekey=not options["dry_run"])
        memory = needed(here.layout, here.worktree, found, warn=here.terminal.warn)
        chosen[memory.folder] = memory
    memories = list(chosen.values())
    if options["undo"]:
        return _undo(here, memories, options)
    return _clear(here, memories, parts if parts and not options["everything"] else list(PARTS), options)


def _clear(here: Here, memories: list[Memory], parts: list[Part], options: dict[str, Any]) -> int:
    from repoagent.memory.editing import clear, held

    there = {memory.folder: held(memory, parts) for memory in memories}
    full = [memory for memory in memories if there[memory.folder]]
    if not full:
        raise NothingDone("there is nothing to clear")
    for memory in full:
        what = ", ".join(f"{part} ({amount(size)})" for part, size in there[memory.folder].items())
        if not options["as_json"]:
            here.terminal.note(f"{name(memory.identity.path)}: {what}")
    if options["dry_run"]:
        _report_cleared(here, [(memory, None, there[memory.folder]) for memory in full], options)
        return Exit.DONE
    _agree(here, f"Clear that of {count(len(full), 'file')}", options)
    done = []
    for memory in full:
        put = clear(memory, parts)
        if put is not None:
            done.append((memory, put.folder, put.parts))
            if not options["as_json"]:
                here.terminal.note(f"it is in {here.shown(put.folder)} now", "dim")
    _report_cleared(here, done, options)
    if done and not options["as_json"]:
        here.terminal.note(f"to have it back: repoagent memory clear --undo {_words(full)}", "dim")
    return Exit.DONE if done else Exit.NOTHING


def _undo(here: Here, memories: list[Memory], options: dict[str, Any]) -> int:
    from repoagent.memory.editing import bring_back, put_away

    last = [(memory, puts[-1]) for memory in memories if (puts := put_away(memory))]
    if not last:
        raise NothingDone("nothing that was cleared is in the archive")
    for memory, put in last:
        if not options["dry_run"]:
            bring_back(memory, put)
        if not options["as_json"]:
            verb = "would be" if options["dry_run"] else "is"
            here.terminal.note(f"{name(memory.identity.path)}: {verb} brought back: {', '.join(put.parts)}")
    _report_cleared(here, [(memory, put.folder, put.parts) for memory, put in last], options)
    return Exit.DONE


def _agree(here: Here, question: str, options: dict[str, Any]) -> None:
    if options["yes"]:
        return
    if not here.terminal.can_ask or options["as_json"]:
        raise UsageError("there is nobody to ask: say --yes to clear it, or --dry-run to see what would go")
    if here.terminal.ask(question, {"y": "put it into the archive", "n": "leave all as it is"}) == "n":
        raise NothingDone("nothing was cleared")


def _report_cleared(here: Here, done: list[Any], options: dict[str, Any]) -> None:
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
