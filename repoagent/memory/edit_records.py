"""`edits.jsonl`: one line per edit of a file, and one more when its state changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.llm.model import Usage
from repoagent.storage import jsonl
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
    jsonl.append_record(path, record.to_dict())


def read_edits(path: Path, *, warn: Warn = to_stderr) -> list[EditRecord]:
    """The edits in `path`, oldest first, each as its last line has it. Lines that are none are skipped and
    counted."""
    edits: dict[str, EditRecord] = {}
    skipped = 0
    for value in jsonl.read_records(path, warn=warn):
        record = EditRecord.from_dict(value)
        if record is None:
            skipped += 1
        else:
            edits[record.id] = record
    if skipped:
        warn(f"{path}: skipped {skipped} invalid line(s)")
    return list(edits.values())
