"""`repoagent runs`: list and show runs, control running ones, and delete past ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.app import LazyGroup
from repoagent.cli.options import combine_options, number_option
from repoagent.cli.session import Repository, pass_repository, select_fields, write_json
from repoagent.cli.ui.table import Cell, Column, Page
from repoagent.display_text import one_line, plural, sanitize
from repoagent.errors import Busy, Exit, NothingDone, Refused

if TYPE_CHECKING:
    from repoagent.llm.conversation import Turn
    from repoagent.tasks.runs.list import Run

_ON_A_TERMINAL = 20  # runs listed without -n
STATES = """\b
States:
  running               in progress
  done, answered        finished; answered: with a message but no changes
  unfinished            the model stopped before the task was done
  rejected              the model refused the task
  limit, failed         ended by a limit or an error
  stopped, killed       stopped by you, or the process died; resumable
  conversation          only the conversation exists; resumable
  unreadable            run.json is broken or was written by a newer repoagent"""
COMMANDS = {
    "list": ("runs:list_command", "List runs, newest first."),
    "show": ("runs:show_command", "Show the progress, plan and last turns of a run."),
    "message": ("runs:message_command", "Send a message to a run in progress."),
    "stop": ("runs:stop_command", "Stop a run before its next model call, or at once."),
    "wait": ("runs:wait_command", "Wait for a run to end, and exit with its code."),
    "diff": ("runs:diff_command", "Show a run's uncommitted changes."),
    "restore": ("runs:restore_command", "Undo a run's uncommitted changes."),
    "delete": ("runs:delete_command", "Delete a past run."),
}
EXAMPLES = f"""\b
Examples:
  repoagent runs
  repoagent runs show last
  repoagent runs message last "leave the tests as they are"
  repoagent runs stop 3fa9c1

RUN is a name, the last part of a generated name, a prefix of either, or `last`
for the newest run that was not delegated by another.

{STATES}"""
LIST_EXAMPLES = f"""\b
Examples:
  repoagent runs list --live
  repoagent runs list --json | jq -r '.runs[].name'

{STATES}"""


run_argument = click.argument("run", metavar="RUN")


def pass_run(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator that passes the repository, and the run that `run_argument` names, to the command."""

    @pass_repository
    def opened(repo: Repository, /, *, run: str, **values: Any) -> Any:
        from repoagent.tasks.runs.list import find_run

        return command(repo, find_run(repo.layout, run, warn=repo.terminal.warn), **values)

    return update_wrapper(opened, command)


def refuse_live(run: Run) -> None:
    if run.is_live:
        raise Busy(f"{run.name} is still running; stop it first with `repoagent runs stop {run.short}`")


def _as_object(run: Run) -> dict[str, object]:
    """`run.json`, the current state and the files."""
    current = select_fields(run, "name", "state", "problem", live="is_live")
    return {**vars(run.record), **current, **select_fields(run.run_dir, "folder", "conversation")}


def report(repo: Repository, runs: Iterable[Run], sentence: str, **more: object) -> None:
    """Print what a command did to `runs`: `sentence` or, with --json, the runs and the fields `more`."""
    from repoagent.tasks.runs.list import read_run

    rows = (
        [_as_object(read_run(run.run_dir, warn=repo.terminal.warn)) for run in runs] if repo.as_json else []
    )
    repo.emit({"runs": rows, **more}, [sentence] if sentence else [])


_list_options = combine_options(
    click.option("--live", is_flag=True, help="List only runs that are still running."),
    number_option(
        "-n", "--limit", type=click.IntRange(min=1), metavar="N",
        help=f"List only the newest N runs.  [default: {_ON_A_TERMINAL} on a terminal]",
    ),
)  # fmt: skip


