"""The definitions of a program: one table of rules per language, and a walk of the tree by these rules.

Not tree-sitter queries: a query visits every node of a tree, which takes a third of the time of the parse. A walk that
opens only nodes that may contain a definition visits a tenth of them. `tail_rules` derives the rules for a language of
the long tail from the names of its node types.

Macros hide definitions from the grammars: in C and C++ `API int f(void);` and `class EXPORT Name : Base {` break the
parse, in Rust the braces of a macro contain tokens only. `without_macros` and `_macro_items` parse these again.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from repoagent.dataclass import dataclass
from repoagent.syntax.data_formats import flow_title
from repoagent.syntax.languages import grammar
from repoagent.syntax.parser import flaws, parse_part, parse_within
from repoagent.syntax.symbol import Symbol, clean, line_range

if TYPE_CHECKING:
    import tree_sitter

    Node: TypeAlias = tree_sitter.Node
    # The kind of a definition, the node with its name (None: the text itself), the node with its scope.
    Match: TypeAlias = "tuple[str, Node | None, Node | None]"
    # What a node, in its wrapper if it has one, defines.
    Matcher: TypeAlias = Callable[[Node, Node | None, bytes], Match | None]

_LARGE = 8192  # bytes: the members of a larger value are shown


@dataclass(frozen=True)
class Rules:
    """How the definitions of a language are found.

    `kinds`: node type to the kind of symbol, or the function that decides. `opened`: nodes that are always opened;
    others only if one of `hints` matches in them, or with `scripts` a named function of a script. `wrappers`: nodes
    around a definition that belong to it; of `lists` only if it is alone in them. `comments`: what belongs to the
    definition after it. `deep`: open all nodes.
    """

    kinds: dict[str, str | Matcher]
    opened: frozenset[str] = frozenset()
    hints: tuple[re.Pattern[bytes], ...] = ()
    scripts: bool = False
    deep: bool = False
    wrappers: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()
    comments: frozenset[str] = frozenset({"comment"})

    def hint_offsets(self, text: bytes) -> list[int]:
        """Where in `text` a definition may begin, in order; the last is behind its end."""
        offsets = [match.start() for pattern in self.hints for match in pattern.finditer(text)]
        if self.scripts:
            offsets += script_functions(text)
        return [*sorted(offsets), len(text) + 1]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _kinds(**types: str) -> dict[str, str | Matcher]:
    """Node types by kind, which may end in `_` because it is a keyword."""
    return {type_: kind.rstrip("_") for kind, names in types.items() for type_ in names.split()}


def _hints(*patterns: bytes) -> tuple[re.Pattern[bytes], ...]:
    """Separate patterns instead of one with branches: `re` can search for the literal start of each."""
    return tuple(re.compile(pattern) for pattern in patterns)


def _child(node: Node | None, index: int) -> Node | None:
    """The named child at that index, or None (the binding raises)."""
    return node.named_children[index] if node is not None and node.named_child_count > index else None


def _field(node: Node | None, name: str) -> Node | None:
    return node.child_by_field_name(name) if node is not None else None


def _with(kind: str, name: str = "name", body: str = "") -> Matcher:
    """A definition if it has its name in this field, and a body in that one."""

    def match(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
        named = node.child_by_field_name(name)
        return None if named is None or (body and _field(node, body) is None) else (kind, named, None)

    return match


# JavaScript and TypeScript: values of names that are functions, classes, or objects with functions; and values of a
# module that are exported or large: `const OPTIONS = {…}`, `exports.N = 1`.
_FUNCTION_VALUES = frozenset({"arrow_function", "function_expression", "generator_function"})
_VALUE_WRAPPERS = frozenset(
    {"as_expression", "satisfies_expression", "parenthesized_expression", "assignment_expression"}
)
_LEAST_LINES = 5  # for a value that is not exported
_EXPORTS = (b"exports.", b"module.exports")
_NO_VALUES = frozenset({"identifier", "member_expression", "unary_expression", "undefined"})


def _unwrapped(value: Node | None) -> Node | None:
    """The value in `(value)`, `value as T`, and `exports.a = value`."""
    while value is not None and value.type in _VALUE_WRAPPERS:
        value = _child(value, 1 if value.type == "assignment_expression" else 0)
    return value


def _value_kind(value: Node | None) -> str | None:
    value = _unwrapped(value)
    if value is None:
        return None
    if value.type in _FUNCTION_VALUES or value.type == "function_definition":
        return "function"
    if value.type == "class":
        return "class"
    with_functions = value.type == "object" and any(
        child.type == "method_definition"
        or (
            child.type == "pair"
            and (held := _field(child, "value")) is not None
            and held.type in _FUNCTION_VALUES
        )
        for child in value.named_children
    )
    return "object" if with_functions else None


def _assigned(left: str, right: str) -> Matcher:
    """`const f = () => …`, `exports.f = function …`, `f: function …`, `const api = { f() {} }`; and what `export`
    makes a constant."""

    def match(node: Node, outer: Node | None, text: bytes) -> Match | None:
        name, value = node.child_by_field_name(left), node.child_by_field_name(right)
        if name is None:
            return None
        if not name.type.endswith("pattern"):
            if (kind := _value_kind(value)) is not None:
                return kind, name, None
            if node.type == "variable_declarator" and outer is not None and outer.type == "export_statement":
                return "constant", name, None
        return _module_value(node, outer, name, value, text)

    return match


def _module_value(
    node: Node, outer: Node | None, name: Node, value: Node | None, text: bytes
) -> Match | None:
    """A declaration or an assignment of a module that is not a function: constant, variable or object."""
    if outer is None or outer.parent is None or outer.parent.type != "program":
        return None
    large = node.end_point[0] - node.start_point[0] + 1 >= _LEAST_LINES
    if node.type == "variable_declarator":
        if not large or name.type != "identifier":
            return None
        return "constant" if text.startswith(b"const", outer.start_byte) else "variable", name, None
    value = _unwrapped(value)
    if value is None or name.type == "subscript_expression":
        return None
    exported = text.startswith(_EXPORTS, node.start_byte) and value.type not in _NO_VALUES
    if not large and (not exported or value.type in ("object", "call_expression")):
        return None
    return "object" if value.type == "object" else "constant" if exported else "variable", name, None


def _members(node: Node, text: bytes, kinds: dict[str, str | Matcher]) -> Iterator[Definition]:
    """The entries of several lines in a large object or list: keys; entries by their name."""
    value = _unwrapped(_field(node, "value") or _field(node, "right"))
    if value is None or value.type not in ("object", "array") or value.end_byte - value.start_byte <= _LARGE:
        return
    for member in value.named_children:
        if member.end_point[0] == member.start_point[0]:
            continue
        matcher = kinds.get(member.type)
        if matcher is not None and (isinstance(matcher, str) or matcher(member, None, text) is not None):
            continue  # found by the walk
        if member.type == "pair":
            key, content = _child(member, 0), _field(member, "value")
            if key and content and content.type in ("object", "array", "call_expression"):
                name = clean(text[key.start_byte : key.end_byte], 80).strip("\"'")
                yield Definition(member, member, "key", (name,), (), None)
        elif member.type == "object" and (title := flow_title(text, member.start_byte, member.end_byte)):
            yield Definition(member, member, "entry", (title,), (), None)


def _class_field(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    value = node.child_by_field_name("value")
    if value is None or value.type not in _FUNCTION_VALUES:
        return None
    return "method", _field(node, "name") or _field(node, "property"), None


def _export(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    """`export default function () {}`: it has no other name. Other exports are found inside."""
    value = _field(node, "value") or _field(node, "declaration")
    if value is None or value.child_by_field_name("name") is not None:
        return None
    kind = _value_kind(value)
    default = next((child for child in node.children if child.type == "default"), None)
    return None if kind is None or default is None else (kind, default, None)


_GO_KINDS = {"struct_type": "struct", "interface_type": "interface"}


def _go_type(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    type_, name = _field(node, "type"), _field(node, "name")
    return None if type_ is None or name is None else (_GO_KINDS.get(type_.type, "type"), name, None)


def _go_variable(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    name, value = _field(node, "name"), _field(node, "value")
    if name is None:
        return None
    only = _child(value, 0) if value is not None and value.named_child_count == 1 else None
    return "function" if only is not None and only.type == "func_literal" else "variable", name, None


def _go_method(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    name, receiver = _field(node, "name"), _child(_field(node, "receiver"), 0)
    return None if name is None else ("method", name, _field(receiver, "type"))


def _c_typedef(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    """`typedef struct {…} T;`; one whose struct has a name is found under that."""
    type_, name = _field(node, "type"), _field(node, "declarator")
    if (
        type_ is None
        or name is None
        or not type_.type.endswith("_specifier")
        or name.type != "type_identifier"
    ):
        return None
    if _field(type_, "body") is None or _field(type_, "name") is not None:
        return None
    return type_.type.removesuffix("_specifier"), name, None


def _c_function(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    name, type_ = _field(node, "declarator"), _field(node, "type")
    if name is None:
        return None
    if (
        name.type == "identifier"
        and type_ is not None
        and type_.type in ("class_specifier", "struct_specifier")
    ):
        return type_.type.removesuffix("_specifier"), name, None  # `class EXPORT Name : Base {…}`
    return "function", name, None


def _c_declaration(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    """Match function prototypes; skip variables and function pointers."""
    declarator = name = _field(node, "declarator")
    while declarator is not None and declarator.type in ("pointer_declarator", "reference_declarator"):
        declarator = declarator.child_by_field_name("declarator") or next(
            (child for child in declarator.named_children if child.type.endswith("declarator")), None
        )
    if declarator is None or declarator.type not in ("function_declarator", "operator_cast"):
        return None
    return "declaration", name, None


_JAVASCRIPT = Rules(
    kinds={
        **_kinds(
            function="function_declaration generator_function_declaration",
            class_="class_declaration",
            method="method_definition",
        ),
        "variable_declarator": _assigned("name", "value"),
        "assignment_expression": _assigned("left", "right"),
        "pair": _assigned("key", "value"),
        "field_definition": _class_field,
        "export_statement": _export,
    },
    opened=_set("program class_body object ERROR expression_statement"),
    hints=_hints(rb"class[ \t]+[\w${]"),
    scripts=True,
    wrappers=_set("export_statement expression_statement"),
    lists=_set("lexical_declaration variable_declaration"),
    comments=_set("comment decorator"),
)
_TYPESCRIPT = replace(
    _JAVASCRIPT,
    kinds={
        **_JAVASCRIPT.kinds,
        **_kinds(
            interface="interface_declaration",
            enum="enum_declaration",
            type="type_alias_declaration",
            namespace="internal_module module",
            declaration="function_signature method_signature abstract_method_signature",
            class_="abstract_class_declaration",
        ),
        "public_field_definition": _class_field,
    },
    opened=_JAVASCRIPT.opened | _set("interface_body ambient_declaration"),
    hints=(
        *_JAVASCRIPT.hints,
        *_hints(
            rb"interface[ \t]+\w", rb"type[ \t]+\w+[^=;\n]{0,80}=", rb"enum[ \t]+\w", rb"namespace[ \t]+\w",
            rb"module[ \t]+[\w\"']",
        ),
    ),
    wrappers=_JAVASCRIPT.wrappers | _set("ambient_declaration"),
)  # fmt: skip
_C = Rules(
    kinds={
        "function_definition": _c_function,
        "declaration": _c_declaration,
        "struct_specifier": _with("struct", body="body"),
        "union_specifier": _with("union", body="body"),
        "enum_specifier": _with("enum", body="body"),
        "type_definition": _c_typedef,
        "preproc_function_def": "macro",
    },
    opened=_set(
        "translation_unit linkage_specification declaration_list field_declaration_list preproc_if preproc_ifdef "
        "preproc_else preproc_elif preproc_elifdef template_declaration friend_declaration ERROR"
    ),
    hints=_hints(
        rb"struct\b[^;{}()]*\{", rb"union\b[^;{}()]*\{", rb"enum\b[^;{}()]*\{", rb"#[ \t]*define[ \t]+\w+\("
    ),
    wrappers=_set("template_declaration type_definition"),
)
RULES: dict[str, Rules] = {
    "python": Rules(
        kinds=_kinds(function="function_definition", class_="class_definition"),
        opened=_set("module"),
        hints=_hints(rb"def\b", rb"class\b"),
        wrappers=_set("decorated_definition"),
    ),
    "javascript": _JAVASCRIPT,
    "typescript": _TYPESCRIPT,
    "tsx": _TYPESCRIPT,
    "java": Rules(
        kinds=_kinds(
            interface="interface_declaration annotation_type_declaration",
            enum="enum_declaration",
            method="method_declaration constructor_declaration compact_constructor_declaration "
            "annotation_type_element_declaration",
            class_="class_declaration record_declaration",
        ),
        opened=_set(
            "program class_body interface_body enum_body enum_constant enum_body_declarations "
            "annotation_type_body ERROR"
        ),
        hints=_hints(
            rb"class[ \t]+\w", rb"new\b[^;{}\[\]]*\{", rb"interface[ \t]+\w", rb"enum[ \t]+\w",
            rb"record[ \t]+\w+\s*[<(]",
        ),
        comments=_set("line_comment block_comment"),
    ),
    "go": Rules(
        kinds={
            "function_declaration": "function",
            "method_declaration": _go_method,
            "type_spec": _go_type,
            "type_alias": "type",
            "method_elem": "declaration",
            "const_spec": "constant",
            "var_spec": _go_variable,
        },
        opened=_set(
            "source_file type_declaration const_declaration var_declaration var_spec_list interface_type ERROR"
        ),
        hints=_hints(rb"type\b", rb"interface\b"),
        lists=_set("type_declaration const_declaration var_declaration"),
    ),
    "rust": Rules(
        kinds={
            **_kinds(
                function="function_item",
                declaration="function_signature_item",
                struct="struct_item",
                union="union_item",
                enum="enum_item",
                interface="trait_item",
                type="type_item",
                macro="macro_definition",
                constant="const_item static_item",
            ),
            "impl_item": _with("impl", "type"),
            "mod_item": _with("namespace", body="body"),
        },
        opened=_set("source_file declaration_list foreign_mod_item ERROR"),
        hints=_hints(
            rb"fn\b", rb"struct\b", rb"enum\b", rb"impl\b", rb"trait\b", rb"mod\b", rb"macro_rules\b", rb"union\b"
        ),
        comments=_set("line_comment block_comment attribute_item"),
    ),
    "c": _C,
    "cpp": replace(
        _C,
        kinds={
            **_C.kinds,
            **_kinds(namespace="namespace_definition", type="concept_definition alias_declaration"),
            "class_specifier": _with("class", body="body"),
            "field_declaration": _c_declaration,
        },
        hints=(*_C.hints, *_hints(rb"class\b[^;{}()]*\{")),
    ),
    "bash": Rules(
        kinds=_kinds(function="function_definition"),
        opened=_set("program"),
        hints=_hints(rb"function\b", rb"\(\s*\)"),
    ),
}  # fmt: skip


_ELIXIR = {
    b"def": "function", b"defp": "function", b"defmacro": "macro", b"defmacrop": "macro", b"defmodule": "namespace",
    b"defprotocol": "interface", b"defimpl": "impl", b"defguard": "macro", b"defdelegate": "function",
}  # fmt: skip
_ZIG = {"struct_declaration": "struct", "enum_declaration": "enum", "union_declaration": "union"}
_CMAKE = frozenset((b"project", b"add_executable", b"add_library", b"add_custom_target", b"add_test"))


def _elixir_call(node: Node, _outer: Node | None, text: bytes) -> Match | None:
    target, name = _field(node, "target"), _child(_child(node, 1), 0)
    kind = _ELIXIR.get(text[target.start_byte : target.end_byte]) if target is not None else None
    while name is not None and name.type in ("binary_operator", "call"):  # `def f(x) when x > 1`
        name = _child(name, 0)
    return None if kind is None or name is None else (kind, name, None)


def _cmake_command(node: Node, _outer: Node | None, text: bytes) -> Match | None:
    name = _child(node, 0)
    if name is None or text[name.start_byte : name.end_byte].lower() not in _CMAKE:
        return None
    return "rule", None, None


def _cmake_definition(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    name = _child(_child(_child(node, 0), 1), 0)
    return None if name is None else (node.type.removesuffix("_def"), name, None)


def _ocaml_binding(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    name = node.child_by_field_name("pattern")
    if name is None or name.type not in ("value_name", "parenthesized_operator"):
        return None
    is_function = any(child.type == "parameter" for child in node.named_children)
    return "function" if is_function else "variable", name, None


def _zig_variable(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    """`const Point = struct {…};`"""
    kind = next((_ZIG[child.type] for child in node.named_children if child.type in _ZIG), None)
    return None if kind is None else (kind, _child(node, 0), None)


def _zig_test(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    name = _child(node, 0)
    return None if name is None or name.type == "block" else ("function", name, None)


def _lua_function(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    """`M.f = function … end`, `{ f = function … end }`"""
    if node.type == "field":
        name, value = _field(node, "name"), _field(node, "value")
    else:
        name, value = _child(_child(node, 0), 0), _child(_child(node, 1), 0)
    is_function = value is not None and value.type == "function_definition"
    return ("function", name, None) if is_function and (name or node.type != "field") else None


def _swift_init(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    name = next((child for child in node.children if child.type == "init"), None)
    return None if name is None else ("method", name, None)


# The long tail: the words in a node type and its kind, the first that matches.
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
# What the names of the nodes do not tell, or tell wrongly: "" is no definition.
_TAIL_KINDS: dict[str, dict[str, str | Matcher]] = {
    "toml": _kinds(rule="table table_array_element"),
    "make": _kinds(rule="rule"),
    "hcl": _kinds(rule="block"),
    "dockerfile": _kinds(rule="from_instruction"),
    "sql": {f"create_{what}{end}": kind for what, kind in _SQL.items() for end in ("", "_statement")},
    "perl": _kinds(function="subroutine_declaration_statement", namespace="package_statement"),
    "zig": {
        "variable_declaration": _zig_variable, "test_declaration": _zig_test, **dict.fromkeys(_ZIG, ""),
    },
    "dart": {
        **_kinds(
            class_="mixin_declaration extension_declaration",
            function="function_signature getter_signature setter_signature",
            method="constructor_signature",
        ),
        "function_declaration": "",
    },
    "cmake": {
        "function_def": _cmake_definition, "macro_def": _cmake_definition, "normal_command": _cmake_command,
    },
    "kotlin": _kinds(type="type_alias"),
    "swift": {"init_declaration": _swift_init, "typealias_declaration": "type"},
    "graphql": _kinds(function="operation_definition fragment_definition"),
    "lua": {
        "assignment_statement": _lua_function,
        "field": _lua_function,
        **_kinds(
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
    "elm": _kinds(function="value_declaration", type="type_declaration type_alias_declaration"),
    "haskell": {
        **_kinds(type="adt newtype type_alias data_type type_synonym", interface="class"),
        "function": _with("function"),  # a node for the type of a function has the same name
        "bind": _with("variable"),
        **dict.fromkeys(("class_decl", "constructor_pattern"), ""),
    },
    "r": {"left_assignment": _assigned("name", "value"), "equals_assignment": _assigned("name", "value")},
}  # fmt: skip
_TAIL_WRAPPERS = {"ocaml": _set("value_definition type_definition module_definition")}


@cache
def tail_rules(language: str) -> Rules:
    """The rules of a language without rules of its own, from the names of its node types."""
    known = grammar(language)
    kinds = dict(_TAIL_KINDS.get(language, {}))
    comments = set()
    for number in range(known.node_kind_count):
        type_ = known.node_kind_for_id(number)
        if type_ is None or not known.node_kind_is_named(number):
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


# Offsets in scripts where named functions may be, since most functions have no name.
_ARROW = re.compile(rb"=>")
_FUNCTION = re.compile(rb"function\b(\s*\*?\s*[\w$])?")
_BODY = re.compile(rb"\)[^\n(){};=]{0,80}\{")
_CONTROL = re.compile(rb"[ \t}]*(?:else[ \t]+)?(?:if|for|while|switch|catch|with)\b")
_MINIFIED = 400  # bytes: in a longer line anything may be before


def script_functions(text: bytes) -> list[int]:
    """Offsets in, or close to, all functions of JavaScript that have a name; not in order.

    A function that is an argument (`map((x) => …)`, `each(function () {…})`) is at none of them, nor is the body of a
    control structure.
    """
    offsets = []
    for match in _ARROW.finditer(text):
        at = match.start()
        before = text[text.rfind(b"\n", 0, at) + 1 : at]
        if b"=" in before or b":" in before or before.lstrip()[:1] in (b")", b"}"):
            offsets.append(at)
    for match in _FUNCTION.finditer(text):
        at = match.start()
        before = text[max(at - 40, 0) : at].rstrip().removesuffix(b"async").rstrip()
        if match[1] or before.endswith((b"=", b":")):
            offsets.append(at)
    for match in _BODY.finditer(text):
        at = match.start()
        line = text.rfind(b"\n", max(at - _MINIFIED, 0), at) + 1
        if line == 0 or not (_CONTROL.match(text, line) or text.find(b"function", line, at) >= 0):
            offsets.append(at)
    return offsets


# A word in capitals (it may have arguments): before a type and a name that parentheses follow, in the head of a class,
# around a declaration with a string, or on a line of its own before one of these.
_BEFORE_FUNCTION = re.compile(
    rb"^([ \t]*(?:(?:static|extern|inline|virtual|explicit|friend)[ \t]+)*)"
    rb"([A-Z][A-Z0-9_]*[A-Z_](?:\([^()\n]*\))?)(?=[ \t]+[A-Za-z_][\w:<>*& \t,]*[ \t*&]~?\w+[ \t]*\()",
    re.MULTILINE,
)
_IN_CLASS_HEAD = re.compile(
    rb"\b((?:class|struct|union)[ \t]+)([A-Z][A-Z0-9_]*(?:\([^()\n]*\))?)(?=[ \t]+\w+(?:[ \t]+final)?\s*[:{])"
)
_AROUND = re.compile(rb"^([ \t]*)([A-Z][A-Z_]+\()([^;\"{}]*\))(,\s*\"[^\"\n]*\"\s*\))(?=;)", re.MULTILINE)
_OWN_LINE = re.compile(
    rb"^([ \t]*)([A-Z][A-Z0-9_]{3,}(?:\([^()\n]*\))?)"
    rb"(?=[ \t]*\r?\n\s*(?:namespace|class|template|struct|enum|inline)\b)",
    re.MULTILINE,
)
_MOST_FLAWS = 1000
_SECONDS = 2.0


def without_macros(text: bytes, tree: tree_sitter.Tree, language: str) -> tree_sitter.Tree:
    """The tree of `text` with such macros blanked out if that is less broken than `tree`, else `tree`. All offsets and
    lines are those of `text`."""

    def unwrap(match: re.Match[bytes]) -> bytes:  # `DEPRECATED(int f(void), "use g");`
        return match[1] + b" " * len(match[2]) + match[3] + re.sub(rb"[^\n]", b" ", match[4])

    plain = _AROUND.sub(unwrap, text)
    for pattern in (_IN_CLASS_HEAD, _OWN_LINE, _BEFORE_FUNCTION):
        plain = pattern.sub(lambda match: match[1] + b" " * len(match[2]), plain)
    other = parse_within(plain, language, _SECONDS) if plain != text else None
    if other is None:
        return tree
    new, old = (sum(1 for _ in islice(flaws(one, text), _MOST_FLAWS)) for one in (other, tree))
    return other if new < old else tree


def _macro_items(node: Node, text: bytes, language: str) -> Iterator[Node]:
    """The items in the braces of a Rust macro, if any: `cfg_net! { pub fn bind() {} }`."""
    import tree_sitter

    for child in node.children:
        if child.type == "token_tree" and text.startswith(b"{", child.start_byte):
            (row, column), end = child.start_point, child.end_point
            inside = tree_sitter.Range(
                (row, column + 1), (end.row, max(end.column - 1, 0)), child.start_byte + 1, child.end_byte - 1
            )
            tree = parse_part(text, language, inside)
            if tree is not None and not tree.root_node.has_error:
                yield tree.root_node


class Definition(NamedTuple):
    """A definition: `outer` is `node` with its wrapper, `parts` its name, outermost scope first, `comments` those
    before it."""

    node: Node
    outer: Node
    kind: str
    parts: tuple[str, ...]
    comments: tuple[Node, ...]
    body: Node | None


_LITERALS = frozenset(
    {"string", "template_string", "string_literal", "raw_string_literal", "interpreted_string_literal"}
)
_VALUES = frozenset({"constant", "variable", "object"})
_SHORTEST = 8  # bytes of a definition
_CONTAINERS = frozenset({"class", "struct", "union", "interface", "enum", "impl", "namespace", "object"})


def _definitions(root: Node, rules: Rules, language: str, text: bytes) -> list[Definition]:
    """All definitions below `root` in order, containers before their contents."""
    kinds, deep, lists = rules.kinds, rules.deep, rules.lists
    opened = rules.opened | rules.wrappers
    known = opened | rules.comments | frozenset(kinds) | lists
    hints = rules.hint_offsets(text)
    definitions: list[Definition] = []
    pending: list[tuple[Node, Node | None, tuple[Node, ...]]] = [(root, None, ())]
    while pending:
        node, outer, before = pending.pop()
        comments = before
        hint = bisect_left(hints, node.start_byte)
        for child in node.children:
            type_, start, end = child.type, child.start_byte, child.end_byte
            if type_ in rules.comments:
                comments = (*comments, child)
                continue
            if type_ not in known:
                while hints[hint] < start:
                    hint += 1
                if type_ == "macro_invocation" and node.type in opened and hints[hint] < end:
                    pending.extend((item, None, ()) for item in _macro_items(child, text, language))
                    comments = ()
                    continue
                if (hints[hint] < end or (deep and end - start > _SHORTEST)) and type_ not in _LITERALS:
                    pending.append((child, None, comments))
                if comments:
                    comments = before if outer is not None else ()
                continue
            rule = kinds.get(type_)
            match = None
            if rule is not None:
                match = _plain(child, rule, deep) if isinstance(rule, str) else rule(child, outer, text)
            parts = _name_parts(language, text, child, match[1], match[2]) if match else ()
            if match and parts:
                kind, name, body = match[0], match[1], child.child_by_field_name("body")
                definitions.append(Definition(child, outer or child, kind, parts, comments, body))
                if kind in _VALUES and end - start > _LARGE and rules.scripts:
                    definitions.extend(_members(child, text, kinds))
                container = kind in _CONTAINERS
                if body is not None and not container:
                    start = body.start_byte
                else:
                    start = start + 1 if name is None or name is child else max(start, name.end_byte)
                if container or deep or hints[bisect_left(hints, start)] < end:
                    pending.append((child, None, ()))
                if kind == "class" and type_ == "function_definition" and body is not None:
                    pending.append((body, None, ()))  # of a class that was taken for a function
            elif (
                type_ in opened
                or deep
                or rule in _CONTAINERS  # it has no name: `namespace {`
                or (type_ in lists and (outer is not None or node is root))
                or hints[bisect_left(hints, start)] < end
            ):
                single = type_ in rules.wrappers or (
                    type_ in lists and not any(c.type in ("(", ",") for c in child.children)
                )
                pending.append((child, (outer or child) if single else None, comments))
            comments = before if outer is not None else ()
    definitions.sort(key=lambda one: (one.node.start_byte, -one.node.end_byte))
    return definitions


_NAME_TYPES = ("identifier", "name", "constant")
_NO_HEADS = ("param", "argument", "body", "block", "type")


def _plain(node: Node, kind: str, deep: bool) -> Match | None:
    """A definition by its type alone. Its name is in a field; with `deep` also a child of the node, of its head, or of
    the head's head."""
    name = node.child_by_field_name("name")
    if name is not None or kind == "rule":
        return kind, name, None
    for _ in range(3 if deep else 0):
        children = node.named_children
        name = next((child for child in children if child.type.endswith(_NAME_TYPES)), None)
        if name is not None:
            return kind, name, None
        heads = [child for child in children[:4] if not child.type.startswith("keyword")]
        if not heads or any(word in heads[0].type for word in _NO_HEADS):
            return None
        node = heads[0]
        if (name := node.child_by_field_name("name")) is not None:
            return kind, name, None
    return None


