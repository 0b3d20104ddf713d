"""The state of a run (its conversation), and `Tool`: a name, its text in the prompt, and a function."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Literal

from repoagent.agent.actions import Action, Observation
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.llm.conversation import Turn, append_turns, read_conversation


@dataclass(frozen=True)
class State:
    """The state of a conversation.

    turns: the turns so far.
    nonce: marks the program's own text in the prompt.
    file: the conversation file, to which each new turn is written first; None for no file.
    plan: the text of the run's plan at the time of the next reply; "" for none.
    """

    turns: tuple[Turn, ...] = ()
    nonce: str = field(default_factory=lambda: os.urandom(4).hex())
    file: Path | None = None
    plan: str = ""

    @property
    def news(self) -> tuple[Turn, ...]:
        """The turns since the last reply: observations, user messages, notices."""
        last = max((n for n, turn in enumerate(self.turns) if turn.role == "assistant"), default=-1)
        return self.turns[last + 1 :]

    def with_turn(self, turn: Turn) -> State:
        """Append `turn`. Raises what writing the file raises (Busy, Refused)."""
        if self.file is None:
            return replace(self, turns=(*self.turns, turn))
        append_turns(self.file, turn, before=self.turns)  # writes all turns if the file was removed
        if not self.turns and (conversation := read_conversation(self.file)):
            return replace(self, turns=(turn,), nonce=conversation.nonce)
        return replace(self, turns=(*self.turns, turn))


def open_state(file: Path) -> State:
    """Read the state from a conversation file. If the file does not exist, return an empty state that will be saved
    there.

    Raises BrokenConversation if the file is malformed, NewerConversation if its format is newer, Refused if it cannot
    be read.
    """
    conversation = read_conversation(file)
    return State(conversation.turns, conversation.nonce, file) if conversation else State(file=file)


def extra_turn(role: Literal["user", "observation"], text: str, kind: str) -> Turn:
    """A turn, such as a notice, that belongs to no action and neither ends a step nor begins a run."""
    return Turn(role, text, {"kind": kind, "extra": "beside"})


def is_extra(turn: Turn) -> bool:
    return turn.meta.get("extra") == "beside"


@dataclass(frozen=True)
class Step:
    """One reply and the observations that followed it."""

    reply: Turn
    observations: tuple[Turn, ...] = ()

    @property
    def performed(self) -> tuple[Turn, ...]:
        """The observations of the reply's actions, one for each that was performed."""
        return tuple(turn for turn in self.observations if "extra" not in turn.meta)


def steps_of_run(turns: Iterable[Turn]) -> tuple[Step, ...]:
    """The steps of the current run: those after the user's last message."""
    pairs: list[tuple[Turn, list[Turn]]] = []
    for turn in turns:
        if is_extra(turn):
            continue
        if turn.role == "user":
            pairs = []
        elif turn.role == "assistant":
            pairs.append((turn, []))
        elif pairs:
            pairs[-1][1].append(turn)
    return tuple(Step(reply, tuple(observations)) for reply, observations in pairs)


def succeeded(result: Turn) -> bool:
    return result.meta.get("ok") != "no"


EDIT = "edit"  # the only kind without a tag: the patches of a reply

Needs = Literal["nothing", "writes", "all"]


@dataclass(frozen=True)
class Tool:
    """A tool that a model can use.

    text: the tool's line in the prompt, with its tag (for `edit`, the format of a patch); "" for a tag that is accepted
        but not offered.
    perform: performs an action. For a failure that a model can handle, it returns an observation with `ok=False`; an
        exception ends the run.
    replay: whether the effect exists only in this process, so that `loop.replay` must repeat it.
    loose: for `edit`, whether a code fence without a file name is an edit, too.
    needs: which earlier actions of the same reply must not have failed. "nothing": the tool only reads. "writes":
        edits, but not a look-up or a command that ran and failed. "all": every action, because the tool reports that
        something is done.
    """

    name: str
    text: str
    perform: Callable[[Action], Observation]
    replay: bool = False
    loose: bool = False
    needs: Needs | Callable[[Action], Needs] = "writes"

    def needed_by(self, action: Action) -> Needs:
        return self.needs(action) if callable(self.needs) else self.needs


def check_arguments(action: Action, known: Sequence[str]) -> None:
    """Raise UsageError for an argument that the tool does not take."""
    if unknown := set(action.args) - set(known):
        names = f"{', '.join(known[:-1])} and {known[-1]}" if known[1:] else known[0]
        raise UsageError(f"unknown argument {min(unknown)}: {action.kind} takes {names}.")


