"""A graph as SVG, as graphviz source, and as an HTML page. Pure functions of values.

The SVG is self-contained and readable on light and dark backgrounds, with the commits in tooltips. The page loads
nothing; its Content-Security-Policy lists the hashes of its script and styles, so that no text from the repository can
execute.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from repoagent.history.graph import (
    ADVANCE,
    ALONE,
    FOLDER_SIZE,
    NAME_SIZE,
    QUERY_HEIGHT,
    Graph,
    Link,
    Node,
    Position,
    build,
    columns,
    day,
    layout,
    shared,
    shorten,
)
from repoagent.history.render import CommitHeader, rate, why

if TYPE_CHECKING:
    from repoagent.history.neighbors import Neighborhood

_TOOLTIP_COMMITS = 5
_TITLE_SIZE, _TEXT_SIZE = 19.0, 12.0
_HEAD, _FOOT_LINE, _EDGE = 84.0, 24.0, 24.0
_LEAST_WIDTH = 520.0
_PULL = 0.42  # how far from the centre the middle of a link between neighbors stays
_LINES_LEGEND = "faint lines: between neighbors; one colour: they change among each other"

# Colours of the groups and of nodes without one: distinguishable for most colour-blind readers, contrast at least 3:1.
LIGHT = ("#2563eb", "#c2410c", "#15803d", "#9333ea", "#0e7490", "#be185d", "#854d0e", "#64748b")
_DARK = ("#60a5fa", "#fb923c", "#4ade80", "#c084fc", "#22d3ee", "#f472b6", "#facc15", "#94a3b8")
# Background, text, dimmed text, box and text in it.
_SCHEMES = (
    (LIGHT, ("#ffffff", "#1e293b", "#52606f", "#1e293b", "#ffffff")),
    (_DARK, ("#0f172a", "#e2e8f0", "#9fb0c3", "#e2e8f0", "#0f172a")),
)


def draw(form: str, neighborhood: Neighborhood, headers: Mapping[str, CommitHeader]) -> str:
    """The neighborhood as "dot", "svg" or "html" text; `headers` has the commits behind it, by full id."""
    return {"dot": dot, "svg": svg, "html": html}[form](build(neighborhood, headers))


def markup(text: str) -> str:
    """Text as markup, in an element or an attribute."""
    return escape(text, quote=True)


def style() -> str:
    """The CSS rules of the drawing. Colours are written out: not every SVG viewer knows CSS variables."""
    root = "svg.neighbors"
    schemes = []
    for colours, (ground, ink, dim, box, box_ink) in _SCHEMES:
        rules = [
            f"{root}{{background:{ground};color:{ink}}}",
            f"{root} .ground{{fill:{ground}}}{root} text{{fill:{ink}}}{root} .dim{{fill:{dim}}}",
            f"{root} .box{{fill:{box}}}{root} .query text{{fill:{box_ink}}}{root} .spot{{stroke:{ground}}}",
        ]
        for number, colour in enumerate(colours):
            rules.append(f"{root} .g{number}{{--group:{colour}}}")
            rules.append(f"{root} .g{number} .spot,{root} .spot.g{number}{{fill:{colour}}}")
            rules.append(f"{root} .link.g{number} path{{stroke:{colour}}}")
        rules.append(f"{root} .link.across path,{root} .sample{{stroke:{dim}}}")
        schemes.append("".join(rules))
    font = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
    return (
        f"{root} text{{font-family:{font};font-size:{_TEXT_SIZE:g}px;white-space:pre}}"
        f"{root} .title{{font-size:{_TITLE_SIZE:g}px;font-weight:600;font-family:system-ui,sans-serif}}"
        f"{root} .prose{{font-family:system-ui,sans-serif;font-size:13px}}"
        f"{root} .name{{font-size:{NAME_SIZE:g}px}}{root} .folder{{font-size:{FOLDER_SIZE:g}px}}"
        f"{root} .query text{{font-weight:600}}"
        f"{root} .link path{{fill:none;stroke-linecap:round}}"
        f"{root} .link .reach{{stroke-opacity:0!important;stroke-width:12px}}"
        f"{root} .spot{{stroke-width:2px}}"
        f"{schemes[0]}@media (prefers-color-scheme:dark){{{schemes[1]}}}"
    )


def svg(graph: Graph) -> str:
    """The picture as an image file."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{drawing(graph)}\n'


