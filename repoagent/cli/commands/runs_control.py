"""`repoagent runs message`: tell a run something while it works.

`repoagent runs pause` and `runs resume`: have a run stand still, and go on.

`repoagent runs stop`: have a run stop.

`repoagent runs wait`: wait for the end of a run.

`repoagent runs diff` and `restore`: what a run has changed and not committed, seen and taken back.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from repoagent.cli.commands.runs import VERSION, Here, and_below, opened, run_argument, say
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.cli.ui.sanitize import one_line
from repoagent.errors import Busy, Exit, NothingDone, Refused, UsageError
from repoagent.git.worktree import WorkTree
from repoagent.tasks.runs.list import Run

MESSAGE_EXAMPLES = """\b
Examples:
  repoagent runs message last "leave the tests as they are"
  repoagent runs message last - < notes.md

It is read before the next call of the model, and stands in the conversation as
your words. To a run that is not alive say it with `repoagent run --resume`.
The same without the program: write a file NAME.md into the inbox/ of the run."""


@click.command("message", epilog=MESSAGE_EXAMPLES)
@run_argument
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@json_option
@pass_session
def message_command(session: Session, /, *, run: str, words: tuple[str, ...], as_json: bool) -> None:
    """Tell RUN something: TEXT, or what standard input says for `-`."""
    from repoagent.tasks.runs.control import message
    from repoagent.tasks.runs.inbox import is_there
    from repoagent.tasks.runs.list import refreshed

    here = opened(session)
    found = here.find(run)
    if words == ("-",):
        try:
            text = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"standard input is no UTF-8 text: {error}") from error
    else:
        text = " ".join(words)
    file = message(found, text)
    found = refreshed(found)
    if is_there(found.run_dir.pause):
        more = f"; it is paused, and reads it after `repoagent runs resume {found.short}`"
    elif found.alive:
        more = "; it reads it before its next call"
    else:
        more = f"; it is on {found.record.host or 'another machine'}, and reads it if it is alive"
    say(here, [found], f"told {found.name}{more}", as_json=as_json, file=str(file))


PAUSE_EXAMPLES = """\b
Examples:
  repoagent runs pause last
  repoagent runs message last "only the parser, please"
  repoagent runs resume last

It stands still before its next call of the model, and so do the runs that it
has delegated; what it is at is finished first. A message does not end a pause.
The same without the program: a file named pause in the folder of the run."""


@click.command("pause", epilog=PAUSE_EXAMPLES)
@run_argument
@json_option
@pass_session
def pause(session: Session, /, *, run: str, as_json: bool) -> None:
    """Have RUN stand still before its next call."""
    from repoagent.tasks.runs.control import pause as ask

    here = opened(session)
    found = here.find(run)
    asked = ask(found)
    more = f"to pause; `repoagent runs resume {found.short}` ends that"
    say(here, asked, f"asked {found.name}{and_below(asked)} {more}", as_json=as_json)


@click.command("resume", epilog=PAUSE_EXAMPLES)
@run_argument
@json_option
@pass_session
def resume(session: Session, /, *, run: str, as_json: bool) -> None:
    """End the pause of RUN. One that is not alive goes on with `repoagent run --resume RUN`."""
    from repoagent.tasks.runs.control import resume as go_on

    here = opened(session)
    found = here.find(run)
    told = go_on(found)
    say(here, told, f"{found.name}{and_below(told)} go{'es' * (len(told) == 1)} on", as_json=as_json)


_PATIENCE = 10.0  # seconds for a process to take back what is half done
STOP_EXAMPLES = """\b
Examples:
  repoagent runs stop last
  repoagent runs stop last --now

It stops before its next call of the model, and so do the runs that it has
delegated. With --now its process is told to end (SIGTERM), as by ^C: what is
half done is taken back. Nothing is lost in either way; `repoagent run --resume`
goes on. The same without the program: a file named stop in its folder."""


@click.command("stop", epilog=STOP_EXAMPLES)
@run_argument
@click.option("--now", is_flag=True, help="End its process at once.")
@json_option
@pass_session
def stop_command(session: Session, /, *, run: str, now: bool, as_json: bool) -> int:
    """Have RUN stop before its next call."""
    from repoagent.tasks.runs.control import StillAlive, end_now, stop, wait

    here = opened(session)
    found = here.find(run)
    asked = stop(found)
    if not now:
        more = "; it does so before its next call, --now ends it at once"
        say(here, asked, f"asked {found.name}{and_below(asked)} to stop{more}", as_json=as_json)
        return Exit.DONE
    ended = end_now(found)
    try:
        state = wait(found, _PATIENCE).state
    except StillAlive:
        state = "not at its end yet"
    if ended:
        sentence = f"ended the process of {found.name}{and_below(asked)}: {state}"
    elif state == "elsewhere":
        sentence = (
            f"{found.name} is on {found.record.host or 'another machine'}: asked to stop, not ended from here"
        )
    else:
        sentence = f"asked {found.name} to stop: {state}"
    say(here, asked, sentence, as_json=as_json, ended=[each.name for each in ended])
    return Exit.BUSY if state == "not at its end yet" else Exit.DONE


WAIT_EXAMPLES = """\b
Examples:
  repoagent runs wait last && make release
  repoagent runs wait last --timeout 600

