"""Parse a shell text twice: with tree-sitter-bash, which finds all it can, and with a strict parser that never guesses.

Only where both see the same words is the result certain, so that a mistake of one cannot hide a command. The strict
parser knows lists, pipelines, groups, `if`, `while`, `until`, `for NAME in`, redirections, here-documents, comments,
quotes, `$name`, `$(...)` and `<(...)`; everything else raises Unsure. The grammar is that of POSIX.1-2017, XCU 2.
"""

from __future__ import annotations

import re
from functools import lru_cache

from repoagent.agent.approvals.shell_words import Raw, Reading, Simple, Span, read_tree, simple
from repoagent.agent.approvals.wrappers import inner

_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#@*!$-]|\{(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#@*])\})")
_OPERATOR = re.compile(r"&&|\|\||;;&?|;&|\|&|[;&|\n()]")
_REDIRECTION = re.compile(r"(\d{0,3})(<<<|<<-?|&>>|&>|>>|>\||>&|<&|<>|>|<)")
_LOCAL = re.compile(r"[a-z][a-z0-9]{0,15}")  # programs do not read variables with such names
_OPENS = {"if", "while", "until", "then", "else", "elif", "do", "{", "!"}
_CLOSES = {"fi", "done", "}"}
_UNKNOWN = {"case", "select", "function", "coproc", "[[", "esac", "in"}


class Unsure(Exception):
    """The text has an unsupported construct, named by the message."""


def read_strictly(data: bytes) -> list[Raw]:
    """The simple commands of `data`, with spans in bytes. Raises Unsure."""
    try:
        data.decode()
    except UnicodeDecodeError:
        raise Unsure("it is not UTF-8") from None
    text = data.decode("latin-1")  # so that a character is a byte
    if bad := re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text):
        raise Unsure(f"it contains the control character {ord(bad[0]):#04x}")
    reader = _Reader(text)
    reader.commands("")
    return reader.found


