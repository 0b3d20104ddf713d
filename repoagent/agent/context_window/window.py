"""What of a conversation a model is sent, and when a checkpoint replaces older turns.

Without a checkpoint all turns are sent. With one: the user's words, the checkpoint, the turns that it kept, and all
that follow. So a request only grows at its end until the next checkpoint, and the provider's cache keeps its prefix.
Results that a later one has made worthless become one line, but only when a checkpoint is made, for the same reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from repoagent.agent.context_window import checkpoint
from repoagent.agent.context_window.checkpoint import (
    BYTES,
    CHECKPOINT,
    Known,
    borders,
    is_checkpoint,
    tokens,
    without_attached,
)
from repoagent.agent.context_window.shorten_text import (
    Quoted,
    pieces,
    share,
    size,
    spilled_to,
    trimmed,
    unquoted,
)
from repoagent.agent.state import State
from repoagent.dataclass import dataclass
from repoagent.errors import LimitReached, ModelError, UsageError
from repoagent.llm.conversation import ATTACHED, Turn
from repoagent.llm.model import Request
from repoagent.llm.usage import estimate


def marked(request: Request) -> Request:
    """`request` with cache marks at the end of its first message (what stays until the next checkpoint), where the
    last request ended, and at its own end. Marks that other parts have stay."""
    people = [number for number, message in enumerate(request.messages) if message.role == "user"]
    numbers = {*people[:1], *people[-2:]}
    messages = list(request.messages)
    for number in numbers:
        *before, last = messages[number].parts
        messages[number] = replace(messages[number], parts=(*before, replace(last, cache=True)))
    return replace(request, messages=tuple(messages))


_READ = re.compile(r'file path=("(?:[^"\\]|\\.)*")(?: [\w-]+="[^"]*")*? lines="(\d+)-(\d+)"')
_EDITED = re.compile(r"^\+\+\+ (?:b/)?([^\t\r\n]+)", re.MULTILINE)
_WORTH = 400  # characters: less is not worth a line of its own


@dataclass(frozen=True)
class _Read:
    path: str
    first: int
    last: int

    def covers(self, other: _Read) -> bool:
        return self.path == other.path and self.first <= other.first and other.last <= self.last


def without_superseded(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """`turns` with one line in the place of a `read` whose lines were read again or whose file was edited since, and
    of what was shortened and is in a file, and of images and PDFs. What the newest unit holds stays."""
    newest = borders(turns)[-1] if turns else 0
    made = list(turns)
    later: list[_Read] = []
    edited: set[str] = set()
    for number in range(len(turns) - 1, -1, -1):
        turn = turns[number]
        if turn.role == "assistant":
            edited |= set(_edits(turns, number))
        if turn.role != "observation":
            continue
        if number < newest and ATTACHED in turn.meta:
            made[number] = without_attached(turn)
            continue
        reads = list(_reads(turn))
        if number < newest and len(turn.text) > _WORTH:
            note = _why(reads, later, edited)
            if not note and (spilled := spilled_to(turn.text)):
                note = f"(Omitted; it is in {', '.join(spilled)}.)"
            made[number] = replace(turn, text=note) if note else turn
        later += reads
    return tuple(made)


def _why(reads: Sequence[_Read], later: Sequence[_Read], edited: set[str]) -> str:
    if not reads:
        return ""
    if all(any(new.covers(old) for new in later) for old in reads):
        return f"({_named(reads)}: omitted, you read it again later.)"
    if all(read.path in edited for read in reads):
        return f"({_named(reads)}: omitted, the file was edited since. Read it again if it matters.)"
    return ""


def _named(reads: Sequence[_Read]) -> str:
    return "; ".join(f"{read.path}, lines {read.first}-{read.last}" for read in reads)


def _reads(turn: Turn) -> Iterator[_Read]:
    if turn.meta.get("kind") != "read" or turn.meta.get("ok") == "no":
        return
    for piece in pieces(turn.text):
        match = _READ.match(piece.label) if isinstance(piece, Quoted) else None
        if match:
            yield _Read(unquoted(match[1]), int(match[2]), int(match[3]))


def _edits(turns: Sequence[Turn], number: int) -> list[str]:
    """The paths that the reply at `number` has edited, when that went well."""
    for turn in turns[number + 1 :]:
        if turn.role != "observation":
            return []
        if turn.meta.get("kind") == "edit":
            return _EDITED.findall(turns[number].text) if turn.meta.get("ok") != "no" else []
    return []


# Shares of the budget, and of what the user's messages leave of it.
WORDS = 0.6  # of the budget: beyond this the user's older messages are cut in the middle
HIGH = 0.75  # of the rest: beyond this a checkpoint is due
RECENT = 0.3  # of the rest: the newest turns that a checkpoint keeps
RECENT_MOST = 0.5  # of the rest: when the newest step alone is larger than RECENT
TEXT = 0.2  # of the rest: the checkpoint itself

_CUT = "[… the middle is omitted; the conversation file has all of it …]"


@dataclass(frozen=True)
class Mark:
    """The newest checkpoint: its index, the first turn that it kept, its budget, and its text as last edited."""

    at: int
    start: int
    budget: int
    turn: Turn


def newest(turns: Sequence[Turn]) -> Mark | None:
    """The checkpoint in effect, if any."""
    checkpoints = [number for number, turn in enumerate(turns) if is_checkpoint(turn)]
    made = next((number for number in reversed(checkpoints) if "keeps" in turns[number].meta), None)
    if made is None:
        return None
    meta = turns[made].meta
    opening = next((number for number, turn in enumerate(turns) if turn.role != "user"), 0)
    start = max(opening, made - _whole_number(meta["keeps"]))  # a prompt begins with the user's message
    fitting = [border for border in [*borders(turns[:made]), made] if border >= start]
    return Mark(
        made,
        fitting[0],
        _whole_number(meta.get("budget", "")),
        replace(turns[made], text=turns[checkpoints[-1]].text),
    )


def shown_turns(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns that are sent, in their order."""
    mark = newest(turns)
    if mark is None:
        return tuple(turn for turn in turns if not is_checkpoint(turn))
    words = clipped([turn for turn in turns[: mark.at] if turn.role == "user"], mark.budget)
    before = sum(turn.role == "user" for turn in turns[: mark.start])
    recent = fitted(turns[mark.start : mark.at], words[before:], mark.budget, tokens(words))
    later = (turn for turn in turns[mark.at + 1 :] if not is_checkpoint(turn))
    return (*words[:before], mark.turn, *recent, *later)


