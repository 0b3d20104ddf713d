"""Detect a model that is stuck in a loop, from the steps of a run; a pure function.

Two steps are equal when their replies and observations are (except for spaces), and similar when they ask for the same
actions with the same results; times, addresses and temporary names do not count. The same action after an edit is not a
repetition (test, edit, test), nor is waiting for a limited time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import sha256

from repoagent.agent.actions import Action
from repoagent.agent.state import EDIT, QUIET, Step
from repoagent.dataclass import dataclass
from repoagent.llm.conversation import Turn

EXACT, NEAR = 2, 3  # repetitions of a cycle before the warning
AGAIN = 4  # the same action and result, with others in between, before the warning; then twice that
PATIENCE = 20  # the same for steps that only wait
REPEATED, SAID_AGAIN = "repeated", "again"  # what the turns of these notices have as `extra`

_CHANGES = frozenset({EDIT, "write"})  # after one that went well, the same is not the same any more
_WAITS = frozenset({"wait"})
_OWN = frozenset({REPEATED, SAID_AGAIN, "checkpoint", "plan"})  # turns that say nothing of an action's result
_STEPS = 60  # how far back is looked
_NOISE = (
    (re.compile(r"\b0x[0-9a-fA-F]{4,}\b"), "0x"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?"), "date"),
    (re.compile(r"\b\d{1,2}:\d\d(?::\d\d)(?:[.,]\d+)?\b"), "time"),
    (re.compile(r"\b\d+(?:[.,]\d+)? ?(?:ns|[µu]s|ms|s|secs?|seconds?|min|minutes?)\b"), "time"),
    (re.compile(r"(?:/private)?(?:/var)?/tmp/[\w.+-]+(?:/[\w.+-]+)*|\btmp[\w]{6,}\b"), "tmp"),
    (re.compile(r"\b(?:pid|process) \d+\b", re.IGNORECASE), "pid"),
    (re.compile(r' id="[0-9a-f]{6,64}"'), ""),  # of a fence: made from the content
)


_Read = tuple[Step, Sequence[Action]]


@dataclass(frozen=True)
class Repetition:
    """The warning to the model, and the `extra` of the turn; `over`: it was warned just before, and the run ends."""

    text: str
    extra: str
    over: bool = False


def repetition(history: Sequence[Step], actions: Callable[[Step], Sequence[Action]]) -> Repetition | None:
    """What is to be said of the last of the steps `history`, each of them performed; None for nothing. `actions` reads
    the actions of a step's reply."""
    history = history[-_STEPS:]
    if not history:
        return None
    kinds = {action.kind for action in actions(history[-1])} - QUIET
    waiting = bool(kinds) and kinds <= _WAITS
    if _circles([_exact(step) for step in history], (1, 2), PATIENCE if waiting else EXACT):
        return _repeated("You did exactly this before, with the same result.", history)
    fresh = _since_last_change(history, actions)
    marks = [_near(step, requested) for step, requested in fresh]
    if _circles(marks, (1, 2, 3, 4), PATIENCE if waiting else NEAR):
        return _repeated("You repeat the same actions with the same results.", history)
    return _again(fresh)


def _repeated(text: str, history: Sequence[Step]) -> Repetition:
    over = any(turn.meta.get("extra") == REPEATED for step in history[-2:-1] for turn in step.observations)
    return Repetition(f"{text} Do something else, finish, or reject.", REPEATED, over)


def _circles(marks: Sequence[tuple[str, ...]], sizes: Iterable[int], times: int) -> bool:
    """Whether `marks` end in the same stretch, of one of the `sizes`, so many `times` in a row."""
    for size in sizes:
        last = marks[-size:]
        if len(marks) >= size * times and all(last) and list(marks[-size * times :]) == list(last) * times:
            return True
    return False


def _again(fresh: Sequence[_Read]) -> Repetition | None:
    """Whether an action of the last step had the same result often enough since the last change."""
    counts = Counter(
        mark for step, requested in fresh for mark in {mark for _, mark in _results(step, requested)}
    )
    for action, mark in _results(*fresh[-1]) if fresh else ():
        count = counts[mark]
        if action.kind not in _WAITS and count % AGAIN == 0 and (count // AGAIN).bit_count() == 1:
            what = " ".join([action.kind, *action.args.values(), *action.body.split()])[:120]
            text = (
                f"This is the {count}th time that you did this with the same result and no edit in between: "
                f"{what}"
            )
            return Repetition(f"{text}\nYou know its result. Use it, or do something else.", SAID_AGAIN)
    return None


def _since_last_change(history: Sequence[Step], actions: Callable[[Step], Sequence[Action]]) -> list[_Read]:
    """The steps after the last that changed a file, or after which older results are not shown any more."""
    fresh: list[_Read] = []
    for step in reversed(history):
        requested = actions(step)
        done = zip(requested, step.performed, strict=False)
        if any(action.kind in _CHANGES and seen.meta.get("ok") != "no" for action, seen in done):
            break
        if any(turn.meta.get("extra") == "checkpoint" for turn in step.observations):
            break
        fresh.insert(0, (step, requested))
    return fresh


def _exact(step: Step) -> tuple[str, ...]:
    return (" ".join(step.reply.text.split()), *(turn.text for turn in _results_of(step)))


def _near(step: Step, actions: Sequence[Action]) -> tuple[str, ...]:
    """What was asked for and what came of it; () when nothing was."""
    if not _loud(actions):
        return ()
    requests = [_normalized(action) for action in _loud(actions)]
    return (
        *requests,
        *(_plain(turn.text) for turn in _results_of(step) if turn.meta.get("kind") not in QUIET),
    )


def _results(step: Step, actions: Sequence[Action]) -> list[tuple[Action, str]]:
    """The actions that were performed, each with what makes it and its result the same as another."""
    done = zip(actions, step.performed, strict=False)
    return [
        (action, f"{_normalized(action)}\0{_plain(seen.text)}")
        for action, seen in done
        if action.kind not in QUIET
    ]


def _loud(actions: Sequence[Action]) -> list[Action]:
    return [action for action in actions if action.kind not in QUIET]


def _results_of(step: Step) -> list[Turn]:
    return [turn for turn in step.observations if turn.meta.get("extra") not in _OWN]


def _normalized(action: Action) -> str:
    """An action as it is compared; of an edit its patches alone, not the words around them."""
    body = action.body
    if action.kind == EDIT:
        from repoagent.patch.parse.blocks import patch_spans

        body = "\n".join(body[span.start : span.end] for span in patch_spans(body)) or body
    return " ".join(
        [action.kind, *(f"{key}={value}" for key, value in sorted(action.args.items())), *body.split()]
    )


@lru_cache(maxsize=512)  # all steps are looked at after each, and their texts are long
def _plain(text: str) -> str:
    """A result without what differs from one time to the next, by a hash when it is long."""
    for pattern, instead in _NOISE:
        text = pattern.sub(instead, text)
    return text if len(text) < 200 else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
