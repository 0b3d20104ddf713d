"""The part of a passage that shows why it was found."""

from __future__ import annotations

import re
from typing import NamedTuple

from repoagent.memory.recall.query import Query
from repoagent.memory.recall.words import tokens, words_in

WIDTH = 200  # characters


class Snippet(NamedTuple):
    """A text on one line; `marks` are where in it (start, end) words of the query stand; `lines` is how many lines of
    the passage are before it."""

    text: str
    marks: tuple[tuple[int, int], ...]
    lines: int


def snippet(text: str, query: Query, width: int = WIDTH) -> Snippet:
    """At most `width` characters of `text`, where most of the query's words stand; "…" for what is left out."""
    found = [token for token in tokens(text) if _fits(token[0], query)]
    start = _best(found, text, width, query)
    if start and found:
        start = _line_or_word(text, start)
    before = "…" if text[:start].strip() else ""
    pieces, marks, size = [before], list[tuple[int, int]](), len(before)
    at = start
    for token in [*(token for token in found if token.start() >= start), None]:
        end = len(text) if token is None else token.start()
        between = re.sub(r"\s+", " ", text[at:end])
        if size in (0, len(before)):
            between = between.lstrip()
        if size + len(between) + (len(token[0]) if token else 0) > width:
            pieces.append(between[: max(0, width - 1 - size)].rstrip() + "…")
            break
        pieces.append(between)
        size += len(between)
        if token is not None:
            marks.append((size, size + len(token[0])))
            pieces.append(token[0])
            size += len(token[0])
            at = token.end()
    whole = "".join(pieces).rstrip()
    first = next((token.start() for token in found if token.start() >= start), start)
    return Snippet(whole, tuple(mark for mark in marks if mark[1] <= len(whole)), text.count("\n", 0, first))


def _fits(token: str, query: Query) -> bool:
    words = words_in(token)
    return any(word in query.words for word in words.parts) or any(
        name in query.names or name in query.joined for name in words.names
    )


def _best(found: list[re.Match[str]], text: str, width: int, query: Query) -> int:
    """Where a window should begin: the one with the most different words of the query, the first of equals."""
    if len(text) <= width or not found:
        return 0
    best, most = 0, 0
    for number, token in enumerate(found[:500]):
        inside: set[str] = set()
        for other in found[number : number + 40]:
            if other.end() > token.start() + width * 3 // 4:
                break
            inside.update(word for word in words_in(other[0]).parts if word in query.words)
        if len(inside) > most:
            best, most = token.start(), len(inside)
    return best if best + 1 > width // 2 else 0


def _line_or_word(text: str, start: int) -> int:
    """A little before `start`: the beginning of its line, or of a word."""
    line = text.rfind("\n", 0, start) + 1
    if start - line <= 40:
        return line
    space = text.find(" ", start - 40, start)
    return space + 1 if space >= 0 else start
