"""Underlined headings of Markdown made into `#` ones of the same size, as the grammar gives only those a section."""

from __future__ import annotations

import re

_FRONT_MATTER = re.compile(
    rb"(?:\xef\xbb\xbf)?(---|\+\+\+)[ \t]*\r?\n.*?^\1[ \t]*\r?$", re.DOTALL | re.MULTILINE
)
_RULE = re.compile(rb"^ {0,3}(={2,}|-{3,})[ \t]*\r?$", re.MULTILINE)
_OTHER = re.compile(
    rb" {0,3}(?:\d+[.)]\s|[-*+]\s|([-*_=])\1{2,}\s*$|```|~~~|[>#|<])"
)  # no paragraph begins so
_OWN_LINE = re.compile(rb" {0,3}(?:#|([-*_])\1{2,}\s*$)")  # nor does one go on behind this
_LONGEST = 1_000  # bytes of a heading


def parsed_text(text: bytes, language: str | None) -> bytes:
    """What to parse instead of `text`: every byte that begins or ends a block stays at its place."""
    if language != "markdown" or (b"\n==" not in text and b"\n---" not in text):
        return text
    front = _FRONT_MATTER.match(text)
    done = front.end() if front else 0
    parts = [text[:done]]
    for rule in _RULE.finditer(text, done):
        start = _paragraph(text, done, rule.start())
        if start < rule.start():
            parts += [text[done:start], _hashed(text[start : rule.start()], rule[0])]
            done = rule.end()
    return b"".join([*parts, text[done:]])


def _paragraph(text: bytes, first: int, end: int) -> int:
    """Where the paragraph begins that ends at `end`, after `first`; `end` where there is none that can be a heading."""
    start = end
    while start > first and end - start <= _LONGEST:
        above = text.rfind(b"\n", first, start - 1) + 1 or first
        line = text[above:start]
        if len(line) > _LONGEST or not line.strip() or _OWN_LINE.match(line):
            break
        if _OTHER.match(line):
            return end
        start = above
    opens = text[start : start + 4]
    return end if end - start > _LONGEST or not opens.lstrip(b" ") or opens[:1] == b"\t" else start


def _hashed(paragraph: bytes, rule: bytes) -> bytes:
    marks = b"# " if b"=" in rule else b"## "
    body = paragraph.rstrip(b"\r\n")
    title = body.replace(b"\r", b" ").replace(b"\n", b" ")
    ended = rule.endswith(b"\r")
    blank = len(rule) - len(marks) - ended
    return marks + title + paragraph[len(body) :] + b" " * blank + b"\r" * ended
