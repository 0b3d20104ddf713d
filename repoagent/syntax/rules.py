"""The nodes that are definitions in each language, as one table of rules per language.

These are not tree-sitter queries, which visit every node of a tree. A walk that opens only nodes that may contain a
definition visits a tenth of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from repoagent.dataclass import dataclass
from repoagent.syntax.languages import load_grammar

if TYPE_CHECKING:
    import tree_sitter

    Node: TypeAlias = tree_sitter.Node
    Match: TypeAlias = "tuple[str, Node | None, Node | None]"
    Matcher: TypeAlias = Callable[[Node, Node | None, bytes], Match | None]


@dataclass(frozen=True)
class Rules:
    """The rules to find the definitions of a language.

    kinds: maps a node type to the kind of symbol, or to a function that decides it
    opened: nodes that are always opened; others are opened only if they contain a match of `hints`
    scripts: whether nodes that contain a named function are opened, too
    deep: whether all nodes are opened
    wrappers: nodes around a definition that belong to it
    lists: wrappers that belong to a definition only if they contain no other definition
    comments: nodes that belong to the next definition
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
        """The offsets in `text` at which a definition may begin, in order, followed by an offset past the end of
        `text`."""
        offsets = [match.start() for pattern in self.hints for match in pattern.finditer(text)]
        if self.scripts:
            offsets += script_functions(text)
        return [*sorted(offsets), len(text) + 1]


def words(words: str) -> frozenset[str]:
    return frozenset(words.split())


def kind_table(**types: str) -> dict[str, str | Matcher]:
    """A table that maps node types to kinds. Each argument names a kind, with a trailing `_` if it is a keyword, and
    lists its node types."""
    return {type_: kind.rstrip("_") for kind, names in types.items() for type_ in names.split()}


def _hints(*patterns: bytes) -> tuple[re.Pattern[bytes], ...]:
    """Separate patterns: `re` can search for the literal start of each, but not for that of a branch."""
    return tuple(re.compile(pattern) for pattern in patterns)


def child_at(node: Node | None, index: int) -> Node | None:
    """The named child at `index`, or None if there is none; the tree-sitter binding would raise."""
    return node.named_children[index] if node is not None and node.named_child_count > index else None


def field_of(node: Node | None, name: str) -> Node | None:
    return node.child_by_field_name(name) if node is not None else None


