"""A plan as a text whose tasks are its check-list lines. Any text is a plan; only changed lines are rewritten.

    - [x] 1. Find out why the test fails
    - [~] 2. Fix the parser (after 1)
      Indented text below a task is its note.
      - [ ] 2.1. Read a number with a sign

An id stays with its line wherever it is moved. A line without one, or with that of an earlier line, gets the next free
id below its parent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
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
    """The position of a task: its line, the end of its first note, and the end of all that belongs to it (from 0, ends
    excluded). `inner` is the indentation of its content; `numbered`: its line has its id."""

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
    """An id as it is compared: "1.02." is "1.2"; other text is returned unchanged."""
    id = id.strip().rstrip(".:")
    parts = id.split(".")
    return ".".join(str(int(part)) for part in parts) if all(map(_NUMBER.fullmatch, parts)) else id


def split_title(text: str) -> tuple[str, tuple[str, ...]]:
    """A title and the ids in the `(after 1, 2)` at its end."""
    after: list[str] = []
    while match := _AFTER.search(text):
        after[:0] = [canonical(id) for id in match[1].split(",")]
        text = text[: match.start()]
    return text, tuple(dict.fromkeys(after))


def item_line(item: Item, task: Task) -> str:
    """The line that says `task` where `item` stands."""
    after = f" (after {', '.join(task.after)})" if task.after else ""
    return f"{item.indent}{item.bullet} [{MARKS[task.state]}] {task.id}. {task.title}".rstrip() + after


def quoted(line: str) -> str:
    """Escape a line of a note that would be read as a task."""
    body = line.lstrip(" \t")
    return f"{line[: len(line) - len(body)]}\\{body}" if _QUOTED.match("\\" + body) else line


def unquoted(line: str) -> str:
    """What `quoted` made `line` of."""
    body = line.lstrip(" \t")
    return f"{line[: len(line) - len(body)]}{body[1:]}" if _QUOTED.match(body) else line


def read_title(rest: str) -> tuple[str, str, tuple[str, ...]]:
    """The id ("" for none), the title and the dependencies in what follows the mark of a line."""
    id = _ID.match(rest)
    title, after = split_title(rest[id.end() :] if id else rest)
    return (canonical(id[1]) if id else ""), title, after


def last_numbers(ids: Iterable[str]) -> dict[str, int]:
    """The highest number in use below each id; absurdly high ones do not count."""
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


_FENCE = re.compile(r"(`{3,}|~{3,})")


@dataclass
class _Open:
    """An item while its lines are read."""

    found: re.Match[str]
    line: int
    width: int
    under: int | None
    note: list[int]
    end: int
    note_end: int
    closed: bool = False  # it has children: what comes now is still its note, but not of the first piece


def items(lines: Sequence[str]) -> Iterator[Item]:
    """The tasks in `lines`, in their order, each with where it stands."""
    unfinished = _entries(lines)
    ids = _ids(unfinished)
    for entry, id in zip(unfinished, ids, strict=True):
        own, title, after = read_title(entry.found["rest"])
        under = "" if entry.under is None else ids[entry.under]
        item = Item(
            Task(id, title, STATES[entry.found["mark"]], after, "", under),
            entry.line, entry.note_end, entry.end, entry.found["indent"], entry.found["bullet"], own == id,
        )  # fmt: skip
        yield replace(item, task=replace(item.task, note=_note(lines, entry, item.inner)))


def _entries(lines: Sequence[str]) -> list[_Open]:
    entries: list[_Open] = []
    stack: list[int] = []
    hidden = _in_fences(lines)
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        match = None if number in hidden else ITEM.fullmatch(line)
        width = _width(line if match is None else match["indent"])
        while stack and entries[stack[-1]].width >= width:
            stack.pop()
        for index in stack:
            entries[index].end = number + 1
        if match:
            if stack:
                entries[stack[-1]].closed = True
            under = stack[-1] if stack else None
            stack.append(len(entries))
            entries.append(_Open(match, number, width, under, [], number + 1, number + 1))
        elif stack:
            owner = entries[stack[-1]]
            owner.note.append(number)
            if not owner.closed:
                owner.note_end = number + 1
    return entries


def _in_fences(lines: Sequence[str]) -> set[int]:
    """The lines in fenced code that starts at column 0; an unclosed fence hides nothing."""
    hidden: set[int] = set()
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if opened is None:
            opened = (number, fence[1]) if fence else None
        elif fence and fence[1].startswith(opened[1]) and not line[fence.end() :].strip():
            hidden.update(range(opened[0], number + 1))
            opened = None
    return hidden


def _width(line: str) -> int:
    blank = line[: len(line) - len(line.lstrip(" \t"))]
    return len(blank.expandtabs(4))


def _ids(entries: Sequence[_Open]) -> list[str]:
    own = [read_title(entry.found["rest"])[0] for entry in entries]
    last = last_numbers(own)
    ids: list[str] = []
    used: set[str] = set()
    for entry, id in zip(entries, own, strict=True):
        if not id or id in used:
            id = next_id(last, "" if entry.under is None else ids[entry.under])
        used.add(id)
        ids.append(id)
    return ids


def _note(lines: Sequence[str], entry: _Open, inner: str) -> str:
    if not entry.note:
        return ""
    own = set(entry.note)
    numbers = [n for n in range(entry.note[0], entry.note[-1] + 1) if n in own or not lines[n].strip()]
    note = [lines[number].rstrip() for number in numbers]
    return "\n".join(
        unquoted(line[len(inner) :] if line.startswith(inner) else line.lstrip(" \t")) for line in note
    )


EMPTY = "# Plan\n\n<!-- [ ] open, [~] active, [x] done, [-] dropped, [!] blocked. Edit freely; a new line needs no "
"number. -->\n\n"


@dataclass(frozen=True)
class Plan:
    """The text of a plan, whatever it is, and what of it are tasks, in its order."""

    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def items(self) -> tuple[Item, ...]:
        return tuple(items(self.lines))

    @property
    def tasks(self) -> tuple[Task, ...]:
        return tuple(item.task for item in self.items)

    @cached_property
    def open(self) -> tuple[Task, ...]:
        """The unsettled tasks; settling a task settles its subtasks, too."""
        settled: set[str] = set()
        left = []
        for task in self.tasks:
            if task.state in SETTLED or task.under in settled:
                settled.add(task.id)
            else:
                left.append(task)
        return tuple(left)

    def item(self, id: str) -> Item | None:
        return next((item for item in self.items if item.task.id == id), None)
