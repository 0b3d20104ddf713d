"""`repoagent conversation list` and `show`: the saved conversations, and the turns of one."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from repoagent.cli.commands.conversation import VERSION, examples, name_argument, open_context
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.cli.ui.sanitize import clean, one_line, paint, width
from repoagent.cli.ui.table import Cell, Column, ago, table
from repoagent.errors import Exit, NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.llm.conversation import Turn
    from repoagent.memory.conversations import ConversationEntry, StoredConversation

COLUMNS = (
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
@click.option("-z", "zero", is_flag=True, help="Print names only, each with a NUL byte after it.")
@json_option
@pass_session
def list_command(session: Session, /, *, files: bool, zero: bool, as_json: bool) -> int:
    """List the saved conversations, with their kind, length and last turn.

    The kinds: file, about one file; edit, of an unfinished edit; run, of a task; general, everything else.
    """
    from repoagent.memory.conversations import entries, entries_of_files

    context = open_context(session)
    found = entries(context.layout)
    if files:
        found += entries_of_files(context.layout, warn=context.terminal.warn)
    if zero and as_json:
        raise UsageError("-z cannot be combined with --json")
    if zero:
        context.terminal.result("".join(f"{entry.place.name}\0" for entry in found))
    elif as_json:
        value = {"version": VERSION, "conversations": [_entry_as_object(entry) for entry in found]}
        context.terminal.result(json.dumps(value, indent=2) + "\n")
    elif not found:
        more = "" if files else "; --files lists those of files"
        raise NothingDone(f"no saved conversations{more}")
    else:
        _show_list(found, context.terminal)
    return Exit.DONE if found else Exit.NOTHING


def _show_list(found: Sequence[ConversationEntry], terminal: Terminal) -> None:
    from repoagent.cli.ui.terminal import has_utf8

    shown = terminal.shows
    width = terminal.width if shown else None
    rows = [_cells(entry, shown, brief=shown and terminal.width < _BRIEF) for entry in found]
    ellipsis = "…" if has_utf8(os.environ) else "..."
    for line in table(COLUMNS, rows, width, color=terminal.color, ellipsis=ellipsis):
        terminal.styled(f"{line}\n")
    for entry in found if shown else ():
        if entry.problem:
            terminal.warn(f"{one_line(entry.place.path.name)}: {entry.problem}")


def _cells(entry: ConversationEntry, for_people: bool, *, brief: bool) -> tuple[Cell, ...]:
    size = f"{entry.size / 1000:,.1f} kB" if for_people else str(entry.size)
    cells = (
        one_line(entry.place.name),
        "file" if entry.about else entry.place.kind,
        "-" if entry.problem else f"{entry.turns:,}",
        size,
        (_ago(entry.last, short=brief) if for_people else entry.last) or "-",
        one_line(_remark(entry, for_people)),
    )
    return tuple((cell, *(["red"] if entry.problem else [])) for cell in cells)


def _remark(entry: ConversationEntry, for_people: bool) -> str:
    about = f"about {entry.about}" if entry.about and not entry.place.about else ""
    parts = [entry.trouble if for_people else entry.problem, entry.state, about]
    return ", ".join(part for part in parts if part)


def _ago(moment: str, *, short: bool = False) -> str:
    try:
        at = datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
        return ago(max(0.0, time.time() - at), short=short)
    except (ValueError, OverflowError):  # written by hand
        return one_line(moment)[: 10 if short else 16]


def _entry_as_object(entry: ConversationEntry) -> dict[str, object]:
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
    from repoagent.memory.conversations import find, missing
    from repoagent.storage.atomic import read_regular

    if raw and (which is not None or as_json):
        raise UsageError("--raw cannot be combined with --turns or --json")
    context = open_context(session)
    if raw:  # a broken one too
        place = context.here.place(name)
        data = read_regular(place.path)
        if data is None:
            raise missing(context.layout, place)
        context.terminal.result(data.decode("utf-8", "surrogateescape"))
        return
    found = find(context.here, name)
    turns = found.conversation.turns
    numbers = range(1, len(turns) + 1) if which is None else _chosen(which, len(turns), found.place.name)
    if as_json:
        context.terminal.result(json.dumps(_turns_as_object(found, numbers), indent=2) + "\n")
        return
    for number in numbers:
        if number > numbers[0]:
            context.terminal.styled("\n")
        _show_turn(number, turns[number - 1], context.terminal)
    if not turns:
        context.terminal.note(f"{found.place.name} has no turns")


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


def _show_turn(number: int, turn: Turn, terminal: Terminal) -> None:
    meta = [_short(key, turn.meta[key]) for key in _FIRST if turn.meta.get(key)]
    kind = f" {turn.meta['kind']}" if turn.meta.get("kind") else ""
    head = one_line(f"[{number}] {turn.role}{kind}")
    rest = one_line("  ".join(meta))
    if terminal.color:
        head, rest = paint(head, "bold", _STYLES[turn.role]), paint(rest, "dim")
    terminal.styled(f"{head}  {rest}".rstrip() + "\n")
    for line in turn.text.removesuffix("\n").split("\n"):
        if terminal.shows:
            for piece in _folded(clean(line), max(20, terminal.width - len(_INDENT))):
                terminal.styled((_INDENT + piece).rstrip() + "\n")
        else:
            terminal.result((_INDENT + line if line else "") + "\n")


def _short(key: str, value: str) -> str:
    """A time to the minute, a commit in twelve digits; --json has them whole."""
    if key == "time" and _TIME.match(value):
        return value[:16].replace("T", " ")
    return value[:12] if key == "commit" else value


def _folded(line: str, room: int) -> Iterator[str]:
    """A clean line in pieces of at most `room` columns, broken behind a space where there is one late enough."""
    start = column = 0
    space = 0
    for place, character in enumerate(line):
        step = width(character, column)
        if column + step > room:
            end = space if space > start + (place - start) // 2 else place
            yield line[start:end]
            start = end
            column = sum(width(one) for one in line[start:place])
        column += step
        if character == " ":
            space = place + 1
    yield line[start:]


def _turns_as_object(found: StoredConversation, numbers: range) -> dict[str, object]:
    from repoagent.memory.conversation_log import digest

    return {
        "version": VERSION,
        "name": found.place.name,
        "kind": found.place.kind,
        "path": str(found.place.path),
        "sha256": digest(found.data),
        "of": len(found.conversation.turns),
        "turns": [_turn(number, found.conversation.turns[number - 1]) for number in numbers],
    }


def _turn(number: int, turn: Turn) -> dict[str, object]:
    return {"number": number, "role": turn.role, "meta": dict(turn.meta), "text": turn.text}
