"""Foreign text in Markdown: shown as it is, and nothing in it is markup, a mention, a reference or a link.

A backslash keeps a mark of punctuation from being markup. It does not keep a code host from making a link of @name,
#1 or an address, for those are looked for in the finished page: there a character without width stands after the sign.
In code neither is looked for.
"""

from __future__ import annotations

import re
from html import escape

_MARKUP = frozenset("\\`*_[]~|$")  # anywhere; of a link and an image it is the brackets
_BLOCK = re.compile(
    r"[#+\-=/]|(?<=\d)[.)]"
)  # at the start of a line: headings, lists, rules, commands of GitLab
_SIGNS = re.compile(r"@|[#!$%~^&*\[](?=\w)|(?<=\w)-(?=\d)|:(?=[/\w+-])|(?<=[wW])\.(?=\w)")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_BREAK = "&#8203;"  # zero width space


def as_text(text: str) -> str:
    """Plain text, of one or more lines, as Markdown that reads the same; line breaks stay line breaks."""
    return "\n".join(_line(line) for line in text.expandtabs(4).split("\n"))


def as_code(text: str, *, table: bool = False) -> str:
    """A text of one line as a code span; in a `table` the bar is escaped. An empty text stays empty."""
    text = text.replace("\n", " ")
    if not text.strip():
        return ""
    marks = "`" * (_longest(text) + 1)
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    span = f"{marks}{pad}{text}{pad}{marks}"
    return span.replace("|", "\\|") if table else span


def as_html(text: str) -> str:
    """Text within an HTML element of a Markdown document, where no blank line may stand."""
    return " ".join(escape(text).split("\n"))


def fenced(text: str, info: str = "", *, empty: bool = False) -> str:
    """A code block whose fence is longer than any in the text; `empty` for none at all."""
    fence = "`" * max(3, _longest(text) + 1)
    return f"{fence}{info}\n{fence}" if empty else f"{fence}{info}\n{text}\n{fence}"


def _longest(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _line(line: str) -> str:
    stripped = line.lstrip(" ")
    start = len(stripped) - len(stripped.lstrip("0123456789"))
    shown = "".join(_character(stripped, place, first=place == start) for place in range(len(stripped)))
    return "&nbsp;" * (len(line) - len(stripped)) + shown


def _character(line: str, place: int, *, first: bool) -> str:
    one = line[place]
    marks = one in _MARKUP or (first and _BLOCK.match(line, place))
    shown = _HTML.get(one) or (f"\\{one}" if marks else one)
    return shown + _BREAK if _SIGNS.match(line, place) else shown
