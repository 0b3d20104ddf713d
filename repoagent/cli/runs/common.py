"""What the commands of `repoagent runs` have in common."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from repoagent.cli.program.session import json_option
from repoagent.errors import RepoagentError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from repoagent.cli.program.session import Session
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.repo.worktree import WorkTree
    from repoagent.store import Layout
    from repoagent.work.home import Run

F = TypeVar("F", bound=Callable[..., Any])
VERSION = 1
ON_A_TERMINAL = 20  # runs; --all shows the others
STATES = """\b
States:
  running, paused       alive; paused by `runs pause`
  done, answered        it came to its end; answered: with words alone
  unfinished            the model stopped while something was left to do
  rejected              the model says that it is not to be done
  limit, failed         it ended by a limit, or by an error
  stopped, killed       by you; killed: without a word. It can be resumed
  elsewhere             on another machine, or copied from there
  conversation          only its conversation is here. It can be resumed
  unreadable            its run.json is broken, or of a newer repoagent"""


class Here(NamedTuple):
    """The repository a command is run in, and who it speaks to."""

    worktree: WorkTree
    layout: Layout
    terminal: Terminal
    cwd: Path

    def find(self, name: str) -> Run:
        """The run that the person means. Raises UsageError."""
        from repoagent.work.home import find

        return find(self.layout, name, warn=self.terminal.warn)

    def shown(self, path: Path) -> str:
        """A file of ours as the person can name it: from where they are, or whole where that is longer."""
        near = os.path.relpath(path, self.cwd)
        return near if len(near) < len(str(path)) else str(path)


def opened(session: Session) -> Here:
    """Open the repository here. Raises UsageError where there is none."""
    from repoagent.repo.worktree import layout, open_worktree

    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    place = layout(worktree)
    return Here(worktree, place, session.open(place)[1], cwd)


def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of runs that begin so, with what they were asked; nothing where there is no repository."""
    from click.shell_completion import CompletionItem

    from repoagent.cli.completing.values import runs

    try:
        return [CompletionItem(name, help=what) for name, what in runs(incomplete)]
    except (RepoagentError, OSError):
        return []


def list_options(command: F) -> F:
    """The options of the list, which the group takes too."""
    for option in (
        json_option,
        click.option("--all", "everything", is_flag=True, help="List all of them, on a terminal too."),
        click.option(
            "-n", "--limit", type=click.IntRange(min=1), metavar="N",
            help=f"List the newest N. [default: {ON_A_TERMINAL} on a terminal]",
        ),
        click.option("--live", is_flag=True, help="List only those that are running."),
    ):  # fmt: skip
        command = option(command)
    return command


run_argument = click.argument("run", metavar="RUN", shell_complete=complete)


def as_object(run: Run) -> dict[str, object]:
    """A run as JSON data: what `run.json` says, with the state as it is now and where its files are."""
    from repoagent.work.home.record import to_dict

    home = run.home
    return {
        **to_dict(run.record),
        "name": run.name,
        "state": run.state,
        "alive": run.alive,
        "problem": run.problem or None,
        "folder": str(home.folder),
        "conversation": str(home.conversation),
    }


def say(here: Here, runs: Iterable[Run], sentence: str, *, as_json: bool, **more: object) -> None:
    """What a command has done to `runs`: a sentence, or JSON data."""
    if as_json:
        from repoagent.work.home import refreshed

        found = [as_object(refreshed(run, warn=here.terminal.warn)) for run in runs]
        here.terminal.result(json.dumps({"version": VERSION, "runs": found, **more}, indent=2) + "\n")
    else:
        here.terminal.result(f"{sentence}\n")


def and_below(runs: list[Run]) -> str:
    """What else was asked beside the first: the runs that it has delegated."""
    more = len(runs) - 1
    return f" and {more} run{'s' * (more > 1)} that it delegated" if more else ""
