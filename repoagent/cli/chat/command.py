"""The options of `repoagent chat`, and the loop that reads input."""

from __future__ import annotations

import json
import os
import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli import Ended
from repoagent.cli.commands import run_options
from repoagent.cli.options import GroupedCommand
from repoagent.cli.session import Session, json_option, open_repository, pass_session
from repoagent.errors import Exit, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.chat.chat_session import Chat

EPILOG = """\b
Examples:
  repoagent chat
  repoagent chat --mode auto-edit --check "pytest -q"
  repoagent chat --continue
  printf 'what does src/app.py do?\\n' | repoagent chat

\b
In a chat, /help shows the commands: /undo, /diff, /model, /mode and more.
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


@click.command(cls=GroupedCommand, epilog=EPILOG, option_groups=OPTION_GROUPS)
@run_options.approval_options("chat")
@run_options.finish_options("chat")
@run_options.limit_options(" for each message")
@json_option
@run_options.stream_option
@pass_session
def command(session: Session, /, **values: Any) -> Exit:
    """Work with a model, turn by turn.

    The model reads code, changes files, runs commands and commits. The whole chat is recorded in .repoagent/; resume it
    with --continue or --resume.
    """
    from repoagent.llm.open_model import preload_model

    options = SimpleNamespace(**values)
    preload_model(options.model or os.environ.get("REPOAGENT_MODEL"))
    repo = open_repository(session, run_options.flags_of(options))
    if options.json_stream:  # a program answers questions, even on a terminal
        repo = repo._replace(terminal=repo.terminal._replace(input_tty=False))
    terminal = repo.terminal
    if options.as_json and terminal.can_ask:
        raise UsageError("--json reads messages from a pipe: printf 'WORDS\\n' | repoagent chat --json")
    if options.commit_per_edit and options.no_commit:
        raise UsageError("--commit-per-edit and --no-commit cannot be combined")
    if options.reply is not None and str(options.reply) == "-":
        raise UsageError("--reply cannot be -, because standard input provides your messages: name a file")
    from repoagent.cli.chat.chat_session import leave_worktree, open_chat, serve_json

    repo.settle()
    code = Exit.DONE
    try:
        chat = open_chat(options, repo)
        if options.json_stream:
            code = serve_json(chat)
        else:
            _loop(chat)
        leave_worktree(chat, repo.worktree)
    except RepoagentError as error:
        code = error.exit_code
        if options.json_stream:
            from repoagent.cli.commands.run_output import emit_error

            emit_error(error)
        elif options.as_json:
            problem = {"kind": code.name.lower(), "exit": int(code), "message": str(error)}
            terminal.result(json.dumps({"version": 1, "error": {**problem, **error.details()}}) + "\n")
        else:
            raise
    return code


def _loop(chat: Chat) -> None:
    """Handle inputs. At a terminal, an error is printed and the chat continues; from a pipe, it is raised."""
    from repoagent.cli.chat import input as chat_input
    from repoagent.cli.chat.chat_session import print_recap, status_bar

    reader: chat_input.InputReader = chat_input.LineReader(chat.terminal)
    if chat.has_user and chat.terminal.moves:
        from repoagent.cli.chat.slash_commands import candidates

        offered = chat_input.ChatCompleter(candidates, chat.worktree)
        file = chat_input.history_file(chat.worktree)
        reader = chat_input.Editor(chat.terminal, file, offered, lambda width: status_bar(chat, width))
    if chat.has_user:
        if turns := chat.turns:
            chat.terminal.note(f"{chat.name} · {len(turns)} turns", "dim")
            print_recap(turns, chat.terminal)
            chat.show_uncommitted()
            if chat.unfinished():
                chat.terminal.note("the last turn was stopped; /continue resumes it")
        chat.terminal.note("/help shows the commands; ^D ends the chat", "dim")
    while True:
        width = shutil.get_terminal_size((chat.terminal.width, 24)).columns  # it may have changed
        chat.terminal = chat.terminal._replace(width=width)
        try:
            text = reader.read()
            if text is None or handle(chat, text):
                break
        except Ended:
            raise
        except KeyboardInterrupt:
            if not chat.has_user:
                raise
            hint = "; write what to do differently, or use /continue" if chat.unfinished() else ""
            chat.terminal.note(f"\nstopped{hint}")
            chat.show_uncommitted()
        except RepoagentError as error:
            if not chat.has_user:
                raise
            chat.show_error(error)
    if chat.has_user and chat.run_dir.conversation.exists():
        chat.terminal.note(f"Resume with `repoagent chat --resume {chat.name}`", "dim")


def handle(chat: Chat, text: str) -> bool:
    """Handle one input: a message, a slash command or a shell command. Returns whether it ends the chat."""
    from repoagent.cli.chat import slash_commands

    words = text.strip()
    if words.startswith("!"):
        slash_commands.run_shell_command(chat, words)
        return False
    slash = slash_commands.parse_slash_command(text)
    if slash is None:
        if words:
            chat.turn(words)
        return False
    then = slash_commands.run_slash_command(chat, *slash)
    if isinstance(then, str):
        chat.turn(then)
    return then is slash_commands.END
