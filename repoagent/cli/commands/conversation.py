"""`repoagent conversation`: the group and its commands, except `edit`, which is in conversation_edit."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.app import LazyGroup
from repoagent.cli.session import Repository, find_layout, pass_repository, select_fields
from repoagent.cli.ui.table import Column, Page
from repoagent.display_text import one_line, plural, sanitize, wrap_line
from repoagent.errors import Exit, NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.memory.conversation_log import ConversationChange
    from repoagent.memory.conversations import ConversationRef, ConversationResolver

COMMANDS = {
    "list": ("conversation:list_command", "List the saved conversations."),
    "show": ("conversation:show_command", "Show a conversation."),
    "save": ("conversation:save_command", "Save a conversation under a name."),
    "load": ("conversation:load_command", "Load a saved conversation for a file."),
    "branch": ("conversation:branch_command", "Start a conversation with the turns of another."),
    "edit": ("conversation_edit:edit_command", "Rewrite a conversation with a model."),
    "undo": ("conversation:undo", "Undo the last change to a conversation."),
    "redo": ("conversation:redo", "Redo the last undone change to a conversation."),
    "delete": ("conversation:delete_command", "Delete a conversation; undo restores it."),
}
EXAMPLES = """\b
Examples:
  repoagent conversation save parser --from file:src/parse.py
  repoagent conversation branch parser parser-2 --at 4
  repoagent conversation edit parser-2 "drop the discussion of names"
  repoagent conversation load parser-2 --into src/parse.py

Use the NAME of a conversation, or file:PATH for the one about that file. A
conversation is a plain file, which you may read and edit."""


@click.group(cls=LazyGroup, table=COMMANDS, epilog=EXAMPLES, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Save, branch, rewrite and delete conversations by name."""


GROUP = "repoagent conversation"


