"""Where in an answer the patches stand: fenced, bare, SEARCH/REPLACE, whole files under a name.

`blocks` is the first pass of the parser; `patch_spans` is what others need of it, to leave those characters
alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from repoagent.patch.paths import name_in_info, name_on_line

DIFF, SEARCH_REPLACE, WHOLE_FILE, CODE = "diff", "search-replace", "whole-file", "code"
_DIFF_LANGUAGES = {"diff", "patch", "udiff", "unified", "unified-diff", "git-diff", "gitdiff"}

_FENCE = re.compile(r"( {0,12})(`{3,}|~{3,})[ \t]*([^`]*?)[ \t]*\r?$")
_LATE_FENCE = re.compile(r"(?:(?!```).)*?[^`\s][ \t]*()(`{3,})([^`\s]+)[ \t]*\r?$")
SEARCH = re.compile(r"<{5,9} ?SEARCH\b.*$")
DIVIDER = re.compile(r"={5,9}\s*$")
REPLACE = re.compile(r">{5,9} ?REPLACE\b.*$")
_GIT = re.compile(r"diff --git \S")
_NUMBERS = re.compile(r"@@ +-\d+(?:,(\d{1,9}))? +\+\d+(?:,(\d{1,9}))? +@@")


@dataclass(frozen=True)
class Span:
    """The characters `answer[start:end]` are a patch of this kind: "diff", "search-replace", "whole-file",
    or "code" (see `patch_spans`)."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class Block:
    """A span with its lines (not the fences), the file name that goes with it, and whether it was closed."""

    span: Span
    lines: tuple[str, ...]
    name: str | None
    fenced: bool
    closed: bool
    info: str = ""


def patch_spans(answer: str, *, loose: bool = False) -> tuple[Span, ...]:
    """The ranges of `answer` that are patches, in order, without overlap. Prose and other code are not.

    `loose`: the model was asked for whole files or functions, so a fence that names no file may be one (its
    kind is then "code"), and a fence may open at the end of a sentence.
    """
    found = (block for block in blocks(answer, loose=loose) if block.lines or not loose)
    return tuple(block.span for block in found if loose or block.span.kind != CODE)


def blocks(answer: str, *, loose: bool = False) -> list[Block]:
    """All patches of an answer, and the fences of kind "code" which name no file."""
    lines = answer.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    found: list[Block] = []
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at]) or (_LATE_FENCE.match(lines[at]) if loose else None)
        if fence:
            body, after, closed = _fenced(lines, at, fence)
            kind, name = _kind_and_name(fence.group(3), body, lines[:at])
        elif SEARCH.match(lines[at]):
            after, closed = _search_replace_end(lines, at)
            body, kind, name = lines[at:after], SEARCH_REPLACE, _name_before(lines[:at])
        elif _starts_diff(lines, at):
            after = _bare_diff_end(lines, at)
            body, kind, name, closed = lines[at:after], DIFF, None, after < len(lines)
        else:
            at += 1
            continue
        start = starts[at] + (fence.start(2) if fence and fence.re is _LATE_FENCE else 0)
        span = Span(start, min(starts[after], len(answer)), kind)
        info = fence.group(3) if fence else ""
        found.append(Block(span, tuple(body), name, fence is not None, closed, info))
        at = after
    return found


def _fenced(lines: Sequence[str], at: int, fence: re.Match[str]) -> tuple[Sequence[str], int, bool]:
    """The body of the fence that opens at line `at`, the line after it, and whether it was closed.

    A fence closes at the column where it opened (0, or that of a list's text), so none in a line of a hunk
    does. In a whole Markdown file a fence with a language opens one of the file's own, which the next bare
    fence closes.
    """
    margin, mark, info = fence.groups()
    name = name_in_info(info) or _name_before(lines[:at]) or ""
    nests = name.lower().endswith((".md", ".markdown", ".mdx"))
    depth = 0
    for number in range(at + 1, len(lines)):
        inner = _FENCE.match(lines[number])
        if inner is None or inner.group(1) != margin or not inner.group(2).startswith(mark):
            continue
        if inner.group(3):
            depth += nests
        elif depth:
            depth -= 1
        else:
            return _without(margin, lines[at + 1 : number]), number + 1, True
    return _without(margin, lines[at + 1 :]), len(lines), False