def clipped(words: Sequence[Turn], budget: int) -> list[Turn]:
    """The user's turns within their share of `budget`: the newest is kept whole if possible, older ones lose their
    middle, and the oldest are dropped if that is not enough."""
    most = int(budget * WORDS) if budget else tokens(words)
    if tokens(words) <= most or not words:
        return list(words)
    *older, last = words
    last = _within(last, most * 3 // 4)
    left = most - tokens([last])
    each = share([tokens([turn]) for turn in older], left)
    made = [_within(turn, max(each, 40)) for turn in older]
    while made and tokens(made) > left:
        made.pop(0)
    return [*[replace(turn, text="[left out]") for turn in older[: len(older) - len(made)]], *made, last]


def fitted(turns: Sequence[Turn], words: Sequence[Turn], budget: int, person: int) -> list[Turn]:
    """The turns that a checkpoint keeps, within their share: superseded results are dropped, long ones lose their
    middle. `words` are the user's turns among them, as they are shown."""
    shown_words = iter(words)
    recent = [
        next(shown_words) if turn.role == "user" else turn
        for turn in without_superseded(turns)
        if not is_checkpoint(turn)
    ]
    most = int((budget - person) * RECENT_MOST) if budget else tokens(recent)
    others = [turn for turn in recent if turn.role != "user"]
    if tokens(others) <= most:
        return recent
    each = share([tokens([turn]) for turn in others], most)
    return [turn if turn.role == "user" else _within(turn, each) for turn in recent]


def first_kept(turns: Sequence[Turn], budget: int, part: float = RECENT) -> int:
    """The index of the first turn that a checkpoint made now would keep: the newest unit, and as many before it as fit
    in `part` of what the user's messages leave of `budget`; nothing that the last checkpoint replaced."""
    mark = newest(turns)
    least = mark.start if mark else 0
    words = clipped([turn for turn in turns if turn.role == "user"], budget)
    left = int((budget - tokens(words)) * part)
    slim = list(turns[:least]) + list(without_superseded(turns[least:]))
    start = end = len(turns)
    for border in reversed([border for border in borders(turns) if border >= least]):
        unit = [turn for turn in slim[border:end] if turn.role != "user" and not is_checkpoint(turn)]
        left -= tokens(unit)
        if left < 0 and any(turn.role != "user" for turn in turns[start:]):
            break
        start = end = border
    return start


def _within(turn: Turn, most: int) -> Turn:
    """`turn` in at most `most` tokens."""
    if tokens([turn]) > most:
        turn = without_attached(turn)
    overhead = tokens([turn]) - -(-size(turn.text) // BYTES)
    return replace(turn, text=trimmed(turn.text, max(0, most - overhead) * BYTES, _CUT))


def _whole_number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


LEAST = 2_000  # tokens for the turns: with less no step fits
_WORTH_A_CALL = 6_000  # tokens for the turns: below this a checkpoint is not worth a call

Ask = Callable[[tuple[Turn, ...]], tuple[str, Mapping[str, str]]]


@dataclass(frozen=True)
class Window:
    """What of a long conversation is sent.

    budget: tokens that the turns may take (`room`). tools: the names of all tools, to read the replies. file: where
    the checkpoint is stored for the user to edit; None keeps it in the conversation alone.
    """

    budget: int
    tools: Sequence[str] = ()
    file: Path | None = None

    def turns(self, state: State) -> tuple[Turn, ...]:
        """The turns to be sent: the same ones from call to call and more at the end, until the next checkpoint."""
        return shown_turns(state.turns)

    def is_due(self, state: State) -> bool:
        """Whether a checkpoint has to be made before the next call."""
        mark = newest(state.turns)
        if mark and all(map(is_checkpoint, state.turns[mark.at :])):  # another would say the same
            return False
        turns = shown_turns(state.turns)
        person = tokens(turn for turn in turns if turn.role == "user")
        rest = tokens(turns) - person
        return person > self.budget * WORDS or rest > (self.budget - person) * HIGH

    def ready(
        self,
        state: State,
        ask: Ask | None = None,
        known: Callable[[State], Known] | None = None,
        *,
        force: bool = False,
    ) -> State:
        """The state to make the next call with: a checkpoint is appended when it is due (or with `force`), and the
        text of one that the user has edited.

        `ask` sends the turns that it is given and returns the reply and what is to be noted of it (model, tokens);
        without it, when it raises LimitReached or ModelError, or when its reply is no checkpoint, one is made
        of what is `known` and the first lines of the replies. Raises what writing the files does.
        """
        state = self._with_edit(state)
        mark = newest(state.turns)
        replies = any(turn.role == "assistant" for turn in state.turns[mark.at if mark else 0 :])
        if not (force and replies) and not self.is_due(state):
            return state
        start = first_kept(state.turns, self.budget, self._part(state))
        facts = known(state) if known else checkpoint.known_from(state.turns, self.tools, state.nonce)
        text, meta = self._summarize(state, ask, start)
        meta = {**meta, "by": "model" if text else "program"}
        text = (
            text
            or checkpoint.mechanical(state.turns, self.tools, state.nonce)
            or "Nothing has been done yet."
        )
        body = checkpoint.joined(text, facts, self._most(state))
        turn = _turn(body, {**meta, "keeps": str(len(state.turns) - start), "budget": str(self.budget)})
        state = state.with_turn(turn)
        self._write(body)
        return state

    def _summarize(self, state: State, ask: Ask | None, start: int) -> tuple[str, Mapping[str, str]]:
        prompt = self._prompt(state, start) if ask and self.budget >= _WORTH_A_CALL else ()
        if not ask or not prompt:
            return "", {}
        try:
            reply, meta = ask(prompt)
        except (LimitReached, ModelError):  # the run goes on, and meets its limit where it matters
            return "", {}
        return checkpoint.usable(reply), meta  # a reply that is none was paid for all the same

    def _part(self, state: State) -> float:
        """The share of the remaining budget that a checkpoint may keep: at most a third of the present turns."""
        turns = shown_turns(state.turns)
        person = tokens(turn for turn in turns if turn.role == "user")
        return min(RECENT, (tokens(turns) - person) / max(1, self.budget - person) / 3)

    def _prompt(self, state: State, start: int) -> tuple[Turn, ...]:
        """The turns to ask with. What fits no more is left out from the newest on, as far as it is kept anyway; ()
        when it does not fit even so."""
        question = checkpoint.question(self._most(state) * 2 // 3)
        mark = newest(state.turns)
        least = max(start, mark.at + 1 if mark else 0)
        ends = [len(state.turns), *reversed([border for border in borders(state.turns) if border >= least])]
        for end in ends:
            turns = (*shown_turns(state.turns[:end]), question)
            if tokens(turns) <= self.budget and len(turns) > 1:
                return turns
        return ()

    def _most(self, state: State) -> int:
        """The bytes that the body of a checkpoint may have."""
        words = clipped([turn for turn in state.turns if turn.role == "user"], self.budget)
        most = int((self.budget - tokens(words)) * TEXT) - tokens([_turn("", {})])
        return max(0, most - 20) * BYTES

    def _with_edit(self, state: State) -> State:
        """The state, with the user's edit of the checkpoint file if there is one."""
        written = [turn for turn in state.turns if is_checkpoint(turn)]
        if not written or self.file is None:
            return state
        text = _text(self.file)
        if _hash(text) == written[-1].meta.get("hash"):
            return state
        if not text.strip() or _hash(text) in {turn.meta.get("hash") for turn in written}:
            self._write(checkpoint.body_of(written[-1].text))  # it is missing, or of before a kill
            return state
        body = checkpoint.joined(text.strip(), Known(), self._most(state))
        return state.with_turn(_turn(body, {"by": "person", "hash": _hash(text)}))

    def _write(self, body: str) -> None:
        from repoagent.storage.atomic import write_whole

        if self.file is not None:
            write_whole(self.file, f"{body}\n".encode("utf-8", "replace"))


def room(context_tokens: int, reply_tokens: int, fixed: Request) -> int:
    """The tokens left for turns in a context of `context_tokens`, after the reply and `fixed`, the request without
    turns. Raises UsageError if that is too little to work with."""
    left = context_tokens - reply_tokens - estimate(fixed).input
    if left < LEAST:
        raise UsageError(
            f"the prompt leaves about {max(0, left):,} of {context_tokens:,} tokens for the work; name "
            "fewer files, or use a model with a larger context window"
        )
    return left


def _turn(body: str, meta: Mapping[str, str]) -> Turn:
    fixed = {"kind": CHECKPOINT, "ok": "yes", "extra": CHECKPOINT, "hash": _hash(body)}
    return Turn("observation", checkpoint.checkpoint_text(body), {**fixed, **meta})


def _text(file: Path) -> str:
    from repoagent.storage.atomic import read_regular

    return (read_regular(file) or b"").decode("utf-8", "replace")


def _hash(text: str) -> str:
    return sha256(text.strip().encode("utf-8", "replace")).hexdigest()[:16]
