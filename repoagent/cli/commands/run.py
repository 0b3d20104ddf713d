"""`repoagent run`: a whole task, in this work tree or in a linked one.

The options become a `RunRequest`; `run_in_worktree` runs it and removes a linked work tree that
ends up without changes.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli import Ended
from repoagent.cli.click_commands import words_in
from repoagent.cli.commands import run_options
from repoagent.cli.commands.run_options import explicit_options, inherit_options
from repoagent.cli.options import Committing, file_path, refuse_conflicts, show_prompt_option
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.errors import Exit, RepoagentError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.git.worktree import WorkTree
    from repoagent.tasks.run_context import RunRequest

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
    "-F", "--file", "prompt_file", type=file_path, metavar="FILE", help="Read the prompt from FILE."
)
@run_options.approval_options("run")
@click.option("--plan-only", is_flag=True, help="Read the code and make a plan; change nothing.")
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
@run_options.finish_options("run")
@run_options.limit_options()
@show_prompt_option
@click.option("--child", hidden=True)
@json_option
@run_options.stream_option
@pass_session
def command(session: Session, /, **values: Any) -> Exit:
    """Do a whole task: read the code, change files, run commands, commit.

    PROMPT describes the task; a second argument `-` adds standard input. Every run is recorded; resume an interrupted
    one with --resume.
    """
    from repoagent.git.worktree import layout, open_worktree
    from repoagent.llm.open_model import preload

    options = SimpleNamespace(**values)
    refuse_conflicts(options, CONFLICTS)
    preload(options.model or os.environ.get("REPOAGENT_MODEL"))
    worktree = open_worktree(Path.cwd())
    flags = run_options.flags_of(options)
    settings, terminal = session.open(layout(worktree), flags)
    if not (options.show_prompt or options.json_stream):
        from repoagent.cli.ui.echo import hush

        hush(terminal)
    from repoagent.cli.app import settle

    settle(worktree, terminal)
    if options.show_prompt:
        return _show_prompt(options, worktree, settings, terminal)
    if not options.json_stream:
        return _run_for_user(options, worktree, settings, terminal)
    from repoagent.cli.commands.run_output import emit_error

    try:
        return _run_for_program(options, worktree, settings, terminal)
    except RepoagentError as error:
        emit_error(error)
        return error.exit_code


def _show_prompt(
    options: SimpleNamespace, worktree: WorkTree, settings: Settings, terminal: Terminal
) -> Exit:
    from repoagent.cli.commands.context import ShownPrompt, blocks_of, show_texts, spec_of
    from repoagent.llm.model import display_name
    from repoagent.tasks.run_context import NonInteractiveRun
    from repoagent.tasks.session import first_request

    request, _ = request_of(options, worktree, settings)
    spec = spec_of(settings)
    ui = NonInteractiveRun()
    blocks = blocks_of(first_request(worktree, request, settings, ui, spec))
    found = ShownPrompt(display_name(spec), None, blocks, tuple(ui.said))
    show_texts(found, terminal, as_json=options.as_json, count=False)
    return Exit.DONE


def _run_for_user(
    options: SimpleNamespace, worktree: WorkTree, settings: Settings, terminal: Terminal
) -> Exit:
    from repoagent.cli.commands.run_output import exit_code, show_interrupted, show_run
    from repoagent.cli.commands.run_ui import RunTerminal
    from repoagent.tasks.worktree import run_in_worktree

    request, held = request_of(options, worktree, settings)
    if request.mode == "ask" and not request.plan_only and not terminal.can_ask:
        raise UsageError(
            "cannot ask for approval without a terminal; use --mode auto-edit, auto or read-only, or answer the "
            "questions of --json-stream"
        )
    waiting = terminal.working("reading the repository")
    ready = open_setup(options, settings, terminal.warn, waiting.progress)
    with waiting as working:
        ui = RunTerminal.of(terminal, working, request.mode)
        if held:
            ui.say(held)
        try:
            outcome = run_in_worktree(worktree, request, settings, ui, ready)
        except (RepoagentError, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt):
                working.interrupted()
            working.quiet()
            ui.last_words(error)
            said = show_interrupted(worktree, request.name, terminal, error)
            if not said or options.as_json or isinstance(error, Ended):
                raise
            return Exit.INTERRUPTED
    show_run(worktree, outcome, terminal, as_json=options.as_json, answered=ui.answered)
    return exit_code(outcome)


def _run_for_program(
    options: SimpleNamespace, worktree: WorkTree, settings: Settings, terminal: Terminal
) -> Exit:
    from repoagent.cli.commands.run_output import EventStream, emit, emit_error, exit_code
    from repoagent.tasks.worktree import run_in_worktree

    request, held = (
        (subagent_request(options, worktree), "")
        if options.child
        else request_of(options, worktree, settings)
    )
    ui = EventStream(yes=request.mode in {"auto", "auto-edit"})
    ready = open_setup(options, settings, ui.say)
    emit(
        "start", {"run": request.name, "kind": request.kind, "mode": request.mode, "model": model_name(ready)}
    )
    if held:
        ui.say(held)
    try:
        outcome = run_in_worktree(worktree, request, settings, ui, ready)
    except RepoagentError as error:
        ui.model_output.add_to(error)
        emit_error(error, ready.meter)
        return error.exit_code
    ui.end(outcome)
    return exit_code(outcome)


def request_of(options: SimpleNamespace, worktree: WorkTree, settings: Settings) -> tuple[RunRequest, str]:
    """The request of the command line, and for a resumed run a sentence about the options that it inherits ("" for
    none), which are added to `options`. Raises UsageError for invalid options."""
    from repoagent.agent.approvals.policy import MODES
    from repoagent.git.worktree import layout
    from repoagent.tasks.run_context import RunRequest
    from repoagent.tasks.runs.directory import RunDirectory

    prompt = _prompt(options)
    name, fresh = run_options.chosen_name(options, worktree, "run")
    if not prompt.strip() and fresh:
        raise UsageError('no prompt: use repoagent run "PROMPT"')
    if options.commit_per_edit and options.no_commit:
        raise UsageError("--commit-per-edit and --no-commit cannot be combined")
    _refuse_swallowed(options)
    held = "" if fresh else inherit_options(options, settings, RunDirectory(layout(worktree), name))
    mode = next(mode for mode in MODES if mode == (options.mode or settings.text("run.mode")))
    request = RunRequest(
        prompt.strip(),
        name,
        mode=mode,
        plan_only=options.plan_only,
        commit=run_options.commit_options(options),
        commit_per_edit=options.commit_per_edit,
        check=options.check,
        allow_sensitive=options.allow_sensitive,
        allow=options.allow,
        network=options.network,
        confine=not options.no_sandbox,
        agent=options.agent,
        worktree=str(options.worktree or ""),
        branch=options.branch or "",
        options=explicit_options(options),
    )
    return request, held


def subagent_request(options: SimpleNamespace, worktree: WorkTree) -> RunRequest:
    """The request of a subagent; its limits are what its parent has left."""
    from repoagent.git.transaction.results import Options
    from repoagent.git.worktree import layout
    from repoagent.llm.usage import Limits
    from repoagent.tasks.run_context import RunRequest
    from repoagent.tasks.runs.directory import RunDirectory
    from repoagent.tasks.subagents.process import die_with_parent, read_spec

    die_with_parent()
    order = read_spec(RunDirectory(layout(worktree), options.child))
    budget = order.budget
    options.limits = Limits(budget.turns, budget.tokens, budget.cost, None, budget.seconds)
    return RunRequest(
        order.prompt,
        options.child,
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


def open_setup(
    options: SimpleNamespace,
    settings: Settings,
    say: Callable[[str], None],
    on_progress: Callable[[str, float], None] = lambda doing, part: None,
) -> ModelSetup:
    from repoagent.edit.model_setup import model_setup

    limits = getattr(options, "limits", None) or run_options.limits(options, settings)
    return model_setup(
        settings,
        options.record,
        options.reply,
        say,
        on_progress,
        limits=limits,
        needed=options.agent == "model",
    )


def model_name(ready: ModelSetup) -> str:
    """The display name of the model."""
    from repoagent.llm.model import display_name

    return display_name(ready.model.spec)


def _refuse_swallowed(options: SimpleNamespace) -> None:
    """Raise UsageError if --worktree or --branch took the next option as its value."""
    for option, value in (("--worktree DIR", options.worktree), ("--branch NAME", options.branch)):
        if str(value or "").startswith("-"):
            name, what = option.split()
            raise UsageError(f"{name} needs a {what}, but is followed by {value}: use {option}")


def _prompt(options: SimpleNamespace) -> str:
    if options.prompt_file is not None and options.words:
        raise UsageError("--file cannot be combined with a PROMPT")
    if options.prompt_file is not None:
        return words_in(options.prompt_file, "prompt")
    words = [word for word in options.words if word != "-"]
    texts = [" ".join(words)] if words else []
    if "-" in options.words:
        texts.append(words_in(Path("-"), "prompt"))
    return "\n\n".join(texts)
