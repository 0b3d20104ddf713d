"""The table of the slash commands, how one is found and completed, and /files, /plan, /editor and `!COMMAND`.

The commands on the conversation and on changes are in slash_conversation.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from repoagent.agent.state import open_state
from repoagent.cli import completion
from repoagent.cli.chat import slash_conversation
from repoagent.cli.chat.chat import ENDS, Then, folded
from repoagent.cli.ui.echo import heard
from repoagent.cli.ui.terminal_text import clean, display_width, one_line
from repoagent.errors import NothingDone, UsageError
from repoagent.llm.model import fence

if TYPE_CHECKING:
    from repoagent.cli.chat.chat import Chat


def files(chat: Chat, words: str) -> None:
    """List the files whose content is in the conversation, and which of them have changed since."""
    from repoagent.errors import RepoagentError
    from repoagent.git.files import read_source
    from repoagent.tasks.run_context import shown_in

    blobs = shown_in(open_state(chat.run_dir.conversation))
    if not blobs:
        raise NothingDone("the model has not seen any file yet")
    for path, blob in sorted(blobs.items()):
        try:
            current = read_source(chat.worktree, path)
        except RepoagentError:
            state = "  (no longer readable)"
        else:
            changed = "" if current.blob == blob else "  (changed since)"
            state = "  (deleted since)" if current.data is None else changed
        chat.terminal.styled(f"{one_line(path)}{state}\n")


def plan(chat: Chat, words: str) -> None:
    """Show the plan, or edit it; the model gets the new one with the next message."""
    from repoagent.storage.atomic import read_regular, write_whole

    file = chat.run_dir.plan
    present = (read_regular(file) or b"").decode("utf-8", "surrogateescape")
    if not words:
        if not present.strip():
            raise NothingDone(
                "no plan yet: the model writes one for longer tasks; /plan edit writes your own"
            )
        chat.terminal.result(present if present.endswith("\n") else present + "\n")
        return
    if words != "edit":
        raise UsageError("use /plan or /plan edit")
    if not chat.person:
        raise UsageError("/plan edit needs a terminal")
    text = chat.terminal.edit_text(present or "- [ ] \n", ".md", cwd=chat.worktree.top)
    if text is None or text == present:
        raise NothingDone("the plan is unchanged")
    write_whole(file, text.encode("utf-8", "surrogateescape"))
    chat.terminal.note("saved the plan; the model gets it with your next message")


def editor(chat: Chat, words: str) -> Then:
    """Write the next message in the user's editor."""
    text = chat.terminal.edit_text("", ".md", cwd=chat.worktree.top)
    if text is None:
        raise NothingDone("empty message: nothing was sent")
    return Then(text.strip())


Found = Iterable[tuple[str, str]]
_COMMAND = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)


KEYS = (
    "Enter sends; Alt-Enter, ^J or a backslash at the end of a line starts a new line. Tab completes commands and "
    "paths, ^R searches the history. ^C stops a reply, ^D ends the chat."
)


class Slash(NamedTuple):
    """`perform` takes the chat and the words after the command, and returns what is sent next; `offers` completes those
    words. `typed`: only at a terminal, not from a pipe."""

    arguments: str
    line: str
    perform: Callable[[Chat, str], Then | None]
    offers: Callable[[Chat, str], Found] | None = None
    typed: bool = False


def _help(chat: Chat, words: str) -> None:
    rows = [(f"/{name} {one.arguments}".rstrip(), one.line) for name, one in TABLE.items()]
    rows += [
        ("!COMMAND", "Run a shell command."),
        ("!!COMMAND", "Run a shell command, and send its output to the model."),
    ]
    width = max(display_width(head) for head, _ in rows)
    if words:
        name = words.strip().removeprefix("/")
        rows = [row for row in rows if row[0].split()[0] == f"/{name}"]
        if not rows:
            raise UsageError(unknown(name))
    narrow = max(width + 2 + display_width(line) for _, line in rows) > chat.terminal.width
    for head, line in rows:
        chat.terminal.styled(f"{head}\n    {line}\n" if narrow else f"{head:<{width}}  {line}\n")
    if not words:
        chat.terminal.styled("\n" + "\n".join(folded(KEYS, chat.terminal.width)) + "\n")


def _quit(chat: Chat, words: str) -> Then:
    return ENDS


def _modes(chat: Chat, typed: str) -> Found:
    return slash_conversation.MODE_LINES.items()


def _models(chat: Chat, typed: str) -> Found:
    return completion.models(typed)


def _conversations(chat: Chat, typed: str) -> Found:
    from repoagent.memory.conversation_names import names

    return ((name, "") for name in names(chat.layout))


def _words(*words: str) -> Callable[[Chat, str], Found]:
    return lambda chat, typed: ((word, "") for word in words)


