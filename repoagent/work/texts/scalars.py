"""The forms of a value in YAML that are more than one word: folded, quoted, as a block, in brackets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.work.texts.front import Value

_SINGLE = re.compile(r"'((?:[^']|'')*)'(?!')")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_IN_DOUBLE = re.compile(
    r"\\x([0-9A-Fa-f]{2})|\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})|\\(\n(?:[ \t]*\n)*[ \t]*)|\\(.)"
    r"|(?<![ \t])([ \t]*\n(?:[ \t]*\n)*[ \t]*)",
    re.DOTALL,
)
_BREAKS = re.compile(r"(?<![ \t])[ \t]*\n(?:[ \t]*\n)*[ \t]*")
_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b",
    " ": " ", '"': '"', "\\": "\\", "/": "/", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_WORD = re.compile(r"(?:(?!:(?:[ \t\n,\[\]{}]|$)|[ \t\n]#)[^,\[\]{}?])+")


def folded(lines: Sequence[str]) -> str:
    """Lines as one text: a blank between two, a newline for each empty line."""
    text, empty = lines[0], 0
    for line in lines[1:]:
        if line:
            text += ("\n" * empty or " ") + line
        empty = 0 if line else empty + 1
    return text


def quoted(text: str) -> tuple[Value, str] | None:
    """The quoted text that `text` begins with and what follows; None when it has no end yet. ValueError for an escape
    that there is not."""
    if text[0] == "'":
        found = _SINGLE.match(text)
        return found and (_BREAKS.sub(_fold, found[1]).replace("''", "'"), text[found.end() :])
    found = _DOUBLE.match(text)
    return found and (_IN_DOUBLE.sub(_unescape, found[1]), text[found.end() :])


def _fold(breaks: re.Match[str]) -> str:
    return "\n" * (breaks[0].count("\n") - 1) or " "


def _unescape(found: re.Match[str]) -> str:
    if code := found[1] or found[2] or found[3]:
        number = int(code, 16)
        if number > 0x10FFFF or 0xD800 <= number < 0xE000:
            raise ValueError(f"has the number of no character: {found[0]}")
        return chr(number)
    if found[4]:
        return "\n" * (found[4].count("\n") - 1)
    if found[5]:
        if found[5] not in _ESCAPES:
            raise ValueError(f"has an escape that there is not: {found[0]}")
        return _ESCAPES[found[5]]
    return _fold(found)


def block_text(lines: Sequence[str], fold: bool, chomping: str, indent: int) -> str | None:
    """The text of a block `|`, or `>` with `fold`. `chomping` is "", "-" or "+"; `indent` is 0 when it is that of the
    first line. None when the indentation is not that of a block."""
    if not indent:
        first = next((line for line in lines if line.strip(" ")), None)
        indent = len(first) - len(first.lstrip(" ")) if first is not None else max(map(len, lines), default=0)
    text, empty, last = "", "", ""
    started = False
    for line in lines:
        if len(line) <= indent and not line.strip(" "):
            empty += "\n"
            continue
        if line[:indent].strip(" ") or (not started and not line.strip(" ")):
            return None
        content = line[indent:]
        if fold and started and last[0] not in " \t" and content[0] not in " \t":
            text += empty or " "
        else:
            text += "\n" + empty if started else empty
        text, empty, last, started = text + content, "", content, True
    if chomping == "-" or not started:
        return text + (empty if chomping == "+" else "")
    return text + "\n" + (empty if chomping == "+" else "")


def flow(text: str) -> tuple[Value, str] | None:
    """The list or mapping in brackets that `text` begins with and what follows; None when it has no end yet.

    Raises ValueError, worded as the end of a sentence, for what is none.
    """
    try:
        return _flow(text, 0)
    except IndexError:
        return None


def _flow(text: str, depth: int) -> tuple[Value, str]:
    """Raises IndexError at the end of the text."""
    if depth > 8:
        raise ValueError("is nested too deeply")
    if text[0] in "\"'":
        found = quoted(text)
        if found is None:
            raise IndexError
        return found
    if text[0] not in "[{":
        word = _WORD.match(text)
        if word is None or word[0][0] in "&*!%@`|>#-" or "\n\n" in word[0]:
            raise ValueError(f"has {text[0]} in its brackets: put the value in quotes")
        if word.end() == len(text):
            raise IndexError  # it may go on
        return _BREAKS.sub(" ", word[0]).strip(" \t"), text[word.end() :]
    return _mapping(text[1:], depth) if text[0] == "{" else _list(text[1:], depth)


def _list(text: str, depth: int) -> tuple[Value, str]:
    items: list[Value] = []
    text = text.lstrip(" \t\n")
    while text[0] != "]":
        item, text = _flow(text, depth + 1)
        items.append(item)
        text = _after(text, "]")
    return items, text[1:]


def _mapping(text: str, depth: int) -> tuple[Value, str]:
    fields: dict[str, Value] = {}
    text = text.lstrip(" \t\n")
    while text[0] != "}":
        if text[0] in "[{":
            raise ValueError("has a name in brackets")
        name, text = _flow(text, depth + 1)
        value: Value = ""
        text = text.lstrip(" \t\n")
        if text[0] == ":":
            text = text[1:].lstrip(" \t\n")
            if text[0] not in ",}":
                value, text = _flow(text, depth + 1)
        if not isinstance(name, str) or name in fields:
            raise ValueError(f"says {name} again")
        fields[name] = value
        text = _after(text, "}")
    return fields, text[1:]


def _after(text: str, end: str) -> str:
    """What comes after an item: past the comma, or at the closing bracket."""
    text = text.lstrip(" \t\n")
    if text[0] == ",":
        return text[1:].lstrip(" \t\n")
    if text[0] != end:
        raise ValueError(f"has {text[0]} where a comma or {end} should be")
    return text
