"""JSON documents with a `version`, files with one JSON object per line, and the audit.

A broken document is renamed, and one in a newer format is refused; neither is lost. The audit,
`.repoagent/audit.jsonl`, has a line for each command that was requested or run and for each file written, with secrets
masked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from repoagent.errors import Refused
from repoagent.storage.atomic import append_line, read_regular, set_aside_broken, write_whole
from repoagent.storage.layout import Layout, Warn, ensure_root, to_stderr

T = TypeVar("T")
_hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)  # it takes 0.1 ms


class NewerFormat(Refused):
    """A file was written by a newer repoagent."""


def timestamp() -> str:
    """The current time as ISO 8601 with time zone, for records."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def dumps(value: Mapping[str, Any], *, indent: int | None = None) -> bytes:
    """`value` as JSON. Non-ASCII characters are escaped only if one of them is a lone surrogate, which UTF-8 cannot
    encode."""
    separators = None if indent else (",", ":")
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators).encode()
    except UnicodeEncodeError:  # a lone surrogate: a file name that is not UTF-8, decoded with os.fsdecode
        return json.dumps(value, indent=indent, separators=separators).encode()


def write_document(path: Path, value: Mapping[str, Any], *, version: int, indent: int | None = 1) -> None:
    """Write `value` atomically, with `version` first. Without `indent`, this is ten times faster. Raises Refused as
    `write_whole` does."""
    write_whole(path, dumps({"version": version, **value}, indent=indent) + b"\n")


def read_document(path: Path, *, version: int, warn: Warn = to_stderr) -> dict[str, Any] | None:
    """The JSON object in `path`; None if the file is missing or broken. A broken file is renamed to NAME.broken-N, with
    a warning. Raises NewerFormat if its version is above `version`, Refused if it cannot be read."""
    data = read_regular(path)
    if data is None:
        return None
    value = parse_document(data)
    if value is None:
        set_aside_broken(path, "is damaged or was not written by repoagent", warn)
        return None
    if value["version"] > version:
        raise NewerFormat(
            f"{path} has format version {value['version']}, newer than the supported {version}: update "
            "repoagent, or move the file away"
        )
    return value


def parse_document(data: bytes) -> dict[str, Any] | None:
    """The JSON object in `data`; None if it has no positive integer as `version`."""
    value = record_of(data) or {}
    version = value.get("version")
    return value if isinstance(version, int) and not isinstance(version, bool) and version > 0 else None


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Append `record` as one line of JSON. Raises what `append_line` raises."""
    append_line(path, dumps(record))


def read_records(path: Path, *, warn: Warn = to_stderr) -> Iterator[dict[str, Any]]:
    """The records in `path`, oldest first; none if there is no such file. Broken lines are skipped, and counted in one
    warning."""
    data = read_regular(path)
    if data is None:
        return
    lines = data.split(b"\n")
    broken: list[int] = []
    for number, line in enumerate(lines, 1):
        record = record_of(line)
        if record is not None:  # includes a last line without a newline, after an edit by hand
            yield record
        elif line.strip() and number < len(lines):
            broken.append(number)
    if broken:
        warn(f"{path}: skipped {len(broken)} broken line(s), the first at line {broken[0]}")


def record_of(line: bytes) -> dict[str, Any] | None:
    """The object in `line`; None if it contains no JSON object."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def decode(cls: type[T], value: Mapping[str, Any]) -> T:
    """Convert a JSON object to the dataclass `cls`. Unknown fields are ignored, except in nested dataclasses.

    A field is text, a number, a bool, a Literal, a tuple, a mapping or a dataclass; each may be optional. Raises
    TypeError if a field without a default is missing, or a field has the wrong type.
    """
    hints = _hints(cls).items()
    return cls(**{name: _decoded(name, hint, value[name]) for name, hint in hints if name in value})


def _decoded(name: str, hint: Any, value: Any) -> Any:
    if type(value) is hint or (hint is float and type(value) is int):
        return value
    kind, parts = get_origin(hint), get_args(hint)
    if kind is UnionType:  # with None
        return None if value is None else _decoded(name, parts[0], value)
    if kind is Literal and value in parts:
        return value
    if kind is tuple and isinstance(value, list):
        return tuple(_decoded(name, parts[0], item) for item in value)
    if isinstance(value, dict):
        if kind is Mapping:
            return {key: _decoded(name, parts[1], item) for key, item in value.items()}
        if isinstance(hint, type) and is_dataclass(hint) and value.keys() <= _hints(hint).keys():
            return decode(hint, value)
    raise TypeError(f"{name} has the invalid value {str(value)[:80]!r}")


VERSION = 1
LONGEST = 4_000  # characters of a string in a line


def record(layout: Layout, *events: Mapping[str, object]) -> None:
    """Append `events` to the audit log, one line each, with one write and one sync. Raises Busy or Refused if the log
    cannot be written.

    The usual keys are kind ("decision", "command", "write"), run, command or path, before and after (blobs), allowed,
    by (who or what allowed it), exit, seconds and reason.
    """
    head = {"version": VERSION, "time": datetime.now().astimezone().isoformat(timespec="milliseconds")}
    lines = [dumps({**head, **{key: _plain(value) for key, value in event.items()}}) for event in events]
    if not lines:
        return
    ensure_root(layout)
    append_line(layout.audit, b"\n".join(lines))


def _plain(value: object) -> object:
    """A value for the audit: strings masked and shortened, values that are not JSON as strings."""
    if isinstance(value, str):
        from repoagent.storage.secrets import mask  # only the audit needs it

        text = mask(value)
        left = len(text) - LONGEST
        return text if left <= 0 else f"{text[:LONGEST]}… ({left} characters more)"
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return _plain(str(value))
