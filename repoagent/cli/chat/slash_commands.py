"""The slash commands, in the order of /help, and `!COMMAND`.

Each command is a function of the chat and the words after its name. It returns the next message to the model ("" to
resume the stopped turn), END, or None. TABLE, below them, lists them all.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from repoagent.cli import completion
from repoagent.cli.chat.chat_session import Chat, ChatProgress, open_model
from repoagent.cli.commands.run_options import flags_of
from repoagent.cli.commands.run_output import commit_summary
from repoagent.cli.ui.table import Page
from repoagent.cli.ui.terminal import waiting_for_user
from repoagent.display_text import plural, sanitize
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.git.process import git
from repoagent.llm.model import display_name, fence
from repoagent.llm.usage import cost_text, dollars
from repoagent.tasks.restore import conflict_message, restore_changes, uncommitted_diff
from repoagent.tasks.runs.directory import new_name

if TYPE_CHECKING:
    from repoagent.agent.approvals.policy import Mode


END = object()  # the result of a command that ends the chat
Candidates = Iterable[tuple[str, str]]

KEYS = (
    "Enter sends; Alt-Enter, ^J or a backslash at the end of a line starts a new line. Tab completes commands and "
    "paths, ^R searches the history, and ^X ^E opens your editor. ^C stops a reply; ^D ends the chat."
)
MODE_LINES: dict[Mode, str] = {
    "ask": "ask before each change and each command",
    "auto-edit": "change files without asking, ask before each command",
    "auto": "change files and run commands, in a sandbox, without asking",
    "read-only": "change nothing",
}
MOST = 16_384  # bytes of output that are sent: half from its beginning, half from its end
_COMMAND = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)
_PLAIN = ("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")


class Slash(NamedTuple):
    """A slash command.

    typed: whether its arguments are accepted only at a terminal.
    prints: whether it prints text, so that it cannot be combined with --json.
    """

    arguments: str
    line: str
    perform: Callable[[Chat, str], object]
    typed: bool = False
    prints: bool = False


def parse_slash_command(text: str) -> tuple[str, str] | None:
    """Split `text` into a slash command and the words after it; None if it is not a command (a path, for example)."""
    match = _COMMAND.fullmatch(text.rstrip())
    return None if match is None else (match[1].lower(), (match[2] or "").strip())


def run_slash_command(chat: Chat, name: str, words: str) -> object:
    """Run a slash command. Raises UsageError for an unknown command or unexpected arguments, and what the command
    itself raises."""
    name = {"exit": "quit", "q": "quit"}.get(name, name)
    command = TABLE.get(name)
    if command is None:
        raise UsageError(f"unknown command /{name}; /help lists the commands")
    if words and not command.arguments:
        raise UsageError(f"/{name} takes no arguments")
    if command.typed and words and not chat.has_user:
        raise UsageError(f"/{name} needs a terminal; use --{name} when you start the chat")
    if command.prints and chat.options.as_json:
        raise UsageError(f"/{name} prints text and cannot be combined with --json")
    return command.perform(chat, words)


def candidates(name: str, typed: str | None) -> Candidates:
    """For completion: the slash commands with their descriptions or, if `typed` is not None, the arguments of the
    command `name`."""
    if typed is None:
        return ((f"/{name}", command.line) for name, command in TABLE.items())
    if name == "model":
        return completion.models(typed)
    return MODE_LINES.items() if name == "mode" else ()


def show_help(chat: Chat, words: str) -> None:
    rows = [(f"/{name} {command.arguments}".rstrip(), command.line) for name, command in TABLE.items()]
    rows.append(("!COMMAND", "Run a shell command; with !!, send its output to the model."))
    page = Page.of(chat.terminal, least=20)
    page.write([*page.pairs(rows), "", *page.wrap(KEYS)], chat.terminal)


# Changes of the chat


def undo_change(chat: Chat, words: str) -> None:
    """Undo the chat's uncommitted changes or, if there are none, its last edit."""
    if paths := chat.uncommitted():
        question = f"Undo the uncommitted changes in {', '.join(paths)}"
        _confirm(chat, question, uncommitted_diff(chat.worktree, chat.run_dir))
        done = restore_changes(chat.worktree, chat.run_dir)
        if done.paths:
            chat.terminal.note(f"undid {', '.join(done.paths)}")
            chat.aside.append(f"(I have undone your uncommitted changes to {', '.join(done.paths)}.)")
        if done.left:
            raise Refused(conflict_message(done.left, f"repoagent runs restore {chat.name} --whole"))
        return
    from repoagent.edit.undo import undo
    from repoagent.git.undo_log import list_edits

    own = [edit for edit in list_edits(chat.worktree) if edit.id in chat.edits and not edit.undone]
    if not own:
        raise NothingDone(
            "this chat has no edits to undo; `repoagent undo` undoes the last edit of the work tree"
        )
    edit = own[-1]
    subject = commit_summary(chat.worktree, edit.commit)[1] if edit.commit else "a change without a commit"
    change = f"{edit.commit[:7]} {subject}" if edit.commit else subject
    paths_text = ", ".join(edit.paths)
    patch = ""
    if edit.commit is not None:
        command = ("show", *_PLAIN, "--format=", "--end-of-options", edit.commit, "--")
        patch = os.fsdecode(git(chat.worktree.top, *command))
    _confirm(chat, f"Undo {change} ({paths_text})", patch)
    result = undo(chat.worktree, edit.id)
    how = "" if result.moved or result.edit.no_commit else " with a new commit"
    chat.terminal.note(f"undid {change}{how}; `repoagent redo` restores it")
    chat.aside.append(f"(I have undone your change to {paths_text}: {subject}.)")


