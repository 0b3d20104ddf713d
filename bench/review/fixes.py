"""Are changes of files that are called prone followed by fixes? `python -m bench.review.fixes --repo PATH...`

The last 6,000 commits (no merges, at most 30 files) of each history are gone through, oldest first; in the last 40 % of
them each change of a file of code is judged by what was before it: is the file prone, and does one of its next 3
commits say that it fixes something? The share of all changes for which that holds is what is usual.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

from bench.review.replay import Told, log
from repoagent.review.checks.file_origin import is_code
from repoagent.review.checks.statistics import FIX_COMMITS, NEXT, is_prone

LAST, READ, LARGEST = 0.4, 6000, 30


def judge(told: list[Told]) -> tuple[int, int, int, int]:
    """Of a history, newest first: changes, those followed by a fix, changes of prone files, those followed by one."""
    changes: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for number, commit in enumerate(reversed(told[:READ])):
        if len(commit.paths) <= LARGEST:
            for path in commit.paths:
                changes[path].append((number, commit.fix))
    start = int(min(len(told), READ) * (1 - LAST))
    judged = [
        (history, place)
        for path, history in changes.items()
        if is_code(path)
        for place, (number, _) in enumerate(history[:-NEXT])
        if number >= start
    ]
    usual = sum(_followed(history, place) for history, place in judged)
    prone = [
        _followed(history, place)
        for history, place in judged
        if _prone(history[max(0, place - FIX_COMMITS) : place], usual / max(1, len(judged)))
    ]
    return len(judged), usual, len(prone), sum(prone)


def _followed(history: list[tuple[int, bool]], place: int) -> bool:
    return any(fix for _, fix in history[place + 1 : place + 1 + NEXT])


def _prone(before: list[tuple[int, bool]], usual: float) -> bool:
    known = max(0, len(before) - NEXT)
    return is_prone(known, sum(_followed(before, place) for place in range(known)), usual)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repo", type=Path, nargs="+", required=True)
    found = right = 0
    expected = 0.0
    for repository in parser.parse_args().repo:
        changes, usual, prone, followed = judge(log(repository))
        name = repository.parent.name if repository.name == "repo" else repository.name
        share = usual / max(1, changes)
        print(
            f"{name:32}{prone:6} of {changes:6} changes{followed / max(1, prone):8.0%} right{share:8.0%} usual"
        )
        found, right, expected = found + prone, right + followed, expected + prone * share
    print(
        f"{'all':32}{found:6}{'':18}{right / max(1, found):8.0%} right{expected / max(1, found):8.0%} usual"
    )


if __name__ == "__main__":
    main()
