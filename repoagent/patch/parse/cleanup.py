"""Remove line numbers, quotation marks, margins and colours from the lines of a diff."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repoagent.patch.parse.markers import COMMAND, DIRECTIVE, NUMBERS, starts_diff
from repoagent.patch.paths import ZERO_WIDTH

_START_NUMBER = re.compile(r"[ \t|:│→]{0,20}\d")
_SINGLE = re.compile(r"[ \t]*(\d{1,7})([ \t]*[|:│→]?[ \t]*)")
_COLUMNS = re.compile(r"(?=[ |:│]*\d)[ \d|:│]*[ |:│](?=[-+])")
_TABBED = re.compile(r"(?=\t?\d)(\d{0,7})\t(\d{0,7})\t")
_INSIDE = re.compile(r"([ +-]?)[ \t]*(\d{1,7})[ ]*([|:│→\t])( ?)")
_FIRST = (
    " ",
    "+",
    "-",
    "\\",
    "@@",
    "---",
    "+++",
    "diff ",
    "index ",
    "new ",
    "old ",
    "deleted ",
    "rename ",
    "***",
)


def common_start(texts: Sequence[str]) -> str:
    """The common prefix of all texts."""
    if not texts:
        return ""
    first, last = min(texts), max(texts)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return first[:same]


def without_numbers(
    lines: Sequence[str], counts: tuple[int, int] | None = None, start: int | None = None
) -> list[str] | None:
    r"""Lines without the one or two numbers before each of them; None if they are not numbered.

    `12 | -old`, `12: -old`, `12\t-old`, ` 12 -old`, and for both sides `12 13 same`. `counts` and `start` are the
    lengths and the first line in the header of these lines, if they are those of one hunk.
    """
    full = [line for line in lines if line.strip()]
    if not full or not all(_START_NUMBER.match(line) for line in full):
        return None
    for take_off, strong in ((_tabbed, True), (_columns, True), (_single, False)):
        rest = take_off(full)
        if rest is None:
            continue
        left = iter(rest)
        result = [next(left) if line.strip() else line for line in lines]
        begins = start is not None and re.match(rf"[ \t]*0*{start}(?!\d)", full[0])
        declared = begins and any(
            line.startswith(" ") for line in rest
        )  # a list of the file has no such column
        weak = not strong and not _parted(full) and not declared
        if _sure(rest, weak=weak) or (counts and _lengths(result) == counts):
            return result
    return None


def _parted(lines: Sequence[str]) -> bool:
    """Does more than space part the numbers from the text?"""
    return all(re.match(r"[ \t\d]*\d[ \t]*(?:[|:│→]|\t)", line) for line in lines)


def _lengths(lines: Sequence[str]) -> tuple[int, int]:
    return sum(line[:1] != "+" for line in lines), sum(line[:1] != "-" for line in lines)


def _single(lines: Sequence[str]) -> list[str] | None:
    matches = [match for line in lines if (match := _SINGLE.match(line))]
    if len(matches) < len(lines):
        return None
    between = common_start([match[2] for match in matches if match.end() < len(match.string.rstrip())])
    if not between:
        return None
    rest = [match.string[match.end(1) :] for match in matches]
    rest = [text.removeprefix(between) if text.startswith(between) else "" for text in rest]
    if not between.strip(" ") and not all(not text or text.startswith(_FIRST) for text in rest):
        return None
    return rest if _rising([int(match[1]) for match in matches], rest) else None


def _tabbed(lines: Sequence[str]) -> list[str] | None:
    matches = [match for line in lines if (match := _TABBED.match(line))]
    return [match.string[match.end() :] for match in matches] if len(matches) == len(lines) else None


def _columns(lines: Sequence[str]) -> list[str] | None:
    """Two columns of numbers: both before a line of context, one before a changed line, all equally wide."""
    ends = sorted({match.end() for line in lines if (match := _COLUMNS.match(line))})
    for column in {*ends, *(end - 1 for end in ends)}:
        both = any(len(re.findall(r"\d+", line[:column])) == 2 for line in lines)
        if both and all(_in_columns(line, column) for line in lines):
            return [line[column:] for line in lines]
    return None


def _in_columns(line: str, column: int) -> bool:
    """Do the numbers before `column` go with the sign that stands there?"""
    sign, numbers = line[column : column + 1], re.findall(r"\d+", line[:column])
    if re.fullmatch(r"[ \d|:│]*[ |:│]", line[:column].ljust(column)) is None:
        return False
    return (
        len(numbers) == (1 if sign in {"+", "-"} and sign else 2)
        if sign in {"", " ", "+", "-"}
        else sign == "\\"
    )


def _rising(numbers: Sequence[int], rest: Sequence[str]) -> bool:
    """Do the numbers rise, each kind of line for itself?"""
    last: dict[str, int] = {}
    for number, text in zip(numbers, rest, strict=True):
        if number <= last.get(text[:1], -1):
            return False
        last[text[:1]] = number
    return True


def _sure(rest: Sequence[str], *, weak: bool) -> bool:
    """Is what is left a diff? Where only space parts number and text, it must have more than a list would."""
    if any(NUMBERS.match(line) or COMMAND.match(line) for line in rest):
        return True
    signs = {line[:1] for line in rest}
    return {"+", "-"} <= signs if weak else bool({"+", "-"} & signs)


def without_inner_numbers(lines: Sequence[str]) -> list[list[str]]:
    """The lines of a hunk without a number right after each sign, or in place of a forgotten one: `-12: old`,
    `+ 13| new`, `12\u2192 same`. First as it is likelier: with or without one space as part of what parts them.

    Those of the old side must count through. A file can have such text of its own: its content decides.
    """
    old = [(_INSIDE.match(line), line) for line in lines if not line.startswith("+")]
    added = [_INSIDE.match(line) for line in lines if line.startswith("+") and line.strip()]
    matches = [match for match, line in old if line.strip()]
    if not matches or any(match is None for match in matches):
        return []
    if len({int(match[2]) - row for row, (match, _) in enumerate(old) if match is not None}) > 1:
        return []
    strip_added = bool(added) and all(match is not None for match in added)
    signs = {match[3] for match in matches if match is not None}
    if not strip_added and any(match is not None and match[3] in signs for match in added):
        return []  # of some added lines the number would stay
    numbered = [match for match in (*matches, *(added if strip_added else ())) if match is not None]
    spaced = all(match[4] or match.end() == len(match.string) for match in numbered)
    tight = all(match[3] in "\t\u2192" for match in numbered)
    likely = spaced and not tight
    return [
        [_without_inner(line, strip_added=strip_added, spaced=way) for line in lines]
        for way in ([likely, not likely] if spaced else [False])
    ]


def _without_inner(line: str, *, strip_added: bool, spaced: bool) -> str:
    match = _INSIDE.match(line)
    if match is None or (line.startswith("+") and not strip_added):
        return line
    return (match[1] or " ") + line[match.end() if spaced else match.start(4) :]


def number_before(line: str) -> bool:
    """Whether a line begins with something like a line number."""
    return _SINGLE.match(line) is not None or _TABBED.match(line) is not None


_QUOTE = re.compile(r"[ \t]{0,3}>")
_TIGHT = re.compile(r"[ \t]{0,3}>[^\s>]")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,12}[mK]")
_COLOURED = re.compile(r"(?:\x1b\[[0-9;]{0,12}[mK])+(?:diff --git |--- |\+\+\+ |@@|[-+])")
_DEPTH = 8  # wrappings within each other
_MARKED_START = re.compile(rf"([ \t>]{{0,40}})[{ZERO_WIDTH}]+(?=```|~~~|---|\+\+\+|diff |@@|<<<<|\*\*\* )")


def is_quoted(line: str) -> bool:
    return _QUOTE.match(line) is not None


def unquoted(lines: Sequence[str]) -> list[str]:
    """Quoted lines without one `>` each, and without the space after it if it belongs to the quotation."""
    tight = any(_TIGHT.match(line) for line in lines)
    result = []
    for line in lines:
        text = line.lstrip()[1:] if is_quoted(line) else line
        result.append(text if tight or not is_quoted(line) else text.removeprefix(" "))
    return result


def undecorated(lines: Sequence[str]) -> tuple[list[str], frozenset[str]]:
    """The lines of an answer without terminal colours, if all changed lines have them, and without zero-width marks
    before a line; and the tolerances needed."""
    names = set()
    coded = [line for line in lines if "\x1b" in line]
    if any(_COLOURED.match(line) for line in coded) and not any(
        line.startswith(("+", "-")) and _COLOUR.search(line) for line in coded
    ):
        lines = [_COLOUR.sub("", line) if "\x1b" in line else line for line in lines]
        names.add("colours")
    plain = [
        line if line.isascii() else _MARKED_START.sub(r"\1", line, count=1).lstrip(ZERO_WIDTH)
        for line in lines
    ]
    if any(len(one) != len(other) for one, other in zip(plain[1:], lines[1:], strict=True)):
        names.add("invisible")
    return plain, frozenset(names)


def unwrapped(lines: Sequence[str]) -> tuple[Sequence[str], frozenset[str]]:
    """The lines of a block without quotation, line numbers or indentation, and the tolerances needed.

    Nothing is removed that can be read as it is: a line with a sign in the first column, or a header.
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
    """The white space with which all nonblank lines begin."""
    return common_start([line[: len(line) - len(line.lstrip())] for line in lines if line.strip()])


def without_margin(lines: Sequence[str], margin: str) -> list[str]:
    """Lines without `margin`; blank lines without as much of it as they have."""
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
