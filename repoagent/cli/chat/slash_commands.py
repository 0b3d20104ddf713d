"""Slash commands of files: those that the model has seen, the plan, the next message in an editor.

The commands that begin with a slash: which there are, what each takes, and how one is found.

Commands of the person's own: `!cmd` runs one, `!!cmd` also tells the model what it printed.
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
from repoagent.cli.ui.sanitize import clean, display_width, one_line
from repoagent.errors import NothingDone, UsageError
from repoagent.llm.model import fence

if TYPE_CHECKING:
    from repoagent.cli.chat.chat import Chat


def files(chat: Chat, words: str) -> None:
    """The files whose content is in the conversation, and which of them hold something else by now."""
    from repoagent.errors import RepoagentError
    from repoagent.git.files import read_source
    from repoagent.tasks.context import shown_in

    found = shown_in(open_state(chat.run_dir.conversation))
    if not found:
        raise NothingDone("the model has not seen any file yet")
    for path, blob in sorted(found.items()):
        try:
            now = read_source(chat.worktree, path)
        except RepoagentError:
            state = "  (can't be read any more)"
        else:
            state = (
                "  (gone since)"
                if now.data is None
                else ""
                if now.blob == blob
                else "  (changed since it was read)"
            )
        chat.terminal.styled(f"{one_line(path)}{state}\n")


def plan(chat: Chat, words: str) -> None:
    """Show the plan; or let the person edit it, which the model is told at its next turn."""
    from repoagent.storage.atomic import read_regular, write_whole

    file = chat.run_dir.plan
    present = (read_regular(file) or b"").decode("utf-8", "surrogateescape")
    if not words:
        if not present.strip():
            raise NothingDone(
                "there is no plan yet: the model makes one for longer tasks, /plan edit is yours"
            )
        chat.terminal.result(present if present.endswith("\n") else present + "\n")
        return
    if words != "edit":
        raise UsageError("say /plan, or /plan edit")
    if not chat.person:
        raise UsageError("there is no terminal to edit the plan at")
    text = chat.terminal.edit_text(present or "- [ ] \n", ".md", cwd=chat.worktree.top)
    if text is None or text == present:
        raise NothingDone("the plan is as it was")
    write_whole(file, text.encode("utf-8", "surrogateescape"))
    chat.terminal.note("the model is told of it with your next words")


def editor(chat: Chat, words: str) -> Then:
    """The next message, written in the person's editor."""
    text = chat.terminal.edit_text("", ".md", cwd=chat.worktree.top)
    if text is None:
        raise NothingDone("nothing was written, so nothing was said")
    return Then(text.strip())


Found = Iterable[tuple[str, str]]
_COMMAND = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)


KEYS = (
    "Enter sends; Alt-Enter, ^J or a backslash at the end begins a new line. Tab completes commands and paths, ^R "
    "searches what was typed. ^C stops a reply, ^D ends the chat."
)


class Slash(NamedTuple):
    """`perform` gets the chat and the words behind the command, and says what is next; `offers` may follow the command.
    `typed`: a person has to say it, a pipe can't."""

    arguments: str
    line: str
    perform: Callable[[Chat, str], Then | None]
    offers: Callable[[Chat, str], Found] | None = None
    typed: bool = False


