"""Where in JavaScript and TypeScript a function may have a name: most have none, and are not worth a look."""

from __future__ import annotations

import re

_ARROW = re.compile(rb"=>")
_FUNCTION = re.compile(rb"function\b(\s*\*?\s*[\w$])?")
_BODY = re.compile(rb"\)[^\n(){};=]{0,80}\{")
_CONTROL = re.compile(rb"[ \t}]*(?:else[ \t]+)?(?:if|for|while|switch|catch|with)\b")
_MINIFIED = 400  # bytes: in a line longer than this anything may be before
_GIVEN = (b"=", b":")  # what gives a name to the value behind it


def script_places(text: bytes) -> list[int]:
    """Offsets in, or close to, all functions that have a name; not in order.

    A function given to a call (`map((x) => …)`, `each(function () {…})`) is at none of them, nor is the body of a
    control structure.
    """
    found = []
    for match in _ARROW.finditer(text):
        at = match.start()
        before = text[text.rfind(b"\n", 0, at) + 1 : at]
        if b"=" in before or b":" in before or before.lstrip()[:1] in (b")", b"}"):
            found.append(at)
    for match in _FUNCTION.finditer(text):
        at = match.start()
        if match[1] or text[max(at - 40, 0) : at].rstrip().removesuffix(b"async").rstrip().endswith(_GIVEN):
            found.append(at)
    for match in _BODY.finditer(text):
        at = match.start()
        line = text.rfind(b"\n", max(at - _MINIFIED, 0), at) + 1
        if line == 0 or not (_CONTROL.match(text, line) or text.find(b"function", line, at) >= 0):
            found.append(at)
    return found
