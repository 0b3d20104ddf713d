"""Find candidates for cuts in text without a grammar: headings, blank lines, indentation, then any line."""

from __future__ import annotations

import re
from zlib import crc32

from repoagent.dataclass import dataclass
from repoagent.split.pack import Boundary, Candidate

# Costs, in units of one more segment (see `pack.py`).
_LEVEL = 0.15  # a level of headings, a column of indentation
_DEEPEST = 16
_OUTDENT = 2.0  # a line at the margin after an indented one
_LINE = 4.5
_COLON = 1.0  # after a paragraph that ends with a colon
_INSIDE = 6.0  # in a section, an indented block or a paragraph that fits into a segment
_HEAD = 6.0  # before the first item of an indented block
_TITLE = 20.0  # after a heading
_CLOSING = 14.0
_DOCUMENTED = 12.0
_JITTER = 0.8 / 1024
_STEPS = 8  # a line longer than a segment divided by this is not a small paragraph
_CLOSES = re.compile(
    rb"[\])}]|(end|fi|done|esac|else|elif|elsif|except|catch|finally|rescue|ensure|then)\b|</|-->|\*/|#endif|#else"
)
_COMMENT = re.compile(
    rb"#(?!(include|define|if|endif|else|pragma|undef)\b)|//|--|;|%|/?\*|\"\"\"|'''|<!--|@\w"
)
_RULE = re.compile(rb"([!-/:-@\[-`{-~])\1{2,}$")
_GAP = re.compile(rb"\n[ \t\r\f]*\n")
_EMPTY_COMMENT = re.compile(rb"(?://+[!/]?|#+|\*+|;+|--+)?\s*$")
_PARAGRAPH = re.compile(rb"(?:(?://+[!/]?|#+|\*+)\s*)?<(?:p|h[1-6])\b", re.IGNORECASE)  # in a comment
_EXAMPLE = re.compile(rb"(<pre\b)|</pre>", re.IGNORECASE)
# In reStructuredText: targets of links, which belong to the next element, and directives that belong to a heading.
_TARGET = re.compile(
    rb"\.\.\s+(?:_(?:`[^`\n]+`|(?:[^:\\\n]|\\.)+):[ \t\r]*$|index::)|__[ \t\r]*$", re.MULTILINE
)
_MODULE = re.compile(rb"\.\.\s+(?:\w+:)?(?:current)?module::")
_INDENTED = re.compile(rb"(?:[ \t]+\S[^\n]*(?:\n|\Z)|[ \t\r\f]*\n)+")
_BLOCK, _INNER = 100, 200  # ranks: headings from 0, then the starts of blocks, then lines in blocks


@dataclass(slots=True)
class _Line:
    """A nonblank line: the smaller its rank, the more of the following lines belong to it."""

    offset: int
    rank: int
    cost: float
    reason: Boundary
    outer: _Line | None
    end: int = -1
    inside: int = 0  # how many outer blocks fit into a segment, at most 2


def add_text_candidates(
    text: bytes,
    span: tuple[int, int],
    limit: int,
    candidates: list[Candidate],
    cost: float = 0.0,
    *,
    comment: bool = False,
) -> None:
    """Append the candidates within `span` of `text`, excluding its ends, to `candidates`, in order and each once.

    `cost` is added to the cost of each. In a `comment`, lines with only comment marks and `<p>` also end paragraphs.
    The time is linear.
    """
    start, end = span
    last = max(start, candidates[-1][0] if candidates else 0)
    for line in _lines(text, start, end, limit, comment=comment):
        outer = line.outer
        if outer is not None:
            line.inside = min(outer.inside + (outer.end - outer.offset <= limit), 2)
        if line.offset > last:
            candidates.append((line.offset, cost + line.cost + _INSIDE * line.inside, line.reason))


