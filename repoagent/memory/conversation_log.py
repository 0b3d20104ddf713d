"""The log of changes to conversations, and the exchanges of a conversation.

    .repoagent/conversations/.past/changes.jsonl     which conversation, which command, from which text to which
    .repoagent/conversations/.past/3f2a9c….md        a text, named by the SHA-256 of its bytes

Both are written before the conversation itself: after a kill in between, the unchanged text shows that the recorded
change did not happen. An exchange is a request with the turns that followed it and its outcome.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.llm.conversation import Turn, read
from repoagent.memory.edit_records import read_edits
from repoagent.memory.identity.record import Memory
from repoagent.storage import jsonl
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.jsonl import now
from repoagent.storage.layout import Layout, Warn, to_stderr

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
    jsonl.append_record(log_folder(layout) / "changes.jsonl", {"version": VERSION, **asdict(change)})


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
    for value in jsonl.read_records(path, warn=warn):
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


FAILED = frozenset({"refused", "failed", "declined", "rejected", "undone"})


@dataclass(frozen=True)
class Exchange:
    """`turns` begin with the request; none where only the record of the edit is kept, or nobody spoke. `state` is that
    of the record ("committed", …), `time` ISO 8601; "" where they are not known."""

    id: str
    time: str
    request: str
    turns: tuple[Turn, ...] = ()
    state: str = ""
    commit: str = ""

    @property
    def went_wrong(self) -> bool:
        return self.state in FAILED


def exchanges(memory: Memory, *, warn: Warn = to_stderr) -> list[Exchange]:
    """All exchanges that are kept in the present files of `memory`, oldest first. A conversation that can't be read is
    named in a warning, and the records of edits are told alone."""
    records = {record.id: record for record in read_edits(memory.edits, warn=warn)}
    found: list[Exchange] = []
    seen: set[str] = set()
    for turns in group_turns(_turns(memory, warn)):
        one = exchange_of(turns)
        record = records.get(one.id)
        if record is not None:
            seen.add(one.id)
            one = Exchange(
                one.id, one.time or record.time, one.request, one.turns, record.state, record.commit or ""
            )
        found.append(one)
    for record in records.values():
        if record.id not in seen:
            found.append(
                Exchange(record.id, record.time, record.request, (), record.state, record.commit or "")
            )
    return [one for _, one in sorted(_timed(found), key=lambda pair: pair[0])]


def group_turns(turns: Iterable[Turn]) -> list[tuple[Turn, ...]]:
    """The turns of each exchange: a request of the person, and what came before the next one."""
    found: list[list[Turn]] = []
    for turn in turns:
        if turn.role == "user" or not found:
            found.append([])
        found[-1].append(turn)
    return [tuple(each) for each in found]


def exchange_of(turns: Sequence[Turn]) -> Exchange:
    """The exchange that `turns` tell of, as far as they say what came of it."""
    first, last = turns[0], turns[-1]
    request = first.text if first.role == "user" else ""
    time = next((turn.meta["time"] for turn in turns if "time" in turn.meta), "")
    return Exchange(
        first.meta.get("edit", ""),
        time,
        request,
        tuple(turns),
        last.meta.get("state", ""),
        last.meta.get("commit", ""),
    )


def _turns(memory: Memory, warn: Warn) -> tuple[Turn, ...]:
    try:
        conversation = read(memory.conversation)
    except Refused as error:  # edited beyond recognition, of a newer format, a link
        warn(str(error))
        return ()
    return conversation.turns if conversation else ()


def _timed(found: Iterable[Exchange]) -> Iterator[tuple[str, Exchange]]:
    """Each with a time to sort by: one that a person wrote without any follows what stands before it."""
    last = ""
    for one in found:
        last = one.time or last
        yield last, one
