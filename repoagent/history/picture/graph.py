"""A neighborhood as nodes, links and groups: what every form of the picture shows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from repoagent.dataclass import dataclass
from repoagent.history.evidence import Told
from repoagent.history.neighbors import Edge, Neighborhood
from repoagent.history.picture.clusters import clusters
from repoagent.history.picture.words import day, percent, shown
from repoagent.history.wording import guidance, headline, rate, scale_of, why

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
    told: tuple[Told, ...] = ()

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
    told: tuple[Told, ...] = ()


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


def build(found: Neighborhood, told: Mapping[str, Told]) -> Graph:
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


def _told(numbers: Sequence[int], found: Neighborhood, told: Mapping[str, Told]) -> tuple[Told, ...]:
    known = (told.get(found.ids[number]) for number in numbers[:COMMITS_SHOWN])
    return tuple(
        Told(one.commit, shown(one.short), shown(one.author), shown(one.date[:10]), shown(one.subject))
        for one in known
        if one is not None
    )
