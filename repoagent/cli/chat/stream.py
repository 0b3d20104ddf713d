"""A chat with a program: lines of JSON in both directions. `run/events.py` has the events, and how questions are
answered; each turn ends with `end` or `error`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from repoagent.cli.chat.chat import meter_of, perform
from repoagent.cli.run.events import LONGEST, Events, emit, emit_error
from repoagent.errors import Exit, RepoagentError
from repoagent.llm.naming import shown

if TYPE_CHECKING:
    from repoagent.cli.chat.chat import Chat


def talk(chat: Chat) -> Exit:
    """From turn to turn, until the program says stop or its input is at its end; the exit code of the last turn."""
    events = Events(yes=chat.mode in {"auto", "auto-edit"})
    model = shown(chat.means.model.spec)
    emit("start", {"run": chat.name, "kind": "chat", "mode": chat.mode, "model": model})
    code = Exit.DONE
    while not events.stopped and (words := _said(events)) is not None:
        meter = meter_of(chat)
        try:
            events.end(perform(chat, words, events, meter))
            code = Exit.DONE
        except RepoagentError as error:
            emit_error(error, meter)
            code = error.exit_code
    return code


def _said(events: Events) -> str | None:
    """What is said next; None for the end."""
    while line := sys.stdin.readline(LONGEST):
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        words = told.get("say") if isinstance(told, dict) else None
        if isinstance(words, str) and words.strip():
            return words
        if isinstance(told, dict) and told.get("stop"):
            return None
        events.say('that is no turn: {"say": "WORDS"} is one, {"stop": true} is the end; it was not heeded')
    return None
