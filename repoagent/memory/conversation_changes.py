"""Change, copy, undo and redo conversations.

Each change by a command is made under locks, recorded in the log, and written whole. Undo restores the previous text
byte for byte if nothing was written since; otherwise it keeps later turns and merges other changes by lines, or
refuses. `check` states what a rewritten conversation must preserve.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.git.merge import Conflict, lines_text, merge
from repoagent.git.worktree import WorkTree
from repoagent.llm.conversation import (
    BrokenConversation,
    Conversation,
    NewerConversation,
    Turn,
    dumps,
    loads,
    turn_offsets,
)
from repoagent.memory.conversation_names import ConversationRef, refuse_clash
from repoagent.memory.conversations import StoredConversation, head_of, missing, with_about
from repoagent.memory.identity.record import Memory
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular, sweep, write_whole
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.json_files import now
from repoagent.storage.layout import Layout, Warn, ensure, to_stderr
from repoagent.storage.locks import locked
from repoagent.storage.secrets import mask

VERSION = 1
UNDO, REDO, COMPACT = "undo", "redo", "compact"


@dataclass(frozen=True)
class Change:
    """One change by a command, "save", "load", "edit", …; `before` and `after` are hashes of texts, "" for none. `of`
    is the id of the change that an undo or a redo took back."""

    id: str
    time: str
    key: str
    name: str
    command: str
    before: str
    after: str
    of: str = ""


def log_folder(layout: Layout) -> Path:
    return layout.conversations / ".past"


def lock_of(layout: Layout) -> Path:
    """The lock of all changes by commands."""
    return log_folder(layout) / "lock"


def digest(data: bytes | None) -> str:
    """The name of a text: the SHA-256 of its bytes; "" for none."""
    return "" if data is None else sha256(data).hexdigest()


def text_file(layout: Layout, name: str) -> Path:
    """Where the text with this hash is kept."""
    return log_folder(layout) / f"{name}.md"


def store_text(layout: Layout, data: bytes | None) -> str:
    """Keep a text; its hash. Raises Refused."""
    name = digest(data)
    if data is not None and (place := text_file(layout, name)) and read_regular(place) != data:
        write_whole(place, data)
    return name


def load_text(layout: Layout, name: str) -> bytes | None:
    """The text with this hash, None for "". Raises Refused where it is kept no more, or is another by now."""
    if not name:
        return None
    place = text_file(layout, name)
    data = read_regular(place)
    if data is None:
        raise Refused(f"the previous text is gone ({place})")
    if digest(data) != name:
        raise Refused(f"{place} was modified and no longer matches its hash; changed nothing")
    return data


def record(layout: Layout, change: Change) -> None:
    """Write a change down, durably."""
    json_files.append_record(log_folder(layout) / "changes.jsonl", {"version": VERSION, **asdict(change)})


def record_compacting(memory: Memory, before: bytes, after: bytes) -> None:
    """Keep what a conversation was before its oldest exchanges are moved away, so that it can be taken back. To be
    called while the conversation is locked, before it is written."""
    root = memory.folder.parent.parent
    layout = Layout(root, root)  # of its folders only those below the root are used
    key, name = f"memory:{memory.folder.name}", f"file:{memory.identity.path}"
    record(
        layout,
        Change(new_id(), now(), key, name, COMPACT, store_text(layout, before), store_text(layout, after)),
    )


def new_id() -> str:
    return os.urandom(6).hex()


def changes(layout: Layout, *, warn: Warn = to_stderr) -> list[Change]:
    """All changes by commands, oldest first. Raises Refused when a newer repoagent wrote some."""
    found = []
    path = log_folder(layout) / "changes.jsonl"
    for value in json_files.read_records(path, warn=warn):
        version = value.get("version")
        if isinstance(version, int) and version > VERSION:
            raise Refused(f"{path} was written by a newer repoagent; update repoagent or move the file away")
        if (one := _parsed(value)) is not None:
            found.append(one)
    return found


def stacks(changes: Iterable[Change], key: str) -> tuple[list[Change], list[Change]]:
    """Of one conversation: the changes that can be taken back, and those of them that can be made again (each an undo),
    the next one last."""
    done: list[Change] = []
    undone: list[Change] = []
    for one in changes:
        if one.key != key:
            continue
        if one.command == UNDO:
            done = [other for other in done if other.id != one.of]
            undone.append(one)
        elif one.command == REDO:
            undone = [other for other in undone if other.id != one.of]
            done.append(one)
        else:
            done.append(one)
            undone = []
    return done, undone


def _parsed(value: dict[str, Any]) -> Change | None:
    known = {each.name: value.get(each.name, "") for each in fields(Change)}
    if not all(isinstance(each, str) for each in known.values()) or not known["id"]:
        return None
    return Change(**known)


class ConcurrentChange(Refused):
    """The conversation is not any more what the change was made for."""


@contextmanager
def lock_conversation(layout: Layout, place: ConversationRef) -> Iterator[bytes | None]:
    """What stands in `place`, which no command can change within the block. Raises Busy, Refused."""
    ensure(layout)
    with (
        locked(lock_of(layout), what="the conversations of this repository"),
        locked(place.path.with_name(place.path.name + ".lock"), what=f"the conversation {place.name}"),
    ):
        for each in (log_folder(layout), layout.conversations):
            sweep(each)  # what a kill has left there
        yield read_regular(place.path)


def change(
    layout: Layout,
    place: ConversationRef,
    before: bytes | None,
    after: bytes | None,
    command: str,
    *,
    of: str = "",
) -> Change:
    """Put `after` into `place`, if `before` still stands there; None is for no conversation. Both texts are kept.

    `command` and `of` are as in `Change`. Raises Overtaken, Busy when a lock is held for too long, Refused where it
    can't be written or the name clashes with another.
    """
    if before is None and after is not None and place.kind == "general":
        refuse_clash(layout, place.name)
    with lock_conversation(layout, place) as present:
        if present != before:
            raise ConcurrentChange(
                f"{place.name} has changed in the meantime; changed nothing, look at it again"
            )
        return write_change(layout, place, present, after, command, of=of)


def write_change(
    layout: Layout,
    place: ConversationRef,
    present: bytes | None,
    after: bytes | None,
    command: str,
    *,
    of: str = "",
) -> Change:
    """As `change`, within `held_still`. The texts and the record come first: a kill after them loses nothing."""
    if present is None and after is not None and place.kind == "general":
        refuse_clash(layout, place.name)
    done = Change(
        new_id(),
        now(),
        place.key,
        place.name,
        command,
        store_text(layout, present),
        store_text(layout, after),
        of,
    )
    if present == after:
        return done
    record(layout, done)
    if after is None:
        _remove(place)
    else:
        write_whole(place.path, after)
    return done


def _remove(place: ConversationRef) -> None:
    with open_folder(place.path.parent) as parent:
        try:
            os.unlink(place.path.name, dir_fd=parent)
            os.fsync(parent)
        except FileNotFoundError:
            return
        except OSError as error:
            raise system_failed("remove", place.path, error) from error


@dataclass(frozen=True)
class Reversal:
    """`change` is what was taken back (or made again), `result` what came of it. `merged`: something was written since,
    and is kept. `present`: whether there is a conversation now."""

    change: Change
    result: Change
    merged: bool
    present: bool


def undo(layout: Layout, worktree: WorkTree, place: ConversationRef, *, warn: Warn = to_stderr) -> Reversal:
    """Take the last change by a command back. Raises NothingDone where there is none, Refused where something was
    written in the same place since, Busy."""
    return _invert(layout, worktree, place, UNDO, warn)


def redo(layout: Layout, worktree: WorkTree, place: ConversationRef, *, warn: Warn = to_stderr) -> Reversal:
    """Make the change again that was taken back last. Raises as `undo`."""
    return _invert(layout, worktree, place, REDO, warn)


def _invert(layout: Layout, worktree: WorkTree, place: ConversationRef, command: str, warn: Warn) -> Reversal:
    if all(one.key != place.key for one in changes(layout, warn=warn)):
        if place.path.exists():
            raise NothingDone(f"nothing to {command}: no command has changed {place.name}")
        raise missing(layout, place)
    with lock_conversation(layout, place) as present:
        known = _recorded_changes(changes(layout, warn=warn), place.key, digest(present))
        stack = stacks(known, place.key)[command == REDO]
        while stack and digest(present) == stack[-1].before != stack[-1].after:
            stack.pop()
        if not stack:
            what = "undone change" if command == REDO else "change by a command"
            raise NothingDone(f"nothing to {command}: {place.name} has no {what}")
        last = stack[-1]
        after = _without(layout, worktree, place, present, last)
        done = write_change(layout, place, present, after, command, of=last.id)
        first = _first(known, last)
        if first.command == COMPACT:
            _follow(layout, place, first, again=command == REDO, warn=warn)
        return Reversal(first, done, digest(present) != last.after, after is not None)


def _follow(layout: Layout, place: ConversationRef, first: Change, *, again: bool, warn: Warn) -> None:
    """Let the notes follow: a line of each exchange that was moved away stands there while it is away."""
    from repoagent.memory.compaction import update_notes

    before, after = load_text(layout, first.before), load_text(layout, first.after)
    if before is not None and after is not None:
        update_notes(place.path, before, after, again=again, warn=warn)


def _first(known: list[Change], last: Change) -> Change:
    """The change that an undo or a redo is about in the end."""
    by_id = {one.id: one for one in known}
    while last.command in (UNDO, REDO) and last.of in by_id:
        last = by_id[last.of]
    return last


def _recorded_changes(known: list[Change], key: str, present: str) -> list[Change]:
    """The changes of one conversation, without the last ones that never came to be: a kill came before they were
    written, or a person has taken them back by hand."""
    mine = [one for one in known if one.key == key]
    while mine and mine[-1].before == present != mine[-1].after:
        mine.pop()
    return mine


def _without(
    layout: Layout, worktree: WorkTree, place: ConversationRef, present: bytes | None, last: Change
) -> bytes | None:
    """What stands in `place` without the change `last`. Raises Refused."""
    before = load_text(layout, last.before)
    if digest(present) == last.after:
        return before
    kept = f"; the previous text is {text_file(layout, last.before)}" if last.before else ""
    if present is None:
        raise Refused(f"{place.name} was deleted after its last {last.command}; restore it by hand{kept}")
    after = load_text(layout, last.after)
    if before is not None and (joined := _with_tail(before, after, present)) is not None:
        return joined
    if before is None or after is None:
        raise Refused(
            f"{place.name} has changed since its last {last.command}; use `repoagent conversation delete` to remove it"
        )
    merged = merge(worktree, present, after, before)
    if isinstance(merged, Conflict):
        where = f" on {lines_text(merged.lines)}" if merged.lines else ""
        raise Refused(
            f"{place.name} has changed since its last {last.command} in the same place{where}; fix it by hand{kept}"
        )
    if not _is_whole(merged, before):
        raise Refused(
            f"{place.name} has changed since its last {last.command}, and the two cannot be merged{kept}"
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
        return f"the result is not a valid conversation: {error}"
    if head_of(before) != head_of(after):
        return (
            "the lines before the first turn or a heading of a turn have changed; keep them (a turn begins with "
            f"a line `## [{old.nonce}] SPEAKER`)"
        )
    if _headings(after, old) - len(new.turns) > _headings(before, old) - len(old.turns):
        return (
            "a line looks like a heading but is not valid: it must be `## ["
            f"{old.nonce}] user`, `assistant` or "
            "`observation`, followed by what repoagent wrote after it"
        )
    if old.turns and not new.turns:
        return "the result has no turns; use `repoagent conversation delete` to delete the conversation"
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
        what = "a user turn was added"
    elif before[place] in after[place:] or len(after) >= len(before):
        what = f"user turn {_number(old, before[place])} was changed"
    else:
        what = f"user turn {_number(old, before[place])} was changed or removed"
    return f"{what}; use --user-turns to allow it"


def _number(one: Conversation, turn: Turn) -> int:
    """Which turn of all it is, from 1."""
    return next(number for number, other in enumerate(one.turns, 1) if other is turn)


def _order(old: tuple[Turn, ...], new: tuple[Turn, ...]) -> str:
    were = set(pairwise([None, *(turn.role for turn in old)]))
    roles = [None, *(turn.role for turn in new)]
    for number, (first, second) in enumerate(pairwise(roles), 1):
        if second not in _FOLLOWS[first] and (first, second) not in were:
            behind = "cannot come first" if first is None else f"cannot follow {first}"
            return f"turn {number} ({second}) {behind}"
    return ""


def save(
    layout: Layout, source: StoredConversation, place: ConversationRef, *, force: bool = False
) -> Change:
    """Keep a copy of `source` in `place`. With `force` it takes the place of what is there, which is kept in the past.

    Raises Refused where there is one already, and as `change` does.
    """
    return _copy(layout, source, place, len(source.conversation.turns), "save", force=force)


def branch(
    layout: Layout, source: StoredConversation, place: ConversationRef, *, turns: int | None = None
) -> Change:
    """A new conversation in `place` that begins with the first `turns` of `source`, by default all. Raises UsageError
    for a turn that there is not, and as `save` does."""
    count = len(source.conversation.turns)
    if turns is not None and not 0 < turns <= count:
        raise UsageError(
            f"{source.place.name} has {count} turns, no turn {turns}; see `repoagent conversation show`"
        )
    return _copy(layout, source, place, count if turns is None else turns, "branch")


def load(layout: Layout, source: StoredConversation, place: ConversationRef) -> Change:
    """Make a copy of `source` the conversation in `place`, that of a file. Raises as `change`."""
    present = read_regular(place.path)
    return change(layout, place, present, copied(source), "load")


def copied(source: StoredConversation, turns: int | None = None) -> bytes:
    """The bytes of a copy of the first `turns`, without keys and tokens; a copy of what was said about a file says
    which one."""
    text = source.text
    places = turn_offsets(text)
    if turns is not None and turns < len(places):
        text = text[: places[turns]]
    text = mask(text)
    if source.place.about:
        text = with_about(text, source.place.about)
    return text.encode("utf-8", "surrogateescape")


def _copy(
    layout: Layout,
    source: StoredConversation,
    place: ConversationRef,
    turns: int,
    command: str,
    *,
    force: bool = False,
) -> Change:
    if source.place.key == place.key:
        raise UsageError(f"{place.name} would be a copy of itself; choose another name")
    present = read_regular(place.path)
    if present is not None and not force:
        how = "choose another name" + ("" if command == "branch" else " or use --force")
        raise Refused(f"a conversation {place.name!r} already exists; {how}")
    return change(layout, place, present, copied(source, turns), command)
