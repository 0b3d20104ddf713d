"""`repoagent mine`: index the history."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.session import Session, json_option, pass_session, write_json
from repoagent.display_text import plural
from repoagent.errors import Exit

if TYPE_CHECKING:
    from repoagent.history.index.index import State


@click.command()
@click.option("--rebuild", is_flag=True, help="Discard the index and start over.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.option("--background", is_flag=True, hidden=True)
@json_option
@pass_session
def command(
    session: Session, /, *, rebuild: bool, quiet: bool, background: bool, as_json: bool
) -> int | None:
    """Index the repository's history, newest commits first; later runs index only what is new.

    `repoagent neighbors` also does this, in small steps. You can interrupt it at any time and continue later. The index
    is .repoagent/history.db; you may delete it.
    """
    from repoagent.cli import Ended
    from repoagent.git.worktree import layout, open_worktree
    from repoagent.history.index.index import open_index

    if background:
        os.setsid()  # not ended by ^C or when the terminal is closed
        os.nice(10)
    worktree = open_worktree(Path.cwd())
    terminal = session.terminal()
    with open_index(worktree, warn=(lambda _: None) if quiet else terminal.warn) as index:
        index.resolve("HEAD")
        silent = quiet or as_json or not terminal.moves
        try:
            with nullcontext() if silent else terminal.working("mining") as working:

                def show_progress(done: int) -> None:
                    if working is not None:
                        working.progress(f"mining: {done:,} commits")

                index.update(progress=show_progress, rebuild=rebuild, insist=True)
        except Ended:
            raise
        except KeyboardInterrupt:
            if as_json:
                raise
            terminal.note(f"interrupted ({_line(index.state())}); continue with `repoagent mine`")
            return int(Exit.INTERRUPTED)
        state = index.state()
    if as_json:
        content = {"path": layout(worktree).history, **state._asdict(), "complete": state.complete}
        write_json(terminal, content)
    elif not quiet:
        terminal.result(f"{_line(state)}\n")
    return None


def _line(state: State) -> str:
    how = {
        "whole": "complete",
        "mining": "older commits to follow",
        "unreadable": "git could not read older commits",
    }[state.end]
    new = f", {state.new:,} new to index" if state.new else ""
    return f"{plural(state.commits, 'commit')} indexed, {how}{new} ({state.size / 1e6:.1f} MB)"
