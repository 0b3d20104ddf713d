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
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from itertools import pairwise, takewhile

from repoagent.dataclass import dataclass
from repoagent.display_text import visible, width
from repoagent.history.neighbors import Edge, Neighborhood
from repoagent.history.render import CommitHeader, guidance, headline, rate, scale_of, why

_LEAST_GAIN = 1e-12
Links = Sequence[Mapping[int, float]]  # of each node: its neighbors with the weight between them


def clusters(
    count: int, weights: Mapping[tuple[int, int], float], resolution: float = 1.0
) -> list[list[int]]:
    """Divide the nodes 0 to `count` - 1 into groups that are denser inside than chance would make them.

    `weights` has the weight (more than 0) of each pair with an edge; a higher `resolution` makes smaller groups. A
    group's nodes are in order, the groups by their first node.
    """
    links: list[dict[int, float]] = [{} for _ in range(count)]
    for (one, other), weight in sorted(weights.items()):
        links[one][other] = links[other][one] = links[one].get(other, 0.0) + weight
    groups = [[node] for node in range(count)]
    while True:
        labels = _moved(links, resolution)
        names = sorted({*labels})
        if len(names) == len(links):
            return sorted(sorted(group) for group in groups)
        number = {label: place for place, label in enumerate(names)}
        merged: list[list[int]] = [[] for _ in names]
        between: list[defaultdict[int, float]] = [defaultdict(float) for _ in names]
        for node, label in enumerate(labels):
            merged[number[label]] += groups[node]
            for other, weight in links[node].items():
                between[number[label]][number[labels[other]]] += weight
        groups, links = merged, [dict(one) for one in between]


def _moved(links: Links, resolution: float) -> list[int]:
    """The group of each node, after moving one at a time to the neighboring group with the highest modularity until no
    move raises it."""
    degrees = [sum(near.values()) for near in links]
    total = sum(degrees)
    labels = list(range(len(links)))
    sizes = dict(enumerate(degrees))
    moved = total > 0
    while moved:
        moved = False
        for node, near in enumerate(links):
            toward: defaultdict[int, float] = defaultdict(float)
            for other, weight in near.items():
                if other != node:
                    toward[labels[other]] += weight
            own = labels[node]
            sizes[own] -= degrees[node]
            share = resolution * degrees[node] / total if total else 0.0
            best, most = own, toward[own] - share * sizes[own] + _LEAST_GAIN * total
            for label in sorted(toward):
                if (gain := toward[label] - share * sizes[label]) > most:
                    best, most = label, gain
            sizes[best] += degrees[node]
            moved = moved or best != own
            labels[node] = best
    return labels


def shown(text: str | bytes) -> str:
    """A name or a subject on one line, what can't be printed made visible: ^J, <FF> for a byte that is no UTF-8,
    <U+202E>. What is left is valid in XML.
    """
    text = os.fsdecode(text) if isinstance(text, bytes) else text
    return text if text.isprintable() else "".join(c if c.isprintable() else visible(c) for c in text)


def columns(text: str) -> int:
    """How many columns of a fixed-width font a shown text takes."""
    return len(text) if text.isascii() else sum(width(character) for character in text)


def shorten(text: str, room: int) -> str:
    """A shown text in at most `room` columns; what is left out is in its middle."""
    if columns(text) <= room:
        return text
    end, start = len(text), 0
    left = room - 1
    used = 0
    while used + width(text[end - 1]) <= left - left // 3:
        end -= 1
        used += width(text[end])
    while end < len(text) and not width(text[end]):
        end += 1  # a mark that has lost its character
    while used + width(text[start]) <= left:
        used += width(text[start])
        start += 1
    return f"{text[:start]}…{text[end:]}"


def day(seconds: int | None) -> str:
    """The day of a commit, in universal time; "" for none."""
    if seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):  # a date that only git can hold
        return "?"


def percent(together: int, commits: int) -> int:
    """The share in whole percent."""
    return round(100 * together / commits) if commits else 0


LINKS_OF_NODE = 2  # between neighbors, each shows its strongest; more would be a ball of wool
COLOURS = 7
ALONE = -1  # the group of those that are in none
COMMITS_SHOWN = 20


@dataclass(frozen=True)
class Node:
    """A file. `path` is its whole name made printable; `rank` orders the table, None for an asked one; `strength` is
    the score as a share of the best one, as it is drawn."""

    path: str
    group: int
    rank: int | None = None
    score: float = 0.0
    often: str = ""
    rate: str = ""
    last: str = ""
    why: str = ""
    strength: float = 0.0
    told: tuple[CommitHeader, ...] = ()

    @property
    def asked(self) -> bool:
        return self.rank is None

    @property
    def name(self) -> str:
        """The last part of the path, with the slash of a folder."""
        return self.path[self.path.rstrip("/").rfind("/") + 1 :]

    @property
    def folder(self) -> str:
        return self.path[: len(self.path) - len(self.name)]