def drawing(graph: Graph, *, page: bool = False) -> str:
    """The picture as an `svg` element; for a `page`, which has its own title and styles, only the drawing and the
    legend. Scripts find nodes by `data-node` and links by `data-link`."""
    size = layout(graph)
    lines = [] if page else [line for line in (graph.headline, graph.note) if line]
    head = 12.0 if page else _HEAD + 18.0 * (len(lines) - 1)
    legend = list(_legend(graph, page=page))
    width = max(size.width, _LEAST_WIDTH, *(line_width for line_width, _ in legend))
    if not page:
        width = max(width, min(columns(graph.title) * _TITLE_SIZE * 0.63 + 2 * _EDGE, 1100.0))
    foot = head + size.height
    height = foot + _FOOT_LINE * len(legend) + _EDGE
    title = markup(graph.title)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="neighbors" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="{"group" if page else "img"}" aria-label="{title}">'
    ]
    if not page:
        room = width - 2 * _EDGE
        heading = markup(shorten(graph.title, int(room / (_TITLE_SIZE * 0.63))))
        parts += [
            f"<title>{title}</title><style>{style()}</style>",
            '<rect class="ground" width="100%" height="100%"/>',
            f'<text class="title" x="{_EDGE:g}" y="42">{heading}</text>',
        ]
        for number, line in enumerate(lines):
            text = markup(shorten(line, int(room / 7.3)))
            parts.append(f'<text class="prose dim" x="{_EDGE:g}" y="{66 + 18 * number}">{text}</text>')
    parts.append(f'<g transform="translate({width / 2:g} {head + size.height / 2:g})">')
    for number, link in enumerate(graph.links):
        parts.append(_link(graph, number, link, size.positions))
    for number, (node, position) in enumerate(zip(graph.nodes, size.positions, strict=True)):
        parts.append(_node(number, node, position, page=page))
    parts.append("</g>")
    for number, (_, line) in enumerate(legend):
        parts.append(f'<g transform="translate({_EDGE:g} {foot + 12 + _FOOT_LINE * number:g})">{line}</g>')
    return "\n".join([*parts, "</svg>"])


def _group_class(group: int) -> str:
    """The CSS class with the colour of a group."""
    return f"g{len(LIGHT) - 1 if group == ALONE else group}"


def _link(graph: Graph, number: int, link: Link, positions: Sequence[Position]) -> str:
    source, target = graph.nodes[link.source], graph.nodes[link.target]
    start, end = positions[link.source], positions[link.target]
    if source.row is None:
        line = f"M{start.x:g} {start.y:g}L{end.x:g} {end.y:g}"
        classes = f"link {_group_class(target.group)}"
    else:
        x, y = (start.x + end.x) * _PULL / 2, (start.y + end.y) * _PULL / 2
        if start.side == end.side:  # a bow toward the centre, deeper the farther apart they are
            depth = min(0.85, 0.35 + abs(start.y - end.y) / 700)
            x, y = (start.x + end.x) / 2 * (1 - depth), (start.y + end.y) / 2
        line = f"M{start.x:g} {start.y:g}Q{x:.1f} {y:.1f} {end.x:g} {end.y:g}"
        inside = source.group == target.group != ALONE
        classes = f"link mutual {_group_class(source.group) if inside else 'across'}"
    stroke = _stroke(line, link.strength, faint=source.row is not None)
    return (
        f'<g class="{classes}" data-link="{number}">{_tooltip(_caption(graph, link), link.commits)}'
        f'<path d="{line}" class="reach"/>{stroke}</g>'
    )


def _stroke(line: str, strength: float, *, faint: bool, attributes: str = "") -> str:
    thickness = 1.0 + (1.6 if faint else 6.0) * strength
    opacity = (0.18 if faint else 0.45) + (0.27 if faint else 0.35) * strength
    return f'<path {attributes}d="{line}" stroke-width="{thickness:.1f}" stroke-opacity="{opacity:.2f}"/>'


