"""The definitions of a source file, found with the queries of `queries.py`."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from repoagent.split.languages import grammar, language_of
from repoagent.split.symbols.keys import LANGUAGES_WITH_KEYS, key_nodes
from repoagent.split.symbols.names import clean, name_parts
from repoagent.split.symbols.queries import COMMENTS, QUERIES
from repoagent.split.symbols.symbol import Symbol
from repoagent.split.trees import parse_within, source_text

if TYPE_CHECKING:
    import tree_sitter

OUTLINE_SECONDS = 5.0
MOST_KEYS = 10_000  # of a data file: what is beyond helps nobody
_FUNCTIONS = frozenset({"function", "method"})
_HOLDERS = frozenset({"class", "struct", "union", "enum", "interface", "impl"})
# Nodes around a definition that are part of it; the second set only when it is the single thing in them.
_WRAPPERS = frozenset(
    {
        "decorated_definition",
        "export_statement",
        "template_declaration",
        "ambient_declaration",
        "expression_statement",
        "type_definition",
    }
)
_LIST_WRAPPERS = frozenset({"lexical_declaration", "variable_declaration", "type_declaration"})


class _Found(NamedTuple):
    node: tree_sitter.Node
    kind: str
    parts: tuple[str, ...]


def outline(path: str, data: bytes) -> tuple[Symbol, ...]:
    """The symbols of a file in order of the text, those that hold others before them.

    Empty for a language without a grammar, a binary file, and one that takes too long to parse. Text that
    does not parse costs symbols near it, never an exception.
    """
    language = language_of(path, data)
    return () if language is None else _outline(data, language)


@lru_cache(maxsize=4)  # an edit asks for the same text as prompt, as context of a problem and as "before"
def _outline(data: bytes, language: str) -> tuple[Symbol, ...]:
    tree = parse_within(data, language, OUTLINE_SECONDS)
    if tree is None:
        return ()
    text = source_text(data)
    if language == "markdown":
        from repoagent.split.symbols.headings import headings

        return headings(text, tree, _query(language))
    lines = text.split(b"\n")
    found, comments = _find(tree, language, text, lines)
    return _nest(found, comments, lines, text)


@cache
def _query(language: str) -> tree_sitter.Query:
    import tree_sitter

    return tree_sitter.Query(grammar(language), QUERIES.get(language, "") + COMMENTS.get(language, ""))


def _find(
    tree: tree_sitter.Tree, language: str, text: bytes, lines: list[bytes]
) -> tuple[list[_Found], dict[int, tuple[int, int]]]:
    """The definitions in order of the text, and last row -> (first row, column) of what documents the next
    line."""
    import tree_sitter

    found: dict[tuple[int, int, str], _Found] = {}
    comments: dict[int, tuple[int, int]] = {}
    for _, captures in tree_sitter.QueryCursor(_query(language)).matches(tree.root_node):
        if "comment" in captures:
            _note_comment(captures["comment"][0], lines, comments)
            continue
        names = captures.pop("name", [])
        scopes = captures.pop("scope", [])
        captures.pop("attribute", None)
        for kind, nodes in captures.items():
            parts = name_parts(
                language, text, nodes[0], names[0] if names else None, scopes[0] if scopes else None
            )
            if parts:
                found.setdefault(
                    (nodes[0].start_byte, -nodes[0].end_byte, kind), _Found(nodes[0], kind, parts)
                )
    if language in LANGUAGES_WITH_KEYS:
        for node, kind, name in islice(key_nodes(tree.root_node, language), MOST_KEYS):
            found[(node.start_byte, -node.end_byte, kind)] = _Found(
                node, kind, name_parts(language, text, node, name)
            )
    return [found[key] for key in sorted(found)], comments


def _note_comment(node: tree_sitter.Node, lines: list[bytes], comments: dict[int, tuple[int, int]]) -> None:
    """Remember a comment or attribute that has its lines for itself; a `#!` line documents nothing."""
    first, column = node.start_point
    last, end = node.end_point
    if end == 0 and last > first:  # some grammars count the line end in
        last, end = last - 1, len(lines[last - 1])
    alone = not lines[first][:column].strip() and not lines[last][end:].strip()
    if alone and not (first == 0 and lines[0].startswith(b"#!")):
        comments[last] = (first, column)


def _nest(
    found: list[_Found], comments: dict[int, tuple[int, int]], lines: list[bytes], text: bytes
) -> tuple[Symbol, ...]:
    symbols: list[Symbol] = []
    holders: list[tuple[int, Symbol, tuple[str, ...]]] = []  # end byte, symbol, the path that its name gives
    for node, kind, parts in found:
        while holders and holders[-1][0] < node.end_byte:
            holders.pop()
        parent, path = (holders[-1][1], holders[-1][2]) if holders else (None, ())
        inside = parent.kind if parent else ""
        if inside in _FUNCTIONS and (kind == "declaration" or node.type == "assignment_expression"):
            continue  # a local prototype, or a handler hung on some object
        if kind == "function" and inside in _HOLDERS:
            kind = "method"
        outer = _outer(node)
        first, last = _rows(outer, comments, lines)
        if parent:
            first, last = max(first, parent.first_line), min(last, parent.last_line)
        full = (*path, *parts)
        symbol = Symbol(
            name=parts[-1],
            kind=kind,
            qualified_name=".".join(full),
            first_line=first,
            last_line=max(first, last),
            signature=_signature(outer, node, text) or parts[-1],
            depth=parent.depth + 1 if parent else 0,
        )
        if kind == "impl":
            symbol = replace(
                symbol, name=symbol.signature, qualified_name=".".join((*path, symbol.signature))
            )
        symbols.append(symbol)
        holders.append((node.end_byte, symbol, full))
    return tuple(symbols)


def _outer(node: tree_sitter.Node) -> tree_sitter.Node:
    while (parent := node.parent) is not None:
        single = parent.type in _LIST_WRAPPERS and not any(c.type in ("(", ",") for c in parent.children)
        if parent.type not in _WRAPPERS and not single:
            break
        node = parent
    return node


def _rows(
    outer: tree_sitter.Node, comments: dict[int, tuple[int, int]], lines: list[bytes]
) -> tuple[int, int]:
    """First and last line (from 1) of a definition with what documents it: at its column, with no blank
    between."""
    first, column = outer.start_point
    last, end = outer.end_point
    if end == 0 and last > first:
        last -= 1
    if not lines[first][:column].strip():
        while first - 1 in comments and comments[first - 1][1] == column:
            first = comments[first - 1][0]
    return first + 1, last + 1


def _signature(outer: tree_sitter.Node, node: tree_sitter.Node, text: bytes) -> str:
    """The head of a definition on one line: from after its decorators to before its body."""
    start = next(
        (c.start_byte for c in outer.children if c.type not in ("decorator", "comment")), outer.start_byte
    )
    body = node.child_by_field_name("body")
    value = node.child_by_field_name("value") or node.child_by_field_name("right")
    if body is None and value is not None:  # `const name = (a) => {…}`
        body = value.child_by_field_name("body")
    if body is None:
        body = next((c for c in node.named_children if c.type in ("block", "keyframe_block_list")), None)
    if body is None:
        return clean(text[start : min(outer.end_byte, start + 400)].split(b"\n", 1)[0]).rstrip("{;,").rstrip()
    before = body.prev_sibling
    while before is not None and "comment" in before.type:
        before = before.prev_sibling
    stop = before.end_byte if before is not None else body.start_byte
    return clean(text[start : max(start, stop)][:1000]).removesuffix("=>").rstrip(" :{")
