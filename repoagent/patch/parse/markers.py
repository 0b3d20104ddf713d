"""Recognize the lines that begin or end patches: fences, headers, markers, directives."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repoagent.dataclass import dataclass

DIFF_LANGUAGES = {"diff", "patch", "udiff", "unified", "unified-diff", "git-diff", "gitdiff"}
LONGEST = 4000  # characters of a line that can still be a header or a fence

SEARCH = re.compile(r"(?:<{4,9} ?(?:SEARCH|ORIGINAL)\b|-{5,9} SEARCH\b).*$")
DIVIDER = re.compile(r"={4,9}\s*$")
REPLACE = re.compile(r"(?:>{4,9} ?(?:REPLACE|UPDATED)\b|\+{5,9} REPLACE\b).*$")

NUMBERS = re.compile(r"@@+[ \t]*-(\d{1,9})(?:,(\d{1,9}))?[ \t]+\+(\d{1,9})(?:,(\d{1,9}))?[ \t]*(?:@@+)?(.*)$")
HALF_HEADER = re.compile(r"(?:--- a|\+\+\+ b)/\S")
_SURE_HALF = re.compile(r"(?:--- a|\+\+\+ b)/(?:[^ ]*/)?[^ /]+\.\w{1,12}\s*$")
COMBINED = re.compile(r"diff --(?:cc|combined) |@@@+ -\d+(?:,\d+)? -\d+(?:,\d+)? ")
COMMAND = re.compile(r"diff (?:--(?:git|cc|combined)|-[A-Za-z-]+) \S")
DIRECTIVE = re.compile(
    r"\*\*\* (?:(Begin Patch|End Patch|End of File)[ \t]*\r?$"
    r"|(Add File|Update File|Delete File|Move to):[ \t]*(\S.*)$)"
)
_INTERESTING = re.compile(
    r"[\s>\d|:│→.)*+\u200b-\u200f\u2060\ufeff-]{0,80}?"
    r"(?:```|~~~|<<<<|-{5,9} SEARCH|diff -|--- |\+\+\+ |@@|\*\*\* \S)"
)
_MAIL = re.compile(r"(?:From [0-9a-f]{40,64} \w|commit [0-9a-f]{40,64}\b)")
_LATE = re.compile(r"[^`\s][ \t]{0,9}(`{3,})([^`\s]+)[ \t]*\r?$")
_BULLET = re.compile(r"[+-] (?!\*/? |\*/?$)\S|--\s*$|---+\s*$")
_BARE_FENCE = re.compile(r"[ \t]*(?:`{3,}|~{3,})[ \t]*\r?$")
_FENCE = re.compile(r"([ \t]{0,16})((?:[-*+]|\d{1,3}[.)])[ \t]{1,4})?(`{3,}|~{3,})([^`]*)$")


@dataclass(frozen=True)
class Fence:
    """A line that opens or closes a fence: the text before it, its mark, its info string, and its column."""

    margin: str
    mark: str
    info: str
    column: int = 0


def interesting(line: str) -> bool:
    """Whether a patch may begin on this line. Fast; it has false positives, but no false negatives."""
    return _INTERESTING.match(line) is not None


def fence_on(line: str, *, late: bool = False) -> Fence | None:
    """The fence on a line, or None; a fence at the end of a sentence only if `late`. After a list marker, the margin is
    as wide as the marker."""
    if len(line) > LONGEST or not ("```" in line or "~~~" in line):
        return None
    match = _FENCE.match(line)
    if match is not None:
        indent, bullet, mark, info = match.groups()
        return Fence(indent + " " * len(bullet or ""), mark, info.strip(), 0)
    first = line.find("```")
    match = _LATE.search(line, max(0, first - 10)) if late and first > 0 else None
    if match is None or match.start(1) != first:
        return None
    return Fence("", match.group(1), match.group(2), first)


def is_bare_fence(line: str) -> bool:
    return _BARE_FENCE.match(line) is not None


def is_bullet(line: str) -> bool:
    """Whether a line with a sign looks like a list item or a rule."""
    return _BULLET.match(line) is not None


def directive(line: str) -> tuple[str, str]:
    """The directive of an envelope on a line and its argument; both "" for another line."""
    match = DIRECTIVE.match(line)
    if match is None:
        return "", ""
    return (match[1], "") if match[1] else (match[2], match[3].rstrip("\r \t").strip("`\"'"))


def is_file_header(lines: Sequence[str], at: int) -> bool:
    """Whether lines `at` and `at + 1` are `--- old` and `+++ new`."""
    if at + 1 == len(lines):
        return False
    if not lines[at].startswith("--- ") or not lines[at + 1].startswith("+++ "):
        return False
    return bool(lines[at][4:].strip() and lines[at + 1][4:].strip())


def is_lone_header(lines: Sequence[str], at: int) -> bool:
    """Whether line `at` is a `--- name` or `+++ name` without its other half, right before a hunk's `@@` or a blank
    line before it."""
    if not lines[at].startswith(("--- ", "+++ ")) or not lines[at][4:].strip():
        return False
    below = at + 1 + (at + 1 < len(lines) and not lines[at + 1].strip())
    return below < len(lines) and lines[below].startswith("@@")


def is_half_header(line: str) -> bool:
    """Whether this is a `--- a/name` or `+++ b/name` that is almost certainly a header."""
    return len(line) <= LONGEST and _SURE_HALF.match(line) is not None


def is_signature(lines: Sequence[str], at: int) -> bool:
    """Whether the output of `git format-patch` ends at this line: `-- ` and a version, then nothing or a blank line."""
    if lines[at].rstrip() != "--" or at + 1 == len(lines) or len(lines[at + 1]) > 60:
        return False
    if at + 2 < len(lines) and lines[at + 2].strip() and not lines[at + 2].startswith(("```", "~~~")):
        return False
    return re.match(r"\d+\.\d+[\w.()+ -]{0,40}\s*$", lines[at + 1]) is not None


def is_mail(line: str) -> bool:
    """Whether a mail of `git format-patch`, or a commit of `git log -p`, begins at this line."""
    return _MAIL.match(line) is not None


def starts_diff(lines: Sequence[str], at: int) -> bool:
    """Whether line `at` is the first of a diff."""
    line = lines[at]
    if COMMAND.match(line) or is_file_header(lines, at) or is_lone_header(lines, at):
        return True
    if not line.startswith("@@"):
        return False
    return NUMBERS.match(line) is not None or (
        at + 1 < len(lines) and lines[at + 1][:1] in {" ", "+", "-", "@"}
    )
