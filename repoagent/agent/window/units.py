"""The turns of a conversation in units that stay together, and how large they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from repoagent.llm import Turn, estimate_tokens

BYTES = 3  # of a token, as `estimate_tokens` counts
CHECKPOINT = "checkpoint"  # the kind of a turn that stands for those before it


def is_checkpoint(turn: Turn) -> bool:
    return turn.role == "observation" and turn.meta.get("extra") == CHECKPOINT


def tokens(turns: Iterable[Turn]) -> int:
    """What `turns` are in a prompt, with what is written around them; rather too many than too few."""
    return sum(map(_tokens, turns))


def _tokens(turn: Turn) -> int:
    around = 4 if turn.role == "user" else 28 + len(turn.meta.get("kind", "")) // 3
    return estimate_tokens(turn.text) + around


def borders(turns: Sequence[Turn]) -> list[int]:
    """Where a unit begins: the person's words, or a reply with all that is observed after it."""
    found = []
    after_person = False
    for number, turn in enumerate(turns):
        if turn.role != "observation" or after_person or number == 0:
            found.append(number)
        after_person = turn.role == "user"
    return found
