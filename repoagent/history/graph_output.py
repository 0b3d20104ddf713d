"""A graph as SVG, as graphviz source, and as an HTML page. Pure functions of values.

The SVG is self-contained and readable on light and dark backgrounds, with the commits in tooltips. The page loads
nothing; its Content-Security-Policy lists the hashes of its script and styles, so that no text from the repository can
execute.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from repoagent.history.graph import (
    ADVANCE,
    ALONE,
    ASKED_HEIGHT,
    FOLDER_SIZE,
    NAME_SIZE,
    Graph,
    Layout,
    Link,
    Node,
    Position,
    columns,
    place,
    shorten,
)
from repoagent.history.render import CommitHeader

if TYPE_CHECKING:
    from repoagent.history.neighbors import Neighborhood

COMMITS_IN_TITLE = 5
_TITLE_SIZE, _TEXT_SIZE = 19.0, 12.0
_HEAD, _FOOT_LINE, _EDGE = 84.0, 24.0, 24.0
_LEAST_WIDTH = 520.0
_PULL = 0.42  # how far from the centre the middle of a link between neighbors stays
_SAMPLES = ((0.05, "weak"), (1.0, "sure"))

# Of each group and of those that are in none, on light and on dark: told apart by most colour-blind readers too, at
# least 3 to 1 against the ground.
LIGHT = ("#2563eb", "#c2410c", "#15803d", "#9333ea", "#0e7490", "#be185d", "#854d0e", "#64748b")
DARK = ("#60a5fa", "#fb923c", "#4ade80", "#c084fc", "#22d3ee", "#f472b6", "#facc15", "#94a3b8")
_GROUND = {"light": ("#ffffff", "#1e293b", "#52606f", "#1e293b", "#ffffff"),
           "dark": ("#0f172a", "#e2e8f0", "#9fb0c3", "#e2e8f0", "#0f172a")}  # fmt: skip


def style(root: str = "svg.neighbors") -> str:
    """The rules that the drawing needs, for whatever holds it."""
    colours = {"light": LIGHT, "dark": DARK}
    font = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"

    def scheme(name: str) -> str:
        ground, ink, dim, box, box_ink = _GROUND[name]
        rules = [
            f"{root}{{background:{ground};color:{ink}}}",
            f"{root} .ground{{fill:{ground}}}{root} text{{fill:{ink}}}{root} .dim{{fill:{dim}}}",
            f"{root} .box{{fill:{box}}}{root} .asked text{{fill:{box_ink}}}{root} .spot{{stroke:{ground}}}",
        ]
        for number, colour in enumerate(colours[name]):
            rules.append(f"{root} .g{number}{{--group:{colour}}}")
            rules.append(f"{root} .g{number} .spot,{root} .spot.g{number}{{fill:{colour}}}")
            rules.append(f"{root} .link.g{number} path{{stroke:{colour}}}")
        rules.append(f"{root} .link.across path,{root} .sample{{stroke:{dim}}}")
        return "".join(rules)

    return (
        f"{root} text{{font-family:{font};font-size:{_TEXT_SIZE:g}px;white-space:pre}}"
        f"{root} .title{{font-size:{_TITLE_SIZE:g}px;font-weight:600;font-family:system-ui,sans-serif}}"
        f"{root} .said{{font-family:system-ui,sans-serif;font-size:13px}}"
        f"{root} .name{{font-size:{NAME_SIZE:g}px}}{root} .folder{{font-size:{FOLDER_SIZE:g}px}}"
        f"{root} .asked text{{font-weight:600}}"
        f"{root} .link path{{fill:none;stroke-linecap:round}}"
        f"{root} .link .reach{{stroke-opacity:0!important;stroke-width:12px}}"
        f"{root} .spot{{stroke-width:2px}}"
        + scheme("light")
        + "@media (prefers-color-scheme:dark){"
        + scheme("dark")
        + "}"
    )


def svg(graph: Graph) -> str:
    """The picture as an image of its own."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{drawing(graph)}\n'


