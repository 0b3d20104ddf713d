"""`edits.jsonl`, one line per edit of a file and one more when its state changes; and the exchanges about a file.

An exchange is a request with the turns that followed it and its outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, fields
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


@dataclass(frozen=True)
class EditRecord:
    """One edit of one file. `time` is ISO 8601 with its zone; blobs are of raw work-tree bytes, "" for no
    file.

    `levels` says how each hunk was placed ("exact", …). `cost` is in US dollars, None where no price is
    known. `state` is free: "committed", "written" (no commit), "proposed", "refused", "undone", "redone". `reasons`
    are the codes of what was refused last, where nothing landed.
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
        """The record in a parsed line, unknown fields left out; None when it is not one, or of a newer
        format."""
        version = value.get("version")
        if not isinstance(version, int) or version > VERSION:
            return None
        known = {f.name: value[f.name] for f in fields(cls) if f.name in value}
        usage, levels, reasons = known.pop("usage", {}), known.pop("levels", []), known.pop("reasons", [])
        cost, commit = known.pop("cost", None), known.pop("commit", None)
        if not all(isinstance(text, str) for text in (*known.values(), *levels, *reasons, commit or "")):
            return None
        if not isinstance(cost, float | int | None) or not isinstance(usage, dict):
            return None
        try:
            known |= {"levels": tuple(levels), "reasons": tuple(reasons)}
            return cls(**known, usage=Usage(**usage), cost=cost, commit=commit)
        except TypeError:  # a field is missing, or the usage is of another make
            return None


def append_edit(path: Path, record: EditRecord) -> None:
    """Append `record` to the edits file `path` (of a memory, or of the work tree), durably."""
    json_files.append_record(path, record.to_dict())


def read_edits(path: Path, *, warn: Warn = to_stderr) -> list[EditRecord]:
    """The edits in `path`, oldest first, each as its last line has it. Lines that are none are skipped and
    counted."""
    edits: dict[str, EditRecord] = {}
    skipped = 0
    for value in json_files.read_records(path, warn=warn):
        record = EditRecord.from_dict(value)
        if record is None:
            skipped += 1
        else:
            edits[record.id] = record
    if skipped:
        warn(f"{path}: skipped {skipped} invalid line(s)")
    return list(edits.values())


FAILED = frozenset({"refused", "failed", "declined", "rejected", "undone"})


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
