"""Groups of files that change among each other, found by greedy modularity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping


def clusters(count: int, weights: Mapping[tuple[int, int], float]) -> list[list[int]]:
    """Part the nodes 0 to `count` - 1 into groups that are denser inside than chance would make them.

    `weights` has the weight (more than 0) of each pair with an edge. Two groups are joined as long as that raises the
    modularity, the best pair first, the earlier one of equals (Clauset, Newman and Moore, "Finding community structure
    in very large networks", 2004; without their heaps, for some dozens of nodes). A group's nodes are in order, the
    groups by their first node.
    """
    total = sum(weights.values())
    groups = {node: [node] for node in range(count)}
    if not total:
        return list(groups.values())
    between: dict[int, dict[int, float]] = defaultdict(dict)
    share = dict.fromkeys(groups, 0.0)
    for (one, other), weight in sorted(weights.items()):
        between[one][other] = between[other][one] = weight / total
        share[one] += weight / (2 * total)
        share[other] += weight / (2 * total)
    while True:
        gains = [
            (weight - 2 * share[one] * share[other], -one, -other)
            for one in groups
            for other, weight in between[one].items()
            if one < other
        ]
        gain, one, other = max(gains, default=(0.0, 0, 0))
        if gain <= 1e-12:
            return [sorted(group) for _, group in sorted(groups.items())]
        _join(-one, -other, groups, between, share)


def _join(
    one: int,
    other: int,
    groups: dict[int, list[int]],
    between: dict[int, dict[int, float]],
    share: dict[int, float],
) -> None:
    groups[one] += groups.pop(other)
    share[one] += share.pop(other)
    for third, weight in between.pop(other).items():
        del between[third][other]
        if third != one:
            between[one][third] = between[third][one] = between[one].get(third, 0.0) + weight
