"""Measure what long runs send and how much of it the provider's prompt cache holds: `python -m bench.window`.

Simulated runs of 60 to 200 steps are sent in three ways: with repoagent's context window, with a sliding window that
drops the oldest turns, and with a new summary before each call. All have the same turns (long results are already in
files) and the same cache marks. Tokens are estimated as for limits. `cost` counts an input token as 1, one read from
the cache as 0.1, one written to it as 1.25, and one of a checkpoint's reply as 5. `calls` includes those for
checkpoints.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bench.options import options
from repoagent.agent.context_window.checkpoint import (
    HEADINGS,
    checkpoint_without_model,
    is_checkpoint,
    unit_starts,
)
from repoagent.agent.context_window.window import (
    Window,
    estimate_turns,
    tokens_for_turns,
    with_cache_breakpoints,
)
from repoagent.agent.state import State
from repoagent.llm.conversation import Turn, to_messages
from repoagent.llm.model import Message, Part, Request, Usage, fence
from repoagent.llm.usage import estimate_tokens

SPILL_BYTES = 8192  # a longer result is cut here, the rest is in a file
_WORDS = ["value", "index", "self", "return", "parse", "token", "line", "buffer", "state", "error", "path", "node",
          "item", "count", "next", "reader"]  # fmt: skip


def simulated(seed: int, least: int = 60, most: int = 200) -> tuple[Turn, ...]:
    """Return the turns of one run: a request, then `least` to `most` steps, with another user turn now and then."""
    rng = random.Random(seed)
    turns = [Turn("user", _prose(rng, 900))]
    for number in range(rng.randint(least, most)):
        if number and rng.random() < 0.02:
            turns.append(Turn("user", _prose(rng, 300)))
        turns += _step(rng)
    return tuple(turns)


def _step(rng: random.Random) -> Iterator[Turn]:
    kinds = rng.choices(
        [("read",), ("read", "read"), ("search",), ("run",), ("edit",), ("edit", "run")],
        [32, 8, 14, 16, 18, 12],
    )[0]
    reply, results = [_prose(rng, _size(rng, 260, 0.7, 2_000))], []
    for kind in kinds:
        path = f"src/{rng.choice(_WORDS)}/{rng.choice(_WORDS)}.py"
        if kind == "read":
            first = rng.choice([1, 1, 120, 300])
            text = _code(rng, min(SPILL_BYTES, _size(rng, 4_500, 0.8, 40_000)))
            lines = f"{first}-{first + text.count(chr(10)) - 1}"
            reply.append(f'<read path="{path}" lines="{lines}"/>')
            results.append((kind, fence(text, f'file path="{path}" blob="1" lines="{lines}"')))
        elif kind == "search":
            reply.append(f'<search pattern="{rng.choice(_WORDS)}"/>')
            results.append(
                (kind, fence(_code(rng, min(SPILL_BYTES, _size(rng, 1_500, 0.9, 40_000))), "matches"))
            )
        elif kind == "run":
            text = _code(rng, min(SPILL_BYTES, _size(rng, 1_800, 1.2, 60_000)))
            reply.append("<run>make test</run>")
            results.append((kind, f"exit {rng.choice([0, 0, 1, 2])}\n{fence(text, 'output')}"))
        else:
            patch = "".join(f"+{row}\n" for row in _code(rng, _size(rng, 900, 0.8, 8_000)).splitlines())
            reply.append(f"```diff\n--- a/{path}\n+++ b/{path}\n@@\n-old\n{patch}```")
            results.append((kind, "Applied."))
    yield Turn("assistant", "\n".join(reply))
    for kind, text in results:
        yield Turn("observation", text, {"kind": kind, "ok": "yes"})


def _size(rng: random.Random, middle: float, spread: float, most: int) -> int:
    """A size in bytes: log-normal around `middle`, as sizes of files and outputs are, and at most `most`."""
    return min(most, max(40, int(middle * rng.lognormvariate(0, spread))))


def _prose(rng: random.Random, size: int) -> str:
    return " ".join(rng.choices(_WORDS, k=max(1, size // 6))).capitalize() + "."


def _code(rng: random.Random, size: int) -> str:
    rows = []
    while size > 0:
        rows.append(" " * rng.choice([0, 4, 8]) + " ".join(rng.choices(_WORDS, k=rng.randint(2, 9))))
        size -= len(rows[-1]) + 1
    return "\n".join(rows) + "\n"


MIN_TOKENS, MARKS, LOOK_BACK = 1_024, 4, 20  # of a cached prefix; per request; blocks before a mark


@dataclass
class Cache:
    cached: set[bytes] = field(default_factory=set)

    def sent(self, request: Request) -> Usage:
        """Send a request and return its tokens: read from the cache, written to it, and neither (`input`)."""
        blocks = [("system", part) for part in request.system]
        blocks += [(message.role, part) for message in request.messages for part in message.parts]
        whole = hashlib.sha256()
        prefixes: list[tuple[bytes, int]] = []
        size = 0
        for role, part in blocks:
            whole.update(f"{role}\0{part.text}\0".encode())
            size += estimate_tokens(part.text)
            prefixes.append((whole.digest(), size))
        marks = [number for number, (_, part) in enumerate(blocks) if part.cache][-MARKS:]
        near = {number - back for number in marks for back in range(LOOK_BACK) if number >= back}
        read = max((prefixes[number][1] for number in near if prefixes[number][0] in self.cached), default=0)
        written = 0
        for number in marks:
            digest, upto = prefixes[number]
            if upto >= MIN_TOKENS:
                self.cached.add(digest)
                written = max(written, upto - read)
        return Usage(input=size - read - written, cache_read=read, cache_write=written)


TOOLS = ("read", "search", "run", "edit")
REPLY = 16_000
CHECKPOINT = 1_300  # tokens of a checkpoint that a model writes
_SYSTEM = (Part("protocol and tools " * 900, cache=True), Part("about the repository " * 400, cache=True))
_OPENING = (Part("facts, history, neighbors " * 300, cache=True),)


@dataclass
class Sent:
    """The requests of one run in order, and the tokens of the replies that are checkpoints."""

    requests: list[Request] = field(default_factory=list)
    reply_tokens: int = 0
    checkpoints: int = 0


def request(turns: tuple[Turn, ...]) -> Request:
    first, *later = to_messages(turns, "7f3a9c21")
    messages = (replace(first, parts=(*_OPENING, *first.parts)), *later)
    return with_cache_breakpoints(Request(_SYSTEM, messages, REPLY))


def budget(context: int) -> int:
    return tokens_for_turns(context, REPLY, Request(_SYSTEM, (Message("user", _OPENING),)))


def ours(turns: tuple[Turn, ...], context: int) -> Sent:
    """repoagent's window. A checkpoint takes a request like the others and a reply of CHECKPOINT tokens."""
    sent = Sent()
    window = Window(budget(context), TOOLS)

    def ask(turns: tuple[Turn, ...]) -> tuple[str, Mapping[str, str]]:
        sent.requests.append(request(turns))
        sent.reply_tokens += CHECKPOINT
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
    """Before each call, drop as many of the oldest turns after the first as needed."""
    most = budget(context)
    sent = Sent()
    for before in _calls(turns):
        start = next(
            (n for n in unit_starts(before)[1:] if estimate_turns([before[0], *before[n:]]) <= most),
            len(before),
        )
        whole = estimate_turns(before) <= most
        sent.requests.append(request(before if whole else (before[0], *before[start:])))
    return sent


