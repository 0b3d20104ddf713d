"""What stands before each line of a diff that was quoted, indented or coloured, and the diff without it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repoagent.patch.parse.marks import COMMAND, DIRECTIVE, INVISIBLE, starts_diff
from repoagent.patch.parse.numbering import common_start, without_numbers

_QUOTE = re.compile(r"[ \t]{0,3}>")
_TIGHT = re.compile(r"[ \t]{0,3}>[^\s>]")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,12}[mK]")
_COLOURED = re.compile(r"(?:\x1b\[[0-9;]{0,12}[mK])+(?:diff --git |--- |\+\+\+ |@@|[-+])")
_DEPTH = 8  # wrappings within each other
_MARKED_START = re.compile(rf"([ \t>]{{0,40}})[{INVISIBLE}]+(?=```|~~~|---|\+\+\+|diff |@@|<<<<|\*\*\* )")


def is_quoted(line: str) -> bool:
    return _QUOTE.match(line) is not None


def unquoted(lines: Sequence[str]) -> list[str]:
    """Quoted lines without one `>` each, and without the space after it where that belongs to the quotation."""
    tight = any(_TIGHT.match(line) for line in lines)
    result = []
    for line in lines:
        text = line.lstrip()[1:] if is_quoted(line) else line
        result.append(text if tight or not is_quoted(line) else text.removeprefix(" "))
    return result


def undecorated(lines: Sequence[str]) -> tuple[list[str], frozenset[str]]:
    """The lines of an answer without a terminal's colours, where all changed lines have them, and without marks
    of no width before a line; and the names of what was forgiven."""
    names = set()
    coded = [line for line in lines if "\x1b" in line]
    if any(_COLOURED.match(line) for line in coded) and not any(
        line.startswith(("+", "-")) and _COLOUR.search(line) for line in coded
    ):
        lines = [_COLOUR.sub("", line) if "\x1b" in line else line for line in lines]
        names.add("colours")
    plain = [
        line if line.isascii() else _MARKED_START.sub(r"\1", line, count=1).lstrip(INVISIBLE)
        for line in lines
    ]
    if any(len(one) != len(other) for one, other in zip(plain[1:], lines[1:], strict=True)):
        names.add("invisible")
    return plain, frozenset(names)


def unwrapped(lines: Sequence[str]) -> tuple[Sequence[str], frozenset[str]]:
    """The lines of a block without quotation, line numbers or indentation, and the names of what was taken off.

    Nothing is taken off that can be read as it stands: a line with a sign in the first column, or a header.
    """
    names: set[str] = set()
    for _ in range(_DEPTH):
        if _readable(lines):
            break
        for name, take_off in (
            ("quoted", _all_unquoted),
            ("numbered", without_numbers),
            ("indented", _dedented),
        ):
            inner = take_off(lines)
            if inner is not None:
                lines, names = inner, names | {name}
                break
        else:
            break
    return lines, frozenset(names)


def _readable(lines: Sequence[str]) -> bool:
    return any(
        line.startswith(("+", "-", "@@")) or COMMAND.match(line) or DIRECTIVE.match(line) for line in lines
    )


def _all_unquoted(lines: Sequence[str]) -> list[str] | None:
    full = [line for line in lines if line.strip()]
    return unquoted(lines) if full and all(is_quoted(line) for line in full) else None


def margin_of(lines: Sequence[str]) -> str:
    """The white space with which all lines begin, blank ones aside."""
    return common_start([line[: len(line) - len(line.lstrip())] for line in lines if line.strip()])


def without_margin(lines: Sequence[str], margin: str) -> list[str]:
    """Lines without `margin`; of blank ones, as much of it as is there."""
    if not margin:
        return list(lines)
    return [
        line[len(margin) :] if line.startswith(margin) else line[len(common_start([line, margin])) :]
        for line in lines
    ]


def _dedented(lines: Sequence[str]) -> list[str] | None:
    """Lines that are all indented, if what is left is surely a diff.

    Without a header the lowest line must have a sign and there must be an addition: context that is a list has
    neither `+` nor lines at its own depth without one.
    """
    margin = margin_of(lines)
    if not margin:
        return None
    inner = without_margin(lines, margin)
    first = next((number for number, line in enumerate(inner) if line.strip()), 0)
    if starts_diff(inner, first) or DIRECTIVE.match(inner[first]):
        return inner
    return inner if any(line.startswith("+") for line in inner) else None
