"""What was done, as lines for a terminal: the newest first, and what it came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.activity.html import ended
from repoagent.activity.sums import landed, refusals, total, unapplied
from repoagent.cli.screen.clean import one_line, paint
from repoagent.cli.screen.glance import Column, table

if TYPE_CHECKING:
    from repoagent.activity.events import Activity, Event
    from repoagent.activity.sums import Sum
    from repoagent.cli.screen.terminal import Terminal

COLUMNS = (
    Column("time"),
    Column("state"),
    Column("what", cut="end", least=20),
    Column("cost", right=True, dropped=1),
)


def render(activity: Activity, limit: int, terminal: Terminal) -> str:
    shown = list(reversed(activity.events))[:limit]
    rows = [
        ((f"{event.time:%Y-%m-%d %H:%M}",), (ended(event), _style(event)), (_what(event),), (_cost(event),))
        for event in shown
    ]
    room = terminal.width if terminal.shows else None
    lines = list(table(COLUMNS, rows, room, color=terminal.color)) if rows else []
    more = len(activity.events) - len(shown)
    if more:
        lines.append(_dim(f"and {more:,} before; --limit shows more", terminal))
    whole = total(activity)
    counts = [
        f"{whole.applied:,} applied",
        *(f"{number:,} {state}" for state, number in unapplied(activity)),
        f"{whole.undone:,} taken back",
        f"{whole.reviews:,} reviewed",
    ]
    failed = sum(event.kind == "run" and event.state == "failed" for event in activity.events)
    of_runs = f"{whole.runs:,} run{'s' * (whole.runs > 1)}{f' ({failed:,} failed)' if failed else ''}"
    counts += [of_runs] if whole.runs else []
    lines += [*([""] if lines else []), *_fold(f"{', '.join(counts)}; {_spent(whole)}", terminal)]
    if why := refusals(activity):
        said = ", ".join(f"{one_line(reason)} {count}" for reason, count in why[:6])
        lines += [_dim(line, terminal) for line in _fold(f"not applied: {said}", terminal)]
    return "\n".join(lines) + "\n"


def _spent(whole: Sum) -> str:
    """What models took, in words: "2 calls, 812 tokens, $0.0123, 1 of them without a known price"."""
    calls = f"{whole.calls:,} call{'' if whole.calls == 1 else 's'}"
    if whole.unpriced == whole.calls:
        return f"{calls}, {whole.tokens:,} tokens, price not known" if whole.calls else "no calls of models"
    beyond = f" and {whole.unpriced:,} of unknown price" if whole.unpriced else ""
    return f"{calls}, {whole.tokens:,} tokens, ${whole.cost:.4f}{beyond}"


def _fold(text: str, terminal: Terminal) -> list[str]:
    """`text` on lines that fit the terminal; on one line for a file or a pipe."""
    if not terminal.shows:
        return [text]
    from textwrap import wrap

    return wrap(text, max(terminal.width, 20), break_on_hyphens=False)


def _what(event: Event) -> str:
    files = ", ".join(event.files[:2]) + (f" and {len(event.files) - 2} more" if len(event.files) > 2 else "")
    parts = [part for part in (event.what, f"({files})" if files and event.what else files) if part]
    return one_line(" ".join(parts)) or event.id


def _cost(event: Event) -> str:
    from repoagent.llm.usage import cost_text

    return cost_text(event.cost) if event.cost is not None and event.tokens else ""


def _style(event: Event) -> str:
    if event.kind == "edit" and event.state != "answered":
        return "green" if landed(event) else "yellow"
    return "blue" if event.kind == "undo" else "cyan"


def _dim(text: str, terminal: Terminal) -> str:
    return paint(text, "dim") if terminal.color else text
