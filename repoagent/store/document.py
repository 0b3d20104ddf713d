"""A JSON file with a `version`: a broken one is set aside, a newer one refused, neither is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from repoagent.errors import Refused
from repoagent.store.atomic import read_regular, set_aside, write_whole
from repoagent.store.report import Warn, to_stderr


class Newer(Refused):
    """A file was written by a newer repoagent than this one."""


def now() -> str:
    """The present as ISO 8601 with its zone, for records."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def dumps(value: Mapping[str, Any], *, indent: int | None = None) -> bytes:
    """JSON as people read it: real characters where that is valid UTF-8, escapes for names that are not."""
    separators = None if indent else (",", ":")
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators).encode()
    except UnicodeEncodeError:  # a lone surrogate: a file name that is no UTF-8, decoded with os.fsdecode
        return json.dumps(value, indent=indent, separators=separators).encode()


def write(path: Path, value: Mapping[str, Any], *, version: int, indent: int | None = 1) -> None:
    """Write `value` whole, with its `version` first. Raises Refused as `write_whole` does.

    `indent` None is for large derived files: it takes a tenth of the time, and nobody edits them.
    """
    write_whole(path, dumps({"version": version, **value}, indent=indent) + b"\n")


def read(path: Path, *, version: int, warn: Warn = to_stderr) -> dict[str, Any] | None:
    """The object in `path`, or None when there is none that can be used.

    A broken or foreign file is set aside as NAME.broken-N and reported by name through `warn`. Raises
    Newer when its version is above `version`, Refused when it is no regular file.
    """
    data = read_regular(path)
    if data is None:
        return None
    value = parse(data)
    if value is None:
        put_aside(path, "is broken or not repoagent's own", warn)
        return None
    if value["version"] > version:
        raise Newer(
            f"{path} has format version {value['version']} and this repoagent knows up to {version}: "
            "update repoagent, or move the file away"
        )
    return value


def parse(data: bytes) -> dict[str, Any] | None:
    """The JSON object in `data` if it has a whole positive number as `version`, else None."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    version = value.get("version")
    return value if isinstance(version, int) and not isinstance(version, bool) and version > 0 else None


def put_aside(path: Path, why: str, warn: Warn) -> None:
    """Set `path` aside and say so; nothing happens when another process has done it already."""
    try:
        kept = set_aside(path)
    except FileNotFoundError:
        return
    warn(f"{path} {why}; it is kept as {kept.name}")
