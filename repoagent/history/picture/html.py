"""The picture as a page: the table beside it, and the evidence on hover or focus."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from repoagent.history.evidence import Told
from repoagent.history.picture.graph import Graph, Node
from repoagent.history.picture.page import markup as _text
from repoagent.history.picture.page import page
from repoagent.history.picture.svg import drawing, style

_HEADS = (("file", ""), ("score", ""), ("together", ""), ("rate", ""), ("last", ' class="last"'))


def html(graph: Graph) -> str:
    """The whole page."""
    package = files("repoagent.history.picture")
    rules = style() + package.joinpath("page.css").read_text(encoding="utf-8")
    title = _text(graph.title)
    body = [
        f"<header>\n<h1>{title}</h1>\n<p>{_text(graph.headline)}</p>\n",
        f'<p class="note">{_text(graph.note)}</p>\n' if graph.note else "",
        "</header>\n<main>\n",
        '<div class="picture" tabindex="0" role="region" aria-label="Picture">\n',
        f"{drawing(graph, page=True)}\n</div>\n",
        '<div>\n<section id="evidence" aria-live="polite" aria-label="Evidence">\n',
        "<h2>The commits behind it</h2>\n",
        "<p>Point at a file or a line, or go through them with the Tab key, to see its commits here.</p>\n",
        "<p>Click a file, or press Enter, to keep its lines; Escape lets them go.</p>\n</section>\n",
        *_table(graph),
        "</div>\n</main>\n",
        f"<footer><p>{_text(graph.guidance)}</p></footer>\n",
    ]
    script = package.joinpath("page.js").read_text(encoding="utf-8")
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
        f'<tr data-row="{number}"><td class="file"><button type="button">{_text(node.path)}</button>'
        f"<small>{_text(node.why)}</small></td>"
        '<td class="number"><svg class="bar" viewBox="0 0 56 9" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="56" height="9" rx="2"/><rect width="{width:g}" height="9" rx="2"/></svg>'
        f'{node.score:.2f}</td><td class="number">{often or "–"}</td>'
        f'<td class="number {node.rate}">{node.rate or "–"}</td><td class="number last">{node.last or "–"}</td></tr>\n'
    )


def _data(graph: Graph) -> object:
    """What the script shows."""
    return {
        "nodes": [
            {"path": node.path, "said": _said(node), "told": _lines(node.told)} for node in graph.nodes
        ],
        "links": [
            {
                "one": link.one,
                "other": link.other,
                "between": not graph.nodes[link.one].asked,
                "often": link.often or graph.nodes[link.other].why,
                "told": _lines(link.told),
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


def _lines(told: tuple[Told, ...]) -> list[list[str]]:
    return [[one.date, one.short, one.author, one.subject] for one in told]
