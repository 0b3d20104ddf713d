"""What the node types of a grammar are for a splitter: one small table for all languages.

The names are those of the tree-sitter grammars. They overlap little, so that one table serves them all, and patterns
serve the grammars that nobody wrote a row for.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from repoagent.split.languages import grammar

# What a child is, seen from its siblings.
ITEM: Final = 0
COMMENT: Final = 1  # belongs to what follows without a blank line between
ATTACHED: Final = 2  # belongs to what follows, at any distance
CLOSER: Final = 3  # ends what it stands in
CONTINUATION: Final = 4  # goes on with the item before: `else`
TOKEN: Final = 5  # no place to cut at
INLINE: Final = 6  # goes on with the text before it
ELEMENT: Final = 7  # of HTML: `element_role` says which of these it is
FILLING: Final = 8  # white space and text between elements: no place to cut at, but it may be large

# What a node is, seen from its children.
LIST: Final = 0  # its children are things of their own
PARTS: Final = 1  # its children make up one thing: a head, a body
LEAF: Final = 2  # it is text, whatever the grammar finds in it


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COMMENT = re.compile(r"(?i)comment|^shebang|^hash_bang_line")
_ATTACHED = _words(
    "decorator attribute_item annotation marker_annotation access_specifier attribute_list visibility_label "
    "atx_heading setext_heading minus_metadata plus_metadata start_tag STag jsx_opening_element "
    "pipe_table_header pipe_table_delimiter_row switch_label"
)
_CLOSERS = _words(
    ") ] } > end fi done esac endif #endif end_tag ETag jsx_closing_element fenced_code_block_delimiter "
    "%} }} |} )} /> ``` erroneous_end_tag dedent"
)
_CONTINUATION = re.compile(
    r"^(else|elif|elseif|elsif|except|catch|finally|rescue|ensure|preproc_el\w+|block_continuation)(_|$)|^(when|default)_clause$"
)
_LISTS = _words(
    "module program source_file translation_unit stylesheet document stream fragment source chunk compilation_unit "
    "block compound_statement statement_block statement_list declaration_list field_declaration_list class_body "
    "interface_body enum_body object_type switch_body switch_block switch_block_statement_group case_statement "
    "do_group object array dictionary list set tuple arguments argument_list initializer_list element content "
    "script section "
    "block_mapping block_sequence flow_mapping flow_sequence pipe_table block_quote list_item match_block use_list "
    "token_tree jsx_element jsx_fragment named_imports import_list enumerator_list literal_value const_declaration "
    "var_declaration type_declaration import_declaration expression_case type_case communication_case default_case "
    "array_expression case_item subshell formal_parameters parameters parameter_list ERROR "
    "keyframe_block_list type_arguments template_body body concatenated_string"
)
_LIST = re.compile(
    r"_(body|list|block|members|declarations|statements|items|elements|entries|section|mapping|sequence)$|^preproc_"
)
_LEAVES = _words(
    "string string_content raw_string raw_string_literal interpreted_string_literal string_literal template_string "
    "heredoc_body raw_text text CharData CData CDSect inline paragraph html_block code_fence_content regex "
    "block_scalar double_quote_scalar single_quote_scalar plain_scalar jsx_text string_fragment encapsed_string "
    "preproc_arg char_literal concatenation_string multiline_string_literal"
)


_TAG = re.compile(rb"[\w-]+")
_HEADINGS = _words("h1 h2 h3 h4 h5 h6 dt th caption summary legend")
_PHRASING = _words(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img input ins kbd label mark meter output q "
    "rp rt ruby s samp small span strike strong sub sup time tt u var wbr"
)


@cache
def child_role(kind: str) -> int:
    """What a node of this type is, seen from its siblings: ITEM, COMMENT, …"""
    if kind in _CLOSERS:
        return CLOSER
    if kind in _ATTACHED:
        return ATTACHED
    if kind in ("element", "text"):
        return ELEMENT
    if kind in ("CharData", "jsx_text"):
        return FILLING
    if _CONTINUATION.match(kind):
        return CONTINUATION
    if not kind or not (kind[0].isalpha() or kind[0] == "_"):
        return TOKEN
    return COMMENT if _COMMENT.search(kind) else ITEM


def element_role(text: bytes, start: int) -> int:
    """What the element or text of HTML that begins at `start` is among its siblings: a heading is ATTACHED."""
    if not text.startswith(b"<", start):
        return INLINE
    found = _TAG.match(text, start + 1)
    name = found[0].lower().decode("ascii", "replace") if found else ""
    return ATTACHED if name in _HEADINGS else INLINE if name in _PHRASING else ITEM


@cache
def child_roles(language: str) -> dict[int, int]:
    """`child_role` of the node types of a grammar by their number, which is quicker to get at than their name."""
    known = grammar(language)
    roles = {}
    for number in range(known.node_kind_count):
        role = child_role(known.node_kind_for_id(number) or "")
        named = known.node_kind_is_named(number)
        roles[number] = role if named or role == CLOSER else TOKEN
    return roles


@cache
def holder_role(kind: str) -> int:
    """What a node of this type is, seen from its children: LIST, PARTS or LEAF."""
    if kind in _LEAVES or _COMMENT.search(kind):
        return LEAF
    return LIST if kind in _LISTS or _LIST.search(kind) else PARTS
