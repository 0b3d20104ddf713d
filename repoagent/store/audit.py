"""The audit: one line for each command that was asked for or run, and each file that was written.

`audit.jsonl` in `.repoagent/` is for the person who wants to know what was done in their name. Nothing reads it to
decide anything. Keys and tokens are masked.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from repoagent.store import jsonl
from repoagent.store.atomic import append_line, set_aside
from repoagent.store.document import dumps
from repoagent.store.folders import folder
from repoagent.store.layout import Layout, ensure
from repoagent.store.locks import locked
from repoagent.store.masking import mask
from repoagent.store.report import Warn, to_stderr

VERSION = 1
LARGEST = 8 * 1024 * 1024  # bytes of audit.jsonl; then it becomes audit-1.jsonl, audit-2.jsonl, ...
LONGEST = 4_000  # characters of one text in a line


def record(layout: Layout, event: Mapping[str, object], *, warn: Warn = to_stderr) -> None:
    """Append `event` as one line: `version` and `time` (ISO 8601 with its zone), then what it says itself.

    Usual keys: kind ("decision", "command", "write"), run, command or path, before and after (blobs), allowed, by (who
    or what allowed it), exit, seconds, reason. Raises Busy or Refused when it can't be written.
    """
    record_all(layout, [event], warn=warn)


def record_all(layout: Layout, events: Iterable[Mapping[str, object]], *, warn: Warn = to_stderr) -> None:
    """As `record`, of events of the same moment: they are written together, and waited for once."""
    head = {
        "version": VERSION,
        "time": datetime.now().astimezone().isoformat(timespec="milliseconds"),
    }
    lines = [dumps({**head, **{key: _plain(value) for key, value in event.items()}}) for event in events]
    if not lines:
        return
    ensure(layout)
    _make_room(layout, layout.audit, warn)
    append_line(layout.audit, b"\n".join(lines))


def read(layout: Layout, *, warn: Warn = to_stderr) -> Iterator[dict[str, Any]]:
    """All events, the oldest first; those of a newer format too, as they stand."""
    for path in files(layout):
        yield from jsonl.read(path, warn=warn)


def files(layout: Layout) -> list[Path]:
    """The files of the audit, the oldest first."""
    older = {}
    for path in layout.root.glob("audit-*.jsonl"):
        if match := re.fullmatch(r"audit-(\d+)\.jsonl", path.name):
            older[int(match[1])] = path
    present = [layout.audit] if layout.audit.exists() else []
    return [*(older[number] for number in sorted(older)), *present]


def _make_room(layout: Layout, path: Path, warn: Warn) -> None:
    """Move a file that is full, or none of ours, out of the way; in turn with other processes."""
    if not _is_in_the_way(path):
        return
    with locked(layout.locks / "audit", what="the audit"):
        if not _is_in_the_way(path):
            return
        if path.is_symlink() or not path.is_file():
            warn(f"{path} is not repoagent's own; it is kept as {set_aside(path).name}")
            return
        numbers = [int(file.stem.partition("-")[2]) for file in files(layout) if file != path]
        with folder(path.parent) as parent:
            name = f"audit-{max(numbers, default=0) + 1}.jsonl"
            os.rename(path.name, name, src_dir_fd=parent, dst_dir_fd=parent)


def _is_in_the_way(path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(found.st_mode) or found.st_size >= LARGEST


def _plain(value: object) -> object:
    """A value as it may be kept: texts masked and of bounded length, what is no JSON as text."""
    if isinstance(value, str):
        text = mask(value)
        left = len(text) - LONGEST
        return text if left <= 0 else f"{text[:LONGEST]}… ({left} characters more)"
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return _plain(str(value))