def epilog(*lines: str, more: str = "") -> str:
    """A command's epilog: `lines` are examples, without the leading `repoagent conversation`; `more` follows them."""
    shown = "\n".join(f"  {GROUP} {line}" for line in lines)
    return f"\b\nExamples:\n{shown}{more}"


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The conversation names with this prefix; none on an error, for example outside a repository."""
    from repoagent.memory.conversations import conversation_names

    try:
        layout = find_layout()
        return (
            []
            if layout is None
            else [name for name in conversation_names(layout) if name.startswith(incomplete)]
        )
    except (RepoagentError, OSError):
        return []


name_argument = click.argument("name", metavar="NAME", shell_complete=complete_name)


def conversation_resolver(repo: Repository) -> ConversationResolver:
    """The resolver for conversation names on the command line."""
    from repoagent.memory.conversations import ConversationResolver

    def why_not(path: str) -> str:
        from repoagent.edit.guards.off_limits import off_limits_gate

        return off_limits_gate(repo.worktree.top, [path])(path) or ""

    return ConversationResolver(
        repo.layout, repo.worktree, repo.cwd, why_not=why_not, warn=repo.terminal.warn
    )


def undo_command(ref: ConversationRef, verb: str = "undo") -> str:
    """The command that undoes the last change to a conversation."""
    return f"`{GROUP} {verb} {shlex.quote(ref.name)}`"


def _report(
    repo: Repository,
    command: str,
    ref: ConversationRef,
    change: ConversationChange,
    sentence: str,
    **more: object,
) -> None:
    """Print what a command did, as a sentence or as JSON."""
    content = {"command": command, **select_fields(ref, "name", "kind", "path")}
    hashes = {"changed": change.before != change.after, **select_fields(change, "before", "after")}
    repo.emit({**content, **hashes, **more}, [one_line(sentence)])


@click.command(epilog=epilog("branch money decimal --at 2", "branch file:src/app.py other-way"))
@name_argument
@click.argument("new", metavar="NEW")
@click.option("--at", type=int, metavar="TURN", help="Copy turns 1 to TURN.  [default: all]")
@pass_repository
def branch_command(repo: Repository, /, *, name: str, new: str, at: int | None) -> None:
    """Start conversation NEW with a copy of NAME's turns, up to turn TURN as numbered by `show`.

    NAME itself does not change.
    """
    from repoagent.memory.conversation_log import copy_conversation
    from repoagent.memory.conversations import conversation_named, find_conversation

    ref = conversation_named(repo.layout, new, own=True)
    source = find_conversation(conversation_resolver(repo), name)
    change = copy_conversation(repo.layout, source, ref, "branch", turns=at)
    count = len(source.conversation.turns) if at is None else at
    origin = source.ref.name
    sentence = f"{ref.name} starts with {plural(count, 'turn')} from {origin}"
    _report(repo, "branch", ref, change, sentence, **{"from": origin, "turns": count})


@click.command(epilog=epilog("delete money", "delete money --yes"))
@name_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@pass_repository
def delete_command(repo: Repository, /, *, name: str, yes: bool) -> None:
    """Delete NAME, even if its file is broken. `undo NAME` restores it."""
    from repoagent.memory.conversation_log import change_conversation
    from repoagent.memory.conversations import no_such_conversation, parse_stored
    from repoagent.storage.atomic import read_regular

    ref = conversation_resolver(repo).ref(name, own=True)
    data = read_regular(ref.path)
    if data is None:
        raise no_such_conversation(repo.layout, ref)
    try:
        size = plural(len(parse_stored(ref, data).conversation.turns), "turn")
    except Refused:
        size = f"{len(data):,} bytes, not a valid conversation"
    if not yes:
        repo.confirm(
            f"Delete {ref.name} ({size})", ("delete it", "keep it"),
            refusal=f"use --yes to delete {ref.name} ({size})", declined=f"{ref.name} was not deleted",
        )  # fmt: skip
    deletion = change_conversation(repo.layout, ref, data, None, "delete")
    _report(repo, "delete", ref, deletion, f"deleted {ref.name}; restore it with {undo_command(ref)}")


@click.command(
    epilog=epilog("load decimal --into src/app.py", "load money        for the file it was saved from")
)
@name_argument
@click.option("--into", metavar="FILE", help="The file to load NAME for.  [default: the one it came from]")
@pass_repository
def load_command(repo: Repository, /, *, name: str, into: str | None) -> None:
    """Replace the conversation about FILE with a copy of NAME; the next edit of FILE continues it.

    `undo file:FILE` restores the previous conversation.
    """
    from repoagent.memory.conversation_log import copy_conversation
    from repoagent.memory.conversations import about_of, find_conversation

    resolve = conversation_resolver(repo)
    source = find_conversation(resolve, name)
    if into is None:
        about = about_of(source.text)
        if not about:
            raise UsageError(f"{source.ref.name} does not say which file it is about; use --into FILE")
        into = str(repo.worktree.top / about)
    ref = resolve.file(into, make=True)
    change = copy_conversation(repo.layout, source, ref, "load", replaces=True)
    count, origin = len(source.conversation.turns), source.ref.name
    sentence = f"loaded {plural(count, 'turn')} from {origin} for {ref.about}"
    if change.before:
        sentence += f"; restore the previous ones with {undo_command(ref)}"
    _report(repo, "load", ref, change, sentence, **{"from": origin, "turns": count})


@click.command(epilog=epilog("save money", "save money --from file:src/app.py"))
@click.argument("name", metavar="NAME")
@click.option(
    "--from", "source", metavar="NAME|file:PATH", shell_complete=complete_name,
    help="The conversation to copy.  [default: the last one about a file]",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an existing conversation; undo restores it.")
@pass_repository
def save_command(repo: Repository, /, *, name: str, source: str | None, force: bool) -> None:
    """Save a copy of a conversation as NAME.

    The copy is a plain file, .repoagent/conversations/NAME.md. Keys and tokens in it are masked, and a line names the
    file that the conversation is about; the rest is unchanged.
    """
    from repoagent.memory.conversation_log import copy_conversation
    from repoagent.memory.conversations import conversation_named, find_conversation, last_spoken, read_stored

    ref = conversation_named(repo.layout, name, own=True)
    if source is not None:
        original = find_conversation(conversation_resolver(repo), source)
    else:
        last = last_spoken(repo.layout, warn=repo.terminal.warn)
        stored = None if last is None else read_stored(last)
        if stored is None:
            raise NothingDone("no conversation about a file yet; use --from to save another conversation")
        original = stored
    change = copy_conversation(repo.layout, original, ref, "save", replaces=force)
    count, origin = len(original.conversation.turns), original.ref.name
    sentence = f"saved {plural(count, 'turn')} from {origin} as {ref.name}"
    if change.before and change.before != change.after:
        sentence += f"; restore the replaced conversation with {undo_command(ref)}"
    _report(repo, "save", ref, change, sentence, **{"from": origin, "turns": count})


@click.command(epilog=epilog("undo decimal", "undo file:src/app.py"))
@name_argument
@pass_repository
def undo(repo: Repository, /, *, name: str) -> None:
    """Undo the last save, load, branch, edit or delete of NAME, if nothing was added since."""
    _reverse(repo, name, "undo")


@click.command(epilog=epilog("redo decimal", "redo file:src/app.py"))
@name_argument
@pass_repository
def redo(repo: Repository, /, *, name: str) -> None:
    """Redo the last undone change to NAME."""
    _reverse(repo, name, "redo")


def _reverse(repo: Repository, name: str, verb: str) -> None:
    from repoagent.memory.conversation_log import reverse_change

    ref = conversation_resolver(repo).ref(name)  # also that of a deleted run
    change, result = reverse_change(repo.layout, ref, verb, warn=repo.terminal.warn)
    command = change.command
    sentence = f"redid the {command} of {ref.name}"
    if verb == "undo":
        deletes = "" if result.after else ", which deleted it"
        sentence = f"undid the {command} of {ref.name}{deletes}; redo it with {undo_command(ref, 'redo')}"
    _report(repo, verb, ref, result, sentence, reversed=command, present=bool(result.after))


_COLUMNS = (
    Column("name", cut="middle", least=26),
    Column("kind", dropped=1),
    Column("turns", right=True),
    Column("size", right=True, dropped=3),
    Column("last"),
    Column("remarks", cut="end", least=26, dropped=2),
)


@click.command(epilog=epilog("list --files", "list --json | jq -r '.conversations[].name'"))
@click.option("--files", is_flag=True, help="Also list the conversations about files, as file:PATH.")
@pass_repository
def list_command(repo: Repository, /, *, files: bool) -> int:
    """List the saved conversations, with their kind, length and last turn.

    Kinds: file (about one file), edit (of an unfinished edit), run (of a task) and general (everything else).
    """
    from repoagent.memory.conversations import list_conversations

    listed = list_conversations(repo.layout, files=files, warn=repo.terminal.warn)
    if not listed and not repo.as_json:
        raise NothingDone(f"no saved conversations{'' if files else '; --files lists those about files'}")
    page = Page.of(repo.terminal)
    rows, cells = [], []
    for entry in listed:
        row = {
            **select_fields(entry.ref, "name", "kind", "path"),
            **select_fields(entry, "size", "last", "state", "problem"),
        }
        row |= {"kind": "file"} if entry.about else {}
        rows.append({**row, "file": entry.about or None, "turns": None if entry.problem else entry.turns})
        last = entry.last
        if page.width is not None:
            with suppress(ValueError, OverflowError):  # a date written by hand
                last = page.ago(datetime.fromisoformat(last.replace("Z", "+00:00")).timestamp())
        about = f"about {entry.about}" if entry.about and not entry.ref.about else ""
        texts = (
            one_line(entry.ref.name),
            "file" if entry.about else entry.ref.kind,
            "-" if entry.problem else f"{entry.turns:,}",
            str(entry.size) if page.width is None else f"{entry.size / 1000:,.1f} kB",
            one_line(last) or "-",
            one_line(", ".join(filter(None, [entry.problem, entry.state, about]))),
        )
        cells.append([(text, "red") if entry.problem else text for text in texts])
    repo.emit({"conversations": rows}, page.table(_COLUMNS, cells) if cells else ())
    return Exit.DONE if listed else Exit.NOTHING


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
_STYLES = {"user": "green", "assistant": "cyan", "observation": "dim"}


@click.command(epilog=epilog("show money", "show file:src/app.py"))
@name_argument
@pass_repository
def show_command(repo: Repository, /, *, name: str) -> None:
    """Show the turns of NAME, numbered.

    The text of each turn is indented, so that it cannot look like a turn's heading.
    """
    from repoagent.memory.conversation_log import digest
    from repoagent.memory.conversations import find_conversation

    stored = find_conversation(conversation_resolver(repo), name)
    ref, turns = stored.ref, stored.conversation.turns
    shown: list[dict[str, Any]] = [
        {"number": number, "role": turn.role, "meta": dict(turn.meta), "text": turn.text}
        for number, turn in enumerate(turns, 1)
    ]
    head_fields = {**select_fields(ref, "name", "kind", "path"), "sha256": digest(stored.data)}
    page = Page.of(repo.terminal, least=20)
    lines: list[str] = []
    for number, turn in enumerate(turns, 1):
        time, commit = turn.meta.get("time", ""), turn.meta.get("commit", "")[:12]
        time = time[:16].replace("T", " ") if _TIME.match(time) else time
        meta = "  ".join(filter(None, (time, turn.meta.get("model"), turn.meta.get("state"), commit)))
        kind = f" {turn.meta['kind']}" if turn.meta.get("kind") else ""
        head = page.paint(one_line(f"[{number}] {turn.role}{kind}"), "bold", _STYLES[turn.role])
        lines += [*([""] if lines else []), f"{head}  {page.paint(one_line(meta), 'dim')}".rstrip()]
        text = turn.text.removesuffix("\n")  # in a pipe, the exact text
        if page.width is not None:
            text = wrap_line(sanitize(text), page.width - 4)
        lines += [
            f"    {line}".rstrip() if page.width or not line else f"    {line}" for line in text.split("\n")
        ]
    notes = [] if turns else [f"{ref.name} has no turns"]
    repo.emit({**head_fields, "total": len(turns), "turns": shown}, lines, notes=notes)
