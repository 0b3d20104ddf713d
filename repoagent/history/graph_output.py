"""Render a graph as an SVG image and as an HTML page, with pure functions.

The SVG is self-contained and readable on light and dark backgrounds, with the commits in tooltips. The page loads
nothing; its Content-Security-Policy lists the hashes of its script and styles, so that no text from the repository can
execute.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template

from repoagent.history.graph import (
    ADVANCE,
    ALONE,
    BOX_HEIGHT,
    MARGIN,
    Graph,
    Link,
    Node,
    columns,
    shorten_middle,
)
from repoagent.history.render import CommitHeader

_TOOLTIP_COMMITS = 5
_HEAD_SIZE, _TEXT_SIZE = 19.0, 12.0
_PULL = 0.42  # how far from the centre the middle of a link between neighbors stays

_ALONE_COLOUR = 7  # of nodes without a group, in drawing.css
_PAGES = files("repoagent.history") / "pages"


def _style() -> str:
    """The CSS rules of the drawing. Colors are written out: not every SVG viewer knows CSS variables. Those of groups
    are distinguishable for most color-blind readers, with a contrast of at least 3:1."""
    return "".join(map(str.strip, (_PAGES / "drawing.css").read_text(encoding="utf-8").splitlines()))


def svg(graph: Graph) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_drawing(graph)}\n'


def _drawing(graph: Graph, *, page: bool = False) -> str:
    """The picture as an `svg` element; a `page` has its own title and styles. The script finds elements by `data-node`,
    `data-link` and `data-area`."""
    lines = [] if page else [line for line in (graph.headline, graph.note) if line]
    head = 12.0 if page else 84.0 + 18.0 * (len(lines) - 1)
    legend = list(_legend(graph, page=page))
    width = max(graph.size[0], 520.0, *(line_width for line_width, _ in legend))
    if not page:
        width = max(width, min(columns(graph.title) * _HEAD_SIZE * 0.63 + 2 * MARGIN, 1100.0))
    foot = head + graph.size[1]
    height = foot + 24.0 * len(legend) + MARGIN
    title = escape(graph.title)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="{"group" if page else "img"}" aria-label="{title}">'
    ]
    if not page:
        room = width - 2 * MARGIN
        heading = escape(shorten_middle(graph.title, int(room / (_HEAD_SIZE * 0.63))))
        parts.append(f"<title>{title}</title><style>{_style()}</style>")
        parts.append('<rect class="ground" width="100%" height="100%"/>')
        parts.append(f'<text class="title" x="{MARGIN:g}" y="42">{heading}</text>')
        for number, line in enumerate(lines):
            text = escape(shorten_middle(line, int(room / 7.3)))
            parts.append(f'<text class="prose dim" x="{MARGIN:g}" y="{66 + 18 * number}">{text}</text>')
    parts.append(f'<g transform="translate({width / 2:g} {head + graph.size[1] / 2:g})">')
    for one, other, strength in graph.between:
        start, end = graph.areas[one], graph.areas[other]
        line = f"M{start.x:g} {start.y:g}L{end.x:g} {end.y:g}"
        parts.append(f'<path class="between" stroke-width="{1 + 7 * strength:.1f}" d="{line}"/>')
    parts += [_link(graph, number, link) for number, link in enumerate(graph.links) if link.drawn]
    inside = set[int]()
    for number, area in enumerate(graph.areas):
        inside.update(area.members)
        label = escape(f"{area.name}, {len(area.members)} files")
        name, at = escape(shorten_middle(area.name, 22)), f'x="{area.x:g}" text-anchor="middle"'
        parts += [
            f'<g data-area="{number}" tabindex="0" role="button" aria-label="{label}">'
            f'<circle class="area" cx="{area.x:g}" cy="{area.y:g}" r="{area.radius:.1f}"/>',
            f'<text class="head" {at} y="{area.y - area.radius - 18:.1f}">{name}</text>',
            f'<text class="dim" {at} y="{area.y - area.radius - 5:.1f}">{len(area.members)}</text>',
            *(_node(member, graph.nodes[member], page=page) for member in area.members),
            "</g>",
        ]
    for number, node in enumerate(graph.nodes):
        if node.side is not None:
            parts.append(_node(number, node, page=page))
    parts.append('<g id="own"></g></g>' if page else "</g>")
    for number, (_, line) in enumerate(legend):
        parts.append(f'<g transform="translate({MARGIN:g} {foot + 12 + 24 * number:g})">{line}</g>')
    return "\n".join([*parts, "</svg>"])


def _colour(group: int) -> str:
    return f"g{_ALONE_COLOUR if group == ALONE else group}"


def _link(graph: Graph, number: int, link: Link) -> str:
    start, end = graph.nodes[link.source], graph.nodes[link.target]
    line, colour = f"M{start.x:g} {start.y:g}L{end.x:g} {end.y:g}", _colour(end.group)
    if link.faint:
        x, y = (start.x + end.x) * _PULL / 2, (start.y + end.y) * _PULL / 2
        if start.side == end.side:  # a bow toward the centre, deeper the farther apart they are
            depth = min(0.85, 0.35 + abs(start.y - end.y) / 700)
            x, y = (start.x + end.x) / 2 * (1 - depth), (start.y + end.y) / 2
        line = f"M{start.x:g} {start.y:g}Q{x:.1f} {y:.1f} {end.x:g} {end.y:g}"
        colour = colour if start.group == end.group != ALONE else "across"
    title = _tooltip(f"{start.path} and {end.path}: {link.label}", link.commits)
    thickness = 1.0 + (1.6 if link.faint else 6.0) * link.strength
    opacity = (0.18 if link.faint else 0.45) + (0.27 if link.faint else 0.35) * link.strength
    return (
        f'<g class="link {colour}" data-link="{number}">{title}<path d="{line}" class="reach"/>'
        f'<path d="{line}" stroke-width="{thickness:.1f}" stroke-opacity="{opacity:.2f}"/></g>'
    )


def _node(number: int, node: Node, *, page: bool) -> str:
    label = f"{node.path}: {node.summary}"
    focus = (
        f' tabindex="0" role="button" aria-label="{escape(label)}"' if page and node.side is not None else ""
    )
    attributes = f'data-node="{number}" transform="translate({node.x:g} {node.y:g})"{focus}'
    title = _tooltip(label, node.commits)
    name, folder = map(escape, node.label)
    if node.side == 0:
        return (
            f'<g class="node query" {attributes}>{title}<rect class="box" x="{-node.reach:.1f}" '
            f'y="{-BOX_HEIGHT / 2:g}" width="{2 * node.reach:.1f}" height="{BOX_HEIGHT:g}" rx="8"/>'
            f'<text class="name" text-anchor="middle" y="4.5">{name}</text></g>'
        )
    drawn = f'<circle class="spot" r="{node.radius:.1f}"/>'
    if node.side is not None:
        at = f'text-anchor="{"end" if node.side < 0 else "start"}" x="{node.side * 15}"'
        drawn += f'<text class="name" {at} y="{0 if folder else 4.5:g}">{name}</text>'
        drawn += f'<text class="folder dim" {at} y="13">{folder}</text>' if folder else ""
    return f'<g class="node {_colour(node.group)}" {attributes}>{title}{drawn}</g>'


def _tooltip(text: str, commits: Sequence[CommitHeader]) -> str:
    lines = [text, *(f"{c.date} {c.short} {c.author}: {c.subject}" for c in commits[:_TOOLTIP_COMMITS])]
    if len(commits) > _TOOLTIP_COMMITS:
        lines.append(f"and {len(commits) - _TOOLTIP_COMMITS} more")
    return f"<title>{escape(chr(10).join(lines))}</title>"


def _legend(graph: Graph, *, page: bool) -> Iterator[tuple[float, str]]:
    """Lines, each with the width of picture that it needs."""
    entries = [(_colour(number), name) for number, name in enumerate(graph.groups)]
    if any(node.group == ALONE and node.side != 0 for node in graph.nodes):
        entries.append((_colour(ALONE), "other" if entries else "neighbors"))
    x, line = 0.0, ""
    for colour, name in entries:
        label = shorten_middle(name, 32)
        entry_width = 38 + columns(label) * _TEXT_SIZE * ADVANCE
        if line and x + entry_width > 760:
            yield x + 2 * MARGIN, line
            x, line = 0.0, ""
        line += f'<circle class="spot {colour}" cx="{x + 6:.1f}" cy="-4" r="6"/>'
        line += f'<text class="dim" x="{x + 18:.1f}">{escape(label)}</text>'
        x += entry_width
    yield x + 2 * MARGIN, line
    text = "files in one disc change together" if graph.areas else "thicker lines are more certain"
    for sentence in (text,) if page else (f"{text}; files of one color change together", graph.guidance):
        yield len(sentence) * 6.6 + 2 * MARGIN, f'<text class="prose dim">{escape(sentence)}</text>'


def render_html(graph: Graph) -> str:
    """The graph as an HTML page with a search field and a table of the files; its script shows commits and marks
    links."""
    rows = []
    for number, (below, *cells) in graph.rows:
        button = (
            f'<button type="button">{escape(graph.nodes[number].path)}</button><small>{escape(below)}</small>'
        )
        columns = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr data-row="{number}"><td class="file">{button}</td>{columns}</tr>\n')
    data = {
        "nodes": [[n.path, n.summary, n.x, n.y, _commits(n.commits)] for n in graph.nodes],
        "links": [
            [link.source, link.target, link.label, math.floor(link.strength * 100), _commits(link.commits)]
            for link in graph.links
        ],
    }
    content = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":  # nothing can end the element
        content = content.replace(character, f"\\u{ord(character):04x}")
    rules, script, page = (
        (_PAGES / name).read_text(encoding="utf-8") for name in ("graph.css", "graph.js", "page.html")
    )
    rules = _style() + rules
    style_hash, script_hash = (b64encode(sha256(text.encode()).digest()).decode() for text in (rules, script))
    return Template(page).substitute(
        title=escape(graph.title),
        headline=escape(graph.headline),
        note=f'<p class="note">{escape(graph.note)}</p>\n' if graph.note else "",
        guidance=escape(graph.guidance),
        drawing=_drawing(graph, page=True),
        heads="".join(f'<th scope="col">{head}</th>' for head in graph.heads),
        rows="".join(rows),
        data=content,
        style=rules,
        script=script,
        style_hash=style_hash,
        script_hash=script_hash,
    )


def _commits(headers: Iterable[CommitHeader]) -> list[list[str]]:
    return [[header.date, header.short, header.author, header.subject] for header in headers]
