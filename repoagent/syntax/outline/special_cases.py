"""Nodes that are a definition only sometimes: the kind, the name and the scope of those that are.

Also values of JavaScript and TypeScript modules that are large or exported: `const OPTIONS = {…}`, `exports.N = 1`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from repoagent.syntax.outline.data_formats import flow_title
from repoagent.syntax.outline.pages import page_part
from repoagent.syntax.outline.symbol import clean, nth

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

LANGUAGES_WITH_VALUES = frozenset({"javascript", "typescript", "tsx"})
_LINES = 5  # at least, for a value that is not exported
_OPENED = 8192  # bytes: the members of a larger value are shown
_EXPORTS = (b"exports.", b"module.exports")
_NO_VALUES = frozenset({"identifier", "member_expression", "unary_expression", "undefined"})
_WRAPPERS = frozenset(
    {"as_expression", "satisfies_expression", "parenthesized_expression", "assignment_expression"}
)


def module_value(node: tree_sitter.Node, outer: tree_sitter.Node, text: bytes) -> Match | None:
    """The kind of a module's declaration or assignment that is not a function: constant, variable or object."""
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


_FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function"})
_GO_KINDS = {"struct_type": "struct", "interface_type": "interface"}
_FIELDS = {
    "variable_declarator": ("name", "value"),
    "assignment_expression": ("left", "right"),
    "pair": ("key", "value"),
    "left_assignment": ("name", "value"),
    "equals_assignment": ("name", "value"),
}


def special(node: tree_sitter.Node, type_: str, outer: tree_sitter.Node | None, text: bytes) -> Match | None:
    """What `node` defines, if anything; `outer` is its wrapper."""
    if type_ in _HTML:
        kind, _ = page_part(text, node)
        return (kind, node, None) if kind else None
    if (reads := TAIL_BY_TEXT.get(type_)) is not None:
        return reads(node, text)
    match = _BY_TYPE[type_](node, outer)
    if match is None and outer is not None and type_ in ("variable_declarator", "assignment_expression"):
        return module_value(node, outer, text)
    return match


def _assigned(node: tree_sitter.Node, outer: tree_sitter.Node | None) -> Match | None:
    """`const f = () => …`, `exports.f = function …`, `f: function …`, `const api = { f() {} }`; and what `export`
    makes a constant."""
    left, right = _FIELDS[node.type]
    value, name = node.child_by_field_name(right), node.child_by_field_name(left)
    if name is None or name.type.endswith("pattern"):
        return None
    kind = _value_kind(value)
    if kind is not None:
        return kind, name, None
    if node.type == "variable_declarator" and outer is not None and outer.type == "export_statement":
        return "constant", name, None
    return None


def _value_kind(value: tree_sitter.Node | None) -> str | None:
    while value is not None and value.type in (
        "as_expression",
        "satisfies_expression",
        "parenthesized_expression",
        "assignment_expression",  # `exports.a = exports.b = function …`
    ):
        value = nth(value, 1 if value.type == "assignment_expression" else 0)
    if value is None:
        return None
    if value.type in _FUNCTIONS or value.type == "function_definition":
        return "function"
    if value.type == "class":
        return "class"
    if value.type == "object" and any(_is_function(child) for child in value.named_children):
        return "object"
    return None


def _is_function(member: tree_sitter.Node) -> bool:
    if member.type == "method_definition":
        return True
    value = member.child_by_field_name("value") if member.type == "pair" else None
    return value is not None and value.type in _FUNCTIONS


def _class_field(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    value = node.child_by_field_name("value")
    if value is None or value.type not in _FUNCTIONS:
        return None
    return "method", node.child_by_field_name("name") or node.child_by_field_name("property"), None


def _export(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    """`export default function () {}`: it has no name but this one. The others are found inside."""
    value = node.child_by_field_name("value") or node.child_by_field_name("declaration")
    if value is None or value.child_by_field_name("name") is not None:
        return None
    kind = _value_kind(value)
    default = next((child for child in node.children if child.type == "default"), None)
    return None if kind is None or default is None else (kind, default, None)


def _go_type(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    type_, name = node.child_by_field_name("type"), node.child_by_field_name("name")
    return None if type_ is None or name is None else (_GO_KINDS.get(type_.type, "type"), name, None)


def _go_variable(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None:
        return None
    only = nth(value, 0) if value is not None and value.named_child_count == 1 else None
    return "function" if only is not None and only.type == "func_literal" else "variable", name, None


def _go_method(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    name, receiver = node.child_by_field_name("name"), node.child_by_field_name("receiver")
    taken = nth(receiver, 0) if receiver is not None else None
    scope = taken.child_by_field_name("type") if taken is not None else None
    return None if name is None else ("method", name, scope)


def _rust_impl(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    type_ = node.child_by_field_name("type")
    return None if type_ is None else ("impl", type_, None)


def _rust_module(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    name = node.child_by_field_name("name")
    return None if name is None or node.child_by_field_name("body") is None else ("namespace", name, None)


def _c_body(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    name = node.child_by_field_name("name")
    if name is None or node.child_by_field_name("body") is None:
        return None
    return node.type.removesuffix("_specifier"), name, None


def _c_typedef(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    """`typedef struct {…} T;`; one whose struct has a name is found under that."""
    type_, name = node.child_by_field_name("type"), node.child_by_field_name("declarator")
    if type_ is None or name is None:
        return None
    if not type_.type.endswith("_specifier") or type_.child_by_field_name("body") is None:
        return None
    if type_.child_by_field_name("name") is not None or name.type != "type_identifier":
        return None
    return type_.type.removesuffix("_specifier"), name, None


def _c_function(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    name = node.child_by_field_name("declarator")
    if name is None:
        return None
    type_ = node.child_by_field_name("type")
    if name.type == "identifier" and type_ is not None and type_.type in _CLASSES:
        return type_.type.removesuffix("_specifier"), name, None  # `class EXPORT Name : Base {…}`
    return "function", name, None


_CLASSES = frozenset({"class_specifier", "struct_specifier"})


def _c_declaration(node: tree_sitter.Node, _outer: tree_sitter.Node | None) -> Match | None:
    """Match function prototypes; skip variables and function pointers."""
    declarator = name = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type in ("pointer_declarator", "reference_declarator"):
        declarator = declarator.child_by_field_name("declarator") or next(
            (child for child in declarator.named_children if child.type.endswith("declarator")), None
        )
    if declarator is None or declarator.type not in ("function_declarator", "operator_cast"):
        return None
    return "declaration", name, None


_HTML = frozenset({"element", "script_element", "style_element"})


_BY_TYPE: dict[str, Callable[[tree_sitter.Node, tree_sitter.Node | None], Match | None]] = {
    "variable_declarator": _assigned,
    "assignment_expression": _assigned,
    "pair": _assigned,
    "left_assignment": _assigned,
    "equals_assignment": _assigned,
    **TAIL_BY_TYPE,
    "field_definition": _class_field,
    "public_field_definition": _class_field,
    "export_statement": _export,
    "type_spec": _go_type,
    "var_spec": _go_variable,
    "method_declaration": _go_method,
    "impl_item": _rust_impl,
    "mod_item": _rust_module,
    "function_definition": _c_function,
    "declaration": _c_declaration,
    "field_declaration": _c_declaration,
    "struct_specifier": _c_body,
    "union_specifier": _c_body,
    "enum_specifier": _c_body,
    "class_specifier": _c_body,
    "type_definition": _c_typedef,
}
