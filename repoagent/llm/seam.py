"""Joining a reply that was cut with its continuation.

A model that is asked to go on exactly where it stopped mostly does. Some open the code fence again, some
start the unfinished line anew. Both are put right when there is no doubt; in doubt the texts are joined as
they are: a repetition left in makes a patch that is refused, text wrongly taken out makes one that applies.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([^\n`]*?)[ \t]*\r?")
_LOOK_BACK = 8_000  # characters; nobody repeats more than that
_SURE_LINES = 3
_SURE_CHARACTERS = 4  # of an unfinished line, white space not counted


def join(text: str, more: str) -> str:
    """`text` with its continuation `more`, without what `more` repeats of it for certain."""
    more = _without_reopened_fence(text, more)
    return text + more[_repeated(text, more) :]


def open_fence(text: str) -> str:
    """The line that opened the code fence in which `text` ends, or ""."""
    opened = ""
    marker = ""
    for line in text.split("\n"):
        fence = _FENCE.fullmatch(line)
        if fence is None:
            continue
        run, language = fence.groups()
        if not opened:
            opened, marker = run + language, run
        elif run.startswith(marker) and not language:
            opened = ""
    return opened


def _without_reopened_fence(text: str, more: str) -> str:
    """Drop a first line that opens the fence again in which `text` was cut."""
    opened = open_fence(text)
    first, newline, rest = more.lstrip("\n").partition("\n")
    fence = _FENCE.fullmatch(first)
    if not (opened and fence and newline and opened == "".join(fence.groups())):
        return more
    if fence.group(2):  # the same language again: a fence that names one never closes one
        return rest
    # A bare one may also close the fence. Then the fences that follow it come in pairs; if it opens the fence
    # again, the one that closes it is left over.
    return rest if open_fence(rest) and not open_fence(f"{first}\n{rest}") else more


def _repeated(text: str, more: str) -> int:
    """How many characters at the start of `more` are the end of `text` once more, from a line start on."""
    tail = text[-_LOOK_BACK:]
    starts = [0] if len(tail) == len(text) else []
    starts += [match.end() for match in re.finditer("\n", tail)]
    for start in starts:
        piece = tail[start:]
        if piece and more.startswith(piece) and _is_no_coincidence(text, piece):
            return len(piece)
    return 0


def _is_no_coincidence(text: str, piece: str) -> bool:
    if piece in (piece + piece)[1:-1]:  # made of repetitions, like a ruler: it may well go on like that
        return False
    unfinished = piece[piece.rfind("\n") + 1 :]
    if unfinished:
        return len("".join(unfinished.split())) >= _SURE_CHARACTERS
    # Whole lines: equal lines do follow each other in code.
    return piece.count("\n") >= _SURE_LINES and text.count(piece) == 1
