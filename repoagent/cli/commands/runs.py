"""`repoagent runs`: the group, what its commands share, and `list` (the default), `show` and `delete`.

runs_control has the others: message, pause, resume, stop, wait, diff and restore.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from repoagent.cli.app import LazyGroup
from repoagent.cli.repository import Repository, open_repository
from repoagent.cli.session import Session, json_option, pass_session, write_json
from repoagent.cli.ui.output_style import Page, plural
from repoagent.cli.ui.table import Cell, Column, ago
from repoagent.cli.ui.terminal_text import clean, one_line
from repoagent.errors import Busy, Exit, NothingDone, Refused, RepoagentError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from repoagent.llm.conversation import Turn
    from repoagent.tasks.runs.list import Run

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])
_ON_A_TERMINAL = 20  # runs; --all shows the others
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


def find(repo: Repository, name: str) -> Run:
    """The run that `name` names. Raises UsageError."""
    from repoagent.tasks.runs.list import find

    return find(repo.layout, name, warn=repo.terminal.warn)


def find_ended(repo: Repository, name: str) -> Run:
    """The run that `name` names. Raises Busy if it is alive."""
    run = find(repo, name)
    if run.is_live:
        raise Busy(f"{run.name} is alive; stop it first with `repoagent runs stop {run.short}`")
    return run


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
            help=f"List the newest N. [default: {_ON_A_TERMINAL} on a terminal]",
        ),
        click.option("--live", is_flag=True, help="List only runs that are alive."),
    ):  # fmt: skip
        command = option(command)
    return command


run_argument = click.argument("run", metavar="RUN", shell_complete=complete)


def _as_object(run: Run) -> dict[str, object]:
    """A run as JSON data: its `run.json`, its current state and its files."""
    from repoagent.tasks.runs.record import to_dict

    run_dir = run.run_dir
    return {
        **to_dict(run.record),
        "name": run.name,
        "state": run.state,
        "live": run.is_live,
        "problem": run.problem or None,
        "folder": str(run_dir.folder),
        "conversation": str(run_dir.conversation),
    }


def report(repo: Repository, runs: Iterable[Run], sentence: str, *, as_json: bool, **more: object) -> None:
    """Report what a command did to `runs`: a sentence, or JSON."""
    if not as_json:
        repo.terminal.result(f"{sentence}\n")
        return
    from repoagent.tasks.runs.list import refreshed

    rows = [_as_object(refreshed(run, warn=repo.terminal.warn)) for run in runs]
    write_json(repo.terminal, {"runs": rows, **more})


def and_below(runs: list[Run]) -> str:
    """\" and 2 runs that it delegated\", for the runs after the first."""
    return f" and {plural(len(runs) - 1, 'run')} that it delegated" if len(runs) > 1 else ""


# name: (its click command, its short help)
COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("runs:list_command", "List runs, newest first."),
    "show": ("runs:show_command", "Show the progress, plan and last turns of a run."),
    "message": ("runs_control:message_command", "Send a message to a live run."),
    "pause": ("runs_control:pause", "Pause a run before its next model call."),
    "resume": ("runs_control:resume", "Continue a paused run."),
    "stop": ("runs_control:stop_command", "Stop a run before its next model call, or at once."),
    "wait": ("runs_control:wait_command", "Wait for a run to end, and exit with its code."),
    "diff": ("runs_control:diff", "Show the uncommitted changes of a run."),
    "restore": ("runs_control:restore_command", "Undo the uncommitted changes of a run."),
    "delete": ("runs:delete_command", "Delete a past run."),
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


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    epilog=EXAMPLES,
    subcommand_metavar="[COMMAND] [ARGS]...",
    invoke_without_command=True,
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
    from repoagent.tasks.runs.list import runs, tree

    repo = open_repository(session)
    terminal, as_json = repo.terminal, options["as_json"]
    listed = [run for run in runs(repo.layout, warn=terminal.warn) if run.is_live or not live]
    if limit is None and terminal.shows and not (as_json or everything):
        limit = _ON_A_TERMINAL
    shown = listed[:limit]
    if as_json:
        write_json(terminal, {"runs": [_as_object(run) for run in shown], "total": len(listed)})
    elif listed:
        page = Page.of(terminal)
        page.write(table_lines(tree(shown), page), terminal)
        if len(listed) > len(shown):
            terminal.note(f"and {len(listed) - len(shown):,} older; list them with --all", "dim")
    elif live:
        terminal.note("no live runs")
    else:
        raise NothingDone('no runs yet; start one with `repoagent run "TASK"`')
    return Exit.DONE if listed else Exit.NOTHING


