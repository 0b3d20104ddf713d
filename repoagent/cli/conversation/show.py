"""`repoagent conversation show`: what was said, turn by turn."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from repoagent.cli.conversation.common import VERSION, examples, name_argument, open_desk
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.screen.clean import clean, one_line, paint, width
from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.llm import Turn
    from repoagent.memory.conversations.places import Held

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
    "--turns", "which", metavar="A..B", help="Show only these: 3, 2..5, 4.., ..2, or -2.. for the last two."
)
@click.option("--raw", is_flag=True, help="Print the file as it is, byte for byte.")
@json_option
@pass_session
def command(session: Session, /, *, name: str, which: str | None, raw: bool, as_json: bool) -> None:
    """Show what was said in NAME, with the numbers of its turns.

    What is said stands indented: no text can pass for the heading of a turn.
    """
    from repoagent.memory.conversations import find
    from repoagent.memory.conversations.places import missing
    from repoagent.store import read_regular

    if raw and (which is not None or as_json):
        raise UsageError("--raw is for the whole file: leave --turns and --json out")
    desk = open_desk(session)
    if raw:  # a broken one too
        place = desk.here.place(name)
        data = read_regular(place.path)
        if data is None:
            raise missing(desk.layout, place)
        desk.terminal.result(data.decode("utf-8", "surrogateescape"))
        return
    found = find(desk.here, name)
    turns = found.conversation.turns
    numbers = range(1, len(turns) + 1) if which is None else _chosen(which, len(turns), found.place.name)
    if as_json:
        desk.terminal.result(json.dumps(_as_object(found, numbers), indent=2) + "\n")
        return
    for number in numbers:
        if number > numbers[0]:
            desk.terminal.styled("\n")
        _show(number, turns[number - 1], desk.terminal)
    if not turns:
        desk.terminal.note(f"nothing is said in {found.place.name}")


def _chosen(text: str, count: int, name: str) -> range:
    """The numbers of the turns that `text` asks for. Raises UsageError."""
    match = _RANGE.fullmatch(text)
    if match is None or text in ("", "..") or (match[3] and not match[2]):
        raise UsageError(f"--turns {text} is no range of turns: say 3, 2..5, 4.., ..2 or -2..")
    first = int(match[1]) if match[1] else 1
    last = first if not match[2] else int(match[3]) if match[3] else count
    first, last = (count + 1 + end if end < 0 else end for end in (first, last))
    if not 1 <= first <= last or first > count:
        raise UsageError(f"--turns {text}: {name} has {count} turn{'s' * (count != 1)}")
    return range(first, min(last, count) + 1)


def _show(number: int, turn: Turn, terminal: Terminal) -> None:
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


def _as_object(found: Held, numbers: range) -> dict[str, object]:
    from repoagent.memory.conversations.past import digest

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
