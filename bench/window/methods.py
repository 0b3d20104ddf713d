"""Ways to send a long conversation: the window of repoagent, and what is common elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from repoagent.agent.context_window.checkpoint import HEADINGS, borders, is_checkpoint, mechanical, tokens
from repoagent.agent.context_window.window import Window, marked, room
from repoagent.agent.state import State
from repoagent.llm.conversation import Turn, to_messages
from repoagent.llm.model import Message, Part, Request
from repoagent.llm.usage import estimate_tokens

TOOLS = ("read", "search", "run", "edit")
REPLY = 16_000
CHECKPOINT = 1_300  # tokens of what a model writes as a checkpoint
_SYSTEM = (Part("protocol and tools " * 900, cache=True), Part("about the repository " * 400, cache=True))
_OPENING = (Part("facts, history, neighbors " * 300, cache=True),)


@dataclass
class Sent:
    """The requests of one run, in their order, and tokens of replies that were asked for beside it."""

    requests: list[Request] = field(default_factory=list)
    beside: int = 0
    checkpoints: int = 0


def request(turns: tuple[Turn, ...]) -> Request:
    first, *later = to_messages(turns, "7f3a9c21")
    messages = (replace(first, parts=(*_OPENING, *first.parts)), *later)
    return marked(Request(_SYSTEM, messages, REPLY))


def budget(context: int) -> int:
    return room(context, REPLY, Request(_SYSTEM, (Message("user", _OPENING),)))


def ours(turns: tuple[Turn, ...], context: int) -> Sent:
    """Checkpoints that a model writes; the question is a request like the others."""
    sent = Sent()
    window = Window(budget(context), TOOLS)

    def ask(turns: tuple[Turn, ...]) -> tuple[str, Mapping[str, str]]:
        sent.requests.append(request(turns))
        sent.beside += CHECKPOINT
        words = "decided because of it " * (3 * CHECKPOINT // 22 // len(HEADINGS))
        return "\n".join(f"## {name}\n{words}" for name in HEADINGS), {}

    state = State((), "7f3a9c21")
    for turn in turns:
        if turn.role == "assistant":
            state = window.ready(state, ask)
            sent.requests.append(request(window.turns(state)))
        state = state.with_turn(turn)
    sent.checkpoints = sum(map(is_checkpoint, state.turns))
    return sent


def sliding(turns: tuple[Turn, ...], context: int) -> Sent:
    """The oldest turns after the first are dropped, as many as it takes, before each call."""
    most = budget(context)
    sent = Sent()
    for before in _calls(turns):
        start = next(
            (n for n in borders(before)[1:] if tokens([before[0], *before[n:]]) <= most), len(before)
        )
        whole = tokens(before) <= most
        sent.requests.append(request(before if whole else (before[0], *before[start:])))
    return sent


def summarized(turns: tuple[Turn, ...], context: int) -> Sent:
    """What is older than the newest third of the window is told as a summary that is made anew before each call; it
    costs no call here."""
    most = budget(context)
    sent = Sent()
    for before in _calls(turns):
        start = next((n for n in borders(before)[1:] if tokens(before[n:]) <= most * 0.3), len(before))
        old = before[:start]
        if len(old) < 2:
            sent.requests.append(request(before))
            continue
        said = mechanical([turn for turn in old if turn.role != "user"], TOOLS)[-3 * CHECKPOINT * 3 :]
        words = tuple(turn for turn in old if turn.role == "user")
        summary = Turn("observation", said, {"kind": "summary"})
        sent.requests.append(request((*words, summary, *before[start:])))
    return sent


def _calls(turns: tuple[Turn, ...]) -> Iterator[tuple[Turn, ...]]:
    for number, turn in enumerate(turns):
        if turn.role == "assistant":
            yield turns[:number]


METHODS: Mapping[str, Callable[[tuple[Turn, ...], int], Sent]] = {
    "repoagent": ours,
    "sliding window": sliding,
    "summary each turn": summarized,
}


def size(request: Request) -> int:
    parts = [*request.system, *(part for message in request.messages for part in message.parts)]
    return sum(estimate_tokens(part.text) for part in parts)