_COLUMNS = (
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
    **dict.fromkeys(("done", "answered"), "green"),
    **dict.fromkeys(("paused", "unfinished", "rejected", "limit", "stopped"), "yellow"),
    **dict.fromkeys(("failed", "killed", "unreadable"), "red"),
}
_SIGNS = {  # of each state, in Unicode and ASCII
    "running": "●>", "paused": "‖=", "done": "✓+", "answered": "✓+", "unfinished": "–-", "rejected": "–-",
    "limit": "◆#", "stopped": "■#", "failed": "✗x", "killed": "✗x", "elsewhere": "??", "conversation": "·.",
    "unreadable": "!!",
}  # fmt: skip
_MARKS = re.compile(r"\*\*|__(?=\S)|(?<=\S)__|`|^#{1,6} ")  # Markdown, which a table shows raw


def _state(run: Run, page: Page) -> Cell:
    """The state with its sign, and its style."""
    style = _STYLES.get(run.state)
    return f"{_SIGNS[run.state][page.ascii]} {run.state}", *([style] if style else [])


def _cost(run: Run) -> str:
    """Its cost, "?" if unknown."""
    from repoagent.llm.usage import cost_text

    cost = run.record.cost
    if cost is None:
        return "?"
    return cost_text(cost) if cost < 1 else f"${cost:,.2f}"


def status_line(run: Run) -> str:
    """What it is doing, or how it ended, in a line."""
    record = run.record
    if run.problem or run.is_live:
        return one_line(run.problem or record.activity)
    if run.state == "elsewhere":
        return one_line(f"on {record.host or 'another machine'}")
    if run.state == "killed":
        return one_line(f"last: {record.activity}" if record.activity else "")
    return _MARKS.sub("", one_line(next(iter(record.text.splitlines()), "")))


def table_lines(rows: Sequence[tuple[int, Run]], page: Page) -> Iterator[str]:
    """The lines of the table of runs, each with its depth below its parent."""
    return page.table(_COLUMNS, [_cells(depth, run, page) for depth, run in rows])


def _cells(depth: int, run: Run, page: Page) -> tuple[Cell, ...]:
    below = "  " * (depth - 1) + ("` " if page.ascii else "└ ") if depth else ""
    brief = page.width is not None and page.width < _BRIEF
    return (
        (below + one_line(run.short),),
        (ago(max(0.0, time.time() - run.process_started), short=brief) if run.process_started else "",),
        _state(run, page),
        (f"{run.record.turns:,}" if run.record.turns else "",),
        (_cost(run) if run.record.tokens else "",),
        (one_line(run.record.prompt) or status_line(run),),
        (status_line(run) if run.record.prompt else "",),
    )


_PLAN, _TURN = 40, 6  # lines of the plan, and of each turn
SHOW_EXAMPLES = """\b
Examples:
  repoagent runs show last
  repoagent runs show last --turns 10
  repoagent runs show last --json | jq '.run.cost'

Print all turns with `repoagent conversation show NAME`."""


@click.command("show", epilog=SHOW_EXAMPLES)
@run_argument
@click.option(
    "--turns", metavar="N", type=click.IntRange(min=0), default=4, show_default=True,
    help="Show the last N turns of the conversation.",
)  # fmt: skip
@json_option
@pass_session
def show_command(session: Session, /, *, run: str, turns: int, as_json: bool) -> None:
    """Show the progress of RUN: state, plan, delegated runs, costs and last turns."""
    from repoagent.tasks.runs.inbox import unread
    from repoagent.tasks.runs.list import children, chosen, runs

    repo = open_repository(session)
    everything = runs(repo.layout, warn=repo.terminal.warn)
    found = chosen(everything, run)
    below = children(found, everything)
    last, problem = _last_turns(found, turns)
    plan, messages = _plan(found), unread(found.run_dir)
    if as_json:
        content = {
            "run": _as_object(found),
            "children": [_as_object(child) for child in below],
            "plan": plan,
            "unread": messages,
            "turns": [{"role": turn.role, "text": turn.text, **turn.meta} for turn in last],
            "conversation_problem": problem or None,
        }
        write_json(repo.terminal, content)
        return
    page = Page.of(repo.terminal, most=120)
    state, *styles = _state(found, page)
    lines = [f"{page.paint(one_line(found.name), 'bold')}  {page.paint(state, *styles)}"]
    if found.record.prompt:
        lines += page.wrap(one_line(found.record.prompt), "  ")
    for name, value in _facts(found, below, messages, page):
        first, *rest = page.wrap(value, " " * 11) if value else [""]
        lines += [f"  {page.paint(f'{name:9}', 'dim')}{first[11:]}", *rest] if value else []
    if steps := plan.splitlines():
        lines += ["", page.paint("plan", "bold")]
        for line in steps[:_PLAN]:
            lines += page.wrap(one_line(line.replace("\t", "    ")), "  ")
        lines += [f"  and {len(steps) - _PLAN:,} more lines"] if len(steps) > _PLAN else []
    run_dir = found.run_dir
    files = (
        run_dir.conversation, run_dir.plan, run_dir.checkpoint, run_dir.output, run_dir.changes, run_dir.folder
    )  # fmt: skip
    if existing := [path for path in files if path.exists()]:
        lines += ["", page.paint("files", "bold")]
        lines += [f"  {one_line(repo.shown(path))}{'/' if path.is_dir() else ''}" for path in existing]
    if last or problem:
        lines += ["", page.paint("last turns", "bold")]
    if problem:
        lines += page.wrap(one_line(f"unreadable: {problem}"), "  ")
    for turn in last:
        lines += _turn_lines(turn, page)
    page.write(lines, repo.terminal)


