"""`repoagent run`: a whole task, with a model that looks around, changes files, runs commands, and commits."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.landing.options import Committing, refuse_conflicts
from repoagent.cli.program.model_options import file_path, show_prompt_option
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.program.signals import Ended
from repoagent.cli.run import options as run_options
from repoagent.errors import Exit, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.config import Settings
    from repoagent.repo import WorkTree

EPILOG = """\b
Examples:
  repoagent run "make the failing test in tests/test_app.py pass"
  repoagent run --mode auto-edit --check "pytest -q" -F task.md
  git log -1 --format=%B | repoagent run "add the test it lacks" -
"""

CONFLICTS = {  # of options: by their parameters
    "show_prompt": ("continues", "resume", "conversation", "branch", "worktree", "json_stream")
}


OPTION_GROUPS = {  # by their parameters
    "Options": (
        "model", "mode", "continues", "resume", "plan_only", "check", "branch", "worktree", "allow", "network",
        "no_commit", "max_cost",
    ),
    "Input and output": ("prompt_file", "conversation", "forget", "show_prompt", "as_json", "json_stream"),
    "Model": ("effort", "max_turns", "max_tokens", "max_time", "agent", "reply", "record"),
    "Safety": ("no_sandbox", "allow_sensitive", "no_parse_check", "check_unconfined"),
    "Commit": ("commit_per_edit", "signoff", "no_verify", "include_dirty"),
}  # fmt: skip


@click.command(cls=Committing, epilog=EPILOG, option_groups=OPTION_GROUPS)
@click.argument("words", nargs=-1, metavar="[PROMPT]")
@click.option(
    "-F",
    "--file",
    "prompt_file",
    type=file_path,
    metavar="FILE",
    help="Read the prompt from FILE.",
)
@run_options.asking("run")
@click.option("--plan-only", is_flag=True, help="Look around and make a plan; change nothing.")
@click.option("--branch", metavar="NAME", help="Work on a new branch NAME, in its own work tree.")
@click.option(
    "--worktree", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Work in a new linked work tree DIR, and keep it.",
)  # fmt: skip
@click.option(
    "--allow", multiple=True, metavar="PATTERN", help="Run matching commands without asking. Repeatable."
)
@click.option("--network", is_flag=True, help="Give commands in the sandbox network access.")
@click.option("--no-sandbox", is_flag=True, help="Run commands without a sandbox, and ask about each.")
@run_options.landing("run")
@run_options.limiting()
@show_prompt_option
@click.option("--child", hidden=True)
@json_option
@run_options.stream_option
@pass_session
def command(session: Session, /, **options: Any) -> Exit:
    """Do a whole task: look around, change files, run commands, commit.

    PROMPT says what to do; a second argument `-` adds standard input. The whole run is recorded in a file of yours;
    resume an interrupted run with --resume.
    """
    from repoagent.llm import preload
    from repoagent.repo import layout, open_worktree

    given = SimpleNamespace(**options)
    refuse_conflicts(given, CONFLICTS)
    preload(given.model or os.environ.get("REPOAGENT_MODEL"))
    worktree = open_worktree(Path.cwd())
    flags = run_options.flags_of(given)
    settings, terminal = session.open(layout(worktree), flags)
    if not (given.show_prompt or given.json_stream):
        from repoagent.cli.screen.hush import hush

        hush(terminal)
    from repoagent.cli.program.settle import settle

    settle(worktree, terminal)
    if given.show_prompt:
        return _show_prompt(given, worktree, settings, terminal)
    if not given.json_stream:
        return _for_a_person(given, worktree, settings, terminal)
    from repoagent.cli.run.events import emit_error

    try:
        return _for_a_program(given, worktree, settings, terminal)
    except RepoagentError as error:
        emit_error(error)
        return error.exit_code


def _show_prompt(given: SimpleNamespace, worktree: WorkTree, settings: Settings, terminal: Terminal) -> Exit:
    from repoagent.cli.context.prompt import Shown, blocks_of, show_texts, spec_of
    from repoagent.cli.run.asked import request_of
    from repoagent.llm.naming import shown
    from repoagent.work.sending.preview import first_request
    from repoagent.work.silent import SilentTalk

    request, _ = request_of(given, worktree, settings)
    spec = spec_of(settings)
    talk = SilentTalk()
    blocks = blocks_of(first_request(worktree, request, settings, talk, spec))
    found = Shown(shown(spec), None, blocks, tuple(talk.said))
    show_texts(found, terminal, as_json=given.as_json, count=False)
    return Exit.DONE


def _for_a_person(given: SimpleNamespace, worktree: WorkTree, settings: Settings, terminal: Terminal) -> Exit:
    from repoagent.cli.run.asked import means_of, request_of
    from repoagent.cli.run.outcome import ended_with, say_what_is_kept, show_run
    from repoagent.cli.run.place import run_in_place
    from repoagent.cli.run.talk import RunTalk

    request, held = request_of(given, worktree, settings)
    if request.mode == "ask" and not request.plan_only and not terminal.can_ask:
        raise UsageError(
            "there is no terminal to ask on: say --mode auto-edit, auto or read-only, or --json-stream to answer as a "
            "program"
        )
    waiting = terminal.working("reading the repository")
    ready = means_of(given, settings, terminal.warn, waiting.progress)
    with waiting as working:
        talk = RunTalk.of(terminal, working, request.mode)
        if held:
            talk.say(held)
        try:
            outcome = run_in_place(worktree, request, settings, talk, ready)
        except (RepoagentError, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt):
                working.interrupted()
            working.quiet()
            talk.last_words(error)
            said = say_what_is_kept(worktree, request.name, terminal, error)
            if not said or given.as_json or isinstance(error, Ended):
                raise
            return Exit.INTERRUPTED
    show_run(worktree, outcome, terminal, as_json=given.as_json, answered=talk.answered)
    return ended_with(outcome)


def _for_a_program(
    given: SimpleNamespace, worktree: WorkTree, settings: Settings, terminal: Terminal
) -> Exit:
    from repoagent.cli.run.asked import child_of, means_of, request_of, shown_name
    from repoagent.cli.run.events import Events, emit, emit_error
    from repoagent.cli.run.outcome import ended_with
    from repoagent.cli.run.place import run_in_place

    request, held = (child_of(given, worktree), "") if given.child else request_of(given, worktree, settings)
    talk = Events(yes=request.mode in {"auto", "auto-edit"})
    ready = means_of(given, settings, talk.say)
    emit(
        "start", {"run": request.name, "kind": request.kind, "mode": request.mode, "model": shown_name(ready)}
    )
    if held:
        talk.say(held)
    try:
        outcome = run_in_place(worktree, request, settings, talk, ready)
    except RepoagentError as error:
        talk.told.add_to(error)
        emit_error(error, ready.meter)
        return error.exit_code
    talk.end(outcome)
    return ended_with(outcome)
