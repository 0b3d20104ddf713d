"""Find the occurrences of names in a file, with their roles in the syntax tree, or as plain words without a grammar.

The same tables of the nodes that define, bind or look up names serve all grammars.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from repoagent.syntax.data_keys import LANGUAGES_WITH_KEYS
from repoagent.syntax.documents import PAGES, is_plain_text
from repoagent.syntax.languages import guess_language, is_binary, language_of
from repoagent.syntax.outline import SHEETS, symbols_of
from repoagent.syntax.parser import parse_bytes, source_text
from repoagent.syntax.rules import RULES
from repoagent.syntax.symbol import Symbol

if TYPE_CHECKING:
    import tree_sitter

MOST = 2_000  # occurrences in a file; if there are more, they count as words
PROSE = frozenset(
    {"markdown", "toml", *LANGUAGES_WITH_KEYS, *PAGES, *SHEETS}
)  # no identifiers in their grammars

# definition, declaration (without a body) and field: its definition in the file or in a class. name: used alone;
# qualified: through a module, type or namespace (`click.echo`, `fs::read`); member: of a value (`ctx.echo`);
# attribute: of the object itself, assigned (`self.echo = `); key: a keyword argument or the key of a literal, also in
# quotes; local: a parameter or variable of a function, and its uses; text: a plain word.
Role = Literal[
    "definition", "declaration", "field", "name", "qualified", "member", "attribute", "key", "local", "text"
]


class Occurrence(NamedTuple):
    """An occurrence of a name; `line` counts from 1. If the name's qualifier is imported, `through` has the words of
    the import statements that match the qualifier."""

    name: str
    line: int
    role: Role
    through: frozenset[str] = frozenset()


class Occurrences(NamedTuple):
    """The occurrences in order. `symbols` is the outline of the file, empty if it was not `parsed`."""

    found: tuple[Occurrence, ...]
    symbols: tuple[Symbol, ...] = ()
    parsed: bool = False


def is_prose(path: str) -> bool:
    """Whether `path` names a file in an unknown language, or in a language without identifiers, such as Markdown."""
    language = guess_language(path, b"")
    return language is None or language in PROSE


_CODE_BEFORE = (b".", b"`", b":", b"#", b'"', b"'")
_CODE_AFTER = (b"(", b"`")
_WORD = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*")
_WORD_PART = re.compile(rb"[\w\x80-\xff]")


def find_occurrences(path: str, data: bytes, names: Collection[str], *, parse: bool = True) -> Occurrences:
    """The occurrences of `names` in a file, except in comments and in strings that are not keys.

    Without `parse`, or if the file cannot be parsed, each word counts; in a document, only words that look like code
    do. Empty for a binary file.
    """
    if is_binary(data):
        return Occurrences(())
    text = source_text(data)
    words: list[
        tuple[int, bytes]
    ] = []  # offset and bytes of each whole word that is one of the names, in order
    for word in {name.encode("utf-8", "surrogateescape") for name in names}:
        start = text.find(word)
        while start >= 0:
            end = start + len(word)
            if not (start and _WORD_PART.match(text, start - 1)) and not _WORD_PART.match(text, end):
                words.append((start, word))
            start = text.find(word, end)
    words.sort()
    language = language_of(path, data) if parse and words else None
    if language is not None and language not in PROSE and len(words) <= MOST:
        tree = parse_bytes(text, language)
        if tree is not None:
            parsed = tuple(_parsed(text, words, tree.root_node, language))
            return Occurrences(parsed, symbols_of(tree, text, language), parsed=True)
    document = guess_language(path, b"") in PROSE or is_plain_text(path)
    occurrences: list[Occurrence] = []
    line, counted = 1, 0
    for start, word in words:
        end = start + len(word)
        if (
            document
            and word.isalpha()
            and word.islower()  # a plain word, neither called, nor quoted, nor qualified
            and text[max(start - 1, 0) : start] not in _CODE_BEFORE
            and text[end : end + 1] not in _CODE_AFTER
        ):
            continue
        line += text.count(b"\n", counted, start)
        counted = start
        occurrences.append(Occurrence(word.decode("utf-8", "surrogateescape"), line, "text"))
    return Occurrences(tuple(occurrences))


_RAW = frozenset({"preproc_arg"})  # code that the grammar keeps as text
_NO_CODE = re.compile(r"comment|string|fragment|content|char|regex|escape|heredoc|(?:^|_)text$|doc")


def _parsed(
    text: bytes, words: list[tuple[int, bytes]], root: tree_sitter.Node, language: str
) -> Iterator[Occurrence]:
    rows: list[tuple[int, bytes, int, Role, frozenset[str]]] = []
    scopes: dict[bytes, list[tuple[int, int]]] = {}  # ranges in which a local name hides others
    for start, word in words:
        node = root.descendant_for_byte_range(start, start + len(word))
        if node is None:
            continue
        row = node.start_point[0]
        if (node.start_byte, node.end_byte) != (start, start + len(word)) or node.child_count:
            if node.type in _RAW:
                row += text.count(b"\n", node.start_byte, start)
                rows.append((start, word, row, "name", frozenset()))
            continue
        if not node.is_named or _NO_CODE.search(node.type):
            string = node.parent
            holder = string.parent if string is not None and string.type == "string" else None
            # a key of a dictionary or an object: `{"name": 1}`, `record["name"]`
            if holder is not None and (
                holder.type in ("subscript", "subscript_expression")
                or (holder.type == "pair" and holder.child_by_field_name("key") == string)
            ):
                rows.append((start, word, row, "key", frozenset()))
            continue
        role, scope = _role(node, language, text)
        through: frozenset[str] = frozenset()
        if role == "member" and language in _IMPORTS and (through := _imported_through(node, text, language)):
            role = "qualified"
        if scope is not None:
            scopes.setdefault(word, []).append((scope.start_byte, scope.end_byte))
        rows.append((start, word, row, role, through))
    for start, word, row, role, through in rows:
        if role == "name" and any(first <= start < last for first, last in scopes.get(word, ())):
            role = "local"
        yield Occurrence(word.decode("utf-8", "surrogateescape"), row + 1, role, through)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _table(types_by_fields: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """The fields of each node type, from node types by fields."""
    return {
        type_: tuple(fields.split()) for fields, types in types_by_fields.items() for type_ in types.split()
    }


# node type: the field with the name of the member
_MEMBERS = _table(
    {
        "attribute": "attribute",
        "property": "member_expression nested_identifier",
        "field": "selector_expression field_expression field_access",
        "name": "method_invocation scoped_identifier scoped_type_identifier qualified_identifier qualified_type "
        "nested_type_identifier",
    }
)
# Their owner is certainly not a value.
_QUALIFIED = _set(
    "scoped_identifier scoped_type_identifier qualified_identifier qualified_type nested_identifier "
    "nested_type_identifier"
)
_OWNERS = ("object", "operand", "value", "argument")
_EXPORTS = (b"exports", b"module")
_SELF = (b"self", b"this", b"cls")
_KEYS = {"keyword_argument": "name", "pair": "key", "field_initializer": "field", "element_value_pair": "key"}
_KEY_NODES = _set("field_designator jsx_attribute")
_FIELDS = _set(
    "field_declaration public_field_definition field_definition property_signature enumerator enum_variant "
    "enum_constant enum_assignment enum_body"
)
_DEFINES = {name: frozenset(rules.kinds) - {"pair", "assignment_expression"} for name, rules in RULES.items()}
_ANY_DEFINES = frozenset().union(*_DEFINES.values()) | _set("preproc_def")
_WITH_BODY = _set("struct_specifier union_specifier enum_specifier class_specifier")
_SIGNATURES = _set("function_signature function_signature_item")
_NAME_FIELDS = ("name", "declarator", "property")
# Nodes around a bound name, and the field that contains it (none: any).
_WRAPPERS = _table(
    {
        "": "pattern_list tuple_pattern list_pattern list_splat_pattern dictionary_splat_pattern as_pattern_target "
        "array_pattern object_pattern rest_pattern expression_list ref_pattern mut_pattern slice_pattern "
        "captured_pattern reference_pattern",
        "value": "pair_pattern",
        "left": "assignment_pattern object_assignment_pattern",
        "pattern": "field_pattern",
        "declarator": "pointer_declarator array_declarator reference_declarator parenthesized_declarator "
        "init_declarator function_declarator",
    }
)
# node type: the fields of the names that it binds (none: any)
_PARAMETERS = _table(
    {
        "": "parameters lambda_parameters typed_parameter formal_parameters closure_parameters inferred_parameters",
        "name": "default_parameter typed_default_parameter formal_parameter catch_formal_parameter",
        "pattern": "required_parameter optional_parameter parameter",
        "name declarator": "parameter_declaration optional_parameter_declaration variadic_parameter_declaration",
        "parameter": "arrow_function catch_clause",
        "parameters": "lambda_expression",
    }
)
_VARIABLES = _table(
    {
        "name": "variable_declarator var_spec const_spec named_expression enhanced_for_statement resource",
        "left": "assignment for_statement for_in_clause for_in_statement short_var_declaration range_clause",
        "pattern": "let_declaration for_expression let_condition",
        "declarator": "declaration for_range_loop",
        "alias": "as_pattern",
        "": "match_pattern",
    }
)
_PYTHON_SCOPES = _set(
    "function_definition lambda list_comprehension set_comprehension dictionary_comprehension generator_expression"
)
_SCOPES = _set(
    "function_declaration function_expression arrow_function method_definition generator_function "
    "generator_function_declaration statement_block for_statement for_in_statement catch_clause method_declaration "
    "func_literal block if_statement expression_switch_statement type_switch_statement expression_case "
    "communication_case function_item closure_expression for_expression match_arm function_definition "
    "compound_statement for_range_loop lambda_expression constructor_declaration enhanced_for_statement "
    "try_with_resources_statement function_signature method_signature abstract_method_signature method_elem "
    "function_type function_signature_item"
)
_LOOPS = _set("for_statement for_in_statement for_range_loop")
_CLASSES = _set(
    "class_definition class_body declaration_list field_declaration_list interface_body enum_body object_type "
    "annotation_type_body"
)
_NAMESPACES = {
    **dict.fromkeys(
        _set("mod_item namespace_definition linkage_specification foreign_mod_item"), "declaration_list"
    ),
    **dict.fromkeys(_set("internal_module module"), "statement_block"),
}  # node type: that of its body


def _role(node: tree_sitter.Node, language: str, text: bytes) -> tuple[Role, tree_sitter.Node | None]:
    """The role of a name, and the scope in which it shadows the same name."""
    parent = node.parent
    if parent is None:
        return "name", None
    type_ = parent.type
    if type_ in _MEMBERS and parent.child_by_field_name(_MEMBERS[type_][0]) == node:
        if type_ in _QUALIFIED:
            inner, outer = parent, parent.parent
            while outer is not None and outer.type in _WRAPPERS and _is_in(outer, inner, ("declarator",)):
                inner, outer = outer, outer.parent
            # the head of a function definition, as in `int K::load() {`
            is_head = inner is not parent and outer is not None and outer.type == "function_definition"
            return ("field" if is_head else "qualified"), None
        owner, assignment = _owner(parent), parent.parent
        if owner and assignment and assignment.child_by_field_name("left") == parent:
            name = text[owner.start_byte : owner.end_byte]
            if name.split(b".")[0] in _EXPORTS:
                return "definition", None
            if name in _SELF and assignment.type in ("assignment", "assignment_expression"):
                return "attribute", None
        return "member", None  # also a method that is called without an object: no variable hides it
    if (type_ in _KEYS and parent.child_by_field_name(_KEYS[type_]) == node) or type_ in _KEY_NODES:
        return "key", None
    if type_ == "literal_element" and parent.parent is not None and parent.parent.type == "keyed_element":
        return ("key" if parent.parent.named_children[0] == parent else "name"), None
    if type_ in _FIELDS and _is_in(parent, node, _NAME_FIELDS):
        return "field", None
    return _binding_role(node, parent, language)


def _owner(parent: tree_sitter.Node) -> tree_sitter.Node | None:
    return next(filter(None, map(parent.child_by_field_name, _OWNERS)), None)


def _binding_role(
    node: tree_sitter.Node, parent: tree_sitter.Node, language: str
) -> tuple[Role, tree_sitter.Node | None]:
    """The role of a name that its parents may bind: a definition, a parameter, a variable."""
    child, is_function = node, False
    while parent.type in _WRAPPERS:
        if not _is_in(parent, child, _WRAPPERS[parent.type]) or parent.parent is None:
            return "name", None
        is_function = is_function or parent.type == "function_declarator"
        child, parent = parent, parent.parent
    type_ = parent.type
    if is_function and type_ in ("declaration", "field_declaration"):
        return ("declaration" if type_ == "declaration" else "field"), None
    if type_ in _FIELDS and _is_in(parent, child, _NAME_FIELDS):
        return "field", None
    if type_ in _PARAMETERS and _is_in(parent, child, _PARAMETERS[type_]):
        return "local", _scope(parent, language)[0]
    if type_ in _SIGNATURES and _is_in(parent, child, ("name",)):
        return "declaration", None
    if type_ in _VARIABLES and _is_in(parent, child, _VARIABLES[type_]):
        if language == "go" and type_ == "for_statement":
            return "name", None
    elif type_ in _DEFINES.get(language, _ANY_DEFINES) and _is_in(parent, child, _NAME_FIELDS):
        if type_ in _WITH_BODY and parent.child_by_field_name("body") is None:
            return "name", None
        if type_ == "method_definition":
            return "field", None
    else:
        return "name", None
    scope, in_class = _scope(parent, language)
    if scope is not None:
        return "local", scope
    return ("field" if in_class else "definition"), None


def _is_in(parent: tree_sitter.Node, child: tree_sitter.Node, fields: tuple[str, ...]) -> bool:
    return not fields or any(child in parent.children_by_field_name(field) for field in fields)


def _scope(node: tree_sitter.Node, language: str) -> tuple[tree_sitter.Node | None, bool]:
    """The function or block in which the name that `node` binds is visible, None for the file; and whether the name is
    in a class."""
    scopes = _PYTHON_SCOPES if language == "python" else _SCOPES
    binds_itself = node.type in scopes and (node.type in _PARAMETERS or node.type in _LOOPS)
    outer = node if binds_itself else node.parent
    while outer is not None:
        if outer.type in scopes or outer.type in _CLASSES:
            parent = outer.parent
            if parent is None or _NAMESPACES.get(parent.type) != outer.type:
                return (outer, False) if outer.type in scopes else (None, True)
        outer = outer.parent
    return None, False


_PYTHON_IMPORT = re.compile(rb"^[ \t]*(?:import|from)[ \t][^\n(]*(?:\([^)]{0,10000})?", re.MULTILINE)
_SCRIPT_IMPORT = re.compile(
    rb"^[ \t]*import\b[^;{\n]{0,500}(?:\{[^}]{0,10000}\}[^;\n]{0,500})?|^[^\n]{0,500}\brequire\([^)\n]{0,200}",
    re.MULTILINE,
)
_GO_IMPORT = re.compile(rb'^(?:import[ \t]+|[ \t]+)(?:[\w.]+[ \t]+)?"[^"\n]{1,500}"', re.MULTILINE)
_IMPORTS = {
    "python": _PYTHON_IMPORT,
    "javascript": _SCRIPT_IMPORT,
    "typescript": _SCRIPT_IMPORT,
    "tsx": _SCRIPT_IMPORT,
    "go": _GO_IMPORT,
}


def _imported_through(node: tree_sitter.Node, text: bytes, language: str) -> frozenset[str]:
    """The words of the imports that match the name's qualifier; empty if that is not imported."""
    owner = _owner(node.parent) if node.parent is not None else None
    if owner is None:
        return frozenset()
    parts = text[owner.start_byte : owner.end_byte].split(b".")
    words = frozenset().union(*(words for words in _imports(text, language) if parts[0] in words))
    return (
        frozenset(word.decode("utf-8", "replace") for word in words)
        if words.issuperset(parts)
        else frozenset()
    )


@lru_cache(maxsize=4)  # called for each member in a file
def _imports(text: bytes, language: str) -> tuple[frozenset[bytes], ...]:
    """The words of each import: `import os.path`, `from . import a, b`, `"net/http"`, `fs = require("fs")`."""
    statements: list[bytes] = _IMPORTS[language].findall(text)
    if language == "python":  # `import a, b as c` and `from m import a, b` are one import for each name
        parts = [statement.rpartition(b"import") for statement in statements]
        statements = [module + b" " + name for module, _, names in parts for name in names.split(b",")]
    return tuple(frozenset(_WORD.findall(statement)) for statement in statements)
