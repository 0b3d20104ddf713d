"""`repoagent conversation`: the group, what its commands share, and branch, delete, load, save, undo and redo.

The other commands are in conversation_list (list, show) and conversation_edit (edit, summarize).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import click

from repoagent.cli.app import LazyGroup
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.cli.ui.sanitize import one_line
from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree
    from repoagent.memory.conversation_changes import Reversal
    from repoagent.memory.conversation_log import Change
    from repoagent.memory.conversations import ConversationRef, ConversationResolver, StoredConversation
    from repoagent.storage.layout import Layout

__all__ = ["command"]

# name: (its click command, its short help)
COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("repoagent.cli.commands.conversation_list:list_command", "List the saved conversations."),
    "show": ("repoagent.cli.commands.conversation_list:show_command", "Show a conversation."),
    "save": ("repoagent.cli.commands.conversation:save_command", "Save a conversation under a name."),
    "load": ("repoagent.cli.commands.conversation:load_command", "Load a saved conversation for a file."),
    "branch": (
        "repoagent.cli.commands.conversation:branch_command",
        "Start a conversation with the turns of another.",
    ),
    "summarize": (
        "repoagent.cli.commands.conversation_edit:summarize_command",
        "Summarize a conversation with a model.",
    ),
    "edit": (
        "repoagent.cli.commands.conversation_edit:edit_command",
        "Rewrite a conversation, with a model or in your editor.",
    ),
    "undo": ("repoagent.cli.commands.conversation:undo", "Undo the last change of a conversation."),
    "redo": ("repoagent.cli.commands.conversation:redo", "Redo the change that you undid last."),
    "delete": (
        "repoagent.cli.commands.conversation:delete_command",
        "Delete a conversation; undo restores it.",
    ),
}

EXAMPLES = """\b
Examples:
  repoagent conversation save parser --from file:src/parse.py
  repoagent conversation branch parser parser-2 --at 4
  repoagent conversation edit parser-2 "drop the talk about names"
  repoagent conversation load parser-2 --into src/parse.py

A conversation is given by its NAME, or as file:PATH for the one about that
file. Each is a plain file, which you may read and edit."""


class ConversationGroup(LazyGroup):
    table: ClassVar[Mapping[str, tuple[str, str]]] = COMMANDS


@click.group(cls=ConversationGroup, epilog=EXAMPLES, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Save, branch, rewrite and delete conversations by name."""


F = TypeVar("F", bound=Callable[..., Any])
VERSION = 1
GROUP = "repoagent conversation"


