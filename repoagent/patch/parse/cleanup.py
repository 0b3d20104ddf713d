"""Remove line numbers, quotation marks (`>`) and margins from the lines of a diff."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repoagent.patch.parse.markers import COMMAND, DIRECTIVE, NUMBERS, starts_diff
from repoagent.patch.paths import ZERO_WIDTH

_START_NUMBER = re.compile(r"[ \t|:│→]{0,20}\d")
_ONE_NUMBER = re.compile(r"[ \t]*(\d{1,7})([ \t]*[|:│→]?[ \t]*)")
_COLUMNS = re.compile(r"(?=[ |:│]*\d)[ \d|:│]*[ |:│](?=[-+])")
_TABBED = re.compile(r"(?=\t?\d)(\d{0,7})\t(\d{0,7})\t")
_SEPARATED = re.compile(r"[ \t\d]*\d[ \t]*(?:[|:│→]|\t)")
_LINE_STARTS = (*" +-\\", "@@", "---", "+++", "diff ", "index ", "new ", "old ", "deleted ", "rename ", "***")
_QUOTE = re.compile(r"[ \t]{0,3}>")
_TIGHT_QUOTE = re.compile(r"[ \t]{0,3}>[^\s>]")
_ZERO_WIDTH_START = re.compile(
    rf"([ \t>]{{0,40}})[{ZERO_WIDTH}]+(?=```|~~~|---|\+\+\+|diff |@@|<<<<|\*\*\* )"
)
_DEPTH = 8  # nested wrappings


def _common_prefix(texts: Sequence[str]) -> str:
    first, last = min(texts, default=""), max(texts, default="")
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:same]


def without_numbers(
    lines: Sequence[str], counts: tuple[int, int] | None = None, start: int | None = None
) -> list[str] | None:
    r"""The lines without the one or two numbers before each of them; None if they are not numbered.

    Examples: `12 | -old`, `12: -old`, `12\t-old`, ` 12 -old`, and for both sides `12 13 same`. `counts` and `start` are
    the lengths and the first line in the header, if these are the lines of one hunk.
    """
    nonblank = [line for line in lines if line.strip()]
    if not nonblank or not all(_START_NUMBER.match(line) for line in nonblank):
        return None
    for remove in (_without_tabbed, _without_columns, _without_one_number):
        texts = remove(nonblank)
        if texts is None:
            continue
        rest = iter(texts)
        result = [next(rest) if line.strip() else line for line in lines]
        if any(NUMBERS.match(line) or COMMAND.match(line) for line in texts):
            return result
        signs = {line[:1] for line in texts} & {"+", "-"}
        # A list in the file may be numbered too, but has no column for signs.
        declared = start is not None and re.match(rf"[ \t]*0*{start}(?!\d)", nonblank[0]) is not None
        declared = declared and any(line.startswith(" ") for line in texts)
        weak = remove is _without_one_number and not all(map(_SEPARATED.match, nonblank)) and not declared
        if len(signs) > weak:
            return result
        lengths = sum(line[:1] != "+" for line in result), sum(line[:1] != "-" for line in result)
        if counts and lengths == counts:
            return result
    return None


def _without_one_number(lines: Sequence[str]) -> list[str] | None:
    matches = [match for line in lines if (match := _ONE_NUMBER.match(line))]
    if len(matches) < len(lines):
        return None
    between = _common_prefix([match[2] for match in matches if match.end() < len(match.string.rstrip())])
    if not between:
        return None
    texts = [match.string[match.end(1) :] for match in matches]
    texts = [text.removeprefix(between) if text.startswith(between) else "" for text in texts]
    if not between.strip(" ") and not all(not text or text.startswith(_LINE_STARTS) for text in texts):
        return None
    last: dict[str, int] = {}  # the numbers of each kind of line must increase
    for match, text in zip(matches, texts, strict=True):
        if int(match[1]) <= last.get(text[:1], -1):
            return None
        last[text[:1]] = int(match[1])
    return texts


def _without_tabbed(lines: Sequence[str]) -> list[str] | None:
    matches = [match for line in lines if (match := _TABBED.match(line))]
    return [match.string[match.end() :] for match in matches] if len(matches) == len(lines) else None


def _without_columns(lines: Sequence[str]) -> list[str] | None:
    """The lines without two columns of numbers: both before a line of context, one before a changed line, all of equal
    width."""
    ends = sorted({match.end() for line in lines if (match := _COLUMNS.match(line))})
    for column in {*ends, *(end - 1 for end in ends)}:
        both = any(len(re.findall(r"\d+", line[:column])) == 2 for line in lines)
        if both and all(_numbers_fit_sign(line, column) for line in lines):
            return [line[column:] for line in lines]
    return None


def _numbers_fit_sign(line: str, column: int) -> bool:
    """Whether the numbers before `column` match the sign at `column`."""
    sign, numbers = line[column : column + 1], re.findall(r"\d+", line[:column])
    if re.fullmatch(r"[ \d|:│]*[ |:│]", line[:column].ljust(column)) is None:
        return False
    if sign in {"+", "-"}:
        return len(numbers) == 1
    return len(numbers) == 2 if sign in {"", " "} else sign == "\\"


def number_before(line: str) -> bool:
    """Whether a line may begin with a line number."""
    return _ONE_NUMBER.match(line) is not None or _TABBED.match(line) is not None


def is_quoted(line: str) -> bool:
    return _QUOTE.match(line) is not None


def unquoted(lines: Sequence[str]) -> list[str]:
    """The lines without one level of `>`, and without the space after it if it belongs to the quotation."""
    tight = any(_TIGHT_QUOTE.match(line) for line in lines)
    result = []
    for line in lines:
        if is_quoted(line):
            line = line.lstrip()[1:]
            line = line if tight else line.removeprefix(" ")
        result.append(line)
    return result


def undecorated(lines: Sequence[str]) -> tuple[list[str], frozenset[str]]:
    """The lines of an answer without zero-width characters at their start; and the tolerance needed."""
    plain = [
        line if line.isascii() else _ZERO_WIDTH_START.sub(r"\1", line, count=1).lstrip(ZERO_WIDTH)
        for line in lines
    ]
    changed = any(len(new) != len(old) for new, old in zip(plain[1:], lines[1:], strict=True))
    return plain, frozenset({"invisible"} if changed else ())


def unwrapped(lines: Sequence[str]) -> tuple[Sequence[str], frozenset[str]]:
    """The lines of a block without quotation marks, line numbers or indentation, and the tolerances needed.

    Nothing is removed if a line begins with a sign or is a header.
    """
    tolerances: set[str] = set()
    for _ in range(_DEPTH):
        if any(
            line.startswith(("+", "-", "@@")) or COMMAND.match(line) or DIRECTIVE.match(line)
            for line in lines
        ):
            break
        nonblank = [line for line in lines if line.strip()]
        if nonblank and all(map(is_quoted, nonblank)):
            name, inner = "quoted", unquoted(lines)
        elif (numbered := without_numbers(lines)) is not None:
            name, inner = "numbered", numbered
        elif (dedented := _dedented(lines)) is not None:
            name, inner = "indented", dedented
        else:
            break
        lines, tolerances = inner, tolerances | {name}
    return lines, frozenset(tolerances)


def margin_of(lines: Sequence[str]) -> str:
    """The white space at the start of all nonblank lines."""
    return _common_prefix([line[: len(line) - len(line.lstrip())] for line in lines if line.strip()])


def without_margin(lines: Sequence[str], margin: str) -> list[str]:
    """The lines without `margin`, or without the part of it that they have."""
    if not margin:
        return list(lines)
    return [
        line[len(margin) :] if line.startswith(margin) else line[len(_common_prefix([line, margin])) :]
        for line in lines
    ]


def _dedented(lines: Sequence[str]) -> list[str] | None:
    """The lines without their common indentation if the rest is certainly a diff, otherwise None.

    Without a header there must be an addition at the margin: context that is a list has no `+`.
    """
    margin = margin_of(lines)
    if not margin:
        return None
    inner = without_margin(lines, margin)
    first = next((number for number, line in enumerate(inner) if line.strip()), 0)
    if starts_diff(inner, first) or DIRECTIVE.match(inner[first]):
        return inner
    return inner if any(line.startswith("+") for line in inner) else None
