"""Judge languages with brackets by rules on a tree-sitter tree; only nodes that span lines or are long are opened.

repoagent has the same parser, but neither these rules nor this use of the tree.

In a syntax error (a macro, `#if` around half a statement) each node is its own head: otherwise everything before a
body in it would be its head.

A comment longer than a segment has to be cut. Its paragraphs, ended by an empty comment line, `<p>` or a heading, are
units, and so is each `<pre>` block.
"""

from __future__ import annotations

import re
from itertools import pairwise

import tree_sitter

from bench.split.marks import Item, Kind, Marks
from bench.split.splitters import grammar

_SCRIPT = """program statement_block class_body switch_body switch_case switch_default object array arguments
    formal_parameters object_pattern array_pattern named_imports export_clause enum_body object_type interface_body
    jsx_element jsx_fragment jsx_expression tuple_type parenthesized_expression type_parameters type_arguments
    class_static_block"""
_NATIVE = """translation_unit compound_statement field_declaration_list enumerator_list initializer_list argument_list
    parameter_list declaration_list case_statement preproc_if preproc_ifdef preproc_else preproc_elif preproc_elifdef
    linkage_specification template_parameter_list template_argument_list field_initializer_list"""
# Nodes whose named children are units.
CONTAINERS: dict[str, frozenset[str]] = {
    name: frozenset(types.split())
    for name, types in {
        "javascript": _SCRIPT, "typescript": _SCRIPT, "tsx": _SCRIPT, "c": _NATIVE, "cpp": _NATIVE,
        "java": """program class_body interface_body enum_body enum_body_declarations annotation_type_body block
            constructor_body switch_block switch_block_statement_group array_initializer argument_list
            element_value_array_initializer formal_parameters module_body annotation_argument_list""",
        "go": """source_file block const_declaration var_declaration var_spec_list type_declaration import_spec_list
            field_declaration_list interface_type literal_value argument_list parameter_list expression_case
            default_case type_case communication_case expression_switch_statement type_switch_statement
            select_statement""",
        "rust": """source_file block declaration_list field_declaration_list ordered_field_declaration_list
            enum_variant_list match_block arguments parameters array_expression tuple_expression
            field_initializer_list use_list macro_definition""",
        "bash": """program compound_statement do_group case_item if_statement elif_clause else_clause subshell
            case_statement array""",
    }.items()
}  # fmt: skip
_FLAT = {"statement_list", "var_spec_list", "enum_body_declarations"}  # replaced by their children
_CLAUSES = {"else_clause", "catch_clause", "finally_clause", "elif_clause", "preproc_else", "preproc_elif",
            "preproc_elifdef", "seh_except_clause"}  # fmt: skip
_CHAINS = {"call_expression", "method_invocation", "member_expression", "field_expression", "selector_expression",
           "variable_declaration", "lexical_declaration", "declaration", "local_variable_declaration",
           "binary_expression", "ternary_expression", "conditional_expression", "field_declaration", "list",
           "pipeline", "try_expression", "await_expression", "sequence_expression"}  # fmt: skip
_OPENING = {"{", "(", "[", ":", "=>", "then", "do", "in", "else", "<", ")", "jsx_opening_element"}
_CLOSING = {"}", ")", "]", ">", "fi", "done", "esac", "#endif", "jsx_closing_element", ";;"}
_STICKS: dict[str, Kind] = {
    "comment": "orphan", "line_comment": "orphan", "block_comment": "orphan", "html_comment": "orphan",
    "attribute_item": "orphan", "decorator": "orphan", "attribute_declaration": "orphan", "access_specifier": "head",
}  # fmt: skip
_FAR = {"attribute_item", "decorator", "attribute_declaration", "access_specifier"}
_BEFORE = {"modifiers", "decorator", "attribute_declaration"}  # children of the node to which they belong
_DEFINITION = re.compile(
    "function|method|class|struct|impl|trait|interface|enum|union|namespace|mod_item|type_"
)
_SHELL = CONTAINERS["bash"] - {"array"}
# As statements of a shell script, these are parse errors.
_VAGUE = {"concatenation", "string", "word"}
_GUESSED = {
    "if_statement",
    "case_statement",
    "case_item",
    "do_group",
}  # with an error inside, their end is a guess
_LINES = re.compile(rb"[^\n]*\n|[^\n]+\Z")
_EMPTY = re.compile(rb"\s*(?://+[!/]*|#+|/?\*+[*!]*|;+|--+)?\s*")
_BEGINS = re.compile(rb"\s*(?://+[!/]?|#+|/?\*+!?)?\s*(?:<p\b|<h[1-6]\b|//[/!]\s*#+ )", re.IGNORECASE)
_PRE = re.compile(rb"<pre\b.*?</pre>", re.DOTALL | re.IGNORECASE)
_SHORT = 400  # bytes; a node on one line is opened only if longer
SLASHES = re.compile(rb"[ \t]*[,;]?[ \t]*(?://[^\n]*|/\*[^\n]*?\*/(?=[ \t]*\r?$))?", re.MULTILINE)
HASHES = re.compile(rb"[ \t]*(?:;;|;)?(?:[ \t]+#[^\n]*)?")


