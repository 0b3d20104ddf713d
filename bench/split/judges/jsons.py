"""JSON, with comments too: a scanner of positions."""

from __future__ import annotations

import re

from bench.split.marks import Item, Marks

_TOKEN = re.compile(
    rb"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<bracket>[\[\]{},:])|[^\s\[\]{},:"/]+|/|\"""",
    re.DOTALL,
)
_TRAILING = re.compile(rb"[ \t]*,?[ \t]*(?://[^\n]*|/\*[^\n]*?\*/(?=[ \t]*$))?", re.MULTILINE)


def marks(kind: str, text: bytes) -> Marks:
    """Units: pairs and items of arrays."""
    found = Marks(text, _TRAILING)
    stack: list[tuple[int, list[Item]]] = []  # where the head of each open bracket begins, and what is in it
    items: list[Item] = []
    begin = end = -1  # the item being read
    head = 0

    def done() -> None:
        nonlocal begin
        if begin >= 0:
            label = text[begin : begin + 40].split(b"\n")[0].decode(errors="replace")
            items.append(Item(begin, end, label))
        begin = -1

    for token in _TOKEN.finditer(text):
        if token["comment"]:
            if begin < 0:
                items.append(Item(token.start(), token.end(), "comment", sticks="orphan"))
            continue
        sign = token["bracket"]
        if sign in (b"[", b"{"):
            begin = token.start() if begin < 0 else begin
            stack.append((begin, items))
            items, begin = [], -1
        elif sign in (b"]", b"}") and stack:
            done()
            inner = items
            head, items = stack.pop()
            found.container(
                inner, head, (token.start(), token.end()), text[head : head + 30].decode(errors="replace")
            )
            begin, end = head, token.end()
        elif sign == b",":
            done()
        else:
            begin = token.start() if begin < 0 else begin
            end = token.end()
    done()
    return found
