"""Control runs: `message`, `pause`, `resume`, `stop`, `wait`; `diff` and `restore` uncommitted changes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from repoagent.cli.commands.runs import pass_run, refuse_live, report, run_argument, status_line
from repoagent.cli.repository import Repository
from repoagent.cli.session import write_json
from repoagent.cli.ui.output_style import plural
from repoagent.cli.ui.terminal_text import one_line
from repoagent.errors import Exit, NothingDone, Refused, UsageError

if TYPE_CHECKING:
    from repoagent.tasks.runs.list import Run


def _all_of(runs: list[Run]) -> str:
    """The name of the first run, and the number of the others, which it delegated."""
    more = f" and {plural(len(runs) - 1, 'run')} that it delegated" if len(runs) > 1 else ""
    return f"{runs[0].name}{more}"


MESSAGE_EXAMPLES = """\b
Examples:
  repoagent runs message last "leave the tests as they are"
  repoagent runs message last - < notes.md

The run reads it before its next model call, as a message from you. To reach a
run that has ended, use `repoagent run --resume`. You can also put a file
NAME.md into the inbox/ folder of the run."""


@click.command("message", epilog=MESSAGE_EXAMPLES)
@run_argument
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@pass_run
def message_command(repo: Repository, run: Run, /, *, words: tuple[str, ...], as_json: bool) -> None:
    """Send TEXT, or standard input for `-`, to a live RUN."""
    from repoagent.tasks.runs.control import message
    from repoagent.tasks.runs.inbox import is_requested
    from repoagent.tasks.runs.list import refreshed

    text = " ".join(words)
    if words == ("-",):
        try:
            text = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"standard input is not UTF-8: {error}") from error
    file = message(run, text)
    run = refreshed(run)
    if is_requested(run.run_dir.pause):
        more = f"it is paused and reads this after `repoagent runs resume {run.short}`"
    elif run.is_live:
        more = "it reads this before its next model call"
    else:
        more = f"it is on {run.record.host or 'another machine'} and reads this if it is alive"
    report(repo, [run], f"sent to {run.name}; {more}", as_json=as_json, file=file)


PAUSE_EXAMPLES = """\b
Examples:
  repoagent runs pause last
  repoagent runs message last "only the parser, please"
  repoagent runs resume last

A run finishes its current step and pauses before its next model call, and so do
the runs that it delegated. Messages do not end a pause. You can also pause a
run by creating a file named pause in its folder."""


@click.command("pause", epilog=PAUSE_EXAMPLES)
@run_argument
@pass_run
def pause_command(repo: Repository, run: Run, /, *, as_json: bool) -> None:
    """Pause RUN before its next model call."""
    from repoagent.tasks.runs.control import pause

    reached = pause(run)
    more = f"to pause; continue with `repoagent runs resume {run.short}`"
    report(repo, reached, f"asked {_all_of(reached)} {more}", as_json=as_json)


@click.command("resume", epilog=PAUSE_EXAMPLES)
@run_argument
@pass_run
def resume_command(repo: Repository, run: Run, /, *, as_json: bool) -> None:
    """Continue the paused RUN. To resume a run that has ended, use `repoagent run --resume RUN`."""
    from repoagent.tasks.runs.control import resume

    reached = resume(run)
    verb = "continues" if len(reached) == 1 else "continue"
    report(repo, reached, f"{_all_of(reached)} {verb}", as_json=as_json)


_PATIENCE = 10.0  # seconds for a process to undo unfinished work
STOP_EXAMPLES = """\b
Examples:
  repoagent runs stop last
  repoagent runs stop last --now

A run stops before its next model call, and so do the runs that it delegated.
With --now its process is ended at once (SIGTERM), as by ^C, and undoes
unfinished work. Nothing is lost: resume it with `repoagent run --resume`. You
can also stop a run by creating a file named stop in its folder."""


@click.command("stop", epilog=STOP_EXAMPLES)
@run_argument
@click.option("--now", is_flag=True, help="End the process at once.")
@pass_run
def stop_command(repo: Repository, run: Run, /, *, now: bool, as_json: bool) -> int:
    """Stop RUN before its next model call, or at once with --now."""
    from repoagent.tasks.runs.control import StillRunning, stop, terminate_run, wait

    reached = stop(run)
    if not now:
        more = "before its next model call; use --now to end it at once"
        report(repo, reached, f"asked {_all_of(reached)} to stop {more}", as_json=as_json)
        return Exit.DONE
    ended = terminate_run(run)
    try:
        state = wait(run, _PATIENCE).state
    except StillRunning:
        state = "still running"
    if ended:
        sentence = f"ended the process of {_all_of(reached)}: {state}"
    elif state == "elsewhere":
        machine = run.record.host or "another machine"
        sentence = f"asked {run.name} to stop; it is on {machine} and cannot be ended from here"
    else:
        sentence = f"asked {run.name} to stop: {state}"
    report(repo, reached, sentence, as_json=as_json, ended=[each.name for each in ended])
    return Exit.BUSY if state == "still running" else Exit.DONE


WAIT_EXAMPLES = """\b
Examples:
  repoagent runs wait last && make release
  repoagent runs wait last --timeout 600

