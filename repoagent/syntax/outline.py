"""Outline a file, find its symbols by name, and find the symbols that a change removes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from repoagent.display_text import list_some
from repoagent.errors import UsageError
from repoagent.syntax import documents, languages
from repoagent.syntax.data_keys import LANGUAGES_WITH_KEYS, key_symbols
from repoagent.syntax.parser import find_flaws, parse_within, source_text
from repoagent.syntax.symbol import Symbol

if TYPE_CHECKING:
    import tree_sitter

OUTLINE_SECONDS = 5.0
MOST_BYTES = 64 << 20
SHEETS = frozenset({"css", "scss"})


def outline(path: str, data: bytes) -> tuple[Symbol, ...]:
    """The symbols of a file in order, containers before their contents. Returns () for a binary file, for a language
    without a grammar, and if parsing takes too long. Syntax errors hide symbols near them, but raise nothing."""
    result = read_outline(path, data, languages.language_of(path, data))
    return result[0] if result is not None else ()


@lru_cache(maxsize=4)  # an edit reads a text for the prompt, for the context of a problem and as "before"
def read_outline(path: str, data: bytes, language: str | None) -> tuple[tuple[Symbol, ...], int] | None:
    """Like `outline`, for a known language and with the number of syntax errors; None if it takes too long."""
    if language is None:
        return (documents.text_symbols(data) if documents.is_plain_text(path) else ()), 0
    tree = parse_within(data, language, OUTLINE_SECONDS)
    if tree is None:
        return None
    text, errors = source_text(data), 0
    if tree.root_node.has_error:
        if language in ("c", "cpp"):
            from repoagent.syntax.definitions import without_macros

            tree = without_macros(text, tree, language)
        errors = sum(1 for _ in find_flaws(tree, text))
    return symbols_of(tree, text, language), errors


def symbols_of(tree: tree_sitter.Tree, text: bytes, language: str) -> tuple[Symbol, ...]:
    """The symbols of `text`, the result of `source_text`, from its tree; see `outline`."""
    root = tree.root_node
    if language == "markdown":
        return documents.markdown_symbols(root, text)
    if language in LANGUAGES_WITH_KEYS:
        return key_symbols(root, language, text)
    if language in SHEETS:
        return documents.sheet_symbols(root, text)
    if language in documents.PAGES:
        return documents.page_symbols(root, text)
    from repoagent.syntax.definitions import program_symbols

    return program_symbols(root, language, text)


class Outline(NamedTuple):
    """The outline of a file. `flaws` is the number of syntax errors.

    If there is no outline, `reason` is a clause that says why, and `kind` is "no grammar", "binary", "unreadable", "too
    large" or "too slow". Otherwise both are "".
    """

    path: str
    language: str
    lines: int
    symbols: tuple[Symbol, ...]
    flaws: int = 0
    kind: str = ""
    reason: str = ""


def outline_of(path: str, data: bytes, language: str | None = None) -> Outline:
    """The outline of one text; without `language`, `path` determines the language."""
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    if languages.is_binary(data):
        return Outline(path, "", 0, (), 0, "binary", "is binary")
    if len(data) > MOST_BYTES:
        reason = f"is larger than {MOST_BYTES >> 20} MiB; split it first"
        return Outline(path, "", lines, (), 0, "too large", reason)
    language = language or languages.language_of(path, data)
    if language is None and not documents.is_plain_text(path):
        guess = languages.guess_language(path, data)
        reason = "is in an unknown language; use --language"
        if guess is not None:
            reason = f"is in {guess}, whose grammar is not installed; {languages.install_hint(guess)}"
        return Outline(path, "", lines, (), 0, "no grammar", reason)
    result = read_outline(path, data, language)
    if result is None:
        reason = f"nests too deeply, or takes more than {OUTLINE_SECONDS:.0f} seconds to parse"
        return Outline(path, language or "", lines, (), 0, "too slow", reason)
    return Outline(path, language or "text", lines, *result)


def check_language(language: str) -> None:
    """Raise UsageError for a language that is unknown or whose grammar is not installed."""
    if language not in languages.LANGUAGES and language not in languages.LONG_TAIL:
        names = ", ".join(sorted([*languages.LANGUAGES, *languages.LONG_TAIL]))
        raise UsageError(f"unknown language {language!r}; choose one of {names}")
    if language in languages.LONG_TAIL and not languages.is_available(language):
        raise UsageError(f"the {language} grammar is not installed; {languages.install_hint(language)}")


def with_members(symbols: Sequence[Symbol], symbol: Symbol) -> tuple[Symbol, ...]:
    """`symbol` and the symbols that it contains."""
    start = symbols.index(symbol)
    rest = range(start + 1, len(symbols))
    return tuple(symbols[start : next((n for n in rest if symbols[n].depth <= symbol.depth), len(symbols))])


_DEFINITIONS = frozenset(
    {"function", "method", "class", "struct", "union", "enum", "interface", "type", "macro", "declaration"}
)
_SHORT = 200  # lines; if all symbols of one name have fewer, all are returned
_SEPARATOR = re.compile(r"::|#|->")
_LINE = re.compile(r"(.+):(\d+)")
_MOST_LISTED = 8


def find_symbols(path: str, data: bytes, name: str) -> tuple[Symbol, ...]:
    """The symbols in a file that match `name`: `Class.method` (also with `::` or `#`), the end of such a path, a bare
    name, or `NAME:LINE` for the symbol on that line.

    A declaration matches only if there is no definition. Several symbols are returned only if they are short, such as
    overloads. Raises UsageError, with the candidates or the nearest names, if no symbol or several long ones match, or
    if the file has no outline.
    """
    symbols = outline(path, data)
    if not symbols:
        why = "has no symbols" if languages.language_of(path, data) else "is in a language without a grammar"
        raise UsageError(f"{path} {why}; use line numbers instead of {name!r}")
    matches = _matches(symbols, name)
    outer = tuple(
        symbol
        for number, symbol in enumerate(matches)
        if not any(other.last_line >= symbol.last_line for other in matches[:number])
    )
    if outer and sum(symbol.last_line - symbol.first_line + 1 for symbol in outer) < _SHORT:
        return outer
    return (pick_symbol(path, symbols, name),)


def pick_symbol(path: str, symbols: Sequence[Symbol], name: str) -> Symbol:
    """The symbol with this name; see `find_symbols`. Raises UsageError unless exactly one symbol matches."""
    if not symbols:
        raise UsageError(f"{path} has no symbols")
    if matches := _matches(symbols, name):
        if len(matches) > 1:
            raise UsageError(f"{name!r} is ambiguous in {path}: {_list(matches)}; use NAME:LINE")
        return matches[0]
    if (parts := _LINE.fullmatch(name)) and (named := _matches(symbols, parts[1], declarations=True)):
        line = int(parts[2])
        if on_line := [symbol for symbol in named if symbol.first_line <= line <= symbol.last_line]:
            return max(on_line, key=lambda symbol: symbol.depth)
        raise UsageError(f"{path} has no {parts[1]} on line {line}; it has {_list(named)}")
    by_name = {symbol.name.lower(): symbol for symbol in symbols}
    by_name |= {symbol.qualified_name.lower(): symbol for symbol in symbols}
    near = get_close_matches(_SEPARATOR.sub(".", name.lower())[:200], list(by_name)[:5000], n=5, cutoff=0.5)
    if near:
        hint = f"nearest: {_list(list(dict.fromkeys(by_name[key] for key in near)))}"
    else:
        hint = f"it has {_list([symbol for symbol in symbols if symbol.depth == 0])}"
    raise UsageError(f"{path} has no symbol {name!r}; {hint}")


def _matches(symbols: Sequence[Symbol], name: str, *, declarations: bool = False) -> list[Symbol]:
    """The symbols that match `name` as a whole path, otherwise as its end, otherwise with dots as separators. Without
    `declarations`, these are omitted if there are other symbols."""
    matches: list[Symbol] = []
    dotted = _SEPARATOR.sub(".", re.sub(r"\(.*\)$", "", name.strip())).strip(".")
    for wanted in filter(None, (name, dotted)):
        matches = [symbol for symbol in symbols if symbol.qualified_name == wanted] or [
            s for s in symbols if s.name == wanted or s.qualified_name.endswith("." + wanted)
        ]
        if matches:
            break
    if not matches and name.startswith("#"):  # the id of a heading
        matches = [s for s in symbols if s.kind == "heading" and f' id="{name[1:]}"' in s.signature]
    if declarations:
        return matches
    return [symbol for symbol in matches if symbol.kind != "declaration"] or matches


def _list(symbols: Sequence[Symbol]) -> str:
    return list_some([f"{s.qualified_name} ({s.first_line}-{s.last_line})" for s in symbols], _MOST_LISTED)


def defined_names(path: str, data: bytes) -> tuple[str, ...]:
    """The qualified names of the functions, classes and their members, types and macros in a file, in order and without
    duplicates. Names that are local to functions are left out."""
    names: dict[str, None] = {}
    local_below: int | None = None
    for symbol in outline(path, data):
        if local_below is not None and symbol.depth > local_below:
            continue
        local_below = symbol.depth if symbol.kind in ("function", "method") else None
        if symbol.kind in _DEFINITIONS:
            names[symbol.qualified_name] = None
    return tuple(names)


def lost_definitions(path: str, before: bytes, after: bytes) -> tuple[str, ...]:
    """The qualified names that `before` defines and `after` does not, in the order of `before`."""
    if before == after:
        return ()
    left = set(defined_names(path, after))
    return tuple(name for name in defined_names(path, before) if name not in left)
