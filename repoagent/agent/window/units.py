"""The turns of a conversation in units that stay together, and how large they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from repoagent.llm import Turn, estimate_tokens
from repoagent.llm.conversation import ATTACHED
from repoagent.llm.media.kept import reference

BYTES = 3  # of a token, as `estimate_tokens` counts
CHECKPOINT = "checkpoint"  # the kind of a turn that stands for those before it


def is_checkpoint(turn: Turn) -> bool:
    return turn.role == "observation" and turn.meta.get("extra") == CHECKPOINT


def tokens(turns: Iterable[Turn]) -> int:
    """What `turns` are in a prompt, with what is written around them; rather too many than too few."""
    return sum(map(_tokens, turns))


def _tokens(turn: Turn) -> int:
    around = 4 if turn.role == "user" else 28 + len(turn.meta.get("kind", "")) // 3
    attached = reference(turn) if ATTACHED in turn.meta else None
    thought = turn.meta.get("thought", "")  # sent back with the text
    beside = int(thought) if thought.isdecimal() and len(thought) < 9 else 0
    return estimate_tokens(turn.text) + around + (attached.tokens if attached else 0) + beside


def without_attached(turn: Turn) -> Turn:
    """`turn` without its image or PDF, and with a line that says so."""
    said = reference(turn)
    if said is None:
        return turn
    meta = {key: value for key, value in turn.meta.items() if key != ATTACHED}
    return replace(turn, text=f"({said.path}: left out. Read it again where it matters.)", meta=meta)


def borders(turns: Sequence[Turn]) -> list[int]:
    """Where a unit begins: the person's words, or a reply with all that is observed after it."""
    found = []
    after_person = False
    for number, turn in enumerate(turns):
        if turn.role != "observation" or after_person or number == 0:
            found.append(number)
        after_person = turn.role == "user"
    return found
