"""The window of a run: when a checkpoint is due, how it is made, and where it is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from repoagent.agent.state import State
from repoagent.agent.window import checkpoint
from repoagent.agent.window.checkpoint import Known
from repoagent.agent.window.shown import HIGH, KEPT, TEXT, WORDS, clipped, first_kept, newest, shown
from repoagent.agent.window.units import BYTES, CHECKPOINT, borders, is_checkpoint, tokens
from repoagent.dataclass import dataclass
from repoagent.errors import LimitReached, ModelError, UsageError
from repoagent.llm import Request, Turn, estimate

LEAST = 2_000  # tokens for the turns: with less no step fits
_ASKED = 6_000  # tokens for the turns: below this a checkpoint is not worth a call

Ask = Callable[[tuple[Turn, ...]], tuple[str, Mapping[str, str]]]


@dataclass(frozen=True)
class Window:
    """What of a long conversation is sent.

    budget: tokens that the turns may take (`room`). tools: the names of all tools, to read the replies. file: where
    the checkpoint is kept for a person to edit; None keeps it in the conversation alone.
    """

    budget: int
    tools: Sequence[str] = ()
    file: Path | None = None

    def turns(self, state: State) -> tuple[Turn, ...]:
        """The turns to be sent: the same ones from call to call and more at the end, until the next checkpoint."""
        return shown(state.turns)

    def is_due(self, state: State) -> bool:
        """Whether a checkpoint has to be made before the next call."""
        mark = newest(state.turns)
        if mark and all(map(is_checkpoint, state.turns[mark.at :])):  # another would say the same
            return False
        turns = shown(state.turns)
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
        text of one that a person has edited.

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
        said, meta = self._said(state, ask, start)
        meta = {**meta, "by": "model" if said else "program"}
        said = said or checkpoint.mechanical(state.turns, self.tools, state.nonce) or "Nothing was done yet."
        body = checkpoint.joined(said, facts, self._most(state))
        turn = _turn(body, {**meta, "keeps": str(len(state.turns) - start), "budget": str(self.budget)})
        state = state.with_turn(turn)
        self._keep(body)
        return state

    def _said(self, state: State, ask: Ask | None, start: int) -> tuple[str, Mapping[str, str]]:
        asked = self._asked(state, start) if ask and self.budget >= _ASKED else ()
        if not ask or not asked:
            return "", {}
        try:
            reply, meta = ask(asked)
        except (LimitReached, ModelError):  # the run goes on, and meets its limit where it matters
            return "", {}
        return checkpoint.usable(reply), meta  # a reply that is none was paid for all the same

    def _part(self, state: State) -> float:
        """What of the room beside the person's words a checkpoint may keep: at most a third of what is there now."""
        turns = shown(state.turns)
        person = tokens(turn for turn in turns if turn.role == "user")
        return min(KEPT, (tokens(turns) - person) / max(1, self.budget - person) / 3)

    def _asked(self, state: State, start: int) -> tuple[Turn, ...]:
        """The turns to ask with. What fits no more is left out from the newest on, as far as it is kept anyway; ()
        when it does not fit even so."""
        question = checkpoint.question(self._most(state) * 2 // 3)
        mark = newest(state.turns)
        least = max(start, mark.at + 1 if mark else 0)
        ends = [len(state.turns), *reversed([border for border in borders(state.turns) if border >= least])]
        for end in ends:
            turns = (*shown(state.turns[:end]), question)
            if tokens(turns) <= self.budget and len(turns) > 1:
                return turns
        return ()

    def _most(self, state: State) -> int:
        """The bytes that the body of a checkpoint may have."""
        words = clipped([turn for turn in state.turns if turn.role == "user"], self.budget)
        most = int((self.budget - tokens(words)) * TEXT) - tokens([_turn("", {})])
        return max(0, most - 20) * BYTES

    def _with_edit(self, state: State) -> State:
        """The state, with the text that a person has put into the checkpoint's file since it was written."""
        written = [turn for turn in state.turns if is_checkpoint(turn)]
        if not written or self.file is None:
            return state
        found = _text(self.file)
        if _hash(found) == written[-1].meta.get("hash"):
            return state
        if not found.strip() or _hash(found) in {turn.meta.get("hash") for turn in written}:
            self._keep(checkpoint.body_of(written[-1].text))  # it is missing, or of before a kill
            return state
        body = checkpoint.joined(found.strip(), Known(), self._most(state))
        return state.with_turn(_turn(body, {"by": "person", "hash": _hash(found)}))

    def _keep(self, body: str) -> None:
        from repoagent.store import write_whole

        if self.file is not None:
            write_whole(self.file, f"{body}\n".encode("utf-8", "replace"))


def room(context_tokens: int, reply_tokens: int, fixed: Request) -> int:
    """The tokens that the turns may take, of a model that takes `context_tokens`, beside the reply and all that is
    `fixed` (the request without its turns). Raises UsageError when that is too little to work with."""
    left = context_tokens - reply_tokens - estimate(fixed).input
    if left < LEAST:
        raise UsageError(
            f"the prompt leaves about {max(0, left):,} of {context_tokens:,} tokens for the work itself: name fewer "
            "files, or take a model with a larger window"
        )
    return left


def _turn(body: str, meta: Mapping[str, str]) -> Turn:
    fixed = {"kind": CHECKPOINT, "ok": "yes", "extra": CHECKPOINT, "hash": _hash(body)}
    return Turn("observation", checkpoint.told(body), {**fixed, **meta})


def _text(file: Path) -> str:
    from repoagent.store import read_regular

    return (read_regular(file) or b"").decode("utf-8", "replace")


def _hash(text: str) -> str:
    return sha256(text.strip().encode("utf-8", "replace")).hexdigest()[:16]
