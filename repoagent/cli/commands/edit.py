"""`repoagent edit`: one request, one validated change, one commit; --again replaces the last edit."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli import Ended
from repoagent.cli import options as shared
from repoagent.cli.session import Session, json_option, open_repository, pass_session
from repoagent.errors import Exit, NothingDone, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.edit.request import EditRequest, Target
    from repoagent.git.worktree import WorkTree

EPILOG = """\b
Examples:
  repoagent edit src/app.py "return a default when the config file is missing"
  repoagent edit src/app.py::load tests/test_app.py "..." --check "pytest -q"
  git log -1 --format=%B | repoagent edit --yes CHANGES.md -
"""
SETTINGS = {  # option: key of the configuration
    **{name: name for name in ("model", "check", "max_turns", "max_tokens", "max_cost", "effort")},
    "check_unconfined": "check.unconfined",
    "scope": "edit.scope",
    "edit_format": "edit.format",
}
CONFLICTS = {"again": ("message_file", "show_prompt", "create")}  # parameters of options
OPTION_GROUPS = {  # by their parameters
    "Options": (
        "model", "yes", "by_hunk", "dry_run", "no_commit", "check", "create", "read", "scope", "branch", "again",
        "max_cost",
    ),
    "Input and output": ("message_file", "conversation", "as_json"),
    "Model": ("effort", "edit_format", "max_turns", "max_tokens", "reply", "record", "show_prompt"),
    "Safety": ("strict", "allow_sensitive", "no_parse_check", "check_unconfined"),
    "Commit": ("edit_message", "signoff", "sign", "fixup", "no_verify", "include_dirty"),
}  # fmt: skip


@click.command(cls=shared.Committing, epilog=EPILOG, option_groups=OPTION_GROUPS)
@click.argument("arguments", nargs=-1, metavar="FILE... [INSTRUCTION]")
@shared.model_option
@click.option(
    "-F", "--message-file", type=shared.file_path, metavar="FILE", help="Read the instruction from FILE."
)
@shared.asking
@click.option("--check", metavar="CMD", help="Commit only if CMD passes; if it fails, the model sees why.")
@shared.check_unconfined_option
@shared.number_option("--max-turns", type=click.IntRange(1), metavar="N", help="Make at most N model calls.")
@shared.max_tokens_option
@shared.max_cost_option
@click.option("--create", is_flag=True, help="Create files that do not exist.")
@click.option(
    "--scope", type=click.Choice(["files", "neighbors", "repo"]), metavar="SCOPE",
    help="What may change: only the named files (files), also their neighbors (neighbors), or any file (repo).",
)  # fmt: skip
@click.option("--read", multiple=True, metavar="FILE", help="Show FILE to the model, read-only. Repeatable.")
@shared.committing
@click.option(
    "--conversation", type=click.Choice(["continue", "fresh"]), default="continue", metavar="HOW",
    help="Use earlier exchanges about the files (continue, the default) or start over (fresh).",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Undo the last edit, and run INSTRUCTION on its files instead.")
@click.option(
    "--format", "edit_format", type=click.Choice(["auto", "diff", "search", "whole", "function"]),
    metavar="FORM", help="The format of the model's answer: auto, diff, search, whole or function.",
)  # fmt: skip
@shared.effort_option
@shared.reply_option
@click.option("--strict", is_flag=True, help="Apply exact matches only, without any tolerance.")
@shared.record_option
@shared.show_prompt_option
@json_option
@pass_session
def command(session: Session, /, **values: Any) -> Exit:
    """Change FILEs as INSTRUCTION describes, and commit exactly that change.

    FILE may name lines or a definition: FILE:10-40, FILE::symbol. Without an INSTRUCTION your editor opens; `-` reads
    it from standard input.
    """
    from repoagent.llm.open_model import preload_model

    options = SimpleNamespace(**values)
    if not options.arguments and not options.again:
        raise UsageError('no file and no instruction: use repoagent edit FILE "INSTRUCTION"')
    shared.refuse_conflicts(options, shared.COMMIT_CONFLICTS, CONFLICTS)
    preload_model(options.model or os.environ.get("REPOAGENT_MODEL"))  # a slow import, done while git runs
    flags = {**{key: getattr(options, name) for name, key in SETTINGS.items()}, **shared.parse_check(options)}
    repo = open_repository(session, flags)
    repo.settle()
    worktree, settings, terminal = repo.worktree, repo.settings, repo.terminal
    targets, read, text = _files(options, worktree)
    from repoagent.cli.ui.outcome import show_outcome
    from repoagent.cli.ui.terminal_interface import TerminalInterface
    from repoagent.edit.edit import edit
    from repoagent.edit.model_setup import model_setup
    from repoagent.edit.undo import last_request

    def ask() -> EditRequest:
        fields: dict[str, object] = {"targets": targets}
        if options.again:
            if len(options.arguments) != 1 or not options.arguments[0].strip():
                raise UsageError('--again takes one instruction: use repoagent edit --again "INSTRUCTION"')
            instruction = _instruction(options.arguments[0], options, terminal, targets)
            before = last_request(worktree)
            undone = before.edit.undone
            fields = {"targets": before.targets, "instead_of": None if undone else before.edit.id}
        else:
            instruction = _instruction(text, options, terminal, targets)
        return shared.edit_request(
            options, settings, instruction, **fields,
            read=read,
            create=options.create or options.again,
            scope=settings.text("edit.scope"),
            fresh=options.conversation == "fresh",
        )  # fmt: skip

    if options.show_prompt:
        from repoagent.cli.commands.context import prompt_of, show_texts

        shown = prompt_of(worktree, ask(), settings)
        show_texts(shown, terminal, as_json=options.as_json)
        return Exit.DONE
    shared.require_answers(terminal, options)
    # report errors before the user writes an instruction
    ready = model_setup(settings, options.record, options.reply, terminal.warn)
    request = ask()
    with terminal.working("reading the repository") as working:
        commits = not options.no_commit
        ui = TerminalInterface(terminal, working, yes=options.yes, by_hunk=options.by_hunk, commits=commits)
        try:
            outcome = edit(worktree, request, settings, ui, ready)
        except RepoagentError as error:
            ui.last_words(error)
            raise
        except KeyboardInterrupt as error:
            if not ui.stopped:
                ui.interrupted("interrupted; nothing was changed")
            ui.last_words(error)
            if options.as_json or isinstance(error, Ended):
                raise
            return Exit.INTERRUPTED
    show_outcome(
        outcome,
        terminal,
        as_json=options.as_json,
        shown_remarks=ui.shown_remarks,
        answered=ui.answered,
        ending=ui.ending,
    )
    return Exit.NOTHING if outcome.kind == "answered" else Exit.DONE


def _files(
    options: SimpleNamespace, worktree: WorkTree
) -> tuple[tuple[Target, ...], tuple[str, ...], str | None]:
    """The files to change and to read, and the instruction if it is among the arguments.

    Raises whatever `prepare_prompt` raises for the files, before a model is opened or an instruction is written.
    """
    from dataclasses import replace

    from repoagent.edit.request import no_file, parse_target, split_arguments
    from repoagent.git.worktree import relative_path

    cwd = Path.cwd()
    read = tuple(relative_path(worktree, path, cwd) for path in options.read)
    if options.again:
        return (), read, None
    elsewhere = bool(options.message_file)
    files, text = split_arguments(
        options.arguments, instruction_elsewhere=elsewhere, cwd=cwd, create=options.create
    )
    if not files and text and text != "-":
        raise UsageError(f"edit needs a file; did you mean `repoagent run {shlex.quote(text)}`?")
    if not files:
        raise UsageError('no file to edit: use repoagent edit FILE "INSTRUCTION"')
    named = [parse_target(file, cwd) for file in files]
    targets = tuple(replace(target, path=relative_path(worktree, target.path, cwd)) for target in named)
    for target in targets:  # before the imports below, which are slow
        if not (options.create or os.path.lexists(worktree.top / target.path)):
            raise no_file(worktree, target.path)
    from repoagent.edit.guards.off_limits import off_limits_gate
    from repoagent.edit.prompt.build import read_sources
    from repoagent.edit.request import EditRequest

    request = EditRequest("", tuple(targets), tuple(read), options.create)
    read_sources(worktree, request, off_limits_gate(worktree.top, request.paths))
    return targets, read, text


def _instruction(
    text: str | None, options: SimpleNamespace, terminal: Terminal, targets: tuple[Target, ...]
) -> str:
    """The instruction from the arguments, a file, standard input or the editor. Raises UsageError if it is empty."""
    if options.message_file is not None:
        text = shared.read_words(options.message_file, "instruction")
    elif text == "-":
        text = shared.read_words(Path("-"), "instruction")
    if text is not None:
        if not text.strip():
            raise UsageError("the instruction is empty")
        return text.strip()
    names = ", ".join(target.path for target in targets)
    if not terminal.can_ask:
        use = 'use repoagent edit FILE "INSTRUCTION", or - to read it from standard input'
        raise UsageError(f"no instruction for {names}: {use}")
    head = f"\n# Describe what to change in {names}. Lines starting with # are ignored.\n"
    lines = (terminal.edit_text(head, ".md") or "").split("\n")
    text = "\n".join(line for line in lines if not line.startswith("#")).strip()
    if not text:
        raise NothingDone("no instruction; nothing was changed")
    return text
