"""Find the blocks of an answer: fences, bare diffs, SEARCH/REPLACE, envelopes, named whole files.

`find_blocks` comes first, then the functions that find what a fence contains (`_classified`) and where it ends, then
those that find where bare patches end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from repoagent.dataclass import dataclass
from repoagent.patch import paths
from repoagent.patch.parse import markers

DIFF, SEARCH_REPLACE, ENVELOPE, WHOLE_FILE, CODE = "diff", "search-replace", "envelope", "whole-file", "code"
_DEPTH = 8  # nested quotations, lists and the like
_MOST_LINES = 4_000_000
_MOST_BLOCKS = 20_000


@dataclass(frozen=True)
class Block:
    """A patch in the answer.

    first, after: its range of lines.
    start, end: its range of characters.
    lines: its lines, unwrapped and without fences.
    prose: the text before it in its fence.
    unclear_end: whether a Markdown file may go on after the fence that closes it.
    """

    first: int
    after: int
    kind: str
    lines: Sequence[str]
    name: str | None
    fence: markers.Fence | None
    closed: bool
    tolerances: frozenset[str] = frozenset()
    start: int = 0
    end: int = 0
    prose: str = ""
    unclear_end: bool = False


def patch_spans(answer: str, *, loose: bool = False) -> list[Block]:
    """Return the blocks of `answer` that are patches, in order.

    `loose`: the prompt requested whole files or functions, so a fence without a name may be one (kind "code"), and a
    fence may open at the end of a sentence.
    """
    return [
        block
        for block in find_blocks(answer, loose=loose)
        if (block.lines if loose else block.kind != CODE or block.name)
    ]


def find_blocks(answer: str, *, loose: bool, known: Collection[str] = ()) -> list[Block]:
    """Return all patches in an answer, and fences of code without a file name.

    If the answer has too many lines, return none; if it has too many blocks, leave out the rest (see `too_large`).
    """
    if answer.count("\n") > _MOST_LINES:
        return []
    raw = answer.split("\n")
    lines, decoration = markers.undecorated(raw)
    result: list[Block] = []
    row = start = 0
    for block in _blocks(lines, loose, known):
        start += sum(map(len, raw[row : block.first])) + block.first - row
        end = start + sum(map(len, raw[block.first : block.after])) + block.after - block.first
        column = block.fence.column if block.fence else 0
        tolerances = block.tolerances | decoration
        if block.kind == WHOLE_FILE and block.lines and raw[block.first + 1].startswith("\ufeff"):
            block = replace(block, lines=["\ufeff" + block.lines[0], *block.lines[1:]])  # of a new file
        result.append(replace(block, start=start + column, end=min(end, len(answer)), tolerances=tolerances))
        row, start = block.after, end
        if len(result) > _MOST_BLOCKS:
            break
    return result


def too_large(answer: str, parsed: Sequence[Block]) -> bool:
    """Whether the answer has more lines or blocks than the parser accepts. Only junk has that many."""
    return len(parsed) > _MOST_BLOCKS or answer.count("\n") > _MOST_LINES


def _blocks(lines: Sequence[str], loose: bool, known: Collection[str], depth: int = 0) -> Iterator[Block]:
    at = floor = 0  # lines above `floor` belong to another patch
    while at < len(lines):
        line = lines[at]
        if not markers.interesting(line) and not (loose and "```" in line):
            at += 1
            continue
        fence = markers.fence_on(line, late=loose)
        block = _fenced(lines, at, fence, known) if fence else _unfenced(lines, at, known)
        if block is not None:
            yield block
            at = floor = block.after
            continue
        if depth == _DEPTH:  # do not read all lines below
            at += 1
            continue
        first, after = at, at + 1
        if markers.is_quoted(line):
            first, after = _run(lines, at, floor, markers.is_quoted)
            inner, tolerance = markers.unquoted(lines[first:after]), "quoted"
        elif markers.number_before(line):
            _, after = _run(lines, at, at, markers.number_before)
            inner, tolerance = markers.without_numbers(lines[at:after]) or [], "numbered"
        elif margin := line[: len(line) - len(line.lstrip(" \t"))]:
            while after < len(lines) and (lines[after].startswith(margin) or not lines[after].strip()):
                after += 1
            inner, tolerance = markers.without_margin(lines[at:after], margin), "indented"
        else:
            at += 1
            continue
        for block in _blocks(inner, loose, known, depth + 1):
            start, end = first + block.first, first + block.after
            name = block.name or _name_above(block.kind, block.lines, lines, start, known)
            tolerances = block.tolerances | {tolerance}
            yield replace(block, first=start, after=end, name=name, tolerances=tolerances)
        at = floor = max(after, at + 1)


def _unfenced(lines: Sequence[str], at: int, known: Collection[str]) -> Block | None:
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
        kind, after = DIFF, _diff_end(lines, at)
        closed = after < len(lines)
    else:
        return None
    name = _name_above(kind, lines[at : at + 1], lines, at, known)
    return Block(at, after, kind, lines[at:after], name, None, closed)


def _name_above(
    kind: str, body: Sequence[str], lines: Sequence[str], at: int, known: Collection[str]
) -> str | None:
    """The file name above line `at`, for a patch without a name."""
    if kind == SEARCH_REPLACE:
        return _name_before(lines, at, known)
    if kind == DIFF and body[:1] and body[0].startswith("@@"):
        return _name_before(lines, at, known) or paths.name_in_lead(_line_above(lines, at), known)
    return None


def _name_before(lines: Sequence[str], at: int, known: Collection[str] = ()) -> str | None:
    """The file name on the line before a block, or in a heading above one line of prose; skips blank lines."""
    above = [line for line in lines[max(0, at - 4) : at][::-1] if line.strip()]
    if not above or not any(line.strip() for line in lines[max(0, at - 3) : at]):
        return None
    name = paths.name_on_line(above[0], known)
    if name is None and len(above) > 1 and above[0].rstrip().endswith(":"):
        is_heading = above[1].strip(f"{paths.ZERO_WIDTH} \t").startswith("#")
        return paths.name_on_line(above[1], known) if is_heading else None
    return name


def _line_above(lines: Sequence[str], at: int) -> str:
    """The nearest of the three lines above `at` that is not blank, else ""."""
    return next((line for line in lines[max(0, at - 3) : at][::-1] if line.strip()), "")


def _run(lines: Sequence[str], at: int, floor: int, same: Callable[[str], object]) -> tuple[int, int]:
    """The range of lines around `at`, from `floor` on, that match `same`, with blank lines between."""
    first = at
    while first > floor and same(lines[first - 1]):
        first -= 1
    after = number = at + 1
    while number < len(lines) and (same(lines[number]) or not lines[number].strip()):
        number += 1
        after = number if lines[number - 1].strip() else after
    return first, after


# What a fence contains

_SHELLS = {
    "", "sh", "bash", "zsh", "shell", "console", "terminal", "shell-session", "shellsession", "sh-session"
}  # fmt: skip
_HEREDOC = re.compile(r"[ \t]*(?:\$ )?(?:sudo )?(?:cd .*(?:&&|;) *)?(?:cat|tee|patch|git apply)\b.*<<")
_MARKDOWN = (".md", ".markdown", ".mdx")
_AHEAD = 400  # lines of a hunk to search below a fence in it


def _fenced(lines: Sequence[str], at: int, fence: markers.Fence, known: Collection[str]) -> Block:
    """The block of the fence that opens at line `at`, without its margin."""
    end = _fence_end(lines, at, fence)
    closed = end is not None
    if end is None:
        # The first bare fence with more indentation. For a fence at column 0 it may be a line of a truncated hunk.
        for number in range(at + 1, len(lines)):
            later = markers.fence_on(lines[number])
            if later is None or not later.mark.startswith(fence.mark):
                continue
            if later.info and not later.margin:
                break
            if not later.info and (fence.margin or len(later.margin) > 1):
                end, closed = number, bool(fence.margin)
                break
    body = lines[at + 1 : end if end is not None else len(lines)]
    margin = fence.margin
    if margin:
        common = markers.margin_of(body)
        margin = margin if common.startswith(margin) else common if margin.startswith(common) else ""
    body = markers.without_margin(body, margin)
    kind, name, inner, tolerances = _classified(fence.info, body, lines, at, known)
    if margin and kind not in {CODE, WHOLE_FILE}:
        tolerances |= {"indented"}
    after = len(lines) if end is None else end + 1
    language = _language(fence.info)
    is_markdown = (name or "").lower().endswith(_MARKDOWN) or language in {"markdown", "md", "mdx"}
    is_markdown = is_markdown and kind in {CODE, WHOLE_FILE}
    unclear = closed and is_markdown and _may_go_on(lines, after, fence, known)
    return Block(at, after, kind, inner, name, fence, closed, tolerances, unclear_end=unclear)


def _classified(
    info: str, body: Sequence[str], lines: Sequence[str], at: int, known: Collection[str]
) -> tuple[str, str | None, Sequence[str], frozenset[str]]:
    """The kind of a fence's body, the file name next to it, its lines unwrapped, and the tolerances. Code has a name if
    a sentence presents it as the whole of an unknown file."""
    name = paths.name_in_info(info, known) or _name_before(lines, at, known)
    language = _language(info)
    is_diff = language in markers.DIFF_LANGUAGES
    none: frozenset[str] = frozenset()
    if any(line[:1] in "<-" and markers.SEARCH.match(line) for line in body if line):
        return SEARCH_REPLACE, name, body, none
    first = next((number for number, line in enumerate(body) if line.strip()), None)
    if first is None:
        return (CODE, None, body, none) if name is None or is_diff else (WHOLE_FILE, name, body, none)
    # The first line of a diff may follow a quotation mark, a number or white space.
    wrapped = any(mark in body[first][:80] for mark in ("--- ", "@@", "diff -", "*** "))
    inner, tolerances = markers.unwrapped(body) if is_diff or wrapped else (body, none)
    for line in inner[first : first + 4]:  # commands may precede an envelope
        if markers.DIRECTIVE.match(line):
            return ENVELOPE, name, inner, tolerances
        if line.strip() and "apply_patch" not in line and not line.startswith(("#!", "cd ", "set ")):
            break
    comment = paths.name_in_comment(inner[first], known)
    second = next((n for n in range(first + 1, len(inner)) if inner[n].strip()), first) if comment else first
    if is_diff or markers.starts_diff(inner, first) or markers.starts_diff(inner, second):
        return DIFF, name or comment or paths.name_in_lead(_line_above(lines, at), known), inner, tolerances
    if language in _SHELLS and any(_HEREDOC.match(line[:300]) for line in body):
        return CODE, None, (), none  # a script that writes files is not a file
    if name is not None:
        return WHOLE_FILE, name, body, none
    claimed = paths.name_claimed_whole(_line_above(lines, at))
    matching = [claimed] if claimed in known else [path for path in known if path.endswith(f"/{claimed}")]
    if claimed and len(matching) == 1:
        return WHOLE_FILE, matching[0], body, frozenset({"header"})
    return CODE, claimed or None, body, none


def _language(info: str) -> str:
    """The first word of an info string, without a name after a colon: ```diff:src/a.py"""
    return info.split(maxsplit=1)[0].partition(":")[0].lower() if info.split() else ""


def _fence_end(lines: Sequence[str], at: int, fence: markers.Fence) -> int | None:
    """The line that closes the fence at line `at`, at its column or left of it; not a bare fence within a hunk or its
    counts. In a whole Markdown file a fence with a language opens an inner one; in a SEARCH/REPLACE block none
    counts."""
    name = paths.name_in_info(fence.info) or _name_before(lines, at) or ""
    nests = name.lower().endswith(_MARKDOWN)
    patched = _language(fence.info) in markers.DIFF_LANGUAGES
    counted = patched or any(markers.starts_diff(lines, row) for row in range(at + 1, len(lines))[:2])
    depth = 0
    left: list[int] | None = None  # lines that the hunk's header still expects, old and new
    opened = marker = 0  # the SEARCH line that is open, and the marker that follows it
    for number in range(at + 1, len(lines)):
        line = lines[number]
        if _is_marker(line):
            opened = number if markers.SEARCH.match(line) else 0
        elif patched and line.startswith("+++ "):
            nests = line.rstrip().lower().endswith(_MARKDOWN)
        inner = markers.fence_on(line) if "```" in line or "~~~" in line else None
        if inner is None or not _may_close(inner, fence):
            left = _count_down(line.removeprefix(fence.margin), left) if counted else None
            continue
        if not inner.info and left == [0, 0]:
            return number
        continues = left is not None and not inner.info and _continues_hunk(lines, number, left, fence.margin)
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


