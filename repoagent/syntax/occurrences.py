"""Find the occurrences of names in a file, with their roles in the syntax tree; without a grammar, as plain words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from repoagent.syntax.languages import guess_language, is_binary, language_of
from repoagent.syntax.node_roles import Role, is_key, owner_of, role_of
from repoagent.syntax.outline.data_formats import LANGUAGES_WITH_KEYS
from repoagent.syntax.outline.markup import is_plain_text
from repoagent.syntax.outline.outline import SHEETS, symbols_of
from repoagent.syntax.outline.symbol import PAGES, Symbol
from repoagent.syntax.parser import parse_bytes, source_text

if TYPE_CHECKING:
    import tree_sitter

MOST = 2_000  # occurrences in a file, above which they count as words
PROSE = frozenset(
    {"markdown", "toml", *LANGUAGES_WITH_KEYS, *PAGES, *SHEETS}
)  # their grammars know no identifiers


class Occurrence(NamedTuple):
    """A name on a line (from 1). `through` has the words of the imports through which a qualified name is looked up, if
    the language has them."""

    name: str
    line: int
    role: Role
    through: frozenset[str] = frozenset()


class Occurrences(NamedTuple):
    """The occurrences in order. `symbols` is the outline of the file, empty if it was not `parsed`."""

    found: tuple[Occurrence, ...]
    symbols: tuple[Symbol, ...] = ()
    parsed: bool = False


def is_prose(path: str) -> bool:
    """Whether the language of the file, judging by its name, has no known identifiers."""
    language = guess_language(path, b"")
    return language is None or language in PROSE


def occurrences(path: str, data: bytes, names: Collection[str], *, parse: bool = True) -> Occurrences:
    """The occurrences of `names` in a file. Without a grammar, without `parse`, and if it cannot be parsed, each word
    counts, in a document only what looks like code; else comments are skipped, and strings except keys. None in a
    binary file."""
    if is_binary(data):
        return Occurrences(())
    text = source_text(data)
    places = list(_words(text, names))
    language = language_of(path, data) if parse and places else None
    tree = None
    if language is not None and language not in PROSE and len(places) <= MOST:
        tree = parse_bytes(text, language)
    if tree is None or language is None:
        if guess_language(path, b"") in PROSE or is_plain_text(path):
            places = [place for place in places if _is_code(text, *place)]
        return Occurrences(tuple(_as_text(text, places)))
    found = tuple(_as_nodes(text, places, tree.root_node, language))
    return Occurrences(found, symbols_of(tree, text, language), parsed=True)


_WORD = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*")
_PART = re.compile(rb"[\w\x80-\xff]")
_FEW = 8


def _words(text: bytes, names: Collection[str]) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of each word that is one of the names, in order."""
    wanted = {name.encode("utf-8", "surrogateescape") for name in names}
    if len(wanted) > _FEW and all(map(_WORD.fullmatch, wanted)):
        for match in _WORD.finditer(text):
            if match[0] in wanted:
                yield match.start(), match[0]
    else:
        yield from sorted((start, word) for word in wanted for start in _found(text, word))


def _found(text: bytes, word: bytes) -> Iterator[int]:
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        if not (start and _PART.match(text, start - 1)) and not _PART.match(text, end):
            yield start
        start = text.find(word, end)


def _is_code(text: bytes, start: int, word: bytes) -> bool:
    """Whether a word of a document is probably a name: not a plain word, or called, quoted or qualified."""
    if not (word.isalpha() and word.islower()):
        return True
    end = start + len(word)
    return text[max(start - 1, 0) : start] in _CODE_BEFORE or text[end : end + 1] in _CODE_AFTER


_CODE_BEFORE = (b".", b"`", b":", b"#", b'"', b"'")
_CODE_AFTER = (b"(", b"`")


def _as_text(text: bytes, places: list[tuple[int, bytes]]) -> Iterator[Occurrence]:
    line, counted = 1, 0
    for start, word in places:
        line += text.count(b"\n", counted, start)
        counted = start
        yield Occurrence(word.decode("utf-8", "surrogateescape"), line, "text")


