"""Find the blocks of an answer: fences, bare diffs, SEARCH/REPLACE, envelopes, named whole files.

`blocks` is the first pass of the parser; `patch_spans` returns the ranges of the answer that are patches."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from repoagent.dataclass import dataclass
from repoagent.patch.parse import markers
from repoagent.patch.parse.cleanup import (
    is_quoted,
    number_before,
    undecorated,
    unquoted,
    without_margin,
    without_numbers,
)
from repoagent.patch.parse.fences import (
    CODE,
    DIFF,
    ENVELOPE,
    SEARCH_REPLACE,
    classify,
    continues_hunk,
    fence_body,
    name_before,
    name_leading,
)

_DEPTH = 8  # nested quotations, lists and the like
_MOST_LINES = 4_000_000
_MOST_BLOCKS = 20_000
_REACH = 40  # a paragraph belongs to a hunk only if it has a change within so many lines
_HEADER = re.compile(
    r"(?:diff -|index [0-9A-Za-z]+\.\.|(?:old|new) mode \d|(?:new file|deleted file) mode \d"
    r"|(?:dis)?similarity index |(?:rename|copy) (?:from|to) |Binary files |GIT binary patch|@@"
    r"|Only in )"
)
_NUMBERED = re.compile(r"[ \t]*\d{1,7}[ \t]*[|:│→ \t]")


@dataclass(frozen=True)
class Span:
    """A range `answer[start:end]` with a patch of this kind: "diff", "envelope", "search-replace", "whole-file", or
    "code" (see `patch_spans`)."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class Block:
    """A span with its unwrapped lines (without the fences), its file name, whether it is closed, the tolerances of
    unwrapping, and the prose before it within its fence."""

    span: Span
    lines: tuple[str, ...]
    name: str | None
    fenced: bool
    closed: bool
    info: str = ""
    tolerances: frozenset[str] = frozenset()
    prose: str = ""


@dataclass(frozen=True)
class _Region:
    """A block with its location in lines."""

    first: int
    after: int
    kind: str
    lines: Sequence[str]
    name: str | None
    fence: markers.Fence | None
    closed: bool
    tolerances: frozenset[str] = frozenset()


def patch_spans(answer: str, *, loose: bool = False) -> tuple[Span, ...]:
    """The ranges of `answer` that are patches, in order, without overlap. Prose and other code are not.

    `loose`: the prompt requests whole files or functions, so a fence without a file name may be one (kind "code"), and
    a fence may open at the end of a sentence.
    """
    return tuple(
        block.span
        for block in blocks(answer, loose=loose)
        if (block.lines if loose else block.span.kind != CODE or block.name)
    )


def blocks(answer: str, *, loose: bool = False, known: Collection[str] = ()) -> list[Block]:
    """All patches of an answer, and fences of kind "code" without a file name; empty if it is `too_large`. The name of
    a `known` file is recognized everywhere."""
    if answer.count("\n") > _MOST_LINES:
        return []
    raw = answer.split("\n")
    lines, decoration = undecorated(raw)
    result: list[Block] = []
    row = start = 0
    for region in _regions(lines, loose, known):
        start += sum(map(len, raw[row : region.first])) + region.first - row
        end = start + sum(map(len, raw[region.first : region.after])) + region.after - region.first
        fence = region.fence
        span = Span(start + (fence.column if fence else 0), min(end, len(answer)), region.kind)
        info = fence.info if fence else ""
        tolerances = region.tolerances | decoration
        is_fenced = fence is not None
        result.append(
            Block(span, tuple(region.lines), region.name, is_fenced, region.closed, info, tolerances)
        )
        row, start = region.after, end
        if len(result) > _MOST_BLOCKS:
            break
    return result


def too_large(answer: str, parsed: Sequence[Block]) -> bool:
    """Whether an answer has more lines, or more `blocks`, than are parsed. Only junk does."""
    return len(parsed) > _MOST_BLOCKS or answer.count("\n") > _MOST_LINES


def _regions(lines: Sequence[str], loose: bool, known: Collection[str], depth: int = 0) -> Iterator[_Region]:
    at = floor = 0  # lines above `floor` belong to another patch
    while at < len(lines):
        line = lines[at]
        if not markers.interesting(line) and not (loose and "```" in line):
            at += 1
            continue
        region = _fenced(lines, at, loose, known) or _unfenced(lines, at, known)
        if region is not None:
            yield region
            at = floor = region.after
            continue
        inner, first, after, tolerance = _unwrapped(lines, at, floor)
        if inner is None or depth == _DEPTH:
            at += 1
            continue
        for region in _regions(inner, loose, known, depth + 1):
            start, end = first + region.first, first + region.after
            name = region.name or _name_above(region.kind, region.lines, lines, start, known)
            tolerances = region.tolerances | {tolerance}
            yield replace(region, first=start, after=end, name=name, tolerances=tolerances)
        at = floor = max(after, at + 1)


