"""Words and simple commands of a shell text, as tree-sitter-bash finds them, even in broken text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from repoagent.dataclass import dataclass

if TYPE_CHECKING:
    from tree_sitter import Node

Kind = Literal["literal", "glob", "open"]
Role = Literal["runs", "wraps", "inside"]
Span = tuple[int, int]

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^]]*\])?\+?=")


class Word(NamedTuple):
    """One word. `text` is its value without quotes, as far as it is known.

    kind: "literal" if a program gets exactly `text`; "glob" if it is replaced by file names; "open" if it depends on a
    variable or the output of a command.
    """

    raw: str
    text: str
    kind: Kind = "literal"

    @property
    def literal(self) -> bool:
        return self.kind == "literal"


class Raw(NamedTuple):
    """A simple command as spans of the text, in bytes: its words, and its redirections with their operators.

    `fed`: its standard input is a pipe, a file or a here-document.
    """

    words: tuple[Span, ...]
    redirections: tuple[tuple[str, Span], ...] = ()
    fed: bool = False


@dataclass(frozen=True)
class Simple:
    """One simple command.

    assignments: the variables set in front of it, or by it alone. writes, reads: the targets of redirections. role:
    "runs" for a command of the text; "wraps" for one that only runs another one (`timeout 5 make`); "inside" for a
    command that is run by one which must be allowed itself (`sudo`).
    """

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    writes: tuple[Word, ...] = ()
    reads: tuple[Word, ...] = ()
    fed: bool = False
    role: Role = "runs"

    @property
    def name(self) -> str:
        """The program as it is written; "" for none, and if it is not literal."""
        return self.words[0].text if self.words and self.words[0].literal else ""

    @property
    def raw(self) -> str:
        """The source of the command."""
        return " ".join(
            [*(f"{name}={value.raw}" for name, value in self.assignments), *(w.raw for w in self.words)]
        )


@dataclass(frozen=True)
class Reading:
    """The simple commands of `text`. `doubt`: why the result is uncertain, "" if it is certain; with a doubt `commands`
    may be incomplete."""

    text: str
    commands: tuple[Simple, ...] = ()
    doubt: str = ""


def simple(raw: Raw, data: bytes) -> Simple:
    """The command at these spans of `data`."""
    words = [word(_at(data, span)) for span in raw.words]
    assignments: list[tuple[str, Word]] = []
    while words and (match := _ASSIGNMENT.match(words[0].raw)):
        first = words.pop(0)
        assignments.append((match[1] + (match[2] or ""), word(first.raw[match.end() :])))
    writes: list[Word] = []
    reads: list[Word] = []
    for operator, span in raw.redirections:
        target = word(_at(data, span))
        if operator in {">&", "<&"} and re.fullmatch(r"\d+-?|-", target.raw):
            continue  # a descriptor, not a file
        (reads if operator in {"<", "<&"} else writes).append(target)
    return Simple(tuple(words), tuple(assignments), tuple(writes), tuple(reads), raw.fed)


def _at(data: bytes, span: Span) -> str:
    return data[span[0] : span[1]].decode("utf-8", "surrogateescape")


def word(raw: str) -> Word:
    """Parse one word with its quotes, as bash does."""
    text: list[str] = []
    kind: Kind = "literal"
    at, quoted = 0, False
    if raw.startswith("~"):
        kind = "open"
    while at < len(raw):
        char = raw[at]
        if char == "'" and not quoted:
            end = raw.find("'", at + 1)
            end = end if end >= 0 else len(raw)
            text.append(raw[at + 1 : end])
            at = end
        elif char == '"':
            quoted = not quoted
        elif char == "\\" and at + 1 < len(raw):
            at += 1
            escaped = raw[at]
            if quoted and escaped not in '$`"\\\n':
                text.append("\\")
            if escaped != "\n":
                text.append(escaped)
        else:
            if _is_open(raw, at, quoted=quoted):
                kind = "open"
            elif char in "*?[" and not quoted and kind == "literal" and raw != "[":
                kind = "glob"
            text.append(char)
        at += 1
    return Word(raw, "".join(text), kind)


def _is_open(raw: str, at: int, *, quoted: bool) -> bool:
    """Whether a variable, a substitution or a brace expansion begins at `at`."""
    char, rest = raw[at], raw[at + 1 :]
    if char == "$":
        return rest != "" and not (quoted and rest.startswith('"'))
    if char == "{":
        return not quoted and ("," in rest or ".." in rest)
    return char == "`" or (not quoted and char in "<>(")


def quote(text: str) -> str:
    """Quote `text` as one word of a shell or a rule, if necessary."""
    return text if re.fullmatch(r"[A-Za-z0-9_@%+=:,./-]+", text) else "'" + text.replace("'", "'\"'\"'") + "'"


_REDIRECTIONS = {"file_redirect", "herestring_redirect", "heredoc_redirect"}
MAX_DEPTH = 60  # of nested nodes
_DECLARES = {"declaration_command", "unset_command"}


def read_tree(data: bytes) -> tuple[list[Raw], str]:
    """The simple commands of `data` in order, with spans in bytes; and the reason for a doubt, or ""."""
    from repoagent.syntax.parser import parse_bytes

    tree = parse_bytes(data, "bash")
    if tree is None:
        return [], "it takes too long to parse"
    walk = _Walk(data)
    walk.node(tree.root_node, fed=False)
    doubt = walk.doubt or ("it is not a complete shell command" if tree.root_node.has_error else "")
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
        """Find the commands in `node`; `fed`: its standard input is a pipe or a file."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
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
                self.doubt = f"it contains a {node.type.replace('_', ' ')}"
            for child in node.children:
                self.node(child, fed=fed and not node.type.endswith("substitution"))

    def inside(self, node: Node) -> None:
        """Find the commands inside a word or an assignment, which is not a command itself."""
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
        """A command with these redirections; the line of a here-document may have further words and redirections."""
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
        """The grammar does not parse backticks in a here-document."""
        for match in re.finditer(rb"`([^`]*)`", self.data[node.start_byte : node.end_byte]):
            start = node.start_byte + match.start(1)
            for raw in read_tree(match[1])[0]:
                words = tuple((a + start, b + start) for a, b in raw.words)
                moved = tuple((operator, (a + start, b + start)) for operator, (a, b) in raw.redirections)
                self.found.append(Raw(words, moved, raw.fed))


def _span(node: Node) -> Span:
    return node.start_byte, node.end_byte