_GENERIC = re.compile(r"<[^<>]*>|\[[^\[\]]*\]|\([^()]*\)")


def _name_parts(
    language: str, text: bytes, node: Node, name: Node | None, scope: Node | None
) -> tuple[str, ...]:
    """The parts of the name of `node`, outermost first; empty if it is not a definition after all."""
    if name is None:
        head = text[node.start_byte : node.end_byte].split(b"{", 1)[0]
        if language == "make" and head.startswith(b".PHONY"):
            return ()
        return (clean(head.split(b"\n", 1)[0], 80),)
    if language in ("c", "cpp"):
        return _declarator_parts(text, node, name)
    written = clean(text[name.start_byte : name.end_byte], 80)
    if name.type == "string":
        return (written.strip("\"'") or written,)
    if scope is not None:
        return (_type_name(clean(text[scope.start_byte : scope.end_byte])), written)
    if node.type == "assignment_expression":
        parts = written.replace(".prototype.", ".").replace(" ", "").split(".")
        if parts[0] in ("module", "exports", "this"):
            parts = [p for p in parts if p not in ("module", "exports", "this")] or ["exports"]
        return tuple(parts)
    if node.type == "impl_item":
        return (_type_name(written),)
    if language in ("typescript", "tsx") and name.type == "nested_identifier":
        return tuple(written.split("."))
    return (written,)


