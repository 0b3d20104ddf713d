"""Read the file and JSON field names of earlier versions, so that their runs can be resumed."""

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
    """Rename a file with the earlier name to `path`, and return `path`."""
    with suppress(OSError):
        earlier = path.with_name(_FILES[path.name])
        if not path.exists() and earlier.exists():
            earlier.rename(path)
    return path


def field(value: Mapping[str, Any], name: str, default: object = None) -> Any:
    """The field `name` of a JSON object, under its current or its earlier name."""
    return value.get(name, value.get(_FIELDS.get(name, name), default))
