"""A unified diff for a person: git's colours, and in a changed line the part that changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from repoagent.cli.ui.sanitize import clean, paint, width
from repoagent.edit.hunk_selection import HUNK, hunk_end

Segment = tuple[str, tuple[str, ...]]  # a text and its styles
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_COLORS = {"+": "green", "-": "red"}
_LONG = 400  # words; what changed within longer lines is not looked for
_ALIKE = 0.5  # below this two lines are not versions of one another
_CONTINUED = "> "  # stands where a folded line goes on: no line of a diff begins with it


def render(diff: str, *, color: bool, columns: int | None = None) -> str:
    """A canonical diff, fit for a terminal: clean, painted if `color`, folded at `columns` if that is given.

    Carriage returns are left out where each line of a hunk ends with one (a CRLF file).
    """
    lines = diff.removesuffix("\n").split("\n") if diff else []
    return "".join(_print(segments, color, columns) for segments in _rows(lines))


def _rows(lines: list[str]) -> Iterator[list[Segment]]:
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        if match := HUNK.fullmatch(line):
            head, section = line[: match.start(5)], match[5]
            yield [(head, ("cyan",)), (clean(section), ())]
            end = hunk_end(lines, place, int(match[2] or 1), int(match[4] or 1))
            yield from _body(lines[place:end])
            place = end
        elif line == "GIT binary patch":
            while place < len(lines) and not lines[place].startswith("diff --git "):
                place += 1
            yield [("Binary content differs", ())]
        else:
            yield [(clean(line), ("bold",))]


def _body(lines: list[str]) -> Iterator[list[Segment]]:
    if all(line.endswith("\r") for line in lines if not line.startswith("\\")):
        lines = [line.removesuffix("\r") for line in lines]
    place = 0
    while place < len(lines):
        old = _run(lines, place, "-")
        new = _run(lines, place + len(old), "+")
        if old or new:
            yield from _changed(old, new)
            place += len(old) + len(new)
        else:
            yield [(clean(lines[place]), ())]
            place += 1


def _run(lines: list[str], place: int, marker: str) -> list[str]:
    """The lines from `place` on that begin with `marker`, with what git says of a missing last newline."""
    end = place
    while end < len(lines) and lines[end].startswith((marker, "\\") if end > place else marker):
        end += 1
    return lines[place:end]


def _changed(old: list[str], new: list[str]) -> Iterator[list[Segment]]:
    marks: dict[int, list[bool]] = {}
    if len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            if pair := _compare(before[1:], after[1:]):
                marks[index], marks[index + len(old)] = pair
    for index, line in enumerate(old + new):
        yield _painted(line, marks.get(index))


def _compare(before: str, after: str) -> tuple[list[bool], list[bool]] | None:
    """For each character of both lines whether it changed; None when the lines have too little in common."""
    words = _WORD.findall(before), _WORD.findall(after)
    if before == after or max(map(len, words)) > _LONG:
        return None
    matcher = SequenceMatcher(None, *words, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return None
    marks: tuple[list[bool], list[bool]] = ([], [])
    for tag, a, b, c, d in matcher.get_opcodes():
        for mark, text in ((marks[0], words[0][a:b]), (marks[1], words[1][c:d])):
            mark += [tag != "equal"] * len("".join(text))
    return marks


def _painted(line: str, marks: list[bool] | None) -> list[Segment]:
    marker, text = line[:1], line[1:]
    style = _COLORS.get(marker, "")
    if not style:
        return [(clean(line), ())]
    body = text.rstrip(" \t\r") if marker == "+" else text
    segments: list[Segment] = [(marker, (style,))]
    for changed, part in _parts(body, marks or [False] * len(body)):
        segments.append((clean(part), (style, "reverse") if changed else (style,)))
    segments.append((clean(text[len(body) :]), ("on-red",)))  # white space at the end, as git marks it
    return segments


def _parts(text: str, marks: list[bool]) -> Iterator[tuple[bool, str]]:
    start = 0
    for place in range(1, len(text) + 1):
        if place == len(text) or marks[place] != marks[start]:
            yield marks[start], text[start:place]
            start = place


def _print(segments: list[Segment], color: bool, columns: int | None) -> str:
    room = max(columns, 20) if columns else None
    column = 0
    out = []
    for text, styles in segments:
        start = 0
        for place, character in enumerate(text):
            step = width(character, column)
            if room is not None and column + step > room:
                out += [paint(text[start:place], *styles) if color else text[start:place], "\n", _CONTINUED]
                start, column = place, len(_CONTINUED)
                step = width(character, column)
            column += step
        out.append(paint(text[start:], *styles) if color else text[start:])
    return "".join(out) + "\n"
