"""Measure mining, updating and querying the index of a history: `python -m bench.history REPOSITORY...`.

Mining alternates with `git log --raw -z` in the same clone, which detects renames alike and writes into a
pipe; the command alternates with a bare click program that runs one `git rev-parse`. Clones share the objects of the
given repositories, which are only read. Times are medians.
"""

from __future__ import annotations

import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.options import options
from bench.repositories import CACHE, environment, git
from bench.timing import Ran, run
from repoagent.git.worktree import open_worktree
from repoagent.history.cochange import COMMITS, PARTNER_COMMITS, PARTNERS, rank_neighbors
from repoagent.history.index.index import HistoryIndex, open_index

BARE = """\
import click, subprocess
@click.command()
def main():
    subprocess.run(["git", "rev-parse", "HEAD"])
main()
"""
STREAM = ("--no-merges", "--raw", "-z", "--no-abbrev", "-M", "-l400", "--format=%H %ct %an <%ae>")
PROGRAM = str(Path(sys.executable).with_name("repoagent"))
NEW = 100  # commits of an update
PAIRS = 25  # alternating runs of the command and the bare program


def main(arguments: Sequence[str] | None = None) -> None:
    args = options(
        "bench.history", __doc__, arguments,
        REPOSITORIES=(Path, "repositories with full history", {"nargs": "+"}), runs=(3, "measured runs"),
    )  # fmt: skip
    for source in args.repositories:
        top = _clone(source.resolve())
        print(
            f"\n{source.resolve().parent.name}: {int(git(top, 'rev-list', '--count', '--no-merges', 'HEAD')):,} commits"
        )
        for line in (*_mining(top, args.runs), *_updating(top, args.runs), *_querying(top)):
            print(f"  {line}", flush=True)


def _mining(top: Path, runs: int) -> list[str]:
    """Compare mining with `git log`, alternating so that other load on the machine affects both."""
    bare, ours = [], []
    for _ in range(runs):
        bare.append(
            run(["sh", "-c", f"git log {shlex.join(STREAM)} | cat"], top, environment(), seconds=3600)
        )
        shutil.rmtree(top / ".repoagent", ignore_errors=True)
        ours.append(run([PROGRAM, "mine", "--quiet"], top, environment(), seconds=3600))
    size = (top / ".repoagent/history.db").stat().st_size
    commits = int(git(top, "rev-list", "--count", "--no-merges", "HEAD"))

    def ratio(figure: Callable[[Ran], float]) -> str:
        mine, git_log = (statistics.median(map(figure, results)) for results in (ours, bare))
        return f"{mine / git_log:.2f}  ({mine / 1000:.2f} s / {git_log / 1000:.2f} s)"

    return [
        f"mining / git log, wall       {ratio(lambda ran: ran.wall_ms)}",
        f"mining / git log, CPU        {ratio(lambda ran: ran.cpu_ms)}",
        f"peak memory of repoagent     {max(ran.peak_mb for ran in ours):.0f} MB",
        f"size per 10,000 commits      {size / 1e6 / commits * 1e4:.2f} MB",
    ]


def _updating(top: Path, runs: int) -> list[str]:
    """Measure adding NEW commits to an index of all earlier ones."""
    worktree = open_worktree(top)
    tips = git(
        top, "rev-list", "--first-parent", "--no-merges", f"--max-count={NEW * (runs + 2)}", "HEAD"
    ).split()[::-1]
    times = []
    shutil.rmtree(top / ".repoagent", ignore_errors=True)
    with open_index(worktree) as index:
        index.update(tips[NEW - 1], head=True)
    for before, after in zip(tips[NEW - 1 :: NEW], tips[2 * NEW - 1 :: NEW], strict=False):
        with open_index(worktree) as index:
            known = index.state(before).commits
        started = time.perf_counter()
        with open_index(worktree) as index:
            state = index.update(after, head=True)
        times.append((time.perf_counter() - started) * 1000 / (state.commits - known) * NEW)
    with open_index(worktree) as index:
        index.update()
    return [f"{NEW} new commits              {statistics.median(times):.0f} ms"]


def _querying(top: Path) -> list[str]:
    """Measure opening the index and, for the most changed file, its queries, `rank_neighbors()` and the command."""
    worktree = open_worktree(top)
    busiest = _busiest(top)
    started = time.perf_counter()
    with open_index(worktree) as index:
        index.update()
        view = index.view()
        opened = (time.perf_counter() - started) * 1000
        file = view.file(busiest)
        assert file is not None
        lines = [f"opening, nothing to update   {opened:.1f} ms"]
        lines += [
            f"queries of the index alone, {busiest.decode(errors='replace')}: {_query(index, file):.2f} ms"
        ]
        cpu_times = []
        for _ in range(20):
            fresh = index.view()
            started = time.process_time()
            rank_neighbors(fresh, [file], [busiest])
            cpu_times.append((time.process_time() - started) * 1000)
        lines.append(f"neighbors(), the same file   {statistics.median(cpu_times):.2f} ms of CPU")
    bare = Path(CACHE / "bare_click.py")
    bare.write_text(BARE)
    command = [PROGRAM, "neighbors", busiest.decode("utf-8", "surrogateescape")]
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(PAIRS):
        times["bare"].append(run([sys.executable, str(bare)], top, environment()).cpu_ms)
        times["ours"].append(run(command, top, environment()).cpu_ms)
    ours, other = (statistics.median(times[name]) for name in ("ours", "bare"))
    lines.append(f"repoagent neighbors / bare click and git rev-parse, CPU   {ours / other:.2f}")
    return lines


def _query(index: HistoryIndex, file: int) -> float:
    times = []
    for _ in range(20):
        view = index.view()
        started = time.perf_counter()
        partners: dict[int, None] = {}
        for commit in view.commits(file, COMMITS):
            partners.update(dict.fromkeys(commit.files))
        view.many(list(partners)[:PARTNERS], PARTNER_COMMITS)
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def _busiest(top: Path) -> bytes:
    alive = set(git(top, "ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0"))
    counts: dict[str, int] = {}
    for path in git(
        top, "log", "--no-merges", "--format=", "--name-only", "-z", "--no-renames", "HEAD"
    ).split("\0"):
        counts[path] = counts.get(path, 0) + 1
    return max((path for path in counts if path in alive and path), key=lambda path: counts[path]).encode(
        "utf-8", "surrogateescape"
    )


def _clone(source: Path) -> Path:
    top = CACHE / "history" / source.parent.name
    if not (top / ".git").exists():
        top.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["git", "clone", "-q", "--shared", "--no-checkout", str(source), str(top)],
            check=True,
            env=environment(),
        )
    return top


if __name__ == "__main__":
    main()
