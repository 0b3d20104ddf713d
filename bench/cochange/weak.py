"""What does `neighbors` hide as weak? Replays the last fifth of each history, as `bench.cochange` does.

python -m bench.cochange.weak PATH...
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.cochange.load import load
from bench.cochange.memory import MemoryView
from bench.cochange.replay import SHOWN, sample
from repoagent.history.cochange.score import neighbors
from repoagent.history.render import is_weak

QUERIES, FIRST = 200, 10


def main() -> None:
    for repository in map(Path, sys.argv[1:]):
        changes = load(repository)
        queries = sample(changes, QUERIES, seed=1)
        wanted = {query.number: query for query in queries}
        view = MemoryView()
        rows: list[tuple[bool, bool, bool]] = []  # weak, a hit, among the first
        for number, change in enumerate(changes):
            if query := wanted.get(number):
                paths = [view.alive[file] for file in query.asked]
                for place, row in enumerate(neighbors(view, query.asked, paths, limit=SHOWN)):
                    rows.append((is_weak(row), row.file in query.truth, place < FIRST))
            view.add(change)
        weak = [hit for hides, hit, _ in rows if hides]
        strong = [hit for hides, hit, _ in rows if not hides]
        good, bad = (sum(hits) / max(len(hits), 1) for hits in (strong, weak))
        first = [hides for hides, hit, is_first in rows if hit and is_first]
        print(
            f"{repository}: {len(weak) / len(rows):.1%} of {len(rows)} rows are weak; "
            f"{bad:.1%} of these change along, {good:.1%} of the others; "
            f"{sum(first) / max(len(first), 1):.1%} of the hits among the first {FIRST} are hidden"
        )


if __name__ == "__main__":
    main()
