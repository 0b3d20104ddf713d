"""`repoagent mine`: read the history into its index."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.session import Session, json_option, pass_session
from repoagent.errors import Exit, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.git.worktree import WorkTree
    from repoagent.history.index.index import State


@click.command()
@click.option("--status", "only_status", is_flag=True, help="Show how far the index is; do nothing.")
@click.option("--rebuild", is_flag=True, help="Discard the index and start over.")
@click.option(
    "--since",
    metavar="DATE",
    help="Read back to this date only, as in git log --since; it is remembered.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.option("--background", is_flag=True, hidden=True)
@json_option
@pass_session
def command(
    session: Session,
    /,
    *,
    only_status: bool,
    rebuild: bool,
    since: str | None,
    quiet: bool,
    background: bool,
    as_json: bool,
) -> int | None:
    """Read the repository's history into an index, newest first, or the commits that are new since the last time.

    `repoagent neighbors` does it as well, a little at a time. It can be ended at any moment: what was mined stays, and
    the next time goes on from there. The index is .repoagent/history.db; it can be deleted.
    """
    from repoagent.cli import Ended
    from repoagent.git.worktree import layout, open_worktree
    from repoagent.history.index.index import open_index

    if background:
        os.setsid()  # a ^C or the end of the terminal is not meant for us
        os.nice(10)
    if only_status and (rebuild or since is not None):
        raise UsageError("--status only looks: leave it out to have the index made")
    worktree = open_worktree(Path.cwd())
    terminal = session.terminal()
    with open_index(worktree, warn=(lambda _: None) if quiet else terminal.warn) as index:
        if not only_status:
            index.resolve("HEAD")
            limit = 0 if since is None else _seconds(worktree, since)
            try:
                with _shown(terminal, worktree, quiet=quiet or as_json) as progress:
                    index.update(progress=progress, since=limit, rebuild=rebuild, insist=True)
            except Ended:
                raise
            except KeyboardInterrupt:
                if as_json:
                    raise
                terminal.note(
                    f"stopped; what was mined stays ({_line(index.state())}), and `repoagent mine` goes on"
                )
                return int(Exit.INTERRUPTED)
        state = index.state()
    if as_json:
        content = {
            "version": 1,
            "path": str(layout(worktree).history),
            **state._asdict(),
            "complete": state.complete,
        }
        terminal.result(json.dumps(content, indent=2) + "\n")
    elif not quiet:
        terminal.result(f"{_line(state)}\n")
    return None


def _line(state: State) -> str:
    import time

    if not state.commits and state.end == "mining":
        return "nothing is mined yet"
    how = {
        "whole": "complete",
        "mining": "older ones are still to be mined",
        "unreadable": "git could not read further back",
        "date": f"back to {time.strftime('%Y-%m-%d', time.gmtime(state.since or 0))} as told",
    }[state.end]
    ones = "new one is" if state.new == 1 else "new ones are"
    new = f", {state.new:,} {ones} not in it yet" if state.new else ""
    commits = f"{state.commits:,} commit{'s' * (state.commits != 1)}"
    return f"{commits} in the index, {how}{new} ({state.size / 1e6:.1f} MB)"


def _seconds(worktree: WorkTree, date: str) -> int:
    """What git takes a date for. It takes everything for one: what it does not understand is now."""
    import time

    from repoagent.git.process import git

    said = git(worktree.top, "rev-parse", f"--since={date}")
    seconds = int(said.strip().rpartition(b"=")[2])
    if seconds > time.time() - 2:
        raise UsageError(f"'{date}' is no date before now: say it as 2024-05-31 or '2 years ago'")
    return max(seconds, 1)


@contextmanager
def _shown(terminal: Terminal, worktree: WorkTree, *, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """A line on standard error that moves: commits done, rate, time left. Nothing where there is no terminal."""
    if quiet or not terminal.moves:
        yield None
        return
    import threading

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from repoagent.errors import RepoagentError
    from repoagent.git.process import git

    columns = (
        TextColumn("mining"),
        BarColumn(16),  # a line shorter than the terminal: the ^C that it echoes shall not begin another
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True, no_color=not terminal.color_err, highlight=False)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None, rate="")

        def count() -> None:
            try:
                total = int(git(worktree.top, "rev-list", "--count", "--no-merges", "HEAD", "--"))
            except (RepoagentError, OSError):
                return  # only the time left is not known then
            progress.update(task, total=total)

        threading.Thread(target=count, daemon=True).start()

        def advance(done: int) -> None:
            speed = progress.tasks[0].speed
            progress.update(task, completed=done, rate=f"{speed:,.0f}/s" if speed else "")

        yield advance
