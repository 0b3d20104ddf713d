"""`repoagent mine`: index the history."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.session import Session, json_option, pass_session, write_json
from repoagent.errors import Exit, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.git.worktree import WorkTree
    from repoagent.history.index.index import State


@click.command()
@click.option("--status", "only_status", is_flag=True, help="Show the state of the index; do nothing.")
@click.option("--rebuild", is_flag=True, help="Discard the index and start over.")
@click.option(
    "--since", metavar="DATE", help="Index commits since DATE only, as git log --since does, now and later."
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
    """Index the history of the repository, newest commits first, or the commits since the last time.

    `repoagent neighbors` also does this, step by step. You can interrupt it at any time and continue later. The index
    is .repoagent/history.db; you may delete it.
    """
    from repoagent.cli import Ended
    from repoagent.git.worktree import layout, open_worktree
    from repoagent.history.index.index import open_index

    if background:
        os.setsid()  # ignore ^C and the end of the terminal
        os.nice(10)
    if only_status and (rebuild or since is not None):
        raise UsageError("--status cannot be combined with --rebuild or --since")
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
                terminal.note(f"interrupted ({_line(index.state())}); continue with `repoagent mine`")
                return int(Exit.INTERRUPTED)
        state = index.state()
    if as_json:
        path = str(layout(worktree).history)
        write_json(terminal, {"path": path, **state._asdict(), "complete": state.complete})
    elif not quiet:
        terminal.result(f"{_line(state)}\n")
    return None


def _line(state: State) -> str:
    import time

    if not state.commits and state.end == "mining":
        return "no commits indexed yet"
    how = {
        "whole": "complete",
        "mining": "older commits to follow",
        "unreadable": "git could not read older commits",
        "date": f"since {time.strftime('%Y-%m-%d', time.gmtime(state.since or 0))}",
    }[state.end]
    new = f", {state.new:,} new to index" if state.new else ""
    commits = f"{state.commits:,} commit{'s' * (state.commits != 1)}"
    return f"{commits} indexed, {how}{new} ({state.size / 1e6:.1f} MB)"


def _seconds(worktree: WorkTree, date: str) -> int:
    """A date as git reads it, in Unix seconds. git reads an unknown date as now, which raises UsageError."""
    import time

    from repoagent.git.process import git

    said = git(worktree.top, "rev-parse", f"--since={date}")
    seconds = int(said.strip().rpartition(b"=")[2])
    if seconds > time.time() - 2:
        raise UsageError(f"invalid date '{date}': use one in the past, such as 2024-05-31 or '2 years ago'")
    return max(seconds, 1)


@contextmanager
def _shown(terminal: Terminal, worktree: WorkTree, *, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """A progress bar on standard error; none without a terminal."""
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