def drawing(graph: Graph, *, page: bool = False) -> str:
    """The picture as an `svg` element; for a `page`, which has its own title and rules, the drawing and the legend
    only, with what a script needs to find nodes (`data-node`) and links (`data-link`)."""
    layout = place(graph)
    notes = [] if page else [line for line in (graph.headline, graph.note) if line]
    head = 12.0 if page else _HEAD + 18.0 * (len(notes) - 1)
    legend = list(_legend(graph, page=page))
    width = max(layout.width, _LEAST_WIDTH, *(one[0] for one in legend))
    if not page:
        width = max(width, min(columns(graph.title) * _TITLE_SIZE * 0.63 + 2 * _EDGE, 1100.0))
    foot = _FOOT_LINE * len(legend) + _EDGE
    height = head + layout.height + foot
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="neighbors" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="{"group" if page else "img"}" '
        f'aria-label="{_escape(graph.title)}">'
    ]
    if not page:
        parts.append(f"<title>{_escape(graph.title)}</title><style>{style()}</style>")
        parts.append('<rect class="ground" width="100%" height="100%"/>')
        room = int((width - 2 * _EDGE) / (_TITLE_SIZE * 0.63))
        parts.append(f'<text class="title" x="{_EDGE:g}" y="42">{_escape(shorten(graph.title, room))}</text>')
        room = int((width - 2 * _EDGE) / 7.3)
        for number, line in enumerate(notes):
            parts.append(
                f'<text class="said dim" x="{_EDGE:g}" y="{66 + 18 * number}">{_escape(shorten(line, room))}</text>'
            )
    parts.append(f'<g transform="translate({width / 2:g} {head + layout.height / 2:g})">')
    parts += _links(graph, layout)
    parts += (
        _svg_node(number, node, layout.places[number], page=page) for number, node in enumerate(graph.nodes)
    )
    parts.append("</g>")
    for number, (_, line) in enumerate(legend):
        parts.append(
            f'<g transform="translate({_EDGE:g} {head + layout.height + 12 + _FOOT_LINE * number:g})">{line}</g>'
        )
    parts.append("</svg>")
    return "\n".join(parts)


def caption(graph: Graph, link: Link) -> str:
    """Both names of a link and how often they changed together."""
    one, other = graph.nodes[link.one], graph.nodes[link.other]
    return f"{one.path} and {other.path}: {link.often or other.why}"


def group_class(group: int) -> str:
    """The class that has the colour of a group."""
    return f"g{len(LIGHT) - 1 if group == ALONE else group}"


def _links(graph: Graph, layout: Layout) -> Iterator[str]:
    for number, link in enumerate(graph.links):
        one, other = graph.nodes[link.one], graph.nodes[link.other]
        here, there = layout.places[link.one], layout.places[link.other]
        if one.asked:
            line = f"M{here.x:g} {here.y:g}L{there.x:g} {there.y:g}"
            colour = group_class(other.group)
        else:
            middle = (here.x + there.x) * _PULL / 2, (here.y + there.y) * _PULL / 2
            if here.side == there.side:  # a bow toward the centre, deeper the farther they are apart
                deep = min(0.85, 0.35 + abs(here.y - there.y) / 700)
                middle = (here.x + there.x) / 2 * (1 - deep), (here.y + there.y) / 2
            line = f"M{here.x:g} {here.y:g}Q{middle[0]:.1f} {middle[1]:.1f} {there.x:g} {there.y:g}"
            colour = group_class(one.group) if one.group == other.group != ALONE else "across"
        kind = "link" if one.asked else "link mutual"
        title = _escape(_evidence(caption(graph, link), link.told))
        yield (
            f'<g class="{kind} {colour}" data-link="{number}"><title>{title}</title>'
            f'<path d="{line}" class="reach"/>{_stroke(line, link.strength, faint=not one.asked)}</g>'
        )


def _stroke(line: str, strength: float, *, faint: bool) -> str:
    thick = 1.0 + (1.6 if faint else 6.0) * strength
    opacity = (0.18 if faint else 0.45) + (0.27 if faint else 0.35) * strength
    return f'<path d="{line}" stroke-width="{thick:.1f}" stroke-opacity="{opacity:.2f}"/>'


def _svg_node(number: int, node: Node, at: Position, *, page: bool) -> str:
    said = f"{node.path}: {_summary(node)}" if not node.asked else node.path
    title = f"<title>{_escape(_evidence(said, node.told))}</title>"
    reachable = f' tabindex="0" role="button" aria-label="{_escape(said)}"' if page else ""
    attributes = f'data-node="{number}" transform="translate({at.x:g} {at.y:g})"{reachable}'
    if node.asked:
        height = ASKED_HEIGHT - 6
        return (
            f'<g class="node asked" {attributes}>{title}<rect class="box" x="{-at.width / 2:.1f}" y="{-height / 2:g}" '
            f'width="{at.width:.1f}" height="{height:g}" rx="8"/>'
            f'<text class="name" text-anchor="middle" y="4.5">{_escape(at.name)}</text></g>'
        )
    radius = 4.0 + 6.0 * node.strength**0.5
    anchor = "end" if at.side < 0 else "start"
    x = at.side * 15
    y = f"{0 if at.folder else 4.5:g}"
    name = f'<text class="name" text-anchor="{anchor}" x="{x}" y="{y}">{_escape(at.name)}</text>'
    folder = f'<text class="folder dim" text-anchor="{anchor}" x="{x}" y="13">{_escape(at.folder)}</text>'
    return (
        f'<g class="node {group_class(node.group)}" {attributes}>{title}'
        f'<circle class="spot" r="{radius:.1f}"/>{name}{folder if at.folder else ""}</g>'
    )


