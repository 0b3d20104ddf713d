"""The state of a run is its conversation. Nothing the loop needs to go on lives anywhere else."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.llm.conversation import Turn, append, read


@dataclass(frozen=True)
class State:
    """The turns so far. With a `file`, each new turn is in the file before it is here, so a killed run can be
    continued and no reply is paid for twice. `nonce` marks what the program says in the prompt; `plan` is the text of
    the run's plan as it is before a reply, "" where there is none."""

    turns: tuple[Turn, ...] = ()
    nonce: str = field(default_factory=lambda: os.urandom(4).hex())
    file: Path | None = None
    plan: str = ""

    @property
    def news(self) -> tuple[Turn, ...]:
        """The turns since the last reply: what came of its actions, what the user said, what has happened."""
        last = max((n for n, turn in enumerate(self.turns) if turn.role == "assistant"), default=-1)
        return self.turns[last + 1 :]

    def with_turn(self, turn: Turn) -> State:
        """The state after `turn`. Raises what appending to the file does (Busy, Refused)."""
        if self.file is None:
            return replace(self, turns=(*self.turns, turn))
        append(self.file, turn, before=self.turns)  # all of them, where somebody has removed the file
        if not self.turns and (made := read(self.file)):
            return replace(self, turns=(turn,), nonce=made.nonce)
        return replace(self, turns=(*self.turns, turn))


def open_state(file: Path) -> State:
    """The state that a conversation file holds; an empty one, to be kept there, when there is no file yet.

    Raises BrokenConversation, NewerConversation, Refused.
    """
    found = read(file)
    return State(found.turns, found.nonce, file) if found else State(file=file)


def beside(role: Literal["user", "observation"], text: str, kind: str) -> Turn:
    """A turn that is said while a run goes on, and belongs to no action: it neither ends a step nor begins a run."""
    return Turn(role, text, {"kind": kind, "extra": "beside"})


def is_beside(turn: Turn) -> bool:
    return turn.meta.get("extra") == "beside"


@dataclass(frozen=True)
class Step:
    """One reply and the observations that followed it."""

    reply: Turn
    observations: tuple[Turn, ...] = ()

    @property
    def performed(self) -> tuple[Turn, ...]:
        """The observations that belong to the reply's actions, one each, as far as they are performed."""
        return tuple(turn for turn in self.observations if "extra" not in turn.meta)


def steps(turns: Iterable[Turn]) -> tuple[Step, ...]:
    """The steps of the present run: what came after the words of the person that it began with."""
    found: list[tuple[Turn, list[Turn]]] = []
    for turn in turns:
        if is_beside(turn):
            continue
        if turn.role == "user":
            found = []
        elif turn.role == "assistant":
            found.append((turn, []))
        elif found:
            found[-1][1].append(turn)
    return tuple(Step(reply, tuple(observations)) for reply, observations in found)