def _type_name(text: str) -> str:
    """The name in a type: `*Server[T]` and `crate::Server<T>` are Server."""
    while (shorter := _GENERIC.sub("", text)) != text:
        text = shorter
    return text.rsplit("::", 1)[-1].rsplit(" ", 1)[-1].strip("*&() ") or clean(text.encode())


def _declarator_parts(text: bytes, node: Node, name: Node) -> tuple[str, ...]:
    """The name in a C declarator (`*(*name(int))[3]`), and its C++ scopes."""
    if node.type in ("declaration", "field_declaration"):
        inner = name.child_by_field_name("declarator")
        if inner is not None and inner.type == "parenthesized_declarator":
            return ()  # a variable that points to a function
    while name.type.endswith("_declarator"):
        inner = name.child_by_field_name("declarator") or next(
            (c for c in name.named_children if c.type.endswith(("declarator", "identifier", "name"))), None
        )
        if inner is None:
            break
        name = inner
    if name.type == "operator_cast":
        return (clean(text[name.start_byte : name.end_byte].split(b"(", 1)[0], 80),)
    parts: list[str] = []
    while name.type == "qualified_identifier":
        scope, last = name.child_by_field_name("scope"), name.child_by_field_name("name")
        if scope is not None:
            parts.append(_type_name(clean(text[scope.start_byte : scope.end_byte], 80)))
        if last is None:
            break
        name = last
    if name.type == "template_function":
        name = name.child_by_field_name("name") or name
    written = clean(text[name.start_byte : name.end_byte], 80)
    return tuple(written.split("::")) if name.type == "nested_namespace_specifier" else (*parts, written)


