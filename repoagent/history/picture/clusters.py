"""Groups of files that change among each other: the Louvain method.

Blondel, Guillaume, Lambiotte and Lefebvre, "Fast unfolding of communities in large networks" (2008). Nodes are visited
in their order and ties go to the first group, so that the same graph has the same groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

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
