"""The table of runs, as a person reads it: each child below its parent, fitted to the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from repoagent.cli.screen.clean import one_line, paint
from repoagent.cli.screen.glance import ago, columns, front, shorten

if TYPE_CHECKING:
    from repoagent.work.home import Run

HEAD = ("run", "began", "state", "turns", "cost", "asked")
_STATE, _NUMBERS, _LEFT_OUT = 2, (3, 4), (3, 1, 4)
_LEAST = 40  # columns of a terminal
_BRIEF = 110  # below that it says "2h", not "2 hours ago"
_BOTH = 40  # columns for what was asked and for how it is; with fewer one of them is shown
_WORDS = 22  # columns for words at least
_NAME = 12
_STYLES = {
    "running": "cyan",
    "paused": "yellow",
    "done": "green",
    "answered": "green",
    "unfinished": "yellow",
    "rejected": "yellow",
    "limit": "yellow",
    "stopped": "yellow",
    "failed": "red",
    "killed": "red",
    "unreadable": "red",
}
_SIGNS = {
    "running": "●", "paused": "‖", "done": "✓", "answered": "✓", "unfinished": "–", "rejected": "–", "limit": "◆",
    "stopped": "■", "failed": "✗", "killed": "✗", "elsewhere": "?", "conversation": "·", "unreadable": "!",
}  # fmt: skip
_PLAIN = {
    "running": ">", "paused": "=", "done": "+", "answered": "+", "unfinished": "-", "rejected": "-", "limit": "#",
    "stopped": "#", "failed": "x", "killed": "x", "elsewhere": "?", "conversation": ".", "unreadable": "!",
}  # fmt: skip


def state_of(run: Run, *, utf8: bool, color: bool) -> str:
    """The state with its sign, painted."""
    text = f"{(_SIGNS if utf8 else _PLAIN)[run.state]} {run.state}"
    return paint(text, _STYLES[run.state]) if color and run.state in _STYLES else text


def cost_of(run: Run) -> str:
    """What it cost, as far as that is known."""
    record = run.record
    if record.cost is None:
        return "?"
    return f"${record.cost:,.4f}" if record.cost < 1 else f"${record.cost:,.2f}"


def how(run: Run) -> str:
    """What it does now, or how it ended, in a line."""
    record = run.record
    if run.problem or run.alive:
        return one_line(run.problem or record.doing)
    if run.state == "elsewhere":
        return one_line(f"on {record.host or 'another machine'}")
    if run.state == "killed":
        return one_line(f"was at: {record.doing}" if record.doing else "")
    return one_line(next(iter(record.text.splitlines()), ""))


def lines(rows: Sequence[tuple[int, Run]], wide: int | None, *, color: bool, utf8: bool) -> Iterator[str]:
    """The lines of the table in `wide` columns, None for as many as it takes."""
    wide = None if wide is None else max(_LEAST, wide)
    ellipsis = "…" if utf8 else "..."
    table = _cells(rows, utf8=utf8, brief=wide is not None and wide < _BRIEF)
    widths = [max(columns(row[at]) for row in table) for at in range(len(HEAD))]
    if wide is not None:
        widths[0] = min(widths[0], max(_NAME, wide // 6))
    shown, room = _fitted(widths, wide)
    asked = widths[-1]
    both = room is None or room >= _BOTH
    if both and room is not None:
        asked = min(asked, max(room // 2 - 1, room - 2 - max(columns(how(run)) for _, run in rows)))
    for number, row in enumerate(table):
        cells = [_padded(row[at], widths[at], ellipsis, right=at in _NUMBERS) for at in shown]
        run = rows[number - 1][1] if number else None
        if run is not None and color:
            at = shown.index(_STATE)
            cells[at] = state_of(run, utf8=utf8, color=True) + cells[at][len(row[_STATE]) :]
        now = "now, or how it ended" if run is None else how(run)
        if both:
            cells += [
                _padded(row[-1], asked, ellipsis, end=True),
                _fit(now, room and room - asked - 2, ellipsis),
            ]
        else:
            here = run is not None and (run.alive or run.problem)
            cells += [_fit((now if here else row[-1]) or (now if number else ""), room, ellipsis)]
        line = "  ".join(cells).rstrip()
        yield paint(line, "bold") if color and run is None else line


def _cells(rows: Sequence[tuple[int, Run]], *, utf8: bool, brief: bool) -> list[tuple[str, ...]]:
    """The head, and a row for each run; all but the last column, which is how it is."""
    branch, now = "└ " if utf8 else "` ", time.time()
    found: list[tuple[str, ...]] = [HEAD]
    for depth, run in rows:
        below = "  " * (depth - 1) + branch if depth else ""
        found.append(
            (
                below + one_line(run.short),
                ago(max(0.0, now - run.begun), short=brief) if run.begun else "",
                state_of(run, utf8=utf8, color=False),
                f"{run.record.turns:,}" if run.record.turns else "",
                cost_of(run) if run.record.tokens else "",
                one_line(run.record.prompt),
            )
        )
    return found


def _fitted(widths: Sequence[int], wide: int | None) -> tuple[list[int], int | None]:
    """Which columns are shown before what was asked, and how much room that has: what says least is left out first."""
    shown = list(range(len(HEAD) - 1))
    if wide is None:
        return shown, None
    for left_out in (None, *_LEFT_OUT):
        shown = [at for at in shown if at != left_out]
        room = wide - sum(widths[at] + 2 for at in shown)
        if room >= _WORDS:
            break
    return shown, max(room, _WORDS)


def _padded(text: str, width: int, ellipsis: str, *, right: bool = False, end: bool = False) -> str:
    """`text` in exactly `width` columns; what is too long loses its middle, or its `end`."""
    if columns(text) > width:
        text = _fit(text, width, ellipsis) if end else shorten(text, width, ellipsis)
    pad = " " * (width - columns(text))
    return pad + text if right else text + pad


def _fit(text: str, room: int | None, ellipsis: str) -> str:
    if room is None or columns(text) <= room:
        return text
    return front(text, max(0, room - columns(ellipsis))).rstrip() + ellipsis
