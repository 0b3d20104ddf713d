"""The picture for graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from repoagent.history.picture.graph import ALONE, Graph, Node
from repoagent.history.picture.svg import LIGHT, caption


def dot(graph: Graph) -> str:
    """The neighborhood as an undirected graph in the DOT language, groups as clusters: `dot -Tsvg`, or `fdp`."""
    return "".join(f"{line}\n" for line in _lines(graph))


def _lines(graph: Graph) -> Iterator[str]:
    yield "graph neighbors {"
    yield f'  label={_quoted(graph.title + chr(10) + graph.headline)}; labelloc=t; charset="UTF-8";'
    yield '  layout=fdp; overlap=false; splines=true; fontname="sans-serif";'
    yield '  node [shape=box, style="rounded,filled", fillcolor="#ffffff", fontname="monospace", fontsize=11];'
    yield '  edge [color="#64748b99"];'
    for number, node in enumerate(graph.nodes):
        if node.asked:
            yield f'  n{number} [label={_quoted(node.path)}, fillcolor="#1e293b", fontcolor="#ffffff"];'
        elif node.group == ALONE:
            yield f"  {_node(number, node)}"
    for group, name in enumerate(graph.groups):
        yield f"  subgraph cluster_{group} {{"
        yield f'    label={_quoted(name)}; color="{LIGHT[group]}"; style=rounded;'
        for number, node in enumerate(graph.nodes):
            if node.group == group:
                yield f"    {_node(number, node)}"
        yield "  }"
    for link in graph.links:
        said = _quoted(caption(graph, link))
        wide = 0.6 + 5 * min(link.score, 1.0)
        yield f"  n{link.one} -- n{link.other} [penwidth={wide:.2f}, weight={1 + 9 * link.score:.2f}, tooltip={said}];"
    yield "}"


def _node(number: int, node: Node) -> str:
    colour = LIGHT[node.group] if node.group != ALONE else LIGHT[-1]
    said = _quoted(f"{node.path}: {node.often or node.why}")
    return f'n{number} [label={_quoted(node.path)}, color="{colour}", tooltip={said}];'


def _quoted(text: str) -> str:
    """A quoted string: in it only a quote and a backslash mean something; a line break is written as one."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