def _fenced(lines: Sequence[str], at: int, loose: bool, known: Collection[str]) -> _Region | None:
    fence = markers.fence_on(lines[at], late=loose)
    if fence is None:
        return None
    body = fence_body(lines, at, fence)
    kind, name, inner, tolerances = classify(fence.info, body.lines, lines, at, known)
    if kind not in {CODE, "whole-file"}:
        tolerances |= body.tolerances
    return _Region(at, body.after, kind, inner, name, fence, body.closed, tolerances)


def _unfenced(lines: Sequence[str], at: int, known: Collection[str]) -> _Region | None:
    """The patch without a fence that begins at line `at`."""
    if markers.SEARCH.match(lines[at]):
        kind, after, closed = SEARCH_REPLACE, len(lines), False
        for number in range(at + 1, len(lines)):
            closed = markers.REPLACE.match(lines[number]) is not None
            if closed or markers.SEARCH.match(lines[number]):
                after = number + closed
                break
    elif markers.DIRECTIVE.match(lines[at]):
        kind, (after, closed) = ENVELOPE, _envelope_end(lines, at)
    elif markers.starts_diff(lines, at):
        kind, after = DIFF, diff_end(lines, at)
        closed = after < len(lines)
    else:
        return None
    name = _name_above(kind, lines[at : at + 1], lines, at, known)
    return _Region(at, after, kind, lines[at:after], name, None, closed)


def _name_above(
    kind: str, body: Sequence[str], lines: Sequence[str], at: int, known: Collection[str]
) -> str | None:
    """The file name above line `at`, for a patch without a name that begins there."""
    if kind == SEARCH_REPLACE:
        return name_before(lines, at, known)
    if kind == DIFF and body[:1] and body[0].startswith("@@"):
        return name_before(lines, at, known) or name_leading(lines, at, known)
    return None


def _unwrapped(lines: Sequence[str], at: int, floor: int) -> tuple[Sequence[str] | None, int, int, str]:
    """The lines around `at` without quotation marks, margin or line numbers (None if they have none), the index of the
    first one and of the line after them, and the tolerance."""
    line = lines[at]
    if is_quoted(line):
        first, after = _run(lines, at, floor, is_quoted)
        return unquoted(lines[first:after]), first, after, "quoted"
    if number_before(line):
        _, after = _run(lines, at, at, number_before)
        return without_numbers(lines[at:after]) or [], at, after, "numbered"
    margin = line[: len(line) - len(line.lstrip(" \t"))]
    if margin:
        after = at + 1
        while after < len(lines) and (lines[after].startswith(margin) or not lines[after].strip()):
            after += 1
        return without_margin(lines[at:after], margin), at, after, "indented"
    return None, at, at + 1, ""


def _run(lines: Sequence[str], at: int, floor: int, same: Callable[[str], bool]) -> tuple[int, int]:
    """The range of lines around `at`, starting at `floor` at the earliest, that match `same`, with blank lines between
    them."""
    first = at
    while first > floor and same(lines[first - 1]):
        first -= 1
    after = number = at + 1
    while number < len(lines) and (same(lines[number]) or not lines[number].strip()):
        number += 1
        after = number if lines[number - 1].strip() else after
    return first, after


def _envelope_end(lines: Sequence[str], at: int) -> tuple[int, bool]:
    """The line after an unfenced envelope that begins at line `at`, and whether it is complete.

    With a begin marker it is complete only with its end marker; without one it ends as a diff does.
    """
    begun = markers.directive(lines[at])[0] == "Begin Patch"
    number = at + 1
    while number < len(lines):
        name = markers.directive(lines[number])[0]
        if name == "End Patch":
            return number + 1, True
        if name == "Begin Patch":
            break
        if begun or name:
            number += 1
            continue
        after = diff_end(lines, number) if lines[number].startswith(("@@", " ", "+", "-")) else number
        if after == number:
            below = next((line for line in lines[number : number + 4] if line.strip()), "")
            if lines[number].strip() or not (
                markers.directive(below)[0] or below.startswith(("@@", " ", "+", "-"))
            ):
                break
            after = number + 1
        number = after
    if begun:
        return number, False
    while number > at + 1 and not lines[number - 1].strip():
        number -= 1
    return number, number < len(lines)


