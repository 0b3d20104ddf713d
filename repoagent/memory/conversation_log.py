"""Log the changes that commands make to conversations, and undo and redo them.

Each change is made under locks, recorded in the log, and written atomically. Undo restores the previous text byte for
byte, and refuses if anything has been written since. `check_rewrite` defines what a rewritten conversation must
preserve.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.display_text import plural
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.llm.conversation import BrokenConversation, NewerConversation, loads, turn_offsets
from repoagent.memory.conversations import (
    ConversationRef,
    StoredConversation,
    head_of,
    no_such_conversation,
    with_about,
)
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular, remove_temporary_files, write_whole
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.layout import Layout, Warn, ensure_root, to_stderr
from repoagent.storage.locks import hold_lock
from repoagent.storage.secrets import mask

VERSION = 1
UNDO, REDO = "undo", "redo"


@dataclass(frozen=True)
class ConversationChange:
    """A change to a conversation by a command.

    `before` and `after` are hashes of its text. If the change undoes or redoes another one, `of` is the id of that
    change.
    """

    id: str
    time: str
    key: str
    name: str
    command: str
    before: str
    after: str
    of: str = ""


class ConcurrentChange(Refused):
    """The conversation was changed by another process."""


def log_folder(layout: Layout) -> Path:
    return layout.conversations / ".past"


def digest(data: bytes | None) -> str:
    """The name of a stored text: its SHA-256 in hexadecimal; "" for None."""
    return "" if data is None else sha256(data).hexdigest()


def text_file(layout: Layout, name: str) -> Path:
    """The path of the stored text with this hash."""
    return log_folder(layout) / f"{name}.md"


def logged_changes(layout: Layout, *, warn: Warn = to_stderr) -> list[ConversationChange]:
    """All changes by commands, oldest first. Raises Refused if a newer repoagent wrote any of them."""
    path = log_folder(layout) / "changes.jsonl"
    records = []
    for value in json_files.read_records(path, warn=warn):
        version = value.get("version")
        if isinstance(version, int) and version > VERSION:
            raise Refused(f"{path} was written by a newer repoagent; update repoagent or move the file away")
        with suppress(TypeError):  # a line that someone has changed
            records.append(json_files.decode(ConversationChange, value))
    return records


@contextmanager
def _locked(layout: Layout, ref: ConversationRef) -> Iterator[bytes | None]:
    """Lock a conversation for the block; yields its bytes, None if there is none. Raises Busy, Refused."""
    ensure_root(layout)
    with (
        hold_lock(log_folder(layout) / "lock", label="this repository's conversations"),
        hold_lock(ref.path.with_name(ref.path.name + ".lock"), label=f"the conversation {ref.name}"),
    ):
        for folder in (log_folder(layout), layout.conversations):
            remove_temporary_files(folder)  # temporary files of killed processes
        yield read_regular(ref.path)


def change_conversation(
    layout: Layout, ref: ConversationRef, before: bytes | None, after: bytes | None, command: str
) -> ConversationChange:
    """Replace the text `before` of the conversation `ref` with `after`; None means that there is no conversation.

    Raises ConcurrentChange if the text is no longer `before`, Busy if the lock is not released in time, Refused if the
    file cannot be written.
    """
    with _locked(layout, ref) as present:
        if present != before:
            raise ConcurrentChange(
                f"another process has just changed {ref.name}, so nothing was done; try again"
            )
        return _write(layout, ref, present, after, command)


def _write(
    layout: Layout,
    ref: ConversationRef,
    before: bytes | None,
    after: bytes | None,
    command: str,
    *,
    of: str = "",
) -> ConversationChange:
    """Replace the text of a locked conversation. Texts and record are written first: a later kill loses nothing."""
    for data in (before, after):
        path = text_file(layout, digest(data))
        if data is not None and read_regular(path) != data:
            write_whole(path, data)
    identity, hashes = os.urandom(6).hex(), (digest(before), digest(after))
    record = ConversationChange(identity, json_files.timestamp(), ref.key, ref.name, command, *hashes, of)
    if before == after:
        return record
    json_files.append_record(log_folder(layout) / "changes.jsonl", {"version": VERSION, **asdict(record)})
    if after is not None:
        write_whole(ref.path, after)
        return record
    with open_folder(ref.path.parent) as parent:
        try:
            os.unlink(ref.path.name, dir_fd=parent)
            os.fsync(parent)
        except OSError as error:
            raise system_failed("remove", ref.path, error) from error
    return record


def reverse_change(
    layout: Layout, ref: ConversationRef, command: str, *, warn: Warn = to_stderr
) -> tuple[ConversationChange, ConversationChange]:
    """Undo the last change by a command (UNDO), or redo the last undone one (REDO). Return that change, and the change
    that reversed it.

    Raises NothingDone if there is none, Refused if the conversation has changed since, Busy if the lock is not released
    in time.
    """
    if all(entry.key != ref.key for entry in logged_changes(layout, warn=warn)):
        if ref.path.exists():
            raise NothingDone(f"nothing to {command}: no command has changed {ref.name}")
        raise no_such_conversation(layout, ref)
    with _locked(layout, ref) as present:
        log = logged_changes(layout, warn=warn)
        last = _next_to_reverse(log, ref.key, command, digest(present))
        if last is None:
            kind = "undone changes" if command == REDO else "more changes by commands"
            raise NothingDone(f"nothing to {command}: {ref.name} has no {kind}")
        copy, after = text_file(layout, last.before), None
        if last.before:
            after = read_regular(copy)
            if after is None:
                raise Refused(f"the stored conversation text {copy} is missing; nothing was changed")
            if digest(after) != last.before:
                raise Refused(f"{copy} was modified and no longer matches its hash; nothing was changed")
        if digest(present) != last.after:
            old = f"copy {copy} to" if last.before else "delete"
            raise Refused(
                f"{ref.name} has changed since its last {last.command}; {command} by hand: {old} {ref.path}"
            )
        result = _write(layout, ref, present, after, command, of=last.id)
        by_id = {entry.id: entry for entry in log}
        while last.command in (UNDO, REDO) and last.of in by_id:  # report the change that was undone
            last = by_id[last.of]
        return last, result


def _next_to_reverse(
    log: list[ConversationChange], key: str, command: str, present: str
) -> ConversationChange | None:
    """The change to undo next; for a redo, the undo to reverse. `present` is the hash of the current text."""
    mine = [entry for entry in log if entry.key == key]
    while mine and mine[-1].before == present != mine[-1].after:
        mine.pop()  # never written because the process was killed, or reverted by hand
    done: list[ConversationChange] = []
    undone: list[ConversationChange] = []
    for entry in mine:
        if entry.command == UNDO:
            done = [item for item in done if item.id != entry.of]
            undone.append(entry)
        else:
            undone = [item for item in undone if item.id != entry.of] if entry.command == REDO else []
            done.append(entry)
    stack = undone if command == REDO else done
    while stack and present == stack[-1].before != stack[-1].after:
        stack.pop()
    return stack[-1] if stack else None


_FOLLOWS: dict[str | None, set[str]] = {  # the roles that may follow a role; None is the beginning
    None: {"user"},
    "user": {"user", "assistant"},
    "assistant": {"user", "observation"},
    "observation": {"user", "assistant", "observation"},
}


def check_rewrite(before: str, after: str, *, user_turns: bool = False) -> str:
    """Return why the text `after` may not replace the conversation `before`, as a sentence; "" if it may.

    The lines before the first turn must stay. All user turns must stay in order, unless `user_turns` is set; other
    turns may be changed or removed. Raises what `loads` raises if `before` is not a conversation.
    """
    old = loads(before)
    try:
        new = loads(after)
    except (BrokenConversation, NewerConversation) as error:
        return f"the result is not a valid conversation: {error}"
    heading = f"## [{old.nonce}]"
    unread = after.count(f"\n{heading}") - len(new.turns) - before.count(f"\n{heading}") + len(old.turns)
    if head_of(before) != head_of(after) or unread > 0:
        return (
            "the lines before the first turn, or a turn's heading, were changed; leave them as they were (a turn "
            f"begins with `{heading} user`, `assistant` or `observation`)"
        )
    if old.turns and not new.turns:
        return "the result has no turns; use `repoagent conversation delete` to delete the conversation"
    if not user_turns:
        said, kept = ([turn for turn in each.turns if turn.role == "user"] for each in (old, new))
        if said != kept:
            return "a user turn was changed, added or removed; use --user-turns to allow it"
    earlier = set(pairwise([None, *(turn.role for turn in old.turns)]))
    for number, (first, second) in enumerate(pairwise([None, *(turn.role for turn in new.turns)]), 1):
        if (first, second) not in earlier and second not in _FOLLOWS[first]:
            return f"turn {number} ({second}) cannot follow {first or 'the beginning'}"
    return ""


def copy_conversation(
    layout: Layout,
    source: StoredConversation,
    ref: ConversationRef,
    command: str,
    *,
    turns: int | None = None,
    replaces: bool = False,
) -> ConversationChange:
    """Copy the first `turns` turns of `source` to `ref` with secrets masked; `command` is "save", "branch" or "load".

    Raises UsageError if `ref` is the source itself or `source` has fewer turns, Refused if `ref` exists and `replaces`
    is not set, and what `change_conversation` raises.
    """
    if source.ref.key == ref.key:
        raise UsageError(f"{ref.name} would be a copy of itself; name another conversation")
    text, offsets = source.text, turn_offsets(source.text)
    if turns is not None and not 0 < turns <= len(offsets):
        raise UsageError(
            f"{source.ref.name} has no turn {turns}, only {plural(len(offsets), 'turn')}: "
            "see `repoagent conversation show`"
        )
    present = read_regular(ref.path)
    if present is not None and not replaces:
        remedy = " or use --force" if command == "save" else ""
        raise Refused(f"a conversation named {ref.name!r} already exists; choose another name{remedy}")
    if turns is not None and turns < len(offsets):
        text = text[: offsets[turns]]
    text = mask(text)
    if source.ref.about:
        text = with_about(text, source.ref.about)
    return change_conversation(layout, ref, present, text.encode("utf-8", "surrogateescape"), command)
