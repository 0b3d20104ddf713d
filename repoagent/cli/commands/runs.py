"""What the commands of `repoagent runs` have in common.

`repoagent runs`: the group of its commands, a module for each. Without a command it lists them.

`repoagent runs list`: live and past runs at a glance.

The table of runs, as a person reads it: each child below its parent, fitted to the terminal.

`repoagent runs delete`: remove a past run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import click

from repoagent.cli.app import LazyGroup
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.cli.ui.sanitize import one_line, paint
from repoagent.cli.ui.table import Cell, Column, ago, table
from repoagent.errors import Busy, Exit, NothingDone, RepoagentError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from repoagent.cli.ui.terminal import Terminal
    from repoagent.git.worktree import WorkTree
    from repoagent.storage.layout import Layout
    from repoagent.tasks.runs.list import Run

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
        from repoagent.tasks.runs.list import find

        return find(self.layout, name, warn=self.terminal.warn)

    def shown(self, path: Path) -> str:
        """A file of ours as the person can name it: from where they are, or whole where that is longer."""
        near = os.path.relpath(path, self.cwd)
        return near if len(near) < len(str(path)) else str(path)


def opened(session: Session) -> Here:
    """Open the repository here. Raises UsageError where there is none."""
    from repoagent.git.worktree import layout, open_worktree

    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    place = layout(worktree)
    return Here(worktree, place, session.open(place)[1], cwd)


def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of runs that begin so, with what they were asked; nothing where there is no repository."""
    from click.shell_completion import CompletionItem

    from repoagent.cli.completion import runs

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
    from repoagent.tasks.runs.record import to_dict

    run_dir = run.run_dir
    return {
        **to_dict(run.record),
        "name": run.name,
        "state": run.state,
        "alive": run.alive,
        "problem": run.problem or None,
        "folder": str(run_dir.folder),
        "conversation": str(run_dir.conversation),
    }


def say(here: Here, runs: Iterable[Run], sentence: str, *, as_json: bool, **more: object) -> None:
    """What a command has done to `runs`: a sentence, or JSON data."""
    if as_json:
        from repoagent.tasks.runs.list import refreshed

        found = [as_object(refreshed(run, warn=here.terminal.warn)) for run in runs]
        here.terminal.result(json.dumps({"version": VERSION, "runs": found, **more}, indent=2) + "\n")
    else:
        here.terminal.result(f"{sentence}\n")


def and_below(runs: list[Run]) -> str:
    """What else was asked beside the first: the runs that it has delegated."""
    more = len(runs) - 1
    return f" and {more} run{'s' * (more > 1)} that it delegated" if more else ""


__all__ = ["command"]

# name: (where its click command stands, what it does in one line)
COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("repoagent.cli.commands.runs:list_command", "List runs, newest first."),
    "show": ("repoagent.cli.commands.runs_show:command", "Show the progress, plan and last words of a run."),
    "message": (
        "repoagent.cli.commands.runs_control:message_command",
        "Send a message to a run while it works.",
    ),
    "pause": ("repoagent.cli.commands.runs_control:pause", "Pause a run before its next model call."),
    "resume": ("repoagent.cli.commands.runs_control:resume", "Continue a paused run."),
    "stop": (
        "repoagent.cli.commands.runs_control:stop_command",
        "Stop a run before its next model call, or now.",
    ),
    "wait": (
        "repoagent.cli.commands.runs_control:wait_command",
        "Wait for the end of a run, and exit with its code.",
    ),
    "diff": ("repoagent.cli.commands.runs_control:diff", "Show the uncommitted changes of a run."),
    "restore": (
        "repoagent.cli.commands.runs_control:restore_command",
        "Undo the uncommitted changes of a run.",
    ),
    "delete": ("repoagent.cli.commands.runs:delete_command", "Remove a past run."),
}

EXAMPLES = f"""\b
Examples:
  repoagent runs
  repoagent runs show last
  repoagent runs message last "leave the tests as they are"
  repoagent runs stop 3fa9c1

A RUN is named by its name, by the last part of a name that was not given by
you, by the beginning of one of these, or as `last`: the newest that no other
run delegated.

{STATES}"""