def _node(number: int, node: Node, position: Position, *, page: bool) -> str:
    label = node.path if node.row is None else f"{node.path}: {node.summary}"
    focus = f' tabindex="0" role="button" aria-label="{markup(label)}"' if page else ""
    attributes = f'data-node="{number}" transform="translate({position.x:g} {position.y:g})"{focus}'
    title = _tooltip(label, node.commits)
    name = markup(position.name)
    if node.row is None:
        height = QUERY_HEIGHT - 6
        return (
            f'<g class="node query" {attributes}>{title}<rect class="box" x="{-position.width / 2:.1f}" '
            f'y="{-height / 2:g}" width="{position.width:.1f}" height="{height:g}" rx="8"/>'
            f'<text class="name" text-anchor="middle" y="4.5">{name}</text></g>'
        )
    at = f'text-anchor="{"end" if position.side < 0 else "start"}" x="{position.side * 15}"'
    texts = f'<text class="name" {at} y="{0 if position.folder else 4.5:g}">{name}</text>'
    if position.folder:
        texts += f'<text class="folder dim" {at} y="13">{markup(position.folder)}</text>'
    return (
        f'<g class="node {_group_class(node.group)}" {attributes}>{title}'
        f'<circle class="spot" r="{4.0 + 6.0 * node.strength**0.5:.1f}"/>{texts}</g>'
    )


def _caption(graph: Graph, link: Link) -> str:
    return f"{graph.nodes[link.source].path} and {graph.nodes[link.target].path}: {link.label}"


def _tooltip(text: str, commits: Sequence[CommitHeader]) -> str:
    lines = [text, *(f"{c.date} {c.short} {c.author}: {c.subject}" for c in commits[:_TOOLTIP_COMMITS])]
    if len(commits) > _TOOLTIP_COMMITS:
        lines.append(f"and {len(commits) - _TOOLTIP_COMMITS} more")
    return f"<title>{markup(chr(10).join(lines))}</title>"


def _legend(graph: Graph, *, page: bool) -> Iterator[tuple[float, str]]:
    """Lines, each with the width of picture that it needs."""
    entries = [(_group_class(number), name) for number, name in enumerate(graph.groups)]
    if any(node.group == ALONE and node.row is not None for node in graph.nodes):
        entries.append((_group_class(ALONE), "in no group" if entries else "neighbors"))
    x, line = 0.0, ""
    for colour, name in entries:
        label = shorten(name, 32)
        entry_width = 38 + columns(label) * _TEXT_SIZE * ADVANCE
        if line and x + entry_width > 760:
            yield x + 2 * _EDGE, line
            x, line = 0.0, ""
        line += f'<circle class="spot {colour}" cx="{x + 6:.1f}" cy="-4" r="6"/>'
        line += f'<text class="dim" x="{x + 18:.1f}">{markup(label)}</text>'
        x += entry_width
    if line:
        yield x + 2 * _EDGE, line
    line = ""
    for x, strength, label in ((0, 0.05, "weak"), (76, 1.0, "sure")):
        sample = _stroke("M0 -4L28 -4", strength, faint=False, attributes='class="sample" fill="none" ')
        line += f'<g transform="translate({x} 0)">{sample}<text class="prose dim" x="34">{label}</text></g>'
    text = f'{line}<text class="prose dim" x="166">{_LINES_LEGEND}</text>'
    yield 162 + len(_LINES_LEGEND) * 6.6 + 2 * _EDGE, text
    if not page:
        yield (
            len(graph.guidance) * 6.6 + 2 * _EDGE,
            f'<text class="prose dim">{markup(graph.guidance)}</text>',
        )


