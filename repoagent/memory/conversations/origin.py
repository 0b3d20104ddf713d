"""Where a copy came from: one line between the first line of a conversation file and its first turn.

    parent: {"name": "review", "turns": 6, "of": 9, "sha256": "3f2a…", "time": "2026-11-22T10:00:00+00:00"}

The format knows no such line: what stands before the first turn is text, and every reader of conversations passes it.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.llm.conversation import starts

_REACH = 4_000  # characters in which the line begins: it stands behind the first one
_LINE = re.compile(r"(?m)^parent: (\{.*\})[ \t]*\r?\n(?:\r?\n)?")


@dataclass(frozen=True)
class Parent:
    """The conversation `name` as it was: `turns` of its `of` turns were taken, `sha256` is of its bytes, `time` ISO
    8601."""

    name: str
    turns: int
    of: int
    sha256: str
    time: str


def head_of(text: str) -> str:
    """What stands before the first turn. Raises as `llm.conversation.loads`."""
    return text[: next(iter(starts(text)), len(text))]


def parent_of(text: str) -> Parent | None:
    """Where the conversation in `text` came from; None where it does not say. Raises as `llm.conversation.loads`."""
    if "\nparent: " not in text[:_REACH]:  # most have none, and finding the first turn takes a while
        return None
    line = _LINE.search(head_of(text))
    try:
        value = json.loads(line[1]) if line else None
    except (ValueError, RecursionError):
        return None
    return _parsed(value)


def with_parent(text: str, parent: Parent) -> str:
    """`text` with the line that says so, in place of the one it had."""
    head = head_of(text)
    title, _, rest = head.partition("\n")
    kept = _LINE.sub("", rest, count=1).lstrip("\n")
    line = json.dumps(asdict(parent), ensure_ascii=False)
    return f"{title}\n\nparent: {line}\n\n{kept}{text[len(head) :]}"


def _parsed(value: Any) -> Parent | None:
    if not isinstance(value, dict):
        return None
    name, digest, time = (value.get(key) for key in ("name", "sha256", "time"))
    turns, of = value.get("turns"), value.get("of")
    if not all(isinstance(each, str) for each in (name, digest, time)):
        return None
    if not isinstance(turns, int) or not isinstance(of, int):
        return None
    return Parent(str(name), turns, of, str(digest), str(time))
