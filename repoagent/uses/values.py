"""The answer as plain values: where a symbol is defined and used."""

from __future__ import annotations

import re
from collections.abc import Callable

from repoagent.dataclass import dataclass

WhyNot = Callable[[str], "str | None"]  # why a file may not be shown; None: it may

# Kinds of symbols of an outline that code uses by their name, and those of them that hold members.
CODE = frozenset(
    {
        "function", "method", "class", "struct", "union", "enum", "interface", "type", "macro", "object",
        "declaration", "constant", "variable",
    }
)  # fmt: skip
HOLDERS = frozenset({"class", "struct", "union", "enum", "interface", "impl", "object"})
FUNCTIONS = frozenset({"function", "method"})

_TEST = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|testing|t)/|(?:^|/)(?:test_[^/]*|conftest\.py)$"
    r"|[._-](?:test|spec)s?\.\w+$|(?:Tests?|Spec|IT)\.\w+$"
)


@dataclass(frozen=True)
class Definition:
    """Where a symbol is defined; lines count from 1, both included. `kind` is one of an outline, or "field"."""

    path: str
    name: str
    kind: str
    first_line: int
    last_line: int


@dataclass(frozen=True)
class UsesIn:
    """The lines of a file that use a symbol, from 1. `text`: found as words, in comments and strings too. `within`: the
    functions that the lines are in."""

    path: str
    lines: tuple[int, ...]
    text: bool
    test: bool
    within: tuple[str, ...]


@dataclass(frozen=True)
class Uses:
    """The uses of one symbol. `definitions` are those that were meant, `elsewhere` others of the same name; `files` the
    most telling first, `more` the number of files that a limit left out."""

    symbol: str
    definitions: tuple[Definition, ...]
    elsewhere: tuple[Definition, ...]
    files: tuple[UsesIn, ...]
    more: int = 0


@dataclass(frozen=True)
class Answer:
    """The uses of a symbol; of all that `file` defines where a file was asked for. `unused` are its symbols that no
    other file uses, `more` the number of symbols that a limit left out. `left_out` says which files were not looked
    into, a sentence each."""

    asked: str
    file: str | None
    symbols: tuple[Uses, ...]
    unused: tuple[str, ...] = ()
    more: int = 0
    left_out: tuple[str, ...] = ()


def is_test(path: str) -> bool:
    """Whether the file is one of tests, by its path."""
    return _TEST.search(path) is not None