def _without(margin: str, lines: Sequence[str]) -> list[str]:
    return [line.removeprefix(margin) for line in lines]


def _kind_and_name(info: str, body: Sequence[str], before: Sequence[str]) -> tuple[str, str | None]:
    name = name_in_info(info) or _name_before(before)
    language = info.split(maxsplit=1)[0].lower() if info.split() else ""
    if any(SEARCH.match(line) for line in body):
        return SEARCH_REPLACE, name
    first = next((number for number, line in enumerate(body) if line.strip()), None)
    if language in _DIFF_LANGUAGES:
        return (DIFF, name) if first is not None else (CODE, None)
    if first is not None and _starts_diff(body, first):
        return DIFF, name
    return (WHOLE_FILE, name) if name else (CODE, None)


def _name_before(before: Sequence[str]) -> str | None:
    """The file named by the line directly before a block; one blank line may stand between."""
    for line in before[-1:-3:-1]:
        if line.strip():
            return name_on_line(line)
    return None


def _search_replace_end(lines: Sequence[str], at: int) -> tuple[int, bool]:
    for number in range(at + 1, len(lines)):
        if REPLACE.match(lines[number]):
            return number + 1, True
        if SEARCH.match(lines[number]):
            return number, False
    return len(lines), False


def is_file_header(lines: Sequence[str], at: int) -> bool:
    """Do lines `at` and `at + 1` read `--- old` and `+++ new`?"""
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def is_signature(lines: Sequence[str], at: int) -> bool:
    """Does `git format-patch` end here, with `-- ` and its version?"""
    if lines[at].rstrip() != "--" or at + 1 == len(lines):
        return False
    return re.match(r"\d+\.\d+[\w.]*\s*$", lines[at + 1]) is not None


def _starts_diff(lines: Sequence[str], at: int) -> bool:
    line = lines[at]
    if _GIT.match(line) or is_file_header(lines, at):
        return True
    if not line.startswith("@@"):
        return False
    return _NUMBERS.match(line) is not None or (at + 1 < len(lines) and lines[at + 1][:1] in {" ", "+", "-"})


_HEADER = re.compile(
    r"(?:diff --git |index [0-9a-f]+\.\.|(?:old|new) mode \d|(?:new file|deleted file) mode \d"
    r"|(?:dis)?similarity index |(?:rename|copy) (?:from|to) |Binary files |GIT binary patch|--- |\+\+\+ |@@)"
)


def _bare_diff_end(lines: Sequence[str], at: int) -> int:
    """The line after a diff without a fence: it ends at the first line that can't belong to it.

    After a hunk that has all the lines its header declares, and a blank line, `- x` is a bullet and not a
    deletion.
    """
    last = at
    left: tuple[int, int] | None = None  # lines that the hunk's header still promises, old and new
    blanks = 0
    for number in range(at, len(lines)):
        line = lines[number]
        if is_signature(lines, number):
            return number + 2
        if _HEADER.match(line) and not (line.startswith("--- ") and not is_file_header(lines, number)):
            counts = _NUMBERS.match(line)
            left = (int(counts.group(1) or 1), int(counts.group(2) or 1)) if counts else None
        elif line[:1] in {" ", "+", "-", "\\"}:
            if blanks and left == (0, 0):
                break
            if left is not None and line[0] != "\\":
                left = (left[0] - blanks - (line[0] != "+"), left[1] - blanks - (line[0] != "-"))
        elif line.strip():
            break
        else:
            blanks += 1
            continue
        last, blanks = number, 0
    return last + 1
