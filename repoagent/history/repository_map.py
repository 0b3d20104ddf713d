"""The files of a whole repository that change together: clusters of them, and the bridges between clusters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from heapq import nlargest
from itertools import combinations
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.history.graph import clusters

if TYPE_CHECKING:
    from repoagent.git.worktree import WorkTree
    from repoagent.history.cochange.score import Commit

FILES, COMMITS = 2_000, 20_000
LARGEST = 30  # files of a commit that counts
HALF = 5_000  # commits after which a commit has half of its weight
PARTNERS = 6  # strongest links that each file keeps: more would be a hairball
SMALLEST = 3  # files of a cluster
RESOLUTION = 1.6
BRIDGES = 14
MINING_SECONDS = 2.0  # of wall time, for an index that is not whole
_CHANCE = 1.5  # added to the weight of each file's own commits: one shared commit proves little
_MAIN = 0.6  # of a cluster's files are in the folder that it is named after


@dataclass(frozen=True)
class MappedFile:
    """A file: its path, how many of the commits changed it, and its cluster (None: it changes with no other)."""

    path: bytes
    commits: int
    cluster: int | None


@dataclass(frozen=True)
class Cluster:
    """Files, the most changed first; `name` is their folder (with a slash) or the most changed of them."""

    name: bytes
    files: tuple[int, ...]


@dataclass(frozen=True)
class Bridge:
    """A file that also changes with another cluster: `partners` are files of that, with `together` common commits."""

    file: int
    cluster: int
    partners: tuple[int, ...]
    together: int


@dataclass(frozen=True)
class RepositoryMap:
    """Files, the most changed first; `links` has the score (0 to 1) and the number of common commits by pair of file
    indexes. `looked_at` commits were read; `note` is a note for the user ("" for none)."""

    name: str
    commit: str
    files: tuple[MappedFile, ...]
    clusters: tuple[Cluster, ...]
    bridges: tuple[Bridge, ...]
    links: Mapping[tuple[int, int], tuple[float, int]]
    looked_at: int
    alive: int
    note: str = ""


def repository_map(worktree: WorkTree, revision: str = "HEAD") -> RepositoryMap:
    """The map of the files that exist at `revision`, from the newest COMMITS commits. Raises UsageError if there is no
    commit, NoIndex if the index cannot be created."""
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
        note = f"the index of the history is being built; {state.commits:,} commits so far"
    return build_map(worktree.top.name, commit, history, paths, note)


def build_map(
    name: str, commit: str, history: Sequence[Commit], paths: Mapping[int, bytes], note: str = ""
) -> RepositoryMap:
    """The map of a history, newest commit first; `paths` are those of the existing files."""
    changed: Counter[int] = Counter(file for one in history for file in one.files if file in paths)
    shown = nlargest(FILES, changed, key=lambda file: (changed[file], [-byte for byte in paths[file]]))
    place = {file: number for number, file in enumerate(shown)}
    pairs = _pairs(history, place)
    links = _strongest(pairs, len(shown))
    groups = _groups(len(shown), links)
    cluster_of = {file: number for number, group in enumerate(groups) for file in group}
    files = tuple(
        MappedFile(paths[file], changed[file], cluster_of.get(number)) for number, file in enumerate(shown)
    )
    return RepositoryMap(
        name,
        commit,
        files,
        tuple(
            Cluster(title, tuple(group)) for title, group in zip(_names(groups, files), groups, strict=True)
        ),
        tuple(_bridges(pairs, cluster_of)[: min(BRIDGES, len(groups))]),
        {pair: (round(score, 3), pairs[pair][1]) for pair, score in links.items()},
        len(history),
        len(paths),
        note,
    )


def _pairs(history: Sequence[Commit], place: Mapping[int, int]) -> dict[tuple[int, int], tuple[float, int]]:
    """For each pair of files, how surely they change together, 0 to 1, and in how many commits they did. Old and large
    commits count less."""
    weights: defaultdict[tuple[int, int], float] = defaultdict(float)
    counts: Counter[tuple[int, int]] = Counter()
    own: defaultdict[int, float] = defaultdict(float)
    for age, commit in enumerate(history):
        if commit.size > LARGEST:
            continue
        files = sorted(place[file] for file in {*commit.files} if file in place)
        fresh = 1 / (1 + age / HALF)
        for file in files:
            own[file] += fresh
        weight = fresh / max(1, commit.size - 1) ** 0.5
        for pair in combinations(files, 2):
            weights[pair] += weight
            counts[pair] += 1
    least = 2 if len(history) > 50 else 1
    return {
        (one, other): (weight / ((own[one] + _CHANCE) * (own[other] + _CHANCE)) ** 0.5, counts[one, other])
        for (one, other), weight in weights.items()
        if counts[one, other] >= least
    }


def _strongest(
    pairs: Mapping[tuple[int, int], tuple[float, int]], count: int
) -> dict[tuple[int, int], float]:
    """The links that are among the PARTNERS strongest of one of their files."""
    near: list[list[tuple[float, int]]] = [[] for _ in range(count)]
    for (one, other), (score, _) in pairs.items():
        near[one].append((score, -other))
        near[other].append((score, -one))
    links = {}
    for file, all_of_them in enumerate(near):
        for score, negative in nlargest(PARTNERS, all_of_them):
            links[min(file, -negative), max(file, -negative)] = score
    return dict(sorted(links.items()))


def _groups(count: int, links: Mapping[tuple[int, int], float]) -> list[list[int]]:
    """The clusters, largest first. One smaller than SMALLEST joins the cluster with the strongest links to it."""
    groups = clusters(count, links, RESOLUTION)
    label = {file: number for number, group in enumerate(groups) for file in group}
    pull: defaultdict[tuple[int, int], float] = defaultdict(float)
    for (one, other), score in links.items():
        pull[label[one], label[other]] += score
        pull[label[other], label[one]] += score
    large = {number for number, group in enumerate(groups) if len(group) >= SMALLEST}
    joined = {number: list(groups[number]) for number in sorted(large)}
    for number, group in enumerate(groups):
        if number not in large:
            near = [(pull[number, other], -other) for other in large if (number, other) in pull]
            if near:
                joined[-max(near)[1]] += group
    return sorted((sorted(group) for group in joined.values()), key=lambda group: (-len(group), group))


def _names(groups: Sequence[Sequence[int]], files: Sequence[MappedFile]) -> list[bytes]:
    """For each group the deepest folder with most of its files, unless another group has the same; else the file that
    changed most."""
    folders = [_folder([files[file].path for file in group]) for group in groups]
    often = Counter(folders)
    return [
        folder if folder and often[folder] == 1 else files[group[0]].path.rpartition(b"/")[2]
        for folder, group in zip(folders, groups, strict=True)
    ]


def _folder(paths: Sequence[bytes]) -> bytes:
    holding: Counter[bytes] = Counter()
    for path in paths:
        parts = path.split(b"/")[:-1]
        holding.update(b"/".join(parts[: depth + 1]) + b"/" for depth in range(len(parts)))
    main = [folder for folder, count in holding.items() if count >= _MAIN * len(paths)]
    return max(main, key=lambda folder: (folder.count(b"/"), folder), default=b"")


def _bridges(
    pairs: Mapping[tuple[int, int], tuple[float, int]], cluster_of: Mapping[int, int]
) -> list[Bridge]:
    """The files that change most surely with several files of another cluster, the strongest first, at most two
    between the same clusters."""
    toward: defaultdict[tuple[int, int], list[tuple[float, int, int]]] = defaultdict(list)
    for (one, other), (score, together) in pairs.items():
        if one in cluster_of and other in cluster_of:
            toward[one, cluster_of[other]].append((score, together, other))
            toward[other, cluster_of[one]].append((score, together, one))
    inside = {file: sum(s for s, _, _ in toward.get((file, own), ())) for file, own in cluster_of.items()}
    found = []
    for (file, cluster), near in toward.items():
        strength = sum(score for score, _, _ in nlargest(4, near))
        if cluster != cluster_of[file] and len(near) > 1 and strength > inside[file] / 8:
            found.append((strength, -file, cluster, sorted(near, key=lambda one: (-one[0], one[2]))))
    bridges: list[Bridge] = []
    used: Counter[tuple[int, int]] = Counter()
    spanned: set[int] = set()
    for _, negative, cluster, near in sorted(found, reverse=True):
        file = -negative
        between = min(cluster, cluster_of[file]), max(cluster, cluster_of[file])
        if used[between] < 2 and file not in spanned:
            used[between] += 1
            spanned.add(file)
            partners = tuple(other for _, _, other in near[:4])
            bridges.append(Bridge(file, cluster, partners, sum(count for _, count, _ in near[:4])))
    return bridges


def colour_folders(files: Sequence[MappedFile], most: int) -> tuple[list[bytes], list[int]]:
    """The folders that colour the map, at most `most`, those with the most files first, and the number of the folder of
    each file (-1: in none of them). A folder at the top that holds half of all files gives way to those in it."""
    tops = Counter(file.path.split(b"/")[0] for file in files if b"/" in file.path)
    deep = {folder for folder, count in tops.items() if count > 0.5 * len(files)}
    folders = [_within(file.path, 1) for file in files]
    folders = [
        _within(file.path, 2) if folder[:-1] in deep else folder
        for file, folder in zip(files, folders, strict=True)
    ]
    every = Counter(folders)
    shown = nlargest(most, every, key=lambda folder: (every[folder], folder))
    number = {folder: place for place, folder in enumerate(shown)}
    return shown, [number.get(folder, -1) for folder in folders]


def _within(path: bytes, depth: int) -> bytes:
    """The first `depth` folders of a path, with a slash; "./" at the top."""
    parts = path.split(b"/")[:-1][:depth]
    return b"/".join(parts) + b"/" if parts else b"./"
