"""fix-prone: changes of a file were followed by fixes more often than is usual in the repository.

A change of a file is followed by a fix when one of the next commits of that file says in its subject that it repairs
something. What is usual is the share of all changes of the lately changed files for which that holds. A file is prone
when even the lower end of the interval that Wilson (1927) gives for its own share is clearly above that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

from repoagent.review.finding import Finding, Place
from repoagent.review.history.marks import is_code

if TYPE_CHECKING:
    from repoagent.history.cochange.view import Commit, View
    from repoagent.review.history.past import Past

RULE = "fix-prone"
NEXT = 3  # commits of the file after a change in which a fix is looked for
COMMITS = 8  # newest commits of a file that are looked at: what needed fixes years ago says less
FEWEST = 5  # changes of a file before anything is said of it
CLEARLY = 1.5  # times as often as usual
SURE = 1.645  # standard deviations: 95 %, one-sided
FILES = 400  # last changed files that are looked at
KEPT = 100  # prone files that are remembered
LARGEST = 30  # files of a commit that is counted: a larger one is no fix of each of them
_FIX = re.compile(
    rb"\b(?:hot|bug)?fix(?:e[sd]|ing|up)?\b|\bbugs?\b|\bregress(?:ion|ions|ed|es)?\b|\brevert(?:s|ed|ing)?\b"
    rb"|\bbroken\b|\bbreakage\b|\bcrash(?:es|ed|ing)?\b|\brepair(?:s|ed)?\b|\bunbreak\b",
    re.IGNORECASE,
)


class Prone(NamedTuple):
    """A file: how many of its `changes` were followed by a fix, and the newest of these fixes (full ids)."""

    changes: int
    followed: int
    fixes: tuple[str, ...]


class Fixing(NamedTuple):
    """`usual` is the share of all changes that are followed by a fix; `files` are the prone ones by path."""

    usual: float
    files: Mapping[bytes, Prone]


def is_fix(subject: bytes) -> bool:
    """Whether a commit says that it repairs something."""
    return _FIX.search(subject) is not None


def learn(view: View, fixes: Callable[[Iterable[int]], Mapping[int, str]]) -> Fixing:
    """Which files are prone. `fixes` gives, of commits by number, the full ids of those that are fixes."""
    latest = [commit for commit in view.latest(2000) if 0 < commit.size <= LARGEST]
    files = list(dict.fromkeys(file for commit in latest for file in commit.files))[:FILES]
    code = {file for file, path in view.paths(files).items() if is_code(os.fsdecode(path))}
    histories = {
        file: [commit for commit in commits if commit.size <= LARGEST]
        for file, commits in view.many([file for file in files if file in code], COMMITS).items()
    }
    repairing = fixes({commit.number for commits in histories.values() for commit in commits})
    counts = {file: count(commits, repairing) for file, commits in histories.items()}
    changes = sum(changes for changes, _, _ in counts.values())
    if not changes:
        return Fixing(0.0, {})
    usual = sum(followed for _, followed, _ in counts.values()) / changes
    prone = [file for file, (changes, followed, _) in counts.items() if is_prone(changes, followed, usual)]
    prone.sort(key=lambda file: -lower(counts[file][1], counts[file][0]))
    paths = view.paths(prone[:KEPT])
    told = {
        path: Prone(*counts[file][:2], tuple(repairing[number] for number in counts[file][2][:5]))
        for file, path in paths.items()
    }
    return Fixing(usual, told)


def count(history: Sequence[Commit], repairing: Mapping[int, str]) -> tuple[int, int, list[int]]:
    """Of a history, newest first: its changes whose next commits are known, those followed by a fix, the fixes."""
    fixes = [commit.number in repairing for commit in history]
    followed = sum(any(fixes[place - NEXT : place]) for place in range(NEXT, len(history)))
    return (
        max(0, len(history) - NEXT),
        followed,
        [commit.number for commit, fix in zip(history, fixes, strict=True) if fix],
    )


def is_prone(changes: int, followed: int, usual: float) -> bool:
    """Whether that many of so many changes are clearly more than usual."""
    return changes >= FEWEST and lower(followed, changes) > usual * CLEARLY


def lower(hits: int, of: int) -> float:
    """The lower end of Wilson's interval for a share."""
    share, z = hits / of, SURE
    middle = share + z * z / (2 * of)
    return (middle - z * sqrt(share * (1 - share) / of + z * z / (4 * of * of))) / (1 + z * z / of)


def find(past: Past) -> list[Finding]:
    """The changed files that are prone, at most three, the most prone first."""
    from repoagent.review.history.past import told

    if past.habits is None:
        return []
    prone = past.habits.prone
    found = [
        (file, prone[os.fsencode(file.old_path)])
        for file in past.change.files
        if os.fsencode(file.old_path) in prone and file.status not in ("added", "deleted")
    ]
    if not found:
        return []
    from repoagent.review.history.comments import only_comments

    found = [each for each in found if not only_comments(past.change, each[0])]
    found.sort(key=lambda each: -lower(each[1].followed, each[1].changes))
    return [
        Finding(
            RULE,
            past.levels[RULE],
            f"changes of {path} are followed by fixes more often than is usual here",
            Place(path),
            f"{one.followed} of its last {one.changes} changes ({one.followed / one.changes:.0%}) had a fix among the "
            f"next {NEXT} commits of this file, told by its subject; for all lately changed files of this repository "
            f"it is {past.habits.fixing:.0%}. A second look, or a test, pays here more than elsewhere.",
            key=path,
            evidence=told(past.top, one.fixes),
        )
        for path, one in ((file.path, one) for file, one in found[:3])
    ]
