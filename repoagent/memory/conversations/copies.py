"""Copies of conversations: saved under a name, loaded for a file, branched off at a turn."""

from __future__ import annotations

from repoagent.errors import Refused, UsageError
from repoagent.llm.conversation import starts
from repoagent.memory.conversations.changing import change
from repoagent.memory.conversations.origin import with_about
from repoagent.memory.conversations.past import Change
from repoagent.memory.conversations.places import Held, Place
from repoagent.store import Layout, read_regular
from repoagent.store.masking import mask


def save(layout: Layout, source: Held, place: Place, *, force: bool = False) -> Change:
    """Keep a copy of `source` in `place`. With `force` it takes the place of what is there, which is kept in the past.

    Raises Refused where there is one already, and as `change` does.
    """
    return _copy(layout, source, place, len(source.conversation.turns), "save", force=force)


def branch(layout: Layout, source: Held, place: Place, *, turns: int | None = None) -> Change:
    """A new conversation in `place` that begins with the first `turns` of `source`, by default all. Raises UsageError
    for a turn that there is not, and as `save` does."""
    count = len(source.conversation.turns)
    if turns is not None and not 0 < turns <= count:
        raise UsageError(
            f"--at {turns} is no turn of {source.place.name}, which has {count}: see `repoagent conversation show`"
        )
    return _copy(layout, source, place, count if turns is None else turns, "branch")


def load(layout: Layout, source: Held, place: Place) -> Change:
    """Make a copy of `source` the conversation in `place`, that of a file. Raises as `change`."""
    present = read_regular(place.path)
    return change(layout, place, present, copied(source), "load")


def copied(source: Held, turns: int | None = None) -> bytes:
    """The bytes of a copy of the first `turns`, without keys and tokens; a copy of what was said about a file says
    which one."""
    text = source.text
    places = starts(text)
    if turns is not None and turns < len(places):
        text = text[: places[turns]]
    text = mask(text)
    if source.place.about:
        text = with_about(text, source.place.about)
    return text.encode("utf-8", "surrogateescape")


def _copy(
    layout: Layout, source: Held, place: Place, turns: int, command: str, *, force: bool = False
) -> Change:
    if source.place.key == place.key:
        raise UsageError(f"{place.name} would be a copy of itself: choose another name")
    present = read_regular(place.path)
    if present is not None and not force:
        how = "choose another name" + ("" if command == "branch" else ", or say --force")
        raise Refused(f"there is a conversation {place.name!r} already: {how}")
    return change(layout, place, present, copied(source, turns), command)
