"""What a definition is called: the name node of a match to the parts of a dotted name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tree_sitter

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
    """The named child in that place, if there is one (the binding raises)."""
    return node.named_children[place] if node.named_child_count > place else None


def name_parts(
    language: str,
    text: bytes,
    node: tree_sitter.Node,
    name: tree_sitter.Node | None,
    scope: tree_sitter.Node | None = None,
) -> tuple[str, ...]:
    """The name of `node` as parts, outermost first; empty when it turns out to be no definition."""
    if name is None:
        head = _of(node, text).split(b"{", 1)[0]  # an at-rule is called as it begins
        if language == "make" and head.startswith(b".PHONY"):
            return ()
        return (clean(head.split(b"\n", 1)[0], 80),)
    if language in PAGES:
        from repoagent.split.symbols.pages import page_part

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
