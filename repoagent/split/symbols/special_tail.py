"""As `special.py`, for languages of the long tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from repoagent.split.symbols.names import nth

if TYPE_CHECKING:
    import tree_sitter

Match: TypeAlias = "tuple[str, tree_sitter.Node | None, tree_sitter.Node | None]"  # kind, name, scope

_ELIXIR = {
    b"def": "function", b"defp": "function", b"defmacro": "macro", b"defmacrop": "macro", b"defmodule": "namespace",
    b"defprotocol": "interface", b"defimpl": "impl", b"defguard": "macro", b"defdelegate": "function",
}  # fmt: skip
_ZIG = {"struct_declaration": "struct", "enum_declaration": "enum", "union_declaration": "union"}
_CMAKE = frozenset((b"project", b"add_executable", b"add_library", b"add_custom_target", b"add_test"))


def _elixir_call(node: tree_sitter.Node, text: bytes) -> Match | None:
    target, arguments = node.child_by_field_name("target"), nth(node, 1)
    kind = _ELIXIR.get(text[target.start_byte : target.end_byte]) if target is not None else None
    name = nth(arguments, 0) if kind is not None and arguments is not None else None
    while name is not None and name.type in ("binary_operator", "call"):  # `def f(x) when x > 1`
        name = nth(name, 0)
    return None if kind is None or name is None else (kind, name, None)


def _cmake_command(node: tree_sitter.Node, text: bytes) -> Match | None:
    name = nth(node, 0)
    known = name is not None and text[name.start_byte : name.end_byte].lower() in _CMAKE
    return ("rule", None, None) if known else None


def _cmake_definition(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    head = nth(node, 0)
    arguments = nth(head, 1) if head is not None else None
    name = nth(arguments, 0) if arguments is not None else None
    return None if name is None else (node.type.removesuffix("_def"), name, None)


def _ocaml_binding(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    name = node.child_by_field_name("pattern")
    if name is None or name.type not in ("value_name", "parenthesized_operator"):
        return None
    takes = any(child.type == "parameter" for child in node.named_children)
    return "function" if takes else "variable", name, None


def _zig_variable(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    """`const Point = struct {…};`"""
    kind = next((_ZIG[child.type] for child in node.named_children if child.type in _ZIG), None)
    return None if kind is None else (kind, nth(node, 0), None)


def _zig_test(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    name = nth(node, 0)
    return None if name is None or name.type == "block" else ("function", name, None)


def _lua_assignment(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    """`M.f = function … end`"""
    names, values = nth(node, 0), nth(node, 1)
    name = nth(names, 0) if names is not None else None
    value = nth(values, 0) if values is not None else None
    return ("function", name, None) if value is not None and value.type == "function_definition" else None


def _lua_field(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None or value is None or value.type != "function_definition":
        return None
    return "function", name, None


def _haskell(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    """An equation; a node for the type of a function has the same name."""
    name = node.child_by_field_name("name")
    return None if name is None else ("function" if node.type == "function" else "variable", name, None)


def _swift_init(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    name = next((child for child in node.children if child.type == "init"), None)
    return None if name is None else ("method", name, None)


TAIL_BY_TEXT: dict[str, Callable[[tree_sitter.Node, bytes], Match | None]] = {
    "call": _elixir_call,
    "normal_command": _cmake_command,
}
TAIL_BY_TYPE: dict[str, Callable[[tree_sitter.Node, tree_sitter.Node | None], Match | None]] = {
    "let_binding": _ocaml_binding,
    "function_def": _cmake_definition,
    "macro_def": _cmake_definition,
    "variable_declaration": _zig_variable,
    "test_declaration": _zig_test,
    "assignment_statement": _lua_assignment,
    "field": _lua_field,
    "function": _haskell,
    "bind": _haskell,
    "init_declaration": _swift_init,
}
