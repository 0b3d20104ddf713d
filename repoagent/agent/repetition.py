"""Notice that a model is stuck in a loop."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256

from repoagent.agent.actions import Action
from repoagent.agent.state import EDIT, QUIET, Step, succeeded
from repoagent.llm.conversation import Turn

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


def repetition(history: Sequence[Step], actions: Callable[[Step], Sequence[Action]]) -> str:
    """The warning for a model whose last step shows that it is stuck in a loop, or "". `actions` parses a reply.

    Two steps are equal if their replies and observations are (except for spaces), and similar if they request the same
    actions with the same results, ignoring times, addresses and temporary names. The same action after an edit is not a
    repetition (test, edit, test), nor is waiting for a limited time.
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
        requests = [_normalized(action) for action in requested if action.kind not in QUIET]
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
        text = re.sub(pattern, instead, text)
    return text if len(text) < 200 else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