@dataclass(frozen=True)
class Link:
    """Two nodes, by their places, that changed together; `often` says how often, `strength` is as a node's."""

    one: int
    other: int
    score: float
    often: str
    strength: float
    told: tuple[CommitHeader, ...] = ()


@dataclass(frozen=True)
class Graph:
    """`nodes` begin with the asked ones; `groups` are the names of the groups, by number."""

    title: str
    headline: str
    note: str
    guidance: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    groups: tuple[str, ...]


def build(found: Neighborhood, told: Mapping[str, CommitHeader]) -> Graph:
    """The graph of a neighborhood that was asked for with its edges."""
    rows = [row.path for row in found.rows]
    places = {path: place for place, path in enumerate([*found.paths, *rows])}
    asked = len(found.paths)
    edges = [edge for edge in found.edges if edge.one in places and edge.other in places and edge.score > 0]
    mutual = {
        (places[edge.one] - asked, places[edge.other] - asked): edge.score
        for edge in edges
        if min(places[edge.one], places[edge.other]) >= asked
    }
    groups, names = _groups(rows, mutual)
    scale = scale_of(found.rows)
    nodes = [Node(shown(path), ALONE) for path in found.paths]
    for place, row in enumerate(found.rows):
        nodes.append(
            Node(
                shown(row.path),
                groups[place],
                place,
                row.score,
                _often(row.together, row.commits),
                rate(row.together, row.commits) or "",
                day(row.last),
                why(row.reasons[:2]),
                scale(row.score),
                _told(row.evidence, found, told),
            )
        )
    links = [
        Link(
            places[edge.one],
            places[edge.other],
            edge.score,
            _often(edge.together, edge.commits),
            scale(edge.score),
            _told(edge.evidence, found, told),
        )
        for edge in _shown(edges, places, asked)
    ]
    what = ", ".join(node.path for node in nodes[:asked][:3]) + (
        f" and {asked - 3} more" if asked > 3 else ""
    )
    return Graph(
        f"What changes with {what}",
        shown(headline(found)),
        shown(found.note),
        guidance(found),
        tuple(nodes),
        tuple(links),
        names,
    )


def _groups(
    rows: Sequence[bytes], mutual: Mapping[tuple[int, int], float]
) -> tuple[list[int], tuple[str, ...]]:
    """The group of each row, and the groups' names. The largest have a colour of their own, the rest are alone."""
    weights: dict[tuple[int, int], float] = defaultdict(float)
    for (one, other), score in mutual.items():
        weights[min(one, other), max(one, other)] += score
    found = [group for group in clusters(len(rows), weights) if len(group) > 1]
    found = sorted(sorted(found, key=len, reverse=True)[:COLOURS], key=min)
    group_of = [ALONE] * len(rows)
    for number, group in enumerate(found):
        for place in group:
            group_of[place] = number
    return group_of, tuple(_named([rows[place] for place in group], rows) for group in found)


def _named(group: Sequence[bytes], rows: Sequence[bytes]) -> str:
    """The folder that all of a group are in and no other neighbor is, else its surest file."""
    folders = [path.split(b"/")[:-1] for path in group]
    parts = [parts[0] for parts in takewhile(lambda parts: len({*parts}) == 1, zip(*folders, strict=False))]
    folder = b"/".join(parts) + b"/"
    if parts and sum(path.startswith(folder) for path in rows) == len(group):
        return shown(folder)
    return f"around {shown(group[0].rpartition(b'/')[2])}"


def _shown(edges: Iterable[Edge], places: Mapping[bytes, int], asked: int) -> list[Edge]:
    """The edges to the asked ones, and the strongest of the others, weak ones first: the strong ones lie above."""
    kept: list[Edge] = []
    used: Counter[int] = Counter()
    for edge in sorted(edges, key=lambda edge: (-edge.score, places[edge.one], places[edge.other])):
        one, other = places[edge.one], places[edge.other]
        if min(one, other) >= asked:
            if used[one] >= LINKS_OF_NODE and used[other] >= LINKS_OF_NODE:
                continue
            used.update((one, other))
        kept.append(edge)
    return kept[::-1]


def _often(together: int, commits: int) -> str:
    return f"{together} of {commits} commits ({percent(together, commits)}%)" if together else ""


def _told(
    numbers: Sequence[int], found: Neighborhood, told: Mapping[str, CommitHeader]
) -> tuple[CommitHeader, ...]:
    known = (told.get(found.ids[number]) for number in numbers[:COMMITS_SHOWN])
    return tuple(
        CommitHeader(
            one.commit, shown(one.short), shown(one.author), shown(one.date[:10]), shown(one.subject)
        )
        for one in known
        if one is not None
    )