class RunsGroup(LazyGroup):
    table: ClassVar[Mapping[str, tuple[str, str]]] = COMMANDS


@click.group(
    cls=RunsGroup, epilog=EXAMPLES, subcommand_metavar="[COMMAND] [ARGS]...", invoke_without_command=True
)
@list_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int | None:
    """Show runs of tasks, live and past, and steer those that are alive.

    Without a command, list them.
    """
    if ctx.invoked_subcommand is not None:
        return None
    code: int = ctx.invoke(list_command, **options)
    return code


LIST_EXAMPLES = f"""\b
Examples:
  repoagent runs list --live
  repoagent runs list --json | jq -r '.runs[].name'

{STATES}"""


@click.command("list", epilog=LIST_EXAMPLES)
@list_options
@pass_session
def list_command(
    session: Session, /, *, live: bool, limit: int | None, everything: bool, **options: Any
) -> int:
    """List runs, those that began last first, each one that was delegated below its parent."""
    from repoagent.tasks.runs.list import runs

    here = opened(session)
    found = runs(here.layout, warn=here.terminal.warn)
    if live:
        found = [run for run in found if run.alive]
    as_json = options["as_json"]
    if limit is None and here.terminal.shows and not (as_json or everything):
        limit = ON_A_TERMINAL
    shown = found[:limit]
    if as_json:
        content = {"version": VERSION, "runs": [as_object(run) for run in shown], "of": len(found)}
        here.terminal.result(json.dumps(content, indent=2) + "\n")
    elif found:
        _show(here, shown)
        if len(found) > len(shown):
            here.terminal.note(f"and {len(found) - len(shown):,} older: --all lists them too", "dim")
    elif live:
        here.terminal.note("no run is alive")
    else:
        raise NothingDone('there is no run here yet: `repoagent run "TASK"` begins one')
    return Exit.DONE if found else Exit.NOTHING


def _show(here: Here, found: list[Run]) -> None:
    from repoagent.cli.ui.terminal import has_utf8
    from repoagent.tasks.runs.list import tree

    terminal = here.terminal
    wide = terminal.width if terminal.shows else None
    text = lines(tree(found), wide, color=terminal.color, utf8=has_utf8(os.environ))
    terminal.styled("".join(f"{line}\n" for line in text))


COLUMNS = (
    Column("run", cut="middle", least=16),
    Column("began"),
    Column("state"),
    Column("turns", right=True, dropped=3),
    Column("cost", right=True, dropped=1),
    Column("asked", cut="end", least=22),
    Column("now, or how it ended", cut="end", least=22, dropped=2),
)
_BRIEF = 110  # columns, below which it says "2h", not "2 hours ago"
_STYLES = {
    "running": "cyan",
    "paused": "yellow",
    "done": "green",
    "answered": "green",
    "unfinished": "yellow",
    "rejected": "yellow",
    "limit": "yellow",
    "stopped": "yellow",
    "failed": "red",
    "killed": "red",
    "unreadable": "red",
}
_SIGNS = {
    "running": "●", "paused": "‖", "done": "✓", "answered": "✓", "unfinished": "–", "rejected": "–", "limit": "◆",
    "stopped": "■", "failed": "✗", "killed": "✗", "elsewhere": "?", "conversation": "·", "unreadable": "!",
}  # fmt: skip
_PLAIN = {
    "running": ">", "paused": "=", "done": "+", "answered": "+", "unfinished": "-", "rejected": "-", "limit": "#",
    "stopped": "#", "failed": "x", "killed": "x", "elsewhere": "?", "conversation": ".", "unreadable": "!",
}  # fmt: skip


def state_of(run: Run, *, utf8: bool, color: bool) -> str:
    """The state with its sign, painted."""
    text = f"{(_SIGNS if utf8 else _PLAIN)[run.state]} {run.state}"
    return paint(text, _STYLES[run.state]) if color and run.state in _STYLES else text


def cost_of(run: Run) -> str:
    """What it cost, as far as that is known."""
    from repoagent.llm.usage import cost_text

    record = run.record
    if record.cost is None:
        return "?"
    return cost_text(record.cost) if record.cost < 1 else f"${record.cost:,.2f}"


