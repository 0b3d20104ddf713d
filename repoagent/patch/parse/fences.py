"""Fences: find where they end, what kind of patch they contain, and which file it is for."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from repoagent.dataclass import dataclass
from repoagent.patch.parse import markers
from repoagent.patch.parse.cleanup import margin_of, unwrapped, without_margin
from repoagent.patch.paths import (
    ZERO_WIDTH,
    name_claimed_whole,
    name_in_comment,
    name_in_info,
    name_in_lead,
    name_on_line,
)

DIFF, SEARCH_REPLACE, WHOLE_FILE, CODE = "diff", "search-replace", "whole-file", "code"
ENVELOPE = "envelope"
_DIFF_MARKS = frozenset("<>+-")
_SHELLS = {
    "",
    *["sh", "bash", "zsh", "shell", "console", "terminal", "shell-session", "shellsession", "sh-session"],
}
_HEREDOC = re.compile(r"[ \t]*(?:\$ )?(?:sudo )?(?:cd .*(?:&&|;) *)?(?:cat|tee|patch|git apply)\b.*<<")
_AHEAD = 400  # lines of a hunk to search below a fence in it
_MARKDOWN = (".md", ".markdown", ".mdx")


@dataclass(frozen=True)
class FenceBody:
    """The lines of a fence, the line after it, whether it is closed, and the tolerances needed."""

    lines: list[str]
    after: int
    closed: bool
    tolerances: frozenset[str] = frozenset()


def fence_body(lines: Sequence[str], at: int, fence: markers.Fence) -> FenceBody:
    """The body of the fence that opens at line `at`.

    A fence closes at the column where it opened (0, or that of a list's text), or left of it. A bare fence inside a
    hunk does not close it, nor does a bare fence that the counts of its hunk include. If there is no other, the next
    bare fence with slightly more indentation closes it. In a whole Markdown file a fence with a language opens an inner
    fence, which the next bare fence closes; fences inside a SEARCH/REPLACE block do not count.
    """
    end = _end(lines, at, fence)
    closed = end is not None
    if end is None:
        end = _late_end(lines, at, fence)
        closed = end is not None and bool(fence.margin)  # else it may be a line of a truncated hunk
    body = lines[at + 1 : end if end is not None else len(lines)]
    margin = fence.margin
    if margin:
        common = margin_of(body)
        margin = margin if common.startswith(margin) else common if margin.startswith(common) else ""
    after = len(lines) if end is None else end + 1
    tolerances = frozenset({"indented"} if margin else ())
    return FenceBody(without_margin(body, margin), after, closed, tolerances)


def _end(lines: Sequence[str], at: int, fence: markers.Fence) -> int | None:
    name = name_in_info(fence.info) or name_before(lines, at) or ""
    nests = name.lower().endswith(_MARKDOWN)
    patched = _language(fence.info) in markers.DIFF_LANGUAGES
    counted = patched or any(
        markers.starts_diff(lines, row) for row in range(at + 1, min(at + 3, len(lines)))
    )
    depth = 0
    left: list[int] | None = None  # lines that the hunk's header still expects, old and new
    opened = marker = 0  # the SEARCH line that is open, and the marker that follows it
    for number in range(at + 1, len(lines)):
        line = lines[number]
        if line[:1] in _DIFF_MARKS and _is_marker(line):
            opened = number if markers.SEARCH.match(line) else 0
        elif patched and line.startswith("+++ "):
            nests = line.rstrip().lower().endswith(_MARKDOWN)
        inner = markers.fence_on(line) if "```" in line or "~~~" in line else None
        if inner is not None and (
            not inner.mark.startswith(fence.mark)
            or not (
                inner.margin == fence.margin
                or (len(inner.margin) < len(fence.margin) and len(fence.margin.expandtabs(4)) > 1)
            )
        ):
            inner = None
        if inner is None:
            left = _count_down(line.removeprefix(fence.margin), left) if counted else None
            continue
        if not inner.info and left == [0, 0]:
            return number
        continues = left is not None and not inner.info and continues_hunk(lines, number, left, fence.margin)
        left = _count_down(line, left)
        if continues:
            continue
        if opened:
            if marker <= number:
                below = range(number + 1, len(lines))
                marker = next((row for row in below if _is_marker(lines[row])), len(lines))
            if marker < len(lines) and markers.REPLACE.match(lines[marker]):
                continue
        if inner.info:
            depth += nests
        elif depth:
            depth -= 1
        else:
            return number
    return None


def _late_end(lines: Sequence[str], at: int, fence: markers.Fence) -> int | None:
    """The first bare fence with more indentation, for a fence that is not closed at the right column."""
    for number in range(at + 1, len(lines)):
        inner = markers.fence_on(lines[number])
        if inner is None or not inner.mark.startswith(fence.mark):
            continue
        if inner.info:
            if not inner.margin:
                return None
        elif fence.margin or len(inner.margin) > 1:
            return number
    return None


def _is_marker(line: str) -> bool:
    return line[:1] in _DIFF_MARKS and (markers.SEARCH.match(line) or markers.REPLACE.match(line)) is not None


def _count_down(line: str, left: list[int] | None) -> list[int] | None:
    """The numbers of old and new lines that a hunk's header still expects after `line`; None without counts."""
    if line.startswith("@@"):
        counts = markers.NUMBERS.match(line)
        return [int(counts.group(2) or 1), int(counts.group(4) or 1)] if counts else None
    if left is None or line.startswith("\\"):
        return left
    return [left[0] - (line[:1] != "+"), left[1] - (line[:1] != "-")]


def continues_hunk(lines: Sequence[str], at: int, expected: list[int], margin: str = "") -> bool:
    """Whether the fence on line `at` is a context line that lost its first column.

    That requires that a line of the hunk follows it, and that the `expected` lines end right before a fence, the next
    `@@` or the end; right before a fence if other context has lost its first column too.
    """
    changed = nonblank = bare = False
    left: list[int] | None = list(expected)
    for row in range(at, min(at + min(sum(expected), _AHEAD), len(lines))):
        line = lines[row].removeprefix(margin)
        bare = bare or (line.strip() != "" and line[:1] not in " +-\\`~")
        changed = changed or line[:1] in {"+", "-"}
        left = _count_down(line, left)
        nonblank = nonblank or (line.strip() != "" and row > at)
        if left == [0, 0] and nonblank and not changed:
            below = lines[row + 1].removeprefix(margin) if row + 1 < len(lines) else ""
            changed = below.startswith(("```", "~~~", "@@"))
        if left == [0, 0] and changed:
            end = next((number for number in range(row + 1, len(lines)) if lines[number].strip()), None)
            after = "" if end is None else lines[end].removeprefix(margin)
            if bare:
                return end == row + 1 and after.startswith(("```", "~~~"))
            return (
                not after
                or after.startswith(("```", "~~~", "@@", "\\"))
                or markers.starts_diff(lines, end or 0)
            )
        if left is None or min(left) < 0:
            return False
    return False


def classify(
    info: str, body: Sequence[str], lines: Sequence[str], at: int, known: Collection[str] = ()
) -> tuple[str, str | None, Sequence[str], frozenset[str]]:
    """The kind of a fence's body, the file name next to it, its lines unwrapped, and the tolerances needed.

    `known` are names of files. Code has a name if a sentence presents it as the whole of an unknown file.
    """
    name = name_in_info(info, known) or name_before(lines, at, known)
    language = _language(info)
    none: frozenset[str] = frozenset()
    if any(line[:1] in "<-" and markers.SEARCH.match(line) for line in body if line):
        return SEARCH_REPLACE, name, body, none
    first = next((number for number, line in enumerate(body) if line.strip()), None)
    if first is None:
        is_file = name is not None and language not in markers.DIFF_LANGUAGES
        return (WHOLE_FILE, name, body, none) if is_file else (CODE, None, body, none)
    # The first line of a diff may follow a quotation mark, a number or white space.
    wrapped = any(mark in body[first][:80] for mark in ("--- ", "@@", "diff -", "*** "))
    inner, tolerances = unwrapped(body) if language in markers.DIFF_LANGUAGES or wrapped else (body, none)
    if _is_envelope(inner, first):
        return ENVELOPE, name, inner, tolerances
    comment = name_in_comment(inner[first], known)
    second = next((n for n in range(first + 1, len(inner)) if inner[n].strip()), first) if comment else first
    if (
        language in markers.DIFF_LANGUAGES
        or markers.starts_diff(inner, first)
        or markers.starts_diff(inner, second)
    ):
        return DIFF, name or comment or name_leading(lines, at, known), inner, tolerances
    if language in _SHELLS and any(_HEREDOC.match(line[:300]) for line in body):
        return CODE, None, (), none  # a script that writes files is not a file
    if name is not None:
        return WHOLE_FILE, name, body, none
    above = next((line for line in lines[max(0, at - 3) : at][::-1] if line.strip()), "")
    claimed = name_claimed_whole(above)
    paths = [claimed] if claimed in known else [path for path in known if path.endswith(f"/{claimed}")]
    if claimed and len(paths) == 1:
        return WHOLE_FILE, paths[0], body, frozenset({"header"})
    return CODE, claimed or None, body, none


def _language(info: str) -> str:
    """The first word of a fence's info string, without a name after a colon: ```diff:src/a.py"""
    return info.split(maxsplit=1)[0].partition(":")[0].lower() if info.split() else ""


def _is_envelope(lines: Sequence[str], first: int) -> bool:
    for line in lines[first : first + 4]:
        if markers.DIRECTIVE.match(line):
            return True
        if line.strip() and "apply_patch" not in line and not line.startswith(("#!", "cd ", "set ")):
            return False
    return False


def name_before(lines: Sequence[str], at: int, known: Collection[str] = ()) -> str | None:
    """The file name on the line before a block, or in a heading above one line of prose; skips blank lines."""
    above = [line for line in lines[max(0, at - 4) : at][::-1] if line.strip()]
    if not above or not any(line.strip() for line in lines[max(0, at - 3) : at]):
        return None
    name = name_on_line(above[0], known)
    if (
        name is None
        and len(above) > 1
        and above[0].rstrip().endswith(":")
        and above[1].strip(f"{ZERO_WIDTH} \t").startswith("#")
    ):
        return name_on_line(above[1], known)
    return name


def name_leading(lines: Sequence[str], at: int, known: Collection[str] = ()) -> str | None:
    """The file name in the sentence directly before a diff."""
    above = next((line for line in lines[max(0, at - 3) : at][::-1] if line.strip()), None)
    return None if above is None else name_in_lead(above, known)
