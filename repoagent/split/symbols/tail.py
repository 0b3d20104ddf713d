"""What counts as a definition in the languages of the long tail: read off the names of a grammar's nodes."""

from __future__ import annotations

import re
from functools import cache

from repoagent.split.languages import grammar
from repoagent.split.symbols.rules import Rules

# What a node type holds, as a word of it, and what it is then; the first that fits.
_WORDS = (
    ("constructor", "method"),
    ("singleton_method", "method"),
    ("method", "method"),
    ("subroutine", "function"),
    ("function", "function"),
    ("procedure", "function"),
    ("macro", "macro"),
    ("trait", "interface"),
    ("interface", "interface"),
    ("protocol", "interface"),
    ("struct", "struct"),
    ("record", "struct"),
    ("enum", "enum"),
    ("class", "class"),
    ("object", "class"),
    ("module", "namespace"),
    ("namespace", "namespace"),
    ("package", "namespace"),
)
_DEFINES = re.compile(r"(?:_definition|_declaration|_def|_decl|_item|_clause|_defn)$")
_NO_DEFINITION = re.compile(
    r"^use_|_use_|namespace_use|call|signature_help|invocation|argument|parameter|_type$|body|import|enum_entry|constructor_declarator"
    r"|aliasing|enum_value"
)
_ALONE = frozenset({"class", "module", "method", "singleton_method", "function", "subroutine"})
# What the names of the nodes do not say.
_MORE: dict[str, dict[str, str]] = {
    "toml": {"table": "rule", "table_array_element": "rule"},
    "make": {"rule": "rule"},
    "hcl": {"block": "rule"},
    "dockerfile": {"from_instruction": "rule"},
    "sql": {
        f"create_{what}{end}": kind
        for end in ("", "_statement")
        for what, kind in (
            ("table", "struct"),
            ("view", "struct"),
            ("materialized_view", "struct"),
            ("type", "type"),
            ("function", "function"),
            ("procedure", "function"),
            ("trigger", "function"),
            ("index", "rule"),
        )
    },
    "perl": {"subroutine_declaration_statement": "function", "package_statement": "namespace"},
    "zig": {"variable_declaration": "?", "test_declaration": "?"},
    "dart": {
        "mixin_declaration": "class",
        "extension_declaration": "class",
        "function_signature": "function",
        "getter_signature": "function",
        "setter_signature": "function",
        "constructor_signature": "method",
    },
    "cmake": {"function_def": "?", "macro_def": "?", "normal_command": "?"},
    "kotlin": {"type_alias": "type"},
    "swift": {"init_declaration": "?", "typealias_declaration": "type"},
    "graphql": {"operation_definition": "function", "fragment_definition": "function"},
    "lua": {
        "assignment_statement": "?",
        "field": "?",
        "function_definition_statement": "function",
        "local_function_definition_statement": "function",
        "function_declaration": "function",
    },
    "ocaml": {"let_binding": "?", "module_binding": "namespace", "type_binding": "type"},
    "elixir": {"call": "?"},
    "elm": {"value_declaration": "function", "type_declaration": "type", "type_alias_declaration": "type"},
    "haskell": {
        "adt": "type",
        "newtype": "type",
        "type_alias": "type",
        "data_type": "type",
        "type_synonym": "type",
        "class": "interface",
        "function": "?",
        "bind": "?",
    },
    "r": {"left_assignment": "?", "equals_assignment": "?"},
}
# What the names of the nodes say wrongly.
_LESS = {
    "ocaml": ("constructor_declaration", "module_definition", "type_definition"),
    "haskell": ("class_decl", "constructor_pattern"),
    "lua": ("function_definition",),
    "zig": ("struct_declaration", "enum_declaration", "union_declaration"),
    "dart": ("function_declaration",),
}
_WRAPPERS = {"ocaml": ("value_definition", "type_definition", "module_definition")}


@cache
def tail_rules(language: str) -> Rules:
    """The table of a language that has none of its own; see `Rules`."""
    known = grammar(language)
    kinds = dict(_MORE.get(language, {}))
    comments = set()
    for number in range(known.node_kind_count):
        type_ = known.node_kind_for_id(number)
        if type_ is None or not known.node_kind_is_named(number):
            continue
        if "comment" in type_:
            comments.add(type_)
        elif type_ in _ALONE or (_DEFINES.search(type_) and not _NO_DEFINITION.search(type_)):
            kind = next((kind for word, kind in _WORDS if word in type_), None)
            if kind is not None:
                kinds.setdefault(type_, kind)
    for type_ in _LESS.get(language, ()):
        kinds.pop(type_, None)
    return Rules(kinds, notes=frozenset(comments), deep=True, wrappers=frozenset(_WRAPPERS.get(language, ())))
