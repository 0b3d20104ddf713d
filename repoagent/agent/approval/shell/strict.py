"""A plain reader of shell text that knows little and is sure of it. What it does not know, it does not guess.

It reads lists, pipelines, groups, `if`, `while`, `until`, `for NAME in`, redirections, here-documents, comments,
quotes, `$name`, `$(...)` and `<(...)`. Everything else raises Unsure: arithmetic (which can run a command that a
variable holds), `case`, functions, `[[`, backticks, operators on variables. The grammar of the shell is that of
POSIX.1-2017, XCU 2.
"""

from __future__ import annotations

import re

from repoagent.agent.approval.shell.parts import Raw, Span
from repoagent.agent.approval.shell.scan import Scanner, Unsure

_OPERATOR = re.compile(r"&&|\|\||;;&?|;&|\|&|[;&|\n()]")
_REDIRECTION = re.compile(r"(\d{0,3})(<<<|<<-?|&>>|&>|>>|>\||>&|<&|<>|>|<)")
_LOCAL = re.compile(r"[a-z][a-z0-9]{0,15}")  # no name that a program looks at in its environment
_OPENS = {"if", "while", "until", "then", "else", "elif", "do", "{", "!"}
_CLOSES = {"fi", "done", "}"}
_UNKNOWN = {"case", "select", "function", "coproc", "[[", "esac", "in"}


def read_strictly(data: bytes) -> list[Raw]:
    """The simple commands of `data`, with spans in bytes. Raises Unsure."""
    try:
        data.decode()
    except UnicodeDecodeError:
        raise Unsure("it is not UTF-8") from None
    text = data.decode("latin-1")  # so that a character is a byte
    if bad := re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text):
        raise Unsure(f"it holds the control character {ord(bad[0]):#04x}")
    reader = _Reader(text)
    reader.commands("")
    return reader.found


class _Reader(Scanner):
    def __init__(self, text: str) -> None:
        super().__init__(text, lambda: self.commands(")"))
        self.found: list[Raw] = []
        self.here: tuple[str, bool, bool] | None = None  # of a here-document: delimiter, literal, with tabs
        self.depth = 0

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
                        raise Unsure("a parenthesis has no partner")
                    break
                elif mark == "(":
                    if self.text.startswith("(", self.at):
                        raise Unsure("it holds arithmetic")
                    groups.append("(")
                elif mark.startswith(";") and mark != ";":
                    raise Unsure("it holds a `case`")
                elif mark == "\n":
                    if self.here and self.depth > 1:
                        raise Unsure("a here-document begins before a substitution ends")
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
                    raise Unsure("it defines a function, or holds an array")
                break
            span = self.word()
            written = self.text[span[0] : span[1]]
            if self.here and "\n" in written:
                raise Unsure("a here-document begins before a quote ends")
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
                raise Unsure("a loop sets a variable that programs may look at")
            self.blanks()
            start, end = self.word()
            if self.text[start:end] != "in":
                raise Unsure("it holds a `for` without `in`")
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
                raise Unsure(f"`{written}` has no partner")
            self.after_group()
        return written in _OPENS or written in _CLOSES

    def after_group(self) -> None:
        """What may follow the end of a group: redirections, which are a command without words here."""
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
            raise Unsure("words follow the end of a group")

    def redirection(self, match: re.Match[str], into: list[tuple[str, Span]]) -> bool:
        """Read a redirection; whether it gives standard input."""
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
                raise Unsure("it holds several here-documents, or one inside a substitution")
            written = self.text[start:end]
            plain = re.fullmatch(r"'([\w-]+)'|\"([\w-]+)\"|\\?([\w-]+)", written)
            if not plain or written.startswith("\\"):
                raise Unsure("the end of a here-document can't be told")
            self.here = (plain[1] or plain[2] or plain[3], plain[3] is None, operator == "<<-")
        elif operator != "<<<":
            into.append((operator, (start, end)))
        return operator.startswith("<") and operator != "<>"

    def here_document(self) -> None:
        """Read the body of a here-document that the line before has announced."""
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
                raise Unsure("a here-document holds more than text: quote its delimiter (<<'EOF')")
        raise Unsure("a here-document has no end")
