"""Summarize a conversation with a model; summaries are cached under a hash of the summarized turns.

A long conversation is read in pieces of whole turns, each with the summary of all before it. Pieces are cut from the
beginning, so that if turns are added, only those are summarized.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.complete import OnWait, complete, ignore
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Message, Model, Part, Request, Usage, fence, printable, public
from repoagent.llm.usage import Meter, estimate
from repoagent.memory.conversations import StoredConversation
from repoagent.memory.file_summaries import parse_summary
from repoagent.memory.file_summary_store import Summary, read_summary, write_summary
from repoagent.storage.json_files import now
from repoagent.storage.layout import Layout, Warn, ensure, to_stderr
from repoagent.storage.locks import locked
from repoagent.storage.secrets import mask

WORDS = 150
PROMPT = 1  # increased if the prompt changes so much that cached summaries should be replaced
PIECE = 48_000  # most characters of turns in one call
LONGEST_TURN = 12_000  # most characters of one turn; the middle of a longer one is omitted
_THINKING = 4_000  # tokens of a reply that a model may spend on thinking


@dataclass(frozen=True)
class Piece:
    """Consecutive turns as shown to the model, numbered from 1; `key` is a hash of all turns up to the last."""

    first: int
    last: int
    text: str
    key: str


@dataclass(frozen=True)
class Plan:
    """The pieces of a conversation, and the cached summary of the first `known` ones."""

    pieces: tuple[Piece, ...]
    known: int
    summary: Summary | None

    @property
    def calls(self) -> int:
        return len(self.pieces) - self.known


def _folder(layout: Layout) -> Path:
    return layout.conversations / ".summaries"


def plan(
    layout: Layout,
    stored: StoredConversation,
    *,
    words: int = WORDS,
    refresh: bool = False,
    warn: Warn = to_stderr,
) -> Plan:
    """Plan the calls to summarize a conversation, without making them. With `refresh` only summaries that a user has
    corrected are reused."""
    pieces = tuple(_pieces(stored.conversation.turns, words))
    for known in range(len(pieces), 0, -1):
        summary = read_summary(_folder(layout), pieces[known - 1].key, warn)
        if summary is not None and (summary.edited or not refresh):
            return Plan(pieces, known, summary)
    return Plan(pieces, 0, None)


def estimated(todo: Plan, words: int) -> Usage:
    """The estimated usage of the calls."""
    total = 0
    for number, piece in enumerate(todo.pieces):
        if number >= todo.known:
            total += estimate(request(piece, "x " * words if number else "", words)).total
    return Usage(total, 2 * words * todo.calls, estimated=True)


def summarize(
    layout: Layout,
    stored: StoredConversation,
    todo: Plan,
    model: Model,
    meter: Meter,
    *,
    words: int = WORDS,
    on_piece: Callable[[int, int], None] = ignore,
    on_wait: OnWait = ignore,
) -> Summary:
    """Summarize the remaining pieces and return the last summary. Each answer is stored at once. Raises as `complete`,
    and ModelError for an unusable answer."""
    summary = todo.summary
    ensure(layout)
    for number, piece in enumerate(todo.pieces[todo.known :], todo.known + 1):
        on_piece(number, len(todo.pieces))
        earlier = summary.text if summary else ""
        reply = complete(model, request(piece, earlier, words), meter, on_wait=on_wait)
        text = parse_summary(reply.text, words)
        if not text:
            raise ModelError(f"{public(model.spec)} gave no usable summary; try another --model")
        about = f"{stored.place.name}, turns 1-{piece.last}, sha256 {sha256(stored.data).hexdigest()}"
        fresh = Summary(mask(text), about, public(reply.model or model.spec), now())
        with locked(_folder(layout) / ".lock", what="the summaries of conversations"):
            summary = write_summary(_folder(layout), piece.key, fresh)
    if summary is None:
        raise ModelError("nothing to summarize")  # callers reject empty conversations
    return summary


def request(piece: Piece, earlier: str, words: int) -> Request:
    """The request for one piece; `earlier` is the summary of all before it."""
    text = fence(piece.text, f"conversation turns={piece.first}-{piece.last}")
    of = "this conversation"
    if earlier:
        text = f"Summary of turns 1 to {piece.first - 1}:\n{fence(earlier, 'earlier')}\n{text}"
        of = "the whole conversation so far, including its beginning,"
    text += f"\n\nSummarize {of} in about {words} words.\n"
    system = (files("repoagent.memory") / "prompts" / "conversation_summary.md").read_text(encoding="utf-8")
    key = json.dumps({"conversation": piece.key, "earlier": sha256(earlier.encode()).hexdigest()[:16]})
    return Request(
        (Part(system, "instructions", cache=True),),
        (Message("user", (Part(printable(mask(text)), "conversation"),)),),
        _THINKING + 6 * words,
        key,
    )


def _pieces(turns: tuple[Turn, ...], words: int) -> Iterator[Piece]:
    mark = sha256(f"{PROMPT} {words}".encode())
    shown, first = "", 1
    for number, turn in enumerate(turns, 1):
        text = turn.text
        if len(text) > LONGEST_TURN:
            half = LONGEST_TURN // 2
            omitted = f"(… {len(text) - 2 * half:,} characters omitted …)"
            text = f"{text[:half]}\n{omitted}\n{text[-half:]}"
        text = f"[{number}, {turn.role}]\n{text}\n\n"
        if shown and len(shown) + len(text) > PIECE:
            yield Piece(first, number - 1, shown, mark.hexdigest())
            shown, first = "", number
        mark.update(f"\0{turn.role}\0{turn.text}".encode("utf-8", "surrogatepass"))
        shown += text
    if shown.strip():
        yield Piece(first, len(turns), shown, mark.hexdigest())