def how(run: Run) -> str:
    """What it does now, or how it ended, in a line."""
    record = run.record
    if run.problem or run.alive:
        return one_line(run.problem or record.doing)
    if run.state == "elsewhere":
        return one_line(f"on {record.host or 'another machine'}")
    if run.state == "killed":
        return one_line(f"was at: {record.doing}" if record.doing else "")
    return one_line(next(iter(record.text.splitlines()), ""))


def lines(rows: Sequence[tuple[int, Run]], wide: int | None, *, color: bool, utf8: bool) -> Iterator[str]:
    """The lines of the table in `wide` columns, None for as many as it takes."""
    brief = wide is not None and wide < _BRIEF
    cells = [_cells(depth, run, utf8=utf8, brief=brief) for depth, run in rows]
    return table(COLUMNS, cells, wide, color=color, ellipsis="…" if utf8 else "...")


def _cells(depth: int, run: Run, *, utf8: bool, brief: bool) -> tuple[Cell, ...]:
    below = "  " * (depth - 1) + ("└ " if utf8 else "` ") if depth else ""
    style = _STYLES.get(run.state)
    return (
        (below + one_line(run.short),),
        (ago(max(0.0, time.time() - run.begun), short=brief) if run.begun else "",),
        (state_of(run, utf8=utf8, color=False), *([style] if style else [])),
        (f"{run.record.turns:,}" if run.record.turns else "",),
        (cost_of(run) if run.record.tokens else "",),
        (one_line(run.record.prompt) or how(run),),
        (how(run) if run.record.prompt else "",),
    )


DELETE_EXAMPLES = """\b
Examples:
  repoagent runs delete 3fa9c1
  repoagent runs delete 3fa9c1 --yes
  repoagent runs delete --undo run-20261122-171500-3fa9c1

Its folder is removed for good, with its plan and the output of its commands.
The conversation is put away, and --undo with the whole name brings it back; one
that you gave a name yourself stays. What the run has committed stays. A linked
work tree that was made for it goes when all in it is committed, and its branch
when its commits are on others, too."""


@click.command("delete", epilog=DELETE_EXAMPLES)
@run_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--undo", "back", is_flag=True, help="Restore the conversation of a deleted run.")
@json_option
@pass_session
def delete_command(session: Session, /, *, run: str, yes: bool, back: bool, as_json: bool) -> None:
    """Remove the past run RUN. One that is alive is not touched."""
    from repoagent.tasks.runs.control import bring_back, delete
    from repoagent.tasks.runs.directory import goes_on
    from repoagent.tasks.runs.list import find
    from repoagent.tasks.runs.record import first_line
    from repoagent.tasks.worktree import clear_away

    here = opened(session)
    if back:
        run_dir = bring_back(here.layout, here.worktree, run, warn=here.terminal.warn)
        found = find(here.layout, run_dir.name, warn=here.terminal.warn)
        more = f"`{goes_on(run_dir.name, found.record.kind)}` goes on with it"
        say(here, [found], f"the conversation of {run_dir.name} is back; {more}", as_json=as_json)
        return
    found = here.find(run)
    if found.alive:
        raise Busy(f"{found.name} is alive: `repoagent runs stop {found.short}` first, then delete it")
    if not yes:
        if not here.terminal.can_ask:
            raise UsageError(f"say --yes to delete {found.name}")
        about = f": {first_line(found.record.prompt, 40)}" if found.record.prompt else ""
        question = one_line(f"Delete {found.name} ({found.state}{about})")
        if here.terminal.ask(question, {"y": "delete it", "n": "leave it"}) == "n":
            raise NothingDone(f"{found.name} stays")
    branch = clear_away(here.worktree, found.name, found.record.worktree, found.record.branch)
    put_away = delete(found)
    more = f"; {branch}" if branch else ""
    if put_away:
        more += f"; `repoagent runs delete --undo {found.name}` brings its conversation back"
    say(
        here, [], f"deleted {found.name}{more}", as_json=as_json, deleted=found.name, conversation_put_away=put_away
    )  # fmt: skip
