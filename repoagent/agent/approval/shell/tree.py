"""The simple commands of any shell text, by the grammar of tree-sitter-bash: also of what is broken or rarely used."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from repoagent.agent.approval.shell.parts import Raw, Span

if TYPE_CHECKING:
    from tree_sitter import Node

_REDIRECTIONS = {"file_redirect", "herestring_redirect", "heredoc_redirect"}
DEEPEST = 60  # nodes within each other
_DECLARES = {"declaration_command", "unset_command"}


def read_tree(data: bytes) -> tuple[list[Raw], str]:
    """The simple commands of `data`, in order of the text, with spans in bytes; and what is doubtful, or ""."""
    from repoagent.split.trees import parse_bytes

    tree = parse_bytes(data, "bash")
    if tree is None:
        return [], "it takes too long to read"
    walk = _Walk(data)
    walk.node(tree.root_node, fed=False)
    doubt = walk.doubt or ("it is no whole shell text" if tree.root_node.has_error else "")
    return sorted(walk.found, key=_begins), doubt


def _begins(raw: Raw) -> Span:
    return min([*raw.words, *(span for _, span in raw.redirections)], default=(0, 0))


class _Walk:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.found: list[Raw] = []
        self.doubt = ""
        self.depth = 0

    def node(self, node: Node, *, fed: bool) -> None:
        """Find the commands in `node`; `fed` says that its standard input is given."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.doubt = "it is nested too deeply"
        else:
            self.look(node, fed=fed)
        self.depth -= 1

    def look(self, node: Node, *, fed: bool) -> None:
        if node.type == "command":
            self.command(node, [], fed=fed)
        elif node.type == "redirected_statement":
            self.redirected(node, fed=fed)
        elif node.type in _DECLARES or node.type == "variable_assignments":
            self.found.append(Raw(tuple(_span(child) for child in node.children), (), fed))
            self.inside(node)
        elif node.type in {"variable_assignment", "test_command"}:
            self.found.append(Raw((_span(node),), (), fed))
            self.inside(node)
        elif node.type == "pipeline":
            for number, child in enumerate(node.named_children):
                self.node(child, fed=fed or number > 0)
        elif node.type == "heredoc_content" or (node.type == "heredoc_body" and not node.children):
            self.backticks(node)
        else:
            if node.type in {"function_definition", "case_statement"}:
                self.doubt = f"it holds a {node.type.replace('_', ' ')}"
            for child in node.children:
                self.node(child, fed=fed and not node.type.endswith("substitution"))

    def inside(self, node: Node) -> None:
        """Find the commands in the parts of a word, or of an assignment; the assignment itself is no command."""
        for child in node.children:
            if child.type == "variable_assignment":
                self.inside(child)
            else:
                self.node(child, fed=False)

    def command(self, node: Node, redirections: list[Node], *, fed: bool) -> None:
        words: list[Span] = []
        for child in node.children:
            if child.type in _REDIRECTIONS:
                redirections.append(child)
            else:
                words.append(_span(child))
                self.inside(child)
        self.found.append(self.raw(words, redirections, fed=fed))

    def redirected(self, node: Node, *, fed: bool) -> None:
        redirections = [child for child in node.named_children if child.type in _REDIRECTIONS]
        others = [child for child in node.named_children if child.type not in _REDIRECTIONS]
        if len(others) == 1 and others[0].type == "command":
            self.command(others[0], redirections, fed=fed)
            return
        raw = self.raw([], redirections, fed=fed)
        if raw.redirections or raw.words:
            self.found.append(raw)
        for child in others:
            self.node(child, fed=fed or raw.fed)

    def raw(self, words: list[Span], redirections: list[Node], *, fed: bool) -> Raw:
        """A command with these redirections; a here-document may hold further words and redirections of it."""
        targets: list[tuple[str, Span]] = []
        for node in redirections:
            operator = ""
            for child in node.children:
                if child.type in {"file_descriptor", "heredoc_start", "heredoc_end"}:
                    continue
                if child.type in _REDIRECTIONS:
                    inner = self.raw([], [child], fed=False)
                    targets += inner.redirections
                    fed = fed or inner.fed
                elif not child.is_named and not operator:
                    operator = child.type
                    fed = fed or (operator.startswith("<") and operator != "<>")
                elif node.type == "file_redirect":
                    targets.append((operator, _span(child)))
                    self.inside(child)
                elif (
                    child.type in {"heredoc_body", "pipeline", "list", "command"}
                    or node.type == "herestring_redirect"
                ):
                    self.node(child, fed=child.type == "pipeline")
                elif child.is_named:
                    words.append(_span(child))
                    self.inside(child)
        return Raw(tuple(words), tuple(targets), fed)

    def backticks(self, node: Node) -> None:
        """The grammar does not see backticks in a here-document."""
        for match in re.finditer(rb"`([^`]*)`", self.data[node.start_byte : node.end_byte]):
            start = node.start_byte + match.start(1)
            for raw in read_tree(match[1])[0]:
                words = tuple((a + start, b + start) for a, b in raw.words)
                moved = tuple((operator, (a + start, b + start)) for operator, (a, b) in raw.redirections)
                self.found.append(Raw(words, moved, raw.fed))


def _span(node: Node) -> Span:
    return node.start_byte, node.end_byte