def _turn_lines(turn: Turn, page: Page) -> Iterator[str]:
    about = " · ".join(turn.meta[key] for key in ("kind", "time") if key in turn.meta)
    yield from page.wrap(one_line(f"{turn.role} {about}".rstrip()), "  ", "", "dim")
    lines = [line for line in clean(turn.text).splitlines() if line.strip()]
    for line in lines[:_TURN]:
        yield from page.wrap(one_line(line), "    ")
    if len(lines) > _TURN:
        yield f"    {page.paint(f'and {len(lines) - _TURN:,} more lines', 'dim')}"


def _last_turns(run: Run, count: int) -> tuple[tuple[Turn, ...], str]:
    """The last turns, and why they cannot be read ("" if they can)."""
    from repoagent.llm.conversation import read

    try:
        conversation = read(run.run_dir.conversation)
    except Refused as error:
        return (), str(error)
    return (conversation.turns[-count:] if count else ()) if conversation else (), ""


def _plan(run: Run) -> str:
    """The text of the plan, "" without a readable one."""
    from repoagent.storage.atomic import read_regular

    try:
        return (read_regular(run.run_dir.plan) or b"").decode("utf-8", "replace")
    except Refused:
        return ""


def _facts(run: Run, children: list[Run], unread: int, page: Page) -> Iterator[tuple[str, str]]:
    """(name, value) of what is known about a run; an empty value is not shown."""
    from repoagent.cli.commands.run_options import as_command_line
    from repoagent.tasks.runs.directory import resume_command

    record = run.record
    yield "now" if run.is_live else "problem" if run.problem else "end", status_line(run)
    yield "started", _times(run)
    yield "spent", f"{plural(record.turns, 'turn')}, {record.tokens:,} tokens, {_cost(run)}"
    limits = ", ".join(f"{name} {value}" for name, value in record.limits.items() if value is not None)
    process = f"{record.pid} on {record.host}" if record.pid else ""
    for name, value in (
        ("limits", limits),
        ("kind", record.kind if record.kind != "run" else ""),
        ("model", record.model),
        ("mode", record.mode),
        ("options", as_command_line(record.options)),
        ("works in", record.worktree),
        ("branch", record.branch),
        ("commits", ", ".join(commit[:12] for commit in record.commits)),
        ("parent", record.parent),
        ("process", process if run.is_live or run.state == "elsewhere" else ""),
    ):
        yield name, one_line(value)
    if unread:
        yield "unread", f"{plural(unread, 'message')} in the inbox"
    for child in children:
        tokens = f"{child.record.tokens:,} tokens"
        state = f"{_state(child, page)[0]}  {tokens}  {_cost(child)}"
        yield "child", one_line(f"{child.short}  {state}  {child.record.prompt}")
    if run.state in ("killed", "stopped", "limit", "failed", "conversation"):
        yield "resume", one_line(resume_command(run.name, record.kind))


def _times(run: Run) -> str:
    from repoagent.tasks.runs.record import moment

    if not run.process_started:
        return "unknown"
    started, record = datetime.fromtimestamp(run.process_started).astimezone(), run.record
    ended = moment(record.ended)
    took = f", took {_span(ended - run.process_started)}" if ended > run.process_started else ""
    resumed = ", resumed" if record.started and record.started != record.process_started else ""
    return f"{started:%Y-%m-%d %H:%M} ({ago(max(0.0, time.time() - run.process_started))}{took}{resumed})"


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


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
    from repoagent.tasks.runs.record import first_line
    from repoagent.tasks.worktree import delete_linked

    repo = open_repository(session)
    if back:
        name = restore_conversation(repo.layout, repo.worktree, run, warn=repo.terminal.warn).name
        restored = find(repo, name)
        more = f"resume it with `{resume_command(name, restored.record.kind)}`"
        report(repo, [restored], f"restored the conversation of {name}; {more}", as_json=as_json)
        return
    found = find_ended(repo, run)
    record = found.record
    if not yes:
        about = f": {first_line(record.prompt, 40)}" if record.prompt else ""
        repo.confirm(
            one_line(f"Delete {found.name} ({found.state}{about})"), ("delete it", "keep it"),
            refusal=f"use --yes to delete {found.name}", declined=f"{found.name} was not deleted",
        )  # fmt: skip
    branch = delete_linked(repo.worktree, found.name, record.worktree, record.branch)
    archived = delete(found)
    sentence = f"deleted {found.name}" + (f"; {branch}" if branch else "")
    if archived:
        sentence += f"; restore its conversation with `repoagent runs delete --undo {found.name}`"
    more_json = {"deleted": found.name, "conversation_archived": archived}
    report(repo, [], sentence, as_json=as_json, **more_json)
