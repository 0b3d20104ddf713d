"""What a rewritten conversation must keep: it is one still, its turns follow each other as they may, and nobody has put
words into the person's mouth."""

from __future__ import annotations

from itertools import pairwise

from repoagent.llm.conversation import BrokenConversation, Conversation, NewerConversation, Turn, loads
from repoagent.memory.conversations.origin import head_of

_FOLLOWS: dict[str | None, set[str]] = {  # who may speak after whom; None is the beginning
    None: {"user"},
    "user": {"user", "assistant"},
    "assistant": {"user", "observation"},
    "observation": {"user", "assistant", "observation"},
}


def check(before: str, after: str, *, user_turns: bool = False) -> str:
    """Why the text `after` may not take the place of the conversation `before`, as a sentence; "" where it may.

    It must parse, with the same first lines (version, nonce, file). Turns may go, and what models and programs said
    may change; one may stand behind another only where that is usual or was so before. What the person said stays, to
    the byte and in its order, unless `user_turns`. Raises as `loads` for a `before` that is no conversation.
    """
    old = loads(before)
    try:
        new = loads(after)
    except (BrokenConversation, NewerConversation) as error:
        return f"the result is no conversation: {error}"
    if head_of(before) != head_of(after):
        return (
            "the lines before the first turn were changed, or a heading of a turn was: leave them as they are, a "
            f"turn begins with a line `## [{old.nonce}] SPEAKER`"
        )
    if _headings(after, old) - len(new.turns) > _headings(before, old) - len(old.turns):
        return (
            "a line that begins like a heading is none: it must be `## ["
            + old.nonce
            + "] user`, `assistant` or "
            "`observation`, and what the program has written behind that"
        )
    if old.turns and not new.turns:
        return "the result has no turn left: to put the whole conversation away, delete it"
    if not user_turns and (wrong := _person(old, new)):
        return wrong
    return _order(old.turns, new.turns)


def _headings(text: str, old: Conversation) -> int:
    return text.count(f"\n## [{old.nonce}]")


def _person(old: Conversation, new: Conversation) -> str:
    before, after = ([turn for turn in one.turns if turn.role == "user"] for one in (old, new))
    if before == after:
        return ""
    place = next(
        (number for number, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]),
        min(len(before), len(after)),
    )
    if place >= len(before):
        what = "a turn of the person was added"
    elif before[place] in after[place:] or len(after) >= len(before):
        what = f"the person's turn {_number(old, before[place])} was changed"
    else:
        what = f"the person's turn {_number(old, before[place])} was changed or left out"
    return f"{what}: the person's own words stay as they are (--user-turns allows it)"


def _number(one: Conversation, turn: Turn) -> int:
    """Which turn of all it is, from 1."""
    return next(number for number, other in enumerate(one.turns, 1) if other is turn)


def _order(old: tuple[Turn, ...], new: tuple[Turn, ...]) -> str:
    were = set(pairwise([None, *(turn.role for turn in old)]))
    roles = [None, *(turn.role for turn in new)]
    for number, (first, second) in enumerate(pairwise(roles), 1):
        if second not in _FOLLOWS[first] and (first, second) not in were:
            behind = "stands first" if first is None else f"follows one of {first}"
            return f"turn {number}, of {second}, {behind}: turns of that kind do not follow each other so"
    return ""
