"""`repoagent run`: a whole task, with a model that looks around, changes files, runs commands, and commits."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.landing.options import Committing
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.program.words import words_in
from repoagent.cli.run import options as run_options
from repoagent.errors import Busy, Exit, NothingDone, RepoagentError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from repoagent.cli.screen.terminal import Terminal
    from repoagent.config import Settings
    from repoagent.edit.means import Means
    from repoagent.repo import WorkTree
    from repoagent.work import RunOutcome, RunRequest, Talk
    from repoagent.work.home import Home
    from repoagent.work.home.record import Record

SHOWN = 8  # files
EPILOG = """\b
Examples:
  repoagent run "make the failing test in tests/test_app.py pass"
  repoagent run --mode auto-edit --check "pytest -q" -F task.md
  git log -1 --format=%B | repoagent run "write the test that this commit lacks" -
"""


@click.command(cls=Committing, epilog=EPILOG)
@click.argument("words", nargs=-1, metavar="[PROMPT]")
@click.option(
    "-F",
    "--file",
    "prompt_file",
    type=run_options.file_path,
    metavar="FILE",
    help="Read the prompt from FILE.",
)
@run_options.asking("run")
@click.option("--plan-only", is_flag=True, help="Look around and lay down a plan; change nothing.")
@click.option("--branch", metavar="NAME", help="Work on a new branch NAME, in a work tree of its own.")
@click.option(
    "--worktree", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Work in DIR, a new linked work tree, and leave it there.",
)  # fmt: skip
@click.option("--allow", multiple=True, metavar="PATTERN", help="A command that may run unasked. Repeatable.")
@click.option("--network", is_flag=True, help="Commands in the sandbox reach the network.")
@click.option("--no-sandbox", is_flag=True, help="Commands run without a sandbox; each is asked about.")
@run_options.landing("run")
@run_options.limiting()
@click.option("--child", hidden=True)
@json_option
@click.option("--json-stream", is_flag=True, help="Print each event as it happens, a line of JSON each.")
@pass_session
def command(session: Session, /, **options: Any) -> Exit:
    """Do a whole task: look around, change files, run commands, commit.

    PROMPT says what to do; `-` in it adds standard input. Everything that is said and done is in a file that you own;
    a run that was interrupted is gone on with by --resume.
    """
    from repoagent.llm import preload
    from repoagent.repo import layout, open_worktree

    given = SimpleNamespace(**options)
    session = session._replace(verbose=session.verbose or given.verbose)
    preload(given.model or os.environ.get("REPOAGENT_MODEL"))
    worktree = open_worktree(Path.cwd())
    flags = {key: getattr(given, name) for name, key in run_options.SETTINGS.items()}
    settings, terminal = session.open(layout(worktree), flags)
    from repoagent.cli.program.settle import settle

    settle(worktree, terminal)
    if not given.json_stream:
        return _for_a_person(given, worktree, settings, terminal)
    from repoagent.cli.run.events import emit_error

    try:
        return _for_a_program(given, worktree, settings, terminal)
    except RepoagentError as error:
        emit_error(error)
        return error.exit_code


def _for_a_person(given: SimpleNamespace, worktree: WorkTree, settings: Settings, terminal: Terminal) -> Exit:
    from repoagent.cli.run.outcome import show_run
    from repoagent.cli.run.talk import RunTalk

    request = _request(given, worktree, settings)
    if request.mode == "ask" and not request.plan_only and not terminal.can_ask:
        raise UsageError(
            "there is no terminal to ask on: say --mode auto-edit, auto or read-only, or --json-stream to answer as a "
            "program"
        )
    waiting = terminal.working("reading the repository")
    ready = _means(given, settings, terminal.warn, waiting.progress)
    with waiting as working:
        talk = RunTalk.of(terminal, working, request.mode)
        try:
            outcome = _in_its_place(worktree, request, settings, talk, ready)
        except (RepoagentError, KeyboardInterrupt) as error:
            working.quiet()
            _say_what_is_kept(worktree, request.name, terminal, error)
            raise
    show_run(worktree, outcome, terminal, as_json=given.as_json, answered=talk.answered)
    return Exit.DONE


def _say_what_is_kept(worktree: WorkTree, name: str, terminal: Terminal, error: BaseException) -> None:
    """How a run that did not come to its end is gone on with, and what it has left in the files."""
    from repoagent.repo import layout
    from repoagent.work.home import Home, Stopped
    from repoagent.work.left import left

    home = Home(layout(worktree), name)
    if not home.conversation.exists() or isinstance(error, (Busy, NothingDone)):
        return
    if isinstance(error, Stopped):  # its exit code has no sentence of its own
        terminal.note(str(error))
    changed = left(worktree, home)
    if changed:
        names = ", ".join(changed[:SHOWN]) + (
            f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
        )
        terminal.note(f"changed and not committed: {names} (`repoagent runs restore {name}` takes it back)")
    terminal.note(f"`repoagent run --resume {name}` goes on from here")


def _for_a_program(
    given: SimpleNamespace, worktree: WorkTree, settings: Settings, terminal: Terminal
) -> Exit:
    from repoagent.cli.run.events import Events, emit, emit_error

    request = _child(given, worktree) if given.child else _request(given, worktree, settings)
    talk = Events(yes=request.mode in {"auto", "auto-edit"})
    ready = _means(given, settings, talk.say)
    emit(
        "start", {"run": request.name, "kind": request.kind, "mode": request.mode, "model": shown_name(ready)}
    )
    try:
        outcome = _in_its_place(worktree, request, settings, talk, ready)
    except RepoagentError as error:
        emit_error(error, ready.meter)
        return error.exit_code
    talk.end(outcome)
    return Exit.DONE


def _child(given: SimpleNamespace, worktree: WorkTree) -> RunRequest:
    """What a child of a run is to do; its limits are those that its parent has left."""
    from repoagent.llm import Limits
    from repoagent.repo import Options, layout
    from repoagent.work import RunRequest
    from repoagent.work.children import read_order
    from repoagent.work.children.process import die_with_parent
    from repoagent.work.home import Home

    die_with_parent()
    order = read_order(Home(layout(worktree), given.child))
    budget = order.budget
    given.limits = Limits(budget.turns, budget.tokens, budget.cost, None, budget.seconds)
    return RunRequest(
        order.prompt,
        given.child,
        kind=order.kind,
        parent=order.parent,
        mode=order.mode,
        commit=Options(no_commit=True),
        tools=order.tools,
        instructions=order.instructions,
        allow=order.allow,
        network=order.network,
        confine=order.confine,
    )


def _in_its_place(
    worktree: WorkTree, request: RunRequest, settings: Settings, talk: Talk, ready: Means
) -> RunOutcome:
    """The run, in a linked work tree where one was asked for; that goes when nothing is left in it."""
    from dataclasses import replace

    from repoagent.repo.facts import current_branch
    from repoagent.repo.status import read_status
    from repoagent.work import run
    from repoagent.work.place import linked, reopened, wind_up

    home, before = _before(worktree, request.name)
    if (earlier := reopened(worktree, before.worktree, before.branch)) is not None:  # it is gone on with
        place, branch = earlier, current_branch(earlier) or ""
    elif request.branch or request.worktree:
        branch = request.branch or f"repoagent/{request.name}"
        folder = Path(request.worktree) if request.worktree else None
        place = linked(worktree, branch, folder, request.name)
        without = "; your uncommitted changes are not in it" if read_status(worktree).changed else ""
        talk.say(f"working in {place.top}, on the new branch {branch}{without}")
    else:
        return run(worktree, request, settings, talk, ready)
    request = replace(request, worktree=str(place.top), branch=branch)
    try:
        outcome = run(place, request, settings, talk, ready)
    except RepoagentError:
        if not home.conversation.exists():  # it never began
            wind_up(worktree, place, branch)
        raise
    if said := wind_up(worktree, place, branch, done=outcome.kind == "done"):
        talk.say(said)
    return outcome


def _before(worktree: WorkTree, name: str) -> tuple[Home, Record]:
    """The home of a run, and what it says of itself; an empty record for a new one.

    Raises Refused for one that came with the repository.
    """
    from repoagent.repo import layout
    from repoagent.work.home import Home, refreshed, refuse_foreign
    from repoagent.work.home.listing import Run
    from repoagent.work.home.record import Record

    home = Home(layout(worktree), name)
    refuse_foreign(home)
    return home, refreshed(Run(home, Record(), "")).record if home.record.exists() else Record()


def _means(
    given: SimpleNamespace,
    settings: Settings,
    say: Callable[[str], None],
    on_progress: Callable[[str, float], None] = lambda doing, part: None,
) -> Means:
    from repoagent.edit.means import means

    limits = getattr(given, "limits", None) or run_options.limits(given, settings)
    return means(settings, given.record, given.reply, say, on_progress, limits=limits)


def shown_name(ready: Means) -> str:
    """The model, for people."""
    from repoagent.llm.naming import shown

    return shown(ready.model.spec)


def _request(given: SimpleNamespace, worktree: WorkTree, settings: Settings) -> RunRequest:
    """What the command line asks for. Raises UsageError for what can't be meant."""
    from repoagent.agent.approval import MODES
    from repoagent.work import RunRequest

    prompt = _prompt(given)
    name, fresh = run_options.chosen_name(given, worktree, "run")
    if not prompt.strip() and fresh:
        raise UsageError('say what to do: repoagent run "PROMPT"')
    if given.commit_per_edit and given.no_commit:
        raise UsageError("--commit-per-edit and --no-commit can't be meant together")
    mode = next(mode for mode in MODES if mode == settings.text("run.mode"))
    return RunRequest(
        prompt.strip(),
        name,
        mode=mode,
        plan_only=given.plan_only,
        commit=run_options.commit_options(given),
        commit_per_edit=given.commit_per_edit,
        check=given.check,
        allow_sensitive=given.allow_sensitive,
        allow=given.allow,
        network=given.network,
        confine=not given.no_sandbox,
        agent=given.agent,
        worktree=str(given.worktree or ""),
        branch=given.branch or "",
    )


def _prompt(given: SimpleNamespace) -> str:
    if given.prompt_file is not None and given.words:
        raise UsageError("the prompt is given twice: as words, and by --file")
    if given.prompt_file is not None:
        return words_in(given.prompt_file, "prompt")
    words = [word for word in given.words if word != "-"]
    texts = [" ".join(words)] if words else []
    if "-" in given.words:
        texts.append(words_in(Path("-"), "prompt"))
    return "\n\n".join(texts)
