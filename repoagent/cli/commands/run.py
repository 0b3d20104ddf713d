"""`repoagent run`: perform a whole task, in this work tree or in a linked one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli import Ended
from repoagent.cli.commands import run_options
from repoagent.cli.options import GroupedCommand, file_path, read_words, refuse_conflicts, show_prompt_option
from repoagent.cli.session import Repository, Session, json_option, open_repository, pass_session
from repoagent.errors import Exit, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.tasks.run_context import RunRequest

EPILOG = """\b
Examples:
  repoagent run "make the failing test in tests/test_app.py pass"
  repoagent run --mode auto-edit --check "pytest -q" -F task.md
  git log -1 --format=%B | repoagent run "add the test it lacks" -
"""
CONFLICTS = {  # parameters of options
    "show_prompt": ("continues", "resume", "conversation", "branch", "worktree", "json_stream"),
    "commit_per_edit": ("no_commit",),
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


@click.command(cls=GroupedCommand, epilog=EPILOG, option_groups=OPTION_GROUPS)
@click.argument("words", nargs=-1, metavar="[PROMPT]")
@click.option(
    "-F", "--file", "prompt_file", type=file_path, metavar="FILE", help="Read the prompt from FILE."
)
@run_options.approval_options("run")
@click.option("--plan-only", is_flag=True, help="Read the code and make a plan; change nothing.")
@click.option("--branch", metavar="NAME", help="Work on a new branch NAME, in its own work tree.")
@click.option(
    "--worktree", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Work in a new linked work tree at DIR, and keep it.",
)  # fmt: skip
@click.option(
    "--allow", multiple=True, metavar="PATTERN", help="Run matching commands without asking. Repeatable."
)
@click.option("--network", is_flag=True, help="Allow network access in the sandbox.")
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
    from repoagent.llm.open_model import preload_model

    options = SimpleNamespace(**values)
    refuse_conflicts(options, CONFLICTS)
    preload_model(options.model or os.environ.get("REPOAGENT_MODEL"))
    repo = open_repository(session, run_options.flags_of(options))
    repo.settle()
    if options.show_prompt:
        from repoagent.cli.commands.context import ShownPrompt, blocks_of, show_texts, spec_of
        from repoagent.llm.model import display_name
        from repoagent.tasks.run_context import NonInteractiveRun
        from repoagent.tasks.session import first_request

        request, _ = _request(options, repo)
        spec, ui = spec_of(repo.settings), NonInteractiveRun()
        blocks = blocks_of(first_request(repo.worktree, request, repo.settings, ui, spec))
        prompt = ShownPrompt(display_name(spec), None, blocks, tuple(ui.sentences))
        show_texts(prompt, repo.terminal, as_json=options.as_json)
        return Exit.DONE
    if not options.json_stream:
        return _run_for_user(options, repo)
    from repoagent.cli.commands.run_output import emit_error

    try:
        return _run_for_program(options, repo)
    except RepoagentError as error:
        emit_error(error)
        return error.exit_code


def _run_for_user(options: SimpleNamespace, repo: Repository) -> Exit:
    from repoagent.cli.commands.run_output import exit_code, show_interrupted, show_run
    from repoagent.cli.commands.run_ui import RunTerminal
    from repoagent.tasks.worktree import run_in_worktree

    worktree, settings, terminal = repo.worktree, repo.settings, repo.terminal
    request, inherited = _request(options, repo)
    if request.mode == "ask" and not request.plan_only and not terminal.can_ask:
        raise UsageError(
            "cannot ask for approval without a terminal; use --mode auto-edit, auto or read-only, or use "
            "--json-stream and answer its questions"
        )
    ready = _open_model(options, settings, terminal.warn)
    with terminal.working("reading the repository") as working:
        ui = RunTerminal.of(terminal, working, request.mode)
        if inherited:
            ui.say(inherited)
        try:
            outcome = run_in_worktree(worktree, request, settings, ui, ready)
        except (RepoagentError, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt):
                working.interrupted()
            working.quiet()
            ui.last_words(error)
            explained = show_interrupted(worktree, request.name, terminal, error)
            if not explained or options.as_json or isinstance(error, Ended):
                raise
            return Exit.INTERRUPTED
    show_run(worktree, outcome, terminal, as_json=options.as_json, answered=ui.answered)
    return exit_code(outcome)


def _run_for_program(options: SimpleNamespace, repo: Repository) -> Exit:
    from repoagent.cli.commands.run_output import EventStream, emit_error, emit_event, exit_code
    from repoagent.llm.model import display_name
    from repoagent.tasks.worktree import run_in_worktree

    if options.child:  # a subagent, limited to what is left of its parent's limits
        from repoagent.tasks.run_context import read_spec
        from repoagent.tasks.runs.directory import RunDirectory
        from repoagent.tasks.subagents import die_with_parent

        die_with_parent()
        request, options.limits = read_spec(RunDirectory(repo.layout, options.child))
        inherited = ""
    else:
        request, inherited = _request(options, repo)
    ui = EventStream(yes=request.mode in {"auto", "auto-edit"})
    ready = _open_model(options, repo.settings, ui.say)
    model = display_name(ready.model.spec)
    emit_event("start", {"run": request.name, "kind": request.kind, "mode": request.mode, "model": model})
    if inherited:
        ui.say(inherited)
    try:
        outcome = run_in_worktree(repo.worktree, request, repo.settings, ui, ready)
    except RepoagentError as error:
        ui.model_output.add_to(error)
        emit_error(error, ready.meter)
        return error.exit_code
    ui.end(outcome)
    return exit_code(outcome)


def _request(options: SimpleNamespace, repo: Repository) -> tuple[RunRequest, str]:
    """The request, and a sentence about the options of a resumed run, which are added to `options`."""
    from repoagent.agent.approvals.policy import MODES
    from repoagent.tasks.run_context import RunRequest
    from repoagent.tasks.runs.directory import RunDirectory

    if options.prompt_file is not None:
        if options.words:
            raise UsageError("--file cannot be combined with a PROMPT")
        prompt = read_words(options.prompt_file, "prompt").strip()
    else:
        words = " ".join(word for word in options.words if word != "-")
        piped = read_words(Path("-"), "prompt") if "-" in options.words else ""
        prompt = "\n\n".join(filter(None, (words, piped))).strip()
    name, fresh = run_options.chosen_name(options, repo.worktree, "run")
    if not prompt and fresh:
        raise UsageError('no prompt: use repoagent run "PROMPT"')
    for option, value in (("--worktree DIR", options.worktree), ("--branch NAME", options.branch)):
        if str(value or "").startswith("-"):  # click took the next option as the value
            raise UsageError(f"{option}: missing value before {value}")
    inherited = ""
    if not fresh:
        inherited = run_options.inherit_options(options, repo.settings, RunDirectory(repo.layout, name))
    request = RunRequest(
        prompt,
        name,
        mode=next(mode for mode in MODES if mode == (options.mode or repo.settings.text("run.mode"))),
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
        options=run_options.explicit_options(options),
    )
    return request, inherited


def _open_model(options: SimpleNamespace, settings: Settings, say: Callable[[str], None]) -> ModelSetup:
    from repoagent.edit.model_setup import model_setup

    limits = getattr(options, "limits", None) or run_options.limits(options, settings)
    needed = options.agent == "model"
    return model_setup(settings, options.record, options.reply, say, limits=limits, needed=needed)
