"""Comments and blank lines that a model left out when it wrote code anew: nobody asked for that."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repoagent.patch import differing

_ASKED = re.compile(
    r"\b(comment|remark|docstring|header|blank|empty line|licen[cs]e|shebang|format|tidy|clean|remov|delet|strip|"
    r"rewrit)",
    re.IGNORECASE,
)
_SLASH = re.compile(r"\.(?:[mc]?[jt]sx?|java|go|rs|c|h|cc|cpp|hpp|cs|css|scss|php|kt|swift)$")
_HASH = re.compile(r"\.(?:pyi?|sh|bash|zsh|ya?ml|toml|rb|pl|r|cfg|ini|conf|mk|cmake|tf)$|(?:^|/)\.?[^./]+$")
_MARKUP = re.compile(r"\.(?:md|markdown|html?|xml|vue|svelte)$")


def with_remarks(path: str, old: Sequence[str], new: Sequence[str], request: str) -> list[str]:
    """`new` with the comments and blank lines of `old` that are gone where nothing else changed, and without white
    space at line ends, and blank lines, that came where nothing else did. As it is where the request may mean them."""
    if _ASKED.search(request):
        return list(new)
    result: list[str] = []
    at = 0
    for i1, i2, j1, j2 in differing(old, new):
        result += new[at:j1]
        gone, come = old[i1:i2], new[j1:j2]
        said = any(line.strip() and _is_remark(path, line) for line in come)
        result += gone if not said and _code(path, gone) == _code(path, come) else come
        at = j2
    return [*result, *new[at:]]


def _is_remark(path: str, line: str) -> bool:
    text = line.strip()
    if not text:
        return True
    if _SLASH.search(path):
        return text.startswith(("//", "/*", "*"))
    if _MARKUP.search(path):
        return text.startswith("<!--") and text.endswith("-->")
    return text.startswith("#") and _HASH.search(path) is not None


def _code(path: str, lines: Sequence[str]) -> list[str]:
    return [line.rstrip() for line in lines if not _is_remark(path, line)]
