"""The slash commands, in the order of /help, and `!COMMAND`.

Each command is a function of the chat and the words after its name. It returns the next message to the model ("" to
resume the stopped turn), END, or None.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from difflib import get_close_matches
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from repoagent.cli import completion
from repoagent.cli.chat.chat_session import Speaking, open_model, recap
from repoagent.cli.commands.run_output import commit_summary
from repoagent.cli.ui.terminal import waiting
from repoagent.cli.ui.terminal_text import clean, display_width, fold
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.git.process import git, git_output
from repoagent.llm.model import display_name, fence
from repoagent.llm.usage import cost_text, dollars
from repoagent.tasks.runs.directory import new_name
from repoagent.tasks.uncommitted_by_run import conflict_message, restore_changes, uncommitted_diff

if TYPE_CHECKING:
    from repoagent.agent.approvals.policy import Mode
    from repoagent.cli.chat.chat_session import Chat
    from repoagent.git.undo_log import Edit
    from repoagent.memory.conversations import ConversationResolver


class End:
    """The result of a command that ends the chat."""


END = End()
Next = str | End | None
Candidates = Iterable[tuple[str, str]]
Completer = Callable[["Chat", str], Candidates]

KEYS = (
    "Enter sends; Alt-Enter, ^J or a backslash at the end of a line starts a new line. Tab completes commands and "
    "paths, ^R searches the history. ^C stops a reply, ^D ends the chat."
)
MODE_LINES: dict[Mode, str] = {
    "ask": "ask before each change and each command",
    "auto-edit": "change files without asking, ask before each command",
    "auto": "change files and run commands, in a sandbox, without asking",
    "read-only": "change nothing",
}
MOST = 16_384  # bytes of output that are sent: half from its beginning, half from its end
_DIFF_LINES = 60  # of a diff shown with a question
_COMMAND = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)
_PLAIN = ("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")


class Slash(NamedTuple):
    """`offers` completes the words after the command. `typed`: works at a terminal only, not from a pipe; `prints`:
    prints text, so it cannot be combined with --json."""

    arguments: str
    line: str
    perform: Callable[[Chat, str], Next]
    offers: Completer | None = None
    typed: bool = False
    prints: bool = False


TABLE: dict[str, Slash] = {}


def _slash(
    name: str,
    arguments: str,
    line: str,
    offers: Completer | None = None,
    *,
    typed: bool = False,
    prints: bool = False,
) -> Callable[[Callable[[Chat, str], Next]], Callable[[Chat, str], Next]]:
    def add(function: Callable[[Chat, str], Next]) -> Callable[[Chat, str], Next]:
        TABLE[name] = Slash(arguments, line, function, offers, typed, prints)
        return function

    return add


def _words(*words: str) -> Completer:
    return lambda chat, typed: ((word, "") for word in words)


def read(text: str) -> tuple[str, str] | None:
    """The command in `text` and the words after it; None if it is not a command (but a path, for example)."""
    match = _COMMAND.fullmatch(text.rstrip())
    return None if match is None else (match[1].lower(), (match[2] or "").strip())


def perform(chat: Chat, name: str, words: str) -> Next:
    """Run a slash command. Raises UsageError for an unknown command or unexpected arguments, and whatever the command
    raises."""
    name = {"exit": "quit", "q": "quit"}.get(name, name)
    command = TABLE.get(name)
    if command is None:
        raise UsageError(unknown(name))
    if words and not command.arguments:
        raise UsageError(f"/{name} takes no arguments")
    if command.typed and (words or name == "editor") and not chat.has_user:
        option = "" if name == "editor" else f"; use --{name} when you start the chat"
        raise UsageError(f"/{name} needs a terminal{option}")
    if command.prints and chat.options.as_json:
        raise UsageError(f"/{name} prints text and cannot be combined with --json")
    return command.perform(chat, words)


def unknown(name: str) -> str:
    """The error message for an unknown command."""
    near = [command for command in TABLE if command.startswith(name)]
    near += get_close_matches(name, TABLE, n=1, cutoff=0.5)
    return f"unknown command /{name}; " + (
        f"did you mean /{near[0]}?" if near else "/help lists the commands"
    )


def commands() -> Candidates:
    """The commands with descriptions, for completion."""
    return ((f"/{name}", command.line) for name, command in TABLE.items())


def arguments(chat: Chat, name: str, typed: str) -> Candidates:
    """The arguments of a command, for completion."""
    command = TABLE.get(name)
    return command.offers(chat, typed) if command is not None and command.offers is not None else ()


@_slash(
    "help", "[COMMAND]", "Show the commands.", lambda chat, typed: ((name, "") for name in TABLE), prints=True
)
def _help(chat: Chat, words: str) -> None:
    rows = [(f"/{name} {command.arguments}".rstrip(), command.line) for name, command in TABLE.items()]
    rows += [
        ("!COMMAND", "Run a shell command."),
        ("!!COMMAND", "Run a shell command, and send its output to the model."),
    ]
    width = max(display_width(head) for head, _ in rows)
    if words:
        name = words.removeprefix("/")
        rows = [row for row in rows if row[0].split()[0] == f"/{name}"]
        if not rows:
            raise UsageError(unknown(name))
    narrow = max(width + 2 + display_width(line) for _, line in rows) > chat.terminal.width
    for head, line in rows:
        chat.terminal.styled(f"{head}\n    {line}\n" if narrow else f"{head:<{width}}  {line}\n")
    if not words:
        chat.terminal.styled(f"\n{fold(KEYS, max(20, chat.terminal.width))}\n")


# Changes of the chat


@_slash("undo", "", "Undo the last change.")
def _undo(chat: Chat, words: str) -> None:
    """Undo the uncommitted changes of this chat; without any, its last edit."""
    if paths := chat.uncommitted():
        question = f"Undo the uncommitted changes in {', '.join(paths)}"
        _confirm(chat, question, uncommitted_diff(chat.worktree, chat.run_dir))
        done = restore_changes(chat.worktree, chat.run_dir)
        if done.paths:
            chat.terminal.note(f"undid {', '.join(done.paths)}")
            chat.aside.append(f"(I have undone your uncommitted changes of {', '.join(done.paths)}.)")
        if done.left:
            raise Refused(conflict_message(done.left, f"repoagent runs restore {chat.name} --whole"))
        return
    from repoagent.edit.undo import undo
    from repoagent.git.undo_log import find_edit, list_edits

    own = [edit for edit in list_edits(chat.worktree) if edit.id in chat.edits and not edit.undone]
    if not own and not chat.has_user:
        raise NothingDone("nothing to undo: this chat made no edits")
    edit = own[-1] if own else find_edit(chat.worktree, None, undone=False)
    if not own:
        chat.terminal.note("this chat made no edits; the last edit in this work tree is:")
    subject = commit_summary(chat.worktree, edit.commit)[1] if edit.commit else "a change without a commit"
    change = f"{edit.commit[:7]} {subject}" if edit.commit else subject
    paths_text = ", ".join(edit.paths)
    _confirm(chat, f"Undo {change} ({paths_text})", _patch_of(chat, edit))
    result = undo(chat.worktree, edit.id)
    chat.undone.append(edit.id)
    how = "" if result.moved or result.edit.no_commit else " with a new commit"
    chat.terminal.note(f"undid {change}{how}; /redo restores it")
    chat.aside.append(f"(I have undone your change of {paths_text}: {subject}.)")


def _confirm(chat: Chat, question: str, shown: str) -> None:
    """Show a diff and ask; without a terminal, do not ask. Raises NothingDone for a no."""
    if not chat.has_user:
        return
    lines = shown.split("\n")
    chat.terminal.diff("\n".join(lines[:_DIFF_LINES]), aside=True)
    if min(len(lines), _DIFF_LINES) < shown.count("\n"):
        chat.terminal.note("… and more", "dim")
    if chat.terminal.ask(question, {"y": "undo", "n": "keep"}) != "y":
        raise NothingDone("nothing was undone")


def _patch_of(chat: Chat, edit: Edit) -> str:
    if edit.commit is None:
        return ""
    command = ("show", *_PLAIN, "--format=", "--end-of-options", edit.commit, "--")
    return os.fsdecode(git(chat.worktree.top, *command))


@_slash("redo", "", "Redo the edit that you undid.")
def _redo(chat: Chat, words: str) -> None:
    from repoagent.edit.undo import redo

    if not chat.undone:
        raise NothingDone("nothing to redo in this chat; use `repoagent redo` for other edits")
    result = redo(chat.worktree, chat.undone[-1])
    chat.undone.pop()
    chat.edits[result.edit.id] = None
    paths = ", ".join(result.paths)
    head = f"; HEAD is now at {result.commit[:7]}" if result.commit else ""
    chat.terminal.note(f"redid the change of {paths}{head}")
    chat.aside.append(f"(I have redone your change of {paths}.)")


@_slash(
    "diff", "[REV]", "Show the uncommitted changes, or all changes since REV.", _words("HEAD~1"), prints=True
)
def _diff(chat: Chat, words: str) -> None:
    top, terminal = chat.worktree.top, chat.terminal
    if words:
        revision = ("rev-parse", "--quiet", "--verify", "--end-of-options", f"{words}^{{commit}}")
        result = git_output(top, *revision, ok=(0, 1, 128))
        commit = result.stdout.decode().strip()
        if result.returncode or not commit:
            raise UsageError(f"unknown revision '{words}': use HEAD~1, for example, or /diff alone")
        text = os.fsdecode(git(top, "diff", *_PLAIN, commit, "--"))
        nothing = f"no changes since {words}"
    else:
        text = uncommitted_diff(chat.worktree, chat.run_dir)
        nothing = "no uncommitted changes in this chat; /diff HEAD~1 shows the last commit"
    if not text:
        raise NothingDone(nothing)
    if not terminal.output_tty:
        terminal.diff(text)
        return
    from repoagent.cli.ui import pager

    terminal._replace(pages="chat" if terminal.moves else "").diff(text)
    pager.finish()


@_slash("plan", "", "Show the plan.", prints=True)
def _plan(chat: Chat, words: str) -> None:
    from repoagent.storage.atomic import read_regular

    plan = (read_regular(chat.run_dir.plan) or b"").decode("utf-8", "surrogateescape")
    if not plan.strip():
        raise NothingDone("no plan yet: the model writes one for longer tasks")
    chat.terminal.result(plan if plan.endswith("\n") else plan + "\n")


@_slash("cost", "", "Show tokens and cost, of this session and of today.", prints=True)
def _cost(chat: Chat, words: str) -> None:
    meter = chat.model_setup.meter
    usage = meter.usage
    about = "about " if usage.estimated else ""
    cached = f" ({usage.cache_read:,} cached)" if usage.cache_read else ""
    price = "unknown price" if meter.cost is None else cost_text(meter.cost)
    calls = f"{meter.attempts:,} call{'s' * (meter.attempts != 1)}"
    tokens = f"{about}{usage.total - usage.output:,} tokens in{cached}, {usage.output:,} out"
    chat.terminal.result(f"this session: {calls}, {tokens}, {price}\n")
    if meter.book is not None:
        limit = f" of {dollars(meter.limits.day, 0)}" if meter.limits.day is not None else ""
        chat.terminal.result(f"total today: {dollars(meter.book.today())}{limit}\n")


# The model and the conversation


@_slash(
    "model", "[SPEC]", "Show the model, or switch to another one.",
    lambda chat, typed: completion.models(typed), typed=True, prints=True,
)  # fmt: skip
def _model(chat: Chat, words: str) -> None:
    """Switch to another model, with the same meter."""
    if not words:
        context_tokens = chat.model_setup.context_tokens
        window = f", context of {context_tokens:,} tokens" if context_tokens else ""
        chat.terminal.result(f"{display_name(chat.model_setup.model.spec)}{window}\n")
        return
    from repoagent.config.layers import load

    flags = {**chat.flags, "model": words}
    settings = load(chat.layout, flags=flags)
    fresh = open_model(chat.options, settings, chat.terminal, chat.model_setup.meter.limits)
    chat.model_setup = replace(fresh, meter=chat.model_setup.meter)
    chat.settings, chat.flags = settings, flags
    chat.terminal.note(f"now using {display_name(fresh.model.spec)}")


@_slash(
    "mode", "[MODE]", "Show the approval mode, or change it.",
    lambda chat, typed: MODE_LINES.items(), typed=True, prints=True,
)  # fmt: skip
def _mode(chat: Chat, words: str) -> None:
    if not words:
        chat.terminal.result(f"{chat.mode}: {MODE_LINES[chat.mode]}\n")
        return
    new_mode = next((name for name in MODE_LINES if name == words.lower()), None)
    if new_mode is None:
        raise UsageError(f"unknown mode '{words}'; use one of {', '.join(MODE_LINES)}")
    chat.mode = chat.options.mode = new_mode
    chat.terminal.note(f"{new_mode}: {MODE_LINES[new_mode]}")


def _resolver(chat: Chat) -> ConversationResolver:
    from repoagent.memory.conversations import ConversationResolver

    return ConversationResolver(chat.layout, chat.worktree, chat.worktree.top, warn=chat.terminal.warn)


@_slash("save", "NAME", "Save a copy of the conversation.")
def _save(chat: Chat, words: str) -> None:
    from repoagent.memory.conversation_changes import save
    from repoagent.memory.conversation_names import named
    from repoagent.memory.conversations import find

    if not words:
        raise UsageError("missing name: use /save NAME")
    _require_turns(chat, "save")
    save(chat.layout, find(_resolver(chat), chat.name), named(chat.layout, words, own=True))
    chat.terminal.note(f"saved as {words}; /load {words} continues from there")


def _saved(chat: Chat, typed: str) -> Candidates:
    from repoagent.memory.conversation_names import names

    return ((name, "") for name in names(chat.layout))


@_slash("load", "NAME", "Continue a copy of a saved conversation.", _saved)
def _load(chat: Chat, words: str) -> None:
    """The saved conversation does not change."""
    from repoagent.memory.conversation_changes import branch
    from repoagent.memory.conversation_names import named
    from repoagent.memory.conversations import find

    if not words:
        raise UsageError("missing name: use /load NAME; `repoagent conversation list` shows the names")
    saved = find(_resolver(chat), words)
    name = new_name("chat")
    branch(chat.layout, saved, named(chat.layout, name))
    _begin(chat, name, f"continuing a copy of {words} as {name}")
    recap(saved.conversation.turns, chat.terminal)


@_slash("clear", "", "Start a new conversation.")
def _clear(chat: Chat, words: str) -> None:
    """The current conversation stays on disk."""
    _require_turns(chat, "clear")
    _begin(chat, new_name("chat"), "started a new conversation")


def _require_turns(chat: Chat, to: str) -> None:
    if not chat.turns:
        raise NothingDone(f"nothing to {to}: the conversation is empty")


def _begin(chat: Chat, name: str, sentence: str) -> None:
    """Switch to the conversation `name`."""
    chat.show_uncommitted()
    chat.terminal.note(f"{sentence}; resume the previous one with `repoagent chat --resume {chat.name}`")
    chat.name, chat.lives = name, False
    chat.aside.clear()
    chat.edits.clear()


@_slash("compact", "", "Summarize older turns to send fewer tokens.")
def _compact(chat: Chat, words: str) -> None:
    """From the next message on, a checkpoint is sent instead of older turns."""
    from repoagent.cli.commands.run_ui import RunTerminal
    from repoagent.tasks.session import compact

    _require_turns(chat, "summarize")
    with Speaking(chat.terminal, "summarizing") as working:
        ui = RunTerminal.of(chat.terminal, working, chat.mode)
        before, after = compact(chat.worktree, chat.request(), chat.settings, ui, chat.model_setup)
    chat.terminal.note(
        f"compacted: {after:,} tokens are sent from now on, instead of {before:,}; the file keeps every turn"
    )


@_slash("continue", "", "Resume the turn that was stopped.")
def _continue(chat: Chat, words: str) -> str:
    if not chat.unfinished():
        raise NothingDone("nothing to continue: the last turn is complete")
    return ""


@_slash("editor", "", "Write the next message in your editor.", typed=True)
def _editor(chat: Chat, words: str) -> str:
    text = chat.terminal.edit_text("", ".md", cwd=chat.worktree.top)
    if text is None:
        raise NothingDone("empty message: nothing was sent")
    return text.strip()


@_slash("quit", "", "End the chat.")
def _quit(chat: Chat, words: str) -> End:
    return END


# Shell commands


def run(chat: Chat, line: str) -> None:
    """Run a command after `!` in the user's shell, without a sandbox: the user typed it. Raises UsageError for an empty
    command, and without a terminal."""
    command = line.lstrip("!").strip()
    if not command:
        raise UsageError("missing command: use !COMMAND, or !!COMMAND to send its output to the model")
    if not chat.has_user:
        raise UsageError("! needs a terminal: it does not run commands from a pipe")
    shell = os.environ.get("SHELL") or "/bin/sh"
    screen = sys.stderr if not chat.terminal.output_tty else None
    try:
        with waiting():
            if line.startswith("!!"):
                code, output = _captured([shell, "-c", command])
            else:
                code = subprocess.run([shell, "-c", command], stdout=screen, check=False).returncode
    except OSError as error:
        raise UsageError(f"cannot run {shell}: {error.strerror}") from error
    if line.startswith("!!"):
        text = fence(output, "output") if output else "(no output)"
        chat.aside.append(f"I ran `{command}`: exit code {code}.\n{text}")
        chat.terminal.note(f"exit {code}; the output goes with your next message", "dim")
    elif code:
        chat.terminal.note(f"exit {code}", "dim")


def _captured(command: list[str]) -> tuple[int, str]:
    """The exit code and the output, which is printed as it arrives; the middle of long output is left out."""
    half = MOST // 2
    head, tail, cut = b"", b"", 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        while piece := os.read(cast(IO[bytes], process.stdout).fileno(), 65536):
            sys.stderr.write(clean(piece.decode("utf-8", "replace")))
            sys.stderr.flush()
            missing = half - len(head)
            head, tail = head + piece[:missing], tail + piece[missing:]
            cut += max(0, len(tail) - half)
            tail = tail[-half:]
    parts = (head + tail,) if not cut else (head, tail)
    between = f"\n[… {cut:,} bytes left out …]\n"
    return process.returncode, between.join(part.decode("utf-8", "replace") for part in parts)