_FUNCTIONS = frozenset({"function", "method"})
_WITH_METHODS = frozenset({"class", "struct", "union", "enum", "interface", "impl"})
_NOT_LOCAL = frozenset({"declaration", "constant", "variable"})
_ANONYMOUS_HOLDERS = frozenset({"arguments", "array", "jsx_expression"})


def program_symbols(root: Node, language: str, text: bytes) -> tuple[Symbol, ...]:
    """The symbols of a program in order, containers before their contents."""
    symbols: list[Symbol] = []
    # end byte, symbol, the path of its name, its node
    holders: list[tuple[int, Symbol, tuple[str, ...], Node]] = []
    rules = RULES.get(language) or tail_rules(language)
    for node, outer, kind, parts, comments, body in _definitions(root, rules, language, text):
        end = node.end_byte
        while holders and holders[-1][0] < end:
            holders.pop()
        if holders and node.type == "assignment_expression" and _is_value(node, holders[-1][3]):
            holders.pop()  # `exports.a = exports.b = function …`: both at one level
        parent, path = (holders[-1][1], holders[-1][2]) if holders else (None, ())
        inside = parent.kind if parent else ""
        if inside in _FUNCTIONS and (
            kind in _NOT_LOCAL
            or (node.type == "assignment_expression" and not text.startswith(b"this.", node.start_byte))
        ):
            continue  # a local prototype or variable, or a handler of some object
        if (
            node.type in ("pair", "method_definition")
            and (inside in _FUNCTIONS or inside in ("constant", "variable"))
            and _is_short_handler(node, text)
        ):
            continue
        if kind == "function" and inside in _WITH_METHODS:
            kind = "method"
        first, last = line_range(outer, comments, text)
        if parent:
            first, last = max(first, parent.first_line), min(last, parent.last_line)
        signature = _signature(outer, node, body, text) or parts[-1]
        full = (*path, *parts)
        shown = (*path, signature) if kind == "impl" else full
        depth = parent.depth + 1 if parent else 0
        symbols.append(Symbol(shown[-1], kind, ".".join(shown), first, max(first, last), signature, depth))
        holders.append((end, symbols[-1], full, node))
    return tuple(symbols)