class _Reader:
    """A recursive-descent parser that collects simple commands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: list[Raw] = []
        self.here: tuple[str, bool, bool] | None = None  # of a here-document: delimiter, literal, with tabs
        self.depth = 0

    def blanks(self) -> None:
        """Skip blanks, line continuations, and a comment."""
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif char == "#":
                end = self.text.find("\n", self.at)
                self.at = end if end >= 0 else len(self.text)
            else:
                return

    def word(self) -> Span:
        start = self.at
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\n;&|)":
                break
            if char in "<>":
                if self.text.startswith("(", self.at + 1):
                    if self.at > start:
                        raise Unsure("it has a substitution in the middle of a word")
                    self.at += 2
                    self.commands(")")
                    continue
                break
            if char == "(":
                if self.at == start:
                    raise Unsure("it has a parenthesis in place of a word")
                break
            self.piece(char)
        if self.at == start:
            raise Unsure("a word is missing")
        return start, self.at

    def piece(self, char: str) -> None:
        """Read a quoted part, a variable, a substitution, or one plain character."""
        if char == "'":
            self.at = self.find("'", self.at + 1) + 1
        elif char == '"':
            self.double_quoted()
        elif char == "\\":
            if self.text[self.at + 1 : self.at + 2] in {"", "\n"}:
                raise Unsure("it has a line continuation in the middle of a word")
            self.at += 2
        elif char == "$":
            self.dollar()
        elif char == "`":
            raise Unsure("it contains backticks; use $(...)")
        else:
            self.at += 1

    def double_quoted(self) -> None:
        self.at += 1
        while True:
            if self.at >= len(self.text):
                raise Unsure("a quote is not closed")
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\":
                self.at += 2
            elif char == "$":
                self.dollar(quoted=True)
            elif char == "`":
                raise Unsure("it contains backticks; use $(...)")
            else:
                self.at += 1

    def dollar(self, *, quoted: bool = False) -> None:
        if self.text.startswith("$((", self.at) or self.text.startswith("$[", self.at):
            raise Unsure("it contains arithmetic, which can run a command held by a variable")
        if self.text.startswith("$(", self.at):
            self.at += 2
            self.commands(")")
            return
        following = self.text[self.at + 1 : self.at + 2]
        if following in {"'", '"'} and not quoted:
            raise Unsure("it contains $'...' or $\"...\"")
        if match := _VARIABLE.match(self.text, self.at):
            self.at = match.end()
        elif following == "{":
            raise Unsure("it contains an operator on a variable, ${...}")
        else:
            self.at += 1

    def find(self, char: str, start: int) -> int:
        end = self.text.find(char, start)
        if end < 0:
            raise Unsure("a quote is not closed")
        return end

    def commands(self, close: str) -> None:
        """Read commands up to `close` (")", or "" for the end of the text), which is read too."""
        self.depth += 1
        if self.depth > 20:
            raise Unsure("it is nested too deeply")
        groups: list[str] = []
        fed = False
        while True:
            self.blanks()
            if self.at >= len(self.text):
                if close or groups or self.here:
                    raise Unsure("it ends too early")
                break
            operator = _OPERATOR.match(self.text, self.at)
            redirects = _REDIRECTION.match(self.text, self.at)
            if operator and not redirects:
                mark = operator[0]
                self.at = operator.end()
                if mark == ")" and groups and groups[-1] == "(":
                    groups.pop()
                elif mark == ")":
                    if close != ")" or groups or self.here:
                        raise Unsure("a parenthesis is not closed")
                    break
                elif mark == "(":
                    if self.text.startswith("(", self.at):
                        raise Unsure("it holds arithmetic")
                    groups.append("(")
                elif mark.startswith(";") and mark != ";":
                    raise Unsure("it contains a `case`")
                elif mark == "\n":
                    if self.here and self.depth > 1:
                        raise Unsure("it has a here-document that starts before a substitution ends")
                    self.here_document()
                fed = mark in {"|", "|&"}
                continue
            fed = self.command(groups, fed)
        self.depth -= 1

    def command(self, groups: list[str], fed: bool) -> bool:
        """Read one simple command, or a reserved word. Returns whether the next command is fed."""
        words: list[Span] = []
        redirections: list[tuple[str, Span]] = []
        while True:
            self.blanks()
            redirects = _REDIRECTION.match(self.text, self.at)
            substitutes = self.text.startswith(("<(", ">("), self.at)
            if redirects and not substitutes:
                fed = self.redirection(redirects, redirections) or fed
                continue
            if self.at >= len(self.text) or _OPERATOR.match(self.text, self.at):
                if self.text.startswith("(", self.at):
                    raise Unsure("it defines a function or an array")
                break
            span = self.word()
            written = self.text[span[0] : span[1]]
            if self.here and "\n" in written:
                raise Unsure("it has a here-document that starts before a quote ends")
            if not words and not redirections and self.reserved(written, groups):
                return fed and written in {"{", "if", "while", "until", "!"}
            words.append(span)
        self.found.append(Raw(tuple(words), tuple(redirections), fed))
        return False

    def reserved(self, written: str, groups: list[str]) -> bool:
        if written in _UNKNOWN:
            raise Unsure(f"it holds `{written}`")
        if written == "for":
            self.blanks()
            start, end = self.word()
            if not _LOCAL.fullmatch(self.text[start:end]):
                raise Unsure("a loop sets a variable that programs may read")
            self.blanks()
            start, end = self.word()
            if self.text[start:end] != "in":
                raise Unsure("it contains a `for` without `in`")
            while True:
                self.blanks()
                if _OPERATOR.match(self.text, self.at):
                    break
                if self.at >= len(self.text) or _REDIRECTION.match(self.text, self.at):
                    raise Unsure("it ends too early")
                self.word()
            return True
        if written in {"if", "do", "{"}:
            groups.append(written)
        if written in _CLOSES:
            opened = {"fi": "if", "done": "do", "}": "{"}[written]
            if not groups or groups.pop() != opened:
                raise Unsure(f"`{written}` is not closed")
            self.after_group()
        return written in _OPENS or written in _CLOSES

    def after_group(self) -> None:
        """Read the redirections after a group; they become a command without words."""
        redirections: list[tuple[str, Span]] = []
        while True:
            self.blanks()
            redirects = _REDIRECTION.match(self.text, self.at)
            if not redirects:
                break
            self.redirection(redirects, redirections)
        if redirections:
            self.found.append(Raw((), tuple(redirections)))
        if self.at < len(self.text) and not _OPERATOR.match(self.text, self.at):
            raise Unsure("it has words after the end of a group")

    def redirection(self, match: re.Match[str], into: list[tuple[str, Span]]) -> bool:
        """Read a redirection. Returns whether it is one of standard input."""
        operator = match[2]
        if operator in {"<", ">"} and self.text.startswith("(", match.end()):
            raise Unsure("it redirects to a process substitution")
        self.at = match.end()
        self.blanks()
        if self.at >= len(self.text) or _OPERATOR.match(self.text, self.at):
            raise Unsure("a redirection has no target")
        start, end = self.word()
        if operator.startswith("<<") and operator != "<<<":
            if self.here or self.depth > 1:
                raise Unsure("it has several here-documents, or one inside a substitution")
            written = self.text[start:end]
            plain = re.fullmatch(r"'([\w-]+)'|\"([\w-]+)\"|\\?([\w-]+)", written)
            if not plain or written.startswith("\\"):
                raise Unsure("the end of a here-document is ambiguous")
            self.here = (plain[1] or plain[2] or plain[3], plain[3] is None, operator == "<<-")
        elif operator != "<<<":
            into.append((operator, (start, end)))
        return operator.startswith("<") and operator != "<>"

    def here_document(self) -> None:
        """Read the body of the here-document that the previous line opened."""
        if self.here is None:
            return
        end, literal, tabs = self.here
        self.here = None
        while self.at < len(self.text):
            line, newline, _ = self.text[self.at :].partition("\n")
            self.at += len(line) + len(newline)
            if (line.lstrip("\t") if tabs else line) == end:
                return
            if not literal and re.search(r"[$`\\]", line):
                raise Unsure("a here-document contains more than text; quote its delimiter (<<'EOF')")
        raise Unsure("a here-document is not closed")


LARGEST = 16 * 1024  # bytes of a text: in the worst case tree-sitter takes a second for it


@lru_cache(maxsize=64)
def read_command(text: str) -> Reading:
    """Parse `text` as `bash -c` does. Raises nothing; problems become the `doubt` of the result.

    The commands that `sudo`, `env`, `timeout`, `xargs`, `find -exec` or `bash -c` run are parsed, too.
    """
    return _read(text, 0)


def _read(text: str, depth: int) -> Reading:
    data = text.encode("utf-8", "surrogateescape" if text.isprintable() else "surrogatepass")
    if len(data) > LARGEST:
        return Reading(text, (), "it is too long")
    seen, doubt = read_tree(data)
    try:
        sure = read_strictly(data)
    except Unsure as unsure:
        doubt = str(unsure)
    else:
        if not doubt and _words(sure, data) != _words(seen, data):
            doubt = "it can be parsed in two ways"
        if not doubt:
            seen = sure
    commands: list[Simple] = []
    for raw in seen:
        command = simple(raw, data)
        doubt = doubt or _trouble(command)
        unwrapped, unclear = _unwrapped(command, depth)
        commands += unwrapped
        doubt = doubt or unclear
    return Reading(text, tuple(commands), doubt)


def _words(raws: list[Raw], data: bytes) -> tuple[list[tuple[Span, ...]], list[Span]]:
    """The spans that both parsers must agree on; to tree-sitter a test, `[ ... ]`, is one word."""
    commands = []
    for raw in raws:
        words = raw.words
        if len(words) > 1 and data[slice(*words[0])] == b"[":
            words = ((words[0][0], words[-1][1]),)
        if words:
            commands.append(words)
    targets = [span for raw in raws for operator, span in raw.redirections]
    return sorted(commands), sorted(targets)


def _trouble(command: Simple) -> str:
    if command.words and not command.words[0].literal:
        return f"the program {command.words[0].raw} is not known before it runs"
    if any("[" in name for name, _ in command.assignments):
        return "an array index can contain a command"
    if not command.name.isascii():
        return f"the program name {command.name} is not plain ASCII"
    return ""


def _unwrapped(command: Simple, depth: int) -> tuple[list[Simple], str]:
    """A command and those that it runs, recursively, and the reason for a doubt."""
    if depth > 5:
        return [command], "commands are nested too deeply"
    wrapped = inner(command)
    if wrapped is None:
        return [command], ""
    commands, doubt = [wrapped.outer], wrapped.doubt
    for nested in wrapped.commands:
        more, unclear = _unwrapped(nested, depth + 1)
        commands += more
        doubt = doubt or unclear or _trouble(nested)
    for text in wrapped.texts:
        reading = _read(text, depth + 1)
        commands += reading.commands
        doubt = doubt or reading.doubt
    return commands, doubt
