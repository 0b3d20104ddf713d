"""Move old exchanges from a conversation to the archive, and add a line for each to the notes.

`archive/conversation-DAY-HASH.md` is named after a hash of its content, so repeating the move after a kill writes the
same file and the same notes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import date
from hashlib import sha256
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.llm.conversation import loads, read_conversation, turn_offsets
from repoagent.memory.edit_records import Exchange, exchange_of, group_turns, is_day, outcome_text, read_edits
from repoagent.memory.identity.record import Memory
from repoagent.memory.notes import COMPACTED, Note, add_notes, make_note
from repoagent.memory.prompt import cut_line, failure_of, reason_of
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.layout import Warn, to_stderr
from repoagent.storage.locks import hold_lock

LEAST = 2  # newest exchanges that always stay: the last request may be repeated
_WIDTH = 160  # characters of a request in its line


@dataclass(frozen=True)
class CompactionResult:
    """The archive file, the numbers of exchanges and bytes moved to it, and the notes that replace them."""

    archive: Path
    exchanges: int
    bytes: int
    notes: tuple[Note, ...]


def _parse(data: bytes) -> tuple[list[Exchange], list[int]]:
    """The exchanges of a conversation file and their offsets in bytes; the last offset is the end of the file."""
    text = data.decode("utf-8", "surrogateescape")
    groups = group_turns(loads(text).turns)
    turns = turn_offsets(text)
    number, offsets = 0, []
    for group in groups:
        offsets.append(len(text[: turns[number]].encode("utf-8", "surrogateescape")))
        number += len(group)
    return [exchange_of(group) for group in groups], [*offsets, len(data)]


def compact(memory: Memory, *, keep_bytes: int = 0, warn: Warn = to_stderr) -> CompactionResult | None:
    """Move the oldest exchanges to the archive until at most `keep_bytes` remain; the last LEAST always stay.

    Each moved exchange leaves a note. Return None if there is nothing to move. Raises Busy if the lock is not released
    in time, Refused if the archive cannot be written, and what `llm.conversation.read_conversation` raises.
    """
    if read_conversation(memory.conversation) is None:  # raises if it is broken, with the path
        return None
    with _locked(memory):
        data = read_regular(memory.conversation)
        if data is None:
            return None
        exchanges, offsets = _parse(data)
        count = len(exchanges) - LEAST
        if count <= 0 or len(data) <= keep_bytes:
            return None
        enough = (n for n in range(1, count) if offsets[0] + len(data) - offsets[n] <= keep_bytes)
        return _move(memory, data, next(enough, count), warn=warn)


def compact_above(memory: Memory, limit: int) -> CompactionResult | None:
    """Compact a conversation of more than `limit` bytes to half that size, without a model; 0 means no limit."""
    try:
        size = memory.conversation.stat().st_size
    except FileNotFoundError:
        return None
    return compact(memory, keep_bytes=limit // 2) if 0 < limit < size else None


def compact_before(
    memory: Memory, is_old: Callable[[str], bool], *, warn: Warn = to_stderr
) -> CompactionResult | None:
    """Move exchanges to the archive, oldest first, and stop before the first one for which `is_old(time)` is false.

    `time` is ISO 8601, "" if unknown. Return None if there is nothing to move. Raises what `compact` raises.
    """
    with _locked(memory):
        data = read_regular(memory.conversation)
        if data is None:
            return None
        count = old_count(_parse(data)[0], is_old)
        return _move(memory, data, count, warn=warn) if count else None


def old_count(exchanges: Sequence[Exchange], is_old: Callable[[str], bool]) -> int:
    """The number of exchanges before the first one that is not old."""
    return next(
        (number for number, exchange in enumerate(exchanges) if not is_old(exchange.time)), len(exchanges)
    )


def _locked(memory: Memory) -> AbstractContextManager[None]:
    path = memory.conversation
    return hold_lock(path.with_name(path.name + ".lock"), label=f"the conversation {path.name}")


def _move(memory: Memory, data: bytes, count: int, *, warn: Warn) -> CompactionResult | None:
    """Move the first `count` exchanges: archive, notes, then conversation, so that a kill loses nothing."""
    exchanges, offsets = _parse(data)
    begin, end = offsets[0], offsets[count]
    moved, part = exchanges[:count], data[begin:end]
    day = next((exchange.time[:10] for exchange in reversed(moved) if is_day(exchange.time[:10])), "undated")
    archive = memory.folder / "archive" / f"conversation-{day}-{sha256(part).hexdigest()[:8]}.md"
    write_whole(archive, data[: data.index(b"\n") + 1] + b"\n" + part)
    records = {record.id: record for record in read_edits(memory.edits, warn=warn)}
    lines = []
    for exchange in moved:
        record = records.get(exchange.id)
        state = record.state if record else exchange.state
        outcome = outcome_text(state or "discussed", (record.commit if record else exchange.commit) or "")
        reasons = [reason for turn in exchange.turns if (reason := reason_of(turn))]
        failures = [failure for turn in exchange.turns if (failure := failure_of(turn))]
        if reasons:
            outcome += f'; rejected first: "{cut_line(reasons[-1], _WIDTH)}"'
        elif failures:
            outcome += f"; failed first: {cut_line(failures[0], _WIDTH)}"
        request = cut_line(exchange.request, _WIDTH) or "(no request)"
        text = f"{request} ({outcome}; archive/{archive.name})"
        blob = record.result_blob or record.source_blob if record else ""
        written = date.fromisoformat(exchange.time[:10]) if is_day(exchange.time[:10]) else None
        lines.append(make_note(text, blob=blob, day=written, source=COMPACTED))
    notes = add_notes(memory.notes, lines)
    if read_regular(memory.conversation) != data:
        warn(f"did not compact {memory.conversation}: another program has just saved it")
        return None
    write_whole(memory.conversation, data[:begin] + data[end:])
    return CompactionResult(archive, count, len(part), tuple(notes))
