"""The role of a name in a syntax tree: tables of the nodes that define, bind or look up names, for all grammars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from repoagent.syntax.outline.rules import RULES

if TYPE_CHECKING:
    import tree_sitter

# definition, declaration (without a body) and field: where it is defined, in the file or in a class.
# name: used alone; qualified: through a module, type or namespace (`click.echo`, `fs::read`); member: of a value
# (`ctx.echo`); attribute: of the object itself, assigned (`self.echo = `); key: as a keyword argument or the key of a
# literal, also in quotes; local: a parameter or variable of a function, and what refers to it; text: found as a word.
Role = Literal[
    "definition", "declaration", "field", "name", "qualified", "member", "attribute", "key", "local", "text"
]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# node type: the field of the name that is looked up in something, and whether that is surely no value
_MEMBERS = {
    "attribute": ("attribute", False),
    "member_expression": ("property", False),
    "selector_expression": ("field", False),
    "field_expression": ("field", False),
    "field_access": ("field", False),
    "method_invocation": ("name", False),
    "scoped_identifier": ("name", True),
    "scoped_type_identifier": ("name", True),
    "qualified_identifier": ("name", True),
    "qualified_type": ("name", True),
    "nested_identifier": ("property", True),
    "nested_type_identifier": ("name", True),
}
_OWNERS = ("object", "operand", "value", "argument")
_KEYS = {
    "keyword_argument": "name",
    "pair": "key",
    "field_initializer": "field",
    "element_value_pair": "key",
}
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

# What may stand around a name that is bound, with the field that it is in (None: any).
_WRAPS: dict[str, str | None] = {
    **dict.fromkeys(
        _set(
            "pattern_list tuple_pattern list_pattern list_splat_pattern dictionary_splat_pattern as_pattern_target "
            "array_pattern object_pattern rest_pattern expression_list ref_pattern mut_pattern slice_pattern "
            "captured_pattern reference_pattern"
        )
    ),
    "pair_pattern": "value",
    "assignment_pattern": "left",
    "object_assignment_pattern": "left",
    "field_pattern": "pattern",
    **dict.fromkeys(
        _set(
            "pointer_declarator array_declarator reference_declarator parenthesized_declarator init_declarator "
            "function_declarator"
        ),
        "declarator",
    ),
}
_PARAMETERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        _set(
            "parameters lambda_parameters typed_parameter formal_parameters closure_parameters inferred_parameters"
        ),
        (),
    ),
    **dict.fromkeys(
        _set("default_parameter typed_default_parameter formal_parameter catch_formal_parameter"), ("name",)
    ),
    **dict.fromkeys(_set("required_parameter optional_parameter parameter"), ("pattern",)),
    **dict.fromkeys(
        _set("parameter_declaration optional_parameter_declaration variadic_parameter_declaration"),
        ("name", "declarator"),
    ),
    "arrow_function": ("parameter",),
    "lambda_expression": ("parameters",),
    "catch_clause": ("parameter",),
}
_VARIABLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        _set("variable_declarator var_spec const_spec named_expression enhanced_for_statement resource"),
        ("name",),
    ),
    **dict.fromkeys(
        _set("assignment for_statement for_in_clause for_in_statement short_var_declaration range_clause"),
        ("left",),
    ),
    **dict.fromkeys(_set("let_declaration for_expression let_condition"), ("pattern",)),
    **dict.fromkeys(_set("declaration for_range_loop"), ("declarator",)),
    "as_pattern": ("alias",),
    "match_pattern": (),
}
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
_CLASSES = _set(
    "class_definition class_body declaration_list field_declaration_list interface_body enum_body object_type "
    "annotation_type_body"
)


def role_of(node: tree_sitter.Node, language: str, text: bytes) -> tuple[Role, tree_sitter.Node | None]:
    """The role of a name, and the scope in which it shadows the same name."""
    parent = node.parent
    if parent is None:
        return "name", None
    type_ = parent.type
    if type_ in _MEMBERS:
        field, sure = _MEMBERS[type_]
        if parent.child_by_field_name(field) == node:
            return _looked_up(parent, text, sure=sure), None
    if (_KEYS.get(type_) and parent.child_by_field_name(_KEYS[type_]) == node) or type_ in _KEY_NODES:
        return "key", None
    if type_ == "literal_element" and parent.parent is not None and parent.parent.type == "keyed_element":
        return ("key" if parent.parent.named_children[0] == parent else "name"), None
    if type_ in _FIELDS and _is_in(parent, node, _NAME_FIELDS):
        return "field", None
    return _bound(node, parent, language)


def _looked_up(parent: tree_sitter.Node, text: bytes, *, sure: bool) -> Role:
    if sure:
        return "field" if _is_head(parent) else "qualified"
    owner, around = owner_of(parent), parent.parent
    if owner is not None and around is not None and around.child_by_field_name("left") == parent:
        name = text[owner.start_byte : owner.end_byte]
        if name.split(b".")[0] in _EXPORTS:
            return "definition"
        if name in _SELF and around.type in _ASSIGNMENTS:
            return "attribute"
    return "member"  # also a method that is called without an object, which no variable hides


def owner_of(parent: tree_sitter.Node) -> tree_sitter.Node | None:
    return next(filter(None, map(parent.child_by_field_name, _OWNERS)), None)


def is_key(string: tree_sitter.Node) -> bool:
    """Whether a string is a key of a dictionary or an object: `{"name": 1}`, `found["name"]`."""
    parent = string.parent
    if parent is None:
        return False
    return parent.type in _SUBSCRIPTS or (
        parent.type == "pair" and parent.child_by_field_name("key") == string
    )


_EXPORTS = (b"exports", b"module")
_SELF = (b"self", b"this", b"cls")
_ASSIGNMENTS = ("assignment", "assignment_expression")
_SUBSCRIPTS = ("subscript", "subscript_expression")


def _is_head(node: tree_sitter.Node) -> bool:
    """Whether it is the name in the head of a function definition: `int K::load() {`."""
    child, parent = node, node.parent
    while parent is not None and parent.type in _WRAPS and _is_in(parent, child, ("declarator",)):
        child, parent = parent, parent.parent
    return child is not node and parent is not None and parent.type == "function_definition"


def _bound(
    node: tree_sitter.Node, parent: tree_sitter.Node, language: str
) -> tuple[Role, tree_sitter.Node | None]:
    """The role of a name that something may bind: a definition, a parameter, a variable."""
    child, function = node, False
    while parent.type in _WRAPS:
        field = _WRAPS[parent.type]
        if field is not None and not _is_in(parent, child, (field,)):
            return "name", None
        function = function or parent.type == "function_declarator"
        if parent.parent is None:
            return "name", None
        child, parent = parent, parent.parent
    type_ = parent.type
    if function and type_ in ("declaration", "field_declaration"):
        return ("declaration" if type_ == "declaration" else "field"), None
    if type_ in _FIELDS and _is_in(parent, child, _NAME_FIELDS):
        return "field", None
    fields = _PARAMETERS.get(type_)
    if fields is not None and _is_in(parent, child, fields):
        return "local", _scope(parent, language)[0]
    fields = _VARIABLES.get(type_)
    if fields is not None and _is_in(parent, child, fields):
        if language == "go" and type_ == "for_statement":
            return "name", None
        scope, inside = _scope(parent, language)
        return _defined(scope, inside=inside)
    if type_ in _SIGNATURES and _is_in(parent, child, ("name",)):
        return "declaration", None
    if type_ in _DEFINES.get(language, _ANY_DEFINES) and _is_in(parent, child, _NAME_FIELDS):
        if type_ in _WITH_BODY and parent.child_by_field_name("body") is None:
            return "name", None
        if type_ == "method_definition":
            return "field", None
        scope, inside = _scope(parent, language)
        return _defined(scope, inside=inside)
    return "name", None


def _defined(scope: tree_sitter.Node | None, *, inside: bool) -> tuple[Role, tree_sitter.Node | None]:
    if scope is not None:
        return "local", scope
    return ("field" if inside else "definition"), None


def _is_in(parent: tree_sitter.Node, child: tree_sitter.Node, fields: tuple[str, ...]) -> bool:
    return not fields or any(child in parent.children_by_field_name(field) for field in fields)


def _scope(node: tree_sitter.Node, language: str) -> tuple[tree_sitter.Node | None, bool]:
    """The function or block in which the name that `node` binds is visible, None for the file; and whether that is in a
    class."""
    scopes = _PYTHON_SCOPES if language == "python" else _SCOPES
    binds_itself = node.type in _PARAMETERS or node.type in (
        "for_statement",
        "for_in_statement",
        "for_range_loop",
    )
    around = node if binds_itself and node.type in scopes else node.parent
    while around is not None:
        if around.type in scopes and not _is_namespace(around):
            return around, False
        if around.type in _CLASSES and not _is_namespace(around):
            return None, True
        around = around.parent
    return None, False


def _is_namespace(node: tree_sitter.Node) -> bool:
    parent = node.parent
    return parent is not None and (node.type, parent.type) in _NAMESPACES


_NAMESPACES = frozenset(
    {
        ("declaration_list", "mod_item"),
        ("declaration_list", "namespace_definition"),
        ("declaration_list", "linkage_specification"),
        ("declaration_list", "foreign_mod_item"),
        ("statement_block", "internal_module"),
        ("statement_block", "module"),
    }
)