def _summary(node: Node) -> str:
    score = f"score {node.score:.2f}"
    return ", ".join(
        part
        for part in (node.often, node.rate, f"last {node.last}" if node.last else "", score, node.why)
        if part
    )


def _evidence(said: str, told: tuple[CommitHeader, ...]) -> str:
    lines = [said]
    for one in told[:COMMITS_IN_TITLE]:
        lines.append(f"{one.date} {one.short} {one.author}: {one.subject}")
    if len(told) > COMMITS_IN_TITLE:
        lines.append(f"and {len(told) - COMMITS_IN_TITLE} more")
    return "\n".join(lines)


def _legend(graph: Graph, *, page: bool) -> Iterator[tuple[float, str]]:
    """Lines, each with the width of picture that it needs."""
    x = 0.0
    parts: list[str] = []
    entries = [(group_class(number), name) for number, name in enumerate(graph.groups)]
    if any(node.group == ALONE and not node.asked for node in graph.nodes):
        entries.append((group_class(ALONE), "in no group" if entries else "neighbors"))
    for colour, name in entries:
        label = shorten(name, 32)
        wide = 18 + columns(label) * _TEXT_SIZE * ADVANCE + 20
        if parts and x + wide > 760:
            yield x + 2 * _EDGE, "".join(parts)
            x, parts = 0.0, []
        parts.append(
            f'<circle class="spot {colour}" cx="{x + 6:.1f}" cy="-4" r="6"/>'
            f'<text class="dim" x="{x + 18:.1f}">{_escape(label)}</text>'
        )
        x += wide
    if parts:
        yield x + 2 * _EDGE, "".join(parts)
    x, parts = 0.0, []
    for number, (strength, word) in enumerate(_SAMPLES):
        parts.append(f'<g transform="translate({76 * number} 0)">{_sample(strength, word)}</g>')
    x = 76.0 * len(_SAMPLES) + 10
    said = "faint lines: between neighbors; one colour: they change among each other"
    parts.append(f'<text class="said dim" x="{x + 4:g}">{said}</text>')
    yield x + len(said) * 6.6 + 2 * _EDGE, "".join(parts)
    if not page:
        yield (
            len(graph.guidance) * 6.6 + 2 * _EDGE,
            f'<text class="said dim">{_escape(graph.guidance)}</text>',
        )


def _sample(strength: float, word: str) -> str:
    line = _stroke("M0 -4L28 -4", strength, faint=False).replace("<path", '<path class="sample" fill="none"')
    return f'{line}<text class="said dim" x="34">{word}</text>'


def _escape(text: str) -> str:
    return escape(text, quote=True)


def dot(graph: Graph) -> str:
    """The neighborhood as an undirected graph in the DOT language, groups as clusters: `dot -Tsvg`, or `fdp`."""
    return "".join(f"{line}\n" for line in _dot_lines(graph))


def _dot_lines(graph: Graph) -> Iterator[str]:
    yield "graph neighbors {"
    yield f'  label={_quoted(graph.title + chr(10) + graph.headline)}; labelloc=t; charset="UTF-8";'
    yield '  layout=fdp; overlap=false; splines=true; fontname="sans-serif";'
    yield '  node [shape=box, style="rounded,filled", fillcolor="#ffffff", fontname="monospace", fontsize=11];'
    yield '  edge [color="#64748b99"];'
    for number, node in enumerate(graph.nodes):
        if node.asked:
            yield f'  n{number} [label={_quoted(node.path)}, fillcolor="#1e293b", fontcolor="#ffffff"];'
        elif node.group == ALONE:
            yield f"  {_dot_node(number, node)}"
    for group, name in enumerate(graph.groups):
        yield f"  subgraph cluster_{group} {{"
        yield f'    label={_quoted(name)}; color="{LIGHT[group]}"; style=rounded;'
        for number, node in enumerate(graph.nodes):
            if node.group == group:
                yield f"    {_dot_node(number, node)}"
        yield "  }"
    for link in graph.links:
        said = _quoted(caption(graph, link))
        wide = 0.6 + 5 * min(link.score, 1.0)
        yield f"  n{link.one} -- n{link.other} [penwidth={wide:.2f}, weight={1 + 9 * link.score:.2f}, tooltip={said}];"
    yield "}"


def _dot_node(number: int, node: Node) -> str:
    colour = LIGHT[node.group] if node.group != ALONE else LIGHT[-1]
    said = _quoted(f"{node.path}: {node.often or node.why}")
    return f'n{number} [label={_quoted(node.path)}, color="{colour}", tooltip={said}];'