def diff_end(lines: Sequence[str], at: int) -> int:
    """The line after an unfenced diff: the first line that cannot belong to it.

    After a hunk with all lines that its header declares, `- x` is a bullet and not a deletion; also after a blank line
    if no header declares counts. A line that lost its first column belongs to a hunk only if a change follows in the
    same paragraph, or if the header still expects old lines with a change among them: too many lines (which are refused
    later) are better than half of a change.
    """
    last = at
    left: tuple[int, int] | None = None  # lines that the hunk's header still expects, old and new
    blanks = 0
    number = at
    while number < len(lines):
        line = lines[number]
        if markers.is_signature(lines, number):
            return number + 2
        if _is_header(lines, number, left):
            counts = markers.NUMBERS.match(line)
            left = (int(counts.group(2) or 1), int(counts.group(4) or 1)) if counts else None
            if markers.is_file_header(lines, number) and (left is None or min(left) < 1):
                number += 1
        elif line[:1] in {" ", "+", "-", "\\"}:
            done = max(left) <= 0 if left is not None else blanks > 0
            if done and (blanks or line[0] in "+-") and _is_prose(lines, number):
                break
            if left is not None and line[0] != "\\":
                left = (left[0] - blanks - (line[0] != "+"), left[1] - blanks - (line[0] != "-"))
        elif not line.strip():
            blanks += 1
            number += 1
            continue
        elif markers.is_mail(line) and (diff_line := _diff_line_of_mail(lines, number)):
            number = diff_line
            last, blanks, left = number - 1, 0, None
            continue
        elif _belongs(lines, number, left, blanks):
            if left is not None:
                left = (left[0] - blanks - 1, left[1] - blanks - 1)
        else:
            break
        last, blanks = number, 0
        number += 1
    after = last + 1  # and the blank lines that the header still expects
    expected = after + (min(left) if left is not None else 0)
    while after < min(expected, len(lines) - 1) and not lines[after].strip():
        after += 1
    return after


def _is_prose(lines: Sequence[str], at: int) -> bool:
    """Whether the paragraph at line `at` is a list or a rule, without a change."""
    for line in lines[at : at + _REACH]:
        if not line.strip() or line.startswith(("@@", "```", "~~~")):
            break
        if line[0] in "+-" and not markers.is_bullet(line):
            return False
    return True


def _is_header(lines: Sequence[str], at: int, left: tuple[int, int] | None) -> bool:
    line = lines[at]
    if line[:1] in {" ", "+", "-"} and line[:2] not in {"++", "--"}:
        return False
    if line.startswith(("--- ", "+++ ")):
        return markers.is_file_header(lines, at) or (
            markers.is_lone_header(lines, at) and (left is None or max(left) <= 0)
        )
    return _HEADER.match(line) is not None


def _belongs(lines: Sequence[str], at: int, left: tuple[int, int] | None, blanks: int) -> bool:
    """Whether a line without a sign or a space belongs to the current hunk."""
    line = lines[at]
    if line.startswith(("```", "~~~")):
        return left is not None and not blanks and continues_hunk(lines, at, list(left))
    if markers.DIRECTIVE.match(line) or markers.SEARCH.match(line) or markers.REPLACE.match(line):
        return False
    if _NUMBERED.match(line) and (
        left is None or max(left) > 0 or (at > 0 and _NUMBERED.match(lines[at - 1]))
    ):
        return True
    if (left is not None and max(left) <= 0) or (left is None and blanks):
        return False
    expected = _REACH if left is None else max(0, *left) - blanks
    for later in lines[at + 1 : at + max(1, expected)]:
        if not later.strip() and left is None:
            return False
        if later.startswith(("@@", "```", "~~~", "--- ", "+++ ")) or markers.COMMAND.match(later):
            return False
        if later[:1] in {"+", "-"} and not (left is None and markers.is_bullet(later)):
            return True
    return left is not None and min(left) > blanks and at > 0 and lines[at - 1][:1] in {"+", "-", " "}


def _diff_line_of_mail(lines: Sequence[str], at: int) -> int:
    """The `diff` line of a mail or commit that begins at `at`; 0 if there is none before the next mail."""
    for number in range(at + 1, len(lines)):
        if lines[number].startswith("diff --git "):
            return number
        if markers.is_mail(lines[number]) or lines[number].startswith("```"):
            return 0
    return 0
