"""The state of a run, which is its conversation, and `Tool`: a name, its text in the prompt, and a function."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from repoagent.agent.actions import Action, Observation
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
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
    conversation = read(file)
    return State(conversation.turns, conversation.nonce, file) if conversation else State(file=file)


def extra_turn(role: Literal["user", "observation"], text: str, kind: str) -> Turn:
    """A turn that is added during a run and belongs to no action: it neither ends a step nor begins a run."""
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
    """The steps of the present run: those after the last message of the user."""
    pairs: list[tuple[Turn, list[Turn]]] = []
    for turn in turns:
        if is_beside(turn):
            continue
        if turn.role == "user":
            pairs = []
        elif turn.role == "assistant":
            pairs.append((turn, []))
        elif pairs:
            pairs[-1][1].append(turn)
    return tuple(Step(reply, tuple(observations)) for reply, observations in pairs)


EDIT = "edit"  # the one kind that has no tag: it is what a reply's patches are

Needs = Literal["nothing", "writes", "all"]


@dataclass(frozen=True)
class Tool:
    """Something that a model can ask for.

    `text` is what the prompt says of it: the tag to write and what it does, in a line (of `edit`: how a
    patch is written); "" for a tag that is taken and not offered. `perform` returns failures that a model
    can act on as observations with `ok=False`; what it raises ends the run. `replay` says that the effect
    lives in this process only (`loop.replay` performs it again). `loose`, of `edit`: a code fence that
    names no file is an edit too. `needs` says which actions before it in the same reply must not have failed:
    "nothing" for what only looks, which is always performed; "writes" for what may write: it is skipped after a
    failed edit, not after a failed look-up or a command that ran and failed; "all" for what says that something
    is done.
    """

    name: str
    text: str
    perform: Callable[[Action], Observation]
    replay: bool = False
    loose: bool = False
    needs: Needs | Callable[[Action], Needs] = "writes"

    def needed_by(self, action: Action) -> Needs:
        """What `action`, of this tool, needs."""
        return self.needs(action) if callable(self.needs) else self.needs


def check_arguments(action: Action, known: Sequence[str]) -> None:
    """Raise UsageError for an argument that the tool does not take."""
    if unknown := set(action.args) - set(known):
        names = f"{', '.join(known[:-1])} and {known[-1]}" if known[1:] else known[0]
        raise UsageError(f"unknown argument {min(unknown)}: {action.kind} takes {names}.")


def switched_on(action: Action, argument: str) -> bool:
    return action.args.get(argument, "no").strip().lower() in {"yes", "true", "1", "on"}


def failing(
    kind: str, perform: Callable[[Action], Observation], *, prefix: str = "", blocks: bool = True
) -> Callable[[Action], Observation]:
    """`perform`, with a failed observation in place of a UsageError."""

    def attempt(action: Action) -> Observation:
        try:
            return perform(action)
        except UsageError as error:
            return Observation(kind, f"{prefix}{error}", ok=False, blocks=blocks)

    return attempt


def _end(action: Action) -> Observation:
    return Observation(action.kind, action.body.strip() or action.args.get("why", "").strip(), final=True)


OWN = (
    Tool("think", "", lambda action: Observation("think", "Noted."), needs="nothing"),
    Tool(
        "message",
        "<message>words</message> tells the user while you continue.",
        lambda action: Observation("message", "The user has seen this."),
        needs="nothing",
    ),
    Tool("finish", "<finish>what was done</finish> ends the task.", _end, needs="all"),
    Tool("reject", "<reject>why</reject> ends it with nothing done.", _end, needs="all"),
)
QUIET = frozenset({"think", "message"})  # they ask for nothing that needs another turn
ENDS = frozenset({"finish", "reject"})
TAGGED = frozenset(
    {EDIT, *(tool.name for tool in OWN)}
)  # never native tools: they go with the text of a reply
