"""Missing partners: files that nearly always changed together with the changed files, but did not this time.

A past commit counts by its similarity to "the changed files and one more". For a commit of `n` files, `a` of which are
among the `q` changed files, the similarity is `a / (q + n - a - 1)`. A commit without other files is evidence against
every partner; its similarity is `a / q`. The weight of a commit is the cube of its similarity, less for older commits
and more for those by the author of the change, who may habitually put such files into one commit or into two. The
confidence in a partner is the weight of the commits that contain it divided by the weight of all, reduced if there is
little evidence. The threshold for a warning is calibrated on the newest commits of the repository.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from repoagent.history.cochange import MOST_FILES, HistoryCommit, HistoryView

DEPTH = 100  # newest commits of each changed file that are looked at
HALVES = 10  # after that many commits of the set a commit has half of its weight
DOUBT = 2.0  # prior weight of the evidence against
OWN = 5.0  # factor for commits of the same author
SUPPORT = 2  # least number of commits with a partner
FURTHER = 0.2  # added to the threshold for all but the surest: of several, few are right
EVIDENCE = 20


class MissingPartner(NamedTuple):
    """A file that is probably missing from a change.

    It changed in `together` of the last `commits` commits to the changed files. `confidence` is weighted; it is not the
    ratio of these numbers.
    """

    file: int
    path: bytes
    confidence: float  # 0 to 1
    together: int
    commits: int
    evidence: tuple[int, ...]  # numbers of the commits with it, newest first, at most 20


def find_missing(
    view: HistoryView, files: Sequence[int], *, limit: int = 3, threshold: float, author: int | None = None
) -> list[MissingPartner]:
    """At most `limit` existing files, other than `files`, whose confidence is at least `threshold`, highest first.

    `files` are the ids of the changed files, including deleted ones; new files have none. `threshold` is the result of
    `calibrate_threshold`; all results but the first must exceed it by 0.2. `author` is the change's author as in
    `HistoryCommit.author`; None if unknown. The result is empty if nothing is known about `files`.
    """
    asked = frozenset(files)
    if not asked or limit < 1:
        return []
    weighed = weigh_commits(asked, merge(view.many(sorted(asked), DEPTH)), author)
    sure = confidences(asked, weighed, threshold)
    paths = view.paths(sorted(sure))
    partners: list[MissingPartner] = []
    for file in sorted(paths, key=lambda file: (-sure[file], file)):
        seen = evidence(file, weighed)
        if partners and sure[file] < threshold + FURTHER:
            break
        if len(seen) >= SUPPORT:
            partners.append(
                MissingPartner(file, paths[file], sure[file], len(seen), len(weighed), seen[:EVIDENCE])
            )
        if len(partners) == limit:
            break
    return partners


def merge(histories: Mapping[int, Sequence[HistoryCommit]]) -> list[HistoryCommit]:
    commits = {commit.number: commit for history in histories.values() for commit in history}
    return [commits[number] for number in sorted(commits, reverse=True)]


def weigh_commits(
    asked: frozenset[int], commits: Iterable[HistoryCommit], author: int | None
) -> list[tuple[HistoryCommit, float]]:
    """The commits that count as evidence, newest first, each with its weight."""
    weighed: list[tuple[HistoryCommit, float]] = []
    for commit in commits:
        size = len(commit.files)
        shared = len(asked.intersection(commit.files))
        if not shared or commit.size > MOST_FILES:
            continue
        near = shared / len(asked) if shared == size else shared / (len(asked) + size - shared - 1)
        own = OWN if commit.author == author else 1.0
        weighed.append((commit, own * near**3 / (1 + len(weighed) / HALVES)))
    return weighed


def confidences(
    asked: frozenset[int], weighed: Sequence[tuple[HistoryCommit, float]], least: float
) -> dict[int, float]:
    """The files not in `asked` whose confidence is at least `least`, with that confidence; includes deleted files."""
    total = DOUBT
    sums: dict[int, float] = {}
    for commit, weight in weighed:
        total += weight
        for file in commit.files:
            sums[file] = sums.get(file, 0.0) + weight
    shares = {file: weight / total for file, weight in sums.items()}
    return {file: share for file, share in shares.items() if share >= least and file not in asked}


def evidence(file: int, weighed: Sequence[tuple[HistoryCommit, float]]) -> tuple[int, ...]:
    return tuple(commit.number for commit, _ in weighed if file in commit.files)


JUDGED = 200  # newest commits to calibrate with
USUAL = 30  # files of such a commit at most
FEWEST = 40  # such commits at least
FLOOR = 0.4  # below this, too many warnings are wrong in any repository
NEVER = 1.0  # no confidence reaches this
# The surest missing partners of 50 commits of an average repository: a prior, since 200 commits are little evidence.
AVERAGE = (0.7, 0.55, 0.45, *[0.0] * 47)


def calibrate_threshold(view: HistoryView, *, false_alarms: float = 0.05) -> float:
    """The threshold for `find_missing` that limits false alarms, from 0.4 to 1.0; no file reaches 1.0.

    At most a fraction `false_alarms` (below 1) of the newest commits would have caused a warning. Each of the 200
    newest commits with at most 30 files is assumed complete and judged only by earlier commits. With fewer than 40 such
    commits, the result is 1.0. 50 commits of an average repository are added as a prior. The result can be cached for
    twenty commits.
    """
    newest = [commit for commit in view.latest(JUDGED) if commit.files and commit.size <= USUAL]
    alarms = [alarm for alarm in surest(view, newest) if alarm is not None]
    if len(alarms) < FEWEST:
        return NEVER
    alarms = sorted((*alarms, *AVERAGE), reverse=True)
    quiet = alarms[int(false_alarms * len(alarms))]  # that many warn above it
    return min(NEVER, max(FLOOR, quiet + 1e-6))


def surest(view: HistoryView, commits: Sequence[HistoryCommit]) -> list[float | None]:
    """For each commit, the confidence of the file that is most likely missing, judged only by earlier commits.

    It is 0.0 if below 0.4, and None if none of the commit's files existed before.
    """
    histories = view.many(sorted({file for commit in commits for file in commit.files}), DEPTH)
    numbers = {file: [-commit.number for commit in history] for file, history in histories.items()}
    last: dict[int, int] = {}  # the newest commit of a file: it was alive until then
    for commit in commits:
        for file in commit.files:
            last[file] = max(last.get(file, 0), commit.number)
    judged: list[dict[int, float] | None] = []  # the partners that each commit lacks
    for commit in commits:
        earlier = {
            file: histories[file][bisect_right(numbers[file], -commit.number) :]
            for file in commit.files
            if file in histories
        }
        asked = frozenset(file for file, history in earlier.items() if history)
        weighed = weigh_commits(asked, merge(earlier), commit.author)
        lacking = {
            file: confidence
            for file, confidence in confidences(asked, weighed, FLOOR).items()
            if file not in commit.files and len(evidence(file, weighed)) >= SUPPORT
        }
        judged.append(lacking if asked else None)
    alive = view.paths(sorted({file for partners in judged for file in partners or ()}))
    highest: list[float | None] = []
    for commit, partners in zip(commits, judged, strict=True):
        lived = [
            c for file, c in (partners or {}).items() if file in alive or last.get(file, -1) > commit.number
        ]
        highest.append(None if partners is None else max(lived, default=0.0))
    return highest
