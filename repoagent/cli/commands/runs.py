"""`repoagent runs`: the group, what its commands share, and `list` (the default) and `delete`.

The other commands are in runs_show (show) and runs_control (message, pause, resume, stop, wait, diff, restore).
"""

from __future__ import annotations

import json
import os
import re
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
  done, answered        finished; answered: with a message and no change
  unfinished            the model stopped before the task was done
  rejected              the model refused the task
  limit, failed         ended by a limit or an error
  stopped, killed       stopped by you, or its process died; resumable
  elsewhere             on another machine, or copied from there
  conversation          only its conversation is here; resumable
  unreadable            its run.json is broken or from a newer repoagent"""


class RunsCommand(NamedTuple):
    """The repository and the terminal of a command."""

    worktree: WorkTree
    layout: Layout
    terminal: Terminal
    cwd: Path

    def find(self, name: str) -> Run:
        """The run that `name` names. Raises UsageError."""
        from repoagent.tasks.runs.list import find

        return find(self.layout, name, warn=self.terminal.warn)

    def shown(self, path: Path) -> str:
        """The path of one of our files: relative to the current folder or, if shorter, absolute."""
        near = os.path.relpath(path, self.cwd)
        return near if len(near) < len(str(path)) else str(path)


def opened(session: Session) -> RunsCommand:
    """Open the current repository. Raises UsageError outside one."""
    from repoagent.git.worktree import layout, open_worktree

    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    place = layout(worktree)
    return RunsCommand(worktree, place, session.open(place)[1], cwd)


def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of runs with this prefix, with their prompts; none outside a repository."""
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
        click.option("--all", "everything", is_flag=True, help="List all runs, on a terminal too."),
        click.option(
            "-n", "--limit", type=click.IntRange(min=1), metavar="N",
            help=f"List the newest N. [default: {ON_A_TERMINAL} on a terminal]",
        ),
        click.option("--live", is_flag=True, help="List only runs that are alive."),
    ):  # fmt: skip
        command = option(command)
    return command


run_argument = click.argument("run", metavar="RUN", shell_complete=complete)


def as_object(run: Run) -> dict[str, object]:
    """A run as JSON data: its `run.json`, its current state and its files."""
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


def report(here: RunsCommand, runs: Iterable[Run], sentence: str, *, as_json: bool, **more: object) -> None:
    """Report what a command did to `runs`: a sentence, or JSON."""
    if as_json:
        from repoagent.tasks.runs.list import refreshed

        found = [as_object(refreshed(run, warn=here.terminal.warn)) for run in runs]
        here.terminal.result(json.dumps({"version": VERSION, "runs": found, **more}, indent=2) + "\n")
    else:
        here.terminal.result(f"{sentence}\n")


def and_below(runs: list[Run]) -> str:
    """\" and 2 runs that it delegated\", for the runs after the first."""
    more = len(runs) - 1
    return f" and {more} run{'s' * (more > 1)} that it delegated" if more else ""


__all__ = ["command"]

# name: (its click command, its short help)
COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("repoagent.cli.commands.runs:list_command", "List runs, newest first."),
    "show": ("repoagent.cli.commands.runs_show:command", "Show the progress, plan and last turns of a run."),
    "message": (
        "repoagent.cli.commands.runs_control:message_command",
        "Send a message to a live run.",
    ),
    "pause": ("repoagent.cli.commands.runs_control:pause", "Pause a run before its next model call."),
    "resume": ("repoagent.cli.commands.runs_control:resume", "Continue a paused run."),
    "stop": (
        "repoagent.cli.commands.runs_control:stop_command",
        "Stop a run before its next model call, or at once.",
    ),
    "wait": (
        "repoagent.cli.commands.runs_control:wait_command",
        "Wait for a run to end, and exit with its code.",
    ),
    "diff": ("repoagent.cli.commands.runs_control:diff", "Show the uncommitted changes of a run."),
    "restore": (
        "repoagent.cli.commands.runs_control:restore_command",
        "Undo the uncommitted changes of a run.",
    ),
    "delete": ("repoagent.cli.commands.runs:delete_command", "Delete a past run."),
}

EXAMPLES = f"""\b
Examples:
  repoagent runs
  repoagent runs show last
  repoagent runs message last "leave the tests as they are"
  repoagent runs stop 3fa9c1

RUN is a name, the last part of a generated name, a prefix of either, or `last`
for the newest run that no other run delegated.

{STATES}"""


class RunsGroup(LazyGroup):
    table: ClassVar[Mapping[str, tuple[str, str]]] = COMMANDS