TABLE: dict[str, Slash] = {
    "help": Slash("[COMMAND]", "Show the commands.", _help, lambda chat, typed: ((n, "") for n in TABLE)),
    "undo": Slash(
        "[let-go|whole]", "Undo the last change.", slash_conversation.undo, _words("let-go", "whole")
    ),
    "redo": Slash("", "Redo the edit that you undid.", slash_conversation.redo),
    "diff": Slash(
        "[REV]",
        "Show the uncommitted changes, or all changes since REV.",
        slash_conversation.diff,
        _words("HEAD~1"),
    ),
    "review": Slash("", "Review the uncommitted changes, or the last commit.", slash_conversation.review),
    "plan": Slash("[edit]", "Show the plan, or edit it.", plan, _words("edit")),
    "files": Slash("", "Show which files the model has seen.", files),
    "cost": Slash("", "Show tokens and cost, of this session and of today.", slash_conversation.cost),
    "model": Slash(
        "[SPEC]", "Show the model, or switch to another one.", slash_conversation.model, _models, typed=True
    ),
    "mode": Slash(
        "[MODE]", "Show the approval mode, or change it.", slash_conversation.mode, _modes, typed=True
    ),
    "save": Slash("NAME", "Save a copy of the conversation.", slash_conversation.save),
    "load": Slash(
        "NAME", "Continue a copy of a saved conversation.", slash_conversation.load, _conversations
    ),
    "clear": Slash("", "Start a new conversation.", slash_conversation.clear),
    "compact": Slash("", "Summarize older turns to send fewer tokens.", slash_conversation.compact),
    "continue": Slash("", "Resume the turn that was stopped.", slash_conversation.resume),
    "editor": Slash("", "Write the next message in your editor.", editor, typed=True),
    "quit": Slash("", "End the chat.", _quit),
}

# print text, which --json has no place for
PRINTS = frozenset({"cost", "diff", "files", "help", "mode", "model", "plan", "review"})


def read(text: str) -> tuple[str, str] | None:
    """The command in `text` and the words after it; None where it is no command (a path, for example)."""
    match = _COMMAND.fullmatch(text.rstrip())
    return None if match is None else (match[1].lower(), (match[2] or "").strip())


def perform(chat: Chat, name: str, words: str) -> Then | None:
    """Run a slash command. Raises UsageError for an unknown one and for words that it does not take, and what the
    command itself raises."""
    name = {"exit": "quit", "q": "quit"}.get(name, name)
    one = TABLE.get(name)
    if one is None:
        raise UsageError(unknown(name))
    if words and not one.arguments:
        raise UsageError(f"/{name} takes no arguments")
    if one.typed and (words or name == "editor") and not chat.person:
        option = "" if name == "editor" else f"; use --{name} when you start the chat"
        raise UsageError(f"/{name} needs a terminal{option}")
    if name in PRINTS and chat.options.as_json:
        raise UsageError(f"/{name} prints text and cannot be combined with --json")
    return one.perform(chat, words)


def unknown(name: str) -> str:
    """The error message for an unknown command."""
    near = get_close_matches(name, TABLE, n=1, cutoff=0.5)
    fits = [known for known in TABLE if known.startswith(name)]
    hint = f"did you mean /{(fits or near)[0]}?" if fits or near else "/help lists the commands"
    return f"unknown command /{name}; {hint}"


def commands() -> Found:
    """Each command and what it does, for completion."""
    return ((f"/{name}", one.line) for name, one in TABLE.items())


def arguments(chat: Chat, name: str, typed: str) -> Found:
    """What may follow a command, for completion."""
    one = TABLE.get(name)
    return one.offers(chat, typed) if one is not None and one.offers is not None else ()


MOST = 16_384  # bytes of an output that is sent: half of its beginning, half of its end


def run(chat: Chat, line: str) -> None:
    """Run what follows `!` in the user's shell, unsandboxed: the user typed it. Raises UsageError for an empty command,
    and without a terminal."""
    command = line.lstrip("!").strip()
    if not command:
        raise UsageError("missing command: use !COMMAND, or !!COMMAND to send its output to the model")
    if not chat.person:
        raise UsageError("! needs a terminal: it does not run commands from a pipe")
    shell = os.environ.get("SHELL") or "/bin/sh"
    screen = sys.stderr if not chat.terminal.shows else None
    try:
        if line.startswith("!!"):
            with heard(typed_ahead=True):
                code, output = _captured(chat, [shell, "-c", command])
            text = fence(output, "output") if output else "(no output)"
            chat.aside.append(f"I ran `{command}`: exit code {code}.\n{text}")
            chat.terminal.note(f"exit {code}; the output goes with your next message", "dim")
            return
        with heard(typed_ahead=True):
            code = subprocess.run([shell, "-c", command], stdout=screen, check=False).returncode
        if code:
            chat.terminal.note(f"exit {code}", "dim")
    except OSError as error:
        raise UsageError(f"cannot run {shell}: {error.strerror}") from error


def _captured(chat: Chat, command: list[str]) -> tuple[int, str]:
    """The exit code and the output, which is shown as it comes."""
    output = bytearray()
    cut = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        if process.stdout is None:  # for the type checker: it is PIPE
            raise AssertionError("no pipe")
        while piece := os.read(process.stdout.fileno(), 65536):
            sys.stderr.write(clean(piece.decode("utf-8", "replace")))
            sys.stderr.flush()
            output += piece
            if len(output) > 4 * MOST:
                more = len(output) - 2 * MOST
                del output[MOST : MOST + more]
                cut += more
    return process.returncode, _within(bytes(output), cut)


def _within(output: bytes, cut: int) -> str:
    half = MOST // 2
    if len(output) > MOST:
        cut += len(output) - MOST
        parts = output[:half], output[-half:]
        return f"\n[… {cut:,} bytes left out …]\n".join(part.decode("utf-8", "replace") for part in parts)
    return output.decode("utf-8", "replace")
