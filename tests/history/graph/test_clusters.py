"""Groups in a graph."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from repoagent.history.graph import clusters


def test_without_edges_each_is_alone() -> None:
    assert clusters(3, {}) == [[0], [1], [2]]
    assert clusters(0, {}) == []


def test_two_knots_with_a_thread_between_are_two_groups() -> None:
    knots = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]
    weights = dict.fromkeys(knots, 1.0) | {(2, 3): 0.1}
    assert clusters(7, weights) == [[0, 1, 2], [3, 4, 5], [6]]


def test_an_even_graph_is_one_group() -> None:
    assert clusters(4, {(a, b): 1.0 for a in range(4) for b in range(a + 1, 4)}) == [[0, 1, 2, 3]]


pairs = st.tuples(st.integers(0, 11), st.integers(0, 11)).filter(lambda pair: pair[0] < pair[1])


@given(st.dictionaries(pairs, st.floats(0.01, 1.0), max_size=40))
def test_each_node_is_in_one_group_whatever_the_order(weights: dict[tuple[int, int], float]) -> None:
    groups = clusters(12, weights)
    assert sorted(node for group in groups for node in group) == list(range(12))
    assert groups == sorted(groups) == clusters(12, dict(reversed(weights.items())))
    linked = {node for pair in weights for node in pair}
    assert all(len(group) == 1 for group in groups if not set(group) & linked)