def parser(kind: str) -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(grammar(kind)))


def marks(kind: str, text: bytes) -> Marks:
    """Units: statements, declarations, members, cases, arguments, elements, pairs, JSX elements."""
    result = Marks(text, SLASHES)
    read(result, kind, text, 0)
    return result


def read(marks: Marks, kind: str, text: bytes, offset: int) -> None:
    """Mark `text`, which is at `offset` in the text of `marks`."""
    tree = parser(kind).parse(text)
    containers = CONTAINERS[kind]
    pending: list[tuple[tree_sitter.Node, int]] = [(tree.root_node, 0)]
    while pending:
        node, head = pending.pop()
        outer = node.parent is None
        children = [child for child in node.children if child.end_byte > child.start_byte]
        if node.type in containers or outer:
            items, first = _items(node.type, children, text, offset)
            last = children[-1] if children else None
            close = None
            if last is not None and not outer and last.type in _CLOSING:
                clauses = [child.end_byte for child in children if child.type in _CLAUSES]
                close = (last.start_byte + offset, last.end_byte + offset)
                if clauses:  # the closing token belongs to the last clause
                    marks.seam(marks.end_of(clauses[-1] + offset), close[1] - 1, "close", node.type)
                    close = None
            known = not outer and not (node.has_error and node.type in _GUESSED)
            marks.container(items, head + offset if known else None, close if known else None, node.type)
            heads = {child.id: child.start_byte for child in first}
        else:
            heads = _own_heads(children, text) if node.type in _CHAINS else {}
            _attached(marks, children, offset)
        for start, end in _comments(children):
            _opened(marks, start + offset, end + offset)
        for child in children:
            if child.type in _CLAUSES:
                marks.unit(child.start_byte + offset, child.end_byte + offset, child.type)
                heads[child.id] = child.start_byte
            if child.child_count and (
                child.start_point.row != child.end_point.row or child.end_byte - child.start_byte > _SHORT
            ):
                for grandchild in child.children if child.type in _FLAT else (child,):
                    own = grandchild.start_byte if outer or node.type == "ERROR" else head
                    pending.append((grandchild, heads.get(grandchild.id, own)))


def _items(
    container: str, children: list[tree_sitter.Node], text: bytes, offset: int
) -> tuple[list[Item], list[tree_sitter.Node]]:
    """The items between the brackets of a container, and their nodes."""
    opened = next((number for number, child in enumerate(children) if child.type in _OPENING), -1)
    inside = children[opened + 1 :]
    if opened < 0 and children and children[0].type.startswith("#"):  # a preprocessor guard
        named = [child for child in children[1:] if child.is_named]
        inside = [child for child in named if child.start_point.row > children[0].start_point.row]
    nodes: list[tree_sitter.Node] = []
    for child in inside:
        nodes.extend(child.children if child.type in _FLAT else (child,))
    items: list[Item] = []
    kept: list[tree_sitter.Node] = []
    for node in nodes:
        if not node.is_named or node.type in _CLOSING or node.type in _CLAUSES:
            continue
        lost = node.type == "ERROR" or (node.type in _VAGUE and container in _SHELL)
        vague = lost or (node.has_error and not _DEFINITION.search(node.type))
        start = node.start_byte
        body = text[start : node.end_byte]
        if not body.strip():
            continue
        end = start + len(body.rstrip())  # some nodes include their line end
        start += len(body) - len(body.lstrip())
        sticks = _STICKS.get(node.type)
        if sticks == "orphan" and items and b"\n" not in text[items[-1].end - offset : start]:
            continue  # it trails the item before
        definition = bool(_DEFINITION.search(node.type))
        label = f"{node.type} {_line(body)}"
        items.append(Item(start + offset, end + offset, label, definition, sticks, node.type in _FAR, vague))
        kept.append(node)
    return items, kept


