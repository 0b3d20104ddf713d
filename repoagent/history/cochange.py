"""Score which files change together with the queried files.

The score of a file is 1 - exp(-x), where x sums the evidence: its share of the commits of the queried files (newer and
smaller commits weigh more), how often it changes with their partners, whether it changed in the latest commits, and
which rare words its path shares with theirs (`src/core/parser.c`, `tests/test_parser.py`). The weights were chosen by
replaying the history of public repositories (docs/benchmarks.md).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nlargest, nsmallest
from math import exp, sqrt
from typing import NamedTuple, Protocol

COMMITS = 300  # of the queried files
SMALLEST = 2  # files of a commit that counts as evidence
MOST_FILES = 100  # a larger commit is an import or a reformatting; the index does not store its files
HALF = 3  # commits after which a commit has half of its weight
PARTNERS, PARTNER_COMMITS, PARTNER_HALF = 12, 20, 25
NEAR, NEAR_COMMITS = 5, 10  # the same for current work, counted in commits of all files
LATEST, LATEST_HALF = 20, 5
OWN = 3.0  # factor for commits of the author at work
FOLDER, SIBLINGS, SIBLING_COMMITS, SIBLING_HALF = 50, 8, 20, 10
YOUNG = 20  # with fewer commits, files that change with siblings in the folder count too
EVIDENCE = 20
COMPARED = 50  # best candidates, whose names are compared
APART = 10  # queried files that are evaluated separately; more, as in a folder, count as one file
QUERY_NAMES = 10  # queried files whose names count

THROUGH, CURRENT, RECENT = 0.25, 0.2, 0.03
STEM, WORDS, SIBLING, SAME_FOLDER = 0.1, 0.25, 0.03, 0.05
SURE = 2.0  # extra weight of a shared word for a file that is in all commits of the queried ones

Evidence = tuple[str, float, dict[int, float]]  # a reason, its weight, and its value for each file


class HistoryCommit(NamedTuple):
    """One commit, not a merge, with the files that it changed."""

    number: int  # position in the index; a larger number is a newer commit
    time: int  # committer date, seconds since 1970
    author: int  # an id of the author in the index
    size: int  # files that it changed
    files: Sequence[int]  # their ids; empty if size > MOST_FILES


class HistoryView(Protocol):
    """The history that one revision reaches. A file keeps its id through all renames."""

    def file(self, path: bytes) -> int | None:
        """The id of the file that has this path at the revision, or had it last; None if there is none."""
        ...

    def commits(self, file: int, limit: int) -> list[HistoryCommit]:
        """The commits that changed the file, newest first, without merges."""
        ...

    def many(self, files: Sequence[int], limit: int) -> dict[int, list[HistoryCommit]]:
        """`commits` of several files at once; `limit` applies to each."""
        ...

    def latest(self, limit: int) -> list[HistoryCommit]:
        """The newest commits that the revision reaches, at most `limit`, newest first."""
        ...

    def namesakes(self, stem: bytes) -> list[int]:
        """Files that have or had a path with this `stem`, most recently changed first; at most 50."""
        ...

    def folder(self, directory: bytes, limit: int) -> list[int]:
        """Files directly in this directory (b"" is the top), most recently changed first; at most `limit`."""
        ...

    def paths(self, files: Sequence[int]) -> dict[int, bytes]:
        """The current paths of those files that exist at the revision; the others are left out."""
        ...

    def ids(self, numbers: Iterable[int]) -> dict[int, str]: ...


class Neighbor(NamedTuple):
    """A file that changed, or is likely to change, with the queried ones.

    It changed in `together` of the last `commits` commits of the queried files. `score` is between 0 and 1. `last` is
    the date of the newest common commit, in seconds since 1970; `evidence` has the numbers of the common commits,
    newest first, at most 20. `reasons`, the strongest first, can be "together", "through" (it changed with files that
    changed with the queried ones), "name", "folder", and finally "recent" (it changed in one of the newest commits).
    """

    file: int
    path: bytes
    score: float
    together: int
    commits: int
    last: int | None
    evidence: tuple[int, ...]
    reasons: tuple[str, ...]


def rank_neighbors(
    view: HistoryView,
    files: Sequence[int],
    paths: Sequence[bytes],
    *,
    limit: int = 20,
    min_score: float = 0.0,
) -> list[Neighbor]:
    """At most `limit` neighbors of the queried `files`, best first; ties are ordered by path.

    Only existing files are returned, and none of `paths`, the queried paths. A queried file without history counts by
    its name and folder. The evidence of several files is averaged. The author of the newest commit is taken for the
    current user.
    """
    query = frozenset(files)
    histories = view.many(list(dict.fromkeys(files)), COMMITS) if files else {}
    by_number = {commit.number: commit for history in histories.values() for commit in history}
    every = [by_number[number] for number in sorted(by_number, reverse=True)[:COMMITS]]
    latest = view.latest(LATEST)
    newest, worker = (latest[0].number, latest[0].author) if latest else (0, None)
    alive = Alive(view)
    evidence: list[Evidence] = []
    shares: list[dict[int, float]] = []
    groups = [every] if len(histories) > APART else list(histories.values())
    for history in groups:
        share, current = direct(history, query, newest)
        best = nsmallest(PARTNERS, alive.best(share, PARTNERS), key=lambda file: (-share[file], file))
        partners = view.many(best, PARTNER_COMMITS) if best else {}
        starts = [(share[file], file, commits) for file, commits in partners.items()]
        part = 1 / len(groups)
        shares.append(share)
        evidence.append(("together", part, share))
        evidence.append(("together", CURRENT * part, current))
        evidence.append(("through", THROUGH * part, walk(starts, PARTNER_HALF, query)))
    names = paths[:QUERY_NAMES]
    for path in names:
        same = list(alive.of([file for file in view.namesakes(name_stem(path)) if file not in query]))
        siblings = [file for file in view.folder(path.rpartition(b"/")[0], FOLDER) if file not in query]
        ranks = {file: 1 / (1 + rank) for rank, file in enumerate(siblings)}
        part = 1 / len(names)
        evidence.append(("name", STEM * part, {file: 1 / len(same) for file in same}))
        evidence.append(("folder", SIBLING * part, ranks))
        if len(every) < YOUNG:
            near = view.many(siblings[:SIBLINGS], SIBLING_COMMITS) if siblings else {}
            starts = [(1 / len(near), file, commits) for file, commits in near.items()]
            evidence.append(("folder", SAME_FOLDER * part, walk(starts, SIBLING_HALF, query)))
    scores: dict[int, float] = {}
    for _, weight, values in evidence:
        _add(scores, weight, values)
    recent = recency(latest, query, worker)
    if scores:  # being recent alone is weak evidence, but better than no answer
        recent = {file: value for file, value in recent.items() if file in scores}
    evidence.append(("recent", RECENT, recent))
    _add(scores, RECENT, recent)
    present = alive.best(scores, max(limit, COMPARED), frozenset(paths))
    scores = {file: scores[file] for file in present}
    compared = {file: present[file] for file in _best(scores, present, COMPARED)}
    for path in names:
        like = {}
        for file, value in alike(path, compared).items():
            mean = sum(share.get(file, 0.0) for share in shares) / len(shares) if shares else 0.0
            like[file] = value * (1 + SURE * mean)
        evidence.append(("name", WORDS / len(names), like))
        _add(scores, WORDS / len(names), like)
    bounded = {
        file: 1 - exp(-scores[file]) for file in _best(scores, present, limit)
    }  # 0 to 1, in the same order
    joint: dict[int, list[HistoryCommit]] = {
        file: [] for file, score in bounded.items() if score >= min_score
    }
    for commit in every:
        for file in joint.keys() & commit.files:
            joint[file].append(commit)
    result = []
    for file, together in joint.items():
        parts: dict[str, float] = {}
        for reason, weight, values in evidence:
            if file in values:
                parts[reason] = parts.get(reason, 0.0) + weight * values[file]
        reasons = sorted(parts, key=lambda reason: (reason == "recent", -parts[reason], reason))
        last = together[0].time if together else None
        numbers = tuple(commit.number for commit in together[:EVIDENCE])
        counts = len(together), len(every)
        result.append(Neighbor(file, present[file], bounded[file], *counts, last, numbers, tuple(reasons)))
    return result


def _add(total: dict[int, float], weight: float, values: Mapping[int, float]) -> None:
    if not total:  # the first is the largest
        total.update({file: weight * value for file, value in values.items()})
        return
    get = total.get
    for file, value in values.items():
        total[file] = get(file, 0.0) + weight * value


def _best(scores: Mapping[int, float], paths: Mapping[int, bytes], limit: int) -> list[int]:
    """The files with the highest scores, ties by path."""
    if len(scores) > limit > 0:  # sorting by path is slow: only files that can be in the result
        least = nlargest(limit, scores.values())[-1]
        scores = {file: score for file, score in scores.items() if score >= least}
    return sorted(scores, key=lambda file: (-scores[file], paths[file]))[:limit]


def direct(
    history: Sequence[HistoryCommit], query: frozenset[int], newest: int
) -> tuple[dict[int, float], dict[int, float]]:
    """For each other file, its share of the commits in `history` (0 to 1), and a weight for how recently it changed.

    `history` has the commits of the queried files, newest first; `newest` is the number of the newest commit. The
    further back a commit is in `history`, the less it weighs; its weight is divided among its other files. In the
    shares, a commit that touches several queried files counts once for each.
    """
    share: defaultdict[int, float] = defaultdict(float)
    current: defaultdict[int, float] = defaultdict(float)
    total, age = 0.0, 0
    for commit in history:
        overlap = len(query.intersection(commit.files)) if len(query) > 1 else 1
        others = commit.size - overlap
        if commit.size > MOST_FILES or others < 1:
            continue
        weight = overlap / ((1 + age / HALF) * others)
        total += weight
        for file in commit.files:
            share[file] += weight
        if age < NEAR_COMMITS:
            weight = 1 / ((1 + (newest - commit.number) / NEAR) * sqrt(others))
            for file in commit.files:
                current[file] += weight
        age += 1
    for file in query:
        share.pop(file, None)
        current.pop(file, None)
    return {file: weight / total for file, weight in share.items()}, dict(current)


def walk(
    starts: Iterable[tuple[float, int, Sequence[HistoryCommit]]], half: float, query: frozenset[int]
) -> dict[int, float]:
    """The probability of each file outside `query` after one step of a random walk along commits. Each of `starts` has
    a probability, a file and its commits."""
    reached: defaultdict[int, float] = defaultdict(float)
    for start, origin, history in starts:
        weights = [
            (1 / ((1 + age / half) * sqrt(commit.size - 1)), commit.files)
            for age, commit in enumerate(c for c in history if SMALLEST <= c.size <= MOST_FILES)
        ]
        total = sum(weight for weight, _ in weights)
        for weight, files in weights:
            step = start * weight / total
            for file in files:
                if file != origin:
                    reached[file] += step
    for file in query:
        reached.pop(file, None)
    return dict(reached)


def recency(latest: Sequence[HistoryCommit], query: frozenset[int], author: int | None) -> dict[int, float]:
    """How much each file changed in the newest commits, to which the next change is often related; commits by `author`
    weigh more."""
    values: defaultdict[int, float] = defaultdict(float)
    for age, commit in enumerate(latest[:LATEST]):
        if commit.size <= MOST_FILES:
            factor = OWN if commit.author == author else 1.0
            weight = factor / ((1 + age / LATEST_HALF) * sqrt(max(commit.size, 1)))
            for file in commit.files:
                values[file] += weight
    for file in query:
        values.pop(file, None)
    return dict(values)


# Files that are known by the name of their folder.
_INDEX = frozenset((b"__init__", b"__main__", b"index", b"mod", b"lib", b"main", b"package-info", b"readme"))
_MARKERS = (
    re.compile(rb"^Test(?=[A-Z])"),
    re.compile(rb"^(?:tests?|specs?|t\d{2,})[._-]"),
    re.compile(rb"(?:[._-](?:tests?|specs?)|\.(?:d|min|stories|module|inl|in|bench|e2e|snap))$"),
    re.compile(rb"(?<=[a-z0-9])(?:Tests?|TestCase|Specs?|IT)$"),
)
_WORD = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def name_stem(path: bytes) -> bytes:
    """The name that a file shares with its test, header or page, in lower case without separators.

    Drops the extension and the markers of tests and generated companions (`test_`, `.spec`, `.d`, `t1234-`).
    `__init__.py`, `mod.rs`, `index.ts` and the like take the name of their folder. The name is empty only for an empty
    path.
    """
    folder, _, name = path.rpartition(b"/")
    base = _without_markers(name)
    if base in _INDEX and folder:
        return _without_markers(folder.rpartition(b"/")[2] + b".") or base
    return base


def _without_markers(name: bytes) -> bytes:
    head, dot, _ = name.rpartition(b".")
    base = head if dot and head else name.lstrip(b".")
    while True:
        cut = base
        for marker in _MARKERS:
            cut = marker.sub(b"", cut)
        if cut == base or not cut:
            break
        base = cut
    lowered = base.lower()
    if lowered in _INDEX:
        return lowered
    return lowered.translate(None, b"._- ") or lowered or name


def words(path: bytes) -> frozenset[bytes]:
    """The words of a path and its folders without the extension, in lower case; `camelCase` counts as two."""
    head, dot, last = path.rpartition(b".")
    return frozenset(word.lower() for word in _WORD.findall(head if dot and b"/" not in last else path))


def alike(path: bytes, candidates: Mapping[int, bytes]) -> dict[int, float]:
    """For each candidate that shares a word with `path`: 1/n, where n candidates share the rarest of these words."""
    query = words(path)
    shared = {file: query & words(candidate) for file, candidate in candidates.items()}
    counts = Counter(word for own in shared.values() for word in own)
    return {file: 1 / min(counts[word] for word in own) for file, own in shared.items() if own}


_AT_LEAST = 64  # files of one query to a view


class Alive:
    """The paths of the files that exist in a view; each file is looked up once."""

    def __init__(self, view: HistoryView) -> None:
        self._view = view
        self._paths: dict[int, bytes | None] = {}

    def of(self, files: Iterable[int]) -> dict[int, bytes]:
        """The paths of the `files` that exist, in the given order."""
        files = list(files)
        unknown = [file for file in files if file not in self._paths]
        if unknown:
            self._paths.update(dict.fromkeys(unknown))
            self._paths.update(self._view.paths(unknown))
        paths = self._paths
        return {file: path for file in files if (path := paths[file]) is not None}

    def best(
        self, scores: Mapping[int, float], count: int, excluded: Collection[bytes] = frozenset()
    ) -> dict[int, bytes]:
        """The paths of the `count` best files that exist and are not `excluded`, and of all files as good as the last
        of these; best first, ties by number."""
        order = sorted(scores)
        order.sort(key=scores.__getitem__, reverse=True)
        paths: dict[int, bytes] = {}
        least = float("-inf")
        start, step = 0, max(count + count // 2, _AT_LEAST)
        while start < len(order) and scores[order[start]] >= least:
            alive = self.of(order[start : start + step])
            paths.update({file: path for file, path in alive.items() if path not in excluded})
            if len(paths) >= count:
                least = scores[list(paths)[count - 1]]
            start, step = start + step, step * 2
        return paths
