"""One JSON object a line: what is only ever appended to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from repoagent.store.atomic import append_line, read_regular
from repoagent.store.document import dumps
from repoagent.store.report import Warn, to_stderr


def append(path: Path, record: Mapping[str, Any]) -> None:
    """Append `record` as one line, under a lock, durably. Raises Busy or Refused as `append_line` does."""
    append_line(path, dumps(record))


def read(path: Path, *, warn: Warn = to_stderr) -> Iterator[dict[str, Any]]:
    """The records of `path`, oldest first; none when there is no such file.

    Lines that are no JSON object are skipped and counted in one warning. A last line without its newline
    is the work of a crash, or of a writer who is not done: it is left out without a word.
    """
    data = read_regular(path)
    if data is None:
        return
    *lines, rest = data.split(b"\n")
    broken: list[int] = []
    for number, line in enumerate(lines, 1):
        record = record_of(line)
        if record is not None:
            yield record
        elif line.strip():
            broken.append(number)
    record = record_of(rest)
    if record is not None:  # edited by hand, without a final newline
        yield record
    if broken:
        warn(f"{path}: {len(broken)} broken line(s) skipped, the first is line {broken[0]}")


def record_of(line: bytes) -> dict[str, Any] | None:
    """The object in `line`; None where it is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
