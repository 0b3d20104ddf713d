"""Places: none over another, always the same."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from repoagent.history.graph import FOLDER_SIZE, NAME_SIZE, Position, label_width, layout
from tests.history.graph.samples import HOSTILE, graph, many

LONG = [b"a/very/long/path/of/folders/that/never/ends/" + b"x" * 60 + str(n).encode() for n in range(12)]
WIDE = [("文" * 30 + f"/{n}文件.md").encode() for n in range(9)]


def box(one: Position) -> tuple[float, float, float, float]:
    """Left, top, right, bottom of the node with its label."""
    if not one.side:
        return one.x - one.width / 2, one.y - 15, one.x + one.width / 2, one.y + 15
    near, far = one.x - one.side * 10, one.x + one.side * (15 + label_width(one))
    top = one.y - max(NAME_SIZE, 10.0)
    return min(near, far), top, max(near, far), one.y + (13 + FOLDER_SIZE * 0.3 if one.folder else 10.0)


@pytest.mark.parametrize("asked", [1, 2, 6])
@pytest.mark.parametrize(
    "paths", [many(n) for n in (0, 1, 2, 3, 5, 20, 30, 60)] + [LONG, WIDE, list(HOSTILE)], ids=len
)
def test_no_label_lies_on_another_one_and_all_are_in_the_picture(paths: list[bytes], asked: int) -> None:
    found = layout(graph(paths, asked=[b"src/asked%d.py" % n for n in range(asked)]))
    boxes = [box(one) for one in found.positions]
    for one, other in combinations(boxes, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)
    for left, top, right, bottom in boxes:
        assert -found.width / 2 <= left and right <= found.width / 2
        assert -found.height / 2 <= top and bottom <= found.height / 2


def test_the_same_files_stand_in_the_same_places() -> None:
    assert layout(graph(many(25))) == layout(graph(many(25)))


def test_a_group_stands_together() -> None:
    drawn = graph(many(24))
    order = [number for number, node in enumerate(drawn.nodes) if node.row is not None]
    spots = layout(drawn).positions

    def around(number: int) -> tuple[int, float]:  # clockwise from the top
        return -spots[number].side, spots[number].side * spots[number].y

    groups = [drawn.nodes[number].group for number in sorted(order, key=around)]
    changes = sum(one != other for one, other in pairwise(groups))
    assert len(drawn.groups) > 1
    assert changes == len(set(groups)) - 1
