"""Where everything stands: the asked files in the middle, their neighbors on an ellipse around them, group by group.

Each neighbor has a line of its own on its side of the ellipse and its label points outward, so no label lies on another
one however many there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from repoagent.dataclass import dataclass
from repoagent.history.picture.graph import Graph
from repoagent.history.picture.words import columns, shorten

NAME_SIZE, FOLDER_SIZE = 13.0, 11.0  # pixels
NAME_COLUMNS, FOLDER_COLUMNS, ASKED_COLUMNS = 26, 30, 34
ADVANCE = 0.61  # of the size, what a character of a fixed-width font takes at most
ASKED_HEIGHT = 34.0
_LINE, _GAP, _WIDEST_LINE = 34.0, 16.0, 60.0
_MARGIN, _LEAST_HALF = 24.0, 56.0
_HEAD_ROOM = 18.0
_NODE_ROOM = 16.0


@dataclass(frozen=True)
class Place:
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

    places: tuple[Place, ...]
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
    places: dict[int, Place] = {
        number: Place(0.0, (number - (len(asked) - 1) / 2) * ASKED_HEIGHT, 0, name, width=box)
        for number, (name, box) in enumerate(zip(asked, boxes, strict=True))
    }
    for side, nodes in ((1, right), (-1, left)):
        for number, y in zip(nodes, _heights(graph, nodes, half), strict=True):
            x = side * wide * math.sqrt(1 - (y / (half * 1.14)) ** 2)
            node = graph.nodes[number]
            name, folder = shorten(node.name, NAME_COLUMNS), shorten(node.folder, FOLDER_COLUMNS)
            places[number] = Place(round(x, 1), round(y, 1), side, name, folder)
    reach = max(
        abs(one.x) + _NODE_ROOM + label_width(one) if one.side else one.width / 2 for one in places.values()
    )
    ordered = tuple(places[number] for number in range(len(graph.nodes)))
    return Layout(ordered, round(2 * (reach + _MARGIN)), round(2 * (half + _HEAD_ROOM + _MARGIN)))


def label_width(one: Place) -> float:
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