def _lines(text: bytes, start: int, end: int, limit: int, *, comment: bool = False) -> list[_Line]:
    """The first lines of paragraphs, and all lines of large ones."""
    lines: list[_Line] = []
    open_lines: list[_Line] = []
    levels: dict[bytes, int] = {}
    offset = done = text.rfind(b"\n", 0, start) + 1
    whole, step = limit // 2, max(1, limit // _STEPS)
    blank, before, column, titled = True, b"", 0, 0
    headed = searched = 0  # the end of the targets of a heading, and of the text searched for them
    example = False  # inside <pre> of a comment
    while offset < end:
        newline = text.find(b"\n", offset, end)
        after = end if newline < 0 else newline + 1
        raw = text[offset : min(after, offset + 200)]
        content = raw.lstrip()
        if not content:
            blank, offset = True, after
            continue
        if comment:
            if _EMPTY_COMMENT.match(content):
                blank, offset = not example, after
                continue
            blank = blank or (not example and _PARAGRAPH.match(content) is not None)
        indent = len(raw) - len(content)
        rank, price = (_BLOCK if blank else _INNER) + min(indent, 90), _LEVEL * min(indent, _DEEPEST)
        reason: Boundary = "blank" if blank else "line"
        title = _title(text, after, content.rstrip()) if blank and not indent else b""
        if offset >= searched and blank and not indent and content[:1] in (b".", b"_"):
            searched, headed, title = _pointing(text, offset, end)
        if title:
            rank = levels.setdefault(title, len(levels))
            price = _TITLE if titled else _LEVEL * rank
        elif titled:
            price = _TITLE
        elif blank:
            price += 0.3 + (_COLON if before.endswith(b":") else 0.0)
        elif _COMMENT.match(before) and not _COMMENT.match(content):
            price += _DOCUMENTED
        elif indent < column:
            price, reason = price + _OUTDENT, "indent"
        else:
            price += _LINE
        if example:
            price += _INSIDE
        if not title and _CLOSES.match(content):
            price += _CLOSING
        while open_lines and open_lines[-1].rank >= rank:
            open_lines.pop().end = done
        outer = open_lines[-1] if open_lines else None
        if outer is not None and lines[-1] is outer and outer.rank >= _BLOCK and rank < _INNER:
            price += _HEAD
        line = _Line(offset, rank, price + (crc32(content) & 1023) * _JITTER, reason, outer)
        lines.append(line)
        open_lines.append(line)
        if blank and after - offset <= step:  # a small paragraph is not cut
            gap = _GAP.search(text, after - 1, min(offset + whole, end))
            if gap is not None:
                after = gap.start() + 1
        titled = 1 if title or offset < headed else 0
        for mark in _EXAMPLE.finditer(raw) if comment else ():
            example = mark[1] is not None
        before = text[max(offset, after - 200) : after].rstrip().rsplit(b"\n", 1)[-1].lstrip()
        blank, column = False, indent
        offset = done = after
    for line in open_lines:
        line.end = done
    return lines


def _pointing(text: bytes, offset: int, end: int) -> tuple[int, int, bytes]:
    """The targets and module directives at `offset`: the end of the run, the end of those that belong to the next
    element, and the rule of the heading below (see `_title`). A module directive belongs only to a heading."""
    at = targets = offset
    while at < end and ((target := _TARGET.match(text, at)) or _MODULE.match(text, at)):
        following = text.find(b"\n", at, end) + 1 or end
        indented = _INDENTED.match(text, following, end)
        following = indented.end() if indented else following
        if target and targets == at:
            targets = following
        at = following
    if at == offset:
        return offset, offset, b""
    newline = text.find(b"\n", at, end) + 1 or end
    title = _title(text, newline, text[at:newline].rstrip()) if at < end else b""
    return at, at if title else targets, title


def _title(text: bytes, after: int, content: bytes) -> bytes:
    """The character of the rule below a reStructuredText heading that begins with `content`, twice if there is a rule
    above it too; b"" if this is not a heading."""
    following = text[after : after + 400].split(b"\n", 2)
    below = following[0].rstrip()
    if _RULE.match(content):
        under = following[1].rstrip() if len(following) > 2 else b""
        return content[:1] * 2 if below and under[:1] == content[:1] and _RULE.match(under) else b""
    if _RULE.match(below) and len(below) >= min(len(content), 4) and not content.startswith(b".."):
        return below[:1]
    return b""
