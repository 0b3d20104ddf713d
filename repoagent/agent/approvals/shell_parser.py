"""Parse shell text twice: with tree-sitter-bash, which finds as much as it can, and with a strict scanner that never
guesses.

The result is certain only if both find the same words, so that a mistake in one of them cannot hide a command. The
scanner splits lists, pipelines, groups, `if`, `while`, `until`, `for NAME in`, redirections, here-documents with a
quoted delimiter, comments, quotes, `$name` and `$(...)` into words; everything else raises Unsure. Checking that
reserved words and the parentheses of groups match is left to tree-sitter. The grammar is that of POSIX.1-2017, XCU 2.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from repoagent.agent.approvals.shell_words import (
    ParsedCommand,
    SimpleCommand,
    parse_simple_command,
    unwrap_command,
)

LARGEST = 16 * 1024  # bytes of a text: in the worst case tree-sitter takes a second for it
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#@*!$-]|\{(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#@*])\})")
_PLAIN = re.compile(r"(?:[^ \t\n;&|()<>'\"\\$`]|'[^']*'|\\[^\n]|\$(?=[ \t\n]|\Z))+")
_QUOTED = re.compile(r"(?:[^\"\\$`]|\\.|\$(?![A-Za-z0-9_?#@*!$({\[\\-]))+", re.DOTALL)
_BLANKS = re.compile(r"(?:[ \t]|\\\n|#[^\n]*)*")
_REDIRECTION = re.compile(r"\d{0,3}(<<<|<<|&>>|&>|>>|>\||>&|<&|<>|>(?!\()|<(?!\())")
_OPERATOR = re.compile(r"&&|\|\||\|&|&(?!>)|[;|\n()]")
_HERE_END = re.compile(r"'([\w-]+)'|\"([\w-]+)\"")
_LOCAL = re.compile(r"[a-z][a-z0-9]{0,15}")  # programs do not read variables with such names
_RESERVED = {"if", "while", "until", "then", "else", "elif", "do", "{", "!"}
_CLOSES = {"fi", "done", "}"}
_UNKNOWN = {"case", "select", "function", "coproc", "[[", "esac", "in"}

Span = tuple[int, int]


class Unsure(Exception):
    """The text has an unsupported construct, named by the message."""


class _Raw(NamedTuple):
    """A simple command as spans of the text, in bytes: its words, and its redirections with their operators."""

    words: tuple[Span, ...]
    redirections: tuple[tuple[str, Span], ...] = ()


class _Strict:
    """A scanner that collects simple commands. Raises Unsure."""

    def __init__(self, data: bytes) -> None:
        try:
            data.decode()
        except UnicodeDecodeError:
            raise Unsure("it is not UTF-8") from None
        self.text = data.decode("latin-1")  # so that a character is a byte
        if bad := re.search(r"[\x00-\x08\x0b-\x1f\x7f]", self.text):
            raise Unsure(f"it contains the control character {ord(bad[0]):#04x}")
        self.at = 0
        self.results: list[_Raw] = []
        self.heredoc = ""  # the delimiter of the here-document that starts on the next line
        self.depth = 0  # of substitutions
        self.commands("")

    def next(self) -> str:
        """Skip blanks, line continuations and comments, and return the next character; "" at the end."""
        if match := _BLANKS.match(self.text, self.at):
            self.at = match.end()
        return self.text[self.at : self.at + 1]

    def word(self) -> Span:
        start = self.at
        while (char := self.text[self.at : self.at + 1]) and char not in " \t\n;&|)<>":
            if match := _PLAIN.match(self.text, self.at):
                self.at = match.end()
            elif char == '"':
                self.at += 1
                while self.text[self.at : self.at + 1] != '"':
                    if match := _QUOTED.match(self.text, self.at):
                        self.at = match.end()
                    else:
                        self.expansion()
                self.at += 1
            else:
                self.expansion()
        if self.at == start or self.text.startswith(("<(", ">("), self.at):
            raise Unsure("it has a process substitution, or a redirection or `for` without a word")
        return start, self.at

    def expansion(self) -> None:
        """Read a variable or `$(...)`; everything else that is special in a word is an error."""
        text, at = self.text, self.at
        if text.startswith("$(", at) and not text.startswith(("$((", "$(\\\n"), at):
            self.at += 2
            self.commands(")")
        elif match := _VARIABLE.match(text, at):
            self.at = match.end()
        elif text.startswith("`", at):
            raise Unsure("it contains backticks; use $(...)")
        elif text.startswith("$", at):
            raise Unsure("it contains arithmetic, $'...', ${...} with an operator, or an unquoted $")
        else:
            raise Unsure(
                "a quote is not closed, a line ends within a word, or it defines a function or an array"
            )

    def commands(self, close: str) -> None:
        """Read commands up to the closing character `close`: ")" or, for the end of the text, ""."""
        self.depth += 1
        if self.depth > 20:
            raise Unsure("it is nested too deeply")
        parentheses = 0
        while self.next():
            operator = _OPERATOR.match(self.text, self.at)
            if operator is None:
                self.command()
                continue
            mark = operator[0]
            self.at = operator.end()
            if mark == "(" and self.text.startswith(("(", "\\\n"), self.at):
                raise Unsure("it contains arithmetic")
            parentheses += mark == "("
            if mark == ")" and not parentheses:
                if close != ")" or self.heredoc:
                    raise Unsure("a parenthesis is not closed")
                self.depth -= 1
                return
            parentheses -= mark == ")"
            if mark == "\n" and self.heredoc:
                body = re.compile(rf"(?:.*\n)*?{self.heredoc}(?:\n|\Z)").match(self.text, self.at)
                if body is None or self.depth > 1:
                    raise Unsure("a here-document is not closed, or starts inside $(...)")
                self.at, self.heredoc = body.end(), ""
            elif mark == ";" and self.text.startswith((";", "&"), self.at):
                raise Unsure("it contains a `case`")
        if close or parentheses or self.heredoc:
            raise Unsure("it ends unexpectedly")
        self.depth -= 1

    def command(self) -> None:
        """Read one simple command, or a reserved word."""
        words: list[Span] = []
        redirections: list[tuple[str, Span]] = []  # after the end of a group: of a command without words
        closed = False
        while self.next():
            if redirects := _REDIRECTION.match(self.text, self.at):
                self.redirection(redirects, redirections)
                continue
            if _OPERATOR.match(self.text, self.at):
                if self.text.startswith("(", self.at):
                    raise Unsure("it defines a function or an array")
                break
            span = self.word()
            written = self.text[slice(*span)]
            if closed:
                raise Unsure("it has words after the end of a group")
            if self.heredoc and "\n" in written:
                raise Unsure("the text of a here-document starts inside quotes")
            if not words and not redirections:
                if written in _UNKNOWN:
                    raise Unsure(f"it contains `{written}`")
                if written == "for":
                    self.loop()
                    return
                if written in _RESERVED:
                    return
                closed = written in _CLOSES
            words += [] if closed else [span]
        if words or redirections or not closed:
            self.results.append(_Raw(tuple(words), tuple(redirections)))

    def loop(self) -> None:
        """Read `NAME in WORDS` after `for`."""
        self.next()
        if not _LOCAL.fullmatch(self.text[slice(*self.word())]):
            raise Unsure("a loop sets a variable that programs may read")
        self.next()
        if self.text[slice(*self.word())] != "in":
            raise Unsure("it contains a `for` without `in`")
        while self.next() and not _OPERATOR.match(self.text, self.at):
            self.word()

    def redirection(self, match: re.Match[str], into: list[tuple[str, Span]]) -> None:
        operator = match[1]
        self.at = match.end()
        self.next()
        span = self.word()
        target = self.text[slice(*span)]
        if operator in {">&", "<&"} and not re.fullmatch(r"[\w./-]+", target):
            raise Unsure("the target of a >& or <& redirection is not a plain word")
        if operator == "<<":
            end = _HERE_END.fullmatch(target)
            if self.heredoc or self.depth > 1 or not end:
                raise Unsure(
                    "use only one here-document, not in $(...), with `<<` (not `<<-`) and a quoted delimiter (<<'EOF')"
                )
            self.heredoc = end[1] or end[2]
        elif operator != "<<<":
            into.append((operator, span))


_COMMANDS = {"command", "declaration_command", "unset_command", "variable_assignments"}
_ALONE = {"variable_assignment", "test_command"}  # commands of one word, unless they are part of another
_REDIRECTIONS = {"file_redirect", "herestring_redirect", "heredoc_redirect"}


def _find(data: bytes) -> tuple[list[tuple[Span, ...]], list[Span], list[bytes], str]:
    """What tree-sitter finds, even in invalid text: the words of each command, the targets of redirections, texts in
    backticks that it does not parse, and the reason for a doubt, or ""."""
    from repoagent.syntax.parser import parse_bytes

    tree = parse_bytes(data, "bash")
    if tree is None:
        return [], [], [], "it takes too long to parse"
    commands: list[tuple[Span, ...]] = []
    targets: list[Span] = []
    backticks: list[bytes] = []
    doubt = "it is not a complete shell command" if tree.root_node.has_error else ""
    stack = [(tree.root_node, "")]
    while stack:
        node, parent = stack.pop()
        spans = tuple(
            (child.start_byte, child.end_byte) for child in node.children if child.type not in _REDIRECTIONS
        )
        if node.type in _COMMANDS:
            commands.append(spans)
        elif node.type in _ALONE and parent not in _COMMANDS:
            commands.append(((node.start_byte, node.end_byte),))
        elif node.type == "file_redirect":
            children = [child for child in node.named_children if child.type != "file_descriptor"]
            targets += [(child.start_byte, child.end_byte) for child in children]
        elif node.type in {"function_definition", "case_statement"}:
            doubt = f"it contains a {node.type.replace('_', ' ')}"
        elif node.type in {"heredoc_content", "heredoc_body"}:
            backticks += re.findall(rb"`([^`]*)`", data[node.start_byte : node.end_byte])
        stack += [(child, node.type) for child in node.children]
    return commands, targets, backticks, doubt


@lru_cache(maxsize=64)
def read_command(text: str) -> ParsedCommand:
    """Parse `text` as `bash -c` does. Never raises; problems become the `doubt` of the result.

    The commands that `sudo`, `env`, `timeout`, `xargs`, `find -exec` or `bash -c` run are parsed, too.
    """
    return _read(text, 0)


def _read(text: str, depth: int) -> ParsedCommand:
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > LARGEST:
        return ParsedCommand(text, (), "it is too long")

    def source(span: Span) -> str:
        return data[slice(*span)].decode("utf-8", "surrogateescape")

    strict: list[_Raw] = []
    unsure = ""
    try:
        strict = _Strict(data).results
    except Unsure as error:
        unsure = str(error)
    seen, targets, backticks, doubt = _find(data)
    doubt = unsure or doubt
    if not doubt:
        # tree-sitter parses a test, `[ ... ]`, as one word
        words = [raw.words for raw in strict if raw.words]
        words = [((w[0][0], w[-1][1]),) if source(w[0]) == "[" and len(w) > 1 else w for w in words]
        redirected = sorted(span for raw in strict for _, span in raw.redirections)
        if sorted(words) != sorted(seen) or redirected != sorted(targets):
            doubt = "it can be parsed in two ways"
    if doubt:
        simples = [parse_simple_command(list(map(source, words))) for words in sorted(seen)]
        for inside in backticks if depth < 5 else ():
            simples += _read(inside.decode("utf-8", "replace"), depth + 1).commands
    else:
        simples = [
            parse_simple_command(
                list(map(source, raw.words)), [(op, source(span)) for op, span in raw.redirections]
            )
            for raw in strict
        ]
    commands: list[SimpleCommand] = []
    for command in simples:
        unclear = _add(command, commands, depth)
        doubt = doubt or unclear
    return ParsedCommand(text, tuple(commands), doubt)


def _add(command: SimpleCommand, commands: list[SimpleCommand], depth: int) -> str:
    """Add a command and those that it runs to `commands`, recursively. Returns the reason for a doubt, or ""."""
    doubt = ""
    if command.words and not command.words[0].literal:
        doubt = f"cannot tell which program {command.words[0].raw} is"
    elif any("[" in name for name, _ in command.assignments):
        doubt = "an array index can contain a command"
    elif not command.name.isascii():
        doubt = f"the program name {command.name} is not plain ASCII"
    if depth > 5:
        commands.append(command)
        return doubt or "commands are nested too deeply"
    inner = unwrap_command(command)
    commands.append(inner.outer)
    doubt = doubt or inner.doubt
    for nested in inner.commands:
        unclear = _add(nested, commands, depth + 1)
        doubt = doubt or unclear
    if inner.text:
        reading = _read(inner.text, depth + 1)
        commands += reading.commands
        doubt = doubt or reading.doubt
    return doubt
