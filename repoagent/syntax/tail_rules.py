"""The definitions of the languages in `LONG_TAIL`, from the names of the node types of their grammars."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from repoagent.syntax.languages import grammar
from repoagent.syntax.rules import Rules, assigned, child_at, field_of, kind_table, named, words

if TYPE_CHECKING:
    from repoagent.syntax.rules import Match, Matcher, Node

_ELIXIR = {
    b"def": "function", b"defp": "function", b"defmacro": "macro", b"defmacrop": "macro", b"defmodule": "namespace",
    b"defprotocol": "interface", b"defimpl": "impl", b"defguard": "macro", b"defdelegate": "function",
}  # fmt: skip
_ZIG = {"struct_declaration": "struct", "enum_declaration": "enum", "union_declaration": "union"}
_CMAKE = frozenset((b"project", b"add_executable", b"add_library", b"add_custom_target", b"add_test"))


def _elixir_call(node: Node, _outer: Node | None, text: bytes) -> Match | None:
    target, name = field_of(node, "target"), child_at(child_at(node, 1), 0)
    kind = _ELIXIR.get(text[target.start_byte : target.end_byte]) if target is not None else None
    while name is not None and name.type in ("binary_operator", "call"):  # `def f(x) when x > 1`
        name = child_at(name, 0)
    return None if kind is None or name is None else (kind, name, None)


def _cmake_command(node: Node, _outer: Node | None, text: bytes) -> Match | None:
    name = child_at(node, 0)
    if name is None or text[name.start_byte : name.end_byte].lower() not in _CMAKE:
        return None
    return "rule", None, None


def _cmake_definition(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    name = child_at(child_at(child_at(node, 0), 1), 0)
    return None if name is None else (node.type.removesuffix("_def"), name, None)


def _ocaml_binding(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    name = node.child_by_field_name("pattern")
    if name is None or name.type not in ("value_name", "parenthesized_operator"):
        return None
    is_function = any(child.type == "parameter" for child in node.named_children)
    return "function" if is_function else "variable", name, None


def _zig_variable(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    """Match `const Point = struct {…};`."""
    kind = next((_ZIG[child.type] for child in node.named_children if child.type in _ZIG), None)
    return None if kind is None else (kind, child_at(node, 0), None)


def _zig_test(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    name = child_at(node, 0)
    return None if name is None or name.type == "block" else ("function", name, None)


def _lua_function(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    """Match `M.f = function … end` and `{ f = function … end }`."""
    if node.type == "field":
        name, value = field_of(node, "name"), field_of(node, "value")
    else:
        name, value = child_at(child_at(node, 0), 0), child_at(child_at(node, 1), 0)
    is_function = value is not None and value.type == "function_definition"
    return ("function", name, None) if is_function and (name or node.type != "field") else None


def _swift_init(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    name = next((child for child in node.children if child.type == "init"), None)
    return None if name is None else ("method", name, None)


# Words in a node type, and the kind; the first match counts.
_TAIL_WORDS = {
    "constructor": "method", "singleton_method": "method", "method": "method", "subroutine": "function",
    "function": "function", "procedure": "function", "macro": "macro", "trait": "interface", "interface": "interface",
    "protocol": "interface", "struct": "struct", "record": "struct", "enum": "enum", "class": "class",
    "object": "class", "module": "namespace", "namespace": "namespace", "package": "namespace",
}  # fmt: skip
_DEFINITION = re.compile(r"(?:_definition|_declaration|_def|_decl|_item|_clause|_defn)$")
_NO_DEFINITION = re.compile(
    r"^use_|_use_|namespace_use|call|signature_help|invocation|argument|parameter|_type$|body|import|enum_entry"
    r"|constructor_declarator|aliasing|enum_value"
)
_WHOLE_NAMES = frozenset({"class", "module", "method", "singleton_method", "function", "subroutine"})
_SQL = {"table": "struct", "view": "struct", "materialized_view": "struct", "type": "type", "function": "function",
        "procedure": "function", "trigger": "function", "index": "rule"}  # fmt: skip
# Kinds that the names of the node types do not imply, or imply wrongly; "" is not a definition.
_TAIL_KINDS: dict[str, dict[str, str | Matcher]] = {
    "toml": kind_table(rule="table table_array_element"),
    "make": kind_table(rule="rule"),
    "hcl": kind_table(rule="block"),
    "dockerfile": kind_table(rule="from_instruction"),
    "sql": {f"create_{what}{end}": kind for what, kind in _SQL.items() for end in ("", "_statement")},
    "perl": kind_table(function="subroutine_declaration_statement", namespace="package_statement"),
    "zig": {
        "variable_declaration": _zig_variable, "test_declaration": _zig_test, **dict.fromkeys(_ZIG, ""),
    },
    "dart": {
        **kind_table(
            class_="mixin_declaration extension_declaration",
            function="function_signature getter_signature setter_signature",
            method="constructor_signature",
        ),
        "function_declaration": "",
    },
    "cmake": {
        "function_def": _cmake_definition, "macro_def": _cmake_definition, "normal_command": _cmake_command,
    },
    "kotlin": kind_table(type="type_alias"),
    "swift": {"init_declaration": _swift_init, "typealias_declaration": "type"},
    "graphql": kind_table(function="operation_definition fragment_definition"),
    "lua": {
        "assignment_statement": _lua_function,
        "field": _lua_function,
        **kind_table(
            function="function_definition_statement local_function_definition_statement function_declaration"
        ),
        "function_definition": "",
    },
    "ocaml": {
        "let_binding": _ocaml_binding,
        "module_binding": "namespace",
        "type_binding": "type",
        **dict.fromkeys(("constructor_declaration", "module_definition", "type_definition"), ""),
    },
    "elixir": {"call": _elixir_call},
    "elm": kind_table(function="value_declaration", type="type_declaration type_alias_declaration"),
    "haskell": {
        **kind_table(type="adt newtype type_alias data_type type_synonym", interface="class"),
        "function": named("function"),  # a node for the type of a function has the same name
        "bind": named("variable"),
        **dict.fromkeys(("class_decl", "constructor_pattern"), ""),
    },
    "r": {"left_assignment": assigned("name", "value"), "equals_assignment": assigned("name", "value")},
}  # fmt: skip
_TAIL_WRAPPERS = {"ocaml": words("value_definition type_definition module_definition")}


@cache
def tail_rules(language: str) -> Rules:
    """The rules for a language that is not in `RULES`, from the names of its node types."""
    node_types = grammar(language)
    kinds = dict(_TAIL_KINDS.get(language, {}))
    comments = set()
    for number in range(node_types.node_kind_count):
        type_ = node_types.node_kind_for_id(number)
        if type_ is None or not node_types.node_kind_is_named(number):
            continue
        if "comment" in type_:
            comments.add(type_)
        elif type_ in _WHOLE_NAMES or (_DEFINITION.search(type_) and not _NO_DEFINITION.search(type_)):
            kind = next((kind for word, kind in _TAIL_WORDS.items() if word in type_), None)
            if kind is not None:
                kinds.setdefault(type_, kind)
    kinds = {type_: kind for type_, kind in kinds.items() if kind}
    wrappers = _TAIL_WRAPPERS.get(language, frozenset())
    return Rules(kinds, comments=frozenset(comments), deep=True, wrappers=wrappers)