def named(kind: str, name: str = "name", body: str = "") -> Matcher:
    """Return a matcher for nodes with a name in the field `name` and, if `body` is set, a body in that field."""

    def match(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
        named = node.child_by_field_name(name)
        return None if named is None or (body and field_of(node, body) is None) else (kind, named, None)

    return match


# JavaScript and TypeScript: names for functions, classes, or objects with functions; and values of a module that are
# exported or large: `const OPTIONS = {…}`, `exports.N = 1`.
_FUNCTION_VALUES = frozenset({"arrow_function", "function_expression", "generator_function"})
_VALUE_WRAPPERS = frozenset(
    {"as_expression", "satisfies_expression", "parenthesized_expression", "assignment_expression"}
)
_LEAST_LINES = 5  # for a value that is not exported
_EXPORTS = (b"exports.", b"module.exports")
_NO_VALUES = frozenset({"identifier", "member_expression", "unary_expression", "undefined"})


def unwrapped(value: Node | None) -> Node | None:
    """The value in `(value)`, `value as T`, and `exports.a = value`."""
    while value is not None and value.type in _VALUE_WRAPPERS:
        value = child_at(value, 1 if value.type == "assignment_expression" else 0)
    return value


def _value_kind(value: Node | None) -> str | None:
    value = unwrapped(value)
    if value is None:
        return None
    if value.type in _FUNCTION_VALUES or value.type == "function_definition":
        return "function"
    if value.type == "class":
        return "class"
    for member in value.named_children if value.type == "object" else ():
        inner = field_of(member, "value") if member.type == "pair" else None
        if member.type == "method_definition" or (inner is not None and inner.type in _FUNCTION_VALUES):
            return "object"
    return None


def assigned(left: str, right: str) -> Matcher:
    """Return a matcher for exported constants, and for functions and objects that are assigned to a name.

    It matches `const f = () => …`, `exports.f = function …`, `f: function …` and `const api = { f() {} }`.
    """

    def match(node: Node, outer: Node | None, text: bytes) -> Match | None:
        name, value = node.child_by_field_name(left), node.child_by_field_name(right)
        if name is None:
            return None
        if not name.type.endswith("pattern"):
            if (kind := _value_kind(value)) is not None:
                return kind, name, None
            if node.type == "variable_declarator" and outer is not None and outer.type == "export_statement":
                return "constant", name, None
        # A declaration or an assignment of a module that is not a function: constant, variable or object.
        if outer is None or outer.parent is None or outer.parent.type != "program":
            return None
        large = node.end_point[0] - node.start_point[0] + 1 >= _LEAST_LINES
        if node.type == "variable_declarator":
            if not large or name.type != "identifier":
                return None
            return "constant" if text.startswith(b"const", outer.start_byte) else "variable", name, None
        value = unwrapped(value)
        if value is None or name.type == "subscript_expression":
            return None
        exported = text.startswith(_EXPORTS, node.start_byte) and value.type not in _NO_VALUES
        if not large and (not exported or value.type in ("object", "call_expression")):
            return None
        return "object" if value.type == "object" else "constant" if exported else "variable", name, None

    return match


def _class_field(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    value = node.child_by_field_name("value")
    is_function = value is not None and value.type in _FUNCTION_VALUES
    return ("method", field_of(node, "name") or field_of(node, "property"), None) if is_function else None


def _export(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    """Match `export default function () {}`, which has no other name. Other exports are matched inside."""
    value = field_of(node, "value") or field_of(node, "declaration")
    if value is None or value.child_by_field_name("name") is not None:
        return None
    kind = _value_kind(value)
    default = next((child for child in node.children if child.type == "default"), None)
    return None if kind is None or default is None else (kind, default, None)


_GO_KINDS = {"struct_type": "struct", "interface_type": "interface"}


def _go_type(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    type_, name = field_of(node, "type"), field_of(node, "name")
    return None if type_ is None or name is None else (_GO_KINDS.get(type_.type, "type"), name, None)


def _go_variable(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    name, value = field_of(node, "name"), field_of(node, "value")
    if name is None:
        return None
    only = child_at(value, 0) if value is not None and value.named_child_count == 1 else None
    return "function" if only is not None and only.type == "func_literal" else "variable", name, None


def _go_method(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    name, receiver = field_of(node, "name"), child_at(field_of(node, "receiver"), 0)
    return None if name is None else ("method", name, field_of(receiver, "type"))


def _c_typedef(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    """Match `typedef struct {…} T;`. A struct with a name is matched under that name."""
    type_, name = field_of(node, "type"), field_of(node, "declarator")
    if (
        type_ is None
        or name is None
        or name.type != "type_identifier"
        or not type_.type.endswith("_specifier")
    ):
        return None
    is_anonymous = field_of(type_, "body") is not None and field_of(type_, "name") is None
    return (type_.type.removesuffix("_specifier"), name, None) if is_anonymous else None


def _c_function(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    name, type_ = field_of(node, "declarator"), field_of(node, "type")
    if name is None or type_ is None or name.type != "identifier":
        return None if name is None else ("function", name, None)
    is_class = type_.type in ("class_specifier", "struct_specifier")  # `class EXPORT Name : Base {…}`
    return type_.type.removesuffix("_specifier") if is_class else "function", name, None


def _c_declaration(node: Node, _outer: Node | None, _text: bytes) -> Match | None:
    """Match function prototypes; skip variables and function pointers."""
    declarator = name = field_of(node, "declarator")
    while declarator is not None and declarator.type in ("pointer_declarator", "reference_declarator"):
        declarator = declarator.child_by_field_name("declarator") or next(
            (child for child in declarator.named_children if child.type.endswith("declarator")), None
        )
    if declarator is None or declarator.type not in ("function_declarator", "operator_cast"):
        return None
    return "declaration", name, None


_JAVASCRIPT = Rules(
    kinds={
        **kind_table(
            function="function_declaration generator_function_declaration",
            class_="class_declaration",
            method="method_definition",
        ),
        "variable_declarator": assigned("name", "value"),
        "assignment_expression": assigned("left", "right"),
        "pair": assigned("key", "value"),
        "field_definition": _class_field,
        "export_statement": _export,
    },
    opened=words("program class_body object ERROR expression_statement"),
    hints=_hints(rb"class[ \t]+[\w${]"),
    scripts=True,
    wrappers=words("export_statement expression_statement"),
    lists=words("lexical_declaration variable_declaration"),
    comments=words("comment decorator"),
)
_TYPESCRIPT = replace(
    _JAVASCRIPT,
    kinds={
        **_JAVASCRIPT.kinds,
        **kind_table(
            interface="interface_declaration",
            enum="enum_declaration",
            type="type_alias_declaration",
            namespace="internal_module module",
            declaration="function_signature method_signature abstract_method_signature",
            class_="abstract_class_declaration",
        ),
        "public_field_definition": _class_field,
    },
    opened=_JAVASCRIPT.opened | words("interface_body ambient_declaration"),
    hints=(
        *_JAVASCRIPT.hints,
        *_hints(
            rb"interface[ \t]+\w", rb"type[ \t]+\w+[^=;\n]{0,80}=", rb"enum[ \t]+\w", rb"namespace[ \t]+\w",
            rb"module[ \t]+[\w\"']",
        ),
    ),
    wrappers=_JAVASCRIPT.wrappers | words("ambient_declaration"),
)  # fmt: skip
_HEAD = rb"\b[^;{}()]{0,1000}\{"  # between `struct` and the body; the limit keeps the search linear
_C = Rules(
    kinds={
        "function_definition": _c_function,
        "declaration": _c_declaration,
        "struct_specifier": named("struct", body="body"),
        "union_specifier": named("union", body="body"),
        "enum_specifier": named("enum", body="body"),
        "type_definition": _c_typedef,
        "preproc_function_def": "macro",
    },
    opened=words(
        "translation_unit linkage_specification declaration_list field_declaration_list preproc_if preproc_ifdef "
        "preproc_else preproc_elif preproc_elifdef template_declaration friend_declaration ERROR"
    ),
    hints=_hints(b"struct" + _HEAD, b"union" + _HEAD, b"enum" + _HEAD, rb"#[ \t]*define[ \t]+\w+\("),
    wrappers=words("template_declaration type_definition"),
)
RULES: dict[str, Rules] = {
    "python": Rules(
        kinds=kind_table(function="function_definition", class_="class_definition"),
        opened=words("module"),
        hints=_hints(rb"def\b", rb"class\b"),
        wrappers=words("decorated_definition"),
    ),
    "javascript": _JAVASCRIPT,
    "typescript": _TYPESCRIPT,
    "tsx": _TYPESCRIPT,
    "java": Rules(
        kinds=kind_table(
            interface="interface_declaration annotation_type_declaration",
            enum="enum_declaration",
            method="method_declaration constructor_declaration compact_constructor_declaration "
            "annotation_type_element_declaration",
            class_="class_declaration record_declaration",
        ),
        opened=words(
            "program class_body interface_body enum_body enum_constant enum_body_declarations "
            "annotation_type_body ERROR"
        ),
        hints=_hints(
            rb"class[ \t]+\w", rb"new\b[^;{}\[\]]{0,1000}\{", rb"interface[ \t]+\w", rb"enum[ \t]+\w",
            rb"record[ \t]+\w+\s*[<(]",
        ),
        comments=words("line_comment block_comment"),
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
        opened=words(
            "source_file type_declaration const_declaration var_declaration var_spec_list interface_type ERROR"
        ),
        hints=_hints(rb"type\b", rb"interface\b"),
        lists=words("type_declaration const_declaration var_declaration"),
    ),
    "rust": Rules(
        kinds={
            **kind_table(
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
            "impl_item": named("impl", "type"),
            "mod_item": named("namespace", body="body"),
        },
        opened=words("source_file declaration_list foreign_mod_item ERROR"),
        hints=_hints(
            rb"fn\b", rb"struct\b", rb"enum\b", rb"impl\b", rb"trait\b", rb"mod\b", rb"macro_rules\b", rb"union\b"
        ),
        comments=words("line_comment block_comment attribute_item"),
    ),
    "c": _C,
    "cpp": replace(
        _C,
        kinds={
            **_C.kinds,
            **kind_table(namespace="namespace_definition", type="concept_definition alias_declaration"),
            "class_specifier": named("class", body="body"),
            "field_declaration": _c_declaration,
        },
        hints=(*_C.hints, *_hints(b"class" + _HEAD)),
    ),
    "bash": Rules(
        kinds=kind_table(function="function_definition"),
        opened=words("program"),
        hints=_hints(rb"function\b", rb"\(\s*\)"),
    ),
}  # fmt: skip


# Patterns for named functions in scripts, since most functions have no name.
_ARROW = re.compile(rb"=>")
_FUNCTION = re.compile(rb"function\b(\s*(?:\*\s*)?[\w$])?")
_BODY = re.compile(rb"\)[^\n(){};=]{0,80}\{")
_CONTROL = re.compile(rb"[ \t}]*(?:else[ \t]+)?(?:if|for|while|switch|catch|with)\b")
_MINIFIED = 400  # bytes; the start of a longer line is not read


def script_functions(text: bytes) -> list[int]:
    """Offsets in or near all named JavaScript functions, unsorted. Functions that are arguments (`map((x) => …)`) and
    bodies of control structures are not included."""
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
    node_types = load_grammar(language)
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