def dot(graph: Graph) -> str:
    """The neighborhood as an undirected graph in the DOT language, groups as clusters: `dot -Tsvg`, or `fdp`."""
    lines = [
        "graph neighbors {",
        f'  label={_quoted(f"{graph.title}{chr(10)}{graph.headline}")}; labelloc=t; charset="UTF-8";',
        '  layout=fdp; overlap=false; splines=true; fontname="sans-serif";',
        '  node [shape=box, style="rounded,filled", fillcolor="#ffffff", fontname="monospace", fontsize=11];',
        '  edge [color="#64748b99"];',
    ]
    members: dict[int, list[str]] = {group: [] for group in range(len(graph.groups))}
    for number, node in enumerate(graph.nodes):
        path = _quoted(node.path)
        if node.row is None:
            lines.append(f'  n{number} [label={path}, fillcolor="#1e293b", fontcolor="#ffffff"];')
            continue
        tooltip = _quoted(f"{node.path}: {shared(node.row) or why(node.row.reasons[:2])}")
        line = f'n{number} [label={path}, color="{LIGHT[node.group]}", tooltip={tooltip}];'
        members.get(node.group, lines).append(f"  {line}")
    for group, name in enumerate(graph.groups):
        lines.append(f"  subgraph cluster_{group} {{")
        lines.append(f'    label={_quoted(name)}; color="{LIGHT[group]}"; style=rounded;')
        lines += [*(f"  {line}" for line in members[group]), "  }"]
    for link in graph.links:
        thickness, tooltip = 0.6 + 5 * min(link.score, 1.0), _quoted(_caption(graph, link))
        attributes = f"penwidth={thickness:.2f}, weight={1 + 9 * link.score:.2f}, tooltip={tooltip}"
        lines.append(f"  n{link.source} -- n{link.target} [{attributes}];")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    """A quoted DOT string, in which only quotes, backslashes and line breaks need escapes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def page(title: str, rules: str, body: Iterable[str], *, script: str = "", data: object = None) -> str:
    """An HTML page. `title` and `body` are markup; the script reads `data` from "#data"."""
    policy = f"default-src 'none'; style-src {_digest(rules)};"
    policy += f" script-src {_digest(script)};" if script else ""
    scripts = ""
    if script:
        content = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
        for character in "<>&":  # nothing can end the element
            content = content.replace(character, f"\\u{ord(character):04x}")
        scripts = f'<script type="application/json" id="data">{content}</script>\n<script>{script}</script>\n'
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"{policy} base-uri 'none'; form-action 'none'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{rules}</style>\n</head>\n<body>\n"
        f"{''.join(body)}{scripts}</body>\n</html>\n"
    )


def asset(name: str) -> str:
    """A style sheet or script of the pages."""
    return (files("repoagent.history") / "pages" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def html(graph: Graph) -> str:
    """The picture with a table of the neighbors, as a page; its script shows commits and marks links."""
    title = markup(graph.title)
    heads = (("file", ""), ("score", ""), ("together", ""), ("rate", ""), ("last", ' class="last"'))
    body = [
        f"<header>\n<h1>{title}</h1>\n<p>{markup(graph.headline)}</p>\n",
        f'<p class="note">{markup(graph.note)}</p>\n' if graph.note else "",
        "</header>\n<main>\n",
        '<div class="picture" tabindex="0" role="region" aria-label="Picture">\n',
        f"{drawing(graph, page=True)}\n</div>\n",
        '<div>\n<section id="evidence" aria-live="polite" aria-label="Evidence">\n<h2>Commits</h2>\n',
        "<p>Point at a file or a line, or step through them with Tab, to see its commits here.</p>\n",
        "<p>Click a file or press Enter to pin its lines; Escape unpins them.</p>\n</section>\n",
        "<table>\n<thead><tr>",
        *(f'<th scope="col"{attributes}>{name}</th>' for name, attributes in heads),
        "</tr></thead>\n<tbody>\n",
        *(_row(number, node) for number, node in enumerate(graph.nodes)),
        "</tbody>\n</table>\n</div>\n</main>\n",
        f"<footer><p>{markup(graph.guidance)}</p></footer>\n",
    ]
    data = {
        "nodes": [
            {"path": node.path, "summary": node.summary, "commits": _commits(node.commits)}
            for node in graph.nodes
        ],
        "links": [
            {
                "source": link.source,
                "target": link.target,
                "mutual": graph.nodes[link.source].row is not None,
                "label": link.label,
                "commits": _commits(link.commits),
            }
            for link in graph.links
        ],
    }
    return page(title, style() + asset("graph.css"), body, script=asset("graph.js"), data=data)


def _row(number: int, node: Node) -> str:
    row = node.row
    if row is None:
        return ""
    together = f"{row.together} of {row.commits}" if row.together else "–"
    regularity = rate(row.together, row.commits) or ""
    bar = (
        '<svg class="bar" viewBox="0 0 56 9" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="56" height="9" rx="2"/>'
        f'<rect width="{max(round(56 * node.strength, 1), 1):g}" height="9" rx="2"/></svg>'
    )
    return (
        f'<tr data-row="{number}"><td class="file"><button type="button">{markup(node.path)}</button>'
        f'<small>{markup(why(row.reasons[:2]))}</small></td><td class="number">{bar}{row.score:.2f}</td>'
        f'<td class="number">{together}</td><td class="number {regularity}">{regularity or "–"}</td>'
        f'<td class="number last">{day(row.last) or "–"}</td></tr>\n'
    )


def _commits(headers: Iterable[CommitHeader]) -> list[list[str]]:
    return [[header.date, header.short, header.author, header.subject] for header in headers]
