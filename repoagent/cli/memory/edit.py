"""`repoagent memory edit`: the notes or the conversation of a file, in an editor."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from repoagent.cli.memory.common import VERSION, complete, opened
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import Busy, Exit, NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.memory.common import Here
    from repoagent.memory.care.edit import Finding

_SHOWN = 5  # findings
_EMPTY = b"# Notes\n\n"
EXAMPLES = """\b
Examples:
  repoagent memory edit src/app.py
  repoagent memory edit src/app.py --conversation
  EDITOR="code --wait" repoagent memory edit src/app.py

What a command writes meanwhile is joined with your text; where both changed
the same lines, yours is kept as a file beside it and named."""


@click.command("edit", epilog=EXAMPLES)
@click.argument("file", metavar="FILE", shell_complete=complete)
@click.option("--conversation", is_flag=True, help="Edit the conversation instead of the notes.")
@json_option
@pass_session
def command(session: Session, /, file: str, conversation: bool, as_json: bool) -> int:
    """Change the notes of FILE in your editor: $VISUAL, $EDITOR, or the one that git uses.

    Any bullet or paragraph is a note. The text is checked afterwards, and what is odd in it is said. To take all of it
    away, use `memory clear`: an empty text changes nothing.
    """
    from repoagent.memory import remember
    from repoagent.memory.care.edit import keep_text, save_conversation, save_notes
    from repoagent.repo.worktree import open_at_head
    from repoagent.store import read_regular

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
    from repoagent.repo.run import git_output

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
    from repoagent.memory.care.edit import check_conversation, check_notes
    from repoagent.store.masking import mask

    while True:
        made = here.terminal.edit_text(text.decode("utf-8", "surrogateescape"), ".md", cwd=here.cwd)
        if made is None:
            return None, None
        shown = mask(made)
        if shown != made:
            here.terminal.warn("the text held what looks like a key or a token: that is masked")
        text = shown.encode("utf-8", "surrogateescape")
        try:
            _tell(here, check_conversation(text) if conversation else check_notes(text))
        except Refused as error:
            if not here.terminal.can_ask:
                return text, error
            here.terminal.warn(str(error))
            choices = {"e": "edit it again", "k": "keep it as a file, and leave all as it was"}
            if here.terminal.ask("Your text can't be read", choices) == "k":
                return text, error
        else:
            return text, None


def _tell(here: Here, found: list[Finding]) -> None:
    for one in found[:_SHOWN]:
        here.terminal.warn(f"line {one.line}: {one.says}")
    if len(found) > _SHOWN:
        here.terminal.warn(f"and {len(found) - _SHOWN} more of such lines")
