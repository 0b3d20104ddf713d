"""Find the definitions of a program by walking its tree, opening only nodes that may contain one (see `rules`).

Macros hide definitions from the grammars: in C and C++ `class EXPORT Name : Base {` breaks the parse; in Rust, a
macro's braces contain only tokens. `without_macros` and `_macro_items` parse these again.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from repoagent.syntax.parser import find_flaws, parse_bytes, parse_within
from repoagent.syntax.rules import RULES, Rules, tail_rules
from repoagent.syntax.symbol import Symbol, line_range, printable_line

if TYPE_CHECKING:
    import tree_sitter

    from repoagent.syntax.rules import Match

    Node: TypeAlias = tree_sitter.Node


# Macros, as words in capitals, maybe with arguments: before the type of a function, in the head of a class, or on a
# separate line before a class or the like.
_BEFORE_FUNCTION = re.compile(
    rb"^([ \t]*(?:(?:static|extern|inline|virtual|explicit|friend)[ \t]+)*)"
    rb"([A-Z][A-Z0-9_]*[A-Z_](?:\([^()\n]*\))?)(?=[ \t]+[A-Za-z_][\w:<>*& \t,]*[ \t*&]~?\w+[ \t]*\()",
    re.MULTILINE,
)
_IN_CLASS_HEAD = re.compile(
    rb"\b((?:class|struct|union)[ \t]+)([A-Z][A-Z0-9_]*(?:\([^()\n]*\))?)(?=[ \t]+\w+(?:[ \t]+final)?\s*[:{])"
)
_OWN_LINE = re.compile(
    rb"^([ \t]*)([A-Z][A-Z0-9_]{3,}(?:\([^()\n]*\))?)"
    rb"(?=[ \t]*\r?\n\s*(?:namespace|class|template|struct|enum|inline)\b)",
    re.MULTILINE,
)
_MOST_FLAWS = 1000
_SECONDS = 2.0


def without_macros(text: bytes, tree: tree_sitter.Tree, language: str) -> tree_sitter.Tree:
    """The tree of `text` with blanks in place of macros that hide definitions, if it has fewer flaws than `tree`;
    otherwise `tree`. All offsets and lines are those of `text`."""
    plain = text
    for pattern in (_IN_CLASS_HEAD, _OWN_LINE, _BEFORE_FUNCTION):
        plain = pattern.sub(lambda match: match[1] + b" " * len(match[2]), plain)
    plain_tree = parse_within(plain, language, _SECONDS) if plain != text else None
    if plain_tree is None:
        return tree
    new, old = (
        sum(1 for _ in islice(find_flaws(candidate, text), _MOST_FLAWS)) for candidate in (plain_tree, tree)
    )
    return plain_tree if new < old else tree


def _macro_items(node: Node, text: bytes, language: str) -> Iterator[Node]:
    """Yield the roots of the items in the braces of a Rust macro: `cfg_net! { pub fn bind() {} }`."""
    import tree_sitter

    for child in node.children:
        if child.type == "token_tree" and text.startswith(b"{", child.start_byte):
            (row, column), end = child.start_point, child.end_point
            inside = tree_sitter.Range(
                (row, column + 1), (end.row, max(end.column - 1, 0)), child.start_byte + 1, child.end_byte - 1
            )
            tree = parse_bytes(text, language, inside)
            if tree is not None and not tree.root_node.has_error:
                yield tree.root_node


class Definition(NamedTuple):
    """A definition: `outer` is `node` with its wrapper, and `parts` are the parts of its name, outermost scope
    first."""

    node: Node
    outer: Node
    kind: str
    parts: tuple[str, ...]
    comments: tuple[Node, ...]
    body: Node | None


_LITERALS = frozenset(
    {"string", "template_string", "string_literal", "raw_string_literal", "interpreted_string_literal"}
)
_SHORTEST = 8  # bytes of a definition
_MACRO_LEVELS = 8  # macros in macros are parsed up to this multiple of the text
_CONTAINERS = frozenset({"class", "struct", "union", "interface", "enum", "impl", "namespace", "object"})


def _definitions(root: Node, rules: Rules, language: str, text: bytes) -> list[Definition]:
    """All definitions below `root` in order, containers before their contents."""
    kinds, deep, lists = rules.kinds, rules.deep, rules.lists
    opened = rules.opened | rules.wrappers
    known = opened | rules.comments | frozenset(kinds) | lists
    hints = rules.hint_offsets(text)
    left = _MACRO_LEVELS * len(text)  # bytes of macros to parse
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
                if type_ == "macro_invocation" and node.type in opened and hints[hint] < end and left > 0:
                    left -= end - start
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
                container = kind in _CONTAINERS
                if body is not None and not container:
                    start = body.start_byte
                else:
                    start = start + 1 if name is None or name is child else max(start, name.end_byte)
                if container or deep or hints[bisect_left(hints, start)] < end:
                    pending.append((child, None, ()))
                if kind == "class" and type_ == "function_definition" and body is not None:
                    pending.append((body, None, ()))  # of a class that was parsed as a function
            elif (
                type_ in opened
                or deep
                or rule in _CONTAINERS  # without a name: `namespace {`
                or (type_ in lists and (outer is not None or node is root))
                or hints[bisect_left(hints, start)] < end
            ):
                single = type_ in rules.wrappers or (
                    type_ in lists and not any(c.type in ("(", ",") for c in child.children)
                )
                pending.append((child, (outer or child) if single else None, comments))
            comments = before if outer is not None else ()
    definitions.sort(key=lambda definition: (definition.node.start_byte, -definition.node.end_byte))
    return definitions


_NAME_TYPES = ("identifier", "name", "constant")
_NO_HEADS = ("param", "argument", "body", "block", "type")


def _plain(node: Node, kind: str, deep: bool) -> Match | None:
    """Match a definition by its type alone. Its name is in a field; with `deep` it may also be a child of the node, or
    up to two heads deeper."""
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
    """The parts of the name of `node`, outermost first; empty if it is not a definition."""
    if name is None:
        head = text[node.start_byte : node.end_byte].split(b"{", 1)[0]
        if language == "make" and head.startswith(b".PHONY"):
            return ()
        return (printable_line(head.split(b"\n", 1)[0], 80),)
    if language in ("c", "cpp"):
        return _declarator_parts(text, node, name)
    written = printable_line(text[name.start_byte : name.end_byte], 80)
    if name.type == "string":
        return (written.strip("\"'") or written,)
    if scope is not None:
        return (_type_name(printable_line(text[scope.start_byte : scope.end_byte])), written)
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
    """The name in a type: Server for `*Server[T]` and `crate::Server<T>`."""
    while (shorter := _GENERIC.sub("", text)) != text:
        text = shorter
    return text.rsplit("::", 1)[-1].rsplit(" ", 1)[-1].strip("*&() ") or printable_line(text.encode())


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
        return (printable_line(text[name.start_byte : name.end_byte].split(b"(", 1)[0], 80),)
    parts: list[str] = []
    while name.type == "qualified_identifier":
        scope, last = name.child_by_field_name("scope"), name.child_by_field_name("name")
        if scope is not None:
            parts.append(_type_name(printable_line(text[scope.start_byte : scope.end_byte], 80)))
        if last is None:
            break
        name = last
    if name.type == "template_function":
        name = name.child_by_field_name("name") or name
    written = printable_line(text[name.start_byte : name.end_byte], 80)
    return tuple(written.split("::")) if name.type == "nested_namespace_specifier" else (*parts, written)


_FUNCTIONS = frozenset({"function", "method"})
_WITH_METHODS = frozenset({"class", "struct", "union", "enum", "interface", "impl"})
_NOT_LOCAL = frozenset({"declaration", "constant", "variable"})
_ANONYMOUS_HOLDERS = frozenset({"arguments", "array", "jsx_expression"})


def program_symbols(root: Node, language: str, text: bytes) -> tuple[Symbol, ...]:
    """The symbols of a program in order, containers before their contents."""
    symbols: list[Symbol] = []
    holders: list[tuple[int, Symbol, tuple[str, ...]]] = []  # end byte, symbol, the path of its name
    rules = RULES.get(language) or tail_rules(language)
    for node, outer, kind, parts, comments, body in _definitions(root, rules, language, text):
        end = node.end_byte
        while holders and holders[-1][0] < end:
            holders.pop()
        parent, path = (holders[-1][1], holders[-1][2]) if holders else (None, ())
        inside = parent.kind if parent else ""
        if inside in _FUNCTIONS and (
            kind in _NOT_LOCAL
            or (node.type == "assignment_expression" and not text.startswith(b"this.", node.start_byte))
        ):
            continue  # a local prototype or variable, or a handler of some object
        if node.type in ("pair", "method_definition") and (
            inside in _FUNCTIONS or inside in ("constant", "variable")
        ):
            anonymous = node.parent.parent if node.parent is not None else None
            one_line = node.end_point[0] == node.start_point[0]
            if one_line and anonymous is not None and anonymous.type in _ANONYMOUS_HOLDERS:
                before = text[max(anonymous.start_byte - 20, 0) : anonymous.start_byte]
                if not before.endswith((b"assign", b"extend")):
                    continue  # a one-line function in an anonymous object that is an argument or in a list
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
        holders.append((end, symbols[-1], full))
    return tuple(symbols)


_LEADS = re.compile(rb"([(\[<])\s*\n\s*")
_TRAILS = re.compile(rb",?\s*\n\s*([)\]>])")
_COMMENT = re.compile(rb"#|//|/\*")


def _signature(outer: Node, node: Node, body: Node | None, text: bytes) -> str:
    """The head of a definition on one line, without decorators and body."""
    start, holder = outer.start_byte, node
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
        return printable_line(head).rstrip("{;,").rstrip()
    stop = body.start_byte
    head = text[start : max(start, stop)][:1000]
    if _COMMENT.search(head):  # remove a comment between head and body
        ends = [c.end_byte for c in holder.children if c.end_byte <= stop and "comment" not in c.type]
        head = text[start : max(start, *ends, start)][:1000]
    if b"\n" in head:  # `f(`, a line for each parameter, `)`
        head = _LEADS.sub(rb"\1", _TRAILS.sub(rb"\1", head))
    return printable_line(head).removesuffix("=>").rstrip(" :{")