def _quoted(text: str) -> str:
    """A quoted string: in it only a quote and a backslash mean something; a line break is written as one."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


__all__ = ["draw"]


def draw(form: str, found: Neighborhood, told: Mapping[str, CommitHeader]) -> str:
    """The neighborhood as "dot", "svg" or "html" text; `told` has the commits behind it, by full id.

    The same values give the same text. Raises ValueError for another form.
    """
    from repoagent.history.graph import build

    graph = build(found, told)
    if form == "dot":
        return dot(graph)
    if form == "svg":
        return svg(graph)
    if form == "html":
        return html(graph)
    raise ValueError(form)


def page(title: str, rules: str, body: Iterable[str], *, script: str = "", data: object = None) -> str:
    """The whole page. `title` and what `body` holds are markup; `data` is what the script reads from "#data"."""
    own = f"style-src {_digest(rules)};" + (f" script-src {_digest(script)};" if script else "")
    policy = f"default-src 'none'; {own} base-uri 'none'; form-action 'none'"
    scripts = (
        f'<script type="application/json" id="data">{_json(data)}</script>\n<script>{script}</script>\n'
        if script
        else ""
    )
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="referrer" content="no-referrer">\n',
            f"<title>{title}</title>\n<style>{rules}</style>\n</head>\n<body>\n",
            *body,
            f"{scripts}</body>\n</html>\n",
        ]
    )


def markup(text: str) -> str:
    """Text as markup, in an element or an attribute."""
    return escape(text, quote=True)


def _json(data: object) -> str:
    """JSON in which nothing can end the element that holds it."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_HEADS = (("file", ""), ("score", ""), ("together", ""), ("rate", ""), ("last", ' class="last"'))


def html(graph: Graph) -> str:
    """The whole page."""
    package = files("repoagent.history") / "pages"
    rules = style() + package.joinpath("graph.css").read_text(encoding="utf-8")
    title = markup(graph.title)
    body = [
        f"<header>\n<h1>{title}</h1>\n<p>{markup(graph.headline)}</p>\n",
        f'<p class="note">{markup(graph.note)}</p>\n' if graph.note else "",
        "</header>\n<main>\n",
        '<div class="picture" tabindex="0" role="region" aria-label="Picture">\n',
        f"{drawing(graph, page=True)}\n</div>\n",
        '<div>\n<section id="evidence" aria-live="polite" aria-label="Evidence">\n',
        "<h2>Commits</h2>\n",
        "<p>Point at a file or a line, or step through them with Tab, to see its commits here.</p>\n",
        "<p>Click a file or press Enter to pin its lines; Escape unpins them.</p>\n</section>\n",
        *_table(graph),
        "</div>\n</main>\n",
        f"<footer><p>{markup(graph.guidance)}</p></footer>\n",
    ]
    script = package.joinpath("graph.js").read_text(encoding="utf-8")
    return page(title, rules, body, script=script, data=_data(graph))


def _table(graph: Graph) -> Iterator[str]:
    heads = "".join(f'<th scope="col"{more}>{name}</th>' for name, more in _HEADS)
    yield f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n"
    for number, node in enumerate(graph.nodes):
        if not node.asked:
            yield _row(number, node)
    yield "</tbody>\n</table>\n"


def _row(number: int, node: Node) -> str:
    often = node.often.partition(" commits")[0]
    width = max(round(56 * node.strength, 1), 1)
    return (
        f'<tr data-row="{number}"><td class="file"><button type="button">{markup(node.path)}</button>'
        f"<small>{markup(node.why)}</small></td>"
        '<td class="number"><svg class="bar" viewBox="0 0 56 9" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="56" height="9" rx="2"/><rect width="{width:g}" height="9" rx="2"/></svg>'
        f'{node.score:.2f}</td><td class="number">{often or "–"}</td>'
        f'<td class="number {node.rate}">{node.rate or "–"}</td><td class="number last">{node.last or "–"}</td></tr>\n'
    )


def _data(graph: Graph) -> object:
    """What the script shows."""
    return {
        "nodes": [
            {"path": node.path, "said": _said(node), "told": _commit_rows(node.told)} for node in graph.nodes
        ],
        "links": [
            {
                "one": link.one,
                "other": link.other,
                "between": not graph.nodes[link.one].asked,
                "often": link.often or graph.nodes[link.other].why,
                "told": _commit_rows(link.told),
            }
            for link in graph.links
        ],
    }


def _said(node: Node) -> list[str]:
    if node.asked:
        return ["the file that was asked for"]
    parts = (
        node.often,
        node.rate,
        f"last {node.last}" if node.last else "",
        f"score {node.score:.2f}",
        node.why,
    )
    return [", ".join(part for part in parts if part)]


def _commit_rows(told: tuple[CommitHeader, ...]) -> list[list[str]]:
    return [[one.date, one.short, one.author, one.subject] for one in told]
