"""A file's history as a person reads it: who, then step by step; fitted to the width of the terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from repoagent.cli.screen.clean import clean, columns, one_line, paint, width
from repoagent.cli.screen.terminal import has_utf8
from repoagent.history.steps import NAMES, did, lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from repoagent.cli.screen.terminal import Terminal
    from repoagent.history.past import Past
    from repoagent.history.people import Person
    from repoagent.history.steps import Step

PIPE_WIDTH = 120  # columns, where there is no terminal to measure
LEAST, MOST = 60, 200
NARROW = 80
PERSONS = 8
AUTHOR = 22
BAR = 12
_ASCII = str.maketrans("█−…", "#-.")  # one column each, as they are


def show(past: Past, terminal: Terminal) -> None:
    """Print it; what is not whole is said on standard error."""
    wide = max(LEAST, min(MOST, terminal.width if terminal.shows else PIPE_WIDTH))
    lines = [*_people(past, wide, terminal.color), "", *_steps(past.steps, past.path, wide, terminal.color)]
    text = "".join(f"{line.rstrip()}\n" for line in lines)
    terminal.styled(text if has_utf8(os.environ) else text.translate(_ASCII))
    for note in past.notes:
        terminal.note(note, "dim")
    left = past.people.commits - len(past.steps)
    if left > 0:
        terminal.note(f"{left:,} older commit{'s' * (left > 1)}: say --limit to see more", "dim")


def fitted(text: str, room: int) -> str:
    """`text` made clean, on one line of at most `room` columns."""
    return _cut(clean(" ".join(text.split())), room)


def _path(path: str, room: int) -> str:
    """A path in at most `room` columns, with each of its spaces and line ends to be seen."""
    return _cut(one_line(path), room)


def _cut(line: str, room: int) -> str:
    if columns(line) <= room:
        return line
    taken, kept = 0, []
    for character in line:
        taken += width(character, taken)
        if taken > room - 1:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def _people(past: Past, wide: int, color: bool) -> list[str]:
    people = past.people
    whole = people.commits
    persons = people.persons[:PERSONS]
    plural = "s" * (whole != 1)
    head = f"{_path(past.path, wide - 30)}: {'the last ' * people.partial}{whole:,} commit{plural}"
    lines = [paint(head, "bold") if color else head, ""]
    names = [fitted(person.name, AUTHOR + 8) for person in persons]
    newest = max((person.last for person in people.persons), default="")
    two_years = f"{int(newest[:4]) - 2:04}{newest[4:]}" if newest[:4].isdecimal() else ""
    most = max((person.commits for person in persons), default=1)
    first = max([columns(name) for name in names], default=0)
    digits = max([len(f"{person.commits:,}") for person in persons], default=0)
    for name, person in zip(names, persons, strict=True):
        bar = "█" * max(1, round(BAR * person.commits / most)) if wide >= LEAST + 20 else ""
        span = person.last if person.first == person.last else f"{person.first} to {person.last}"
        shown = bar + " " * (BAR - len(bar)) if bar else ""
        away = person.last < two_years
        who = _maybe(_padded(name, first), "dim", color and away)
        cells = [who, f"{person.commits:>{digits},}", span.ljust(24), _maybe(shown, "cyan", color)]
        lines.append("  ".join(cells))
    if rest := people.persons[PERSONS:]:
        said = f"and {len(rest)} more, with {sum(person.commits for person in rest):,} commits"
        lines.append(_maybe(fitted(said, wide), "dim", color))
    if people.bots:
        lines.append(_maybe(fitted(f"bots: {_counted(people.bots)}", wide), "dim", color))
    return lines


def _counted(persons: Sequence[Person]) -> str:
    return ", ".join(f"{person.name} {person.commits:,}" for person in persons)


def _steps(steps: Sequence[Step], path: str, wide: int, color: bool) -> list[str]:
    """Two lines for each commit; on a narrow terminal the author stands on the second."""
    narrow = wide < NARROW
    names = [fitted(step.commit.author, AUTHOR if wide >= 100 else 14) for step in steps]
    ids = max((len(step.commit.short) for step in steps), default=0)
    who = 0 if narrow else max(map(columns, names), default=0) + 2
    counts = [lines_of(step.commit) for step in steps]
    last = max(map(columns, counts), default=0)
    indent = 12 + ids + 2
    longest = max((columns(fitted(step.commit.subject, wide)) for step in steps), default=0)
    room = min(wide - indent - who - (last + 2 if last else 0), max(longest, len("(no subject)")))
    lines = []
    for step, name, count in zip(steps, names, counts, strict=True):
        commit = step.commit
        if commit.path != path:
            path = commit.path
            lines.append(_maybe(f"as {_path(path, wide - 4)}:", "dim", color))
        day = _padded(fitted(commit.date[:10], 10), 10)
        short = _padded(fitted(commit.short, ids), ids)
        subject = fitted(commit.subject, room) or "(no subject)"
        cells = [day, _maybe(short, "yellow", color), *([] if narrow else [_padded(name, who - 2)])]
        lines.append("  ".join([*cells, _padded(subject, room), *([count.rjust(last)] if last else [])]))
        left = wide - indent - (columns(name) + 2 if narrow else 0)
        what = _maybe(_what(step, left), "dim", color)
        if what or narrow:
            lines.append(" " * indent + (f"{name}  {what}" if narrow else what))
    return lines


def _what(step: Step, room: int) -> str:
    """What it did: with fewer names where the line is short."""
    if step.summary:
        return fitted(step.summary, room)
    for names in range(NAMES * 2, 0, -1):
        line = clean(did(step, names=names))
        if columns(line) <= room:
            return line
    return fitted(line, room)


def _padded(text: str, room: int) -> str:
    return text + " " * (room - columns(text))


def _maybe(text: str, style: str, color: bool) -> str:
    return paint(text, style) if color else text
