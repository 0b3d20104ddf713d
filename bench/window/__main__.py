"""`python -m bench.window`: what a long run sends, and how much of it the provider's prompt cache has already.

Simulated runs of 60 to 200 steps, from seeds, through three ways to choose what is sent: the window of repoagent, a
sliding window that drops the oldest turns, and a summary that is made anew before each call. All send the same turns
(long results are in files already) with the same cache marks. Tokens are estimated, as for limits; `cost` counts an
input token as 1, one read from the cache as 0.1, one written to it as 1.25, and one of a reply that was asked for
beside the run as 5. The calls for checkpoints are among those counted.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from bench.window.cache import Cache
from bench.window.methods import METHODS, size
from bench.window.runs import simulated
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Usage

Figures = dict[str, float]
CACHED = "% cached"
COLUMNS = {"calls": 8, "checkpoints": 13, "sent": 14, "largest": 10, CACHED: 10, "cost": 13}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.window", description=__doc__)
    parser.add_argument("--runs", type=int, default=6, metavar="N", help="simulated runs for each window (6)")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument(
        "--context", type=int, nargs="+", default=[64_000, 128_000, 200_000], metavar="TOKENS"
    )
    options = parser.parse_args(arguments)
    for context in options.context:
        runs = [simulated(options.seed + number) for number in range(options.runs)]
        steps = sum(turn.role == "assistant" for run in runs for turn in run)
        print(f"\n{context:,} tokens, {len(runs)} runs, {steps} steps")
        found = {name: measured(name, runs, context) for name in METHODS}
        print(table(found), flush=True)


def measured(name: str, runs: Sequence[tuple[Turn, ...]], context: int) -> Figures:
    """The figures of one way over all runs."""
    usage, beside, checkpoints, calls, largest = Usage(), 0, 0, 0, 0
    for run in runs:
        sent = METHODS[name](run, context)
        cache = Cache()
        for request in sent.requests:
            usage += cache.sent(request)
            largest = max(largest, size(request))
        beside += sent.beside
        checkpoints += sent.checkpoints
        calls += len(sent.requests)
    cost = usage.input + 0.1 * usage.cache_read + 1.25 * usage.cache_write + 5 * beside
    return {
        "calls": calls, "checkpoints": checkpoints, "sent": usage.total, "largest": largest,
        CACHED: 100 * usage.cache_read / usage.total, "cost": cost,
    }  # fmt: skip


def table(found: Mapping[str, Figures]) -> str:
    names = "".join(f"{name:>{width}}" for name, width in COLUMNS.items())
    rows = [f"  {'':18}{names}   of repoagent: sent, cost"]
    base = found["repoagent"]
    for name, one in found.items():
        cells = [
            f"{one[column]:>{width}{'.1f' if column == CACHED else ',.0f'}}"
            for column, width in COLUMNS.items()
        ]
        ratios = f"{one['sent'] / base['sent']:>8.2f} x {one['cost'] / base['cost']:>8.2f} x"
        rows.append(f"  {name:18}{''.join(cells)}   {ratios}")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
