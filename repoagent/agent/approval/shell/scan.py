"""The characters of a strictly read shell text: blanks, comments, words, quotes, variables, substitutions."""

from __future__ import annotations

import re
from collections.abc import Callable

from repoagent.agent.approval.shell.parts import Span

_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#@*!$-]|\{(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#@*])\})")


class Unsure(Exception):
    """The text holds something that is not known here; the message says what."""


class Scanner:
    """A place in a text. `substitution` reads the commands that begin there, and the ")" that ends them."""

    def __init__(self, text: str, substitution: Callable[[], None]) -> None:
        self.text = text
        self.at = 0
        self._substitution = substitution

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
                        raise Unsure("a substitution stands in the middle of a word")
                    self.at += 2
                    self._substitution()
                    continue
                break
            if char == "(":
                if self.at == start:
                    raise Unsure("a parenthesis stands where a word was expected")
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
                raise Unsure("a line goes on in the middle of a word")
            self.at += 2
        elif char == "$":
            self.dollar()
        elif char == "`":
            raise Unsure("it holds backticks: write $(...)")
        else:
            self.at += 1

    def double_quoted(self) -> None:
        self.at += 1
        while True:
            if self.at >= len(self.text):
                raise Unsure("a quote has no end")
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\":
                self.at += 2
            elif char == "$":
                self.dollar(quoted=True)
            elif char == "`":
                raise Unsure("it holds backticks: write $(...)")
            else:
                self.at += 1

    def dollar(self, *, quoted: bool = False) -> None:
        if self.text.startswith("$((", self.at) or self.text.startswith("$[", self.at):
            raise Unsure("it holds arithmetic, which can run a command that a variable holds")
        if self.text.startswith("$(", self.at):
            self.at += 2
            self._substitution()
            return
        following = self.text[self.at + 1 : self.at + 2]
        if following in {"'", '"'} and not quoted:
            raise Unsure("it holds $'...' or $\"...\"")
        if match := _VARIABLE.match(self.text, self.at):
            self.at = match.end()
        elif following == "{":
            raise Unsure("it holds an operator on a variable, ${...}")
        else:
            self.at += 1

    def find(self, char: str, start: int) -> int:
        end = self.text.find(char, start)
        if end < 0:
            raise Unsure("a quote has no end")
        return end