def _help(chat: Chat, words: str) -> None:
    rows = [(f"/{name} {one.arguments}".rstrip(), one.line) for name, one in TABLE.items()]
    rows += [
        ("!COMMAND", "Run a shell command of yours."),
        ("!!COMMAND", "The same, and tell what it printed."),
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
    from repoagent.memory.conversations import names

    return ((name, "") for name in names(chat.layout))


def _words(*words: str) -> Callable[[Chat, str], Found]:
    return lambda chat, typed: ((word, "") for word in words)


TABLE: dict[str, Slash] = {
    "help": Slash("[COMMAND]", "Show the commands.", _help, lambda chat, typed: ((n, "") for n in TABLE)),
    "undo": Slash(
        "[let-go|whole]",
        "Take back what was changed last.",
        slash_conversation.undo,
        _words("let-go", "whole"),
    ),
    "redo": Slash("", "Make it again.", slash_conversation.redo),
    "diff": Slash(
        "[REV]", "Show what is not committed; or all since REV.", slash_conversation.diff, _words("HEAD~1")
    ),
    "review": Slash("", "Review what is not committed, or else the last commit.", slash_conversation.review),
    "plan": Slash("[edit]", "Show the plan, or edit it.", plan, _words("edit")),
    "files": Slash("", "Show which files the model has seen.", files),
    "cost": Slash("", "Show what was used: in this session, and today.", slash_conversation.cost),
    "model": Slash(
        "[SPEC]",
        "Show the model, or take another one from now on.",
        slash_conversation.model,
        _models,
        typed=True,
    ),
    "mode": Slash(
        "[MODE]", "Show what may be done unasked, or change it.", slash_conversation.mode, _modes, typed=True
    ),
    "save": Slash("NAME", "Keep a copy of the conversation.", slash_conversation.save),
    "load": Slash(
        "NAME", "Go on from a kept conversation, in a copy.", slash_conversation.load, _conversations
    ),
    "clear": Slash("", "Begin a new conversation.", slash_conversation.clear),
    "compact": Slash("", "Sum up what was said, so that less is sent.", slash_conversation.compact),
    "continue": Slash("", "Go on where the last turn was stopped.", slash_conversation.go_on),
    "editor": Slash("", "Write the next message in your editor.", editor, typed=True),
    "quit": Slash("", "End the chat.", _quit),
}

PRINTS = frozenset(
    {"cost", "diff", "files", "help", "mode", "model", "plan", "review"}
)  # --json has no place for it


def read(text: str) -> tuple[str, str] | None:
    """The command in `text` and the words behind it; None for words that are none: a path, say."""
    match = _COMMAND.fullmatch(text.rstrip())
    return None if match is None else (match[1].lower(), (match[2] or "").strip())


def perform(chat: Chat, name: str, words: str) -> Then | None:
    """Do what a command says. Raises UsageError for one that there is not, or that takes no such words, and what the
    command raises."""
    name = {"exit": "quit", "q": "quit"}.get(name, name)
    one = TABLE.get(name)
    if one is None:
        raise UsageError(unknown(name))
    if words and not one.arguments:
        raise UsageError(f"/{name} takes nothing behind it")
    if one.typed and (words or name == "editor") and not chat.person:
        raise UsageError(
            f"/{name} is for a person at a terminal: say it as an option when you start the chat"
        )
    if name in PRINTS and chat.given.as_json:
        raise UsageError(f"/{name} prints text: leave --json out for it")
    return one.perform(chat, words)


def unknown(name: str) -> str:
    """The sentence for a command that there is not."""
    near = get_close_matches(name, TABLE, n=1, cutoff=0.5)
    fits = [known for known in TABLE if known.startswith(name)]
    hint = f"did you mean /{(fits or near)[0]}?" if fits or near else "/help shows all"
    return f"there is no command /{name}: {hint}"


def commands() -> Found:
    """For completion: each command and what it does."""
    return ((f"/{name}", one.line) for name, one in TABLE.items())


def arguments(chat: Chat, name: str, typed: str) -> Found:
    """For completion: what may follow the command."""
    one = TABLE.get(name)
    return one.offers(chat, typed) if one is not None and one.offers is not None else ()


MOST = 16_384  # bytes of an output that is told: half of its beginning, half of its end


def run(chat: Chat, line: str) -> None:
    """Run what follows `!` with the person's shell, in the folder of the chat, with all their rights: nobody else has
    written it. Raises UsageError for nothing, and where no person types."""
    told = line.startswith("!!")
    command = line.lstrip("!").strip()
    if not command:
        raise UsageError("say what to run: !COMMAND, or !!COMMAND to tell what it prints")
    if not chat.person:
        raise UsageError("`!` runs a command for a person at a terminal, not from a pipe")
    shell = os.environ.get("SHELL") or "/bin/sh"
    screen = sys.stderr if not chat.terminal.shows else None
    try:
        if told:
            with heard(typed_ahead=True):
                code, output = _captured(chat, [shell, "-c", command])
            text = fence(output, "output") if output else "(no output)"
            chat.aside.append(f"I ran `{command}`: exit code {code}.\n{text}")
            chat.terminal.note(f"exit {code}; told with your next words", "dim")
            return
        with heard(typed_ahead=True):
            code = subprocess.run([shell, "-c", command], stdout=screen, check=False).returncode
        if code:
            chat.terminal.note(f"exit {code}", "dim")
    except OSError as error:
        raise UsageError(f"{shell} can't be run: {error.strerror}") from error


def _captured(chat: Chat, command: list[str]) -> tuple[int, str]:
    """The exit code, and what was printed, which is shown as it comes."""
    kept = bytearray()
    cut = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        if process.stdout is None:  # for the type checker: it is PIPE
            raise AssertionError("no pipe")
        while piece := os.read(process.stdout.fileno(), 65536):
            sys.stderr.write(clean(piece.decode("utf-8", "replace")))
            sys.stderr.flush()
            kept += piece
            if len(kept) > 4 * MOST:
                more = len(kept) - 2 * MOST
                del kept[MOST : MOST + more]
                cut += more
    return process.returncode, _within(bytes(kept), cut)


def _within(output: bytes, cut: int) -> str:
    half = MOST // 2
    if len(output) > MOST:
        cut += len(output) - MOST
        parts = output[:half], output[-half:]
        return f"\n[… {cut:,} bytes left out …]\n".join(part.decode("utf-8", "replace") for part in parts)
    return output.decode("utf-8", "replace")
