"""Charts as SVG: stacked bars by day, and a strip that shows a share. Colours are the page's, by class."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_WIDTH, _HEIGHT = 560, 170
_LEFT, _BOTTOM, _TOP = 46, 22, 10


class Bar(NamedTuple):
    """A part of a column: its class, how much, and what is said of it on hover."""

    kind: str
    value: float
    said: str


def bars(names: Sequence[str], columns: Sequence[Sequence[Bar]], title: str, *, money: bool = False) -> str:
    """One column for each name, its parts one above the other, with a scale from 0 to the highest column: in US
    dollars, or else in whole numbers."""
    highest = max((sum(bar.value for bar in column) for column in columns), default=0.0)
    top = _round_up(highest) if money else max(_round_up(highest), 2)
    height, step = _HEIGHT - _BOTTOM - _TOP, (_WIDTH - _LEFT) / max(len(names), 7)
    parts = [
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title, quote=True)}">'
    ]
    for share in (0.0, 0.5, 1.0):
        y = _TOP + height * (1 - share)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:g}" y2="{y:g}"/>')
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y + 4:g}" text-anchor="end">{_label(top * share, top, money=money)}</text>'
        )
    for number, (name, column) in enumerate(zip(names, columns, strict=True)):
        x, y = _LEFT + number * step, float(_TOP + height)
        said = escape(": ".join([name, ", ".join(bar.said for bar in column if bar.value) or "nothing"]))
        parts.append(f"<g><title>{said}</title>")
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
        x = _LEFT + (number + (anchor == "end")) * step
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - 5}" text-anchor="{anchor}">{escape(names[number])}</text>'
        )
    return "".join([*parts, "</svg>\n"])


def strip(kind: str, share: float, further: str = "", more: float = 0.0) -> str:
    """A horizontal bar of up to two parts; the shares are of its whole width."""
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
    """The next of 2, 4, 6, 8, 10, 20, … (and their like below) that is not smaller; 1 for nothing. Half of it is a
    number that reads well, too."""
    if value <= 0:
        return 1.0
    step = 1.0
    while step < value:
        step *= 10
    while step / 10 >= value:
        step /= 10
    return next(top for part in (2, 4, 6, 8, 10) if (top := step * part / 10) >= value)
