"""Which files change together with given files, the surest first.

The score of a file is 1 - exp(-x), where x sums the evidence: its share of the commits of the queried files (newer and
smaller commits weigh more), how often it changes with their partners, whether it was part of the work of the last
commits, and how much of its name it shares with them, where that is rare (`src/core/parser.c`, `tests/test_parser.py`).
The weights were chosen by replaying the history of public repositories (docs/benchmarks.md).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nlargest, nsmallest
from math import exp, sqrt
from typing import NamedTuple, Protocol

SMALLEST, LARGEST = 2, 100  # files of a commit that says something about what belongs together
HALF = 3  # after so many commits a commit weighs half
PARTNERS, PARTNER_COMMITS, PARTNER_HALF = 12, 20, 25
NEAR, NEAR_COMMITS = 5, 10  # the same for work that is still going on, counted in commits of all files
LATEST, LATEST_HALF = 20, 5
OWN = 3.0  # so many times as much for a commit of who is at work
SIBLINGS, SIBLING_COMMITS, SIBLING_HALF = 8, 20, 10


def direct(
    history: Sequence[Commit], asked: frozenset[int], newest: int
) -> tuple[dict[int, float], dict[int, float]]:
    """What the commits of an asked file, newest first, say of each other file: its share of them, 0 to 1, and how much
    it is part of the work that is going on; `newest` is the number of the newest commit of all.

    A commit weighs less with each newer one of this file, and is shared out among its further files. One that touches
    several of the asked files weighs as many times.
    """
    share: defaultdict[int, float] = defaultdict(float)
    current: defaultdict[int, float] = defaultdict(float)
    total, place = 0.0, 0
    for commit in history:
        overlap = len(asked.intersection(commit.files)) if len(asked) > 1 else 1
        others = commit.size - overlap
        if commit.size > LARGEST or others < 1:
            continue
        weight = overlap / ((1 + place / HALF) * others)
        total += weight
        for file in commit.files:
            share[file] += weight
        if place < NEAR_COMMITS:
            weight = 1 / ((1 + (newest - commit.number) / NEAR) * sqrt(others))
            for file in commit.files:
                current[file] += weight
        place += 1
    for file in asked:
        share.pop(file, None)
        current.pop(file, None)
    return {file: weight / total for file, weight in share.items()}, dict(current)


def joint_commits(history: Sequence[Commit], files: Iterable[int]) -> dict[int, list[Commit]]:
    """The commits of a history with each of these files, newest first."""
    found: dict[int, list[Commit]] = {file: [] for file in files}
    wanted = frozenset(found)
    for commit in history:
        for file in wanted.intersection(commit.files):
            found[file].append(commit)
    return found


def through(
    view: View, share: Mapping[int, float], alive: Iterable[int], asked: frozenset[int]
) -> dict[int, float]:
    """The second step of a random walk: what changes with the best partners (of those alive) of the asked files."""
    partners = nsmallest(PARTNERS, alive, key=lambda file: (-share[file], file))
    found = view.many(partners, PARTNER_COMMITS) if partners else {}
    return _walk(((share[file], file, history) for file, history in found.items()), PARTNER_HALF, asked)


def beside(view: View, siblings: Sequence[int], asked: frozenset[int]) -> dict[int, float]:
    """What changes with the last changed files of the same folder: the best guess for a file without a past."""
    found = view.many(siblings[:SIBLINGS], SIBLING_COMMITS) if siblings else {}
    return _walk(((1 / len(found), file, history) for file, history in found.items()), SIBLING_HALF, asked)


def _walk(
    starts: Iterable[tuple[float, int, Sequence[Commit]]], half: float, asked: frozenset[int]
) -> dict[int, float]:
    """One step from files with these probabilities, along the commits of each."""
    found: defaultdict[int, float] = defaultdict(float)
    for start, own, history in starts:
        weights = [
            (1 / ((1 + place / half) * sqrt(commit.size - 1)), commit.files)
            for place, commit in enumerate(c for c in history if SMALLEST <= c.size <= LARGEST)
        ]
        total = sum(weight for weight, _ in weights)
        for weight, files in weights:
            step = start * weight / total
            for file in files:
                if file != own:
                    found[file] += step
    for file in asked:
        found.pop(file, None)
    return dict(found)


def recency(latest: Sequence[Commit], asked: frozenset[int], author: int | None) -> dict[int, float]:
    """How much each file is part of the newest commits of all, those of `author` above all: work comes in series."""
    found: defaultdict[int, float] = defaultdict(float)
    for place, commit in enumerate(latest[:LATEST]):
        if commit.size <= LARGEST:
            own = OWN if commit.author == author else 1.0
            weight = own / ((1 + place / LATEST_HALF) * sqrt(max(commit.size, 1)))
            for file in commit.files:
                found[file] += weight
    for file in asked:
        found.pop(file, None)
    return dict(found)


# Names that stand for their folder: the folder's name is what they are about.
_INDEX = frozenset((b"__init__", b"__main__", b"index", b"mod", b"lib", b"main", b"package-info", b"readme"))
_ENDINGS = re.compile(rb"(?:[._-](?:tests?|specs?)|\.(?:d|min|stories|module|inl|in|bench|e2e|snap))$")
_CAMEL = re.compile(rb"(?<=[a-z0-9])(?:Tests?|TestCase|Specs?|IT)$")
_STARTS = re.compile(rb"^(?:tests?|specs?|t\d{2,})[._-]")
_CAMEL_START = re.compile(rb"^Test(?=[A-Z])")
_WORD = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SEPARATORS = b"._- "


def stem(path: bytes) -> bytes:
    """The name that a file shares with its test, header or page, in lower case without separators.

    `path` is relative to the top of the work tree. The extension and the markers of tests and generated companions are
    cut (`test_`, `_test`, `.spec`, `.d`, `Test`, `t1234-`); a name that stands for its folder (`__init__.py`, `mod.rs`,
    `index.ts`) gives the folder's name. Empty only for an empty path.
    """
    folder, _, name = path.rpartition(b"/")
    bare = _bare(name)
    if bare in _INDEX and folder:
        return _bare(folder.rpartition(b"/")[2] + b".") or bare
    return bare


def _bare(name: bytes) -> bytes:
    head, dot, _ = name.rpartition(b".")
    kept = head if dot and head else name.lstrip(b".")
    while True:
        cut = _CAMEL.sub(b"", _ENDINGS.sub(b"", _STARTS.sub(b"", _CAMEL_START.sub(b"", kept))))
        if cut == kept or not cut:
            break
        kept = cut
    lowered = kept.lower()
    if lowered in _INDEX:
        return lowered
    return lowered.translate(None, _SEPARATORS) or lowered or name


def words(path: bytes) -> frozenset[bytes]:
    """The words of a path and its folders without the extension, in lower case; `camelCase` is two."""
    head, dot, last = path.rpartition(b".")
    return frozenset(word.lower() for word in _WORD.findall(head if dot and b"/" not in last else path))


def alike(path: bytes, candidates: Mapping[int, bytes]) -> dict[int, float]:
    """How telling the rarest word is that a candidate shares with `path`: 1 when no other candidate has it, else one by
    how many have it. Candidates that share nothing are left out."""
    asked = words(path)
    own = {file: asked & words(candidate) for file, candidate in candidates.items()}
    having = Counter(word for shared in own.values() for word in shared)
    return {file: 1 / min(having[word] for word in shared) for file, shared in own.items() if shared}


_AT_LEAST = 64  # files that a view is asked about in one go


class Alive:
    """Which files are alive in a view, and their paths; each file is asked about once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[int, bytes | None] = {}

    def of(self, files: Iterable[int]) -> dict[int, bytes]:
        """The paths of those of `files` that are alive, in their order."""
        files = list(files)
        unknown = [file for file in files if file not in self._known]
        if unknown:
            self._known.update(dict.fromkeys(unknown))
            self._known.update(self._view.paths(unknown))
        known = self._known
        return {file: path for file in files if (path := known[file]) is not None}

    def best(
        self, scores: Mapping[int, float], wanted: int, unwanted: Collection[bytes] = frozenset()
    ) -> dict[int, bytes]:
        """The paths of at least the `wanted` best files that are alive and have none of the `unwanted` paths, with all
        that are as good as the last of them; best first, ties by number."""
        order = sorted(scores)
        order.sort(key=scores.__getitem__, reverse=True)
        found: dict[int, bytes] = {}
        least = float("-inf")
        start, step = 0, max(wanted + wanted // 2, _AT_LEAST)
        while start < len(order) and scores[order[start]] >= least:
            some = self.of(order[start : start + step])
            found.update({file: path for file, path in some.items() if path not in unwanted})
            if len(found) >= wanted:
                least = scores[list(found)[wanted - 1]]
            start, step = start + step, step * 2
        return found


COMMITS = 300  # of the asked files that are looked at
FOLDER = 50
YOUNG = 20  # with fewer commits, what changes with the other files of the folder counts too
EVIDENCE = 20
COMPARED = 50  # the best candidates, whose names are compared
APART = 10  # so many asked files are each asked by themselves; more, as of a folder, count as one file
ASKED_NAMES = 10  # of more than so many, only the first names speak

Evidence = tuple[str, float, dict[int, float]]  # the reason, its weight, and what it says of each file

THROUGH, CURRENT, RECENT = 0.25, 0.2, 0.03
STEM, WORDS, SIBLING, BESIDE = 0.1, 0.25, 0.03, 0.05
SURE = 2.0  # a shared word counts so many times more for a file that is in all commits of the asked ones


class Neighbor(NamedTuple):
    """A file that changed with the asked ones, or might.

    `score` is 0 to 1. It changed in `together` of the last `commits` commits of the asked files; `last` is the
    committer date (seconds since 1970) of the newest with both, `evidence` the numbers of these commits, newest first,
    at most 20. `reasons` are codes, the telling one first: "together"; "through" (it changes with their partners);
    "name"; "folder"; and last, for it is no kinship, "recent" (part of the newest commits of all).
    """

    file: int
    path: bytes
    score: float
    together: int
    commits: int
    last: int | None
    evidence: tuple[int, ...]
    reasons: tuple[str, ...]


def neighbors(
    view: View, files: Sequence[int], paths: Sequence[bytes], *, limit: int = 20, min_score: float = 0.0
) -> list[Neighbor]:
    """The neighbors of the asked `files`, best first, ties by path: at most `limit`, alive, none of the asked ones.

    `paths` are the asked paths; one of a file without history speaks by its name and folder alone. Several files: the
    mean of what each says by itself. Who made the newest commit is taken to be at work.
    """
    asked = frozenset(files)
    histories = view.many(list(dict.fromkeys(files)), COMMITS) if files else {}
    every = _newest(histories.values())
    latest = view.latest(LATEST)
    newest = latest[0].number if latest else 0
    worker = latest[0].author if latest else None
    evidence: list[Evidence] = []
    shares: list[dict[int, float]] = []
    alive = Alive(view)
    groups = [every] if len(histories) > APART else list(histories.values())
    for history in groups:
        share, current = direct(history, asked, newest)
        partners = alive.best(share, PARTNERS)
        part = 1 / len(groups)
        shares.append(share)
        evidence.append(("together", part, share))
        evidence.append(("together", CURRENT * part, current))
        evidence.append(("through", THROUGH * part, through(view, share, partners, asked)))
    speaking = paths[:ASKED_NAMES]
    for path in speaking:
        same = [file for file in view.namesakes(stem(path)) if file not in asked]
        siblings = [file for file in view.folder(path.rpartition(b"/")[0], FOLDER) if file not in asked]
        same = list(alive.of(same))
        part = 1 / len(speaking)
        evidence.append(("name", STEM * part, {file: 1 / len(same) for file in same}))
        evidence.append(
            ("folder", SIBLING * part, {file: 1 / (1 + rank) for rank, file in enumerate(siblings)})
        )
        if len(every) < YOUNG:
            evidence.append(("folder", BESIDE * part, beside(view, siblings, asked)))
    scores: dict[int, float] = {}
    for _, factor, found in evidence:
        _add(scores, factor, found)
    recent = recency(latest, asked, worker)
    if scores:  # being recent alone is no kinship, and better than no answer
        recent = {file: value for file, value in recent.items() if file in scores}
    evidence.append(("recent", RECENT, recent))
    _add(scores, RECENT, recent)
    present = alive.best(scores, max(limit, COMPARED), frozenset(paths))
    scores = {file: scores[file] for file in present}
    compared = {file: present[file] for file in _best(scores, present, COMPARED)}
    for path in speaking:
        like = alike(path, compared)
        like = {file: value * (1 + SURE * _mean(shares, file)) for file, value in like.items()}
        evidence.append(("name", WORDS / len(speaking), like))
        _add(scores, *evidence[-1][1:])
    shown = [file for file in _best(scores, present, limit) if _bounded(scores[file]) >= min_score]
    together = joint_commits(every, shown)
    return [
        _neighbor((file, present[file]), scores[file], len(every), together[file], evidence) for file in shown
    ]


def _newest(histories: Iterable[Sequence[Commit]]) -> list[Commit]:
    """The newest commits of several histories, newest first, each once."""
    every = {commit.number: commit for history in histories for commit in history}
    return [every[number] for number in sorted(every, reverse=True)[:COMMITS]]


def _mean(shares: Sequence[Mapping[int, float]], file: int) -> float:
    return sum(share.get(file, 0.0) for share in shares) / len(shares) if shares else 0.0


def _bounded(score: float) -> float:
    """0 to 1, in the same order; small scores stay nearly as they are."""
    return 1 - exp(-score)


def _best(scores: Mapping[int, float], paths: Mapping[int, bytes], limit: int) -> list[int]:
    """The files with the highest scores, ties by path."""
    if len(scores) > limit > 0:  # sorting by path is dear: only those that can be among them
        least = nlargest(limit, scores.values())[-1]
        scores = {file: score for file, score in scores.items() if score >= least}
    return sorted(scores, key=lambda file: (-scores[file], paths[file]))[:limit]


def _add(total: dict[int, float], factor: float, found: Mapping[int, float]) -> None:
    if not total:  # the first is the largest
        total.update({file: factor * value for file, value in found.items()})
        return
    known = total.get
    for file, value in found.items():
        total[file] = known(file, 0.0) + factor * value


def _neighbor(
    named: tuple[int, bytes],
    score: float,
    looked_at: int,
    commits: Sequence[Commit],
    evidence: Sequence[Evidence],
) -> Neighbor:
    file, path = named
    parts: dict[str, float] = {}
    for reason, factor, found in evidence:
        if file in found:
            parts[reason] = parts.get(reason, 0.0) + factor * found[file]
    return Neighbor(
        file,
        path,
        _bounded(score),
        len(commits),
        looked_at,
        commits[0].time if commits else None,
        tuple(commit.number for commit in commits[:EVIDENCE]),
        tuple(sorted(parts, key=lambda reason: (reason == "recent", -parts[reason], reason))),
    )


class Commit(NamedTuple):
    """One commit that is no merge, seen from the files that it changed."""

    number: int  # position in the index; a larger number is a newer commit
    time: int  # committer date, seconds since 1970
    author: int  # an id of the author in the index
    size: int  # files that it changed
    files: Sequence[int]  # their ids; empty when size > LARGEST (100)


__all__ = ["Commit", "View"]


class View(Protocol):
    """The history that one revision reaches. A file id stands for a file through all of its renames."""

    def file(self, path: bytes) -> int | None:
        """The file that has this path at the revision, or had it last."""
        ...

    def commits(self, file: int, limit: int) -> list[Commit]:
        """The commits that changed it, newest first, no merges; a copy's own come first, then its origin's."""
        ...

    def many(self, files: Sequence[int], limit: int) -> dict[int, list[Commit]]:
        """`commits` of several files in one go; `limit` holds for each."""
        ...

    def latest(self, limit: int) -> list[Commit]:
        """The newest commits of all."""
        ...

    def namesakes(self, stem: bytes) -> list[int]:
        """Files that have or had a path with this stem (`names.stem`), newest change first, at most 50."""
        ...

    def folder(self, directory: bytes, limit: int) -> list[int]:
        """Files directly in this directory (b"" is the top), last changed first."""
        ...

    def paths(self, files: Sequence[int]) -> dict[int, bytes]:
        """The present paths of those that are alive at the revision; the others are left out."""
        ...
