"""Find the end of a diff that has no fence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repoagent.patch.parse.fences import goes_on
from repoagent.patch.parse.markers import (
    COMMAND,
    DIRECTIVE,
    NUMBERS,
    REPLACE,
    SEARCH,
    is_file_header,
    is_index,
    is_lone_header,
    is_mail,
    is_signature,
)

_HEADER = re.compile(
    r"(?:diff -|index [0-9A-Za-z]+\.\.|(?:old|new) mode \d|(?:new file|deleted file) mode \d"
    r"|(?:dis)?similarity index |(?:rename|copy) (?:from|to) |Binary files |GIT binary patch|@@"
    r"|=====+$|Only in |RCS file: |retrieving revision )"
)
_NUMBERED = re.compile(r"[ \t]*\d{1,7}[ \t]*[|:│→ \t]")
_BULLET = re.compile(r"[+-] (?!\*/? |\*/?$)\S|--\s*$|---+\s*$")
_REACH = 40  # lines in which a paragraph must show a change, to belong to a hunk


def bare_diff_end(lines: Sequence[str], at: int) -> int:
    """The line after an unfenced diff, which is the first line that cannot belong to it.

    After a hunk with all the lines that its header promises, `- x` is a bullet and not a deletion; also after a blank
    line if no header promises anything. A line that lost its first column belongs to a hunk only if a change follows in
    the same paragraph, or if the header still promises old lines with a change among them: taking too much (which is
    refused later) is better than half of a change.
    """
    last = at
    left: tuple[int, int] | None = None  # lines that the hunk's header still promises, old and new
    blanks = 0
    number = at
    while number < len(lines):
        line = lines[number]
        if is_signature(lines, number):
            return number + 2
        if _is_header(lines, number, left):
            counts = NUMBERS.match(line)
            left = (int(counts.group(2) or 1), int(counts.group(4) or 1)) if counts else None
            if is_file_header(lines, number) and (left is None or min(left) < 1):
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
        elif is_mail(line) and _mail_goes_on(lines, number):
            number = _mail_goes_on(lines, number)
            last, blanks, left = number - 1, 0, None
            continue
        elif _belongs(lines, number, left, blanks):
            if left is not None:
                left = (left[0] - blanks - 1, left[1] - blanks - 1)
        else:
            break
        last, blanks = number, 0
        number += 1
    return last + 1 + _promised_blanks(lines, last + 1, min(left) if left is not None else 0)


def is_bullet(line: str) -> bool:
    """Whether a line with a sign looks like a list item or a rule."""
    return _BULLET.match(line) is not None


def _promised_blanks(lines: Sequence[str], at: int, most: int) -> int:
    """How many blank lines at the end of a diff are context, as its header still promises them."""
    count = 0
    while count < most and at + count < len(lines) - 1 and not lines[at + count].strip():
        count += 1
    return count


def _is_prose(lines: Sequence[str], at: int) -> bool:
    """Is the paragraph at line `at` one of bullets, or a rule, and nothing in it a change?"""
    for line in lines[at : at + _REACH]:
        if not line.strip() or line.startswith(("@@", "```", "~~~")):
            break
        if line[0] in "+-" and not _BULLET.match(line):
            return False
    return True


def _is_header(lines: Sequence[str], at: int, left: tuple[int, int] | None) -> bool:
    line = lines[at]
    if line[:1] in {" ", "+", "-"} and line[:2] not in {"++", "--"}:
        return False
    if line.startswith(("--- ", "+++ ", "*** ")):
        return is_file_header(lines, at) or (is_lone_header(lines, at) and (left is None or max(left) <= 0))
    if line.startswith("====="):
        return at > 0 and is_index(lines, at - 1)
    return _HEADER.match(line) is not None or is_index(lines, at)


def _belongs(lines: Sequence[str], at: int, left: tuple[int, int] | None, blanks: int) -> bool:
    """Does a line without a sign or a space belong to the hunk that is under way?"""
    line = lines[at]
    if line.startswith(("```", "~~~")):
        return left is not None and not blanks and goes_on(lines, at, list(left))
    if DIRECTIVE.match(line) or SEARCH.match(line) or REPLACE.match(line):
        return False
    if _NUMBERED.match(line) and (
        left is None or max(left) > 0 or (at > 0 and _NUMBERED.match(lines[at - 1]))
    ):
        return True
    if left is not None and max(left) <= 0:
        return False
    if blanks and left is None:
        return False
    promised = _REACH if left is None else max(0, *left) - blanks
    for number in range(at + 1, min(len(lines), at + promised)):
        later = lines[number]
        if not later.strip() and left is None:
            return False
        if later.startswith(("@@", "```", "~~~", "--- ", "+++ ")) or COMMAND.match(later):
            return False
        if later[:1] in {"+", "-"} and not (left is None and _BULLET.match(later)):
            return True
    return left is not None and min(left) > blanks and _follows_change(lines, at)


def _follows_change(lines: Sequence[str], at: int) -> bool:
    """Is the line right before this one a line of a hunk?"""
    return at > 0 and lines[at - 1][:1] in {"+", "-", " "}


def _mail_goes_on(lines: Sequence[str], at: int) -> int:
    """The `diff` line of a mail or commit that begins at `at`, 0 when it has none before the next mail."""
    for number in range(at + 1, len(lines)):
        if lines[number].startswith("diff --git "):
            return number
        if is_mail(lines[number]) or lines[number].startswith("```"):
            return 0
    return 0
