"""A unified diff for a terminal: git's colors, with the changed part of a changed line highlighted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import groupby

from repoagent.display_text import character_width, paint, sanitize

Segment = tuple[str, tuple[str, ...]]  # a text and its styles
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)", re.DOTALL)
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_COLORS = {"+": "green", "-": "red"}
_LONG = 400  # words; longer lines are not compared
_ALIKE = 0.5  # lines below this similarity are not versions of each other
_CONTINUED = "> "  # marks the rest of a folded line: no line of a diff begins with it


def render_diff(diff: str, *, color: bool, columns: int | None = None) -> str:
    """Make a canonical diff safe to print. It is colored if `color` is set, and wrapped at `columns` unless that is
    None.

    If every line of a hunk ends in a carriage return, these are dropped.
    """
    limit = max(columns, 20) if columns else None
    out = []
    for segments in _rows(diff.removesuffix("\n").split("\n") if diff else []):
        column = 0
        for text, styles in segments:
            shown = styles if color else ()
            start = 0
            for at, character in enumerate(text):
                step = character_width(character, column)
                if limit is not None and column + step > limit:
                    out += [paint(text[start:at], *shown), "\n", _CONTINUED]
                    start, column = at, len(_CONTINUED)
                    step = character_width(character, column)
                column += step
            out.append(paint(text[start:], *shown))
        out.append("\n")
    return "".join(out)


def _rows(lines: list[str]) -> Iterator[list[Segment]]:
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if match := _HUNK.fullmatch(line):
            yield [(line[: match.start(5)], ("cyan",)), (sanitize(match[5]), ())]
            # lines are counted, because their text may look like a header
            old, new, end = int(match[2] or 1), int(match[4] or 1), at
            while end < len(lines) and (old > 0 or new > 0 or lines[end].startswith("\\")):
                old -= lines[end].startswith((" ", "-"))
                new -= lines[end].startswith((" ", "+"))
                end += 1
            yield from _body(lines[at:end])
            at = end
        elif line == "GIT binary patch":
            while at < len(lines) and not lines[at].startswith("diff --git "):
                at += 1
            yield [("Binary content differs", ())]
        else:
            yield [(sanitize(line), ("bold",))]


def _body(lines: list[str]) -> Iterator[list[Segment]]:
    if all(line.endswith("\r") for line in lines if not line.startswith("\\")):
        lines = [line.removesuffix("\r") for line in lines]
    at = 0
    while at < len(lines):
        old = _run(lines, at, "-")
        new = _run(lines, at + len(old), "+")
        marks: dict[int, list[bool]] = {}
        if len(old) == len(new):
            for index, (before, after) in enumerate(zip(old, new, strict=True)):
                if pair := _compare(before[1:], after[1:]):
                    marks[index], marks[index + len(old)] = pair
        run = old + new or [lines[at]]
        for index, line in enumerate(run):
            yield _painted(line, marks.get(index))
        at += len(run)


def _run(lines: list[str], at: int, marker: str) -> list[str]:
    """The lines from `at` on that begin with `marker`, and git's note about a missing last newline."""
    end = at
    while end < len(lines) and lines[end].startswith((marker, "\\") if end > at else marker):
        end += 1
    return lines[at:end]


def _compare(before: str, after: str) -> tuple[list[bool], list[bool]] | None:
    """Whether each character of both lines changed; None if the lines have too little in common."""
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
    style = _COLORS.get(marker)
    if style is None:
        return [(sanitize(line), ())]
    body = text.rstrip(" \t\r") if marker == "+" else text
    segments: list[Segment] = [(marker, (style,))]
    at = 0
    for changed, run in groupby((marks or [False] * len(text))[: len(body)]):
        size = len(list(run))
        segments.append((sanitize(body[at : at + size]), (style, "reverse") if changed else (style,)))
        at += size
    segments.append((sanitize(text[len(body) :]), ("on-red",)))  # trailing whitespace, marked as in git
    return segments
