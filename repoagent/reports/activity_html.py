"""The page of `repoagent activity --html`: works offline, without scripts, in light and dark; charts are SVG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

_WIDTH, _HEIGHT = 560, 170
_MARGIN, _BOTTOM, _TOP = 46, 22, 10


class Bar(NamedTuple):
    """A part of a column: its class, its value, and its text in the tooltip."""

    kind: str
    value: float
    text: str


def bars(names: Sequence[str], columns: Sequence[Sequence[Bar]], title: str, *, money: bool = False) -> str:
    """A chart of stacked columns, with a scale from 0 to the highest, in US dollars or whole numbers."""
    highest = max((sum(bar.value for bar in column) for column in columns), default=0.0)
    top = _round_up(highest) if money else max(_round_up(highest), 2)
    height, step = _HEIGHT - _BOTTOM - _TOP, (_WIDTH - _MARGIN) / max(len(names), 7)
    parts = [
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title, quote=True)}">'
    ]
    for share in (0.0, 0.5, 1.0):
        y = _TOP + height * (1 - share)
        parts.append(f'<line x1="{_MARGIN}" x2="{_WIDTH}" y1="{y:g}" y2="{y:g}"/>')
        parts.append(
            f'<text x="{_MARGIN - 6}" y="{y + 4:g}" text-anchor="end">{_label(top * share, top, money=money)}</text>'
        )
    for number, (name, column) in enumerate(zip(names, columns, strict=True)):
        x, y = _MARGIN + number * step, float(_TOP + height)
        tooltip = escape(": ".join([name, ", ".join(bar.text for bar in column if bar.value) or "nothing"]))
        parts.append(f"<g><title>{tooltip}</title>")
        parts.append(
            f'<rect x="{x:.1f}" y="{_TOP}" width="{step:.1f}" height="{height}" fill="transparent"/>'
        )
        for bar in column:
            tall = bar.value / top * height
            y -= tall
            if tall:
                wide = max(step * 0.72, 1.0)
                parts.append(
                    f'<rect class="{bar.kind}" x="{x + (step - wide) / 2:.1f}" y="{y:.1f}" '
                    f'width="{wide:.1f}" height="{tall:.1f}" rx="1.5"/>'
                )
        parts.append("</g>")
    for number in sorted({0, len(names) - 1}) if names else []:
        anchor = "end" if number and len(names) > 5 else "start"
        x = _MARGIN + (number + (anchor == "end")) * step
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - 5}" text-anchor="{anchor}">{escape(names[number])}</text>'
        )
    return "".join([*parts, "</svg>\n"])


def strip(kind: str, share: float, further: str = "", more: float = 0.0) -> str:
    """A horizontal bar with parts of class `kind` and `further`; the shares are of the whole width."""
    first = max(100 * min(share, 1.0), 0.0)
    second = max(min(100 * more, 100 - first), 0.0)
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="10"/>'
        f'<rect class="{kind}" width="{first:.1f}" height="10"/>'
        + (f'<rect class="{further}" x="{first:.1f}" width="{second:.1f}" height="10"/>' if second else "")
        + "</svg>"
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


MAX_FILES = 12
MAX_EVENTS = 200
_WORDS = {"undo": "undone", "redo": "redone", "review": "reviewed"}


@dataclass(frozen=True)
class PageContext:
    """The neighbors of a file, best first, and how often each changed with it: "5 of 12"."""

    path: str
    neighbors: tuple[tuple[str, str], ...]


def page(activity: Activity, since: str, around: Sequence[PageContext] = ()) -> str:
    """The page. `since` is the first day, as text; `around` has the neighbors of some files."""
    rules = files("repoagent.reports").joinpath("activity.css").read_text(encoding="utf-8")
    title = _text(f"repoagent in {activity.top.name}")
    return whole_page(
        title,
        rules,
        [
            f"<header>\n<h1>{title}</h1>\n<p>{_text(str(activity.top))}, {_text(since)}</p>\n",
            *_tiles(total(activity)),
            "</header>\n<main>\n",
            *_charts(activity),
            *_hot_files(by_file(activity), {context.path: context for context in around}),
            *_events(activity.events),
            "</main>\n<footer><p>Made by <code>repoagent activity --html</code> from the files in .repoagent/ and "
            "your own log of model calls. Costs are list prices; ? and + mean calls of unknown price.</p></footer>\n",
        ],
    )


def _tiles(totals: Sum) -> Iterator[str]:
    tiles = [
        (f"{totals.applied:,}", "edits applied"),
        (f"{totals.refused:,}", "not applied"),
        (f"{totals.undone:,}", "undone"),
        (f"{totals.reviews:,}", "reviews"),
        *([(f"{totals.runs:,}", "runs")] if totals.runs else []),
        (f"{totals.calls:,}", "model calls"),
        (_short(totals.tokens), "tokens"),
        (totals.price(2) or "$0", "cost"),
    ]
    yield '<ul class="tiles">\n'
    for number, label in tiles:
        yield f"<li><b>{number}</b><span>{label}</span></li>\n"
    yield "</ul>\n"


def _short(count: int) -> str:
    return f"{count:,}" if count < 1_000_000 else f"{count / 1_000_000:,.1f} M"


def _charts(activity: Activity) -> Iterator[str]:
    """Cost and edits over time, reasons of refusals, models."""
    if not activity.events and not activity.spent:
        return
    yield from _days(by_day(activity))
    yield '<div class="pair">\n<section>\n'
    yield from _refused(refusals(activity))
    yield "</section>\n<section>\n"
    yield from _models(by_model(activity))
    yield "</section>\n</div>\n"


def _days(days: Sequence[Sum]) -> Iterator[str]:
    if not days:
        return
    unit, sums = spans(days)
    names = [period.name for period in sums]
    yield f'<div class="pair">\n<section>\n<h2>Spent by {unit}</h2>\n'
    spent = [[Bar("spend", period.cost, f"${period.cost:,.4f}")] for period in sums]
    yield bars(names, spent, f"US dollars by {unit}", money=True)
    yield f"</section>\n<section>\n<h2>Edits by {unit}</h2>\n"
    yield bars(names, [_edits(period) for period in sums], f"Edits by {unit}")
    yield '<p class="key">'
    for kind, label in (("applied", "applied"), ("refused", "not applied"), ("undone", "undone")):
        spot = f'<rect class="{kind}" width="11" height="11" rx="2"/>'
        yield f'<span><svg viewBox="0 0 11 11" aria-hidden="true">{spot}</svg>{label}</span>'
    yield "</p>\n</section>\n</div>\n"


def _edits(day: Sum) -> list[Bar]:
    return [
        Bar("applied", day.applied, f"{day.applied} applied"),
        Bar("refused", day.refused, f"{day.refused} not applied"),
        Bar("undone", day.undone, f"{day.undone} undone"),
    ]


def _refused(reasons: Sequence[tuple[str, int]]) -> Iterator[str]:
    yield "<h2>Why edits were not applied</h2>\n"
    if not reasons:
        yield "<p>No edit was refused, declined or failed.</p>\n"
        return
    most = reasons[0][1]
    rows = [
        (f"<code>{_text(reason)}</code>", f"{count:,}", strip("refused", count / most))
        for reason, count in reasons
    ]
    yield from _table((("reason", ""), ("edits", "number"), ("", "bar")), rows)


def _models(models: Sequence[Sum]) -> Iterator[str]:
    yield "<h2>Models</h2>\n"
    if not models:
        yield "<p>No model was called.</p>\n"
        return
    most = max(model.cost for model in models) or 1.0
    rows = [
        (
            _text(model.name), f"{model.calls:,}", f"{model.tokens:,}", model.price(4),
            strip("spend", model.cost / most),
        )
        for model in models
    ]  # fmt: skip
    heads = (("model", "file"), ("calls", "number"), ("tokens", "number"), ("cost", "number"), ("", "bar"))
    yield from _table(heads, rows)


def _hot_files(sums: Sequence[Sum], contexts: Mapping[str, PageContext]) -> Iterator[str]:
    hot = [row for row in sums if row.applied + row.refused + row.undone][:MAX_FILES]
    if not hot:
        return
    most = max(row.applied + row.refused for row in hot) or 1
    rows = [
        (
            f'<span class="file">{_text(row.name)}</span>{_neighbors(contexts.get(row.name))}',
            f"{row.applied:,}", f"{row.refused:,}", row.price(4),
            strip("applied", row.applied / most, "refused", row.refused / most),
        )
        for row in hot
    ]  # fmt: skip
    yield "<h2>Hot files, and what changes with them</h2>\n"
    heads = (("file", ""), ("applied", "number"), ("not applied", "number"), ("cost", "number"), ("", "bar"))
    yield from _table(heads, rows)


def _neighbors(context: PageContext | None) -> str:
    if context is None or not context.neighbors:
        return ""
    names = ", ".join(f"{path} ({often})" if often else path for path, often in context.neighbors)
    return f"<small>{_text(names)}</small>"


def _events(events: Sequence[Event]) -> Iterator[str]:
    yield "<h2>Activity</h2>\n"
    if not events:
        yield "<p>Nothing yet.</p>\n"
        return
    rows = [
        (
            f"{event.time:%Y-%m-%d %H:%M}",
            f'<span class="{_kind(event)}">{_text(ended(event))}</span>',
            f"{_text(' '.join(event.what.split()) or '–')}<small>{_text(', '.join(event.files))}</small>",
            f"{event.tokens:,}" if event.tokens else "",
            "" if event.cost is None or not event.tokens else f"${event.cost:,.4f}",
        )
        for event in reversed(events[-MAX_EVENTS:])
    ]
    heads = (
        ("when", "when"),
        ("outcome", "state"),
        ("what", "what"),
        ("tokens", "number"),
        ("cost", "number"),
    )
    yield from _table(heads, rows)
    if len(events) > MAX_EVENTS:
        yield f"<p>and {len(events) - MAX_EVENTS:,} older.</p>\n"


def _table(heads: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table; `heads` are texts and classes of the columns, cells are markup."""
    yield '<div class="wide"><table>\n<thead><tr>'
    yield "".join(f'<th scope="col" class="{kind}">{title}</th>' for title, kind in heads)
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
        return _WORDS[event.kind]
    return "applied" if event.state in ("undone", "redone") else event.state


def _kind(event: Event) -> str:
    if event.kind == "undo":
        return "undone"
    if event.kind == "edit" and event.state != "answered":
        return "applied" if was_applied(event) else "refused"
    return ""


def _text(text: str) -> str:
    """Text for the page: control and invisible characters are made visible, as in a terminal."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else visible(character) for character in text)
    return markup(text)
