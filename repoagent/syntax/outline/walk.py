"""Find the definitions in a syntax tree by a walk that opens only nodes that may contain one.

Macros hide definitions from the grammars: in C and C++ `API int f(void);` and `class EXPORT Name : Base {` break the
parse, in Rust the braces of a macro contain tokens only. `without_macros` and `items_in` parse these again.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from repoagent.syntax.outline.rules import Rules
from repoagent.syntax.outline.special_cases import LANGUAGES_WITH_VALUES, Match, members, special
from repoagent.syntax.outline.symbol import name_parts
from repoagent.syntax.parser import flaws, parse_part, parse_within

if TYPE_CHECKING:
    import tree_sitter

# A word in capitals (it may have arguments) before a type and a name that parentheses follow, in the head of a
# class, around a declaration that it has a word to say about, or in a line of its own before one of these.
_BEFORE_FUNCTION = re.compile(
    rb"^([ \t]*(?:(?:static|extern|inline|virtual|explicit|friend)[ \t]+)*)"
    rb"([A-Z][A-Z0-9_]*[A-Z_](?:\([^()\n]*\))?)(?=[ \t]+[A-Za-z_][\w:<>*& \t,]*[ \t*&]~?\w+[ \t]*\()",
    re.MULTILINE,
)
_IN_CLASS_HEAD = re.compile(
    rb"\b((?:class|struct|union)[ \t]+)([A-Z][A-Z0-9_]*(?:\([^()\n]*\))?)(?=[ \t]+\w+(?:[ \t]+final)?\s*[:{])"
)
_AROUND = re.compile(rb"^([ \t]*)([A-Z][A-Z_]+\()([^;\"{}]*\))(,\s*\"[^\"\n]*\"\s*\))(?=;)", re.MULTILINE)
_ON_ITS_OWN = re.compile(
    rb"^([ \t]*)([A-Z][A-Z0-9_]{3,}(?:\([^()\n]*\))?)"
    rb"(?=[ \t]*\r?\n\s*(?:namespace|class|template|struct|enum|inline)\b)",
    re.MULTILINE,
)
_MOST = 1000
SECONDS = 2.0


def without_macros(text: bytes, tree: tree_sitter.Tree, language: str) -> tree_sitter.Tree:
    """The tree of `text` with such macros blanked out if that is less broken than `tree`, else `tree`.

    Nothing moves: all offsets and lines are those of `text`.
    """
    plain = _AROUND.sub(_unwrap, text)
    plain = _BEFORE_FUNCTION.sub(_blank, _ON_ITS_OWN.sub(_blank, _IN_CLASS_HEAD.sub(_blank, plain)))
    if plain == text:
        return tree
    other = parse_within(plain, language, SECONDS)
    return other if other is not None and _broken(other, plain) < _broken(tree, text) else tree


def items_in(node: tree_sitter.Node, text: bytes, language: str) -> Iterator[tree_sitter.Node]:
    """The items in the braces of a Rust macro, if any: `cfg_net! { pub fn bind() {} }`."""
    import tree_sitter

    for held in node.children:
        if held.type == "token_tree" and text.startswith(b"{", held.start_byte):
            (row, column), end = held.start_point, held.end_point
            inside = tree_sitter.Range(
                (row, column + 1), (end.row, max(end.column - 1, 0)), held.start_byte + 1, held.end_byte - 1
            )
            tree = parse_part(text, language, inside)
            if tree is not None and not tree.root_node.has_error:
                yield tree.root_node


def _blank(match: re.Match[bytes]) -> bytes:
    return match[1] + b" " * len(match[2])


def _unwrap(match: re.Match[bytes]) -> bytes:
    """`DEPRECATED(int f(void), "use g");`"""
    return match[1] + b" " * len(match[2]) + match[3] + re.sub(rb"[^\n]", b" ", match[4])


def _broken(tree: tree_sitter.Tree, text: bytes) -> int:
    return sum(1 for _ in islice(flaws(tree, text), _MOST))


class Definition(NamedTuple):
    """A definition: `outer` is `node` with its wrapper, `notes` the comments before that (the last one nearest)."""

    node: tree_sitter.Node
    outer: tree_sitter.Node
    kind: str
    parts: tuple[str, ...]
    notes: tuple[tree_sitter.Node, ...]
    body: tree_sitter.Node | None


def definitions_in(root: tree_sitter.Node, rules: Rules, language: str, text: bytes) -> list[Definition]:
    """All definitions below `root` in order, containers before their contents."""
    kinds, notes = rules.kinds, rules.notes
    opened, around = rules.opened | rules.wrappers, rules.wrappers
    known = opened | notes | frozenset(kinds) | rules.lists
    hints = rules.places(text)
    deep = rules.deep
    found: list[Definition] = []
    pending: list[tuple[tree_sitter.Node, tree_sitter.Node | None, tuple[tree_sitter.Node, ...]]] = [
        (root, None, ())
    ]
    while pending:
        node, outer, before = pending.pop()
        run = before
        hint = bisect_left(hints, node.start_byte)
        for child in node.children:
            type_, end = child.type, child.end_byte
            if type_ not in known:
                start = child.start_byte
                while hints[hint] < start:
                    hint += 1
                if type_ == "macro_invocation" and node.type in opened and hints[hint] < end:
                    pending.extend((inside, None, ()) for inside in items_in(child, text, language))
                    run = ()
                    continue
                if (hints[hint] < end or (deep and end - start > _SHORTEST)) and type_ not in _CLOSED:
                    pending.append((child, None, run))
                if run:
                    run = before if outer is not None else ()
                continue
            if type_ in notes:
                run = (*run, child)
                continue
            wrapped, start = outer or child, child.start_byte
            kind = kinds.get(type_)
            match: Match | None = None
            if kind is not None:
                match = special(child, type_, outer, text) if kind == "?" else _plain(child, kind, deep)
            if match is not None and (parts := name_parts(language, text, child, match[1], match[2])):
                kind, name = match[0], match[1]
                body = child.child_by_field_name("body")
                found.append(Definition(child, wrapped, kind, parts, run, body))
                if kind in _VALUES and end - start > _LARGE and language in LANGUAGES_WITH_VALUES:
                    found.extend(_members(child, text, language, kinds))
                if body is not None and kind not in _OPEN:
                    start = body.start_byte
                else:
                    start = start + 1 if name is None or name is child else max(start, name.end_byte)
                if kind in _OPEN or deep or hints[bisect_left(hints, start)] < end:
                    pending.append((child, None, ()))
                if kind == "class" and type_ == "function_definition" and body is not None:
                    pending.append((body, None, ()))  # of a class that was taken for a function
            elif (
                type_ in opened
                or deep
                or kind in _OPEN  # it has no name: `namespace {`
                or (type_ in rules.lists and (outer is not None or node is root))
                or hints[bisect_left(hints, start)] < end
            ):
                single = type_ in around or (
                    type_ in rules.lists and not any(c.type in ("(", ",") for c in child.children)
                )
                pending.append((child, wrapped if single else None, run))
            run = before if outer is not None else ()
    found.sort(key=lambda one: (one.node.start_byte, -one.node.end_byte))
    return found


# What stands in them is text, whatever it looks like.
_CLOSED = frozenset(
    {"string", "template_string", "string_literal", "raw_string_literal", "interpreted_string_literal"}
)
_VALUES = frozenset({"constant", "variable", "object"})
_LARGE = 8192
_SHORTEST = 8  # bytes that a definition has at least
_OPEN = frozenset({"class", "struct", "union", "interface", "enum", "impl", "namespace", "object"})


def _members(
    node: tree_sitter.Node, text: bytes, language: str, kinds: dict[str, str]
) -> Iterator[Definition]:
    for member, kind, name in members(node, text):
        if member.type not in kinds or special(member, member.type, None, text) is None:
            yield Definition(member, member, kind, (name,), (), None)


def _plain(node: tree_sitter.Node, kind: str, deep: bool) -> Match | None:
    name = node.child_by_field_name("name")
    if name is None and kind != "rule":
        name = _name_within(node) if deep else None
        if name is None:
            return None
    return kind, name, None


_NAMES = ("identifier", "name", "constant")


def _name_within(node: tree_sitter.Node) -> tree_sitter.Node | None:
    """The name of a definition whose grammar has no field for it: a child of the node, of its head, or of the head's
    head."""
    for _ in range(3):
        children = node.named_children
        named = next((child for child in children if child.type.endswith(_NAMES)), None)
        if named is not None or not children:
            return named
        heads = [child for child in children[:4] if not child.type.startswith("keyword")]
        if not heads or any(word in heads[0].type for word in _NO_HEADS):
            return None
        node = heads[0]
        if (named := node.child_by_field_name("name")) is not None:
            return named
    return None


_NO_HEADS = ("param", "argument", "body", "block", "type")
