"""What a shell text is made of: words, simple commands, and what is read of a whole text."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from repoagent.dataclass import dataclass

Kind = Literal["literal", "glob", "open"]
Role = Literal["runs", "wraps", "inside"]
Span = tuple[int, int]

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^]]*\])?\+?=")


class Word(NamedTuple):
    """One word. `text` is what it means with its quotes taken away, as far as that can be said.

    kind: "literal" when `text` is exactly what a program gets; "glob" when file names take its place; "open" when it
    depends on what is known only when it runs (a variable, the output of a command).
    """

    raw: str
    text: str
    kind: Kind = "literal"

    @property
    def literal(self) -> bool:
        return self.kind == "literal"


class Raw(NamedTuple):
    """A simple command as spans of the text, in bytes: its words, and its redirections with their operators.

    `fed` says that its standard input is given: a pipe, a file, a here-document.
    """

    words: tuple[Span, ...]
    redirections: tuple[tuple[str, Span], ...] = ()
    fed: bool = False


@dataclass(frozen=True)
class Simple:
    """One simple command.

    assignments: the variables that are set in front of it, or by it alone. writes, reads: the files that it is
    redirected to and from. role: "runs" for a command of the text; "wraps" for one that does nothing but run another
    one that is read too (`timeout 5 make`); "inside" for what a command runs that has to be allowed itself (`sudo`).
    """

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    writes: tuple[Word, ...] = ()
    reads: tuple[Word, ...] = ()
    fed: bool = False
    role: Role = "runs"

    @property
    def name(self) -> str:
        """The program, as it is written; "" for none, and when it can't be said."""
        return self.words[0].text if self.words and self.words[0].literal else ""

    @property
    def raw(self) -> str:
        """The words as they are written."""
        return " ".join(
            [*(f"{name}={value.raw}" for name, value in self.assignments), *(w.raw for w in self.words)]
        )


@dataclass(frozen=True)
class Reading:
    """Every simple command of `text`. `doubt` says why it can't be read with certainty, "" when it can: with a doubt
    there may be a command that is not among `commands`."""

    text: str
    commands: tuple[Simple, ...] = ()
    doubt: str = ""


def simple(raw: Raw, data: bytes) -> Simple:
    """The command that stands at these spans of `data`."""
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
            continue  # another descriptor, no file
        (reads if operator in {"<", "<&"} else writes).append(target)
    return Simple(tuple(words), tuple(assignments), tuple(writes), tuple(reads), raw.fed)


def _at(data: bytes, span: Span) -> str:
    return data[span[0] : span[1]].decode("utf-8", "surrogateescape")


def word(raw: str) -> Word:
    """The word that is written as `raw`, with its quotes read as bash reads them."""
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
    """Whether at this place of a word stands what only the shell can say: a variable, a substitution, braces."""
    char, rest = raw[at], raw[at + 1 :]
    if char == "$":
        return rest != "" and not (quoted and rest.startswith('"'))
    if char == "{":
        return not quoted and ("," in rest or ".." in rest)
    return char == "`" or (not quoted and char in "<>(")


def quote(text: str) -> str:
    """`text` as one word of a shell, or of a rule: in quotes where it needs them."""
    return text if re.fullmatch(r"[A-Za-z0-9_@%+=:,./-]+", text) else "'" + text.replace("'", "'\"'\"'") + "'"
