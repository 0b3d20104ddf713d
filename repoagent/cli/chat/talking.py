"""Slash commands of the conversation itself: who is asked, what may be done, copies, what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.agent.state import is_beside, open_state
from repoagent.cli.chat.show import recap
from repoagent.cli.chat.then import Then
from repoagent.errors import NothingDone, UsageError
from repoagent.llm.naming import shown
from repoagent.llm.usage import cost_text, dollars
from repoagent.work.home import new_name

if TYPE_CHECKING:
    from repoagent.agent.approval import Mode
    from repoagent.cli.chat.chat import Chat

MODE_LINES: dict[Mode, str] = {
    "ask": "each change and each command is asked about",
    "auto-edit": "changes are made unasked, commands are asked about",
    "auto": "commands run unasked too, in a sandbox",
    "read-only": "nothing is changed",
}


def model(chat: Chat, words: str) -> None:
    """Show who is asked; or ask another from the next words on. The meter of the session goes on."""
    if not words:
        known = chat.means.context_tokens
        window = f", takes {known:,} tokens" if known else ""
        chat.terminal.result(f"{shown(chat.means.model.spec)}{window}\n")
        return
    from repoagent.cli.chat.chat import open_means
    from repoagent.config import load

    flags = {**chat.flags, "model": words}
    settings = load(chat.layout, flags=flags)
    fresh = open_means(chat.given, settings, chat.terminal, chat.means.meter.limits)
    chat.means = replace(fresh, meter=chat.means.meter)
    chat.settings, chat.flags = settings, flags
    chat.terminal.note(f"from now on {shown(fresh.model.spec)} is asked")


def mode(chat: Chat, words: str) -> None:
    """Show what may be done unasked, or change it from the next words on."""
    if not words:
        chat.terminal.result(f"{chat.mode}: {MODE_LINES[chat.mode]}\n")
        return
    found = next((name for name in MODE_LINES if name == words.lower()), None)
    if found is None:
        raise UsageError(f"{words} is no mode: say {', '.join(MODE_LINES)}")
    chat.mode = chat.given.mode = found
    chat.terminal.note(f"{found}: {MODE_LINES[found]}")


def save(chat: Chat, words: str) -> None:
    """Keep a copy under a name."""
    from repoagent.memory.conversations import find, here, named
    from repoagent.memory.conversations import save as keep

    if not words:
        raise UsageError("say under which name: /save NAME")
    if not open_state(chat.home.conversation).turns:
        raise NothingDone("nothing was said yet: there is nothing to save")
    at = here(chat.layout, chat.worktree, chat.worktree.top, warn=chat.terminal.warn)
    keep(chat.layout, find(at, chat.name), named(chat.layout, words, own=True))
    chat.terminal.note(f"saved as {words}; /load {words} goes on from there")


def load(chat: Chat, words: str) -> None:
    """Go on from a kept conversation: in a copy of it, so that the kept one stays as it is."""
    from repoagent.memory.conversations import branch, find, here, named

    if not words:
        raise UsageError("say which one: /load NAME; `repoagent conversation list` shows them")
    at = here(chat.layout, chat.worktree, chat.worktree.top, warn=chat.terminal.warn)
    found = find(at, words)
    name = new_name("chat")
    branch(chat.layout, found, named(chat.layout, name))
    before = _begin(chat, name)
    chat.terminal.note(f"this chat goes on from {words} now, as {name}; {before}")
    recap(found.conversation.turns, chat.terminal)


def clear(chat: Chat, words: str) -> None:
    """Begin anew; what was said is kept."""
    if not open_state(chat.home.conversation).turns:
        raise NothingDone("nothing was said yet: this is a new conversation")
    before = _begin(chat, new_name("chat"))
    chat.terminal.note(f"a new conversation; {before}")


def _begin(chat: Chat, name: str) -> str:
    """Go on as `name`; a sentence that says where the one before is."""
    from repoagent.cli.chat.show import show_left
    from repoagent.work.landing.left import left

    show_left(left(chat.worktree, chat.home), chat.terminal)
    before, chat.name = chat.name, name
    chat.lives = False
    chat.aside.clear()
    chat.edits.clear()
    return f"`repoagent chat --resume {before}` brings back the one before"


def go_on(chat: Chat, words: str) -> Then:
    """Go on with a turn that was stopped, or that ended by a limit or a failure."""
    if not unfinished(chat):
        raise NothingDone("the last turn came to its end: there is nothing to go on with")
    return Then("")


def unfinished(chat: Chat) -> bool:
    """Whether the last words of the person are still without an end."""
    from repoagent.work.home import refreshed
    from repoagent.work.home.listing import ALONE, Run
    from repoagent.work.home.record import Record

    turns = open_state(chat.home.conversation).turns
    if not any(turn.role == "user" and not is_beside(turn) for turn in turns):
        return False
    state = refreshed(Run(chat.home, Record(name=chat.name), ""), warn=chat.terminal.warn).state
    return state not in {"done", "answered", "rejected", ALONE}


def compact(chat: Chat, words: str) -> None:
    """A checkpoint now: from the next words on it stands for what is older."""
    from repoagent.cli.chat.chat import request
    from repoagent.cli.chat.show import Speaking
    from repoagent.cli.run.talk import RunTalk
    from repoagent.work.sending.compacting import compact as checkpoint

    if not open_state(chat.home.conversation).turns:
        raise NothingDone("nothing was said yet: there is nothing to sum up")
    with Speaking(chat.terminal, "summing up") as working:
        talk = RunTalk.of(chat.terminal, working, chat.mode)
        before, after = checkpoint(chat.worktree, request(chat, ""), chat.settings, talk, chat.means)
    chat.terminal.note(
        f"summed up: {before:,} tokens of it were sent, {after:,} are from now on; its file keeps all",
    )


def cost(chat: Chat, words: str) -> None:
    """What the session has used, and what all calls of today have cost."""
    meter = chat.means.meter
    usage = meter.usage
    about = "about " if usage.estimated else ""
    cached = f" ({usage.cache_read:,} cached)" if usage.cache_read else ""
    price = "a price that is not known" if meter.cost is None else cost_text(meter.cost)
    calls = f"{meter.attempts:,} call{'s' * (meter.attempts != 1)}"
    tokens = f"{about}{usage.total - usage.output:,} tokens in{cached}, {usage.output:,} out"
    chat.terminal.result(f"this session: {calls}, {tokens}, {price}\n")
    if meter.book is not None:
        limit = f" of {dollars(meter.limits.day, 0)}" if meter.limits.day is not None else ""
        chat.terminal.result(f"today, in all: {dollars(meter.book.today())}{limit}\n")
