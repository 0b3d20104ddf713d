"""The graph behind a picture: files as positioned nodes, links and groups; and the neighbors of some files as such a
graph.

Groups are found with the Louvain method (Blondel, Guillaume, Lambiotte and Lefebvre, "Fast unfolding of communities in
large networks", 2008), with a fixed order of nodes, so that the same graph has the same groups. The queried files are
in the middle, neighbors on an ellipse around them, group by group, with labels that point outward and do not overlap.
"""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from repoagent.display_text import character_width, visible_form
from repoagent.history.cochange import Neighbor
from repoagent.history.neighbors import Edge, Neighborhood
from repoagent.history.render import (
    CommitHeader,
    day,
    guidance,
    headline,
    reasons_text,
    scale_of,
    together_rate,
)

COLOURS = 7
ALONE = -1  # the group of nodes without one
NAME_SIZE, FOLDER_SIZE, TITLE_SIZE = 13.0, 11.0, 16.0  # pixels, as in pages/drawing.css
ADVANCE = 0.61  # widest character of a fixed-width font, as a share of its size
BOX_HEIGHT = 28.0
MARGIN = 24.0
_LEAST_GAIN = 1e-12
_LINKS_OF_NODE = 2  # between neighbors, each shows its strongest; more would be a hairball
_COMMITS = 20  # of a node or link
_MAIN = 0.6  # of a group's files are in the folder that it is named after
_QUERY_LINE, _LINE, _GAP, _WIDEST_LINE = 34.0, 34.0, 16.0, 60.0


class Node(NamedTuple):
    """A file: `path` is printable; `x` and `y` are pixels from the center. The label is on the left (`side` -1), on the
    right (1), or in a box (0, a queried file); None for no label."""

    path: str
    x: float = 0.0
    y: float = 0.0
    radius: float = 0.0
    group: int = ALONE
    side: int | None = 0
    summary: str = ""
    commits: tuple[CommitHeader, ...] = ()

    @property
    def label(self) -> tuple[str, str]:
        if not self.side:
            return shorten_middle(self.path, 34), ""
        folder, slash, name = self.path.rstrip("/").rpartition("/")
        return shorten_middle(name + "/" * self.path.endswith("/"), 26), shorten_middle(folder + slash, 30)

    @property
    def reach(self) -> float:
        """How many pixels a node with its label extends from its center to the label's side or, for a box, to either
        side."""
        name, folder = self.label
        wide = ADVANCE * max(columns(name) * NAME_SIZE, columns(folder) * FOLDER_SIZE)
        return 16 + wide if self.side else 14 + wide / 2


class Link(NamedTuple):
    """Two nodes, by number, that changed together; `strength` is 0 to 1. Links that are not `drawn` appear only when
    one of their nodes is selected; `faint` ones are between neighbors."""

    source: int
    target: int
    strength: float
    label: str
    commits: tuple[CommitHeader, ...] = ()
    drawn: bool = True
    faint: bool = False


class Area(NamedTuple):
    """A disc with the nodes of a cluster."""

    name: str
    x: float
    y: float
    radius: float
    members: Sequence[int]


class Graph(NamedTuple):
    """A graph to draw. `groups` has the name of each group (each has its own color); `between` has pairs of areas, each
    with a strength; `rows` has, for each row of the table, the number of its node and its cells. Weak links come first,
    to be drawn below the others."""

    title: str
    headline: str
    note: str
    guidance: str
    nodes: Sequence[Node]
    links: Sequence[Link]
    groups: Sequence[str]
    size: tuple[float, float]
    heads: tuple[str, ...]
    rows: Sequence[tuple[int, tuple[str, ...]]]
    areas: Sequence[Area] = ()
    between: Sequence[tuple[int, int, float]] = ()


def printable_line(text: str | bytes) -> str:
    """A name or a subject on one line, valid in XML, with unprintable characters made visible: ^J, <FF>, <U+202E>."""
    text = os.fsdecode(text) if isinstance(text, bytes) else text
    return text if text.isprintable() else "".join(c if c.isprintable() else visible_form(c) for c in text)


def columns(text: str) -> int:
    return len(text) if text.isascii() else sum(character_width(character) for character in text)


def shorten_middle(text: str, limit: int) -> str:
    """A printable text in at most `limit` columns, with its middle replaced by "…" if it is too long."""
    if columns(text) <= limit:
        return text
    end, start, used = len(text), 0, 0
    while used + character_width(text[end - 1]) <= limit - 1 - (limit - 1) // 3:
        end -= 1
        used += character_width(text[end])
    while end < len(text) and not character_width(text[end]):
        end += 1  # a combining mark that has lost its character
    while used + character_width(text[start]) <= limit - 1:
        used += character_width(text[start])
        start += 1
    return f"{text[:start]}…{text[end:]}"


