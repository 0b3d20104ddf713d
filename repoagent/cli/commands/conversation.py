"""`repoagent conversation`: the group, and the commands that need no model.

conversation_edit has the others: edit and summarize.
"""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from repoagent.cli.app import LazyGroup
from repoagent.cli.repository import Repository, open_repository
from repoagent.cli.session import Session, json_option, pass_session, write_json
from repoagent.cli.ui.output_style import Page, plural
from repoagent.cli.ui.table import Cell, Column, ago
from repoagent.cli.ui.terminal_text import clean, fold, one_line
from repoagent.errors import Exit, NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.llm.conversation import Turn
    from repoagent.memory.conversation_changes import Change, Reversal
    from repoagent.memory.conversation_names import ConversationRef
    from repoagent.memory.conversations import ConversationEntry, ConversationResolver, StoredConversation

__all__ = ["command"]

# name: (its click command, its short help)
COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("conversation:list_command", "List the saved conversations."),
    "show": ("conversation:show_command", "Show a conversation."),
    "save": ("conversation:save_command", "Save a conversation under a name."),
    "load": ("conversation:load_command", "Load a saved conversation for a file."),
    "branch": ("conversation:branch_command", "Start a conversation with the turns of another."),
    "summarize": ("conversation_edit:summarize_command", "Summarize a conversation with a model."),
    "edit": ("conversation_edit:edit_command", "Rewrite a conversation, with a model or in your editor."),
    "undo": ("conversation:undo", "Undo the last change of a conversation."),
    "redo": ("conversation:redo", "Redo the change that you undid last."),
    "delete": ("conversation:delete_command", "Delete a conversation; undo restores it."),
}

EXAMPLES = """\b
Examples:
  repoagent conversation save parser --from file:src/parse.py
  repoagent conversation branch parser parser-2 --at 4
  repoagent conversation edit parser-2 "drop the talk about names"
  repoagent conversation load parser-2 --into src/parse.py

A conversation is given by its NAME, or as file:PATH for the one about that
file. Each is a plain file, which you may read and edit."""