def examples(*lines: str, more: str = "") -> str:
    """The epilog of a command: examples, each without `repoagent conversation`, and `more`."""
    shown = "\n".join(f"  {GROUP} {line}" for line in lines)
    return f"\b\nExamples:\n{shown}{more}"


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names with this prefix; none outside a repository, since a shell has no use for errors."""
    from repoagent.cli.session import find_layout
    from repoagent.memory.conversations import names

    try:
        layout = find_layout()
        return [] if layout is None else [name for name in names(layout) if name.startswith(incomplete)]
    except (RepoagentError, OSError):
        return []


def name_argument(parameter: str = "name", metavar: str = "NAME") -> Callable[[F], F]:
    """The argument that names an existing conversation."""
    return click.argument(parameter, metavar=metavar, shell_complete=complete_name)


@dataclass(frozen=True)
class ConversationContext:
    """The repository, settings and terminal of a command."""

    worktree: WorkTree
    layout: Layout
    here: ConversationResolver
    settings: Settings
    terminal: Terminal


def open_context(session: Session, flags: Mapping[str, object] | None = None) -> ConversationContext:
    """Open the current repository. Raises UsageError outside one."""
    from repoagent.git.worktree import layout, open_worktree
    from repoagent.memory.conversations import ConversationResolver

    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    place = layout(worktree)
    settings, terminal = session.open(place, flags)

    def why_not(path: str) -> str:
        from repoagent.edit.guards.scope import gate

        return gate(worktree.top, [path])(path) or ""

    at = ConversationResolver(place, worktree, cwd, why_not=why_not, warn=terminal.warn)
    return ConversationContext(worktree, place, at, settings, terminal)


def report_change(
    context: ConversationContext,
    command: str,
    place: ConversationRef,
    done: Change,
    sentence: str,
    *,
    as_json: bool,
    **more: object,
) -> None:
    """Report what a command did: a sentence, or JSON."""
    if as_json:
        value = {
            "version": VERSION,
            "command": command,
            "name": place.name,
            "kind": place.kind,
            "path": str(place.path),
            "changed": done.before != done.after,
            "before": done.before or None,
            "after": done.after or None,
            **more,
        }
        context.terminal.result(json.dumps(value, indent=2) + "\n")
        return
    context.terminal.styled(f"{one_line(sentence)}\n")


def turns(count: int) -> str:
    """ "1 turn", "12 turns"."""
    return f"{count:,} turn{'s' * (count != 1)}"


def word(name: str) -> str:
    """A name, quoted for a shell."""
    import shlex

    return shlex.quote(name)


@click.command(epilog=examples("branch money decimal --at 2", "branch file:src/app.py other-way"))
@name_argument()
@click.argument("new", metavar="NEW")
@click.option("--at", type=int, metavar="TURN", help="Copy turns 1 to TURN.  [default: all]")
@json_option
@pass_session
def branch_command(session: Session, /, *, name: str, new: str, at: int | None, as_json: bool) -> None:
    """Start the conversation NEW with the turns of NAME, up to TURN as `show` numbers them.

    NAME does not change.
    """
    from repoagent.memory.conversation_changes import branch
    from repoagent.memory.conversations import find, named

    context = open_context(session)
    place = named(context.layout, new, own=True)
    found = find(context.here, name)
    done = branch(context.layout, found, place, turns=at)
    count = len(found.conversation.turns)
    taken = count if at is None else at
    of = "" if taken == count else f" of {count:,}"
    sentence = f"{place.name} starts with {turns(taken)}{of} of {found.place.name}"
    report_change(
        context,
        "branch",
        place,
        done,
        sentence,
        as_json=as_json,
        **{"from": found.place.name, "turns": taken},
    )


@click.command(epilog=examples("delete money", "delete money --yes"))
@name_argument()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@pass_session
def delete_command(session: Session, /, *, name: str, yes: bool, as_json: bool) -> None:
    """Delete NAME, even if its file is broken. `undo NAME` restores it."""
    from repoagent.memory.conversation_changes import change
    from repoagent.memory.conversations import missing, parse_stored
    from repoagent.storage.atomic import read_regular

    context = open_context(session)
    place = context.here.place(name, own=True)
    data = read_regular(place.path)
    if data is None:
        raise missing(context.layout, place)
    try:
        what = turns(len(parse_stored(place, data).conversation.turns))
    except Refused:
        what = f"{len(data):,} bytes, not a valid conversation"
    if not yes:
        if not context.terminal.can_ask:
            raise UsageError(f"use --yes to delete {place.name} ({what})")
        if context.terminal.ask(f"Delete {place.name} ({what})", {"y": "delete it", "n": "keep it"}) == "n":
            raise NothingDone(f"{place.name} was not deleted")
    done = change(context.layout, place, data, None, "delete")
    sentence = f"deleted {place.name}; restore it with `{GROUP} undo {word(place.name)}`"
    report_change(context, "delete", place, done, sentence, as_json=as_json)


@click.command(
    epilog=examples("load decimal --into src/app.py", "load money        for the file it was saved from")
)
@name_argument()
@click.option("--into", metavar="FILE", help="Load it for FILE.  [default: the file it was saved from]")
@json_option
@pass_session
def load_command(session: Session, /, *, name: str, into: str | None, as_json: bool) -> None:
    """Replace the conversation about FILE by a copy of NAME; the next edit of FILE continues it.

    `undo file:FILE` restores the former conversation.
    """
    from repoagent.memory.conversation_changes import load
    from repoagent.memory.conversations import about_of, find

    context = open_context(session)
    found = find(context.here, name)
    if into is None:
        about = about_of(found.text)
        if not about:
            raise UsageError(f"{found.place.name} does not name its file; use --into FILE")
        into = str(context.worktree.top / about)
    place = context.here.file(into, make=True)
    if place.key == found.place.key:
        raise UsageError(f"{place.name} cannot be loaded into itself; name another conversation")
    done = load(context.layout, found, place)
    count = len(found.conversation.turns)
    sentence = f"{place.about} now has the {turns(count)} of {found.place.name}"
    if done.before:
        sentence += f"; restore its former ones with `{GROUP} undo {word(place.name)}`"
    report_change(
        context, "load", place, done, sentence, as_json=as_json, **{"from": found.place.name, "turns": count}
    )


@click.command(
    epilog=examples(
        "save money", "save money --from file:src/app.py", "save theirs --from - < conversation.md"
    )
)
@click.argument("name", metavar="NAME")
@click.option(
    "--from", "source", metavar="NAME|file:PATH", shell_complete=complete_name,
    help="What to copy; - reads a conversation file from standard input.  [default: the last one about a file]",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an existing one; undo restores it.")
@json_option
@pass_session
def save_command(session: Session, /, *, name: str, source: str | None, force: bool, as_json: bool) -> None:
    """Save a copy of a conversation as NAME.

    It is a plain file, .repoagent/conversations/NAME.md. Keys and tokens in it are masked, and a line names the file
    that it is about; the rest is unchanged.
    """
    from repoagent.memory.conversation_changes import save
    from repoagent.memory.conversations import named

    context = open_context(session)
    place = named(context.layout, name, own=True)
    found = _source(context, source)
    done = save(context.layout, found, place, force=force)
    count = len(found.conversation.turns)
    sentence = f"saved {turns(count)} of {found.place.name} as {place.name}"
    if done.before and done.before != done.after:
        sentence += f"; restore what it replaced with `{GROUP} undo {word(place.name)}`"
    report_change(
        context, "save", place, done, sentence, as_json=as_json, **{"from": found.place.name, "turns": count}
    )


def _source(context: ConversationContext, source: str | None) -> StoredConversation:
    from repoagent.memory.conversations import ConversationRef, find, last_spoken, parse_stored, read_stored

    if source == "-":
        place = ConversationRef("standard input", "general", context.layout.conversations / "-", "")
        try:
            return parse_stored(place, sys.stdin.buffer.read())
        except Refused as error:
            raise type(error)(str(error).replace(str(place.path), "standard input", 1)) from error
    if source is not None:
        return find(context.here, source)
    last = last_spoken(context.layout, warn=context.terminal.warn)
    found = None if last is None else read_stored(last)
    if found is None:
        raise NothingDone("no conversation about a file yet; use --from to name what to copy")
    return found


@click.command(epilog=examples("undo decimal", "undo file:src/app.py"))
@name_argument()
@json_option
@pass_session
def undo(session: Session, /, *, name: str, as_json: bool) -> None:
    """Undo the last save, load, branch, edit, delete or compact of NAME.

    What was added since stays if it merges cleanly; otherwise undo refuses.
    """
    from repoagent.memory.conversation_changes import undo

    context = open_context(session)
    place = context.here.place(name, own=True)
    found = undo(context.layout, context.worktree, place, warn=context.terminal.warn)
    how = "" if found.present else ", which deletes it"
    how += "; what was written since is merged" if found.merged else ""
    sentence = f"undid the {found.change.command} of {place.name}{how}; redo it with `{GROUP} redo {word(place.name)}`"
    report_change(context, "undo", place, found.result, sentence, as_json=as_json, **_more(found))


@click.command(epilog=examples("redo decimal", "redo file:src/app.py"))
@name_argument()
@json_option
@pass_session
def redo(session: Session, /, *, name: str, as_json: bool) -> None:
    """Redo the change of NAME that was undone last."""
    from repoagent.memory.conversation_changes import redo

    context = open_context(session)
    place = context.here.place(name, own=True)
    found = redo(context.layout, context.worktree, place, warn=context.terminal.warn)
    sentence = f"redid the {found.change.command} of {place.name}"
    sentence += "; what was written since is merged" if found.merged else ""
    report_change(context, "redo", place, found.result, sentence, as_json=as_json, **_more(found))


def _more(found: Reversal) -> dict[str, object]:
    return {"of": found.change.command, "merged": found.merged, "present": found.present}