@click.group(
    cls=LazyGroup, table=COMMANDS, epilog=EXAMPLES, subcommand_metavar="[COMMAND] [ARGS]...",
    invoke_without_command=True,
)  # fmt: skip
@_list_options
@click.option("--json", "as_json", is_flag=True, help="Print the result, or the error, as JSON.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> Any:
    """Show current and past task runs, and control those that are running.

    Without a command, list them.
    """
    return None if ctx.invoked_subcommand is not None else ctx.invoke(list_command, **options)


@click.command("list", epilog=LIST_EXAMPLES)
@_list_options
@pass_repository
def list_command(repo: Repository, /, *, live: bool, limit: int | None) -> int:
    """List runs, newest first, with delegated runs below their parents."""
    from repoagent.tasks.runs.list import list_runs, run_tree

    terminal = repo.terminal
    listed = [run for run in list_runs(repo.layout, warn=terminal.warn) if run.is_live or not live]
    if not (listed or live or repo.as_json):
        raise NothingDone('no runs yet; start one with `repoagent run "TASK"`')
    if limit is None and terminal.output_tty and not repo.as_json:
        limit = _ON_A_TERMINAL
    shown, notes = listed[:limit], [] if listed else ["no run is in progress"]
    if len(listed) > len(shown):
        notes.append(f"and {len(listed) - len(shown):,} older; list them with -n {len(listed)}")
    table = table_lines(run_tree(shown), Page.of(terminal)) if shown else ()
    repo.emit({"runs": [_as_object(run) for run in shown], "total": len(listed)}, table, notes=notes)
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
_STATES = {  # state: sign, style
    "running": ("●", "cyan"),
    **dict.fromkeys(("done", "answered"), ("✓", "green")),
    **dict.fromkeys(("unfinished", "rejected"), ("–", "yellow")),
    "limit": ("◆", "yellow"),
    "stopped": ("■", "yellow"),
    **dict.fromkeys(("failed", "killed"), ("✗", "red")),
    "unreadable": ("!", "red"),
    "conversation": ("·",),
}


def _state(run: Run) -> tuple[str, ...]:
    """With its sign, and its style."""
    sign, *style = _STATES[run.state]
    return f"{sign} {run.state}", *style


def _cost(run: Run) -> str:
    from repoagent.llm.usage import cost_text

    return "?" if run.record.cost is None else cost_text(run.record.cost)


def status_line(run: Run) -> str:
    """The current action of a run, or how it ended, in one line."""
    record = run.record
    if run.problem or run.is_live:
        return one_line(run.problem or record.activity)
    if run.state == "killed":
        return one_line(f"last: {record.activity}" if record.activity else "")
    return one_line(next(iter(record.text.splitlines()), ""))


def table_lines(rows: Sequence[tuple[int, Run]], page: Page) -> Iterator[str]:
    """The lines of the table of runs. Each row is a run with its depth in the tree of delegated runs: 0 or 1."""
    cells: list[list[Cell]] = []
    for depth, run in rows:
        record, status = run.record, status_line(run)
        cells.append([
            "└ " * depth + one_line(run.short), page.ago(run.process_started, wide=110) if run.process_started else "",
            _state(run), f"{record.turns:,}" if record.turns else "", _cost(run) if record.tokens else "",
            one_line(record.prompt) or status, status if record.prompt else "",
        ])  # fmt: skip
    return page.table(_COLUMNS, cells)


_TURNS, _PLAN, _TURN = 4, 40, 6  # turns that are shown; lines of the plan, and of each turn
SHOW_EXAMPLES = """\b
Examples:
  repoagent runs show last
  repoagent runs show last --json | jq '.run.cost'

Print all turns with `repoagent conversation show NAME`."""


@click.command("show", epilog=SHOW_EXAMPLES)
@run_argument
@pass_repository
def show_command(repo: Repository, /, *, run: str) -> None:
    """Show the progress of RUN: state, plan, delegated runs, cost and last turns."""
    from repoagent.llm.conversation import read_conversation
    from repoagent.storage.atomic import read_regular
    from repoagent.tasks.runs.control import unread
    from repoagent.tasks.runs.list import choose_run, list_runs, subagents_of

    everything = list_runs(repo.layout, warn=repo.terminal.warn)
    selected = choose_run(everything, run)
    below, run_dir = subagents_of(selected, everything), selected.run_dir
    last: Sequence[Turn] = ()
    plan = problem = ""
    try:
        conversation = read_conversation(run_dir.conversation)
        last = conversation.turns[-_TURNS:] if conversation else ()
    except Refused as error:
        problem = str(error)
    try:
        plan = (read_regular(run_dir.plan) or b"").decode("utf-8", "replace")
    except Refused:  # a link, for example
        pass
    messages = unread(run_dir)
    content = {
        "run": _as_object(selected),
        "children": [_as_object(child) for child in below],
        "plan": plan,
        "unread": messages,
        "turns": [{"role": turn.role, "text": turn.text, **turn.meta} for turn in last],
        "conversation_problem": problem or None,
    }
    page = Page.of(repo.terminal, most=120)

    def first(text: str, most: int, indent: str) -> Iterator[str]:
        shown = text.splitlines()
        for line in shown[:most]:
            yield from page.wrap(one_line(line.replace("\t", "    ")), indent=indent)
        if len(shown) > most:
            yield page.paint(f"{indent}and {len(shown) - most:,} more lines", "dim")

    state, *styles = _state(selected)
    lines = [f"{page.paint(one_line(selected.name), 'bold')}  {page.paint(state, *styles)}"]
    if selected.record.prompt:
        lines += page.wrap(one_line(selected.record.prompt), indent="  ")
    facts = [*_facts(selected, below, messages), ("folder", f"{repo.shown(run_dir.folder)}/")]
    if run_dir.conversation.exists():
        facts.append(("conversation", repo.shown(run_dir.conversation)))
    lines += page.pairs([(name, one_line(value)) for name, value in facts if value], "dim", indent="  ")
    if plan:
        lines += ["", page.paint("plan", "bold"), *first(plan, _PLAN, "  ")]
    if last or problem:
        lines += ["", page.paint("last turns", "bold")]
    lines += page.wrap(f"unreadable: {one_line(problem)}", indent="  ") if problem else []
    for turn in last:
        about = " · ".join(turn.meta[key] for key in ("kind", "time") if key in turn.meta)
        lines += page.wrap(one_line(f"{turn.role} {about}".rstrip()), "dim", indent="  ")
        lines += first(
            "\n".join(line for line in sanitize(turn.text).splitlines() if line.strip()), _TURN, "    "
        )
    repo.emit(content, lines)


def _facts(run: Run, children: list[Run], unread: int) -> Iterator[tuple[str, str]]:
    """Names and values; empty ones are not shown."""
    from repoagent.cli.commands.run_options import as_command_line
    from repoagent.tasks.runs.directory import parse_time, resume_command

    record, start = run.record, run.process_started
    yield "now" if run.is_live else "problem" if run.problem else "end", status_line(run)
    if start:
        seconds = parse_time(record.ended) - start
        length = f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
        took = f", took {length}" if seconds > 0 else ""
        resumed = ", resumed" if record.started and record.started != record.process_started else ""
        date = time.strftime("%Y-%m-%d %H:%M", time.localtime(start))
        yield "started", f"{date} ({Page(None).ago(start)}{took}{resumed})"
    yield "spent", f"{plural(record.turns, 'turn')}, {record.tokens:,} tokens, {_cost(run)}"
    yield "limits", ", ".join(f"{name} {value}" for name, value in record.limits.items() if value is not None)
    yield "kind", record.kind if record.kind != "run" else ""
    for name in ("model", "mode", "branch", "parent"):
        yield name, str(getattr(record, name))
    yield "options", as_command_line(record.options)
    yield "works in", record.worktree
    yield "commits", ", ".join(commit[:12] for commit in record.commits)
    if record.pid and run.is_live:
        yield "process", f"{record.pid} on {record.host}"
    yield "unread", f"{plural(unread, 'message')} in the inbox" if unread else ""
    for child in children:
        state = f"{_state(child)[0]}  {child.record.tokens:,} tokens  {_cost(child)}"
        yield "child", f"{child.short}  {state}  {child.record.prompt}"
    if run.state in ("killed", "stopped", "limit", "failed", "conversation"):
        yield "resume", resume_command(run.name, record.kind)


DELETE_EXAMPLES = """\b
Examples:
  repoagent runs delete 3fa9c1
  repoagent runs delete 3fa9c1 --yes

This deletes the run's folder for good, including the plan and the output of
commands. Its conversation can be restored with `repoagent conversation undo`;
commits, branches, linked work trees and the conversations that you named are not
touched."""


@click.command("delete", epilog=DELETE_EXAMPLES)
@run_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@pass_run
def delete_command(repo: Repository, run: Run, /, *, yes: bool) -> None:
    """Delete RUN, which must have ended."""
    from repoagent.tasks.runs.control import delete_run
    from repoagent.tasks.runs.directory import first_line
    from repoagent.tasks.worktree import linked_leftovers

    refuse_live(run)
    if not yes:
        about = f": {first_line(run.record.prompt, 40)}" if run.record.prompt else ""
        repo.confirm(
            one_line(f"Delete {run.name} ({run.state}{about})"), ("delete it", "keep it"),
            refusal=f"use --yes to delete {run.name}", declined=f"{run.name} was not deleted",
        )  # fmt: skip
    leftovers = linked_leftovers(repo.worktree, run.record)
    archived = delete_run(run)
    sentence = f"deleted {run.name}" + (f"; {leftovers}" if leftovers else "")
    if archived:
        sentence += f"; restore its conversation with `repoagent conversation undo {run.name}`"
    report(repo, [], sentence, deleted=run.name, conversation_archived=archived)


def _all_of(runs: list[Run]) -> str:
    """The name of the first run, and the number of the others, which it delegated."""
    more = f" and {plural(len(runs) - 1, 'run')} that it delegated" if len(runs) > 1 else ""
    return f"{runs[0].name}{more}"


MESSAGE_EXAMPLES = """\b
Examples:
  repoagent runs message last "leave the tests as they are"

The run reads TEXT before its next model call, as a message from you. To reach a
run that has ended, use `repoagent run --resume`. You can also put a file
NAME.md into the run's inbox/ folder."""


@click.command("message", epilog=MESSAGE_EXAMPLES)
@run_argument
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@pass_run
def message_command(repo: Repository, run: Run, /, *, words: tuple[str, ...]) -> None:
    """Send TEXT to RUN, which must be running."""
    from repoagent.tasks.runs.control import send_message

    file = send_message(run, " ".join(words))
    report(repo, [run], f"sent to {run.name}, which will read it before its next model call", file=file)


_PATIENCE = 10.0  # seconds for a process to undo unfinished work
STOP_EXAMPLES = """\b
Examples:
  repoagent runs stop last
  repoagent runs stop last --now

A run stops before its next model call, and so do the runs that it delegated.
With --now its process gets SIGTERM at once and undoes unfinished work, as
after ^C. Nothing is lost: resume it with `repoagent run --resume`. You can also
stop a run by creating a file named stop in its folder."""


@click.command("stop", epilog=STOP_EXAMPLES)
@run_argument
@click.option("--now", is_flag=True, help="End the process at once.")
@pass_run
def stop_command(repo: Repository, run: Run, /, *, now: bool) -> int:
    """Stop RUN before its next model call, or at once with --now."""
    from repoagent.tasks.runs.control import StillRunning, stop_run, terminate_run, wait_for_run

    reached = stop_run(run)
    if not now:
        more = "will stop before the next model call; use --now to stop at once"
        report(repo, reached, f"{_all_of(reached)} {more}")
        return Exit.DONE
    ended = terminate_run(run)
    try:
        state = wait_for_run(run, _PATIENCE).state
    except StillRunning:
        state = "still running"
    done = f"ended the process of {_all_of(reached)}" if ended else f"asked {run.name} to stop"
    report(repo, reached, f"{done}: {state}", ended=[each.name for each in ended])
    return Exit.BUSY if state == "still running" else Exit.DONE


WAIT_EXAMPLES = """\b
Examples:
  repoagent runs wait last && make release
  repoagent runs wait last --timeout 600

The exit code is the run's: 0 done or answered, 1 rejected or unfinished, 5 a
limit, 130 stopped or killed, or its error's code. Also: 2 no such run, 3 an
unreadable run, 7 still running after --timeout."""


@click.command("wait", epilog=WAIT_EXAMPLES)
@run_argument
@number_option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(min=0), help="Wait at most this many seconds."
)
@pass_run
def wait_command(repo: Repository, run: Run, /, *, timeout: float | None) -> int:
    """Wait for RUN to end, and exit with its exit code."""
    from repoagent.tasks.runs.control import wait_for_run

    run = wait_for_run(run, timeout)
    status = status_line(run)
    report(repo, [run], f"{run.name}: {run.state}{f', {status}' if status else ''}")
    return run.exit_code


