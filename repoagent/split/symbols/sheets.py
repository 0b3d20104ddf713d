"""The outline of a style sheet: with a rule in every third line, it is made here and not by what others share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from repoagent.split.symbols.names import clean
from repoagent.split.symbols.symbol import Symbol

if TYPE_CHECKING:
    from typing import TypeAlias

    import tree_sitter

    _Pending: TypeAlias = tuple[tree_sitter.Node, Symbol | None, tuple[tree_sitter.Node, ...]]

_RULES = {
    "rule_set": "selector", "media_statement": "rule", "supports_statement": "rule", "keyframes_statement": "rule",
    "at_rule": "rule", "mixin_statement": "macro", "function_statement": "function",
}  # fmt: skip
_COMMENTS = frozenset({"comment", "js_comment", "single_line_comment"})
_CLOSED = frozenset({"declaration", "string_value", "plain_value", "selectors", "keyframes_statement"})
_COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)
_CALLED = re.compile(rb"@(?:mixin|function)\s+([\w-]+)")
_HEAD = 1000  # bytes
_NAME = 80
_HASH = ord("#")


def sheet_symbols(root: tree_sitter.Node, text: bytes) -> tuple[Symbol, ...]:
    """Selectors and at-rules in order of the text, nested ones after what holds them; a comment directly above one
    belongs to it."""
    symbols: list[Symbol] = []
    pending: list[_Pending] = [(root, None, ())]
    while pending:
        node, holder, notes = pending.pop()
        type_, start, end = node.type, node.start_byte, node.end_byte
        kind = _RULES.get(type_)
        opening = _brace(text, start, end)
        if kind is not None:
            head = text[start : end if opening < 0 else opening][:_HEAD]
            head = (_COMMENT.sub(b"", head) if b"/*" in head else head).rstrip(b"; \t\r\n")
            if not head or (kind == "selector" and opening < 0):
                continue
            name = clean(called[1] if (called := _CALLED.match(head)) else head, _NAME)
            signature = name if kind == "selector" else clean(head)
            first, last = _rows(node, notes, text)
            path, depth = name, 0
            if holder is not None:
                first, last = max(first, holder.first_line), min(last, holder.last_line)
                path, depth = f"{holder.qualified_name}.{name}", holder.depth + 1
            holder = Symbol(name, kind, path, first, max(first, last), signature, depth)
            symbols.append(holder)
            opening = _brace(text, opening + 1, end) if opening >= 0 else -1
        if (opening < 0 and node is not root) or type_ in _CLOSED:
            continue
        inside: list[_Pending] = []
        run: tuple[tree_sitter.Node, ...] = ()
        for child in node.named_children:
            if child.type in _COMMENTS:
                run = (*run, child)
            else:
                inside.append((child, holder, run))
                run = ()
        pending.extend(reversed(inside))
    return tuple(symbols)


def _brace(text: bytes, start: int, end: int) -> int:
    """The next brace that opens a block and not an interpolation, `#{$name}`; -1 for none."""
    at = text.find(b"{", start, end)
    while at > start and text[at - 1] == _HASH:
        at = text.find(b"{", at + 1, end)
    return at


def _rows(node: tree_sitter.Node, notes: tuple[tree_sitter.Node, ...], text: bytes) -> tuple[int, int]:
    (first, column), last = node.start_point, node.end_point[0]
    start = node.start_byte
    for note in reversed(notes):
        (begins, at), (ends, _) = note.start_point, note.end_point
        if text[start - column : start].strip() or ends != first - 1 or at != column:
            break
        if text[note.start_byte - at : note.start_byte].strip():
            break
        first, start = begins, note.start_byte
    return first + 1, last + 1
