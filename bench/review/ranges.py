"""Whether partner-missing is right about branches: `python -m bench.review.ranges --repo PATH... [--merges 100]`

The newest merges of each history are taken as pull requests: what their second parent has added is reviewed as a range,
with the history that ends where it parted. Three of its files are left out in turn, of all of its commits: how many are
named, and how many names are right; asked of each commit by itself, and of all files at once. Of the whole branch
it is told how often a name is given. By the number of commits, since long branches are many pieces of work.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from repoagent.errors import UsageError
from repoagent.git.worktree import open_worktree
from repoagent.history.index.index import open_index
from repoagent.review.checks import missing_partner, run
from repoagent.review.checks.context import HistoryContext
from repoagent.review.checks.run import open_source
from repoagent.review.checks.statistics import habits_of
from repoagent.review.diff.read import read_change
from repoagent.review.diff.select import ChangeSelector, paths_by_commit
from repoagent.review.finding import Level

EVERY, DRAWN, LARGEST = 50, 3, 300
MOST = 100  # commits of a branch that is looked at
GROUPS = ((1, 1), (2, 3), (4, 10), (11, MOST))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repo", type=Path, nargs="+", required=True)
    parser.add_argument("--merges", type=int, default=100)
    given = parser.parse_args()
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for repository in given.repo:
        with tempfile.TemporaryDirectory(prefix="bench-ranges-") as folder:
            top = Path(folder) / "clone"
            command = ["git", "clone", "--quiet", "--shared", "--no-checkout", str(repository), str(top)]
            subprocess.run(command, check=True)
            for length, told in branches(top, given.merges):
                counts[next(low for low, high in GROUPS if length <= high)] += told
    for low, high in GROUPS:
        one = counts[low]
        print(f"{low} to {high} commits: {one['branches']} branches, {one['hidden']} files left out")
        for how in ("each", "all"):
            shares = f"{one[f'{how} right']} right of {one[f'{how} said']} names"
            print(f"  asked of {how:5} {shares}; of the whole branch {one[f'{how} alarms']} named something")


def branches(top: Path, merges: int) -> Iterator[tuple[int, Counter[str]]]:
    """For each pull request how many commits it has, and what was counted."""
    worktree = open_worktree(top)
    out = subprocess.run(
        ["git", "-C", str(top), "log", "--merges", "--first-parent", f"--max-count={merges}", "--format=%P"],
        stdout=subprocess.PIPE, check=True, text=True,
    ).stdout  # fmt: skip
    source_of, habits = random.Random(1), None
    for number, line in enumerate(reversed(out.splitlines())):
        first, second, *more = line.split()
        if more:
            continue
        try:
            change, _ = read_change(worktree, None, ChangeSelector("range", f"{first}..{second}"))
        except UsageError:  # nothing in common
            continue
        steps = paths_by_commit(top, change.head, change.base, MOST)
        if not steps or not 2 <= len(change.files) <= LARGEST:
            continue
        if habits is None or number % EVERY == 0:
            with open_index(worktree) as index:
                index.update(change.base)
                habits = habits_of(index.view(change.base), top, change.base, seconds=1.0, mined=0)
        with ExitStack() as stack:
            source = open_source(worktree, change, stack)._replace(ids=lambda _: {})
            context = run.history_context(
                change, worktree, {missing_partner.RULE: Level.NOTE}, source, habits
            )
            yield len(steps), _count(context, steps, source_of)


def _count(context: HistoryContext, steps: list[frozenset[str]], source: random.Random) -> Counter[str]:
    change = context.change
    ways = {"each": steps, "all": [context.changed] if len(change.files) <= missing_partner.USUAL else []}
    found = Counter(branches=1)
    for how, some in ways.items():
        found[f"{how} alarms"] += bool(missing_partner.partners(context, some))
    known = [file for file in change.files if file.path in context.files]
    for file in source.sample(known, min(DRAWN, len(known))):
        gone = {file.path, file.old_path}
        rest = tuple(other for other in change.files if other is not file)
        less = replace(context, change=replace(change, files=rest, earlier=change.earlier - gone))
        found["hidden"] += 1
        for how, some in ways.items():
            said = missing_partner.partners(less, [step - gone for step in some])
            found[f"{how} said"] += len(said)
            found[f"{how} right"] += sum(one.key in gone for one in said)
    return found


if __name__ == "__main__":
    main()
