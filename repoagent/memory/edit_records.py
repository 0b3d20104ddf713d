"""Read and write `edits.jsonl`, with a line for each edit and each change of its state; group the exchanges about a
file.

An exchange is a request with the turns that followed it and its outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.display_text import plural
from repoagent.errors import Refused
from repoagent.llm.conversation import Turn, read_conversation
from repoagent.llm.model import Usage
from repoagent.memory.identity.record import Memory
from repoagent.storage import json_files
from repoagent.storage.layout import Warn, to_stderr

VERSION = 1


def outcome_text(state: str, commit: str | None) -> str:
    """The state of an edit, with the short id of the commit that has it, if one does: "committed as 3f2a9c1be04d"."""
    return f"{state} as {commit[:12]}" if commit and state != "undone" else state


@dataclass(frozen=True)
class EditRecord:
    """One edit to one file.

    time: ISO 8601, with a time zone.
    source_blob, result_blob: hashes of the raw bytes in the work tree; "" if there is no file.
    cost: in US dollars; None if unknown.
    levels: the level at which each hunk matched ("exact", …).
    state: free text, such as "committed", "written" (without a commit), "proposed", "refused", "undone" or "redone".
    reasons: the codes of the last refusal, if nothing was written.
    """

    id: str
    time: str
    path: str
    request: str
    source_blob: str
    result_blob: str
    commit: str | None = None
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    levels: tuple[str, ...] = ()
    state: str = "committed"
    reasons: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> EditRecord | None:
        """The record in a parsed line, without unknown fields; None if it is invalid or in a newer format."""
        try:
            return json_files.decode(cls, value) if value["version"] <= VERSION else None
        except (KeyError, TypeError):
            return None


def append_edit(path: Path, record: EditRecord) -> None:
    """Append `record` to the edits file `path` (of a memory, or of the work tree) and sync it."""
    json_files.append_record(path, record.to_dict())


def read_edits(path: Path, *, warn: Warn = to_stderr) -> list[EditRecord]:
    """The latest record of each edit in `path`, oldest edit first. Skips invalid lines with a warning."""
    records = [EditRecord.from_dict(value) for value in json_files.read_records(path, warn=warn)]
    if skipped := records.count(None):
        warn(f"{path}: skipped {plural(skipped, 'invalid line')}")
    return list({record.id: record for record in records if record is not None}.values())


@dataclass(frozen=True)
class Exchange:
    """A request and its result. `turns` is empty if only the record of the edit exists."""

    id: str
    time: str
    request: str
    turns: tuple[Turn, ...] = ()
    state: str = ""
    commit: str = ""


def read_exchanges(memory: Memory) -> list[Exchange]:
    """Return the exchanges that are not archived, oldest first.

    If the conversation cannot be read, warns and returns only the exchanges in the edit records.
    """
    records = {record.id: record for record in read_edits(memory.edits)}
    try:
        conversation = read_conversation(memory.conversation)
    except Refused as error:  # broken, of a newer format, or a link
        to_stderr(str(error))
        conversation = None
    result = []
    for turns in group_turns(conversation.turns if conversation else ()):
        exchange = exchange_of(turns)
        if record := records.pop(exchange.id, None):
            time, commit = exchange.time or record.time, record.commit or ""
            exchange = replace(exchange, time=time, state=record.state, commit=commit)
        result.append(exchange)
    for record in records.values():
        result.append(Exchange(record.id, record.time, record.request, (), record.state, record.commit or ""))
    times: list[str] = []
    for exchange in result:  # one without a time, written by a user, follows the one before it
        times.append(exchange.time or (times[-1] if times else ""))
    return [exchange for _, exchange in sorted(zip(times, result, strict=True), key=lambda pair: pair[0])]


def group_turns(turns: Iterable[Turn]) -> list[tuple[Turn, ...]]:
    """The turns of each exchange: a request by the user, and the turns up to the next request."""
    groups: list[list[Turn]] = []
    for turn in turns:
        if turn.role == "user" or not groups:
            groups.append([])
        groups[-1].append(turn)
    return [tuple(group) for group in groups]


def exchange_of(turns: Sequence[Turn]) -> Exchange:
    """The exchange with these turns, and the outcome that they record."""
    first, last = turns[0].meta, turns[-1].meta
    request = turns[0].text if turns[0].role == "user" else ""
    time = next((turn.meta["time"] for turn in turns if "time" in turn.meta), "")
    state, commit = last.get("state", ""), last.get("commit", "")
    return Exchange(first.get("edit", ""), time, request, tuple(turns), state, commit)


def is_day(text: str) -> bool:
    """Whether `text` is a date in the form YYYY-MM-DD."""
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False
