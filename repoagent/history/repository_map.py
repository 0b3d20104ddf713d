"""The map of a repository as a graph: clusters of files that change together, drawn as discs of dots colored by folder.

Discs are placed largest first, each touching another one without overlap, as near as possible to the clusters that
change with it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from heapq import nlargest
from itertools import combinations
from typing import TYPE_CHECKING

from repoagent.errors import UsageError
from repoagent.history import graph
from repoagent.history.graph import (
    ADVANCE,
    ALONE,
    COLOURS,
    MARGIN,
    Area,
    Graph,
    Link,
    Node,
    columns,
    printable_line,
)

if TYPE_CHECKING:
    from repoagent.git.worktree import WorkTree
    from repoagent.history.cochange import HistoryCommit

FILES, COMMITS = 2_000, 20_000
LARGEST = 30  # files of a commit that counts
HALF = 5_000  # commits after which a commit has half of its weight
PARTNERS = 6  # strongest links that each file keeps: more would be a hairball
SMALLEST = 3  # files of a cluster
RESOLUTION = 1.6
MINING_SECONDS = 2.0  # of wall time, for an index that is not whole
_CHANCE = 1.5  # added to the weight of each file's own commits: one shared commit proves little
_STEP, _PADDING, _TITLE_HEIGHT, _GAP = (
    10.5,
    9.0,
    34.0,
    10.0,
)  # pixels: between dots, in a disc, above it, between
_ASPECT = 1.35
_DIRECTIONS = 36
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))
_LINKS_OF_DISC = 2

Pairs = dict[
    tuple[int, int], tuple[float, int]
]  # how surely two files change together, 0 to 1; common commits


def repository_map(worktree: WorkTree, revision: str = "HEAD") -> Graph:
    """The map of the files that exist at `revision`, from the newest COMMITS commits. Raises UsageError if there is no
    commit, DatabaseUnusable if the index cannot be created."""
    from repoagent.history.index.index import mine_in_background, open_index
    from repoagent.history.index.schema import NoCommits

    with open_index(worktree) as index:
        try:
            commit = index.resolve(revision).decode("ascii")
        except NoCommits:
            raise UsageError("nothing to map: this repository has no commits yet") from None
        state = index.update(commit, seconds=MINING_SECONDS, head=revision == "HEAD")
        view = index.view(commit)
        history = view.latest(COMMITS)
        paths = view.paths(list({file for one in history for file in one.files}))
    note = ""
    if state.new or state.end == "mining":
        mine_in_background(worktree)
        note = f"The history index is being built; this map shows the newest {state.commits:,} commits."
    return build_map(worktree.top.name, commit, history, paths, note)


def build_map(
    name: str, commit: str, history: Sequence[HistoryCommit], paths: Mapping[int, bytes], note: str = ""
) -> Graph:
    """The map of `history`, which lists the newest commit first; `paths` are those of the existing files."""
    changed: Counter[int] = Counter(file for one in history for file in one.files if file in paths)
    largest = nlargest(FILES, changed, key=lambda file: (changed[file], [-byte for byte in paths[file]]))
    files = [paths[file] for file in largest]
    often = [changed[file] for file in largest]
    pairs = _pairs(history, {file: number for number, file in enumerate(largest)})
    near: list[list[tuple[float, int]]] = [[] for _ in files]
    for (one, other), (score, _) in pairs.items():
        near[one].append((score, -other))
        near[other].append((score, -one))
    links = sorted(
        {
            (min(file, -negative), max(file, -negative))
            for file, partners in enumerate(near)
            for _, negative in nlargest(PARTNERS, partners)
        }
    )
    groups = _groups(len(files), {pair: pairs[pair][0] for pair in links})
    cluster_of = {file: number for number, group in enumerate(groups) for file in group}
    attraction: defaultdict[tuple[int, int], float] = defaultdict(float)
    for one, other in links:
        if one in cluster_of and other in cluster_of and cluster_of[one] != cluster_of[other]:
            pair = sorted((cluster_of[one], cluster_of[other]))
            attraction[pair[0], pair[1]] += pairs[one, other][0]
    names = graph.group_names([[files[file] for file in group] for group in groups])
    areas = _discs(names, groups, attraction)
    folders, colours = colour_folders(files)
    nodes = [Node(printable_line(path), group=colours[file], side=None) for file, path in enumerate(files)]
    rows: list[tuple[int, tuple[str, ...]]] = []
    for number, area in enumerate(areas):
        most = max(often[file] for file in area.members)
        rings = sorted(area.members, key=lambda file: (colours[file] % (COLOURS + 1), -often[file], file))
        for rank, file in enumerate(rings):
            distance, angle = _STEP * math.sqrt(rank + 0.5), rank * _GOLDEN_ANGLE
            nodes[file] = nodes[file]._replace(
                x=round(area.x + distance * math.cos(angle), 1),
                y=round(area.y + distance * math.sin(angle), 1),
                radius=2.8 + 3.6 * math.sqrt(often[file] / most),
                summary=f"{often[file]} commits, in the cluster {names[number]}",
            )
        rows += [(file, ("", str(often[file]), names[number])) for file in area.members]
    for file in range(len(files)):
        if file not in cluster_of:
            nodes[file] = nodes[file]._replace(summary=f"{often[file]} commits, in no cluster")
            rows.append((file, ("", str(often[file]), "–")))
    strongest = max(attraction.values(), default=1.0)
    partners_of = [nlargest(_LINKS_OF_DISC, (p for p in attraction if n in p), key=attraction.__getitem__)
                   for n in range(len(areas))]  # fmt: skip
    wide = max((abs(area.x) + area.radius + _half_title(area.name) for area in areas), default=0.0)
    high = max((abs(area.y) + area.radius + _TITLE_HEIGHT for area in areas), default=0.0)
    return Graph(
        f"What changes together in {printable_line(name)}",
        f"{len(files):,} of {len(paths):,} files, {len(groups)} clusters, "
        f"from the newest {len(history):,} commits of {commit[:10]}",
        note,
        "Files that changed in the same commits; small and recent commits count more. "
        "A place to look, not something that must change.",
        nodes,
        [Link(*pair, pairs[pair][0], f"{pairs[pair][1]} commits", drawn=False) for pair in links],
        [printable_line(folder) for folder in folders],
        (2 * (wide + MARGIN), 2 * (high + MARGIN)),
        ("file", "commits", "cluster"),
        rows,
        areas,
        [(*pair, attraction[pair] / strongest) for pair in sorted({p for each in partners_of for p in each})],
    )


def _pairs(history: Sequence[HistoryCommit], number_of: Mapping[int, int]) -> Pairs:
    weights: defaultdict[tuple[int, int], float] = defaultdict(float)
    counts: Counter[tuple[int, int]] = Counter()
    own: defaultdict[int, float] = defaultdict(float)
    for age, commit in enumerate(history):
        if commit.size > LARGEST:
            continue
        files = sorted(number_of[file] for file in {*commit.files} if file in number_of)
        fresh = 1 / (1 + age / HALF)
        for file in files:
            own[file] += fresh
        for pair in combinations(files, 2):
            weights[pair] += fresh / max(1, commit.size - 1) ** 0.5
            counts[pair] += 1
    least = 2 if len(history) > 50 else 1
    return {
        (one, other): (weight / ((own[one] + _CHANCE) * (own[other] + _CHANCE)) ** 0.5, counts[one, other])
        for (one, other), weight in weights.items()
        if counts[one, other] >= least
    }


def _groups(count: int, links: Mapping[tuple[int, int], float]) -> list[list[int]]:
    """The clusters, largest first. One smaller than SMALLEST joins the cluster with the strongest links to it."""
    groups = graph.clusters(count, links, RESOLUTION)
    label = {file: number for number, group in enumerate(groups) for file in group}
    pull: defaultdict[tuple[int, int], float] = defaultdict(float)
    for (one, other), score in links.items():
        pull[label[one], label[other]] += score
        pull[label[other], label[one]] += score
    joined = {number: list(group) for number, group in enumerate(groups) if len(group) >= SMALLEST}
    for number, group in enumerate(groups):
        if len(group) < SMALLEST:
            near = [(pull[number, other], -other) for other in joined if (number, other) in pull]
            if near:
                joined[-max(near)[1]] += group
    return sorted((sorted(group) for group in joined.values()), key=lambda group: (-len(group), group))


def colour_folders(files: Sequence[bytes]) -> tuple[list[bytes], list[int]]:
    """The folders that have a color of their own on the map, those with the most files first, and for each file the
    index of its folder in this list (or ALONE). A top-level folder that contains more than half of all files is
    replaced by its subfolders."""
    parts = [path.split(b"/")[:-1] for path in files]
    tops = Counter(folders[0] for folders in parts if folders)
    deep = {folder for folder, count in tops.items() if count > 0.5 * len(files)}
    within = [b"/".join([*f[: 2 if f[0] in deep else 1], b""]) if f else b"./" for f in parts]
    every = Counter(within)
    largest = nlargest(COLOURS, every, key=lambda folder: (every[folder], folder))
    number = {folder: index for index, folder in enumerate(largest)}
    return largest, [number.get(folder, ALONE) for folder in within]


def _half_title(name: str) -> float:
    return columns(graph.shorten_middle(name, 22)) * graph.TITLE_SIZE * ADVANCE / 2


def _discs(
    names: Sequence[str], groups: Sequence[Sequence[int]], attraction: Mapping[tuple[int, int], float]
) -> list[Area]:
    """A disc for each cluster, around the centre of the picture. A disc keeps free a circle that includes its title."""
    discs: list[Area] = []
    reaches: list[float] = []
    for number, (name, group) in enumerate(zip(names, groups, strict=True)):
        radius = _STEP * math.sqrt(len(group)) + _PADDING
        reach = max(radius + _TITLE_HEIGHT / 2, math.hypot(_half_title(name), radius)) + _GAP / 2
        near = [(disc, attraction.get((other, number), 0.0)) for other, disc in enumerate(discs)]
        total = sum(weight for _, weight in near) or 1.0
        spots: list[tuple[float, float, float]] = []  # cost, x and y
        for disc, r in zip(discs, reaches, strict=True):
            for turn in range(_DIRECTIONS):
                angle = 2 * math.pi * turn / _DIRECTIONS
                x, y = disc.x + (r + reach) * math.cos(angle), disc.y + (r + reach) * math.sin(angle)
                distance = sum(w * math.hypot(x - other.x, y - other.y) for other, w in near if w) / total
                spots.append((0.5 * distance + math.hypot(x / _ASPECT, y), x, y))
        x, y = 0.0, 0.0
        for _, x, y in sorted(spots):
            apart = (math.hypot(x - d.x, y - d.y) - r for d, r in zip(discs, reaches, strict=True))
            if all(distance >= reach - 0.01 for distance in apart):
                break
        discs.append(Area(name, x, y, radius, group))
        reaches.append(reach)
    if not discs:
        return []
    x = (min(disc.x - r for disc, r in zip(discs, reaches, strict=True))
         + max(disc.x + r for disc, r in zip(discs, reaches, strict=True))) / 2  # fmt: skip
    y = (min(disc.y - r for disc, r in zip(discs, reaches, strict=True))
         + max(disc.y + r for disc, r in zip(discs, reaches, strict=True))) / 2  # fmt: skip
    return [
        disc._replace(x=round(disc.x - x, 1), y=round(disc.y - y + _TITLE_HEIGHT / 2, 1)) for disc in discs
    ]
