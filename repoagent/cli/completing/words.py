"""A command line that is being typed, as bash, zsh and fish take it: pure functions."""

from __future__ import annotations

from typing import NamedTuple

_KEPT_BY_BACKSLASH = '$`"\\'  # inside of double quotes; before anything else a backslash is itself
_PLAIN = frozenset("_./@%+,:=^{}~-")  # beside letters, digits and all that is not ASCII


class Typed(NamedTuple):
    """`words` are the whole ones before the cursor, without their quotes; `incomplete` is the one at the cursor.

    `quote` is the quotation mark that it is inside of, or "". `kept` says how many of its characters stand before what
    the shell will replace: bash begins anew after each of COMP_WORDBREAKS.
    """

    words: list[str]
    incomplete: str
    quote: str = ""
    kept: int = 0


def read(line: str, breaks: str = "") -> Typed:
    """`line` up to the cursor; `breaks` are the characters at which bash begins a word anew."""
    words: list[str] = []
    word: list[str] = []
    quote, kept, inside, escaped = "", 0, False, False
    for character in line:
        if escaped:
            if quote and character not in _KEPT_BY_BACKSLASH:
                word.append("\\")
            word.append(character)
            escaped = False
        elif character == "\\" and quote != "'":
            inside = escaped = True
        elif quote:
            if character == quote:
                quote = ""
            else:
                word.append(character)
        elif character in "'\"":
            quote, kept, inside = character, len(word), True
        elif character in " \t\n":
            if inside:
                words.append("".join(word))
            word, kept, inside = [], 0, False
        else:
            word.append(character)
            inside = True
            if character in breaks:
                kept = len(word)
    return Typed(words, "".join(word), quote, kept)


def quoted(text: str, quote: str = "") -> str:
    """`text` as bash reads it inside of `quote`, which stays open, or outside of quotes."""
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote:
        return "".join(f"\\{one}" if one in _KEPT_BY_BACKSLASH else one for one in text)
    shown = "".join(one if one.isalnum() or one > "\x7f" or one in _PLAIN else f"\\{one}" for one in text)
    return f"\\{shown}" if shown.startswith("~") else shown
