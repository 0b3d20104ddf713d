"""Which words of a request are names of code, by how they are written."""

from __future__ import annotations

import re

NAME = re.compile(r"(?<![\w$/.-])[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*(?:\(\))?")
# my_name, myName, MY_NAME, MyName
_SURE = re.compile(r"\w*[a-zA-Z0-9]_\w+|_\w+|[a-z]+\w*[a-z0-9][A-Z]\w*|[A-Z]\w*[a-z0-9][A-Z]\w*")


def is_name(text: str, match: re.Match[str]) -> bool:
    """Whether a match of NAME is surely meant as a name: by its letters, looked up in something, called or quoted."""
    word, before, after = (
        match[0],
        text[match.start() - 1 : match.start()],
        text[match.end() : match.end() + 1],
    )
    if word.endswith("()") or after == "(" or _SURE.fullmatch(word) or re.search(r"[.#:]", word):
        return True
    return before != "" and before in "`'\"" and after == before


def parts_of(word: str) -> list[str]:
    """`a.b()` as ["a", "b"]."""
    return re.split(r"::|#|\.", word.removesuffix("()"))
