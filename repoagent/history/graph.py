"""A neighborhood as a graph: nodes, links, clusters and positions.

Clusters: the Louvain method (Blondel, Guillaume, Lambiotte and Lefebvre, "Fast unfolding of communities in large
networks", 2008), with a fixed order of nodes, so that the same graph has the same clusters. Layout: the queried files
in the middle, neighbors on an ellipse around them, cluster by cluster, labels pointing outward, one line each, so that
no two overlap.
"""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from itertools import accumulate, pairwise, takewhile
from typing import NamedTuple

from repoagent.display_text import visible, width
from repoagent.history.cochange.score import Neighbor
from repoagent.history.neighbors import Edge, Neighborhood
from repoagent.history.render import CommitHeader, guidance, headline, rate, scale_of, why

COLOURS = 7
ALONE = -1  # the group of nodes without one
_LEAST_GAIN = 1e-12
_LINKS_OF_NODE = 2  # between neighbors, each shows its strongest; more would be a hairball
_COMMITS = 20  # of a node or link

NAME_SIZE, FOLDER_SIZE = 13.0, 11.0  # pixels
ADVANCE = 0.61  # widest character of a fixed-width font, as a share of its size
QUERY_HEIGHT = 34.0
_NAME_COLUMNS, _FOLDER_COLUMNS, _QUERY_COLUMNS = 26, 30, 34
_LINE, _GAP, _WIDEST_LINE = 34.0, 16.0, 60.0
_MARGIN, _LEAST_HALF, _TOP = 24.0, 56.0, 18.0
_LABEL_DISTANCE = 16.0


