"""`repoagent conversation`: the group, and the commands that need no model.

The module conversation_edit has `edit` and `summarize`.
"""

from __future__ import annotations

import re
import shlex
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.app import LazyGroup
from repoagent.cli.repository import Repository, pass_repository
from repoagent.cli.session import select, write_json
from repoagent.cli.ui.output_style import Page, plural
from repoagent.cli.ui.table import Cell, Column
from repoagent.cli.ui.terminal_text import clean, fold, one_line
from repoagent.errors import Exit, NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.llm.conversation import Turn
    from repoagent.memory.conversation_changes import Change
    from repoagent.memory.conversation_names import ConversationRef
    from repoagent.memory.conversations import ConversationEntry, ConversationResolver, StoredConversation

COMMANDS = {
    "list": ("conversation:list_command", "List the saved conversations."),
    "show": ("conversation:show_command", "Show a conversation."),
    "save": ("conversation:save_command", "Save a conversation under a name."),
    "load": ("conversation:load_command", "Load a saved conversation for a file."),
    "branch": ("conversation:branch_command", "Start a conversation with the turns of another."),
    "summarize": ("conversation_edit:summarize_command", "Summarize a conversation with a model."),
    "edit": ("conversation_edit:edit_command", "Rewrite a conversation, with a model or in your editor."),
    "undo": ("conversation:undo", "Undo the last change of a conversation."),
    "redo": ("conversation:redo", "Redo the last undone change of a conversation."),
    "delete": ("conversation:delete_command", "Delete a conversation; undo restores it."),
}

EXAMPLES = """\b
Examples:
  repoagent conversation save parser --from file:src/parse.py
  repoagent conversation branch parser parser-2 --at 4
  repoagent conversation edit parser-2 "drop the talk about names"
  repoagent conversation load parser-2 --into src/parse.py

Use the NAME of a conversation, or file:PATH for the one about that file. Each
is a plain file, which you may read and edit."""


