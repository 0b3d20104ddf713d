"""The lines of an `edits.jsonl` that may come from anybody."""

from __future__ import annotations

from typing import Any

from repoagent.memory.records import EditRecord
from repoagent.store import document

_USAGE = ("input", "output", "cache_read", "cache_write")


def record_of(line: bytes) -> dict[str, Any] | None:
    """The edit in a line of `edits.jsonl`; None for what is none, or has a part of the wrong type."""
    value = document.parse(line)
    record = None if value is None else EditRecord.from_dict(value)
    if value is None or record is None:
        return None
    numbers = [getattr(record.usage, name) for name in _USAGE]
    dollars = record.usage.dollars
    sound = all(isinstance(one, int) and one >= 0 for one in numbers)
    return value if sound and isinstance(dollars, float | int | None) else None
