"""What counts as a definition in each language: tables for `walk.py`.

Not tree-sitter queries: a query visits every node of a tree, which takes a third of the time of the parse. A walk that
opens only nodes that may contain a definition visits a tenth of them. `tail_rules` derives the table for a language of
the long tail from the names of its node types.
"""

from __future__ import annotations

import re
from functools import cache

from repoagent.dataclass import dataclass
from repoagent.syntax.languages import grammar
from repoagent.syntax.outline.symbol import script_places


@dataclass(frozen=True)
class Rules:
    """`kinds`: node type to the kind of symbol that it is, "?" where `special.py` has to look at it. `opened`: nodes
    that are looked into whatever is in them; others only where one of `hints` matches in them. `wrappers`: nodes
    around a definition that belong to it; of `lists` that is so only when it stands alone in them. `notes`: what
    stands before a definition and belongs to it, beyond what the grammar puts inside of it.
    """

    kinds: dict[str, str]
    opened: frozenset[str] = frozenset()
    hints: tuple[re.Pattern[bytes], ...] = ()
    methods: bool = False
    deep: bool = False
    wrappers: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()
    notes: frozenset[str] = frozenset({"comment"})

    def places(self, text: bytes) -> list[int]:
        """Where in `text` a definition may begin, in order; behind its end at the last."""
        found = [match.start() for pattern in self.hints for match in pattern.finditer(text)]
        if self.methods:
            found += script_places(text)
        found.sort()
        found.append(len(text) + 1)
        return found


def _hints(*patterns: bytes) -> tuple[re.Pattern[bytes], ...]:
    """Separate patterns instead of one with branches: `re` can search for the literal start of each."""
    return tuple(re.compile(pattern) for pattern in patterns)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _kinds(**types: str) -> dict[str, str]:
    return {type_: kind for kind, names in types.items() for type_ in names.split()}


_ASK = "?"
_JS_HINTS = _hints(rb"class[ \t]+[\w${]")
_JAVASCRIPT = Rules(
    kinds={
        **_kinds(
            function="function_declaration generator_function_declaration",
            **{"class": "class_declaration"},
            method="method_definition",
        ),
        **dict.fromkeys(
            ("variable_declarator", "assignment_expression", "pair", "field_definition", "export_statement"),
            _ASK,
        ),
    },
    opened=_set("program class_body object ERROR expression_statement"),
    hints=_JS_HINTS,
    methods=True,
    wrappers=_set("export_statement expression_statement"),
    lists=_set("lexical_declaration variable_declaration"),
    notes=_set("comment decorator"),
)
_TYPESCRIPT = Rules(
    kinds={
        **_JAVASCRIPT.kinds,
        **_kinds(
            interface="interface_declaration",
            enum="enum_declaration",
            type="type_alias_declaration",
            namespace="internal_module module",
            declaration="function_signature method_signature abstract_method_signature",
            **{"class": "abstract_class_declaration"},
        ),
        "public_field_definition": _ASK,
    },
    opened=_JAVASCRIPT.opened | _set("interface_body ambient_declaration"),
    hints=(
        *_JS_HINTS,
        *_hints(
            rb"interface[ \t]+\w",
            rb"type[ \t]+\w+[^=;\n]{0,80}=",
            rb"enum[ \t]+\w",
            rb"namespace[ \t]+\w",
            rb"module[ \t]+[\w\"']",
        ),
    ),
    methods=True,
    wrappers=_JAVASCRIPT.wrappers | _set("ambient_declaration"),
    lists=_JAVASCRIPT.lists,
    notes=_JAVASCRIPT.notes,
)
_C = Rules(
    kinds={
        **dict.fromkeys(
            (
                "function_definition",
                "declaration",
                "struct_specifier",
                "union_specifier",
                "enum_specifier",
                "type_definition",
            ),
            _ASK,
        ),
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
        kinds=_kinds(function="function_definition", **{"class": "class_definition"}),
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
            **{"class": "class_declaration record_declaration"},
        ),
        opened=_set(
            "program class_body interface_body enum_body enum_constant enum_body_declarations "
            "annotation_type_body ERROR"
        ),
        hints=_hints(
            rb"class[ \t]+\w",
            rb"new\b[^;{}\[\]]*\{",
            rb"interface[ \t]+\w",
            rb"enum[ \t]+\w",
            rb"record[ \t]+\w+\s*[<(]",
        ),
        notes=_set("line_comment block_comment"),
    ),
    "go": Rules(
        kinds={
            "function_declaration": "function",
            "method_declaration": _ASK,
            "type_spec": _ASK,
            "type_alias": "type",
            "method_elem": "declaration",
            "const_spec": "constant",
            "var_spec": _ASK,
        },
        opened=_set(
            "source_file type_declaration const_declaration var_declaration var_spec_list interface_type ERROR"
        ),
        hints=_hints(rb"type\b", rb"interface\b"),
        lists=_set("type_declaration const_declaration var_declaration"),
    ),
    "rust": Rules(
        kinds=_kinds(
            function="function_item",
            declaration="function_signature_item",
            struct="struct_item",
            union="union_item",
            enum="enum_item",
            interface="trait_item",
            type="type_item",
            macro="macro_definition",
            constant="const_item static_item",
            **{_ASK: "impl_item mod_item"},
        ),
        opened=_set("source_file declaration_list foreign_mod_item ERROR"),
        hints=_hints(
            rb"fn\b",
            rb"struct\b",
            rb"enum\b",
            rb"impl\b",
            rb"trait\b",
            rb"mod\b",
            rb"macro_rules\b",
            rb"union\b",
        ),
        notes=_set("line_comment block_comment attribute_item"),
    ),
    "c": _C,
    "cpp": Rules(
        kinds={
            **_C.kinds,
            **_kinds(namespace="namespace_definition", type="concept_definition alias_declaration"),
            "class_specifier": _ASK,
            "field_declaration": _ASK,
        },
        opened=_C.opened,
        hints=(*_C.hints, *_hints(rb"class\b[^;{}()]*\{")),
        wrappers=_C.wrappers,
    ),
    "html": Rules(
        kinds={"element": _ASK, "script_element": _ASK, "style_element": _ASK},
        opened=_set("document"),
        hints=_hints(
            rb"id\s*=",
            rb"ID\s*=",
            rb"Id\s*=",
            rb"<h[1-6]\b",
            rb"<H[1-6]\b",
            rb"<(?:main|nav|header|footer|article|aside|form|dialog|template|script|style)\b",
        ),
    ),
    "bash": Rules(
        kinds={"function_definition": "function"},
        opened=_set("program"),
        hints=_hints(rb"function\b", rb"\(\s*\)"),
    ),
}

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
    """The table for a language without one of its own; see `Rules`."""
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
