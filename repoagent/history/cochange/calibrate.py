"""From which confidence on to warn in this repository: read off its own newest commits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from repoagent.history.cochange.missing import DEPTH, SUPPORT, confidences, evidence, merge, weigh
from repoagent.history.cochange.view import Commit, View

JUDGED = 200  # newest commits that are asked about
USUAL = 30  # files of a commit that is judged; nobody waits for advice on a larger one
FEWEST = 40  # commits to judge by
FLOOR = 0.4  # below it too many warnings are wrong, however quiet the history is
NEVER = 1.0  # no confidence reaches it
# The surest partner that each of 50 commits of an average repository lacked: 200 commits alone tell too little.
AVERAGE = (0.7, 0.55, 0.45, *[0.0] * 47)


def calibrate(view: View, *, false_alarms: float = 0.05, judged: int = JUDGED) -> float:
    """The threshold for `missing` at which a share of at most `false_alarms` of the newest commits would have warned.

    Each of the `judged` newest commits with at most 30 files is taken as complete and judged only by what was earlier
    than it; 50 commits of an average repository count beside them. The answer is at least 0.4, and 1.0, which no file
    reaches, with fewer than 40 such commits. It changes slowly: it may be kept for some twenty commits.
    """
    newest = [commit for commit in view.latest(judged) if commit.files and commit.size <= USUAL]
    alarms = [alarm for alarm in surest(view, newest) if alarm is not None]
    if len(alarms) < FEWEST or false_alarms <= 0:
        return NEVER
    if false_alarms >= 1:
        return FLOOR
    alarms = sorted((*alarms, *AVERAGE), reverse=True)
    quiet = alarms[int(false_alarms * len(alarms))]  # so many warn above it
    return min(NEVER, max(FLOOR, quiet + 1e-6))


def surest(view: View, commits: Sequence[Commit]) -> list[float | None]:
    """For each of the commits the confidence of the surest partner that it lacks, known only by what was earlier.

    0.0 when that is less than 0.4; None for a commit none of whose files existed before.
    """
    histories = view.many(sorted({file for commit in commits for file in commit.files}), DEPTH)
    numbers = {file: [-commit.number for commit in history] for file, history in histories.items()}
    last: dict[int, int] = {}  # the newest commit of a file: it was alive until then
    for commit in commits:
        for file in commit.files:
            last[file] = max(last.get(file, 0), commit.number)
    judged = [_partners(commit, histories, numbers) for commit in commits]
    alive = view.paths(sorted({file for partners in judged for file in partners or ()}))
    found: list[float | None] = []
    for commit, partners in zip(commits, judged, strict=True):
        lived = [
            c for file, c in (partners or {}).items() if file in alive or last.get(file, -1) > commit.number
        ]
        found.append(None if partners is None else max(lived, default=0.0))
    return found


def _partners(
    commit: Commit, histories: Mapping[int, Sequence[Commit]], numbers: Mapping[int, Sequence[int]]
) -> dict[int, float] | None:
    """The partners that the commit lacks, with their confidence; None if none of its files existed before."""
    earlier = {
        file: histories[file][bisect_right(numbers[file], -commit.number) :]
        for file in commit.files
        if file in histories
    }
    asked = frozenset(file for file, history in earlier.items() if history)
    if not asked:
        return None
    weighed = weigh(asked, merge(earlier), commit.author)
    return {
        file: confidence
        for file, confidence in confidences(asked, weighed, FLOOR).items()
        if file not in commit.files and len(evidence(file, weighed)) >= SUPPORT
    }
