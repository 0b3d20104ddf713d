"""What macros hide. C and C++: `API int f(void);` and `class EXPORT Name : Base {` throw the grammar
off. Rust: the items in the braces of a macro are no items to the grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from repoagent.split.trees import flaws, parse_part, parse_within

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
    """The tree of `text` with such macros made blanks, where that is less broken than `tree`; else `tree`.

    Nothing moves: all offsets and lines are those of `text`.
    """
    plain = _AROUND.sub(_unwrap, text)
    plain = _BEFORE_FUNCTION.sub(_blank, _ON_ITS_OWN.sub(_blank, _IN_CLASS_HEAD.sub(_blank, plain)))
    if plain == text:
        return tree
    other = parse_within(plain, language, SECONDS)
    return other if other is not None and _broken(other, plain) < _broken(tree, text) else tree


def items_in(node: tree_sitter.Node, text: bytes, language: str) -> Iterator[tree_sitter.Node]:
    """What the braces of a Rust macro hold, read as items: `cfg_net! { pub fn bind() {} }`. Nothing, if they are
    none."""
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
