"""A query for uses (`NAME`, `Class.method`, `FILE:NAME`, or a FILE) and its answer as plain values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.git.files import read_source
from repoagent.git.worktree import WorkTree
from repoagent.syntax.outline import find_symbols, outline
from repoagent.syntax.symbol import Symbol

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
    """Where a symbol is defined; lines count from 1, both included. `kind` is a kind of the outline, or "field"."""

    path: str
    name: str
    kind: str
    first_line: int
    last_line: int


@dataclass(frozen=True)
class UsesIn:
    """The lines of a file that use a symbol, from 1. `text`: matched as words, in comments and strings too. `within`:
    the functions that the lines are in."""

    path: str
    lines: tuple[int, ...]
    text: bool
    test: bool
    within: tuple[str, ...]


@dataclass(frozen=True)
class Uses:
    """The uses of one symbol. `definitions` are those asked about, `elsewhere` has others of the same name; `files` has
    the most informative first, `more` is the number of files that a limit left out."""

    symbol: str
    definitions: tuple[Definition, ...]
    elsewhere: tuple[Definition, ...]
    files: tuple[UsesIn, ...]
    more: int = 0


@dataclass(frozen=True)
class Answer:
    """The uses of a symbol, or of all symbols that `file` defines. `unused` are its symbols that no other file uses,
    `more` is the number of symbols above the limit. `left_out` has a sentence for each reason why files were
    skipped."""

    asked: str
    file: str | None
    symbols: tuple[Uses, ...]
    unused: tuple[str, ...] = ()
    more: int = 0
    left_out: tuple[str, ...] = ()


def count(number: int, word: str) -> str:
    """The number with the word, in the plural if it is not 1."""
    return f"{number} {word}{'s' * (number != 1)}"


def is_test(path: str) -> bool:
    """Whether the file is a test file, judging by its path."""
    return _TEST.search(path) is not None


LONGEST = 200  # characters of a name
SYMBOLS = 100  # of a file
_SEPARATOR = re.compile(r"::|#|->|\.")
_LINE = re.compile(r"(.+):\d+")


@dataclass(frozen=True)
class SymbolQuery:
    """A symbol: its name in the answer, the last part of its name, its qualified name ("" for a bare name without a
    file), and the file that defines it ("" for any)."""

    text: str
    name: str
    qualified: str = ""
    file: str = ""


def parse_symbol(text: str, file: str = "", data: bytes | None = None) -> SymbolQuery:
    """Parse the symbol `text`, of `file` with its `data` if one is named.

    Raises UsageError for an invalid name, and for a name that the file does not define.
    """
    plain = text.strip().removesuffix("()")
    if data is not None and (line := _LINE.fullmatch(plain)):
        plain = line[1]
    parts = [part for part in _SEPARATOR.split(plain) if part]
    if not parts or len(plain) > LONGEST or not re.fullmatch(r"[^\s\x00-\x1f/\\]+", plain):
        raise UsageError(f"{text[:80]!r} is not a symbol; use NAME, Class.method or FILE:NAME")
    name = parts[-1]
    if file and not re.search(
        rb"(?<!\w)" + re.escape(name.encode("utf-8", "surrogateescape")) + rb"(?!\w)", data or b""
    ):
        find_symbols(file, data or b"", text)  # its error lists the symbols
        raise UsageError(f"{file} does not define {name}")
    return SymbolQuery(plain, name, ".".join(parts) if file or len(parts) > 1 else "", file)


def symbols_of_file(worktree: WorkTree, path: str) -> list[SymbolQuery]:
    """The symbols that a file defines for others, without duplicates, symbols local to functions, and names that Python
    itself calls. Raises UsageError if the file is missing or defines nothing."""
    data = read_source(worktree, path).data
    if data is None:
        from repoagent.git.files import no_such_file

        raise no_such_file(path, worktree.top)
    names = {symbol.qualified_name: symbol.name for symbol in outer(outline(path, data))}
    if not names:
        raise UsageError(f"repoagent found no definitions in {path}; name a symbol instead")
    return [SymbolQuery(text, name, text, path) for text, name in list(names.items())[:SYMBOLS]]


def outer(symbols: Iterable[Symbol]) -> list[Symbol]:
    """The definitions that other code can refer to by name."""
    definitions = []
    local_below: int | None = None
    for symbol in symbols:
        if local_below is not None and symbol.depth > local_below:
            continue
        local_below = symbol.depth if symbol.kind in ("function", "method") else None
        special = symbol.name.startswith("__") and symbol.name.endswith("__")
        if symbol.kind in CODE and not special and len(symbol.name) > 1:
            definitions.append(symbol)
    return definitions
