"""Undo and redo: the last change of a conversation by a command is taken back, byte for byte if nothing came since.

What was said or written since is kept: turns that were added go behind the old text, changes elsewhere are merged as
git merges (three ways, by lines). Where that can't be done nothing is.
"""

from __future__ import annotations

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused
from repoagent.llm.conversation import BrokenConversation, NewerConversation, Turn, dumps, loads
from repoagent.memory.conversations.changing import held_still, put
from repoagent.memory.conversations.past import (
    COMPACT,
    REDO,
    UNDO,
    Change,
    changes,
    digest,
    file_of,
    stacks,
    text_of,
)
from repoagent.memory.conversations.places import Place, missing
from repoagent.repo.merge import Conflict, merge, say_lines
from repoagent.repo.worktree import WorkTree
from repoagent.store import Layout, Warn, to_stderr


@dataclass(frozen=True)
class TakenBack:
    """`change` is what was taken back (or made again), `result` what came of it. `merged`: something was written since,
    and is kept. `present`: whether there is a conversation now."""

    change: Change
    result: Change
    merged: bool
    present: bool


def undo(layout: Layout, worktree: WorkTree, place: Place, *, warn: Warn = to_stderr) -> TakenBack:
    """Take the last change by a command back. Raises NothingDone where there is none, Refused where something was
    written in the same place since, Busy."""
    return _invert(layout, worktree, place, UNDO, warn)


def redo(layout: Layout, worktree: WorkTree, place: Place, *, warn: Warn = to_stderr) -> TakenBack:
    """Make the change again that was taken back last. Raises as `undo`."""
    return _invert(layout, worktree, place, REDO, warn)


def _invert(layout: Layout, worktree: WorkTree, place: Place, command: str, warn: Warn) -> TakenBack:
    if all(one.key != place.key for one in changes(layout, warn=warn)):
        if place.path.exists():
            raise NothingDone(f"no command has changed {place.name} yet: there is nothing to {command}")
        raise missing(layout, place)
    with held_still(layout, place) as present:
        known = _landed(changes(layout, warn=warn), place.key, digest(present))
        stack = stacks(known, place.key)[command == REDO]
        while stack and digest(present) == stack[-1].before != stack[-1].after:
            stack.pop()
        if not stack:
            what = "was taken back" if command == REDO else "is left that a command has made"
            raise NothingDone(f"no change of {place.name} {what}: there is nothing to {command}")
        last = stack[-1]
        after = _without(layout, worktree, place, present, last)
        done = put(layout, place, present, after, command, of=last.id)
        first = _first(known, last)
        if first.command == COMPACT:
            _follow(layout, place, first, again=command == REDO, warn=warn)
        return TakenBack(first, done, digest(present) != last.after, after is not None)


def _follow(layout: Layout, place: Place, first: Change, *, again: bool, warn: Warn) -> None:
    """Let the notes follow: a line of each exchange that was moved away stands there while it is away."""
    from repoagent.memory.turns.compact import follow

    before, after = text_of(layout, first.before), text_of(layout, first.after)
    if before is not None and after is not None:
        follow(place.path, before, after, again=again, warn=warn)


def _first(known: list[Change], last: Change) -> Change:
    """The change that an undo or a redo is about in the end."""
    by_id = {one.id: one for one in known}
    while last.command in (UNDO, REDO) and last.of in by_id:
        last = by_id[last.of]
    return last


def _landed(known: list[Change], key: str, present: str) -> list[Change]:
    """The changes of one conversation, without the last ones that never came to be: a kill came before they were
    written, or a person has taken them back by hand."""
    mine = [one for one in known if one.key == key]
    while mine and mine[-1].before == present != mine[-1].after:
        mine.pop()
    return mine


def _without(
    layout: Layout, worktree: WorkTree, place: Place, present: bytes | None, last: Change
) -> bytes | None:
    """What stands in `place` without the change `last`. Raises Refused."""
    before = text_of(layout, last.before)
    if digest(present) == last.after:
        return before
    kept = f"; the text from before is {file_of(layout, last.before)}" if last.before else ""
    if present is None:
        raise Refused(f"{place.name} is gone since its last {last.command}{kept}: put it back by hand")
    after = text_of(layout, last.after)
    if before is not None and (joined := _with_tail(before, after, present)) is not None:
        return joined
    if before is None or after is None:
        raise Refused(
            f"{place.name} was changed since its last {last.command}: it is left as it is; `repoagent conversation "
            "delete` would put it away"
        )
    merged = merge(worktree, present, after, before)
    if isinstance(merged, Conflict):
        where = f" on {say_lines(merged.lines)}" if merged.lines else ""
        raise Refused(
            f"{place.name} was changed since its last {last.command} in the same place{where}: put it right by "
            f"hand{kept}"
        )
    if not _is_whole(merged, before):
        raise Refused(
            f"{place.name} was changed since its last {last.command}, and both together are no conversation{kept}"
        )
    return merged


def _with_tail(before: bytes, after: bytes | None, present: bytes) -> bytes | None:
    """`before` and the turns that were added behind `after`, or said anew where that is None; None where that is not
    all that was done since."""
    if after is not None and not (present.startswith(after) and after.endswith(b"\n")):
        return None
    try:
        old, now = loads(_decoded(before)), loads(_decoded(present))
        same = () if after is None else loads(_decoded(after)).turns
    except (BrokenConversation, NewerConversation):
        return None
    if now.turns[: len(same)] != same or len(now.turns) == len(same):
        return None
    tail: tuple[Turn, ...] = now.turns[len(same) :]
    blocks = dumps(tail, old.nonce)
    if loads(blocks).nonce != old.nonce or not before.endswith(b"\n"):
        return None
    return before + blocks[blocks.index("\n\n") + 2 :].encode("utf-8", "surrogateescape")


def _is_whole(merged: bytes, before: bytes) -> bool:
    try:
        return loads(_decoded(merged)).nonce == loads(_decoded(before)).nonce
    except (BrokenConversation, NewerConversation):
        return False


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