def _confirm(chat: Chat, question: str, shown: str) -> None:
    """Show a diff and ask, if there is a user. Raises NothingDone for a no."""
    if chat.has_user:
        chat.terminal.diff(shown, aside=True)
        if chat.terminal.ask(question, {"y": "undo", "n": "keep"}) != "y":
            raise NothingDone("nothing was undone")


def show_diff(chat: Chat, words: str) -> None:
    terminal = chat.terminal
    text = uncommitted_diff(chat.worktree, chat.run_dir)
    if not text:
        raise NothingDone("no uncommitted changes in this chat")
    if not terminal.output_tty:
        terminal.diff(text)
        return
    from repoagent.cli.ui import pager

    terminal._replace(pages=terminal.moves).diff(text)
    pager.finish()


def show_cost(chat: Chat, words: str) -> None:
    meter = chat.model_setup.meter
    usage = meter.usage
    cached = f" ({usage.cache_read:,} cached)" if usage.cache_read else ""
    price = "unknown price" if meter.cost is None else cost_text(meter.cost)
    tokens = (
        f"{'about ' * usage.estimated}{usage.total - usage.output:,} tokens in{cached}, {usage.output:,} out"
    )
    chat.terminal.result(f"this session: {plural(meter.attempts, 'call')}, {tokens}, {price}\n")
    if meter.book is not None:
        limit = f" of {dollars(meter.limits.day, 0)}" if meter.limits.day is not None else ""
        chat.terminal.result(f"total today: {dollars(meter.book.today())}{limit}\n")


# The model and the conversation


def switch_model(chat: Chat, words: str) -> None:
    """Switch to another model, which keeps the same meter; without `words`, print the current model."""
    if not words:
        context_tokens = chat.model_setup.context_tokens
        window = f", context window {context_tokens:,} tokens" if context_tokens else ""
        chat.terminal.result(f"{display_name(chat.model_setup.model.spec)}{window}\n")
        return
    from repoagent.config.layers import load_settings

    settings = load_settings(chat.layout, flags={**flags_of(chat.options), "model": words})
    fresh = open_model(chat.options, settings, chat.terminal, chat.model_setup.meter.limits)
    chat.model_setup = replace(fresh, meter=chat.model_setup.meter)
    chat.settings = settings
    chat.terminal.note(f"now using {display_name(fresh.model.spec)}")


def switch_mode(chat: Chat, words: str) -> None:
    if not words:
        chat.terminal.result(f"{chat.mode}: {MODE_LINES[chat.mode]}\n")
        return
    new_mode = next((name for name in MODE_LINES if name == words.lower()), None)
    if new_mode is None:
        raise UsageError(f"unknown mode '{words}'; use one of {', '.join(MODE_LINES)}")
    chat.mode = chat.options.mode = new_mode
    chat.terminal.note(f"{new_mode}: {MODE_LINES[new_mode]}")


def clear(chat: Chat, words: str) -> None:
    if not chat.turns:
        raise NothingDone("nothing to clear: the conversation is empty")
    chat.show_uncommitted()
    resume = f"resume the previous one with `repoagent chat --resume {chat.name}`"
    chat.terminal.note(f"started a new conversation; {resume}")
    chat.name, chat.lives = new_name("chat"), False
    chat.aside.clear()
    chat.edits.clear()


