"""Where the outermost units of a file begin: definitions, sections, keys, elements."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from repoagent.split.cuts.pack import Candidate
from repoagent.split.cuts.roles import ITEM, LEAF, LIST, TOKEN, child_roles, holder_role
from repoagent.split.cuts.walk import walk

if TYPE_CHECKING:
    import tree_sitter

_DATA = frozenset({"json", "yaml", "xml", "html", "css", "markdown", "toml"})
_FUNCTION = re.compile(r"function|method|constructor|lambda|closure|fn_|^(if|for|while|do|try|switch|case)_")
_MOST = (
    0.7  # what makes up so much of a file is not a unit of it, it holds them: the one class, the root element
)
_DEEPEST = 40


def unit_starts(tree: tree_sitter.Tree, text: bytes, language: str) -> list[int]:
    """The places at which the outermost units begin, with what is attached to them, in order of the text.

    Neighbours of one or two lines of code (imports, assignments) count as one unit.
    """
    root = tree.root_node
    size = _holder_size(root, language)
    found: list[Candidate] = []
    walk(tree, text, size - 1, found, (language, 0, 0, 0))
    if not found:
        return []
    most = min(cost for _, cost, _ in found) + 1.0
    places = [place for place, cost, why in found if cost < most and why != "byte"]
    if language in _DATA:
        return places
    small = [
        text[place:after].strip().count(b"\n") <= 1 for place, after in pairwise([0, *places, len(text)])
    ]
    return [place for number, place in enumerate(places) if not (small[number] and small[number + 1])]


def _holder_size(root: tree_sitter.Node, language: str) -> int:
    """The size of the innermost list that makes up most of the file."""
    roles = child_roles(language)
    node, size = root, root.end_byte - root.start_byte
    for _ in range(_DEEPEST):
        inner = max(
            (child for child in node.children if roles.get(child.kind_id, ITEM) != TOKEN),
            key=lambda child: child.end_byte - child.start_byte,
            default=None,
        )
        if inner is None or _FUNCTION.search(inner.type) or holder_role(inner.type) == LEAF:
            break
        if inner.end_byte - inner.start_byte < _MOST * size:
            break
        node = inner
        if holder_role(node.type) == LIST:
            size = node.end_byte - node.start_byte
    return size
