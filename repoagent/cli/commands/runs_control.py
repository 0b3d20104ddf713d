"""Control runs: `message`, `stop`, `wait`; `diff` and `restore` uncommitted changes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from repoagent.cli.commands.runs import pass_run, refuse_live, report, run_argument, status_line
from repoagent.cli.session import Repository, write_json
from repoagent.cli.ui.table import plural
from repoagent.cli.ui.terminal_text import one_line
from repoagent.errors import Exit, NothingDone, UsageError

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
NAME.md into the run's inbox/ folder."""


@click.command("message", epilog=MESSAGE_EXAMPLES)
@run_argument
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@pass_run
def message_command(repo: Repository, run: Run, /, *, words: tuple[str, ...]) -> None:
    """Send TEXT, or standard input for `-`, to a live RUN."""
    from repoagent.tasks.runs.control import message

    text = " ".join(words)
    if words == ("-",):
        try:
            text = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"standard input is not UTF-8: {error}") from error
    file = message(run, text)
    report(repo, [run], f"sent to {run.name}; it reads this before its next model call", file=file)


_PATIENCE = 10.0  # seconds for a process to undo unfinished work
STOP_EXAMPLES = """\b
Examples:
  repoagent runs stop last
  repoagent runs stop last --now

A run stops before its next model call, and so do the runs that it delegated.
With --now its process gets a SIGTERM at once and undoes unfinished work, as
after ^C. Nothing is lost: resume it with `repoagent run --resume`. You can also
stop a run by creating a file named stop in its folder."""


@click.command("stop", epilog=STOP_EXAMPLES)
@run_argument
@click.option("--now", is_flag=True, help="End the process at once.")
@pass_run
def stop_command(repo: Repository, run: Run, /, *, now: bool) -> int:
    """Stop RUN before its next model call, or at once with --now."""
    from repoagent.tasks.runs.control import StillRunning, stop, terminate_run, wait

    reached = stop(run)
    if not now:
        more = "before its next model call; use --now to end it at once"
        report(repo, reached, f"asked {_all_of(reached)} to stop {more}")
        return Exit.DONE
    ended = terminate_run(run)
    try:
        state = wait(run, _PATIENCE).state
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
limit, 130 stopped or killed, or that of its error. Also: 2 no such run, 3 it
is unreadable, 7 still running after --timeout."""


@click.command("wait", epilog=WAIT_EXAMPLES)
@run_argument
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(min=0), help="Wait at most this many seconds."
)
@pass_run
def wait_command(repo: Repository, run: Run, /, *, timeout: float | None) -> int:
    """Wait for RUN to end, and exit with its exit code."""
    from repoagent.tasks.runs.control import wait

    run = wait(run, timeout)
    status = status_line(run)
    report(repo, [run], f"{run.name}: {run.state}{f', {status}' if status else ''}")
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
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--whole", is_flag=True, help="Also restore files whose lines were changed again, after saving copies."
)
@pass_run
def restore_command(repo: Repository, run: Run, /, *, yes: bool, whole: bool) -> Exit:
    """Undo RUN's uncommitted changes; RUN must have ended.

    Other changes in these files are not touched. A file whose changed lines were changed again is skipped and named,
    and the exit code is 3.
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