def _may_go_on(lines: Sequence[str], after: int, fence: markers.Fence, known: Collection[str]) -> bool:
    """Whether the bare fence above line `after` may open a fence inside a Markdown file: the next one is bare too, with
    only an inner text between; or none follows, and the text around looks so."""
    for number in range(after, len(lines)):
        inner = markers.fence_on(lines[number])
        if inner is not None and _may_close(inner, fence):
            named = _name_before(lines, number, known) or paths.name_claimed_whole(_line_above(lines, number))
            is_patch = any(
                markers.starts_diff(lines, row)
                or markers.SEARCH.match(lines[row])
                or markers.DIRECTIVE.match(lines[row])
                for row in range(number + 1, len(lines))[:1]
            )
            return not inner.info and (lines[after].strip() != "" or not (named or is_patch))
    # The last line introduces something, or text follows at once below a blank line and the fence: the answer was
    # cut inside an inner fence.
    above = next(line for line in reversed(lines[: after - 1]) if line.strip())
    is_inside = not lines[after - 2].strip() and any(line.strip() for line in lines[after : after + 1])
    return above.rstrip().endswith(":") or is_inside


def _may_close(inner: markers.Fence, fence: markers.Fence) -> bool:
    if not inner.mark.startswith(fence.mark):
        return False
    is_left = len(inner.margin) < len(fence.margin) and len(fence.margin.expandtabs(4)) > 1
    return inner.margin == fence.margin or is_left


