"""A task as a line of the plan, and the line as a task."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from repoagent.dataclass import dataclass

TaskState = Literal["open", "active", "done", "dropped", "blocked"]

MARKS: Mapping[TaskState, str] = {"open": " ", "active": "~", "done": "x", "dropped": "-", "blocked": "!"}
SETTLED = frozenset({"done", "dropped"})
STATES: Mapping[str, TaskState] = {
    **{mark: state for state, mark in MARKS.items()}, "": "open", "X": "done", "/": "active", ">": "active",
}  # fmt: skip
ITEM = re.compile(
    r"(?P<indent>[ \t]*)(?P<bullet>[-*+]|[0-9]{1,9}[.)])[ \t]+\[(?P<mark>[ xX~!/>-]?)\][ \t]+(?P<rest>\S.*?)\s*"
)
_ID = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9}){0,60})[.:](?:\s+|\Z)")
_AFTER = re.compile(
    r"(?:\s+|\A)\(after ([0-9]{1,9}(?:\.[0-9]{1,9})*\.?(?:, *[0-9]{1,9}(?:\.[0-9]{1,9})*\.?)*)\)\Z"
)
_QUOTED = re.compile(r"\\+(?=(?:[-*+]|[0-9]{1,9}[.)])[ \t]+\[)")
_MOST, _DEEP = 10**8, 40
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Task:
    """One task. `after` are the ids of those that come before it, `under` is the id of the one it belongs to."""

    id: str
    title: str
    state: TaskState = "open"
    after: tuple[str, ...] = ()
    note: str = ""
    under: str = ""


@dataclass(frozen=True)
class Item:
    """Where a task stands: its line, where its first note ends, and where all ends that belongs to it (line numbers
    from 0, the ends excluded). `inner` is the indentation of what belongs to it; `numbered`, that its line says its
    id."""

    task: Task
    line: int
    note_end: int
    end: int
    indent: str
    bullet: str
    numbered: bool

    @property
    def inner(self) -> str:
        return self.indent + " " * (len(self.bullet) + 1)


def canonical(id: str) -> str:
    """An id as it is compared: "1.02." is "1.2"; what is no id stays as it is."""
    id = id.strip().rstrip(".:")
    parts = id.split(".")
    return ".".join(str(int(part)) for part in parts) if all(map(_NUMBER.fullmatch, parts)) else id


def split_title(text: str) -> tuple[str, tuple[str, ...]]:
    """A title and the ids in the `(after 1, 2)` at its end."""
    after: list[str] = []
    while found := _AFTER.search(text):
        after[:0] = [canonical(id) for id in found[1].split(",")]
        text = text[: found.start()]
    return text, tuple(dict.fromkeys(after))


def item_line(item: Item, task: Task) -> str:
    """The line that says `task` where `item` stands."""
    after = f" (after {', '.join(task.after)})" if task.after else ""
    return f"{item.indent}{item.bullet} [{MARKS[task.state]}] {task.id}. {task.title}".rstrip() + after


def quoted(line: str) -> str:
    """A line of a note, so that it is no task."""
    body = line.lstrip(" \t")
    return f"{line[: len(line) - len(body)]}\\{body}" if _QUOTED.match("\\" + body) else line


def unquoted(line: str) -> str:
    """What `quoted` made `line` of."""
    body = line.lstrip(" \t")
    return f"{line[: len(line) - len(body)]}{body[1:]}" if _QUOTED.match(body) else line


def said(rest: str) -> tuple[str, str, tuple[str, ...]]:
    """The id ("" for none), the title and the dependencies in what follows the mark of a line."""
    id = _ID.match(rest)
    title, after = split_title(rest[id.end() :] if id else rest)
    return (canonical(id[1]) if id else ""), title, after


def last_numbers(ids: Iterable[str]) -> dict[str, int]:
    """The highest number that is used below each id; what nobody counts up to does not matter."""
    last: dict[str, int] = {}
    for id in ids:
        above, _, number = id.rpartition(".")
        if int(number or 0) < _MOST:
            last[above] = max(last.get(above, 0), int(number or 0))
    return last


def next_id(last: dict[str, int], under: str) -> str:
    """The next free id under another ("" for the top), which then counts as used. Very deep ones are as at the top."""
    above = under if under.count(".") < _DEEP else ""
    last[above] = last.get(above, 0) + 1
    return f"{above}.{last[above]}".lstrip(".")
