"""Find the blocks of an answer: fences, bare diffs, SEARCH/REPLACE, envelopes, named whole files.

`blocks` is the first pass of the parser; `patch_spans` gives others the characters that belong to patches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from repoagent.dataclass import dataclass
from repoagent.patch.parse.apply_patch import envelope_end
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
    fenced,
    kind_and_name,
    name_before,
    name_leading,
)
from repoagent.patch.parse.markers import (
    DIRECTIVE,
    REPLACE,
    SEARCH,
    Fence,
    fence_on,
    interesting,
    starts_diff,
)
from repoagent.patch.parse.unfenced import bare_diff_end

_DEPTH = 8  # quotations, lists and the like within each other
_MOST_LINES = 4_000_000
_MOST_BLOCKS = 20_000


@dataclass(frozen=True)
class Span:
    """The characters `answer[start:end]` are a patch of this kind: "diff", "envelope", "search-replace",
    "whole-file", "shell", or "code" (see `patch_spans`)."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class Block:
    """A span with its unwrapped lines (without the fences), its file name, whether it was closed, the tolerances of
    unwrapping, and the text before it within its fence."""

    span: Span
    lines: tuple[str, ...]
    name: str | None
    fenced: bool
    closed: bool
    info: str = ""
    tolerances: frozenset[str] = frozenset()
    words: str = ""


@dataclass(frozen=True)
class _Region:
    """A block whose place is given in lines, of which the first may begin at a `column`."""

    first: int
    after: int
    kind: str
    lines: Sequence[str]
    name: str | None
    fence: Fence | None
    closed: bool
    tolerances: frozenset[str] = frozenset()


def patch_spans(answer: str, *, loose: bool = False) -> tuple[Span, ...]:
    """The ranges of `answer` that are patches, in order, without overlap. Prose and other code are not.

    `loose`: the model was asked for whole files or functions, so a fence without a file name may be one (kind "code"),
    and a fence may open at the end of a sentence.
    """
    found = (block for block in blocks(answer, loose=loose) if block.lines or not loose)
    return tuple(block.span for block in found if loose or block.span.kind != CODE or block.name)


def blocks(answer: str, *, loose: bool = False, known: Collection[str] = ()) -> list[Block]:
    """All patches of an answer, and fences of kind "code" without a file name; nothing if it is `too_large`. A
    `known` file is recognized as a name everywhere."""
    if answer.count("\n") > _MOST_LINES:
        return []
    raw = answer.split("\n")
    lines, decoration = undecorated(raw)
    found: list[Block] = []
    row = start = 0
    for region in _regions(lines, loose, known):
        start += sum(map(len, raw[row : region.first])) + region.first - row
        end = start + sum(map(len, raw[region.first : region.after])) + region.after - region.first
        column = region.fence.column if region.fence else 0
        span = Span(start + column, min(end, len(answer)), region.kind)
        info = region.fence.info if region.fence else ""
        names = region.tolerances | decoration
        name, is_fenced = region.name, region.fence is not None
        found.append(Block(span, tuple(region.lines), name, is_fenced, region.closed, info, names))
        row, start = region.after, end
        if len(found) > _MOST_BLOCKS:
            break
    return found


def too_large(answer: str, found: Sequence[Block]) -> bool:
    """Whether an answer has more lines, or more patches (`found`), than are read. Only junk has."""
    return len(found) > _MOST_BLOCKS or answer.count("\n") > _MOST_LINES


def _regions(lines: Sequence[str], loose: bool, known: Collection[str], depth: int = 0) -> Iterator[_Region]:
    at = floor = 0  # what is above `floor` belongs to another patch
    while at < len(lines):
        line = lines[at]
        if not interesting(line) and not (loose and "```" in line):
            at += 1
            continue
        region = _fenced(lines, at, loose, known) or _unfenced(lines, at, known)
        if region is not None:
            yield region
            at = floor = region.after
            continue
        inner, first, after, name = _unwrapped(lines, at, floor)
        if inner is None or depth == _DEPTH:
            at += 1
            continue
        for region in _regions(inner, loose, known, depth + 1):
            start, end = first + region.first, first + region.after
            beside = region.name or _name_beside(region.kind, region.lines, lines, start, known)
            names = region.tolerances | {name}
            yield replace(region, first=start, after=end, name=beside, tolerances=names)
        at = floor = max(after, at + 1)


def _fenced(lines: Sequence[str], at: int, loose: bool, known: Collection[str]) -> _Region | None:
    fence = fence_on(lines[at], late=loose)
    if fence is None:
        return None
    body = fenced(lines, at, fence)
    kind, name, inner, names = kind_and_name(fence.info, body.lines, lines, at, known)
    forgiven = names | (body.tolerances if kind not in {CODE, "whole-file"} else frozenset[str]())
    return _Region(at, body.after, kind, inner, name, fence, body.closed, forgiven)


def _unfenced(lines: Sequence[str], at: int, known: Collection[str]) -> _Region | None:
    """A patch that begins at line `at` and has no fence."""
    if SEARCH.match(lines[at]):
        after, closed = _search_replace_end(lines, at)
        kind = SEARCH_REPLACE
    elif DIRECTIVE.match(lines[at]):
        after, closed = envelope_end(lines, at)
        kind = ENVELOPE
    elif starts_diff(lines, at):
        after = bare_diff_end(lines, at)
        closed = after < len(lines)
        kind = DIFF
    else:
        return None
    name = _name_beside(kind, lines[at : at + 1], lines, at, known)
    return _Region(at, after, kind, lines[at:after], name, None, closed)


def _name_beside(
    kind: str, body: Sequence[str], lines: Sequence[str], at: int, known: Collection[str]
) -> str | None:
    """The file that is named above line `at`, where a patch without a name of its own begins."""
    if kind == SEARCH_REPLACE:
        return name_before(lines, at, known)
    if kind == DIFF and body[:1] and body[0].startswith("@@"):
        return name_before(lines, at, known) or name_leading(lines, at, known)
    return None


def _search_replace_end(lines: Sequence[str], at: int) -> tuple[int, bool]:
    for number in range(at + 1, len(lines)):
        if REPLACE.match(lines[number]):
            return number + 1, True
        if SEARCH.match(lines[number]):
            return number, False
    return len(lines), False


def _unwrapped(lines: Sequence[str], at: int, floor: int) -> tuple[Sequence[str] | None, int, int, str]:
    """The lines around `at` without the quotation, the margin or the numbers before them (None when they have
    none), the first of them and the line after them, and what was taken off."""
    line = lines[at]
    if is_quoted(line):
        first, after = _run(lines, at, floor, is_quoted)
        return unquoted(lines[first:after]), first, after, "quoted"
    margin = line[: len(line) - len(line.lstrip(" \t"))]
    if margin and not number_before(line):
        after = at + 1
        while after < len(lines) and (lines[after].startswith(margin) or not lines[after].strip()):
            after += 1
        return without_margin(lines[at:after], margin), at, after, "indented"
    if number_before(line):
        _, after = _run(lines, at, at, number_before)
        inner = without_numbers(lines[at:after])
        return inner if inner is not None else [], at, after, "numbered"
    return None, at, at + 1, ""


def _run(lines: Sequence[str], at: int, floor: int, same: Callable[[str], bool]) -> tuple[int, int]:
    """The lines around `at`, from `floor` on, that are all of this kind, or blank between such."""
    first = at
    while first > floor and same(lines[first - 1]):
        first -= 1
    after = number = at + 1
    while number < len(lines) and (same(lines[number]) or not lines[number].strip()):
        number += 1
        after = number if lines[number - 1].strip() else after
    return first, after
