"""Values of JavaScript and TypeScript modules that are large or exported: `const OPTIONS = {…}`, `exports.N = 1`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from repoagent.split.symbols.entries import flow_title
from repoagent.split.symbols.names import clean, nth

if TYPE_CHECKING:
    import tree_sitter

    from repoagent.split.symbols.special import Match

LANGUAGES_WITH_VALUES = frozenset({"javascript", "typescript", "tsx"})
_LINES = 5  # a value of a module that is not exported has so many, or it is none of its landmarks
_OPENED = 8192  # bytes: the members of a larger value are shown
_EXPORTS = (b"exports.", b"module.exports")
_NO_VALUES = frozenset({"identifier", "member_expression", "unary_expression", "undefined"})
_WRAPPERS = frozenset(
    {"as_expression", "satisfies_expression", "parenthesized_expression", "assignment_expression"}
)


def module_value(node: tree_sitter.Node, outer: tree_sitter.Node, text: bytes) -> Match | None:
    """What a declaration or assignment of a module is that is no function: a constant, a variable, an object."""
    holder = outer.parent
    if holder is None or holder.type != "program":
        return None
    rows = node.end_point[0] - node.start_point[0] + 1
    if node.type == "variable_declarator":
        name = node.child_by_field_name("name")
        if rows < _LINES or name is None or name.type != "identifier":
            return None
        return "constant" if text.startswith(b"const", outer.start_byte) else "variable", name, None
    name, value = node.child_by_field_name("left"), node.child_by_field_name("right")
    if name is None or value is None or name.type == "subscript_expression":
        return None
    value = _bare(value)
    if value is None:
        return None
    exported = text.startswith(_EXPORTS, node.start_byte) and value.type not in _NO_VALUES
    if rows < _LINES and (not exported or value.type in ("object", "call_expression")):
        return None
    if value.type == "object":
        return "object", name, None
    return "constant" if exported else "variable", name, None


def members(node: tree_sitter.Node, text: bytes) -> Iterator[tuple[tree_sitter.Node, str, str]]:
    """The entries of several lines in a large object or list, as node, kind and name: keys; entries by their name."""
    value = node.child_by_field_name("value") or node.child_by_field_name("right")
    value = _bare(value)
    if value is None or value.type not in ("object", "array") or value.end_byte - value.start_byte <= _OPENED:
        return
    for member in value.named_children:
        if member.end_point[0] == member.start_point[0]:
            continue
        if member.type == "pair":
            key, held = nth(member, 0), member.child_by_field_name("value")
            if key is not None and held is not None and held.type in ("object", "array", "call_expression"):
                yield member, "key", clean(text[key.start_byte : key.end_byte], 80).strip("\"'")
        elif member.type == "object" and (title := flow_title(text, member.start_byte, member.end_byte)):
            yield member, "entry", title


def _bare(value: tree_sitter.Node | None) -> tree_sitter.Node | None:
    while value is not None and value.type in _WRAPPERS:
        value = nth(value, 1 if value.type == "assignment_expression" else 0)
    return value
