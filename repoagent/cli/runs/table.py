"""The table of runs, as a person reads it: each child below its parent, fitted to the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from repoagent.cli.screen.clean import one_line, paint
from repoagent.cli.screen.glance import Cell, Column, ago, table

if TYPE_CHECKING:
    from repoagent.work.home import Run

COLUMNS = (
    Column("run", cut="middle", least=16),
    Column("began"),
    Column("state"),
    Column("turns", right=True, dropped=3),
    Column("cost", right=True, dropped=1),
    Column("asked", cut="end", least=22),
    Column("now, or how it ended", cut="end", least=22, dropped=2),
)
_BRIEF = 110  # columns, below which it says "2h", not "2 hours ago"
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
    from repoagent.llm.usage import cost_text

    record = run.record
    if record.cost is None:
        return "?"
    return cost_text(record.cost) if record.cost < 1 else f"${record.cost:,.2f}"


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
    brief = wide is not None and wide < _BRIEF
    cells = [_cells(depth, run, utf8=utf8, brief=brief) for depth, run in rows]
    return table(COLUMNS, cells, wide, color=color, ellipsis="…" if utf8 else "...")


def _cells(depth: int, run: Run, *, utf8: bool, brief: bool) -> tuple[Cell, ...]:
    below = "  " * (depth - 1) + ("└ " if utf8 else "` ") if depth else ""
    style = _STYLES.get(run.state)
    return (
        (below + one_line(run.short),),
        (ago(max(0.0, time.time() - run.begun), short=brief) if run.begun else "",),
        (state_of(run, utf8=utf8, color=False), *([style] if style else [])),
        (f"{run.record.turns:,}" if run.record.turns else "",),
        (cost_of(run) if run.record.tokens else "",),
        (one_line(run.record.prompt) or how(run),),
        (how(run) if run.record.prompt else "",),
    )