def switched_on(action: Action, argument: str) -> bool:
    return action.args.get(argument, "no").strip().lower() in {"yes", "true", "1", "on"}


def report_usage_errors(
    kind: str, perform: Callable[[Action], Observation], *, prefix: str = "", blocks: bool = True
) -> Callable[[Action], Observation]:
    """Wrap `perform` so that it returns a failed observation instead of raising UsageError."""

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
QUIET = frozenset({"think", "message"})  # the model needs no further turn for their results
ENDS = frozenset({"finish", "reject"})
TAGGED = frozenset({EDIT, *(tool.name for tool in OWN)})  # not native: written in the text of a reply


EXACT, NEAR = 2, 3  # repetitions of a cycle before the warning
PATIENCE = 20  # as EXACT and NEAR, for steps that only wait
REPEATED = "repeated"  # the `extra` of a turn with the warning

_CHANGES = frozenset({EDIT, "write"})  # after a successful one, the same action may have another result
_OWN = frozenset({REPEATED, "checkpoint", "plan"})  # not results
_STEPS = 60  # number of steps that are compared
_NOISE = (  # compiled by `re` at their first use: most edits are over before
    (r"\b0x[0-9a-fA-F]{4,}\b", "0x"),
    (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?", "date"),
    (r"\b\d{1,2}:\d\d(?::\d\d)(?:[.,]\d+)?\b", "time"),
    (r"\b\d+(?:[.,]\d+)? ?(?:ns|[µu]s|ms|s|secs?|seconds?|min|minutes?)\b", "time"),
    (r"(?:/private)?(?:/var)?/tmp/[\w.+-]+(?:/[\w.+-]+)*|\btmp[\w]{6,}\b", "tmp"),
    (r"(?i)\b(?:pid|process) \d+\b", "pid"),
    (r' id="[0-9a-f]{6,64}"', ""),  # of a fence: made from the content
)


def repetition_warning(history: Sequence[Step], actions: Callable[[Step], Sequence[Action]]) -> str:
    """The warning for a model whose last step shows that it is stuck in a loop; "" if it does not. `actions` parses a
    reply.

    Two steps are equal if their replies and observations are (except for spaces). They are similar if they request the
    same actions with the same results, ignoring times, addresses and temporary names. Repeating an action after an edit
    (test, edit, test) is not a loop, nor is waiting for a limited time.
    """
    history = history[-_STEPS:]
    if not history:
        return ""
    waiting = {action.kind for action in actions(history[-1])} - QUIET == {"wait"}
    advice = "Do something else, finish, or reject."
    exact = [(" ".join(step.reply.text.split()), *(turn.text for turn in _results(step))) for step in history]
    if _is_cycle(exact, 2, PATIENCE if waiting else EXACT):
        return f"You did exactly this before, with the same result. {advice}"

    # the steps after the last change to a file, or since the model no longer sees older results
    similar: list[tuple[str, ...]] = []
    for step in reversed(history):
        requested = actions(step)
        performed = zip(requested, step.performed, strict=False)
        if any(action.kind in _CHANGES and succeeded(result) for action, result in performed):
            break
        if any(turn.meta.get("extra") == "checkpoint" for turn in step.observations):
            break
        requests = [
            " ".join([action.kind, *map(str, sorted(action.args.items())), *action.body.split()])
            for action in requested
            if action.kind not in QUIET
        ]
        results = [_plain(turn.text) for turn in _results(step) if turn.meta.get("kind") not in QUIET]
        similar.insert(0, (*requests, *results) if requests else ())
    if _is_cycle(similar, 4, PATIENCE if waiting else NEAR):
        return f"You are repeating the same actions with the same results. {advice}"
    return ""


def _is_cycle(marks: Sequence[tuple[str, ...]], longest: int, times: int) -> bool:
    """Whether `marks` end with a cycle of at most `longest` steps, `times` in a row."""
    for size in range(1, longest + 1):
        last = list(marks[-size:])
        if len(marks) >= size * times and all(last) and list(marks[-size * times :]) == last * times:
            return True
    return False


def _results(step: Step) -> list[Turn]:
    return [turn for turn in step.observations if turn.meta.get("extra") not in _OWN]


@lru_cache(maxsize=512)  # all steps are compared after each, and their texts are long
def _plain(text: str) -> str:
    """A result without times, addresses and temporary names; a hash if it is long."""
    for pattern, instead in _NOISE:
        text = re.sub(pattern, instead, text)
    return text if len(text) < 200 else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
