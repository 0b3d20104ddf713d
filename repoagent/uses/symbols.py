"""Symbols as a user or a request names them, and the results of a search for their uses."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import PurePath

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.git.files import no_such_file, read_source
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
class SymbolDefinition:
    """The place where a symbol is defined. Lines count from 1, and `last_line` is inclusive. `kind` is that of the
    outline, or "field"."""

    path: str
    name: str
    kind: str
    first_line: int
    last_line: int


@dataclass(frozen=True)
class FileUses:
    """A file that uses a symbol, with the line numbers of the uses, counted from 1."""

    path: str
    lines: tuple[int, ...]
    text: bool  # matched as plain words, in comments and strings too
    test: bool
    within: tuple[str, ...]  # the functions that the lines are in


@dataclass(frozen=True)
class Uses:
    """The uses of one symbol."""

    symbol: str
    definitions: tuple[SymbolDefinition, ...]  # those asked about
    elsewhere: tuple[SymbolDefinition, ...]  # others of the same name
    files: tuple[FileUses, ...]  # the most informative ones first
    more: int = 0  # files that a limit left out


@dataclass(frozen=True)
class UsesAnswer:
    """The uses of a symbol, or of all symbols that `file` defines."""

    asked: str
    file: str | None
    symbols: tuple[Uses, ...]
    unused: tuple[str, ...] = ()  # symbols of `file` that no other file uses
    more: int = 0  # symbols above the limit
    left_out: tuple[str, ...] = ()  # which files were not read, a phrase for each reason


def is_test(path: str) -> bool:
    return _TEST.search(path) is not None


LONGEST = 200  # characters of a name
SYMBOLS = 100  # of a file
_SEPARATOR = re.compile(r"::|#|->|\.")
_LINE = re.compile(r"(.+):\d+")


@dataclass(frozen=True)
class SymbolQuery:
    text: str  # its name in the answer
    name: str  # the last part of its name
    qualified: str = ""  # "" for a bare name without a file
    file: str = ""  # that defines it, "" for any


def parse_symbol(text: str, file: str = "", data: bytes | None = None) -> SymbolQuery:
    """Parse `text` as a symbol. Raises UsageError for an invalid name, and for one that `file` (with the content
    `data`) does not define."""
    plain = text.strip().removesuffix("()")
    if data is not None and (line := _LINE.fullmatch(plain)):
        plain = line[1]
    parts = [part for part in _SEPARATOR.split(plain) if part]
    if not parts or len(plain) > LONGEST or not re.fullmatch(r"[^\s\x00-\x1f/\\]+", plain):
        raise UsageError(f"{text[:80]!r} is not a symbol; use NAME, Class.method or FILE:NAME")
    name = parts[-1]
    if file and not word_pattern([name]).search(data or b""):
        find_symbols(file, data or b"", text)  # its error lists the symbols
        raise UsageError(f"{file} does not define {name}")
    return SymbolQuery(plain, name, ".".join(parts) if file or len(parts) > 1 else "", file)


def word_pattern(names: Iterable[str]) -> re.Pattern[bytes]:
    """A pattern that matches each of the names as a whole word."""
    words = b"|".join(re.escape(os.fsencode(name)) for name in sorted(names))
    return re.compile(rb"(?<!\w)(?:%s)(?!\w)" % words)


def symbols_of_file(worktree: WorkTree, path: str) -> list[SymbolQuery]:
    """The symbols that a file defines and other files can use, without duplicates. Raises UsageError if there are
    none."""
    data = read_source(worktree, path).data
    if data is None:
        raise no_such_file(path, worktree.top)
    names = {symbol.qualified_name: symbol.name for symbol in outer_definitions(outline(path, data))}
    if not names:
        raise UsageError(f"repoagent found no definitions in {path}; name a symbol instead")
    return [SymbolQuery(text, name, text, path) for text, name in list(names.items())[:SYMBOLS]]


def outer_definitions(symbols: Iterable[Symbol]) -> list[Symbol]:
    """The definitions that other code can refer to by name. Names that are local to functions, and those that only
    Python itself calls, are left out."""
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


_FAMILIES = {
    suffix: family
    for family, suffixes in {
        "python": ".py .pyi .pyx",
        "script": ".js .jsx .mjs .cjs .ts .tsx .mts .cts .vue .svelte",
        "c": ".c .h .cc .cpp .cxx .hh .hpp .m .mm",
        "jvm": ".java .kt .scala .groovy",
        "go": ".go",
        "rust": ".rs",
        "ruby": ".rb",
        "php": ".php",
    }.items()
    for suffix in suffixes.split()
}


def language_family(path: str) -> str:
    """The group of languages that can call each other's methods, for the language of `path`; "" if there is none."""
    return _FAMILIES.get(PurePath(path).suffix, "")
