"""Review the last commits of a history one by one, each with only what was before it, and see what came after.

The product is run as it is: the change is read from the commit, the history is that which its first parent reaches,
what is usual is learned anew every 50 commits from that history.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from bench.origins import git
from repoagent.config.layers import load
from repoagent.git.worktree import WorkTree, layout, open_worktree
from repoagent.history.index.index import open_index
from repoagent.review.change import Change
from repoagent.review.checks import run
from repoagent.review.checks.context import HistoryContext
from repoagent.review.checks.file_origin import is_code
from repoagent.review.checks.run import open_source
from repoagent.review.checks.statistics import Habits, habits_of, is_fix
from repoagent.review.diff.read import read_change
from repoagent.review.diff.select import ChangeSelector
from repoagent.review.finding import Finding
from repoagent.review.rules import RULES, level_of

EVERY = 50
ANY = "any file"
DRAWN, LARGEST = 2, 30
DAY = 24 * 3600
SOON = 10  # next commits of the repository
OWN = 5  # next commits of the same author
BEFORE = 500  # commits that say how often a file changes anyway
FILE_NEXT = 3  # next commits of a file


class Told(NamedTuple):
    """One commit of the log, no merge."""

    id: str
    time: int
    author: str
    fix: bool
    paths: frozenset[str]


@dataclass
class Figures:
    """`right` of `found` findings came true, in `commits` reviewed ones of which `alarmed` had one; `usual` is the sum
    of what would have come true without them."""

    found: int = 0
    right: int = 0
    alarmed: int = 0
    usual: float = 0.0
    examples: list[str] = field(default_factory=list)
    sure: list[tuple[float, bool, float]] = field(default_factory=list)  # confidence, right, usual
    named: int = 0  # with a file left out: findings that name it
    beside: int = 0  # and those that name another one
    hidden: int = 0  # files that were left out


def log(top: Path) -> list[Told]:
    """All commits but merges, newest first."""
    form = "--format=%x01%H %ct %ae%x02%s"
    out = git(top, "log", "--no-merges", "--date-order", "--name-only", "-z", "--no-renames", form)
    found: list[Told] = []
    for entry in out.split(b"\x01")[1:]:
        head, _, rest = entry.partition(b"\0")
        about, _, subject = head.partition(b"\x02")
        commit, time, author = os.fsdecode(about).split(" ", 2)
        names = frozenset(os.fsdecode(name.lstrip(b"\n")) for name in rest.split(b"\0") if name.strip(b"\n"))
        found.append(Told(commit, int(time), author, is_fix(subject), names))
    return found


def replay(top: Path, count: int) -> tuple[dict[str, Figures], int]:
    """The figures of each rule over the last `count` commits, and how many of these were reviewed. The 60 newest are
    only what comes after."""
    told = log(top)
    worktree = open_worktree(top)
    place = layout(worktree)
    with open_index(worktree) as index:
        index.update("HEAD")
    settings = load(place, top, flags={f"review.rules.{rule}": "note" for rule in RULES})
    figures = {rule.id: Figures() for rule in RULES.values() if rule.source == "history"}
    figures[ANY] = Figures()
    source_of = random.Random(1)
    habits: Habits | None = None
    reviewed = 0
    levels = {rule: level for rule in figures if rule in RULES and (level := level_of(rule, settings))}
    last = min(len(told) - 1, 60 + count)
    fixed_usually = sum(fixed_soon(told, at) for at in range(60, last)) / max(1, last - 60)
    for place_in_log in range(last - 1, 59, -1):
        commit = told[place_in_log]
        change, _ = read_change(worktree, None, ChangeSelector("commit", commit.id))
        if not change.base or not change.files:
            continue
        if habits is None or reviewed % EVERY == 0:
            habits = _learn(worktree, change.base)
        reviewed += 1
        with ExitStack() as stack:
            source = open_source(worktree, change, stack)
            # the commits that speak for a finding are not needed here
            context = run.history_context(change, worktree, levels, source._replace(ids=lambda _: {}), habits)
            found = [
                finding for rule in run.CHECKS if rule in levels for finding in run.load_check(rule)(context)
            ]
            _hide(figures, context, change, source_of)
        _judge(figures, found, told, place_in_log)
    everything = figures.pop(ANY)
    for rule in ("fix-prone", "unusual-size", "unusual-width"):
        usual = fixed_usually if rule != "fix-prone" else everything.right / max(1, everything.found)
        figures[rule].usual = figures[rule].found * usual
    return figures, reviewed


def _hide(
    figures: Mapping[str, Figures], context: HistoryContext, change: Change, source: random.Random
) -> None:
    """Leave out files of a commit in turn, and see whether they are named."""
    if not 2 <= len(change.files) <= LARGEST:
        return
    for file in source.sample(change.files, min(DRAWN, len(change.files))):
        rest = tuple(other for other in change.files if other is not file)
        less = replace(context, change=replace(change, files=rest))
        for rule in ("partner-missing", "api-changed"):
            figures[rule].hidden += 1
            for finding in run.load_check(rule)(less):
                name = finding.key if rule == "partner-missing" else finding.key.partition(" ")[2]
                figures[rule].named += name in (file.path, file.old_path)
                figures[rule].beside += name not in (file.path, file.old_path)


def _learn(worktree: WorkTree, tip: str) -> Habits:
    with open_index(worktree) as index:
        index.update(tip)
        return habits_of(index.view(tip), worktree.top, tip, seconds=20.0, mined=0)


def _judge(figures: Mapping[str, Figures], found: Sequence[Finding], told: Sequence[Told], at: int) -> None:
    for rule in {finding.rule for finding in found}:
        figures[rule].alarmed += 1
    for finding in found:
        figure = figures[finding.rule]
        right, usual = _came_true(finding, told, at)
        figure.found += 1
        figure.right += right
        figure.usual += usual
        figure.sure.append((finding.confidence or 0.0, right, usual))
        figure.examples.append(f"{told[at].id[:9]} {'+' if right else '-'} {finding.title}")
    everything = figures[ANY]
    for path in filter(is_code, told[at].paths):
        everything.found += 1
        everything.right += fix_follows(path, told, at)


def _came_true(finding: Finding, told: Sequence[Told], at: int) -> tuple[bool, float]:
    if finding.rule == "partner-missing":
        return follow_up(finding.key, told, at), own_usually(finding.key, told, at)
    if finding.rule == "api-changed":
        caller = finding.key.partition(" ")[2]
        return follow_up(caller, told, at), own_usually(caller, told, at)
    if finding.rule == "fix-prone":
        return fix_follows(finding.location.path, told, at), 0.0
    if finding.rule in ("unusual-size", "unusual-width"):
        return fixed_soon(told, at), 0.0
    return soon(finding.location.path, told, at), usually(finding.location.path, told, at)


def follow_up(path: str, told: Sequence[Told], at: int) -> bool:
    """Whether the same author changes a file in one of their next 5 commits, within a week."""
    return any(path in commit.paths for commit in own(told, at))


def own(told: Sequence[Told], at: int) -> list[Told]:
    """The next commits of the same author."""
    found: list[Told] = []
    for place in range(at - 1, -1, -1):
        if told[place].time > told[at].time + 7 * DAY or len(found) == OWN:
            break
        if told[place].author == told[at].author:
            found.append(told[place])
    return found


def own_usually(path: str, told: Sequence[Told], at: int) -> float:
    """How likely that is, as often as this author changed the file in the 500 commits before."""
    before = [commit for commit in told[at + 1 : at + 1 + BEFORE] if commit.author == told[at].author]
    share = sum(path in commit.paths for commit in before) / len(before) if before else 0.0
    return 1 - (1 - share) ** len(own(told, at))


def after(told: Sequence[Told], at: int) -> Iterator[Told]:
    """The next 10 commits, and all of the same day."""
    for number, commit in enumerate(told[place] for place in range(at - 1, -1, -1)):
        if number >= SOON and commit.time > told[at].time + DAY:
            return
        if number >= 200:
            return
        yield commit


def soon(path: str, told: Sequence[Told], at: int) -> bool:
    """Whether a file is changed by one of the next 10 commits, or on the same day."""
    return any(path in commit.paths for commit in after(told, at))


def usually(path: str, told: Sequence[Told], at: int) -> float:
    """How likely that is for a file that changes as often as this one has, in the last 500 commits."""
    before = told[at + 1 : at + 1 + BEFORE]
    if not before:
        return 0.0
    share = sum(path in commit.paths for commit in before) / len(before)
    return 1 - (1 - share) ** sum(1 for _ in after(told, at))


def fix_follows(path: str, told: Sequence[Told], at: int) -> bool:
    """Whether one of the next 3 commits of a file is a fix."""
    seen = 0
    for place in range(at - 1, -1, -1):
        if path in told[place].paths and len(told[place].paths) <= 30:
            seen += 1
            if told[place].fix:
                return True
            if seen == FILE_NEXT:
                return False
    return False


def fixed_soon(told: Sequence[Told], at: int) -> bool:
    """Whether one of the next commits is a fix that touches one of the same files."""
    return any(commit.fix and commit.paths & told[at].paths for commit in after(told, at))
