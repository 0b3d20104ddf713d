"""`repoagent conversation list`: what is kept, at a glance."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from repoagent.cli.conversation.common import VERSION, examples, open_desk
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.screen.clean import one_line, paint
from repoagent.cli.screen.glance import ago, columns, shorten
from repoagent.errors import Exit, NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.memory.conversations import Entry

HEAD = ("name", "kind", "turns", "size", "last", "remarks", "last")
REMARKS = 5
# the columns beside the name, the widest first; the second "last" is the short one
_SHAPES: tuple[tuple[int, ...], ...] = (
    (1, 2, 3, 4, 5),
    (1, 2, 4, 5),
    (1, 2, 6, 5),
    (2, 6, 5),
    (2, 5),
    (1, 2, 6),
    (2,),
)
_NAME, _REMARK = 26, 26  # columns of a name and of remarks that are enough, where there are longer ones


@click.command(epilog=examples("list --files", "list --json | jq -r '.conversations[].name'"))
@click.option("--files", is_flag=True, help="Also list those of files, as file:PATH.")
@click.option("-z", "zero", is_flag=True, help="Print names only, each with a NUL byte after it.")
@json_option
@pass_session
def command(session: Session, /, *, files: bool, zero: bool, as_json: bool) -> int:
    """List the conversations that are kept: what each is, how long, when it was spoken in, where it came from.

    Of kind file is what was said about one file, edit what an edit at work, or one that did not come to its end, has
    said so far, run what a task said; all else is general.
    """
    from repoagent.memory.conversations import entries, entries_of_files

    desk = open_desk(session)
    found = entries(desk.layout)
    if files:
        found += entries_of_files(desk.layout, warn=desk.terminal.warn)
    if zero and as_json:
        raise UsageError("-z and --json are two forms of one list: say one of them")
    if zero:
        desk.terminal.result("".join(f"{entry.place.name}\0" for entry in found))
    elif as_json:
        value = {"version": VERSION, "conversations": [_as_object(entry) for entry in found]}
        desk.terminal.result(json.dumps(value, indent=2) + "\n")
    elif not found:
        more = "" if files else "; --files lists those of files"
        raise NothingDone(f"no conversation is kept under a name yet{more}")
    else:
        _show(found, desk.terminal)
    return Exit.DONE if found else Exit.NOTHING


def _show(found: Sequence[Entry], terminal: Terminal) -> None:
    from repoagent.cli.screen.terminal import has_utf8

    shown = terminal.shows
    rows = [HEAD, *(_cells(entry, shown) for entry in found)]
    ellipsis = "…" if has_utf8(os.environ) else "..."
    for number, line in enumerate(_lines(rows, terminal.width if shown else None, ellipsis)):
        styles = ("bold",) if not number else ("red",) if found[number - 1].problem else ()
        terminal.styled((paint(line, *styles) if terminal.color else line) + "\n")
    for entry in found if shown else ():
        if entry.problem:
            terminal.warn(f"{one_line(entry.place.path.name)}: {entry.problem}")


def _lines(rows: Sequence[tuple[str, ...]], width: int | None, ellipsis: str) -> Iterator[str]:
    """The table in at most `width` columns: what says least is left out first, then names and remarks are cut."""
    widths = [max(columns(row[at]) for row in rows) for at in range(len(HEAD))]
    shape, room, rest = _fitted(widths, width)
    for row in rows:
        name = shorten(row[0], room, ellipsis)
        cells = [name + " " * (room - columns(name))]
        for at in shape:
            cell = _front(row[at], rest, ellipsis) if at == REMARKS else row[at]
            pad = " " * (widths[at] - columns(cell))
            cells.append(cell if at == REMARKS else pad + cell if at in (2, 3) else cell + pad)
        yield "  ".join(cells).rstrip()


def _fitted(widths: Sequence[int], width: int | None) -> tuple[tuple[int, ...], int, int]:
    """Which columns there is room for, and how wide the names and the remarks may be."""
    if width is None:
        return _SHAPES[0], widths[0], widths[REMARKS]
    shape, left = _SHAPES[-1], width
    for shape in _SHAPES:
        left = width - sum(widths[at] + 2 for at in shape if at != REMARKS)
        remarks = min(widths[REMARKS], _REMARK) + 2 if REMARKS in shape else 0
        if left >= min(widths[0], _NAME) + remarks:
            break
    if REMARKS not in shape:
        return shape, max(8, min(widths[0], left)), 0
    room = min(widths[0], max(_NAME, left - 2 - widths[REMARKS]))
    return shape, room, left - 2 - room


def _front(text: str, room: int, ellipsis: str) -> str:
    from repoagent.cli.screen.glance import front

    return text if columns(text) <= room else front(text, max(0, room - columns(ellipsis))) + ellipsis


def _cells(entry: Entry, for_people: bool) -> tuple[str, ...]:
    size = f"{entry.size / 1000:,.1f} kB" if for_people else str(entry.size)
    return (
        one_line(entry.place.name),
        "file" if entry.about else entry.place.kind,
        "-" if entry.problem else f"{entry.turns:,}",
        size,
        (_ago(entry.last) if for_people else entry.last) or "-",
        one_line(_remark(entry, for_people)),
        _ago(entry.last, short=True) or "-",
    )


def _remark(entry: Entry, for_people: bool) -> str:
    parent = entry.parent
    parts = [entry.trouble if for_people else entry.problem, entry.state]
    if parent is not None:
        some = f" ({parent.turns:,} of {parent.of:,} turns)" if parent.turns < parent.of else ""
        parts.append(f"from {parent.name}{some}")
    return ", ".join(part for part in parts if part)


def _ago(moment: str, *, short: bool = False) -> str:
    try:
        at = datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
        return ago(max(0.0, time.time() - at), short=short)
    except (ValueError, OverflowError):  # written by hand
        return one_line(moment)[: 10 if short else 16]


def _as_object(entry: Entry) -> dict[str, object]:
    parent = entry.parent
    return {
        "name": entry.place.name,
        "kind": "file" if entry.about else entry.place.kind,
        "file": entry.about or None,
        "path": str(entry.place.path),
        "turns": None if entry.problem else entry.turns,
        "size": entry.size,
        "last": entry.last or None,
        "parent": None if parent is None else dict(vars(parent)),
        "state": entry.state or None,
        "problem": entry.problem or None,
    }
