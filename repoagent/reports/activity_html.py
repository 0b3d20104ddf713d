"""The page of `repoagent activity --html`: works offline, without scripts, in light and dark; charts are SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.display_text import visible
from repoagent.history.graph_output import markup
from repoagent.history.graph_output import page as whole_page
from repoagent.reports.activity import (
    Activity,
    Event,
    Sum,
    by_day,
    by_file,
    by_model,
    refusals,
    spans,
    total,
    was_applied,
)

MAX_FILES = 12
MAX_EVENTS = 200
_WIDTH, _HEIGHT = 560, 170
_MARGIN, _BOTTOM, _TOP = 46, 22, 10
_NUMBERS = (("cost", "number"), ("", "bar"))  # the last columns of two tables
_EDITS = (("applied", "applied"), ("refused", "not applied"), ("undone", "undone"))  # class and label


class Bar(NamedTuple):
    """A part of a column: its class, its value, and its text in the tooltip."""

    kind: str
    value: float
    text: str


@dataclass(frozen=True)
class PageContext:
    """The neighbors of a file, best first, and how often each changed with it: "5 of 12"."""

    path: str
    neighbors: tuple[tuple[str, str], ...]


def bars(names: Sequence[str], columns: Sequence[Sequence[Bar]], title: str, *, money: bool = False) -> str:
    """A chart of stacked columns, with a scale from 0 to the highest column, in US dollars or whole numbers."""
    highest = max((sum(bar.value for bar in column) for column in columns), default=0.0)
    top = _round_up(highest) if money else max(_round_up(highest), 2)
    height, step = _HEIGHT - _BOTTOM - _TOP, (_WIDTH - _MARGIN) / max(len(names), 7)
    label = escape(title, quote=True)
    parts = [f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">']
    for share in (0.0, 0.5, 1.0):
        y = _TOP + height * (1 - share)
        number = _label(top * share, top, money=money)
        parts.append(f'<line x1="{_MARGIN}" x2="{_WIDTH}" y1="{y:g}" y2="{y:g}"/>')
        parts.append(f'<text x="{_MARGIN - 6}" y="{y + 4:g}" text-anchor="end">{number}</text>')
    wide = max(step * 0.72, 1.0)
    for at, (name, column) in enumerate(zip(names, columns, strict=True)):
        x, y = _MARGIN + at * step, float(_TOP + height)
        tooltip = escape(": ".join([name, ", ".join(bar.text for bar in column if bar.value) or "nothing"]))
        parts.append(
            f'<g><title>{tooltip}</title><rect x="{x:.1f}" y="{_TOP}" width="{step:.1f}" height="{height}" '
            'fill="transparent"/>'
        )
        for bar in column:
            tall = bar.value / top * height
            y -= tall
            if tall:
                parts.append(
                    f'<rect class="{bar.kind}" x="{x + (step - wide) / 2:.1f}" y="{y:.1f}" '
                    f'width="{wide:.1f}" height="{tall:.1f}" rx="1.5"/>'
                )
        parts.append("</g>")
    for at in sorted({0, len(names) - 1}) if names else []:
        anchor = "end" if at and len(names) > 5 else "start"
        x = _MARGIN + (at + (anchor == "end")) * step
        text = f'<text x="{x:.1f}" y="{_HEIGHT - 5}" text-anchor="{anchor}">{escape(names[at])}</text>'
        parts.append(text)
    return "".join([*parts, "</svg>\n"])


def _strip(kind: str, share: float, further: str = "", more: float = 0.0) -> str:
    """A horizontal bar with parts of class `kind` and `further`; the shares are of the whole width."""
    first = max(100 * min(share, 1.0), 0.0)
    second = max(min(100 * more, 100 - first), 0.0)
    rest = f'<rect class="{further}" x="{first:.1f}" width="{second:.1f}" height="10"/>' if second else ""
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" '
        f'height="10"/><rect class="{kind}" width="{first:.1f}" height="10"/>{rest}</svg>'
    )


def _label(value: float, top: float, *, money: bool) -> str:
    if not money:
        return f"{value:,.4g}" if value < 10_000 else f"{value:,.0f}"
    digits = 0 if top >= 10 or not value else 2 if top >= 0.1 else 3 if top >= 0.01 else 5
    return f"${value:,.{digits}f}"


def _round_up(value: float) -> float:
    """The next of 0.2, 0.4, … 2, 4, 6, 8, 10, 20, …; 1 for 0. Half of it is a round number too."""
    if value <= 0:
        return 1.0
    step = 1.0
    while step < value:
        step *= 10
    while step / 10 >= value:
        step /= 10
    return next(top for part in (2, 4, 6, 8, 10) if (top := step * part / 10) >= value)


def page(activity: Activity, since: str, around: Sequence[PageContext] = ()) -> str:
    """The page as HTML. `since` is the first day, as text; `around` has the neighbors of some files."""
    rules = files("repoagent.reports").joinpath("activity.css").read_text(encoding="utf-8")
    title = _text(f"repoagent in {activity.top.name}")
    body = [
        f"<header>\n<h1>{title}</h1>\n<p>{_text(str(activity.top))}, {_text(since)}</p>\n",
        *_tiles(total(activity)),
        "</header>\n<main>\n",
        *(_charts(activity) if activity.events or activity.spent else ()),
        *_hot_files(by_file(activity), {context.path: context for context in around}),
        *_events(activity.events),
        "</main>\n<footer><p>Made by <code>repoagent activity --html</code> from the files in .repoagent/ and "
        "your own log of model calls. Costs are list prices; ? and + mean calls of unknown price.</p></footer>\n",
    ]
    return whole_page(title, rules, body)


def _tiles(totals: Sum) -> Iterator[str]:
    tokens = totals.tokens
    tiles = [
        (f"{totals.applied:,}", "edits applied"),
        (f"{totals.refused:,}", "not applied"),
        (f"{totals.undone:,}", "undone"),
        (f"{totals.reviews:,}", "reviews"),
        *([(f"{totals.runs:,}", "runs")] if totals.runs else []),
        (f"{totals.calls:,}", "model calls"),
        (f"{tokens:,}" if tokens < 1_000_000 else f"{tokens / 1_000_000:,.1f} M", "tokens"),
        (totals.price(2) or "$0", "cost"),
    ]
    yield '<ul class="tiles">\n'
    for number, label in tiles:
        yield f"<li><b>{number}</b><span>{label}</span></li>\n"
    yield "</ul>\n"


def _charts(activity: Activity) -> Iterator[str]:
    """Cost and edits over time, reasons for refusals, models."""
    if days := by_day(activity):
        unit, sums = spans(days)
        names = [period.name for period in sums]
        spent = [[Bar("spend", period.cost, f"${period.cost:,.4f}")] for period in sums]
        edits = [
            [Bar(kind, n := getattr(period, kind), f"{n} {label}") for kind, label in _EDITS]
            for period in sums
        ]
        yield f'<div class="pair">\n<section>\n<h2>Spent by {unit}</h2>\n'
        yield bars(names, spent, f"US dollars by {unit}", money=True)
        yield f"</section>\n<section>\n<h2>Edits by {unit}</h2>\n"
        yield bars(names, edits, f"Edits by {unit}")
        yield '<p class="key">'
        for kind, label in _EDITS:
            spot = f'<rect class="{kind}" width="11" height="11" rx="2"/>'
            yield f'<span><svg viewBox="0 0 11 11" aria-hidden="true">{spot}</svg>{label}</span>'
        yield "</p>\n</section>\n</div>\n"
    yield '<div class="pair">\n<section>\n'
    reasons, models = refusals(activity), by_model(activity)
    rows: list[tuple[str, ...]] = [
        (f"<code>{_text(reason)}</code>", f"{count:,}", _strip("refused", count / reasons[0][1]))
        for reason, count in reasons
    ]
    heads: tuple[tuple[str, str], ...] = (("reason", ""), ("edits", "number"), ("", "bar"))
    yield from _table("Why edits were not applied", heads, rows, "No edit was refused, declined or failed.")
    yield "</section>\n<section>\n"
    most = max((model.cost for model in models), default=0.0) or 1.0
    rows = [
        (
            _text(model.name), f"{model.calls:,}", f"{model.tokens:,}", model.price(4),
            _strip("spend", model.cost / most),
        )
        for model in models
    ]  # fmt: skip
    heads = (("model", "file"), ("calls", "number"), ("tokens", "number"), *_NUMBERS)
    yield from _table("Models", heads, rows, "No model was called.")
    yield "</section>\n</div>\n"


def _hot_files(sums: Sequence[Sum], contexts: dict[str, PageContext]) -> Iterator[str]:
    hot = [row for row in sums if row.applied + row.refused + row.undone][:MAX_FILES]
    most = max((row.applied + row.refused for row in hot), default=0) or 1
    rows = []
    for row in hot:
        around = ""
        if (context := contexts.get(row.name)) and context.neighbors:
            names = [f"{path} ({often})" if often else path for path, often in context.neighbors]
            around = f"<small>{_text(', '.join(names))}</small>"
        strip = _strip("applied", row.applied / most, "refused", row.refused / most)
        name = f'<span class="file">{_text(row.name)}</span>{around}'
        rows.append((name, f"{row.applied:,}", f"{row.refused:,}", row.price(4), strip))
    if rows:
        heads = (("file", ""), ("applied", "number"), ("not applied", "number"), *_NUMBERS)
        yield from _table("Hot files, and what changes with them", heads, rows)


def _events(events: Sequence[Event]) -> Iterator[str]:
    rows = []
    for event in reversed(events[-MAX_EVENTS:]):
        kind = "undone" if event.kind == "undo" else ""
        if event.kind == "edit" and event.state != "answered":
            kind = "applied" if was_applied(event) else "refused"
        rows.append((
            f"{event.time:%Y-%m-%d %H:%M}",
            f'<span class="{kind}">{_text(ended(event))}</span>',
            f"{_text(' '.join(event.what.split()) or '–')}<small>{_text(', '.join(event.files))}</small>",
            f"{event.tokens:,}" if event.tokens else "",
            "" if event.cost is None or not event.tokens else f"${event.cost:,.4f}",
        ))  # fmt: skip
    heads = (("when", "when"), ("outcome", "state"), ("what", "what"))
    yield from _table("Activity", (*heads, ("tokens", "number"), ("cost", "number")), rows, "Nothing yet.")
    if len(events) > MAX_EVENTS:
        yield f"<p>and {len(events) - MAX_EVENTS:,} older.</p>\n"


def _table(
    title: str, heads: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], empty: str = ""
) -> Iterator[str]:
    """A table with its title. `heads` are the texts and classes of the columns, cells are markup; `empty` replaces a
    table without rows."""
    yield f"<h2>{title}</h2>\n"
    if not rows:
        yield f"<p>{empty}</p>\n"
        return
    yield '<div class="wide"><table>\n<thead><tr>'
    yield "".join(f'<th scope="col" class="{kind}">{head}</th>' for head, kind in heads)
    yield "</tr></thead>\n<tbody>\n"
    for row in rows:
        cells = (f'<td class="{kind}">{cell}</td>' for cell, (_, kind) in zip(row, heads, strict=True))
        yield f"<tr>{''.join(cells)}</tr>\n"
    yield "</tbody>\n</table></div>\n"


def ended(event: Event) -> str:
    """The outcome of an event in a word or two."""
    if event.kind == "review":
        return f"{event.findings} finding{'' if event.findings == 1 else 's'}"
    if event.kind == "run":
        return f"run {event.state}"
    if event.kind != "edit":
        return {"undo": "undone", "redo": "redone"}[event.kind]
    return "applied" if event.state in ("undone", "redone") else event.state


def _text(text: str) -> str:
    """Text for the page, with control and invisible characters made visible as in a terminal."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else visible(character) for character in text)
    return markup(text)