def _is_marker(line: str) -> bool:
    return line[:1] in "<>+-" and (markers.SEARCH.match(line) or markers.REPLACE.match(line)) is not None


def _count_down(line: str, left: list[int] | None) -> list[int] | None:
    """The old and new lines that a hunk's header still expects after `line`; None without counts."""
    if line.startswith("@@"):
        counts = markers.NUMBERS.match(line)
        return [int(counts.group(2) or 1), int(counts.group(4) or 1)] if counts else None
    if left is None or line.startswith("\\"):
        return left
    return [left[0] - (line[:1] != "+"), left[1] - (line[:1] != "-")]


def _continues_hunk(lines: Sequence[str], at: int, expected: list[int], margin: str = "") -> bool:
    """Whether the fence on line `at` is context that lost its first column: a line of the hunk follows, and the
    expected lines end right before a fence, the next `@@` or the end (a fence if other context is bare, too)."""
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


# Where bare patches end

_REACH = 40  # a paragraph belongs to a hunk only if it has a change within this many lines
_HEADER = re.compile(
    r"(?:diff -|index [0-9A-Za-z]+\.\.|(?:old|new) mode \d|(?:new file|deleted file) mode \d"
    r"|(?:dis)?similarity index |(?:rename|copy) (?:from|to) |Binary files |GIT binary patch|@@"
    r"|Only in )"
)
_NUMBERED = re.compile(r"[ \t]*\d{1,7}[ \t]*[|:│→ \t]")