RESTORE_EXAMPLES = """\b
Examples:
  repoagent runs diff last
  repoagent runs restore last
  repoagent runs restore last --whole

Undo a run's commits with `repoagent undo`."""


@click.command("diff", epilog=RESTORE_EXAMPLES)
@run_argument
@pass_run
def diff_command(repo: Repository, run: Run, /) -> None:
    """Show RUN's uncommitted changes as a diff."""
    from repoagent.tasks.restore import uncommitted_diff, uncommitted_files
    from repoagent.tasks.worktree import worktree_of

    worktree = worktree_of(repo.worktree, run)
    diff = uncommitted_diff(worktree, run.run_dir)
    if repo.as_json:
        files = list(uncommitted_files(worktree, run.run_dir))
        write_json(repo.terminal, {"run": run.name, "files": files, "diff": diff})
    else:
        repo.terminal.diff(diff)


@click.command("restore", epilog=RESTORE_EXAMPLES)
@run_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--whole", is_flag=True, help="Also restore files whose lines were changed again, after saving copies."
)
@pass_run
def restore_command(repo: Repository, run: Run, /, *, yes: bool, whole: bool) -> Exit:
    """Undo RUN's uncommitted changes; RUN must have ended.

    Other changes to these files are not touched. A file is skipped and listed if the lines that the run changed have
    changed again; the exit code is then 3.
    """
    from repoagent.tasks.restore import conflict_message, restore_changes, uncommitted_files
    from repoagent.tasks.worktree import worktree_of

    refuse_live(run)
    worktree = worktree_of(repo.worktree, run)
    paths = uncommitted_files(worktree, run.run_dir)
    if not paths:
        raise NothingDone(f"{run.name} has no uncommitted changes")
    if not yes:
        names = ", ".join(paths)
        repo.confirm(
            one_line(f"Undo the changes to {names}"), ("undo them", "keep them"),
            refusal=f"use --yes to undo {run.name}'s changes to {names}",
            declined="the files were not changed",
        )  # fmt: skip
    done = restore_changes(worktree, run.run_dir, whole=whole)
    copies = [repo.shown(path) for path in done.copies]
    outcomes = {"restored": done.paths, "saved copies": copies}
    sentence = "\n".join(f"{label}: {', '.join(some)}" for label, some in outcomes.items() if some)
    more = {"files": done.paths, "skipped": list(done.left), "copies": copies}
    report(repo, [run], sentence, **more)
    if done.left:
        repo.terminal.warn(conflict_message(done.left, f"repoagent runs restore {run.short} --whole"))
        return Exit.REFUSED
    return Exit.DONE