def clusters(
    count: int, weights: Mapping[tuple[int, int], float], resolution: float = 1.0
) -> list[list[int]]:
    """Divide the nodes 0 to `count` - 1 into groups that are more densely linked inside than expected by chance.

    `weights` has the weight (more than 0) of each linked pair, once; a higher `resolution` makes smaller groups. The
    nodes of a group are in ascending order; the groups are ordered by their first node.
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


def group_names(groups: Sequence[Sequence[bytes]]) -> list[str]:
    """A name for each group of paths: the deepest folder that contains most of them, if no other group has the same
    folder; else its first file."""
    folders = []
    for paths in groups:
        inside = Counter(
            path[: end + 1] for path in paths for end, byte in enumerate(path) if byte == ord("/")
        )
        main = [folder for folder, count in inside.items() if count >= _MAIN * len(paths)]
        folders.append(max(main, key=lambda folder: (folder.count(b"/"), folder), default=b""))
    often = Counter(folders)
    return [
        printable_line(folder if folder and often[folder] == 1 else paths[0].rpartition(b"/")[2])
        for folder, paths in zip(folders, groups, strict=True)
    ]


def neighbors_graph(neighborhood: Neighborhood, headers: Mapping[str, CommitHeader]) -> Graph:
    """The graph of a neighborhood with edges; `headers` has the commits that the links are based on, by full id."""
    query, rows = neighborhood.paths, neighborhood.rows
    first = len(query)
    numbers = {path: number for number, path in enumerate([*query, *(row.path for row in rows)])}
    edges = [
        (numbers[edge.one], numbers[edge.other], edge)
        for edge in neighborhood.edges
        if edge.one in numbers and edge.other in numbers and edge.score > 0
    ]
    edges.sort(key=lambda entry: (-entry[2].score, *entry[:2]))
    weights = {
        (min(one, other) - first, max(one, other) - first): edge.score
        for one, other, edge in edges
        if min(one, other) >= first
    }
    scale = scale_of(rows)

    def commits(pair: Neighbor | Edge) -> tuple[CommitHeader, ...]:
        known = (headers.get(neighborhood.ids[number]) for number in pair.evidence[:_COMMITS])
        return tuple(
            CommitHeader(c.commit, *map(printable_line, (c.short, c.author, c.date[:10], c.subject)))
            for c in known
            if c
        )

    largest = sorted((group for group in clusters(len(rows), weights) if len(group) > 1), key=len)
    groups = sorted(largest[-COLOURS:])
    group_of = {member: number for number, group in enumerate(groups) for member in group}
    nodes = [Node(printable_line(path), summary="the queried file") for path in query]
    table = []
    for number, row in enumerate(rows):
        last, reasons = day(row.last), reasons_text(row.reasons[:2])
        facts = [_shared(row), together_rate(row.together, row.commits), last and f"last {last}"]
        summary = ", ".join(filter(None, [*facts, f"score {row.score:.2f}", reasons]))
        radius = 4.0 + 6.0 * scale(row.score) ** 0.5
        group = group_of.get(number, ALONE)
        nodes.append(
            Node(printable_line(row.path), radius=radius, group=group, summary=summary, commits=commits(row))
        )
        together = f"{row.together} of {row.commits}" if row.together else "–"
        regularity = together_rate(row.together, row.commits) or "–"
        table.append((first + number, (reasons, f"{row.score:.2f}", together, regularity, last or "–")))
    links = []
    used: Counter[int] = Counter()
    for one, other, edge in edges:
        between = min(one, other) >= first
        if between:
            if used[one] >= _LINKS_OF_NODE and used[other] >= _LINKS_OF_NODE:
                continue
            used.update((one, other))
        links.append(Link(one, other, scale(edge.score), _shared(edge), commits(edge), faint=between))
    title = "What changes with " + ", ".join(node.path for node in nodes[: min(first, 3)])
    if first > 3:
        title += f" and {first - 3} more"
    nodes, size = _layout(nodes, first)
    return Graph(
        title, printable_line(headline(neighborhood)), printable_line(neighborhood.note), guidance(neighborhood), nodes,
        links[::-1], group_names([[rows[member].path for member in group] for group in groups]), size,
        ("file", "score", "together", "rate", "last"), table,
    )  # fmt: skip


def _shared(pair: Neighbor | Edge) -> str:
    if not pair.together:
        return ""
    return f"{pair.together} of {pair.commits} commits ({round(100 * pair.together / max(pair.commits, 1))}%)"


def _layout(nodes: list[Node], first: int) -> tuple[list[Node], tuple[float, float]]:
    clockwise = sorted(range(first, len(nodes)), key=lambda node: (nodes[node].group % (COLOURS + 1), node))
    middle = (len(clockwise) + 1) // 2
    sides = []
    for side, members in ((1, clockwise[:middle]), (-1, clockwise[: middle - 1 : -1])):
        gaps = [_LINE + _GAP * (nodes[a].group != nodes[b].group) for a, b in pairwise(members)]
        sides.append((side, members, list(accumulate(gaps, initial=0.0))))
    half = max(56.0, first * _QUERY_LINE / 2 + 24, *(offsets[-1] / 2 for *_, offsets in sides))
    placed = list(nodes)
    for number in range(first):
        placed[number] = nodes[number]._replace(y=(number - (first - 1) / 2) * _QUERY_LINE)
    radius = max(half * 0.9, max(node.reach for node in placed[:first]) + 66, 190.0)
    for side, members, offsets in sides:
        extent = offsets[-1]
        stretch = min(2 * half / extent, _WIDEST_LINE / _LINE) if extent else 1.0
        for number, offset in zip(members, offsets, strict=False):
            y = (offset - extent / 2) * stretch
            x = side * radius * math.sqrt(1 - (y / (half * 1.14)) ** 2)
            placed[number] = nodes[number]._replace(x=round(x, 1), y=round(y, 1), side=side)
    reach = max(abs(node.x) + node.reach for node in placed)
    return placed, (round(2 * (reach + MARGIN)), round(2 * (half + 18 + MARGIN)))
