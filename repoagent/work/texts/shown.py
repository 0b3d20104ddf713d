"""Other people's words on a line of a prompt."""

from __future__ import annotations

from repoagent.llm.quoting import printable


def one_line(text: str) -> str:
    """`text` with single blanks and no newline, nothing in it that is no character to see."""
    return " ".join(printable(text).split())


def cut(text: str, limit: int) -> str:
    """`text` as it is, or at most `limit` characters of it, to the end of a word, with an ellipsis."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    at = head.rfind(" ")
    return (head[:at] if at > limit // 2 else head).rstrip(" ,;:") + "…"