@click.group(
    cls=RunsGroup, epilog=EXAMPLES, subcommand_metavar="[COMMAND] [ARGS]...", invoke_without_command=True
)
@list_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int | None:
    """Show the runs of tasks, live and past, and control those that are alive.

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
    """List runs, newest first, delegated runs below their parents."""
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
            here.terminal.note(f"and {len(found) - len(shown):,} older; list them with --all", "dim")
    elif live:
        here.terminal.note("no live runs")
    else:
        raise NothingDone('no runs yet; start one with `repoagent run "TASK"`')
    return Exit.DONE if found else Exit.NOTHING


def _show(here: RunsCommand, found: list[Run]) -> None:
    from repoagent.cli.ui.terminal import has_utf8
    from repoagent.tasks.runs.list import tree

    terminal = here.terminal
    wide = terminal.width if terminal.shows else None
    text = lines(tree(found), wide, color=terminal.color, utf8=has_utf8(os.environ))
    terminal.styled("".join(f"{line}\n" for line in text))


COLUMNS = (
    Column("run", cut="middle", least=16),
    Column("started"),
    Column("state"),
    Column("turns", right=True, dropped=3),
    Column("cost", right=True, dropped=1),
    Column("task", cut="end", least=22),
    Column("status", cut="end", least=22, dropped=2),
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


_MARKS = re.compile(r"\*\*|__(?=\S)|(?<=\S)__|`|^#{1,6} ")  # Markdown, which a table shows raw


def state_of(run: Run, *, utf8: bool, color: bool) -> str:
    """The state with its sign, painted."""
    text = f"{(_SIGNS if utf8 else _PLAIN)[run.state]} {run.state}"
    return paint(text, _STYLES[run.state]) if color and run.state in _STYLES else text


def cost_of(run: Run) -> str:
    """Its cost, "?" if unknown."""
    from repoagent.llm.usage import cost_text

    record = run.record
    if record.cost is None:
        return "?"
    return cost_text(record.cost) if record.cost < 1 else f"${record.cost:,.2f}"


def status_line(run: Run) -> str:
    """What it is doing, or how it ended, in a line."""
    record = run.record
    if run.problem or run.alive:
        return one_line(run.problem or record.doing)
    if run.state == "elsewhere":
        return one_line(f"on {record.host or 'another machine'}")
    if run.state == "killed":
        return one_line(f"last: {record.doing}" if record.doing else "")
    return _MARKS.sub("", one_line(next(iter(record.text.splitlines()), "")))


def lines(rows: Sequence[tuple[int, Run]], wide: int | None, *, color: bool, utf8: bool) -> Iterator[str]:
    """The lines of the table, in `wide` columns (None: as many as needed)."""
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
        (one_line(run.record.prompt) or status_line(run),),
        (status_line(run) if run.record.prompt else "",),
    )


DELETE_EXAMPLES = """\b
Examples:
  repoagent runs delete 3fa9c1
  repoagent runs delete 3fa9c1 --yes
  repoagent runs delete --undo run-20261122-171500-3fa9c1

This deletes its folder for good, with its plan and the output of its commands.
The conversation is archived, and --undo with the full name restores it; a
conversation that you named stays. Commits stay. A linked work tree of the run
is removed if everything in it is committed, and its branch if other branches
have its commits."""


@click.command("delete", epilog=DELETE_EXAMPLES)
@run_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--undo", "back", is_flag=True, help="Restore the conversation of a deleted run.")
@json_option
@pass_session
def delete_command(session: Session, /, *, run: str, yes: bool, back: bool, as_json: bool) -> None:
    """Delete the past run RUN; a run that is alive is refused."""
    from repoagent.tasks.runs.control import delete, restore_conversation
    from repoagent.tasks.runs.directory import resume_command
    from repoagent.tasks.runs.list import find
    from repoagent.tasks.runs.record import first_line
    from repoagent.tasks.worktree import delete_linked

    here = opened(session)
    if back:
        run_dir = restore_conversation(here.layout, here.worktree, run, warn=here.terminal.warn)
        found = find(here.layout, run_dir.name, warn=here.terminal.warn)
        more = f"resume it with `{resume_command(run_dir.name, found.record.kind)}`"
        report(here, [found], f"restored the conversation of {run_dir.name}; {more}", as_json=as_json)
        return
    found = here.find(run)
    if found.alive:
        raise Busy(f"{found.name} is alive; stop it first with `repoagent runs stop {found.short}`")
    if not yes:
        if not here.terminal.can_ask:
            raise UsageError(f"use --yes to delete {found.name}")
        about = f": {first_line(found.record.prompt, 40)}" if found.record.prompt else ""
        question = one_line(f"Delete {found.name} ({found.state}{about})")
        if here.terminal.ask(question, {"y": "delete it", "n": "keep it"}) == "n":
            raise NothingDone(f"{found.name} was not deleted")
    branch = delete_linked(here.worktree, found.name, found.record.worktree, found.record.branch)
    put_away = delete(found)
    more = f"; {branch}" if branch else ""
    if put_away:
        more += f"; restore its conversation with `repoagent runs delete --undo {found.name}`"
    report(
        here, [], f"deleted {found.name}{more}", as_json=as_json, deleted=found.name, conversation_put_away=put_away
    )  # fmt: skip
