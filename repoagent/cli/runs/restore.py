"""`repoagent runs diff` and `restore`: what a run has changed and not committed, seen and taken back."""

from __future__ import annotations

import json
from pathlib import Path

import click

from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.runs.common import VERSION, Here, opened, run_argument, say
from repoagent.cli.screen.clean import one_line
from repoagent.errors import Busy, Exit, NothingDone, UsageError
from repoagent.repo.worktree import WorkTree
from repoagent.work.home import Run

EXAMPLES = """\b
Examples:
  repoagent runs diff last
  repoagent runs restore last
  repoagent runs restore last --whole

What a run has committed is taken back with `repoagent undo`."""


@click.command("diff", epilog=EXAMPLES)
@run_argument
@json_option
@pass_session
def diff(session: Session, /, *, run: str, as_json: bool) -> None:
    """Show what RUN has changed and not committed, as a diff."""
    from repoagent.work.landing.left import left, left_diff

    here = opened(session)
    found = here.find(run)
    place = _place(here, found)
    if as_json:
        value = {
            "version": VERSION,
            "run": found.name,
            "files": list(left(place, found.home)),
            "diff": left_diff(place, found.home),
        }
        here.terminal.result(json.dumps(value, indent=2) + "\n")
        return
    here.terminal.diff(left_diff(place, found.home))


@click.command("restore", epilog=EXAMPLES)
@run_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--let-go", is_flag=True, help="Skip files whose lines were changed since, and forget their changes."
)
@click.option("--whole", is_flag=True, help="Undo these too, and keep a copy of them.")
@json_option
@pass_session
def command(session: Session, /, *, run: str, yes: bool, let_go: bool, whole: bool, as_json: bool) -> Exit:
    """Take back what RUN has changed and not committed. A run that is alive is not touched.

    What else was done to the files stays. A file in which the same lines were changed since is left as it is, and
    named, and the exit code is 3.
    """
    from repoagent.work.landing.left import left, left_as_they_are, take_back

    if let_go and whole:
        raise UsageError("say one of --let-go and --whole")

    here = opened(session)
    found = here.find(run)
    if found.alive:
        raise Busy(f"{found.name} is alive: `repoagent runs stop {found.short}` first")
    place = _place(here, found)
    paths = left(place, found.home)
    if not paths:
        raise NothingDone(f"{found.name} has left nothing uncommitted")
    if not yes:
        if not here.terminal.can_ask:
            raise UsageError(f"say --yes to take back what {found.name} has changed: {', '.join(paths)}")
        question = one_line(f"Take back the changes of {', '.join(paths)}")
        if here.terminal.ask(question, {"y": "take them back", "n": "leave them"}) == "n":
            raise NothingDone("the files stay as they are")
    done = take_back(place, found.home, "let-go" if let_go else "whole" if whole else "leave")
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
    from repoagent.work.ground.place import found

    if not run.record.worktree or Path(run.record.worktree) == here.worktree.top:
        return here.worktree
    place = found(here.worktree, run.record.worktree)
    if place is None:
        raise UsageError(f"{run.name} worked in {run.record.worktree}, which is not there any more")
    return place
