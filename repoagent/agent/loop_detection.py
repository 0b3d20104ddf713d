"""Detect a model that is stuck in a loop, from the steps of a run; a pure function.

Two steps are equal if their replies and observations are (except for spaces), and similar if they request the same
actions with the same results; times, addresses and temporary names do not count. The same action after an edit is not a
repetition (test, edit, test), nor is waiting for a limited time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256

from repoagent.agent.actions import Action
from repoagent.agent.state import EDIT, QUIET, Step
from repoagent.dataclass import dataclass
from repoagent.llm.conversation import Turn

EXACT, NEAR = 2, 3  # repetitions of a cycle before the warning
PATIENCE = 20  # as EXACT and NEAR, for steps that only wait
REPEATED = "repeated"  # the `extra` of a turn with the warning

_CHANGES = frozenset({EDIT, "write"})  # after a successful one, the same action may have another result
_WAITS = frozenset({"wait"})
_OWN = frozenset({REPEATED, "again", "checkpoint", "plan"})  # not results; "again" of an earlier version
_STEPS = 60  # number of steps that are compared
_NOISE = (
    (re.compile(r"\b0x[0-9a-fA-F]{4,}\b"), "0x"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?"), "date"),
    (re.compile(r"\b\d{1,2}:\d\d(?::\d\d)(?:[.,]\d+)?\b"), "time"),
    (re.compile(r"\b\d+(?:[.,]\d+)? ?(?:ns|[µu]s|ms|s|secs?|seconds?|min|minutes?)\b"), "time"),
    (re.compile(r"(?:/private)?(?:/var)?/tmp/[\w.+-]+(?:/[\w.+-]+)*|\btmp[\w]{6,}\b"), "tmp"),
    (re.compile(r"\b(?:pid|process) \d+\b", re.IGNORECASE), "pid"),
    (re.compile(r' id="[0-9a-f]{6,64}"'), ""),  # of a fence: made from the content
)


@dataclass(frozen=True)
class Repetition:
    """The warning to the model. `over`: the last step had a warning, so the run ends."""

    text: str
    over: bool = False


def repetition(history: Sequence[Step], actions: Callable[[Step], Sequence[Action]]) -> Repetition | None:
    """The warning after the last step of `history`, if any; all steps are performed. `actions` parses the reply of a
    step."""
    history = history[-_STEPS:]
    if not history:
        return None
    kinds = {action.kind for action in actions(history[-1])} - QUIET
    waiting = bool(kinds) and kinds <= _WAITS
    over = any(turn.meta.get("extra") == REPEATED for step in history[-2:-1] for turn in step.observations)
    advice = "Do something else, finish, or reject."
    exact = [(" ".join(step.reply.text.split()), *(turn.text for turn in _results(step))) for step in history]
    if _is_cycle(exact, 2, PATIENCE if waiting else EXACT):
        return Repetition(f"You did exactly this before, with the same result. {advice}", over)

    # the steps after the last change of a file, or since the model no longer sees older results
    fresh: list[tuple[Step, Sequence[Action]]] = []
    for step in reversed(history):
        requested = actions(step)
        performed = zip(requested, step.performed, strict=False)
        if any(action.kind in _CHANGES and seen.meta.get("ok") != "no" for action, seen in performed):
            break
        if any(turn.meta.get("extra") == "checkpoint" for turn in step.observations):
            break
        fresh.insert(0, (step, requested))
    similar: list[tuple[str, ...]] = []
    for step, requested in fresh:
        requests = [_normalized(action) for action in requested if action.kind not in QUIET]
        results = [_plain(turn.text) for turn in _results(step) if turn.meta.get("kind") not in QUIET]
        similar.append((*requests, *results) if requests else ())
    if _is_cycle(similar, 4, PATIENCE if waiting else NEAR):
        return Repetition(f"You repeat the same actions with the same results. {advice}", over)
    return None


def _is_cycle(marks: Sequence[tuple[str, ...]], longest: int, times: int) -> bool:
    """Whether `marks` end with a cycle of at most `longest` steps, `times` in a row."""
    for size in range(1, longest + 1):
        last = list(marks[-size:])
        if len(marks) >= size * times and all(last) and list(marks[-size * times :]) == last * times:
            return True
    return False


def _results(step: Step) -> list[Turn]:
    return [turn for turn in step.observations if turn.meta.get("extra") not in _OWN]


def _normalized(action: Action) -> str:
    """An action for comparison; of an edit only its patches."""
    body = action.body
    if action.kind == EDIT:
        from repoagent.patch.parse.blocks import patch_spans

        body = "\n".join(body[span.start : span.end] for span in patch_spans(body)) or body
    return " ".join(
        [action.kind, *(f"{key}={value}" for key, value in sorted(action.args.items())), *body.split()]
    )


@lru_cache(maxsize=512)  # all steps are compared after each, and their texts are long
def _plain(text: str) -> str:
    """A result without times, addresses and temporary names; a hash if it is long."""
    for pattern, instead in _NOISE:
        text = pattern.sub(instead, text)
    return text if len(text) < 200 else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