def _as_nodes(
    text: bytes, places: list[tuple[int, bytes]], root: tree_sitter.Node, language: str
) -> Iterator[Occurrence]:
    found: list[tuple[int, bytes, int, Role, frozenset[str]]] = []
    hidden: dict[bytes, list[tuple[int, int]]] = {}
    for start, word in places:
        node = root.descendant_for_byte_range(start, start + len(word))
        if node is None:
            continue
        if (node.start_byte, node.end_byte) != (start, start + len(word)) or node.child_count:
            if node.type in _RAW:
                row = node.start_point[0] + text.count(b"\n", node.start_byte, start)
                found.append((start, word, row, "name", frozenset()))
            continue
        if not node.is_named or _NO_CODE.search(node.type):
            string = node.parent
            if string is not None and string.type == "string" and is_key(string):
                found.append((start, word, node.start_point[0], "key", frozenset()))
            continue
        role, scope = role_of(node, language, text)
        through: frozenset[str] = frozenset()
        if role == "member" and language in _IMPORTS and (through := _imported_through(node, text, language)):
            role = "qualified"
        if scope is not None:
            hidden.setdefault(word, []).append((scope.start_byte, scope.end_byte))
        found.append((start, word, node.start_point[0], role, through))
    for start, word, row, role, through in found:
        if role == "name" and any(first <= start < last for first, last in hidden.get(word, ())):
            role = "local"
        yield Occurrence(word.decode("utf-8", "surrogateescape"), row + 1, role, through)


_RAW = frozenset({"preproc_arg"})  # code that the grammar keeps as text
_NO_CODE = re.compile(r"comment|string|fragment|content|char|regex|escape|heredoc|(?:^|_)text$|doc")


def _imported_through(node: tree_sitter.Node, text: bytes, language: str) -> frozenset[str]:
    """The words of the imports of the name's qualifier; empty if that is not imported."""
    owner = owner_of(node.parent) if node.parent is not None else None
    if owner is None:
        return frozenset()
    parts = text[owner.start_byte : owner.end_byte].split(b".")
    found = [words for words in _imports(text, language) if parts[0] in words]
    if not found or not all(any(part in words for words in found) for part in parts):
        return frozenset()
    return frozenset(
        word.decode("utf-8", "replace") for word in {*parts, *(w for words in found for w in words)}
    )


@lru_cache(maxsize=4)  # it is asked for each member in a file
def _imports(text: bytes, language: str) -> tuple[frozenset[bytes], ...]:
    """The words of each import: `import os.path`, `from . import a, b`, `"net/http"`, `fs = require("fs")`."""
    statements = _IMPORTS[language].findall(text)
    if language == "python":
        statements = [part for statement in statements for part in _each_import(statement)]
    return tuple(frozenset(_WORD.findall(statement)) for statement in statements)


def _each_import(statement: bytes) -> list[bytes]:
    """`import a, b as c` and `from m import a, b` as one import for each name."""
    module, _, names = statement.rpartition(b"import")
    return [module + b" " + name for name in names.split(b",")]


_PYTHON_IMPORT = re.compile(rb"^[ \t]*(?:import|from)[ \t][^\n(]*(?:\([^)]{0,10000})?", re.MULTILINE)
_SCRIPT_IMPORT = re.compile(
    rb"^[ \t]*import\b[^;{\n]{0,500}(?:\{[^}]{0,10000}\}[^;\n]{0,500})?|^[^\n]{0,500}\brequire\([^)\n]{0,200}",
    re.MULTILINE,
)
_GO_IMPORT = re.compile(rb'^(?:import[ \t]+|[ \t]+)(?:[\w.]+[ \t]+)?"[^"\n]{1,500}"', re.MULTILINE)
_IMPORTS = {
    "python": _PYTHON_IMPORT,
    "javascript": _SCRIPT_IMPORT,
    "typescript": _SCRIPT_IMPORT,
    "tsx": _SCRIPT_IMPORT,
    "go": _GO_IMPORT,
}
