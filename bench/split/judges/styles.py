"""CSS: a scanner of braces, semicolons, strings and comments."""

from __future__ import annotations

import re

from bench.split.marks import Item, Marks

_TOKEN = re.compile(
    rb"""(?P<comment>/\*.*?(?:\*/|\Z))|(?P<url>url\(\s*[^"'\s)][^)]*\))|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
    rb"|(?P<sign>[{};])|(?P<open>\()|(?P<shut>\))|[^\s{};()\"'/u]+|[/u\"']",
    re.DOTALL,
)
TRAILING = re.compile(rb"[ \t]*;?(?:[ \t]*/\*[^\n]*?\*/(?=[ \t]*\r?$))?", re.MULTILINE)


def marks(kind: str, text: bytes) -> Marks:
    """Units: rules, at-rules and declarations."""
    found = Marks(text, TRAILING)
    found.container(read(found, 0, len(text)))
    return found


def read(found: Marks, first: int, last: int) -> list[Item]:
    """The items of the outermost level from `first` to `last`; the levels below are marked."""
    text = found.text
    stack: list[tuple[int, list[Item]]] = []
    items: list[Item] = []
    begin, end, depth = -1, -1, 0

    def done() -> None:
        nonlocal begin
        if begin >= 0:
            items.append(Item(begin, end, text[begin : begin + 40].split(b"\n")[0].decode(errors="replace")))
        begin = -1

    for token in _TOKEN.finditer(text, first, last):
        sign = token["sign"]
        if token["comment"]:
            if begin < 0:
                line_begins = not text[text.rfind(b"\n", 0, token.start()) + 1 : token.start()].strip()
                if line_begins or not items:  # one that follows on the line belongs to what is before
                    items.append(Item(token.start(), token.end(), "comment", sticks="orphan"))
        elif token["open"] or token["shut"]:
            depth = max(0, depth + (1 if token["open"] else -1))
            begin, end = (token.start() if begin < 0 else begin), token.end()
        elif sign == b"{":
            begin = token.start() if begin < 0 else begin
            stack.append((begin, items))
            items, begin, depth = [], -1, 0
        elif sign == b"}":
            done()
            depth = 0
            if stack:
                inner = items
                head, items = stack.pop()
                found.container(inner, head, (token.start(), token.end()), "rule")
                begin, end = head, token.end()
                done()
        elif sign == b";" and not depth:
            done()
        else:
            begin, end = (token.start() if begin < 0 else begin), token.end()
    done()
    return items
