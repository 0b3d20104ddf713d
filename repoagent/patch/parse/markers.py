"""Recognize the lines that begin or end patches, and remove what wraps a diff: line numbers, quotation marks (`>`),
margins."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repoagent.dataclass import dataclass
from repoagent.patch.paths import ZERO_WIDTH

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
    """A line that opens or closes a fence: the text before the fence, its mark, its info string, and its column."""

    margin: str
    mark: str
    info: str
    column: int = 0


def interesting(line: str) -> bool:
    """Whether a patch may begin on this line. Fast; there are false positives, but no false negatives."""
    return _INTERESTING.match(line) is not None


def fence_on(line: str, *, late: bool = False) -> Fence | None:
    """Return the fence on a line, or None; a fence at the end of a sentence counts only if `late`.

    After a list marker, the margin is as wide as the marker.
    """
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
    """Whether a line that begins with `+` or `-` looks like a list item or a horizontal rule."""
    return _BULLET.match(line) is not None


def directive(line: str) -> tuple[str, str]:
    """Return the envelope directive on a line, and its argument; both are "" if the line is not a directive."""
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
    """Whether line `at` is a `--- name` or `+++ name` without its other half, above an `@@` line."""
    if not lines[at].startswith(("--- ", "+++ ")) or not lines[at][4:].strip():
        return False
    below = at + 1 + (at + 1 < len(lines) and not lines[at + 1].strip())
    return below < len(lines) and lines[below].startswith("@@")


def is_half_header(line: str) -> bool:
    """Whether a line is a `--- a/name` or `+++ b/name` that is almost certainly a header."""
    return len(line) <= LONGEST and _SURE_HALF.match(line) is not None


def is_signature(lines: Sequence[str], at: int) -> bool:
    """Whether the output of `git format-patch` ends at line `at`: `-- ` and a version, then nothing or a blank line."""
    if lines[at].rstrip() != "--" or at + 1 == len(lines) or len(lines[at + 1]) > 60:
        return False
    if at + 2 < len(lines) and lines[at + 2].strip() and not lines[at + 2].startswith(("```", "~~~")):
        return False
    return re.match(r"\d+\.\d+[\w.()+ -]{0,40}\s*$", lines[at + 1]) is not None


def is_mail(line: str) -> bool:
    """Whether an email of `git format-patch`, or a commit in the output of `git log -p`, begins on this line."""
    return _MAIL.match(line) is not None


def starts_diff(lines: Sequence[str], at: int) -> bool:
    line = lines[at]
    if COMMAND.match(line) or is_file_header(lines, at) or is_lone_header(lines, at):
        return True
    if not line.startswith("@@"):
        return False
    return NUMBERS.match(line) is not None or (
        at + 1 < len(lines) and lines[at + 1][:1] in {" ", "+", "-", "@"}
    )


_START_NUMBER = re.compile(r"[ \t|:│→]{0,20}\d")
_ONE_NUMBER = re.compile(r"[ \t]*(\d{1,7})([ \t]*[|:│→]?[ \t]*)")
_COLUMNS = re.compile(r"(?=[ |:│]*\d)[ \d|:│]*[ |:│](?=[-+])")
_COLUMN_HEAD = re.compile(r"[ \d|:│]*[ |:│]")
_NUMBERS_BEFORE = {"+": (1,), "-": (1,), "": (2,), " ": (2,), "\\": (0, 1, 2)}  # of a line with this sign
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
    r"""Return the lines without the line number, or two, at the start of each; None if they are not numbered.

    Examples: `12 | -old`, `12: -old`, `12\t-old`, ` 12 -old`, and for both sides `12 13 same`. For the lines of one
    hunk, `counts` and `start` are those in its header.
    """
    nonblank = [line for line in lines if line.strip()]
    if not nonblank or not all(_START_NUMBER.match(line) for line in nonblank):
        return None
    for remove in (_without_columns, _without_one_number):
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


def _without_columns(lines: Sequence[str]) -> list[str] | None:
    """Without two columns of numbers: both before context, one before a changed line; separated by tabs, or of equal
    width."""
    tabbed = [match.end() for line in lines if (match := _TABBED.match(line))]
    if len(tabbed) == len(lines):
        return [line[end:] for line, end in zip(lines, tabbed, strict=True)]
    ends = [match.end() for line in lines if (match := _COLUMNS.match(line))]
    # Further right, the head of the line that ends first would contain its sign.
    for column in (min(ends), min(ends) - 1) if ends else ():
        heads = [line[:column].ljust(column) for line in lines]
        numbers = [len(re.findall(r"\d+", head)) for head in heads]
        if 2 in numbers and all(
            _COLUMN_HEAD.fullmatch(head) and count in _NUMBERS_BEFORE.get(line[column : column + 1], ())
            for head, count, line in zip(heads, numbers, lines, strict=True)
        ):
            return [line[column:] for line in lines]
    return None


def number_before(line: str) -> bool:
    return _ONE_NUMBER.match(line) is not None or _TABBED.match(line) is not None


def is_quoted(line: str) -> bool:
    return _QUOTE.match(line) is not None


def unquoted(lines: Sequence[str]) -> list[str]:
    """Return the lines without one level of `>`, and without the space after it if it belongs to the quotation."""
    tight = any(_TIGHT_QUOTE.match(line) for line in lines)
    result = []
    for line in lines:
        if is_quoted(line):
            line = line.lstrip()[1:]
            line = line if tight else line.removeprefix(" ")
        result.append(line)
    return result


def undecorated(lines: Sequence[str]) -> tuple[list[str], frozenset[str]]:
    """Return the lines without zero-width characters at their start, and the tolerance used."""
    plain = [
        line if line.isascii() else _ZERO_WIDTH_START.sub(r"\1", line, count=1).lstrip(ZERO_WIDTH)
        for line in lines
    ]
    changed = any(len(new) != len(old) for new, old in zip(plain[1:], lines[1:], strict=True))
    return plain, frozenset({"invisible"} if changed else ())


def unwrapped(lines: Sequence[str]) -> tuple[Sequence[str], frozenset[str]]:
    """Return the lines of a block without quotation marks, line numbers or indentation, and the tolerances used.

    Nothing is removed if a line begins with `+` or `-` or is a header.
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
        else:
            # the common indentation, if the rest is certainly a diff: context that is a list has no `+`
            name, inner = "indented", without_margin(lines, margin_of(lines))
            first = next((number for number, line in enumerate(inner) if line.strip()), 0)
            is_diff = starts_diff(inner, first) or DIRECTIVE.match(inner[first])
            if not nonblank or not (is_diff or any(line.startswith("+") for line in inner)):
                break
        lines, tolerances = inner, tolerances | {name}
    return lines, frozenset(tolerances)


def margin_of(lines: Sequence[str]) -> str:
    """The white space that all nonblank lines start with."""
    return _common_prefix([line[: len(line) - len(line.lstrip())] for line in lines if line.strip()])


def without_margin(lines: Sequence[str], margin: str) -> list[str]:
    """Return the lines without `margin`, or without as much of it as they have."""
    if not margin:
        return list(lines)
    return [
        line[len(margin) :] if line.startswith(margin) else line[len(_common_prefix([line, margin])) :]
        for line in lines
    ]
