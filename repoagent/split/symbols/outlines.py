"""The definitions of a source file, found by `walk.py` with the tables of `rules.py`."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from repoagent.split.languages import language_of
from repoagent.split.symbols.keys import LANGUAGES_WITH_KEYS, key_symbols
from repoagent.split.symbols.names import PAGES, clean
from repoagent.split.symbols.rules import RULES
from repoagent.split.symbols.symbol import Symbol
from repoagent.split.symbols.walk import Found, definitions_in
from repoagent.split.trees import flaws, parse_within, source_text

if TYPE_CHECKING:
    import tree_sitter

OUTLINE_SECONDS = 5.0
_FUNCTIONS = frozenset({"function", "method"})
_HOLDERS = frozenset({"class", "struct", "union", "enum", "interface", "impl"})
_NOT_LOCAL = frozenset({"declaration", "constant", "variable"})
SHEETS = frozenset({"css", "scss"})
_LEADS = re.compile(rb"([(\[<])\s*\n\s*")
_TRAILS = re.compile(rb",?\s*\n\s*([)\]>])")
_NOTE = re.compile(rb"#|//|/\*")
_WITH_TYPES = frozenset({"type_alias_declaration"})
_NO_HEAD = frozenset({"decorator", "comment"})


def outline(path: str, data: bytes) -> tuple[Symbol, ...]:
    """The symbols of a file in order of the text, those that hold others before them.

    Empty for a language without a grammar, a binary file, and one that takes too long to parse. Of plain text,
    reStructuredText and AsciiDoc it has the headings. Text that does not parse costs symbols near it, never an
    exception.
    """
    found = read_outline(path, data, language_of(path, data))
    return found[0] if found is not None else ()


def read_outline(path: str, data: bytes, language: str | None) -> tuple[tuple[Symbol, ...], int] | None:
    """As `outline` for a language that is known, and how many places do not parse; None when it takes too long."""
    if language is not None:
        return _read(data, language)
    from repoagent.split.symbols.underlined import is_plain_text, underlined

    return (underlined(path, data) if is_plain_text(path) else ()), 0


@lru_cache(maxsize=4)  # an edit asks for the same text as prompt, as context of a problem and as "before"
def _read(data: bytes, language: str) -> tuple[tuple[Symbol, ...], int] | None:
    tree = parse_within(data, language, OUTLINE_SECONDS)
    if tree is None:
        return None
    text, broken = source_text(data), 0
    if tree.root_node.has_error:
        if language in ("c", "cpp"):
            from repoagent.split.symbols.macros import without_macros

            tree = without_macros(text, tree, language)
        broken = sum(1 for _ in flaws(tree, text))
    return symbols_of(tree, text, language), broken


def symbols_of(tree: tree_sitter.Tree, text: bytes, language: str) -> tuple[Symbol, ...]:
    """The symbols of `text`, which `source_text` made and whose tree this is; see `outline`."""
    if language == "markdown":
        from repoagent.split.symbols.headings import headings

        return headings(text, tree)
    root = tree.root_node
    if language in LANGUAGES_WITH_KEYS:
        return key_symbols(root, language, text)
    if language in SHEETS:
        from repoagent.split.symbols.sheets import sheet_symbols

        return sheet_symbols(root, text)
    rules = RULES.get("html" if language in PAGES else language)
    if rules is None:
        from repoagent.split.symbols.tail import tail_rules

        rules = tail_rules(language)
    found = definitions_in(root, rules, language, text)
    if language in PAGES:
        from repoagent.split.symbols.pages import page_symbols

        return page_symbols(found, text)
    return _nest(found, text.split(b"\n"), text)


def _nest(found: list[Found], lines: list[bytes], text: bytes) -> tuple[Symbol, ...]:
    symbols: list[Symbol] = []
    # end byte, symbol, the path that its name gives, its node
    holders: list[tuple[int, Symbol, tuple[str, ...], tree_sitter.Node]] = []
    for node, outer, kind, parts, notes, body in found:
        end = node.end_byte
        while holders and holders[-1][0] < end:
            holders.pop()
        if holders and node.type == "assignment_expression" and _is_value(node, holders[-1][3]):
            holders.pop()  # `exports.a = exports.b = function …`: side by side
        parent, path = (holders[-1][1], holders[-1][2]) if holders else (None, ())
        inside = parent.kind if parent else ""
        if inside in _FUNCTIONS and (
            kind in _NOT_LOCAL
            or (node.type == "assignment_expression" and not text.startswith(b"this.", node.start_byte))
        ):
            continue  # a local prototype or variable, or a handler hung on some object
        if node.type in _MEMBERS and inside in _WITH_HANDLERS and _handed_over(node, text):
            continue
        if kind == "function" and inside in _HOLDERS:
            kind = "method"
        first, last = _rows(outer, notes, lines)
        if parent:
            first, last = max(first, parent.first_line), min(last, parent.last_line)
        full = (*path, *parts)
        symbol = Symbol(
            name=parts[-1],
            kind=kind,
            qualified_name=".".join(full),
            first_line=first,
            last_line=max(first, last),
            signature=_signature(outer, node, body, text) or parts[-1],
            depth=parent.depth + 1 if parent else 0,
        )
        if kind == "impl":
            symbol = replace(
                symbol, name=symbol.signature, qualified_name=".".join((*path, symbol.signature))
            )
        symbols.append(symbol)
        holders.append((end, symbol, full, node))
    return tuple(symbols)


_MEMBERS = frozenset({"pair", "method_definition"})
_WITH_HANDLERS = _FUNCTIONS | {"constant", "variable"}
_TAKERS = frozenset({"arguments", "array", "jsx_expression"})
_CHAINED = frozenset({"assignment_expression", "variable_declarator"})


def _is_value(node: tree_sitter.Node, holder: tree_sitter.Node) -> bool:
    if holder.type not in _CHAINED or holder.end_byte != node.end_byte:
        return False
    value = holder.child_by_field_name("right") or holder.child_by_field_name("value")
    return value is not None and value.start_byte == node.start_byte


def _handed_over(node: tree_sitter.Node, text: bytes) -> bool:
    """Whether it is a function of one line in an object without a name that is given to a call or is in a list."""
    if node.end_point[0] > node.start_point[0]:
        return False
    holder = node.parent
    around = holder.parent if holder is not None else None
    if around is None or around.type not in _TAKERS:
        return False
    return not text[max(around.start_byte - 20, 0) : around.start_byte].endswith((b"assign", b"extend"))


def _rows(
    outer: tree_sitter.Node, notes: tuple[tree_sitter.Node, ...], lines: list[bytes]
) -> tuple[int, int]:
    """First and last line (from 1) of a definition with what documents it: at its column, with no blank
    between."""
    first, column = outer.start_point
    last, end = outer.end_point
    if end == 0 and last > first:
        last -= 1
    if not notes or lines[first][:column].strip():
        return first + 1, last + 1
    for note in reversed(notes):
        begins, at = note.start_point
        ends, stop = note.end_point
        if stop == 0 and ends > begins:  # some grammars count the line end in
            ends, stop = ends - 1, len(lines[ends - 1])
        alone = not lines[begins][:at].strip() and not lines[ends][stop:].strip()
        if not alone or ends != first - 1 or at != column or (begins == 0 and lines[0].startswith(b"#!")):
            break
        first = begins
    return first + 1, last + 1


def _signature(
    outer: tree_sitter.Node, node: tree_sitter.Node, body: tree_sitter.Node | None, text: bytes
) -> str:
    """The head of a definition on one line: from after its decorators to before its body."""
    start = outer.start_byte
    if outer is not node or text.startswith(b"@", start):
        start = next((c.start_byte for c in outer.children if c.type not in _NO_HEAD), start)
    holder = node
    value = None
    if body is None:  # `const name = (a) => {…}`
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        if value is not None:
            holder, body = value, value.child_by_field_name("body")
    if body is None:
        holder = node
        body = next((c for c in node.children if c.type in ("block", "keyframe_block_list")), None)
    if body is None:
        head = text[start : min(outer.end_byte, start + 400)].split(b"\n", 1)[0]
        if value is not None and head.rstrip().endswith((b"<", b"(")) and holder.type in _WITH_TYPES:
            joined = text[start : value.start_byte][:400]  # `type T<`, a line for each parameter, `> = …`
            head = _LEADS.sub(rb"\1", _TRAILS.sub(rb"\1", joined))
        return clean(head).rstrip("{;,").rstrip()
    stop = body.start_byte
    head = text[start : max(start, stop)][:1000]
    if _NOTE.search(head):  # a comment between head and body is no part of it
        before = [
            child.end_byte
            for child in holder.children
            if child.end_byte <= stop and "comment" not in child.type
        ]
        head = text[start : max(start, *before, start)][:1000]
    if b"\n" in head:  # `f(`, a line for each parameter, `)`
        head = _LEADS.sub(rb"\1", _TRAILS.sub(rb"\1", head))
    return clean(head).removesuffix("=>").rstrip(" :{")
