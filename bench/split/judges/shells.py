"""Shell scripts: what the tree says, and functions by their first and last line: the parser loses its way in many."""

from __future__ import annotations

import re

from bench.split.judges.brackets import HASHES, parser, read
from bench.split.marks import Marks

_FUNCTION = re.compile(
    rb"^(?P<about>(?:#[^\n]*\n)*)(?P<head>(?:function[ \t]+[\w:.-]+(?:[ \t]*\(\))?|[\w:.-]+[ \t]*\(\))\s*\{[^\n}]*\n)",
    re.MULTILINE,
)
_LAST = re.compile(rb"^\}[^\n]*(?:\n|\Z)", re.MULTILINE)


def marks(kind: str, text: bytes) -> Marks:
    """Units: as in other languages with brackets where there is a tree at all, and functions from column 0 to `}`."""
    found = Marks(text, HASHES)
    if parser(kind).parse(text).root_node.type != "ERROR":
        read(found, kind, text, 0)
    at = 0
    while function := _FUNCTION.search(text, at):
        last = _LAST.search(text, function.end())
        if last is None:
            break
        at = last.end()
        start, head, body = function.start("about"), function.start("head"), function.end()
        label = text[head:body].strip()[:50].decode(errors="replace")
        found.unit(start, last.end(), label, definition=True)
        if start < head:
            found.seam(start + 1, head - 1, "orphan", label, (head - start, 0))
            found.seam(head, head, "orphan", label)
        found.seam(head + 1, body, "head", label)
        found.seam(last.start(), last.start(), "close", label)
    return found
