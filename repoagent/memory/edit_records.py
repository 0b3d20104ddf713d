"""`edits.jsonl`, one line per edit of a file and one more when its state changes; and the exchanges about a file.

An exchange is a request with the turns that followed it and its outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from datetime import date
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.llm.conversation import Turn, read
from repoagent.llm.model import Usage
from repoagent.memory.identity.record import Memory
from repoagent.storage import json_files
from repoagent.storage.layout import Warn, to_stderr

VERSION = 1
FAILED = frozenset({"refused", "failed", "declined", "rejected", "undone"})


@dataclass(frozen=True)
class EditRecord:
    """One edit of one file. `time` is ISO 8601 with its zone; blobs are of raw work-tree bytes, "" for no
    file.

    `levels` says how each hunk was placed ("exact", …). `cost` is in US dollars, None where no price is
    known. `state` is free: "committed", "written" (no commit), "proposed", "refused", "undone", "redone". `reasons`
    are the codes of the last refusal, if nothing was written.
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
        """The record in a parsed line, unknown fields left out; None if it is not one, or of a newer
        format."""
        version = value.get("version")
        if not isinstance(version, int) or version > VERSION:
            return None
        known = {f.name: value[f.name] for f in fields(cls) if f.name in value}
        try:
            usage, cost, commit = (
                Usage(**known.pop("usage", {})),
                known.pop("cost", None),
                known.pop("commit", None),
            )
            levels, reasons = tuple(known.pop("levels", ())), tuple(known.pop("reasons", ()))
            record = cls(**known, usage=usage, cost=cost, commit=commit, levels=levels, reasons=reasons)
        except TypeError:  # a field is missing, or has another type
            return None
        texts = (*known.values(), *levels, *reasons, commit or "")
        is_valid = all(isinstance(text, str) for text in texts) and isinstance(cost, float | int | None)
        return record if is_valid else None


def append_edit(path: Path, record: EditRecord) -> None:
    """Append `record` to the edits file `path` (of a memory, or of the work tree), durably."""
    json_files.append_record(path, record.to_dict())


def read_edits(path: Path, *, warn: Warn = to_stderr) -> list[EditRecord]:
    """The edits in `path`, oldest first, each as its last line has it. Invalid lines are skipped and
    counted."""
    records = [EditRecord.from_dict(value) for value in json_files.read_records(path, warn=warn)]
    if skipped := records.count(None):
        warn(f"{path}: skipped {skipped} invalid line(s)")
    return list({record.id: record for record in records if record is not None}.values())


@dataclass(frozen=True)
class Exchange:
    """A request and its result. `turns` begin with the request, and are empty if only the record of the edit exists.
    `state` is that of the record ("committed", …), `time` is ISO 8601; "" if unknown."""

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
    """All exchanges in the present files of `memory`, oldest first. If the conversation can't be read, there is a
    warning, and only the records of edits are used."""
    records = {record.id: record for record in read_edits(memory.edits, warn=warn)}
    try:
        conversation = read(memory.conversation)
    except Refused as error:  # edited beyond recognition, of a newer format, a link
        warn(str(error))
        conversation = None
    found = []
    for turns in group_turns(conversation.turns if conversation else ()):
        exchange = exchange_of(turns)
        if record := records.pop(exchange.id, None):
            time, commit = exchange.time or record.time, record.commit or ""
            exchange = replace(exchange, time=time, state=record.state, commit=commit)
        found.append(exchange)
    for record in records.values():
        found.append(Exchange(record.id, record.time, record.request, (), record.state, record.commit or ""))
    times: list[str] = []
    for exchange in found:  # one that a user wrote without a time follows what precedes it
        times.append(exchange.time or (times[-1] if times else ""))
    return [exchange for _, exchange in sorted(zip(times, found, strict=True), key=lambda pair: pair[0])]


def group_turns(turns: Iterable[Turn]) -> list[tuple[Turn, ...]]:
    """The turns of each exchange: a request of the user, and what came before the next one."""
    groups: list[list[Turn]] = []
    for turn in turns:
        if turn.role == "user" or not groups:
            groups.append([])
        groups[-1].append(turn)
    return [tuple(group) for group in groups]


def exchange_of(turns: Sequence[Turn]) -> Exchange:
    """The exchange of which `turns` are, with the outcome as far as they say it."""
    first, last = turns[0].meta, turns[-1].meta
    request = turns[0].text if turns[0].role == "user" else ""
    time = next((turn.meta["time"] for turn in turns if "time" in turn.meta), "")
    state, commit = last.get("state", ""), last.get("commit", "")
    return Exchange(first.get("edit", ""), time, request, tuple(turns), state, commit)


def is_day(text: str) -> bool:
    """Whether `text` is a date as YYYY-MM-DD."""
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False