NAME_SIZE, FOLDER_SIZE = 13.0, 11.0  # pixels
NAME_COLUMNS, FOLDER_COLUMNS, ASKED_COLUMNS = 26, 30, 34
ADVANCE = 0.61  # of the size, what a character of a fixed-width font takes at most
ASKED_HEIGHT = 34.0
_LINE, _GAP, _WIDEST_LINE = 34.0, 16.0, 60.0
_MARGIN, _LEAST_HALF = 24.0, 56.0
_HEAD_ROOM = 18.0
_NODE_ROOM = 16.0


@dataclass(frozen=True)
class Position:
    """A node's centre, in pixels from the centre of the picture; `side` is -1 at the left, 1 at the right, 0 for an
    asked one, whose box is `width` wide. `name` and `folder` are what fits."""

    x: float
    y: float
    side: int
    name: str
    folder: str = ""
    width: float = 0.0


@dataclass(frozen=True)
class Layout:
    """`places` are those of the graph's nodes; the picture is `width` to `height` pixels."""

    places: tuple[Position, ...]
    width: float
    height: float


def place(graph: Graph) -> Layout:
    """A place for each node of the graph."""
    asked = [shorten(node.path, ASKED_COLUMNS) for node in graph.nodes if node.asked]
    around = _in_order(graph)
    right = around[: _split(graph, around)]
    left = _surest_above(graph, around[len(right) :])
    half = max(_LEAST_HALF, _extent(graph, right), _extent(graph, left), len(asked) * ASKED_HEIGHT / 2 + 24)
    boxes = [columns(name) * NAME_SIZE * ADVANCE + 28 for name in asked]
    wide = max(half * 0.9, max(boxes) / 2 + 80, 190.0)
    places: dict[int, Position] = {
        number: Position(0.0, (number - (len(asked) - 1) / 2) * ASKED_HEIGHT, 0, name, width=box)
        for number, (name, box) in enumerate(zip(asked, boxes, strict=True))
    }
    for side, nodes in ((1, right), (-1, left)):
        for number, y in zip(nodes, _heights(graph, nodes, half), strict=True):
            x = side * wide * math.sqrt(1 - (y / (half * 1.14)) ** 2)
            node = graph.nodes[number]
            name, folder = shorten(node.name, NAME_COLUMNS), shorten(node.folder, FOLDER_COLUMNS)
            places[number] = Position(round(x, 1), round(y, 1), side, name, folder)
    reach = max(
        abs(one.x) + _NODE_ROOM + label_width(one) if one.side else one.width / 2 for one in places.values()
    )
    ordered = tuple(places[number] for number in range(len(graph.nodes)))
    return Layout(ordered, round(2 * (reach + _MARGIN)), round(2 * (half + _HEAD_ROOM + _MARGIN)))


def label_width(one: Position) -> float:
    """How many pixels its label takes at most."""
    return ADVANCE * max(columns(one.name) * NAME_SIZE, columns(one.folder) * FOLDER_SIZE)


def _in_order(graph: Graph) -> list[int]:
    """The neighbors group by group, the surest group first, those in no group last."""
    numbers = [number for number, node in enumerate(graph.nodes) if not node.asked]
    last = len(graph.groups)
    return sorted(numbers, key=lambda number: (graph.nodes[number].group % (last + 1), number))


def _split(graph: Graph, around: Sequence[int]) -> int:
    """How many go to the right: about half, where a group ends if one ends near there."""
    half = (len(around) + 1) // 2
    ends = [
        place
        for place in range(1, len(around))
        if graph.nodes[around[place]].group != graph.nodes[around[place - 1]].group
    ]
    near = min(ends, key=lambda place: abs(place - half), default=half)
    return near if abs(near - half) <= len(around) * 0.12 else half


def _surest_above(graph: Graph, nodes: Sequence[int]) -> list[int]:
    """The left side from its top: the groups go on around the ellipse, in each the surest stands first."""
    groups = list(dict.fromkeys(graph.nodes[number].group for number in reversed(nodes)))
    return sorted(nodes, key=lambda number: (groups.index(graph.nodes[number].group), number))


def _gaps(graph: Graph, nodes: Sequence[int]) -> list[float]:
    """The room before each node but the first: more where another group begins."""
    groups = [graph.nodes[number].group for number in nodes]
    return [_LINE + (_GAP if one != other else 0.0) for one, other in pairwise(groups)]


def _extent(graph: Graph, nodes: Sequence[int]) -> float:
    return sum(_gaps(graph, nodes)) / 2


def _heights(graph: Graph, nodes: Sequence[int], half: float) -> list[float]:
    """The heights of the nodes of one side, from the top, spread over the height of the other one."""
    if not nodes:
        return []
    gaps = _gaps(graph, nodes)
    stretch = min(2 * half / sum(gaps), _WIDEST_LINE / _LINE) if gaps else 1.0
    heights = [0.0]
    for gap in gaps:
        heights.append(heights[-1] + gap * stretch)
    return [height - heights[-1] / 2 for height in heights]