def _comments(children: list[tree_sitter.Node]) -> list[tuple[int, int]]:
    """The ranges of comments; those on consecutive lines are one."""
    runs: list[tuple[int, int]] = []
    before = None
    for child in children:
        if _STICKS.get(child.type) != "orphan" or "comment" not in child.type:
            before = None
            continue
        if before is not None and before.end_point.row + 1 >= child.start_point.row and runs:
            runs[-1] = (runs[-1][0], child.end_byte)
        else:
            runs.append((child.start_byte, child.end_byte))
        before = child
    return runs


def _opened(marks: Marks, start: int, end: int) -> None:
    """Mark the paragraphs and `<pre>` blocks of a comment."""
    first = begin = previous = marks.start_of(start)
    for line in _LINES.finditer(marks.text, begin, end):
        ends = line.start() > first and _EMPTY.fullmatch(line[0])
        if (ends or _BEGINS.match(line[0])) and previous > begin:
            marks.unit(begin, previous, "paragraph of a comment")
            begin = line.start()
        if ends:
            begin = line.end()
        previous = line.end()
    if previous > begin:
        marks.unit(begin, min(previous, end), "paragraph of a comment")
    for block in _PRE.finditer(marks.text, start, end):
        marks.unit(*block.span(), "<pre> of a comment")


def _own_heads(children: list[tree_sitter.Node], text: bytes) -> dict[int, int]:
    """The heads of chain links and declarators after one that spans lines: the starts of their lines."""
    heads: dict[int, int] = {}
    spanned = False
    for child in children:
        if spanned:
            heads[child.id] = text.rfind(b"\n", 0, child.start_byte) + 1
        spanned = spanned or child.start_point.row != child.end_point.row
    return heads


def _attached(marks: Marks, children: list[tree_sitter.Node], offset: int) -> None:
    """Mark annotations and decorators inside the node to which they belong."""
    for child, follower in pairwise(children):
        if child.type in _BEFORE:
            last = marks.start_of(follower.start_byte + offset)
            marks.seam(child.start_byte + offset + 1, last, "orphan", child.type)


def _line(body: bytes) -> str:
    return body.lstrip()[:50].split(b"\n")[0].decode(errors="replace")


# Shell scripts: the tree, and functions by their first and last line, because many scripts have parse errors

_FUNCTION = re.compile(
    rb"^(?P<about>(?:#[^\n]*\n)*)(?P<head>(?:function[ \t]+[\w:.-]+(?:[ \t]*\(\))?|[\w:.-]+[ \t]*\(\))\s*\{[^\n}]*\n)",
    re.MULTILINE,
)
_LAST = re.compile(rb"^\}[^\n]*(?:\n|\Z)", re.MULTILINE)


def shell_marks(kind: str, text: bytes) -> Marks:
    """Units: as for other languages with brackets, if there is a tree, and functions from column 0 to `}`."""
    result = Marks(text, HASHES)
    if parser(kind).parse(text).root_node.type != "ERROR":
        read(result, kind, text, 0)
    at = 0
    while function := _FUNCTION.search(text, at):
        last = _LAST.search(text, function.end())
        if last is None:
            break
        at = last.end()
        start, head, body = function.start("about"), function.start("head"), function.end()
        label = text[head:body].strip()[:50].decode(errors="replace")
        result.unit(start, last.end(), label, definition=True)
        if start < head:
            result.seam(start + 1, head - 1, "orphan", label, (head - start, 0))
            result.seam(head, head, "orphan", label)
        result.seam(head + 1, body, "head", label)
        result.seam(last.start(), last.start(), "close", label)
    return result