def summarized(turns: tuple[Turn, ...], context: int) -> Sent:
    """Before each call, put a new summary, which costs no call here, in place of what is older than the newest 30 % of
    the window, except the user's turns."""
    most = budget(context)
    sent = Sent()
    for before in _calls(turns):
        start = next(
            (n for n in unit_starts(before)[1:] if estimate_turns(before[n:]) <= most * 0.3), len(before)
        )
        old = before[:start]
        if len(old) < 2:
            sent.requests.append(request(before))
            continue
        text = checkpoint_without_model([turn for turn in old if turn.role != "user"], TOOLS)[
            -3 * CHECKPOINT * 3 :
        ]
        user_turns = tuple(turn for turn in old if turn.role == "user")
        summary = Turn("observation", text, {"kind": "summary"})
        sent.requests.append(request((*user_turns, summary, *before[start:])))
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


Figures = dict[str, float]
CACHED = "% cached"
COLUMNS = {"calls": 8, "checkpoints": 13, "sent": 14, "largest": 10, CACHED: 10, "cost": 13}


def main(arguments: Sequence[str] | None = None) -> None:
    args = options(
        "bench.window", __doc__, arguments,
        runs=(6, "simulated runs for each context size"),
        seed=(1, "seed of the first run; the next ones count up"),
        context=(int, "context sizes in tokens", {"nargs": "+", "default": [64_000, 128_000, 200_000]}),
    )  # fmt: skip
    for context in args.context:
        runs = [simulated(args.seed + number) for number in range(args.runs)]
        steps = sum(turn.role == "assistant" for run in runs for turn in run)
        print(f"\n{context:,} tokens, {len(runs)} runs, {steps} steps")
        results = {name: measured(name, runs, context) for name in METHODS}
        print(table(results), flush=True)


def measured(name: str, runs: Sequence[tuple[Turn, ...]], context: int) -> Figures:
    usage, reply_tokens, checkpoints, calls, largest = Usage(), 0, 0, 0, 0
    for run in runs:
        sent = METHODS[name](run, context)
        cache = Cache()
        for request in sent.requests:
            usage += cache.sent(request)
            largest = max(largest, size(request))
        reply_tokens += sent.reply_tokens
        checkpoints += sent.checkpoints
        calls += len(sent.requests)
    cost = usage.input + 0.1 * usage.cache_read + 1.25 * usage.cache_write + 5 * reply_tokens
    return {
        "calls": calls, "checkpoints": checkpoints, "sent": usage.total, "largest": largest,
        CACHED: 100 * usage.cache_read / usage.total, "cost": cost,
    }  # fmt: skip


def table(results: Mapping[str, Figures]) -> str:
    names = "".join(f"{name:>{width}}" for name, width in COLUMNS.items())
    rows = [f"  {'':18}{names}   of repoagent: sent, cost"]
    base = results["repoagent"]
    for name, one in results.items():
        cells = [
            f"{one[column]:>{width}{'.1f' if column == CACHED else ',.0f'}}"
            for column, width in COLUMNS.items()
        ]
        ratios = f"{one['sent'] / base['sent']:>8.2f} x {one['cost'] / base['cost']:>8.2f} x"
        rows.append(f"  {name:18}{''.join(cells)}   {ratios}")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
