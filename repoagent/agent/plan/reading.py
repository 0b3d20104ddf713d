"""The lines of a plan as its tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from repoagent.agent.plan.lines import ITEM, STATES, Item, Task, last_numbers, next_id, said, unquoted
from repoagent.dataclass import dataclass

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
    found = _found(lines)
    ids = _ids(found)
    for one, id in zip(found, ids, strict=True):
        own, title, after = said(one.found["rest"])
        under = "" if one.under is None else ids[one.under]
        item = Item(
            Task(id, title, STATES[one.found["mark"]], after, "", under),
            one.line, one.note_end, one.end, one.found["indent"], one.found["bullet"], own == id,
        )  # fmt: skip
        yield replace(item, task=replace(item.task, note=_note(lines, one, item.inner)))


def _found(lines: Sequence[str]) -> list[_Open]:
    found: list[_Open] = []
    stack: list[int] = []
    hidden = _in_fences(lines)
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        match = None if number in hidden else ITEM.fullmatch(line)
        width = _width(line if match is None else match["indent"])
        while stack and found[stack[-1]].width >= width:
            stack.pop()
        for index in stack:
            found[index].end = number + 1
        if match:
            if stack:
                found[stack[-1]].closed = True
            under = stack[-1] if stack else None
            stack.append(len(found))
            found.append(_Open(match, number, width, under, [], number + 1, number + 1))
        elif stack:
            owner = found[stack[-1]]
            owner.note.append(number)
            if not owner.closed:
                owner.note_end = number + 1
    return found


def _in_fences(lines: Sequence[str]) -> set[int]:
    """The lines between code fences that stand at the beginning of a line; one that is never closed hides nothing."""
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


def _ids(found: Sequence[_Open]) -> list[str]:
    own = [said(one.found["rest"])[0] for one in found]
    last = last_numbers(own)
    ids: list[str] = []
    used: set[str] = set()
    for one, id in zip(found, own, strict=True):
        if not id or id in used:
            id = next_id(last, "" if one.under is None else ids[one.under])
        used.add(id)
        ids.append(id)
    return ids


def _note(lines: Sequence[str], one: _Open, inner: str) -> str:
    if not one.note:
        return ""
    own = set(one.note)
    wanted = [n for n in range(one.note[0], one.note[-1] + 1) if n in own or not lines[n].strip()]
    return "\n".join(_without(lines[number], inner) for number in wanted)


def _without(line: str, inner: str) -> str:
    line = line.rstrip()
    body = line[len(inner) :] if line.startswith(inner) else line.lstrip(" \t")
    return unquoted(body)