The exit code is that of the run: 0 done or answered, 1 rejected or unfinished,
5 a limit, 130 stopped or killed, or that of its error. Also: 2 no such run, 3
it is on another machine or unreadable, 7 still alive after --timeout."""


@click.command("wait", epilog=WAIT_EXAMPLES)
@run_argument
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(min=0), help="Wait at most this many seconds."
)
@pass_run
def wait_command(repo: Repository, run: Run, /, *, timeout: float | None, as_json: bool) -> int:
    """Wait for RUN to end, and exit with its exit code."""
    from repoagent.tasks.runs.control import wait

    run = wait(run, timeout)
    if run.state == "elsewhere":
        machine = run.record.host or "another machine"
        raise Refused(f"{run.name} started on {machine}; cannot tell whether it is alive")
    status = status_line(run)
    report(repo, [run], f"{run.name}: {run.state}{f', {status}' if status else ''}", as_json=as_json)
    return run.exit_code


RESTORE_EXAMPLES = """\b
Examples:
  repoagent runs diff last
  repoagent runs restore last
  repoagent runs restore last --whole

Undo the commits of a run with `repoagent undo`."""


@click.command("diff", epilog=RESTORE_EXAMPLES)
@run_argument
@pass_run
def diff_command(repo: Repository, run: Run, /, *, as_json: bool) -> None:
    """Show the uncommitted changes of RUN as a diff."""
    from repoagent.tasks.uncommitted_by_run import uncommitted_diff, uncommitted_files
    from repoagent.tasks.worktree import worktree_of

    worktree = worktree_of(repo.worktree, run)
    diff = uncommitted_diff(worktree, run.run_dir)
    if as_json:
        files = list(uncommitted_files(worktree, run.run_dir))
        write_json(repo.terminal, {"run": run.name, "files": files, "diff": diff})
    else:
        repo.terminal.diff(diff)


@click.command("restore", epilog=RESTORE_EXAMPLES)
@run_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--let-go", is_flag=True,
    help="Skip files whose lines were changed again, and no longer count them as changes of the run.",
)  # fmt: skip
@click.option("--whole", is_flag=True, help="Restore these files, too, after saving copies.")
@pass_run
def restore_command(
    repo: Repository, run: Run, /, *, yes: bool, let_go: bool, whole: bool, as_json: bool
) -> Exit:
    """Undo the uncommitted changes of RUN, which must have ended.

    Other changes in these files are not touched. A file whose changed lines were changed again is skipped and named,
    and the exit code is 3.
    """
    from repoagent.tasks.uncommitted_by_run import conflict_message, restore_changes, uncommitted_files
    from repoagent.tasks.worktree import worktree_of

    if let_go and whole:
        raise UsageError("--let-go cannot be combined with --whole")
    refuse_live(run)
    worktree = worktree_of(repo.worktree, run)
    paths = uncommitted_files(worktree, run.run_dir)
    if not paths:
        raise NothingDone(f"{run.name} has no uncommitted changes")
    if not yes:
        names = ", ".join(paths)
        repo.confirm(
            one_line(f"Undo the changes of {names}"), ("undo them", "keep them"),
            refusal=f"use --yes to undo the changes of {run.name}: {names}",
            declined="the files were not changed",
        )  # fmt: skip
    done = restore_changes(worktree, run.run_dir, "let-go" if let_go else "whole" if whole else "leave")
    copies = [repo.shown(path) for path in done.copies]
    outcomes = {"restored": done.paths, "forgotten": done.let_go, "saved copies": copies}
    sentence = "\n".join(f"{label}: {', '.join(some)}" for label, some in outcomes.items() if some)
    if sentence or as_json:
        more = {"files": done.paths, "skipped": list(done.left), "let_go": done.let_go, "copies": copies}
        report(repo, [run], sentence, as_json=as_json, **more)
    if done.left:
        again = f"repoagent runs restore {run.short}"
        repo.terminal.warn(conflict_message(done.left, f"{again} --let-go", f"{again} --whole"))
        return Exit.REFUSED
    return Exit.DONE
