"""A fence's lines: where it ends, what stands in it, and which file it is for."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from repoagent.dataclass import dataclass
from repoagent.patch.parse.heredoc import is_heredoc
from repoagent.patch.parse.marks import (
    DIFF_LANGUAGES,
    DIRECTIVE,
    INVISIBLE,
    NUMBERS,
    REPLACE,
    SEARCH,
    Fence,
    fence_on,
    starts_diff,
)
from repoagent.patch.parse.names import (
    name_claimed_whole,
    name_in_comment,
    name_in_info,
    name_in_lead,
    name_on_line,
    single_known,
)
from repoagent.patch.parse.wrapping import margin_of, unwrapped, without_margin

DIFF, SEARCH_REPLACE, WHOLE_FILE, CODE = "diff", "search-replace", "whole-file", "code"
ENVELOPE, SHELL = "envelope", "shell"
_MARKED = frozenset("<>+-")
_SHELLS = {
    "",
    "sh",
    "bash",
    "zsh",
    "shell",
    "console",
    "terminal",
    "shell-session",
    "shellsession",
    "sh-session",
}
_AHEAD = 400  # lines of a hunk that are looked at below a fence in it
_MARKDOWN = (".md", ".markdown", ".mdx")


@dataclass(frozen=True)
class Fenced:
    """The lines of a fence, the line after it, whether it was closed, and what reading it needed."""

    lines: list[str]
    after: int
    closed: bool
    tolerances: frozenset[str] = frozenset()


def fenced(lines: Sequence[str], at: int, fence: Fence) -> Fenced:
    """The body of the fence that opens at line `at`.

    A fence closes at the column where it opened (0, or that of a list's text), or left of it; so none in a line
    of a hunk does, nor one that the counts of the hunk it stands in claim. Where nothing closes it there, the next
    bare fence does that is indented a little. In a
    whole Markdown file a fence with a language opens one of the file's own, which the next bare fence closes; in
    a SEARCH/REPLACE block none counts.
    """
    name = name_in_info(fence.info) or name_before(lines, at) or ""
    end = _end(lines, at, fence, name)
    closed = end is not None
    if end is None:
        end = _late_end(lines, at, fence)
        closed = end is not None and bool(fence.margin)  # else it may be a line of a hunk that was cut
    body = lines[at + 1 : end if end is not None else len(lines)]
    margin = fence.margin
    if margin:
        common = margin_of(body)
        margin = margin if common.startswith(margin) else common if margin.startswith(common) else ""
    after = len(lines) if end is None else end + 1
    names = frozenset({"indented"} if margin else ())
    return Fenced(without_margin(body, margin), after, closed, names)


def _end(lines: Sequence[str], at: int, fence: Fence, name: str) -> int | None:
    depth = 0
    nests = name.lower().endswith(_MARKDOWN)
    patched = _language(fence.info) in DIFF_LANGUAGES
    counted = patched or any(starts_diff(lines, row) for row in range(at + 1, min(at + 3, len(lines))))
    left: list[int] | None = None  # lines that the hunk's header still promises, old and new
    opened = marker = 0  # the SEARCH line that is open, and the marker that follows it
    for number in range(at + 1, len(lines)):
        line = lines[number]
        if line[:1] in _MARKED and _marker(line):
            opened = number if SEARCH.match(line) else 0
        elif patched and line.startswith("+++ "):
            nests = line.rstrip().lower().endswith(_MARKDOWN)
        inner = fence_on(line) if "```" in line or "~~~" in line else None
        if (
            inner is None
            or not inner.mark.startswith(fence.mark)
            or not _at_margin(inner.margin, fence.margin)
        ):
            left = promised(line.removeprefix(fence.margin), left) if counted else None
            continue
        if not inner.info and left == [0, 0]:
            return number
        if left is not None and not inner.info and goes_on(lines, number, left, fence.margin):
            left = promised(line, left)
            continue
        left = promised(line, left)
        if opened:
            marker = marker if marker > number else _next_marker(lines, number)
            if marker < len(lines) and REPLACE.match(lines[marker]):
                continue
        if inner.info:
            depth += nests
        elif depth:
            depth -= 1
        else:
            return number
    return None


def promised(line: str, left: list[int] | None) -> list[int] | None:
    """The old and new lines that the header of a hunk still promises after `line`; None where it has no counts."""
    if line.startswith("@@"):
        counts = NUMBERS.match(line)
        return [int(counts.group(2) or 1), int(counts.group(4) or 1)] if counts else None
    if left is None or line.startswith("\\"):
        return left
    return [left[0] - (line[:1] != "+"), left[1] - (line[:1] != "-")]


def goes_on(lines: Sequence[str], at: int, left: list[int], margin: str = "") -> bool:
    """Is the fence on line `at` context of a hunk that has lost its first column? Then a line of the hunk comes
    after it, and the promised lines (`left`) end right before a fence, the next `@@` or the end; right before a fence
    if other context has lost its first column too."""
    changed = filled = text = False
    rest: list[int] | None = list(left)
    for row in range(at, min(at + min(sum(left), _AHEAD), len(lines))):
        line = lines[row].removeprefix(margin)
        text = text or (line.strip() != "" and line[:1] not in " +-\\`~")
        changed = changed or line[:1] in {"+", "-"}
        rest = promised(line, rest)
        filled = filled or (line.strip() != "" and row > at)
        if rest == [0, 0] and filled and not changed:
            below = lines[row + 1].removeprefix(margin) if row + 1 < len(lines) else ""
            changed = below.startswith(("```", "~~~", "@@"))
        if rest == [0, 0] and changed:
            end = next((number for number in range(row + 1, len(lines)) if lines[number].strip()), None)
            after = "" if end is None else lines[end].removeprefix(margin)
            if text:
                return end == row + 1 and after.startswith(("```", "~~~"))
            return not after or after.startswith(("```", "~~~", "@@", "\\")) or starts_diff(lines, end or 0)
        if rest is None or min(rest) < 0:
            return False
    return False


def _next_marker(lines: Sequence[str], at: int) -> int:
    """The next line after `at` that begins or ends a SEARCH/REPLACE block; the number of lines for none."""
    return next((number for number in range(at + 1, len(lines)) if _marker(lines[number])), len(lines))


def _marker(line: str) -> bool:
    return line[:1] in _MARKED and (SEARCH.match(line) or REPLACE.match(line)) is not None


def _at_margin(inner: str, margin: str) -> bool:
    return inner == margin or (len(inner) < len(margin) and len(margin.expandtabs(4)) > 1)


def _late_end(lines: Sequence[str], at: int, fence: Fence) -> int | None:
    """The first bare fence that is indented more, where none stands at the right column."""
    for number in range(at + 1, len(lines)):
        inner = fence_on(lines[number])
        if inner is None or not inner.mark.startswith(fence.mark):
            continue
        if inner.info:
            if not inner.margin:
                return None
        elif fence.margin or len(inner.margin) > 1:
            return number
    return None


def kind_and_name(
    info: str, body: Sequence[str], lines: Sequence[str], at: int, known: Collection[str] = ()
) -> tuple[str, str | None, Sequence[str], frozenset[str]]:
    """What a fence's body is, which file is named beside it, its lines unwrapped, and what that needed. `known` as in
    `names`. Code has a name where words present it as the whole of a file that is not known."""
    name = name_in_info(info, known) or name_before(lines, at, known)
    language = _language(info)
    if any(line[:1] in "<-" and SEARCH.match(line) for line in body if line):
        return SEARCH_REPLACE, name, body, frozenset()
    first = next((number for number, line in enumerate(body) if line.strip()), None)
    if first is None:
        return (CODE, None, body, frozenset()) if language in DIFF_LANGUAGES else _plain(name, body)
    inner, names = (
        unwrapped(body) if language in DIFF_LANGUAGES or _wrapped(body[first]) else (body, frozenset())
    )
    if _envelope(inner, first):
        return ENVELOPE, name, inner, names
    comment = name_in_comment(inner[first], known)
    second = next((n for n in range(first + 1, len(inner)) if inner[n].strip()), first) if comment else first
    if language in DIFF_LANGUAGES or starts_diff(inner, first) or starts_diff(inner, second):
        return DIFF, name or comment or name_leading(lines, at, known), inner, names
    if language in _SHELLS and is_heredoc(body):
        return SHELL, None, body, frozenset()
    above = next((line for line in lines[max(0, at - 3) : at][::-1] if line.strip()), "")
    if name is None and (claimed := name_claimed_whole(above)):
        path = single_known(claimed, known)
        return WHOLE_FILE if path else CODE, path or claimed, body, frozenset({"header"} if path else ())
    return _plain(name, body)


def _language(info: str) -> str:
    """The first word of a fence's info string, without a name after a colon: ```diff:src/a.py"""
    return info.split(maxsplit=1)[0].partition(":")[0].lower() if info.split() else ""


def _plain(name: str | None, body: Sequence[str]) -> tuple[str, str | None, Sequence[str], frozenset[str]]:
    return (WHOLE_FILE if name else CODE), name, body, frozenset()


def _wrapped(line: str) -> bool:
    """Can the first line of a diff stand here behind a quotation, a number or white space?"""
    return any(mark in line[:80] for mark in ("--- ", "@@", "diff -", "Index: ", "*** "))


def _envelope(lines: Sequence[str], first: int) -> bool:
    for line in lines[first : first + 4]:
        if DIRECTIVE.match(line):
            return True
        if line.strip() and "apply_patch" not in line and not line.startswith(("#!", "cd ", "set ")):
            return False
    return False


def name_before(lines: Sequence[str], at: int, known: Collection[str] = ()) -> str | None:
    """The file named by the line directly before a block, or by a heading with one short line of prose between;
    blank lines may stand between."""
    above = [line for line in lines[max(0, at - 4) : at][::-1] if line.strip()]
    near = any(line.strip() for line in lines[max(0, at - 3) : at])
    if not above or not near:
        return None
    name = name_on_line(above[0], known)
    if (
        name is None
        and len(above) > 1
        and above[0].rstrip().endswith(":")
        and above[1].strip(f"{INVISIBLE} \t").startswith("#")
    ):
        return name_on_line(above[1], known)
    return name


def name_leading(lines: Sequence[str], at: int, known: Collection[str] = ()) -> str | None:
    """The file that the words directly before a diff name."""
    for line in lines[max(0, at - 3) : at][::-1]:
        if line.strip():
            return name_in_lead(line, known)
    return None
