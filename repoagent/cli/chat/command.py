"""The options of `repoagent chat`, and the loop from one input to the next."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli import Ended
from repoagent.cli.click_commands import Command
from repoagent.cli.commands import run_options
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.errors import Exit, RepoagentError

if TYPE_CHECKING:
    from repoagent.cli.chat.chat import Chat
    from repoagent.cli.chat.input import Reader

EPILOG = """\b
Examples:
  repoagent chat
  repoagent chat --mode auto-edit --check "pytest -q"
  repoagent chat --continue
  printf 'what does src/app.py do?\\n' | repoagent chat

\b
In a chat, /help shows the commands: /undo, /diff, /model, /save and more.
Without a terminal, each line of standard input is a turn; the first one that
fails ends the chat, with its exit code."""


OPTION_GROUPS = {  # by their parameters
    "Options": (
        "model", "mode", "continues", "resume", "conversation", "check", "commit_per_edit", "no_commit", "effort",
        "max_cost",
    ),
    "Input and output": ("forget", "as_json", "json_stream"),
    "Model": ("max_turns", "max_tokens", "max_time", "agent", "reply", "record"),
    "Safety": ("allow_sensitive", "no_parse_check", "check_unconfined"),
    "Commit": ("signoff", "no_verify", "include_dirty"),
}  # fmt: skip


@click.command(cls=Command, epilog=EPILOG, option_groups=OPTION_GROUPS)
@run_options.asking("chat")
@run_options.landing("chat")
@run_options.limiting(" for each message")
@json_option
@run_options.stream_option
@pass_session
def command(session: Session, /, **options: Any) -> Exit:
    """Work with a model, turn by turn.

    The model looks around, changes files, runs commands, and commits what belongs together. The whole chat is recorded
    in a file of yours; resume it with --continue or --resume.
    """
    from repoagent.git.worktree import layout, open_worktree
    from repoagent.llm.registry import preload

    given = SimpleNamespace(**options)
    preload(given.model or os.environ.get("REPOAGENT_MODEL"))
    worktree = open_worktree(Path.cwd())
    flags = run_options.flags_of(given)
    place = layout(worktree)
    settings, terminal = session.open(place, flags)
    if given.json_stream:  # it is a program that is asked, wherever it stands
        terminal = terminal._replace(reads=False)
    _refuse(given, terminal.can_ask)
    from repoagent.cli.app import settle
    from repoagent.cli.chat.chat import leave, open_chat
    from repoagent.cli.ui.echo import hushed

    settle(worktree, terminal)
    try:
        with hushed(terminal):
            chat = open_chat(session, given, worktree, (place, settings, terminal), flags)
            if given.json_stream:
                from repoagent.cli.chat.chat import ui

                code = ui(chat)
            else:
                _greet(chat)
                _talk(chat, _reader(chat))
                code = Exit.DONE
            leave(chat, worktree)
    except RepoagentError as error:
        if given.json_stream:
            from repoagent.cli.commands.run_output import emit_error

            emit_error(error)
            return error.exit_code
        if not given.as_json:
            raise
        problem = {"kind": error.exit_code.name.lower(), "exit": int(error.exit_code), "message": str(error)}
        terminal.result(json.dumps({"version": 1, "error": {**problem, **error.details()}}) + "\n")
        return error.exit_code
    return code


def _refuse(given: SimpleNamespace, person: bool) -> None:
    from repoagent.errors import UsageError

    if given.as_json and person:
        raise UsageError("--json is for turns from a pipe: printf 'WORDS\\n' | repoagent chat --json")

    if given.commit_per_edit and given.no_commit:
        raise UsageError("--commit-per-edit and --no-commit cannot be combined")
    if given.reply is not None and str(given.reply) == "-":
        raise UsageError("standard input is what you say in a chat: name a file for --reply")


def _greet(chat: Chat) -> None:
    """Say how to begin; of a chat that is gone on with its last turn, too."""
    if not chat.person:
        return
    from repoagent.agent.state import open_state
    from repoagent.cli.chat.chat import recap, show_left
    from repoagent.cli.chat.slash_conversation import unfinished
    from repoagent.tasks.finish import left

    turns = open_state(chat.run_dir.conversation).turns
    if turns:
        chat.terminal.note(f"{chat.name} · {len(turns)} turns", "dim")
        recap(turns, chat.terminal)
        show_left(left(chat.worktree, chat.run_dir), chat.terminal)
        if unfinished(chat):
            chat.terminal.note("its last turn was stopped: /continue goes on with it")
    chat.terminal.note("/help shows the commands; ^D ends the chat", "dim")


def _reader(chat: Chat) -> Reader:
    from repoagent.cli.chat.input import Lines

    if not (chat.person and chat.terminal.moves):
        return Lines(chat.terminal)
    from repoagent.cli.chat.chat import bar
    from repoagent.cli.chat.input import Editor, Offered, Paths, history_file
    from repoagent.cli.chat.slash_commands import arguments, commands

    paths = Paths(chat.worktree)
    offered = Offered(commands, lambda name, typed: arguments(chat, name, typed), paths)

    def at_prompt(width: int) -> str:
        paths.refresh()
        return bar(chat, width)

    return Editor(chat.terminal, history_file(chat.worktree), offered, at_prompt)


def _talk(chat: Chat, reader: Reader) -> None:
    """From input to input until the end. A person sees what went wrong and goes on; from a pipe it is raised."""
    while True:
        width = shutil.get_terminal_size((chat.terminal.width, 24)).columns  # it may have changed
        chat.terminal = chat.terminal._replace(width=width)
        try:
            text = reader.read()
            if text is None or heeded(chat, text):
                break
        except Ended:
            raise
        except KeyboardInterrupt:
            if not chat.person:
                raise
            _stopped(chat)
        except RepoagentError as error:
            if not chat.person:
                raise
            _failed(chat, error)
    if chat.person and chat.run_dir.conversation.exists():
        chat.terminal.note(f"`repoagent chat --resume {chat.name}` goes on with this", "dim")


def heeded(chat: Chat, text: str) -> bool:
    """Do what was said; whether that ends the chat."""
    from repoagent.cli.chat import slash_commands
    from repoagent.cli.chat.chat import turn

    words = text.strip()
    if not words:
        return False
    if words.startswith("!"):
        slash_commands.run(chat, words)
        return False
    said: str | None = words
    if (found := slash_commands.read(text)) is not None:
        then = slash_commands.perform(chat, *found)
        if then is None:
            return False
        if then.ends:
            return True
        said = then.words
    if said is not None:
        turn(chat, said)
    return False


def _stopped(chat: Chat) -> None:
    from repoagent.cli.chat.chat import show_left
    from repoagent.cli.chat.slash_conversation import unfinished
    from repoagent.tasks.finish import left

    kept = "; what was said and done is kept: say how to go on, or /continue" if unfinished(chat) else ""
    chat.terminal.note(f"\nstopped{kept}")
    show_left(left(chat.worktree, chat.run_dir), chat.terminal)


def _failed(chat: Chat, error: RepoagentError) -> None:
    from repoagent.cli.chat.chat import show_left
    from repoagent.cli.chat.slash_conversation import unfinished
    from repoagent.errors import Busy, NothingDone, UsageError
    from repoagent.tasks.finish import left
    from repoagent.tasks.runs.live import Stopped

    chat.terminal.note(str(error), *(() if isinstance(error, NothingDone | Stopped) else ("red",)))
    if isinstance(
        error, NothingDone | UsageError | Busy
    ):  # of a turn that is another process's nothing is to be said
        return
    try:
        show_left(left(chat.worktree, chat.run_dir), chat.terminal)
        if unfinished(chat):
            chat.terminal.note("/continue goes on with it", "dim")
    except RepoagentError:  # what is broken has just been said
        return