@click.group(cls=LazyGroup, table=COMMANDS, epilog=EXAMPLES, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Save, branch, rewrite and delete conversations by name."""


GROUP = "repoagent conversation"


def examples(*lines: str, more: str = "") -> str:
    """The epilog of a command: `lines` are examples without `repoagent conversation`, `more` is the text after them."""
    shown = "\n".join(f"  {GROUP} {line}" for line in lines)
    return f"\b\nExamples:\n{shown}{more}"


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names with this prefix; none on an error, such as outside a repository."""
    from repoagent.cli.session import find_layout
    from repoagent.memory.conversation_names import names

    try:
        layout = find_layout()
        return [] if layout is None else [name for name in names(layout) if name.startswith(incomplete)]
    except (RepoagentError, OSError):
        return []


name_argument = click.argument("name", metavar="NAME", shell_complete=complete_name)


def resolver(repo: Repository) -> ConversationResolver:
    """The resolver of conversation names on the command line."""
    from repoagent.memory.conversations import ConversationResolver

    def why_not(path: str) -> str:
        from repoagent.edit.guards.off_limits import gate

        return gate(repo.worktree.top, [path])(path) or ""

    return ConversationResolver(
        repo.layout, repo.worktree, repo.cwd, why_not=why_not, warn=repo.terminal.warn
    )


def undo_command(ref: ConversationRef, verb: str = "undo") -> str:
    """The command that undoes the last change of a conversation."""
    return f"`{GROUP} {verb} {shlex.quote(ref.name)}`"


def _report(
    repo: Repository, command: str, ref: ConversationRef, change: Change, *,
    sentence: str, as_json: bool, **more: object,
) -> None:  # fmt: skip
    """Print what a command did, as a sentence or as JSON."""
    if not as_json:
        repo.terminal.styled(f"{one_line(sentence)}\n")
        return
    content = {"command": command, **select(ref, "name", "kind", "path")}
    hashes = {"changed": change.before != change.after, **select(change, "before", "after")}
    write_json(repo.terminal, {**content, **hashes, **more})


@click.command(epilog=examples("branch money decimal --at 2", "branch file:src/app.py other-way"))
@name_argument
@click.argument("new", metavar="NEW")
@click.option("--at", type=int, metavar="TURN", help="Copy turns 1 to TURN.  [default: all]")
@pass_repository
def branch_command(repo: Repository, /, *, name: str, new: str, at: int | None, as_json: bool) -> None:
    """Start the conversation NEW with the turns of NAME, up to number TURN of `show`.

    NAME does not change.
    """
    from repoagent.memory.conversation_changes import branch
    from repoagent.memory.conversation_names import named
    from repoagent.memory.conversations import find

    ref = named(repo.layout, new, own=True)
    source = find(resolver(repo), name)
    change = branch(repo.layout, source, ref, turns=at)
    count = len(source.conversation.turns)
    copied, origin = count if at is None else at, source.place.name
    of = "" if copied == count else f" of {count:,}"
    sentence = f"{ref.name} starts with {plural(copied, 'turn')}{of} of {origin}"
    _report(
        repo, "branch", ref, change, sentence=sentence, as_json=as_json, **{"from": origin, "turns": copied}
    )


@click.command(epilog=examples("delete money", "delete money --yes"))
@name_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_repository
def delete_command(repo: Repository, /, *, name: str, yes: bool, as_json: bool) -> None:
    """Delete NAME, even if its file is broken. `undo NAME` restores it."""
    from repoagent.memory.conversation_changes import change
    from repoagent.memory.conversations import parse_stored

    ref = resolver(repo).place(name, own=True)
    data = _read(repo, ref)
    try:
        size = plural(len(parse_stored(ref, data).conversation.turns), "turn")
    except Refused:
        size = f"{len(data):,} bytes, not a valid conversation"
    if not yes:
        repo.confirm(
            f"Delete {ref.name} ({size})", ("delete it", "keep it"),
            refusal=f"use --yes to delete {ref.name} ({size})", declined=f"{ref.name} was not deleted",
        )  # fmt: skip
    deletion = change(repo.layout, ref, data, None, "delete")
    sentence = f"deleted {ref.name}; restore it with {undo_command(ref)}"
    _report(repo, "delete", ref, deletion, sentence=sentence, as_json=as_json)


def _read(repo: Repository, ref: ConversationRef) -> bytes:
    """The bytes of a conversation, even if it is broken. Raises UsageError if it does not exist."""
    from repoagent.memory.conversations import missing
    from repoagent.storage.atomic import read_regular

    data = read_regular(ref.path)
    if data is None:
        raise missing(repo.layout, ref)
    return data


@click.command(
    epilog=examples("load decimal --into src/app.py", "load money        for the file it was saved from")
)
@name_argument
@click.option("--into", metavar="FILE", help="Load it for FILE.  [default: the file it was saved from]")
@pass_repository
def load_command(repo: Repository, /, *, name: str, into: str | None, as_json: bool) -> None:
    """Replace the conversation about FILE with a copy of NAME; the next edit of FILE continues it.

    `undo file:FILE` restores the previous conversation.
    """
    from repoagent.memory.conversation_changes import load
    from repoagent.memory.conversations import about_of, find

    resolve = resolver(repo)
    source = find(resolve, name)
    if into is None:
        about = about_of(source.text)
        if not about:
            raise UsageError(f"{source.place.name} does not name its file; use --into FILE")
        into = str(repo.worktree.top / about)
    ref = resolve.file(into, make=True)
    if ref.key == source.place.key:
        raise UsageError(f"{ref.name} cannot be loaded into itself; name another conversation")
    change = load(repo.layout, source, ref)
    count, origin = len(source.conversation.turns), source.place.name
    sentence = f"{ref.about} now has the {plural(count, 'turn')} of {origin}"
    if change.before:
        sentence += f"; restore the previous ones with {undo_command(ref)}"
    _report(repo, "load", ref, change, sentence=sentence, as_json=as_json, **{"from": origin, "turns": count})


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
@click.option("--force", is_flag=True, help="Replace an existing conversation; undo restores it.")
@pass_repository
def save_command(repo: Repository, /, *, name: str, source: str | None, force: bool, as_json: bool) -> None:
    """Save a copy of a conversation as NAME.

    It is a plain file, .repoagent/conversations/NAME.md. Keys and tokens in it are masked, and a line names the file
    it is about; the rest is unchanged.
    """
    from repoagent.memory.conversation_changes import save
    from repoagent.memory.conversation_names import named

    ref = named(repo.layout, name, own=True)
    original = _source(repo, source)
    change = save(repo.layout, original, ref, force=force)
    count, origin = len(original.conversation.turns), original.place.name
    sentence = f"saved {plural(count, 'turn')} of {origin} as {ref.name}"
    if change.before and change.before != change.after:
        sentence += f"; restore what it replaced with {undo_command(ref)}"
    _report(repo, "save", ref, change, sentence=sentence, as_json=as_json, **{"from": origin, "turns": count})


def _source(repo: Repository, source: str | None) -> StoredConversation:
    from repoagent.memory.conversation_names import ConversationRef
    from repoagent.memory.conversations import find, last_spoken, parse_stored, read_stored

    if source == "-":
        ref = ConversationRef("standard input", "general", repo.layout.conversations / "-", "")
        try:
            return parse_stored(ref, sys.stdin.buffer.read())
        except Refused as error:
            raise type(error)(str(error).replace(str(ref.path), "standard input", 1)) from error
    if source is not None:
        return find(resolver(repo), source)
    last = last_spoken(repo.layout, warn=repo.terminal.warn)
    stored = None if last is None else read_stored(last)
    if stored is None:
        raise NothingDone("no conversation about a file yet; name one with --from")
    return stored


@click.command(epilog=examples("undo decimal", "undo file:src/app.py"))
@name_argument
@pass_repository
def undo(repo: Repository, /, *, name: str, as_json: bool) -> None:
    """Undo the last save, load, branch, edit, delete or compact of NAME.

    Turns that were added since are kept if they merge cleanly; otherwise undo refuses.
    """
    _reverse(repo, name, "undo", as_json)


@click.command(epilog=examples("redo decimal", "redo file:src/app.py"))
@name_argument
@pass_repository
def redo(repo: Repository, /, *, name: str, as_json: bool) -> None:
    """Redo the last undone change of NAME."""
    _reverse(repo, name, "redo", as_json)


def _reverse(repo: Repository, name: str, verb: str, as_json: bool) -> None:
    from repoagent.memory import conversation_changes

    reverse = conversation_changes.undo if verb == "undo" else conversation_changes.redo
    ref = resolver(repo).place(name, own=True)
    reversal = reverse(repo.layout, repo.worktree, ref, warn=repo.terminal.warn)
    command = reversal.change.command
    merged = "; merged with later changes" if reversal.merged else ""
    sentence = f"redid the {command} of {ref.name}{merged}"
    if verb == "undo":
        deletes = "" if reversal.present else ", which deletes it"
        again = f"redo it with {undo_command(ref, 'redo')}"
        sentence = f"undid the {command} of {ref.name}{deletes}{merged}; {again}"
    more = {"reversed": command, **select(reversal, "merged", "present")}
    _report(repo, verb, ref, reversal.result, sentence=sentence, as_json=as_json, **more)


_COLUMNS = (
    Column("name", cut="middle", least=26),
    Column("kind", dropped=1),
    Column("turns", right=True),
    Column("size", right=True, dropped=3),
    Column("last"),
    Column("remarks", cut="end", least=26, dropped=2),
)


@click.command(epilog=examples("list --files", "list --json | jq -r '.conversations[].name'"))
@click.option("--files", is_flag=True, help="Also list those of files, as file:PATH.")
@click.option("-z", "zero", is_flag=True, help="Print only names, each followed by a NUL byte.")
@pass_repository
def list_command(repo: Repository, /, *, files: bool, zero: bool, as_json: bool) -> int:
    """List the saved conversations, with their kind, length and last turn.

    Kinds: file (about one file), edit (of an unfinished edit), run (of a task) and general (everything else).
    """
    from repoagent.memory.conversations import entries, entries_of_files

    if zero and as_json:
        raise UsageError("-z cannot be combined with --json")
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
        for entry in listed if terminal.output_tty else ():
            if entry.problem:
                terminal.warn(f"{one_line(entry.place.path.name)}: {entry.problem}")
    return Exit.DONE if listed else Exit.NOTHING


def _cells(entry: ConversationEntry, page: Page) -> tuple[Cell, ...]:
    piped = page.width is None
    about = f"about {entry.about}" if entry.about and not entry.place.about else ""
    remarks = [entry.problem if piped else entry.trouble, entry.state, about]
    last = entry.last
    if not piped:
        try:
            last = page.ago(datetime.fromisoformat(last.replace("Z", "+00:00")).timestamp())
        except (ValueError, OverflowError):  # a date written by hand
            last = one_line(last)[:10]
    cells = (
        one_line(entry.place.name),
        "file" if entry.about else entry.place.kind,
        "-" if entry.problem else f"{entry.turns:,}",
        str(entry.size) if piped else f"{entry.size / 1000:,.1f} kB",
        last or "-",
        one_line(", ".join(filter(None, remarks))),
    )
    return tuple((cell, *(["red"] if entry.problem else [])) for cell in cells)


def _entry_object(entry: ConversationEntry) -> dict[str, object]:
    row = {**select(entry.place, "name", "kind", "path"), **select(entry, "size", "last", "state", "problem")}
    row |= {"kind": "file"} if entry.about else {}
    return {**row, "file": entry.about or None, "turns": None if entry.problem else entry.turns}


_RANGE = re.compile(r"(-?\d{1,9})?(\.\.)?(-?\d{1,9})?")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
_STYLES = {"user": "green", "assistant": "cyan", "observation": "dim"}


@click.command(
    epilog=examples("show money --turns -2..", "show file:src/app.py", "show money --raw > conversation.md")
)
@name_argument
@click.option(
    "--turns", "which", metavar="A..B", help="Show only these turns: 3, 2..5, 4.., ..2, or -2.. for the last two."
)  # fmt: skip
@click.option("--raw", is_flag=True, help="Print the file, byte for byte.")
@pass_repository
def show_command(repo: Repository, /, *, name: str, which: str | None, raw: bool, as_json: bool) -> None:
    """Show the turns of NAME, numbered.

    The text of each turn is indented, so that it cannot look like the heading of a turn.
    """
    from repoagent.memory.conversation_changes import digest
    from repoagent.memory.conversations import find

    if raw and (which is not None or as_json):
        raise UsageError("--raw cannot be combined with --turns or --json")
    terminal, resolve = repo.terminal, resolver(repo)
    if raw:
        terminal.result(_read(repo, resolve.place(name)).decode("utf-8", "surrogateescape"))
        return
    stored = find(resolve, name)
    ref, turns = stored.place, stored.conversation.turns
    numbers = range(1, len(turns) + 1) if which is None else _chosen(which, len(turns), ref.name)
    if as_json:
        shown: list[dict[str, Any]] = [
            {"number": number, "role": turn.role, "meta": dict(turn.meta), "text": turn.text}
            for number, turn in enumerate(turns, 1)
            if number in numbers
        ]
        head = {**select(ref, "name", "kind", "path"), "sha256": digest(stored.data)}
        write_json(terminal, {**head, "total": len(turns), "turns": shown})
        return
    page = Page.of(terminal, least=20)
    for number in numbers:
        if number > numbers[0]:
            terminal.styled("\n")
        _show_turn(number, turns[number - 1], page, repo)
    if not turns:
        terminal.note(f"{ref.name} has no turns")


def _chosen(text: str, count: int, name: str) -> range:
    """The turn numbers of a range such as 2..5. Raises UsageError if it is invalid."""
    match = _RANGE.fullmatch(text)
    if match is None or text in ("", "..") or (match[3] and not match[2]):
        raise UsageError(f"--turns {text}: use 3, 2..5, 4.., ..2 or -2..")
    first = int(match[1]) if match[1] else 1
    last = first if not match[2] else int(match[3]) if match[3] else count
    first, last = (count + 1 + end if end < 0 else end for end in (first, last))
    if not 1 <= first <= last or first > count:
        raise UsageError(f"--turns {text}: {name} has {plural(count, 'turn')}")
    return range(first, min(last, count) + 1)


def _show_turn(number: int, turn: Turn, page: Page, repo: Repository) -> None:
    time, commit = turn.meta.get("time", ""), turn.meta.get("commit", "")[:12]
    time = time[:16].replace("T", " ") if _TIME.match(time) else time
    meta = "  ".join(filter(None, (time, turn.meta.get("model"), turn.meta.get("state"), commit)))
    kind = f" {turn.meta['kind']}" if turn.meta.get("kind") else ""
    head = page.paint(one_line(f"[{number}] {turn.role}{kind}"), "bold", _STYLES[turn.role])
    repo.terminal.styled(f"{head}  {page.paint(one_line(meta), 'dim')}".rstrip() + "\n")
    for line in turn.text.removesuffix("\n").split("\n"):
        if page.width is None:
            repo.terminal.result((f"    {line}" if line else "") + "\n")
            continue
        for piece in fold(clean(line), page.width - 4).split("\n"):
            repo.terminal.styled(f"    {piece}".rstrip() + "\n")
