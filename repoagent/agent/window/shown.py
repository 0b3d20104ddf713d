"""What of a conversation is sent: a pure function of its turns.

Without a checkpoint, all of it. With one: the person's words, the checkpoint, the turns that it kept, and all that came
after it. So what is sent only grows at its end, until the next checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from repoagent.agent.window.cutting import share, size, trimmed
from repoagent.agent.window.superseded import without_superseded
from repoagent.agent.window.units import BYTES, borders, is_checkpoint, tokens, without_attached
from repoagent.dataclass import dataclass
from repoagent.llm import Turn

# Shares of the budget, and of what the person's words leave of it.
WORDS = 0.6  # of the budget: beyond this the older words of the person are cut in the middle
HIGH = 0.75  # of the rest: beyond this a checkpoint is due
KEPT = 0.3  # of the rest: the newest turns that a checkpoint keeps
KEPT_MOST = 0.5  # of the rest: when the newest step alone is larger than KEPT
TEXT = 0.2  # of the rest: the checkpoint itself

_CUT = "[… the middle is left out here, for its length; the conversation file has all of it …]"


@dataclass(frozen=True)
class Mark:
    """The newest checkpoint of a conversation: where it stands, the first turn that it kept, the budget it was made
    for, and its text (a person may have put another in its place since)."""

    at: int
    start: int
    budget: int
    turn: Turn


def newest(turns: Sequence[Turn]) -> Mark | None:
    """The checkpoint that counts, None when there is none."""
    found = [number for number, turn in enumerate(turns) if is_checkpoint(turn)]
    made = next((number for number in reversed(found) if "keeps" in turns[number].meta), None)
    if made is None:
        return None
    meta = turns[made].meta
    opening = next((number for number, turn in enumerate(turns) if turn.role != "user"), 0)
    start = max(opening, made - _whole_number(meta["keeps"]))  # a prompt begins with the person's words
    fitting = [border for border in [*borders(turns[:made]), made] if border >= start]
    return Mark(
        made,
        fitting[0],
        _whole_number(meta.get("budget", "")),
        replace(turns[made], text=turns[found[-1]].text),
    )


def shown(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns that are sent, in their order."""
    mark = newest(turns)
    if mark is None:
        return tuple(turn for turn in turns if not is_checkpoint(turn))
    words = clipped([turn for turn in turns[: mark.at] if turn.role == "user"], mark.budget)
    before = sum(turn.role == "user" for turn in turns[: mark.start])
    kept = fitted(turns[mark.start : mark.at], words[before:], mark.budget, tokens(words))
    later = (turn for turn in turns[mark.at + 1 :] if not is_checkpoint(turn))
    return (*words[:before], mark.turn, *kept, *later)


def clipped(words: Sequence[Turn], budget: int) -> list[Turn]:
    """The person's turns within their share of `budget`: the newest whole where that can be, of the older the middle
    left out; should they be too many even so, the oldest of them are left out."""
    most = int(budget * WORDS) if budget else tokens(words)
    if tokens(words) <= most or not words:
        return list(words)
    *older, last = words
    last = _within(last, most * 3 // 4)
    left = most - tokens([last])
    each = share([tokens([turn]) for turn in older], left)
    made = [_within(turn, max(each, 40)) for turn in older]
    while made and tokens(made) > left:
        made.pop(0)
    return [*[replace(turn, text="[left out]") for turn in older[: len(older) - len(made)]], *made, last]


def fitted(turns: Sequence[Turn], words: Sequence[Turn], budget: int, person: int) -> list[Turn]:
    """The turns that a checkpoint keeps, within their share: without what is superseded, of results that are too
    long the middle left out. `words` are the person's among them, as they are shown."""
    given = iter(words)
    kept = [
        next(given) if turn.role == "user" else turn
        for turn in without_superseded(turns)
        if not is_checkpoint(turn)
    ]
    most = int((budget - person) * KEPT_MOST) if budget else tokens(kept)
    others = [turn for turn in kept if turn.role != "user"]
    if tokens(others) <= most:
        return kept
    each = share([tokens([turn]) for turn in others], most)
    return [turn if turn.role == "user" else _within(turn, each) for turn in kept]


def first_kept(turns: Sequence[Turn], budget: int, part: float = KEPT) -> int:
    """The index of the first turn that a checkpoint made now would keep: whole units, the newest always, as many as
    fit in `part` of what the person's words leave of `budget`; nothing that the last checkpoint stands for."""
    mark = newest(turns)
    least = mark.start if mark else 0
    words = clipped([turn for turn in turns if turn.role == "user"], budget)
    left = int((budget - tokens(words)) * part)
    slim = list(turns[:least]) + list(without_superseded(turns[least:]))
    start = end = len(turns)
    for border in reversed([border for border in borders(turns) if border >= least]):
        unit = [turn for turn in slim[border:end] if turn.role != "user" and not is_checkpoint(turn)]
        left -= tokens(unit)
        if left < 0 and any(turn.role != "user" for turn in turns[start:]):
            break
        start = end = border
    return start


def _within(turn: Turn, most: int) -> Turn:
    """`turn` in at most `most` tokens."""
    if tokens([turn]) > most:
        turn = without_attached(turn)
    around = tokens([turn]) - -(-size(turn.text) // BYTES)
    return replace(turn, text=trimmed(turn.text, max(0, most - around) * BYTES, _CUT))


def _whole_number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0
