"""The commands that begin with a slash: which there are, what each takes, and how one is found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from repoagent.cli.chat import changing, files, talking
from repoagent.cli.chat.show import folded
from repoagent.cli.chat.then import ENDS, Then
from repoagent.cli.completing import values
from repoagent.cli.screen.clean import columns
from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.cli.chat.chat import Chat

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
    width = max(columns(head) for head, _ in rows)
    if words:
        name = words.strip().removeprefix("/")
        rows = [row for row in rows if row[0].split()[0] == f"/{name}"]
        if not rows:
            raise UsageError(unknown(name))
    narrow = max(width + 2 + columns(line) for _, line in rows) > chat.terminal.width
    for head, line in rows:
        chat.terminal.styled(f"{head}\n    {line}\n" if narrow else f"{head:<{width}}  {line}\n")
    if not words:
        chat.terminal.styled("\n" + "\n".join(folded(KEYS, chat.terminal.width)) + "\n")


def _quit(chat: Chat, words: str) -> Then:
    return ENDS


def _modes(chat: Chat, typed: str) -> Found:
    return talking.MODE_LINES.items()


def _models(chat: Chat, typed: str) -> Found:
    return values.models(typed)


def _conversations(chat: Chat, typed: str) -> Found:
    from repoagent.memory.conversations import names

    return ((name, "") for name in names(chat.layout))


def _words(*words: str) -> Callable[[Chat, str], Found]:
    return lambda chat, typed: ((word, "") for word in words)


TABLE: dict[str, Slash] = {
    "help": Slash("[COMMAND]", "Show the commands.", _help, lambda chat, typed: ((n, "") for n in TABLE)),
    "undo": Slash(
        "[let-go|whole]", "Take back what was changed last.", changing.undo, _words("let-go", "whole")
    ),
    "redo": Slash("", "Make it again.", changing.redo),
    "diff": Slash("[REV]", "Show what is not committed; or all since REV.", changing.diff, _words("HEAD~1")),
    "review": Slash("", "Review what is not committed, or else the last commit.", changing.review),
    "plan": Slash("[edit]", "Show the plan, or edit it.", files.plan, _words("edit")),
    "files": Slash("", "Show which files the model has seen.", files.files),
    "cost": Slash("", "Show what was used: in this session, and today.", talking.cost),
    "model": Slash(
        "[SPEC]", "Show the model, or take another one from now on.", talking.model, _models, typed=True
    ),
    "mode": Slash("[MODE]", "Show what may be done unasked, or change it.", talking.mode, _modes, typed=True),
    "save": Slash("NAME", "Keep a copy of the conversation.", talking.save),
    "load": Slash("NAME", "Go on from a kept conversation, in a copy.", talking.load, _conversations),
    "clear": Slash("", "Begin a new conversation.", talking.clear),
    "compact": Slash("", "Sum up what was said, so that less is sent.", talking.compact),
    "continue": Slash("", "Go on where the last turn was stopped.", talking.go_on),
    "editor": Slash("", "Write the next message in your editor.", files.editor, typed=True),
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
