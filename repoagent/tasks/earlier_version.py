"""Names that an earlier version used for the files and JSON fields of a run, so that its runs can be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_FILES = {
    "commit.json": "landing.json",
    "snapshot.json": "look.json",
    "snapshots": "looks",
    "subagent.json": "child.json",
}
_FIELDS = {
    "activity": "doing",
    "options": "said",
    "overlapping": "mixed",
    "pending": "coming",
    "pid_start": "born",
    "process_started": "begun",
}


def current(path: Path) -> Path:
    """`path`, after renaming a file of its earlier name to it."""
    with suppress(OSError):
        earlier = path.with_name(_FILES[path.name])
        if not path.exists() and earlier.exists():
            earlier.rename(path)
    return path


def field(value: Mapping[str, Any], name: str, default: object = None) -> Any:
    """The field `name` of a JSON object, under its present or its earlier name."""
    return value.get(name, value.get(_FIELDS.get(name, name), default))