def compact_turns(chat: Chat, words: str) -> None:
    from repoagent.cli.commands.run_ui import RunTerminal
    from repoagent.tasks.session import compact_conversation

    if not chat.turns:
        raise NothingDone("nothing to summarize: the conversation is empty")
    with ChatProgress(chat.terminal, "summarizing") as working:
        ui = RunTerminal.of(chat.terminal, working, chat.mode)
        before, after = compact_conversation(
            chat.worktree, chat.request(), chat.settings, ui, chat.model_setup
        )
    chat.terminal.note(
        f"compacted: later requests send {after:,} tokens instead of {before:,}; the conversation file keeps every turn"
    )


def resume_turn(chat: Chat, words: str) -> str:
    if not chat.unfinished():
        raise NothingDone("nothing to continue: the last turn is complete")
    return ""


TABLE = {
    "help": Slash("", "Show all commands.", show_help, prints=True),
    "undo": Slash("", "Undo the last change.", undo_change),
    "diff": Slash("", "Show the uncommitted changes.", show_diff, prints=True),
    "cost": Slash("", "Show tokens and cost, for this session and for today.", show_cost, prints=True),
    "model": Slash(
        "[SPEC]", "Show the model, or switch to another one.", switch_model, typed=True, prints=True
    ),
    "mode": Slash("[MODE]", "Show the approval mode, or change it.", switch_mode, typed=True, prints=True),
    "clear": Slash("", "Start a new conversation.", clear),
    "compact": Slash("", "Summarize older turns to send fewer tokens.", compact_turns),
    "continue": Slash("", "Resume the stopped turn.", resume_turn),
    "quit": Slash("", "End the chat.", lambda chat, words: END),
}


# Shell commands


def run_shell_command(chat: Chat, line: str) -> None:
    """Run the command after `!` in the user's shell, without a sandbox or time limit. ^C stops only this command.

    Raises UsageError for an empty command, and without a terminal.
    """
    command = line.lstrip("!").strip()
    if not command:
        raise UsageError("missing command: use !COMMAND, or !!COMMAND to send its output to the model")
    if not chat.has_user:
        raise UsageError("! needs a terminal: it does not run commands from a pipe")
    shell = os.environ.get("SHELL") or "/bin/sh"
    screen = sys.stderr if not chat.terminal.output_tty else None
    sends = line.startswith("!!")
    output = ""
    before = signal.signal(signal.SIGINT, lambda *_: None)  # the command would inherit SIG_IGN
    try:
        with waiting_for_user():
            if sends:
                code, output = _captured([shell, "-c", command])
            else:
                code = subprocess.run([shell, "-c", command], stdout=screen, check=False).returncode
    except OSError as error:
        raise UsageError(f"cannot run {shell}: {error.strerror}") from error
    finally:
        signal.signal(signal.SIGINT, before)
    code = 128 - code if code < 0 else code  # of a signal, as shells do
    if sends:
        text = fence(output, "output") if output else "(no output)"
        chat.aside.append(f"I ran `{command}`: exit code {code}.\n{text}")
        chat.terminal.note(f"exit code {code}; the output will be sent with your next message", "dim")
    elif code:
        chat.terminal.note(f"exit code {code}", "dim")


def _captured(command: Sequence[str]) -> tuple[int, str]:
    """The exit code and the output, which is printed as it arrives, without the middle of a long one. What a background
    process prints later is not waited for."""
    half = MOST // 2
    head, tail, cut = b"", b"", 0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        output = cast(IO[bytes], process.stdout).fileno()
        ends = False
        while not ends:
            ends = process.poll() is not None  # before the last read, so that nothing is missed
            if select.select([output], [], [], 0 if ends else 0.1)[0]:
                piece = os.read(output, 1 << 20)  # all that a pipe may hold
                ends = ends or not piece
                sys.stderr.write(sanitize(decoder.decode(piece, final=ends)))
                sys.stderr.flush()
                missing = half - len(head)
                head, tail = head + piece[:missing], tail + piece[missing:]
                cut += max(0, len(tail) - half)
                tail = tail[-half:]
    parts = (head, tail) if cut else (head + tail,)
    between = f"\n[… {cut:,} bytes left out …]\n"
    return process.returncode, between.join(part.decode("utf-8", "replace") for part in parts)