class Node(NamedTuple):
    """A file: `path` is printable; `row` is None for a queried file; `strength` is the score as a share of the best."""

    path: str
    group: int = ALONE
    row: Neighbor | None = None
    strength: float = 0.0
    commits: tuple[CommitHeader, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the path; a folder keeps its slash."""
        return self.path[self.path.rstrip("/").rfind("/") + 1 :]

    @property
    def folder(self) -> str:
        return self.path[: len(self.path) - len(self.name)]

    @property
    def summary(self) -> str:
        row = self.row
        if row is None:
            return "the queried file"
        last = f"last {day(row.last)}" if row.last is not None else ""
        parts = (
            shared(row),
            rate(row.together, row.commits),
            last,
            f"score {row.score:.2f}",
            why(row.reasons[:2]),
        )
        return ", ".join(part for part in parts if part)


class Link(NamedTuple):
    """Two nodes, by number, that changed together; `label` has the number of commits."""

    source: int
    target: int
    score: float
    label: str
    strength: float
    commits: tuple[CommitHeader, ...] = ()


class Graph(NamedTuple):
    """`nodes` start with the queried files; `groups` are names; weak links come first, to be drawn below the others."""

    title: str
    headline: str
    note: str
    guidance: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    groups: tuple[str, ...]


class Position(NamedTuple):
    """The centre of a node, in pixels from the centre of the picture; `side` is -1 at the left, 1 at the right, 0 for a
    queried file, whose box is `width` wide. `name` and `folder` are shortened to fit."""

    x: float
    y: float
    side: int
    name: str
    folder: str = ""
    width: float = 0.0


class Layout(NamedTuple):
    """A position for each node of the graph, and the size of the picture."""

    positions: tuple[Position, ...]
    width: float
    height: float


def shown(text: str | bytes) -> str:
    """A name or a subject on one line, valid in XML, with what cannot be printed made visible: ^J, <FF>, <U+202E>."""
    text = os.fsdecode(text) if isinstance(text, bytes) else text
    return text if text.isprintable() else "".join(c if c.isprintable() else visible(c) for c in text)


def columns(text: str) -> int:
    """How many columns of a fixed-width font a shown text takes."""
    return len(text) if text.isascii() else sum(width(character) for character in text)


def shorten(text: str, limit: int) -> str:
    """A shown text in at most `limit` columns, without its middle if it is too long."""
    if columns(text) <= limit:
        return text
    end, start, used = len(text), 0, 0
    while used + width(text[end - 1]) <= limit - 1 - (limit - 1) // 3:
        end -= 1
        used += width(text[end])
    while end < len(text) and not width(text[end]):
        end += 1  # a combining mark that has lost its character
    while used + width(text[start]) <= limit - 1:
        used += width(text[start])
        start += 1
    return f"{text[:start]}…{text[end:]}"


def day(seconds: int | None) -> str:
    """The day of a commit in UTC; "" for None."""
    if seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):  # git accepts dates that datetime does not
        return "?"


def shared(pair: Neighbor | Edge) -> str:
    """How often two files changed together; "" for never."""
    if not pair.together:
        return ""
    percent = round(100 * pair.together / pair.commits) if pair.commits else 0
    return f"{pair.together} of {pair.commits} commits ({percent}%)"


def clusters(
    count: int, weights: Mapping[tuple[int, int], float], resolution: float = 1.0
) -> list[list[int]]:
    """Divide the nodes 0 to `count` - 1 into groups that are denser inside than chance would make them.

    `weights` has the weight (more than 0) of each linked pair, once; a higher `resolution` makes smaller groups. The
    nodes of a group are in order, the groups by their first node.
    """
    links: list[dict[int, float]] = [{} for _ in range(count)]
    for (first, second), weight in sorted(weights.items()):
        links[first][second] = links[second][first] = weight
    groups = [[node] for node in range(count)]
    while True:
        labels = _move_nodes(links, resolution)
        numbers = {label: number for number, label in enumerate(sorted({*labels}))}
        if len(numbers) == len(links):
            return sorted(sorted(group) for group in groups)
        merged: list[list[int]] = [[] for _ in numbers]
        between: list[dict[int, float]] = [defaultdict(float) for _ in numbers]
        for node, label in enumerate(labels):
            merged[numbers[label]] += groups[node]
            for neighbor, weight in links[node].items():
                between[numbers[label]][numbers[labels[neighbor]]] += weight
        groups, links = merged, between


def _move_nodes(links: Sequence[Mapping[int, float]], resolution: float) -> list[int]:
    """The group of each node, after moving nodes to the neighboring group with the highest modularity until no move
    raises it. `links` has the weights of each node's links by neighbor."""
    degrees = [sum(weights.values()) for weights in links]
    total = sum(degrees)
    labels = list(range(len(links)))
    sizes = dict(enumerate(degrees))
    moved = total > 0
    while moved:
        moved = False
        for node, weights in enumerate(links):
            toward: defaultdict[int, float] = defaultdict(float)
            for neighbor, weight in weights.items():
                if neighbor != node:
                    toward[labels[neighbor]] += weight
            current = labels[node]
            sizes[current] -= degrees[node]
            share = resolution * degrees[node] / total
            best, highest = current, toward[current] - share * sizes[current] + _LEAST_GAIN * total
            for label in sorted(toward):
                if (gain := toward[label] - share * sizes[label]) > highest:
                    best, highest = label, gain
            sizes[best] += degrees[node]
            moved = moved or best != current
            labels[node] = best
    return labels


def build(neighborhood: Neighborhood, headers: Mapping[str, CommitHeader]) -> Graph:
    """The graph of a neighborhood with edges; `headers` has the commits behind it, by full id."""
    query, rows = neighborhood.paths, neighborhood.rows
    numbers = {path: number for number, path in enumerate([*query, *(row.path for row in rows)])}
    edges = [
        (numbers[edge.one], numbers[edge.other], edge)
        for edge in neighborhood.edges
        if edge.one in numbers and edge.other in numbers and edge.score > 0
    ]
    edges.sort(key=lambda entry: (-entry[2].score, *entry[:2]))
    between = {
        (min(one, other) - len(query), max(one, other) - len(query)): edge.score
        for one, other, edge in edges
        if min(one, other) >= len(query)
    }
    groups, names = _groups([row.path for row in rows], between)
    scale = scale_of(rows)

    def commits(pair: Neighbor | Edge) -> tuple[CommitHeader, ...]:
        known = (headers.get(neighborhood.ids[number]) for number in pair.evidence[:_COMMITS])
        return tuple(
            CommitHeader(
                header.commit, *map(shown, (header.short, header.author, header.date[:10], header.subject))
            )
            for header in known
            if header is not None
        )

    nodes = [Node(shown(path)) for path in query]
    for group, row in zip(groups, rows, strict=True):
        nodes.append(Node(shown(row.path), group, row, scale(row.score), commits(row)))
    links = []
    used: Counter[int] = Counter()
    for one, other, edge in edges:
        if min(one, other) >= len(query):
            if used[one] >= _LINKS_OF_NODE and used[other] >= _LINKS_OF_NODE:
                continue
            used.update((one, other))
        links.append(Link(one, other, edge.score, shared(edge), scale(edge.score), commits(edge)))
    title = "What changes with " + ", ".join(node.path for node in nodes[: min(len(query), 3)])
    if len(query) > 3:
        title += f" and {len(query) - 3} more"
    lines = shown(headline(neighborhood)), shown(neighborhood.note), guidance(neighborhood)
    return Graph(title, *lines, tuple(nodes), tuple(reversed(links)), names)


def _groups(
    paths: Sequence[bytes], weights: Mapping[tuple[int, int], float]
) -> tuple[list[int], tuple[str, ...]]:
    """The group of each path, and the names of the groups: a folder whose neighbors are all in the group, else its
    strongest file. Only the largest groups have a colour; the other nodes are alone."""
    largest = sorted(
        (group for group in clusters(len(paths), weights) if len(group) > 1), key=len, reverse=True
    )
    group_of = [ALONE] * len(paths)
    names = []
    for number, group in enumerate(sorted(largest[:COLOURS], key=min)):
        for member in group:
            group_of[member] = number
        levels = zip(*(paths[member].split(b"/")[:-1] for member in group), strict=False)
        folder = b"".join(level[0] + b"/" for level in takewhile(lambda level: len({*level}) == 1, levels))
        if folder and sum(path.startswith(folder) for path in paths) == len(group):
            names.append(shown(folder))
        else:
            names.append(f"around {shown(paths[group[0]].rpartition(b'/')[2])}")
    return group_of, tuple(names)


def layout(graph: Graph) -> Layout:
    """A position for each node of the graph."""
    queries = [shorten(node.path, _QUERY_COLUMNS) for node in graph.nodes if node.row is None]
    group_of = [node.group for node in graph.nodes]
    ordered = sorted(  # clockwise from the top; nodes without a group last
        range(len(queries), len(graph.nodes)),
        key=lambda node: (group_of[node] % (len(graph.groups) + 1), node),
    )
    # About half go to the right; cut between two groups if that is near the middle.
    middle = (len(ordered) + 1) // 2
    cuts = [cut for cut in range(1, len(ordered)) if group_of[ordered[cut]] != group_of[ordered[cut - 1]]]
    cut = min(cuts, key=lambda cut: abs(cut - middle), default=middle)
    cut = cut if abs(cut - middle) <= len(ordered) * 0.12 else middle
    right, left = ordered[:cut], ordered[cut:]
    # The left side reads from its top too: groups in reverse, in each group the strongest first.
    upward = list(dict.fromkeys(group_of[node] for node in reversed(left)))
    left.sort(key=lambda node: (upward.index(group_of[node]), node))

    sides = []
    for side, nodes in ((1, right), (-1, left)):
        gaps = [_LINE + (_GAP if group_of[one] != group_of[other] else 0.0) for one, other in pairwise(nodes)]
        sides.append((side, nodes, list(accumulate(gaps, initial=0.0))))
    half = max(_LEAST_HALF, len(queries) * QUERY_HEIGHT / 2 + 24, *(offsets[-1] / 2 for *_, offsets in sides))
    boxes = [columns(name) * NAME_SIZE * ADVANCE + 28 for name in queries]
    radius = max(half * 0.9, max(boxes) / 2 + 80, 190.0)
    positions = {
        node: Position(0.0, (node - (len(queries) - 1) / 2) * QUERY_HEIGHT, 0, name, width=box)
        for node, (name, box) in enumerate(zip(queries, boxes, strict=True))
    }
    for side, nodes, offsets in sides:
        extent = offsets[-1]
        stretch = min(2 * half / extent, _WIDEST_LINE / _LINE) if extent else 1.0
        for node, offset in zip(nodes, offsets, strict=False):
            y = (offset - extent / 2) * stretch
            x = side * radius * math.sqrt(1 - (y / (half * 1.14)) ** 2)
            name = shorten(graph.nodes[node].name, _NAME_COLUMNS)
            folder = shorten(graph.nodes[node].folder, _FOLDER_COLUMNS)
            positions[node] = Position(round(x, 1), round(y, 1), side, name, folder)
    reach = max(
        abs(position.x) + _LABEL_DISTANCE + label_width(position) if position.side else position.width / 2
        for position in positions.values()
    )
    ordered_positions = tuple(positions[node] for node in range(len(graph.nodes)))
    return Layout(ordered_positions, round(2 * (reach + _MARGIN)), round(2 * (half + _TOP + _MARGIN)))


def label_width(position: Position) -> float:
    """How many pixels a label takes at most."""
    return ADVANCE * max(columns(position.name) * NAME_SIZE, columns(position.folder) * FOLDER_SIZE)