@click.group(cls=LazyGroup, table=COMMANDS, epilog=EXAMPLES, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Save, branch, rewrite and delete conversations by name."""


F = TypeVar("F", bound=Callable[..., Any])
GROUP = "repoagent conversation"


def examples(*lines: str, more: str = "") -> str:
    """The epilog of a command: examples, each without `repoagent conversation`, and `more`."""
    shown = "\n".join(f"  {GROUP} {line}" for line in lines)
    return f"\b\nExamples:\n{shown}{more}"


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names with this prefix; none outside a repository, since a shell has no use for errors."""
    from repoagent.cli.session import find_layout
    from repoagent.memory.conversation_names import names

    try:
        layout = find_layout()
        return [] if layout is None else [name for name in names(layout) if name.startswith(incomplete)]
    except (RepoagentError, OSError):
        return []


def name_argument(parameter: str = "name", metavar: str = "NAME") -> Callable[[F], F]:
    """The argument that names an existing conversation."""
    return click.argument(parameter, metavar=metavar, shell_complete=complete_name)


def resolver(repo: Repository) -> ConversationResolver:
    """What finds conversations by the names of the command line."""
    from repoagent.memory.conversations import ConversationResolver

    def why_not(path: str) -> str:
        from repoagent.edit.guards.off_limits import gate

        return gate(repo.worktree.top, [path])(path) or ""

    return ConversationResolver(
        repo.layout, repo.worktree, repo.cwd, why_not=why_not, warn=repo.terminal.warn
    )


def undo_command(place: ConversationRef, verb: str = "undo") -> str:
    """The command that undoes the last change of a conversation."""
    return f"`{GROUP} {verb} {shlex.quote(place.name)}`"


def _report(
    repo: Repository,
    command: str,
    place: ConversationRef,
    change: Change,
    sentence: str,
    *,
    as_json: bool,
    **more: object,
) -> None:
    """Report what a command did: a sentence, or JSON."""
    if not as_json:
        repo.terminal.styled(f"{one_line(sentence)}\n")
        return
    content = {
        "command": command,
        "name": place.name,
        "kind": place.kind,
        "path": str(place.path),
        "changed": change.before != change.after,
        "before": change.before or None,
        "after": change.after or None,
    }
    write_json(repo.terminal, {**content, **more})


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
    from repoagent.memory.conversation_names import named
    from repoagent.memory.conversations import find

    repo = open_repository(session)
    place = named(repo.layout, new, own=True)
    source = find(resolver(repo), name)
    change = branch(repo.layout, source, place, turns=at)
    count = len(source.conversation.turns)
    taken = count if at is None else at
    of = "" if taken == count else f" of {count:,}"
    sentence = f"{place.name} starts with {plural(taken, 'turn')}{of} of {source.place.name}"
    more = {"from": source.place.name, "turns": taken}
    _report(repo, "branch", place, change, sentence, as_json=as_json, **more)


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

    repo = open_repository(session)
    place = resolver(repo).place(name, own=True)
    data = read_regular(place.path)
    if data is None:
        raise missing(repo.layout, place)
    try:
        what = plural(len(parse_stored(place, data).conversation.turns), "turn")
    except Refused:
        what = f"{len(data):,} bytes, not a valid conversation"
    if not yes:
        repo.confirm(
            f"Delete {place.name} ({what})", ("delete it", "keep it"),
            refusal=f"use --yes to delete {place.name} ({what})", declined=f"{place.name} was not deleted",
        )  # fmt: skip
    deletion = change(repo.layout, place, data, None, "delete")
    sentence = f"deleted {place.name}; restore it with {undo_command(place)}"
    _report(repo, "delete", place, deletion, sentence, as_json=as_json)


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

    repo = open_repository(session)
    resolve = resolver(repo)
    source = find(resolve, name)
    if into is None:
        about = about_of(source.text)
        if not about:
            raise UsageError(f"{source.place.name} does not name its file; use --into FILE")
        into = str(repo.worktree.top / about)
    place = resolve.file(into, make=True)
    if place.key == source.place.key:
        raise UsageError(f"{place.name} cannot be loaded into itself; name another conversation")
    change = load(repo.layout, source, place)
    count = len(source.conversation.turns)
    sentence = f"{place.about} now has the {plural(count, 'turn')} of {source.place.name}"
    if change.before:
        sentence += f"; restore its former ones with {undo_command(place)}"
    more = {"from": source.place.name, "turns": count}
    _report(repo, "load", place, change, sentence, as_json=as_json, **more)


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
    from repoagent.memory.conversation_names import named

    repo = open_repository(session)
    place = named(repo.layout, name, own=True)
    original = _source(repo, source)
    change = save(repo.layout, original, place, force=force)
    count = len(original.conversation.turns)
    sentence = f"saved {plural(count, 'turn')} of {original.place.name} as {place.name}"
    if change.before and change.before != change.after:
        sentence += f"; restore what it replaced with {undo_command(place)}"
    more = {"from": original.place.name, "turns": count}
    _report(repo, "save", place, change, sentence, as_json=as_json, **more)


def _source(repo: Repository, source: str | None) -> StoredConversation:
    from repoagent.memory.conversation_names import ConversationRef
    from repoagent.memory.conversations import find, last_spoken, parse_stored, read_stored

    if source == "-":
        place = ConversationRef("standard input", "general", repo.layout.conversations / "-", "")
        try:
            return parse_stored(place, sys.stdin.buffer.read())
        except Refused as error:
            raise type(error)(str(error).replace(str(place.path), "standard input", 1)) from error
    if source is not None:
        return find(resolver(repo), source)
    last = last_spoken(repo.layout, warn=repo.terminal.warn)
    stored = None if last is None else read_stored(last)
    if stored is None:
        raise NothingDone("no conversation about a file yet; use --from to name what to copy")
    return stored


@click.command(epilog=examples("undo decimal", "undo file:src/app.py"))
@name_argument()
@json_option
@pass_session
def undo(session: Session, /, *, name: str, as_json: bool) -> None:
    """Undo the last save, load, branch, edit, delete or compact of NAME.

    What was added since stays if it merges cleanly; otherwise undo refuses.
    """
    from repoagent.memory.conversation_changes import undo

    _reverse(session, name, undo, "undo", as_json=as_json)


@click.command(epilog=examples("redo decimal", "redo file:src/app.py"))
@name_argument()
@json_option
@pass_session
def redo(session: Session, /, *, name: str, as_json: bool) -> None:
    """Redo the change of NAME that was undone last."""
    from repoagent.memory.conversation_changes import redo

    _reverse(session, name, redo, "redo", as_json=as_json)


def _reverse(
    session: Session, name: str, reverse: Callable[..., Reversal], verb: str, *, as_json: bool
) -> None:
    repo = open_repository(session)
    place = resolver(repo).place(name, own=True)
    reversal = reverse(repo.layout, repo.worktree, place, warn=repo.terminal.warn)
    command = reversal.change.command
    merged = "; what was written since is merged" if reversal.merged else ""
    sentence = f"redid the {command} of {place.name}{merged}"
    if verb == "undo":
        deletes = "" if reversal.present else ", which deletes it"
        sentence = f"undid the {command} of {place.name}{deletes}{merged}; redo it with {undo_command(place, 'redo')}"
    more = {"reversed": command, "merged": reversal.merged, "present": reversal.present}
    _report(repo, verb, place, reversal.result, sentence, as_json=as_json, **more)


_COLUMNS = (
    Column("name", cut="middle", least=26),
    Column("kind", dropped=1),
    Column("turns", right=True),
    Column("size", right=True, dropped=3),
    Column("last"),
    Column("remarks", cut="end", least=26, dropped=2),
)
_BRIEF = 76  # columns, below which it says "2h", not "2 hours ago"


@click.command(epilog=examples("list --files", "list --json | jq -r '.conversations[].name'"))
@click.option("--files", is_flag=True, help="Also list those of files, as file:PATH.")
@click.option("-z", "zero", is_flag=True, help="Print only names, each followed by a NUL byte.")
@json_option
@pass_session
def list_command(session: Session, /, *, files: bool, zero: bool, as_json: bool) -> int:
    """List the saved conversations, with their kind, length and last turn.

    The kinds: file, about one file; edit, of an unfinished edit; run, of a task; general, everything else.
    """
    from repoagent.memory.conversations import entries, entries_of_files

    if zero and as_json:
        raise UsageError("-z cannot be combined with --json")
    repo = open_repository(session)
    terminal = repo.terminal
    listed = entries(repo.layout)
    if files:
        listed += entries_of_files(repo.layout, warn=terminal.warn)
    if zero:
        terminal.result("".join(f"{entry.place.name}\0" for entry in listed))
    elif as_json:
        write_json(terminal, {"conversations": [_entry_object(entry) for entry in listed]})
    elif not listed:
        raise NothingDone(f"no saved conversations{'' if files else '; --files lists those of files'}")
    else:
        page = Page.of(terminal)
        page.write(page.table(_COLUMNS, [_cells(entry, page) for entry in listed]), terminal)
        for entry in listed if terminal.shows else ():
            if entry.problem:
                terminal.warn(f"{one_line(entry.place.path.name)}: {entry.problem}")
    return Exit.DONE if listed else Exit.NOTHING


def _cells(entry: ConversationEntry, page: Page) -> tuple[Cell, ...]:
    piped = page.width is None
    about = f"about {entry.about}" if entry.about and not entry.place.about else ""
    remarks = [entry.problem if piped else entry.trouble, entry.state, about]
    last = entry.last if page.width is None else _ago(entry.last, short=page.width < _BRIEF)
    cells = (
        one_line(entry.place.name),
        "file" if entry.about else entry.place.kind,
        "-" if entry.problem else f"{entry.turns:,}",
        str(entry.size) if piped else f"{entry.size / 1000:,.1f} kB",
        last or "-",
        one_line(", ".join(filter(None, remarks))),
    )
    return tuple((cell, *(["red"] if entry.problem else [])) for cell in cells)


def _ago(moment: str, *, short: bool = False) -> str:
    try:
        at = datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
        return ago(max(0.0, time.time() - at), short=short)
    except (ValueError, OverflowError):  # written by hand
        return one_line(moment)[: 10 if short else 16]


def _entry_object(entry: ConversationEntry) -> dict[str, object]:
    return {
        "name": entry.place.name,
        "kind": "file" if entry.about else entry.place.kind,
        "file": entry.about or None,
        "path": str(entry.place.path),
        "turns": None if entry.problem else entry.turns,
        "size": entry.size,
        "last": entry.last or None,
        "state": entry.state or None,
        "problem": entry.problem or None,
    }


_RANGE = re.compile(r"(-?\d{1,9})?(\.\.)?(-?\d{1,9})?")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
_INDENT = "    "
_STYLES = {"user": "green", "assistant": "cyan", "observation": "dim"}
_FIRST = ("time", "model", "state", "commit")  # of the meta data of a turn: what a heading shows


@click.command(
    epilog=examples("show money --turns -2..", "show file:src/app.py", "show money --raw > conversation.md")
)
@name_argument()
@click.option(
    "--turns",
    "which",
    metavar="A..B",
    help="Show only these turns: 3, 2..5, 4.., ..2, or -2.. for the last two.",
)
@click.option("--raw", is_flag=True, help="Print the file, byte for byte.")
@json_option
@pass_session
def show_command(session: Session, /, *, name: str, which: str | None, raw: bool, as_json: bool) -> None:
    """Show the turns of NAME, numbered.

    The text of each turn is indented, so that no text can look like the heading of a turn.
    """
    from repoagent.memory.conversation_changes import digest
    from repoagent.memory.conversations import find, missing
    from repoagent.storage.atomic import read_regular

    if raw and (which is not None or as_json):
        raise UsageError("--raw cannot be combined with --turns or --json")
    repo = open_repository(session)
    terminal, resolve = repo.terminal, resolver(repo)
    if raw:  # a broken one too
        place = resolve.place(name)
        data = read_regular(place.path)
        if data is None:
            raise missing(repo.layout, place)
        terminal.result(data.decode("utf-8", "surrogateescape"))
        return
    stored = find(resolve, name)
    place, turns = stored.place, stored.conversation.turns
    numbers = range(1, len(turns) + 1) if which is None else _chosen(which, len(turns), place.name)
    if as_json:
        content = {
            "name": place.name,
            "kind": place.kind,
            "path": str(place.path),
            "sha256": digest(stored.data),
            "total": len(turns),
            "turns": [
                {"number": number, "role": turn.role, "meta": dict(turn.meta), "text": turn.text}
                for number in numbers
                for turn in (turns[number - 1],)
            ],
        }
        write_json(terminal, content)
        return
    page = Page.of(terminal, least=20)
    for number in numbers:
        if number > numbers[0]:
            terminal.styled("\n")
        _show_turn(number, turns[number - 1], page, repo)
    if not turns:
        terminal.note(f"{place.name} has no turns")


def _chosen(text: str, count: int, name: str) -> range:
    """The numbers of the turns that `text` asks for. Raises UsageError."""
    match = _RANGE.fullmatch(text)
    if match is None or text in ("", "..") or (match[3] and not match[2]):
        raise UsageError(f"--turns {text}: use 3, 2..5, 4.., ..2 or -2..")
    first = int(match[1]) if match[1] else 1
    last = first if not match[2] else int(match[3]) if match[3] else count
    first, last = (count + 1 + end if end < 0 else end for end in (first, last))
    if not 1 <= first <= last or first > count:
        raise UsageError(f"--turns {text}: {name} has {count} turn{'s' * (count != 1)}")
    return range(first, min(last, count) + 1)


def _show_turn(number: int, turn: Turn, page: Page, repo: Repository) -> None:
    meta = [_short(key, turn.meta[key]) for key in _FIRST if turn.meta.get(key)]
    kind = f" {turn.meta['kind']}" if turn.meta.get("kind") else ""
    head = page.paint(one_line(f"[{number}] {turn.role}{kind}"), "bold", _STYLES[turn.role])
    repo.terminal.styled(f"{head}  {page.paint(one_line('  '.join(meta)), 'dim')}".rstrip() + "\n")
    for line in turn.text.removesuffix("\n").split("\n"):
        if page.width is None:
            repo.terminal.result((_INDENT + line if line else "") + "\n")
            continue
        for piece in fold(clean(line), page.width - len(_INDENT)).split("\n"):
            repo.terminal.styled((_INDENT + piece).rstrip() + "\n")


def _short(key: str, value: str) -> str:
    """A time to the minute, a commit in twelve digits; --json has them whole."""
    if key == "time" and _TIME.match(value):
        return value[:16].replace("T", " ")
    return value[:12] if key == "commit" else value
