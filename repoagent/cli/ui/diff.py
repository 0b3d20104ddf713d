"""A unified diff for a terminal, in git's colors."""

from __future__ import annotations

from collections.abc import Iterator

from repoagent.cli.ui.terminal_text import clean, paint, width
from repoagent.edit.hunk_selection import HUNK, hunk_end

Segment = tuple[str, tuple[str, ...]]  # a text and its styles
_COLORS = {"+": "green", "-": "red"}
_CONTINUED = "> "  # marks the rest of a folded line: no line of a diff begins with it


def render(diff: str, *, color: bool, columns: int | None = None) -> str:
    """Sanitize a canonical diff, paint it if `color`, and fold it at `columns` unless None. Drops the carriage returns
    of a hunk if each line ends with one (a CRLF file)."""
    lines = diff.removesuffix("\n").split("\n") if diff else []
    return "".join(_print(segments, color, columns) for segments in _rows(lines))


def _rows(lines: list[str]) -> Iterator[list[Segment]]:
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if match := HUNK.fullmatch(line):
            yield [(line[: match.start(5)], ("cyan",)), (clean(match[5]), ())]
            end = hunk_end(lines, at, int(match[2] or 1), int(match[4] or 1))
            body = lines[at:end]
            if all(line.endswith("\r") for line in body if not line.startswith("\\")):
                body = [line.removesuffix("\r") for line in body]
            for line in body:
                style = _COLORS.get(line[:1])
                text = line.rstrip(" \t\r") if line.startswith("+") else line
                # whitespace at the end of an added line is marked, as in git
                yield [(clean(text), (style,) if style else ()), (clean(line[len(text) :]), ("on-red",))]
            at = end
        elif line == "GIT binary patch":
            while at < len(lines) and not lines[at].startswith("diff --git "):
                at += 1
            yield [("Binary content differs", ())]
        else:
            yield [(clean(line), ("bold",))]


def _print(segments: list[Segment], color: bool, columns: int | None) -> str:
    limit = max(columns, 20) if columns else None
    column = 0
    out = []
    for text, styles in segments:
        shown = styles if color else ()
        start = 0
        for at, character in enumerate(text):
            step = width(character, column)
            if limit is not None and column + step > limit:
                out += [paint(text[start:at], *shown), "\n", _CONTINUED]
                start, column = at, len(_CONTINUED)
                step = width(character, column)
            column += step
        out.append(paint(text[start:], *shown))
    return "".join(out) + "\n"