def _is_value(node: Node, holder: Node) -> bool:
    if (
        holder.type not in ("assignment_expression", "variable_declarator")
        or holder.end_byte != node.end_byte
    ):
        return False
    value = holder.child_by_field_name("right") or holder.child_by_field_name("value")
    return value is not None and value.start_byte == node.start_byte


def _is_short_handler(node: Node, text: bytes) -> bool:
    """Whether it is a one-line function in an anonymous object that is an argument or in a list."""
    holder = node.parent.parent if node.parent is not None else None
    if node.end_point[0] > node.start_point[0] or holder is None or holder.type not in _ANONYMOUS_HOLDERS:
        return False
    return not text[max(holder.start_byte - 20, 0) : holder.start_byte].endswith((b"assign", b"extend"))


_LEADS = re.compile(rb"([(\[<])\s*\n\s*")
_TRAILS = re.compile(rb",?\s*\n\s*([)\]>])")
_COMMENT = re.compile(rb"#|//|/\*")


def _signature(outer: Node, node: Node, body: Node | None, text: bytes) -> str:
    """The head of a definition on one line, without decorators and body."""
    start, holder, value = outer.start_byte, node, None
    if outer is not node or text.startswith(b"@", start):
        start = next((c.start_byte for c in outer.children if c.type not in ("decorator", "comment")), start)
    if body is None:  # `const name = (a) => {…}`
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        if value is not None:
            holder, body = value, value.child_by_field_name("body")
    if body is None:
        holder = node
        body = next((c for c in node.children if c.type in ("block", "keyframe_block_list")), None)
    if body is None:
        head = text[start : min(outer.end_byte, start + 400)].split(b"\n", 1)[0]
        if (
            value is not None
            and head.rstrip().endswith((b"<", b"("))
            and holder.type == "type_alias_declaration"
        ):
            # `type T<`, a line for each parameter, `> = …`
            head = _LEADS.sub(rb"\1", _TRAILS.sub(rb"\1", text[start : value.start_byte][:400]))
        return clean(head).rstrip("{;,").rstrip()
    stop = body.start_byte
    head = text[start : max(start, stop)][:1000]
    if _COMMENT.search(head):  # a comment between head and body is no part of it
        ends = [c.end_byte for c in holder.children if c.end_byte <= stop and "comment" not in c.type]
        head = text[start : max(start, *ends, start)][:1000]
    if b"\n" in head:  # `f(`, a line for each parameter, `)`
        head = _LEADS.sub(rb"\1", _TRAILS.sub(rb"\1", head))
    return clean(head).removesuffix("=>").rstrip(" :{")
