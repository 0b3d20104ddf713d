"""Review the last commits of a history one by one, each with only what was before it, and see what came after.

The product is run as it is: the change is read from the commit, the history is that which its first parent reaches,
what is usual is learned again every 50 commits from that history.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

from bench.origins import git
from repoagent.config.layers import load
from repoagent.git.worktree import WorkTree, layout, open_worktree
from repoagent.history.index.index import open_index
from repoagent.review.change import Change
from repoagent.review.checks import run
from repoagent.review.checks.context import CheckContext
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


class Entry(NamedTuple):
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
    others: int = 0  # and those that name another one
    hidden: int = 0  # files that were left out


def log(top: Path) -> list[Entry]:
    """All commits but merges, newest first."""
    form = "--format=%x01%H %ct %ae%x02%s"
    out = git(top, "log", "--no-merges", "--date-order", "--name-only", "-z", "--no-renames", form)
    found: list[Entry] = []
    for entry in out.split(b"\x01")[1:]:
        head, _, rest = entry.partition(b"\0")
        about, _, subject = head.partition(b"\x02")
        commit, time, author = os.fsdecode(about).split(" ", 2)
        names = frozenset(os.fsdecode(name.lstrip(b"\n")) for name in rest.split(b"\0") if name.strip(b"\n"))
        found.append(Entry(commit, int(time), author, is_fix(subject), names))
    return found


def replay(top: Path, count: int) -> tuple[dict[str, Figures], int]:
    """The figures of each rule over the last `count` commits, and how many of these were reviewed. The 60 newest are
    only what comes after."""
    history = log(top)
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
    last = min(len(history) - 1, 60 + count)
    fixed_usually = sum(fixed_soon(history, at) for at in range(60, last)) / max(1, last - 60)
    for place_in_log in range(last - 1, 59, -1):
        commit = history[place_in_log]
        change, _ = read_change(worktree, None, ChangeSelector("commit", commit.id))
        if not change.base or not change.files:
            continue
        if habits is None or reviewed % EVERY == 0:
            habits = _learn(worktree, change.base)
        reviewed += 1
        with ExitStack() as stack:
            source = open_source(worktree, change, stack)
            context = run.history_context(change, worktree, levels, source, habits)
            found = [finding for rule in levels for finding in run.load_check(rule)(context)]
            _hide(figures, context, change, source_of)
        _judge(figures, found, history, place_in_log)
    everything = figures.pop(ANY)
    for rule in ("fix-prone", "unusual-size", "unusual-width"):
        usual = fixed_usually if rule != "fix-prone" else everything.right / max(1, everything.found)
        figures[rule].usual = figures[rule].found * usual
    return figures, reviewed


def _hide(
    figures: Mapping[str, Figures], context: CheckContext, change: Change, source: random.Random
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
                figures[rule].others += name not in (file.path, file.old_path)


def _learn(worktree: WorkTree, tip: str) -> Habits:
    with open_index(worktree) as index:
        index.update(tip)
        return habits_of(index.view(tip), worktree.top, tip, seconds=20.0, mined=0)


def _judge(
    figures: Mapping[str, Figures], found: Sequence[Finding], history: Sequence[Entry], at: int
) -> None:
    for rule in {finding.rule for finding in found}:
        figures[rule].alarmed += 1
    for finding in found:
        figure = figures[finding.rule]
        right, usual = _came_true(finding, history, at)
        figure.found += 1
        figure.right += right
        figure.usual += usual
        figure.sure.append((finding.confidence or 0.0, right, usual))
        figure.examples.append(f"{history[at].id[:9]} {'+' if right else '-'} {finding.title}")
    everything = figures[ANY]
    for path in filter(is_code, history[at].paths):
        everything.found += 1
        everything.right += fix_follows(path, history, at)


def _came_true(finding: Finding, history: Sequence[Entry], at: int) -> tuple[bool, float]:
    """Whether a finding came true, and how likely that was anyway (0 where the replay knows it for all)."""
    if finding.rule in ("partner-missing", "api-changed"):
        path = finding.key if finding.rule == "partner-missing" else finding.key.partition(" ")[2]
        own = next_of_author(history, at)
        before = history[at + 1 : at + 1 + BEFORE]
        before = [entry for entry in before if entry.author == history[at].author]
        return any(path in entry.paths for entry in own), _chance(path, before, len(own))
    path = finding.place.path
    if finding.rule == "fix-prone":
        return fix_follows(path, history, at), 0.0
    if finding.rule in ("unusual-size", "unusual-width"):
        return fixed_soon(history, at), 0.0
    after = list(next_commits(history, at))
    return any(path in entry.paths for entry in after), _chance(
        path, history[at + 1 : at + 1 + BEFORE], len(after)
    )


def _chance(path: str, before: Sequence[Entry], times: int) -> float:
    """How likely a file is changed by one of so many commits, if as often as before."""
    share = sum(path in entry.paths for entry in before) / len(before) if before else 0.0
    return 1 - (1 - share) ** times


def _later(history: Sequence[Entry], at: int) -> Iterator[Entry]:
    return (history[number] for number in range(at - 1, -1, -1))


def next_of_author(history: Sequence[Entry], at: int) -> list[Entry]:
    """The next 5 commits of the same author, within a week."""
    week = takewhile(lambda entry: entry.time <= history[at].time + 7 * DAY, _later(history, at))
    return list(islice((entry for entry in week if entry.author == history[at].author), OWN))


def next_commits(history: Sequence[Entry], at: int) -> Iterator[Entry]:
    """The next 10 commits, and all of the same day, at most 200."""
    for number, entry in enumerate(islice(_later(history, at), 200)):
        if number >= SOON and entry.time > history[at].time + DAY:
            return
        yield entry


def fix_follows(path: str, history: Sequence[Entry], at: int) -> bool:
    """Whether one of the next 3 commits of a file is a fix."""
    own = (entry for entry in _later(history, at) if path in entry.paths and len(entry.paths) <= 30)
    return any(entry.fix for entry in islice(own, FILE_NEXT))


def fixed_soon(history: Sequence[Entry], at: int) -> bool:
    """Whether one of the next commits is a fix that touches one of the same files."""
    return any(entry.fix and entry.paths & history[at].paths for entry in next_commits(history, at))