\b
Exit codes: that of the run (0 done or answered, 1 rejected or unfinished,
5 a limit, 130 stopped or killed, any other as it failed); 2 no such run, 3 it
is on another machine or can't be read, 7 it is still alive after --timeout."""


@click.command("wait", epilog=WAIT_EXAMPLES)
@run_argument
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(min=0), help="Wait at most this many seconds."
)
@json_option
@pass_session
def wait_command(session: Session, /, *, run: str, timeout: float | None, as_json: bool) -> int:
    """Wait until RUN is at its end, and exit as it did."""
    from repoagent.cli.commands.runs import how
    from repoagent.tasks.runs.control import wait

    here = opened(session)
    found = wait(here.find(run), timeout)
    if found.state == "elsewhere":
        raise Refused(
            f"{found.name} began on {found.record.host or 'another machine'}: whether it is alive can't be known here"
        )
    said = how(found)
    say(here, [found], f"{found.name}: {found.state}{f', {said}' if said else ''}", as_json=as_json)
    return found.exit_code


RESTORE_EXAMPLES = """\b
Examples:
  repoagent runs diff last
  repoagent runs restore last
  repoagent runs restore last --whole

What a run has committed is taken back with `repoagent undo`."""


@click.command("diff", epilog=RESTORE_EXAMPLES)
@run_argument
@json_option
@pass_session
def diff(session: Session, /, *, run: str, as_json: bool) -> None:
    """Show what RUN has changed and not committed, as a diff."""
    from repoagent.tasks.finish import left, left_diff

    here = opened(session)
    found = here.find(run)
    place = _place(here, found)
    if as_json:
        value = {
            "version": VERSION,
            "run": found.name,
            "files": list(left(place, found.run_dir)),
            "diff": left_diff(place, found.run_dir),
        }
        here.terminal.result(json.dumps(value, indent=2) + "\n")
        return
    here.terminal.diff(left_diff(place, found.run_dir))


@click.command("restore", epilog=RESTORE_EXAMPLES)
@run_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--let-go", is_flag=True, help="Skip files whose lines were changed since, and forget their changes."
)
@click.option("--whole", is_flag=True, help="Undo these too, and keep a copy of them.")
@json_option
@pass_session
def restore_command(
    session: Session, /, *, run: str, yes: bool, let_go: bool, whole: bool, as_json: bool
) -> Exit:
    """Take back what RUN has changed and not committed. A run that is alive is not touched.

    What else was done to the files stays. A file in which the same lines were changed since is left as it is, and
    named, and the exit code is 3.
    """
    from repoagent.tasks.finish import left, left_as_they_are, take_back

    if let_go and whole:
        raise UsageError("say one of --let-go and --whole")

    here = opened(session)
    found = here.find(run)
    if found.alive:
        raise Busy(f"{found.name} is alive: `repoagent runs stop {found.short}` first")
    place = _place(here, found)
    paths = left(place, found.run_dir)
    if not paths:
        raise NothingDone(f"{found.name} has left nothing uncommitted")
    if not yes:
        if not here.terminal.can_ask:
            raise UsageError(f"say --yes to take back what {found.name} has changed: {', '.join(paths)}")
        question = one_line(f"Take back the changes of {', '.join(paths)}")
        if here.terminal.ask(question, {"y": "take them back", "n": "leave them"}) == "n":
            raise NothingDone("the files stay as they are")
    done = take_back(place, found.run_dir, "let-go" if let_go else "whole" if whole else "leave")
    copies = [here.shown(path) for path in done.copies]
    told = {"taken back": done.paths, "let go of": done.let_go, "what they held is kept in": copies}
    sentence = "\n".join(f"{what}: {', '.join(some)}" for what, some in told.items() if some)
    more = {"files": list(done.paths), "left": list(done.left), "let_go": list(done.let_go), "copies": copies}
    if sentence or as_json:
        say(here, [found], sentence, as_json=as_json, **more)
    if done.left:
        again = f"repoagent runs restore {found.short}"
        here.terminal.warn(left_as_they_are(done.left, f"{again} --let-go", f"{again} --whole"))
        return Exit.REFUSED
    return Exit.DONE


def _place(here: Here, run: Run) -> WorkTree:
    """The work tree that the run worked in."""
    from repoagent.tasks.worktree import found

    if not run.record.worktree or Path(run.record.worktree) == here.worktree.top:
        return here.worktree
    place = found(here.worktree, run.record.worktree)
    if place is None:
        raise UsageError(f"{run.name} worked in {run.record.worktree}, which is not there any more")
    return place