def _envelope_end(lines: Sequence[str], at: int) -> tuple[int, bool]:
    """The line after an unfenced envelope, and whether it is complete: with a begin marker by its end marker; else it
    ends as a diff does."""
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
        after = _diff_end(lines, number) if lines[number].startswith(("@@", " ", "+", "-")) else number
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


def _diff_end(lines: Sequence[str], at: int) -> int:
    """The line after an unfenced diff. After all declared lines, or without counts a blank one, `- x` is a bullet. A
    bare line belongs to a hunk if a change follows in its paragraph or the header expects one: too many lines (refused
    later) are better than half a change."""
    last = at
    left: tuple[int, int] | None = None  # lines that the hunk's header still expects, old and new
    blanks = 0
    number = decider = at
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
        else:
            decider = max(decider, number + 1)
            while decider < len(lines) and left is not None and not _decides(lines[decider]):
                decider += 1
            if not _belongs(lines, number, left, blanks, decider):
                break
            if left is not None:
                left = (left[0] - blanks - 1, left[1] - blanks - 1)
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


def _belongs(lines: Sequence[str], at: int, left: tuple[int, int] | None, blanks: int, decider: int) -> bool:
    """Whether a line without a sign belongs to the current hunk; `decider` is the first line below that decides it."""
    line = lines[at]
    if line.startswith(("```", "~~~")):
        return left is not None and not blanks and _continues_hunk(lines, at, list(left))
    if markers.DIRECTIVE.match(line) or markers.SEARCH.match(line) or markers.REPLACE.match(line):
        return False
    if _NUMBERED.match(line) and (
        left is None or max(left) > 0 or (at > 0 and _NUMBERED.match(lines[at - 1]))
    ):
        return True
    if (left is not None and max(left) <= 0) or (left is None and blanks):
        return False
    if left is None:
        for later in lines[at + 1 : at + _REACH]:
            if not later.strip() or _decides(later) == "end":
                return False
            if _decides(later) and not markers.is_bullet(later):
                return True
        return False
    if decider < min(at + max(left) - blanks, len(lines)):
        return _decides(lines[decider]) == "change"
    return min(left) > blanks and at > 0 and lines[at - 1][:1] in {"+", "-", " "}


def _decides(line: str) -> str:
    """ "change" or "end" if a bare line above it belongs to the hunk, or does not; else ""."""
    if line.startswith(("@@", "```", "~~~", "--- ", "+++ ")) or markers.COMMAND.match(line):
        return "end"
    return "change" if line[:1] in {"+", "-"} else ""


def _diff_line_of_mail(lines: Sequence[str], at: int) -> int:
    """The `diff` line of a mail or commit that begins at line `at`; 0 without one before the next mail."""
    for number in range(at + 1, len(lines)):
        if lines[number].startswith("diff --git "):
            return number
        if markers.is_mail(lines[number]) or lines[number].startswith("```"):
            return 0
    return 0
