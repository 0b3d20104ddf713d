"""The symbols of a file, their names, and how a list of them is rendered.

`script_places` finds where named functions may be in JavaScript and TypeScript, since most functions have no name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass

if TYPE_CHECKING:
    import tree_sitter


@dataclass(frozen=True)
class Symbol:
    """A named part of a file. Lines count from 1, both included, with its comments, decorators and attributes; those of
    a symbol are within those of its container.

    `kind` is function, method, class, struct, union, enum, interface, type, namespace, macro, impl, object,
    declaration (a signature without a body), constant, variable, heading, key, entry (of a list, by its name or id),
    selector, rule or element. `qualified_name` is the path to it, joined by dots, in every language. `depth` is the
    number of symbols that contain it.
    """

    name: str
    kind: str
    qualified_name: str
    first_line: int
    last_line: int
    signature: str
    depth: int


def render_outline(symbols: Sequence[Symbol], *, limit: int = 400) -> str:
    """One line per symbol with its line range and its signature, indented by depth, for users and prompts.

    Above `limit` symbols the deepest levels are omitted first, then the end; the last line says how many.
    """
    shown = list(symbols)
    for depth in range(max((symbol.depth for symbol in symbols), default=0), 0, -1):
        if len(shown) <= limit:
            break
        shown = [symbol for symbol in shown if symbol.depth < depth]
    shown = shown[:limit]
    ranges = [
        f"{s.first_line}-{s.last_line}" if s.last_line > s.first_line else str(s.first_line) for s in shown
    ]
    width = max(map(len, ranges), default=0)
    lines = [
        f"{where:>{width}}  {'  ' * s.depth}{s.signature}" for where, s in zip(ranges, shown, strict=True)
    ]
    if len(shown) < len(symbols):
        lines.append(f"({len(symbols) - len(shown)} more)")
    return "".join(line + "\n" for line in lines)


WIDTH = 160
PAGES = frozenset({"html", "svelte", "vue"})
_GENERIC = re.compile(r"<[^<>]*>|\[[^\[\]]*\]|\([^()]*\)")


def clean(text: bytes, width: int = WIDTH) -> str:
    """`text` as one printable line of at most `width` characters: names and signatures go to terminals and
    prompts."""
    line = text.decode("utf-8", "replace").strip()
    if not line.isprintable() or "  " in line:
        line = " ".join(line.split())
    if not line.isprintable():
        line = "".join(c if c.isprintable() else "�" for c in line)
    return line if len(line) <= width else line[: width - 1] + "…"


def nth(node: tree_sitter.Node, place: int) -> tree_sitter.Node | None:
    """The named child at that index, or None (the binding raises)."""
    return node.named_children[place] if node.named_child_count > place else None


def name_parts(
    language: str,
    text: bytes,
    node: tree_sitter.Node,
    name: tree_sitter.Node | None,
    scope: tree_sitter.Node | None = None,
) -> tuple[str, ...]:
    """The parts of the name of `node`, outermost first; empty if it is not a definition after all."""
    if name is None:
        head = _of(node, text).split(b"{", 1)[0]  # an at-rule is called as it begins
        if language == "make" and head.startswith(b".PHONY"):
            return ()
        return (clean(head.split(b"\n", 1)[0], 80),)
    if language in PAGES:
        from repoagent.syntax.outline.pages import page_part

        _, title = page_part(text, node)
        return (title,) if title else ()
    if language in ("c", "cpp"):
        return _declared(text, node, name)
    called = clean(_of(name, text), 80)
    if name.type == "string":
        return (called.strip("\"'") or called,)
    if scope is not None:
        return (_bare(clean(_of(scope, text))), called)
    if node.type == "assignment_expression":
        parts = called.replace(".prototype.", ".").replace(" ", "").split(".")
        if parts[0] in ("module", "exports", "this"):
            parts = [p for p in parts if p not in ("module", "exports", "this")] or ["exports"]
        return tuple(parts)
    if node.type == "impl_item":
        return (_bare(called),)
    if language in ("typescript", "tsx") and name.type == "nested_identifier":
        return tuple(called.split("."))
    return (called,)


def _of(node: tree_sitter.Node, text: bytes) -> bytes:
    return text[node.start_byte : node.end_byte]


def _bare(text: str) -> str:
    """The name in a type: `*Server[T]` and `crate::Server<T>` are Server."""
    while (shorter := _GENERIC.sub("", text)) != text:
        text = shorter
    return text.rsplit("::", 1)[-1].rsplit(" ", 1)[-1].strip("*&() ") or clean(text.encode())


def _declared(text: bytes, node: tree_sitter.Node, name: tree_sitter.Node) -> tuple[str, ...]:
    """Unwind a C declarator (`*(*name(int))[3]`) to the name in it, and split C++ scopes."""
    if node.type in {"declaration", "field_declaration"}:
        inner = name.child_by_field_name("declarator")
        if inner is not None and inner.type == "parenthesized_declarator":
            return ()  # a variable that points to a function
    while name.type.endswith("_declarator"):
        inner = name.child_by_field_name("declarator") or next(
            (
                child
                for child in name.named_children
                if child.type.endswith(("declarator", "identifier", "name"))
            ),
            None,
        )
        if inner is None:
            break
        name = inner
    if name.type == "operator_cast":
        return (clean((_of(name, text)).split(b"(", 1)[0], 80),)
    parts: list[str] = []
    while name.type == "qualified_identifier":
        scope, last = name.child_by_field_name("scope"), name.child_by_field_name("name")
        if scope is not None:
            parts.append(_bare(clean(_of(scope, text), 80)))
        if last is None:
            break
        name = last
    if name.type == "template_function":
        name = name.child_by_field_name("name") or name
    if name.type == "nested_namespace_specifier":
        return tuple(clean(_of(name, text), 80).split("::"))
    return (*parts, clean(_of(name, text), 80))


_ARROW = re.compile(rb"=>")
_FUNCTION = re.compile(rb"function\b(\s*\*?\s*[\w$])?")
_BODY = re.compile(rb"\)[^\n(){};=]{0,80}\{")
_CONTROL = re.compile(rb"[ \t}]*(?:else[ \t]+)?(?:if|for|while|switch|catch|with)\b")
_MINIFIED = 400  # bytes: in a line longer than this anything may be before
_GIVEN = (b"=", b":")  # what gives a name to the value behind it


def script_places(text: bytes) -> list[int]:
    """Offsets in, or close to, all functions that have a name; not in order.

    A function given to a call (`map((x) => …)`, `each(function () {…})`) is at none of them, nor is the body of a
    control structure.
    """
    found = []
    for match in _ARROW.finditer(text):
        at = match.start()
        before = text[text.rfind(b"\n", 0, at) + 1 : at]
        if b"=" in before or b":" in before or before.lstrip()[:1] in (b")", b"}"):
            found.append(at)
    for match in _FUNCTION.finditer(text):
        at = match.start()
        if match[1] or text[max(at - 40, 0) : at].rstrip().removesuffix(b"async").rstrip().endswith(_GIVEN):
            found.append(at)
    for match in _BODY.finditer(text):
        at = match.start()
        line = text.rfind(b"\n", max(at - _MINIFIED, 0), at) + 1
        if line == 0 or not (_CONTROL.match(text, line) or text.find(b"function", line, at) >= 0):
            found.append(at)
    return found
