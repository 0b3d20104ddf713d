"""Select the turns of a conversation to send to a model, and replace older turns with a checkpoint.

Without a checkpoint, all turns are sent. With a checkpoint, the request has the user's messages, the checkpoint, the
turns that it retained, and all later turns. Until the next checkpoint, a request therefore only grows at its end, and
the provider can cache its prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from repoagent.agent.context_window import shorten_text
from repoagent.agent.context_window.checkpoint import (
    CHECKPOINT,
    CheckpointFacts,
    checkpoint_turn,
    checkpoint_without_model,
    compose_body,
    facts_from_turns,
    is_checkpoint,
    read_checkpoint,
    unit_starts,
)
from repoagent.agent.context_window.shorten_text import byte_length, shorten
from repoagent.agent.state import State
from repoagent.dataclass import dataclass
from repoagent.errors import LimitReached, ModelError, UsageError
from repoagent.llm.conversation import ATTACHED, Turn
from repoagent.llm.media import reference_of
from repoagent.llm.model import Request
from repoagent.llm.usage import estimate_tokens, estimate_usage

BYTES = 3  # per token, as in `estimate_tokens`
_WORDS, _BYTES_A_WORD = 900, 10
# Shares of the budget, and of what the user's messages leave of it.
WORDS = 0.6  # of the budget: beyond this the user's older messages are cut in the middle
HIGH = 0.75  # of the rest: beyond this a checkpoint is due
RECENT = 0.3  # of the rest: the newest turns, which a checkpoint retains
RECENT_MOST = 0.5  # of the rest: when the newest step alone is larger than RECENT
TEXT = 0.2  # of the rest: the checkpoint itself
LEAST = 2_000  # tokens for the turns: no step fits into less
_WORTH_A_CALL = 6_000  # tokens for the turns: below this a checkpoint is not worth a call

_CUT = "[… the middle is omitted; the conversation file has all of it …]"

Ask = Callable[[tuple[Turn, ...]], tuple[str, Mapping[str, str]]]


def estimate_turns(turns: Iterable[Turn]) -> int:
    """The estimated number of tokens of `turns` in a prompt, with markup, erring on the high side."""
    total = 0
    for turn in turns:
        total += estimate_tokens(turn.text)
        total += 4 if turn.role == "user" else 28 + len(turn.meta.get("kind", "")) // 3
        attached = reference_of(turn) if ATTACHED in turn.meta else None
        total += attached.tokens if attached else 0
        thought = turn.meta.get("thought", "")  # sent back with the text
        total += int(thought) if thought.isdecimal() and len(thought) < 9 else 0
    return total


def without_attached(turn: Turn) -> Turn:
    """Replace the image or PDF of a turn with a note."""
    attachment = reference_of(turn)
    if attachment is None:
        return turn
    meta = {key: value for key, value in turn.meta.items() if key != ATTACHED}
    return replace(turn, text=f"({attachment.path}: left out. Read it again if you need it.)", meta=meta)


def with_cache_breakpoints(request: Request) -> Request:
    """Return `request` with cache marks at the end of its first message, where the previous request ended, and at its
    own end. The first message stays the same until the next checkpoint."""
    of_user = [number for number, message in enumerate(request.messages) if message.role == "user"]
    messages = list(request.messages)
    for number in {*of_user[:1], *of_user[-2:]}:
        *before, last = messages[number].parts
        messages[number] = replace(messages[number], parts=(*before, replace(last, cache=True)))
    return replace(request, messages=tuple(messages))


def without_older_attachments(turns: Sequence[Turn]) -> list[Turn]:
    """Replace images and PDFs with notes, except in the newest unit (see `unit_starts`)."""
    newest = unit_starts(turns)[-1] if turns else 0
    return [*map(without_attached, turns[:newest]), *turns[newest:]]


def latest_checkpoint(turns: Sequence[Turn]) -> tuple[int, int, int] | None:
    """The checkpoint in effect: its index, the first turn that it retained, and its budget; None if there is none."""
    made = [n for n, turn in enumerate(turns) if is_checkpoint(turn) and "keeps" in turn.meta]
    if not made:
        return None
    at = made[-1]
    meta = turns[at].meta
    opening = next((number for number, turn in enumerate(turns) if turn.role != "user"), 0)
    start = max(opening, at - _whole_number(meta["keeps"]))  # a prompt begins with the user's message
    start = next((border for border in unit_starts(turns[:at]) if border >= start), at)
    return at, start, _whole_number(meta.get("budget", ""))


def _whole_number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def shown_turns(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns to send, in order."""
    mark = latest_checkpoint(turns)
    if mark is None:
        return tuple(turn for turn in turns if not is_checkpoint(turn))
    at, start, budget = mark
    words = _clipped([turn for turn in turns[:at] if turn.role == "user"], budget)
    before = sum(turn.role == "user" for turn in turns[:start])
    later = (turn for turn in turns[at + 1 :] if not is_checkpoint(turn))

    # the retained turns within their share: long results without their middle
    recent_words = iter(words[before:])
    slim = without_older_attachments(turns[start:at])
    recent = [next(recent_words) if turn.role == "user" else turn for turn in slim if not is_checkpoint(turn)]
    results = [turn for turn in recent if turn.role != "user"]
    most = int((budget - estimate_turns(words)) * RECENT_MOST) if budget else estimate_turns(recent)
    if estimate_turns(results) > most:
        limit = shorten_text.fair_limit([estimate_turns([turn]) for turn in results], most)
        recent = [turn if turn.role == "user" else _within(turn, limit) for turn in recent]
    return (*words[:before], turns[at], *recent, *later)


def _clipped(words: Sequence[Turn], budget: int) -> list[Turn]:
    """The user's turns within their share of `budget`: the newest stays whole if possible, older ones lose their
    middle, and the oldest are dropped if that is not enough."""
    most = int(budget * WORDS) if budget else estimate_turns(words)
    if estimate_turns(words) <= most or not words:
        return list(words)
    *older, last = words
    last = _within(last, most * 3 // 4)
    remaining = most - estimate_turns([last])
    limit = shorten_text.fair_limit([estimate_turns([turn]) for turn in older], remaining)
    shown = [_within(turn, max(limit, 40)) for turn in older]
    while shown and estimate_turns(shown) > remaining:
        shown.pop(0)
    return [*[replace(turn, text="[left out]") for turn in older[: len(older) - len(shown)]], *shown, last]


def _first_retained(turns: Sequence[Turn], budget: int, part: float) -> int:
    """The index of the first turn that a new checkpoint retains: the newest unit, and as many before it as fit in
    `part` of what the user's messages leave of `budget`, but nothing that the last checkpoint replaced."""
    mark = latest_checkpoint(turns)
    least = mark[1] if mark else 0
    words = _clipped([turn for turn in turns if turn.role == "user"], budget)
    remaining = int((budget - estimate_turns(words)) * part)
    slim = list(turns[:least]) + without_older_attachments(turns[least:])
    start = end = len(turns)
    for border in reversed([border for border in unit_starts(turns) if border >= least]):
        unit = [turn for turn in slim[border:end] if turn.role != "user" and not is_checkpoint(turn)]
        remaining -= estimate_turns(unit)
        if remaining < 0 and any(turn.role != "user" for turn in turns[start:]):
            break
        start = end = border
    return start


def _within(turn: Turn, most: int) -> Turn:
    """Shorten `turn` to at most `most` tokens."""
    if estimate_turns([turn]) > most:
        turn = without_attached(turn)
    overhead = estimate_turns([turn]) - -(-byte_length(turn.text) // BYTES)
    room = max(0, most - overhead) * BYTES
    return replace(turn, text=shorten(turn.text, room, _CUT))


@dataclass(frozen=True)
class Window:
    """Selects the part of a long conversation to send.

    budget: the tokens available for the turns (see `tokens_for_turns`).
    tools: the names of all tools, to parse the replies.
    file: where to save a copy of the checkpoint for the user; None for no copy.
    """

    budget: int
    tools: Sequence[str] = ()
    file: Path | None = None

    def turns(self, state: State) -> tuple[Turn, ...]:
        """The turns to send: until the next checkpoint, those of the last call and any new ones."""
        return shown_turns(state.turns)

    def is_due(self, state: State) -> bool:
        """Whether a checkpoint must be made before the next call."""
        mark = latest_checkpoint(state.turns)
        if mark and all(map(is_checkpoint, state.turns[mark[0] :])):  # a new one would be the same
            return False
        words, rest = self._sizes(state)
        return words > self.budget * WORDS or rest > (self.budget - words) * HIGH

    def ready(
        self,
        state: State,
        ask: Ask | None = None,
        known: Callable[[State], CheckpointFacts] | None = None,
        *,
        force: bool = False,
    ) -> State:
        """Return the state for the next call, with a new checkpoint if one is due or `force` is set.

        `ask` sends turns and returns the reply and its metadata (model, tokens). If that fails, or the reply is not a
        checkpoint, the first lines of the replies serve as the summary. The `known` facts are added in either case.
        Raises Busy or Refused if a file cannot be written.
        """
        mark = latest_checkpoint(state.turns)
        replies = any(turn.role == "assistant" for turn in state.turns[mark[0] if mark else 0 :])
        if not (force and replies) and not self.is_due(state):
            return state
        words, rest = self._sizes(state)
        part = min(RECENT, rest / max(1, self.budget - words) / 3)  # at most a third of the present turns
        start = _first_retained(state.turns, self.budget, part)
        facts = known(state) if known else facts_from_turns(state.turns, self.tools, state.nonce)
        text, meta = "", dict[str, str]()
        prompt = self._prompt(state, start) if ask and self.budget >= _WORTH_A_CALL else ()
        if ask and prompt:
            with suppress(LimitReached, ModelError):  # the next call of the run reports it
                reply, answered = ask(prompt)
                text, meta = read_checkpoint(reply), dict(answered)  # even an unusable reply has a cost
        meta["by"] = "model" if text else "program"
        text = text or checkpoint_without_model(state.turns, self.tools, state.nonce)
        body = compose_body(text or "Nothing has been done yet.", facts, self._most(state))
        turn = checkpoint_turn(
            body, {**meta, "keeps": str(len(state.turns) - start), "budget": str(self.budget)}
        )
        state = state.with_turn(turn)
        if self.file is not None:
            from repoagent.storage.atomic import write_whole

            write_whole(self.file, f"{body}\n".encode("utf-8", "replace"))
        return state

    def _sizes(self, state: State) -> tuple[int, int]:
        """The tokens of the user's turns that are sent, and of the others."""
        turns = shown_turns(state.turns)
        words = estimate_turns(turn for turn in turns if turn.role == "user")
        return words, estimate_turns(turns) - words

    def _prompt(self, state: State, start: int) -> tuple[Turn, ...]:
        """The turns of a request for a checkpoint; if they do not fit, without those that are retained anyway; () if
        that is not enough."""
        text = (files("repoagent.agent") / "prompts" / "checkpoint.md").read_text(encoding="utf-8").strip()
        words = max(100, min(_WORDS, self._most(state) * 2 // 3 // _BYTES_A_WORD // 50 * 50))
        text = text.replace("{words}", str(words))
        question = Turn("observation", text, {"kind": CHECKPOINT, "ok": "yes"})  # not saved
        mark = latest_checkpoint(state.turns)
        for end in (len(state.turns), max(start, mark[0] + 1 if mark else 0)):
            turns = (*shown_turns(state.turns[:end]), question)
            if estimate_turns(turns) <= self.budget and len(turns) > 1:
                return turns
        return ()

    def _most(self, state: State) -> int:
        """The bytes for the body of a checkpoint."""
        words = _clipped([turn for turn in state.turns if turn.role == "user"], self.budget)
        most = int((self.budget - estimate_turns(words)) * TEXT) - estimate_turns([checkpoint_turn("", {})])
        return max(0, most - 20) * BYTES


def tokens_for_turns(context_tokens: int, reply_tokens: int, fixed: Request) -> int:
    """The tokens left for turns, after the reply and `fixed`, the request without turns. Raises UsageError if too few
    are left to work with."""
    available = context_tokens - reply_tokens - estimate_usage(fixed).input
    if available < LEAST:
        raise UsageError(
            f"the prompt leaves about {max(0, available):,} of {context_tokens:,} tokens for the work; name "
            "fewer files, or use a model with a larger context window"
        )
    return available
