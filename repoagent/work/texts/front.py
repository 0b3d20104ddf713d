"""The front matter of a Markdown file: the part of YAML that people write there, every scalar a text.

Read are mappings and lists, nested by indentation or in brackets, plain and quoted texts, also over several
lines, the block texts `|` and `>`, and comments. Anchors, tags, `? ` keys and directives are refused with the
number of the line. A plain text may hold a colon and a blank ("Use when: …"), which YAML forbids and people write.
Everything else means what YAML 1.1 (PyYAML's BaseLoader) says it means.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from repoagent.errors import Refused
from repoagent.work.texts.scalars import block_text, flow, folded, quoted

Value: TypeAlias = "str | list[Value] | dict[str, Value]"

DEEPEST = 8
LARGEST = 16 * 1024  # characters of a front matter
LONGEST = 100  # lines of a quoted text, and of a list in brackets
BLANK = " \t"  # for YAML nothing else is
_FRONT = re.compile(r"\ufeff?---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"""([A-Za-z_][\w.-]*|"[^"\\]*"|'[^']*')[ ]*:(?=[ \t]|$)""")
_ITEM = re.compile(r"-(?:[ ]+|$)")
_COMMENT = re.compile(r"(?:^|[ \t])#.*")
_BLOCK = re.compile(r"([|>])(?:([1-9])([+-]?)|([+-]?)([1-9]?))[ \t]*(?:[ \t]#.*)?$")
_BROKEN = re.compile(r"[^\t\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_NOT_PLAIN = tuple("&*!%@`,]}#")
_OTHER_BREAKS = ("\x85", "\u2028", "\u2029")  # lines end there for YAML 1.1


def front_matter(text: str) -> tuple[dict[str, Value], str]:
    """The front matter of `text` and what comes after it. Lines may end in CRLF.

    Raises Refused, worded as the end of a sentence ("has no front matter"), when there is none or it can't be read.
    """
    text = text.replace("\r\n", "\n")
    front = _FRONT.match(text)
    if front is None:
        raise Refused("has no front matter: it has to begin with a line `---`, and another one ends it")
    if len(front[1]) > LARGEST:
        raise Refused(f"has a front matter of more than {LARGEST:,} characters")
    if _BROKEN.search(front[1]) or any(mark in front[1] for mark in _OTHER_BREAKS):
        raise Refused("has control characters in its front matter")
    reader = _Reader(front[1].split("\n")[:-1])
    reader.skip()
    fields = reader.mapping(0, 1) if reader.at < len(reader.lines) else {}
    if reader.at < len(reader.lines):
        reader.refuse("is indented more or less than its neighbours")
    return fields, text[front.end() :]


@dataclass
class _Reader:
    """The lines of a front matter, and which is next."""

    lines: list[str]
    at: int = 0

    def refuse(self, what: str) -> NoReturn:
        # line 1 of the file is the `---`
        raise Refused(
            f"has a front matter that can't be read: line {min(self.at, len(self.lines)) + 2} {what}"
        )

    def skip(self) -> None:
        """Go on to the next line that says something."""
        while self.at < len(self.lines) and not _COMMENT.sub("", self.lines[self.at], count=1).strip(BLANK):
            self.at += 1

    def indent(self) -> int:
        """How far the next line is indented; -1 at the end."""
        if self.at >= len(self.lines):
            return -1
        line = self.lines[self.at]
        blank = line[: len(line) - len(line.lstrip(BLANK))]
        if "\t" in blank:
            self.refuse("is indented with a tab")
        return len(blank)

    def mapping(self, indent: int, depth: int) -> dict[str, Value]:
        if depth > DEEPEST:
            self.refuse("is nested too deeply")
        found: dict[str, Value] = {}
        while self.indent() == indent:
            line = self.lines[self.at][indent:]
            key = _KEY.match(line)
            if key is None:
                self.refuse("is not `key: value`")
            name = key[1][1:-1] if key[1][0] in "\"'" else key[1]
            if name in found:
                self.refuse(f"says {name} again")
            found[name] = self.value(line[key.end() :], indent, depth, in_mapping=True)
            self.skip()
        return found

    def sequence(self, indent: int, depth: int) -> list[Value]:
        if depth > DEEPEST:
            self.refuse("is nested too deeply")
        found: list[Value] = []
        while self.indent() == indent and (item := _ITEM.match(self.lines[self.at][indent:])):
            rest = self.lines[self.at][indent + item.end() :]
            inner = indent + item.end()
            if _KEY.match(rest) or (
                _ITEM.match(rest) and rest.strip(BLANK)
            ):  # `- name: x` and `- - x` begin a node here
                self.lines[self.at] = " " * inner + rest
                found.append(self.node(inner, depth))
            else:
                found.append(self.value(rest, indent, depth, in_mapping=False))
            self.skip()
        return found

    def node(self, indent: int, depth: int) -> Value:
        if _ITEM.match(self.lines[self.at][indent:]):
            return self.sequence(indent, depth + 1)
        return self.mapping(indent, depth + 1)

    def value(self, rest: str, indent: int, depth: int, *, in_mapping: bool) -> Value:
        """What follows a key or a dash; the reader stands on the line of it, and then after the value."""
        text = rest.strip(BLANK)
        if block := _BLOCK.match(text):
            return self.block(block, indent)
        if not text or text.startswith("#"):
            return self.below(indent, depth, in_mapping=in_mapping)
        if text[0] in "\"'":
            return self.over_lines(text, indent, quoted)
        if text[0] in "[{":
            return self.over_lines(text, indent, flow)
        self.check_plain(text, in_mapping=in_mapping)
        return self.plain(rest, indent)

    def check_plain(self, text: str, *, in_mapping: bool) -> None:
        if text.startswith(_NOT_PLAIN) or re.match(r"[?:|>-](?:[ \t]|$)|[|>]", text):
            self.refuse(f"begins its value with {text[0]}: put the value in quotes")
        if not in_mapping and re.search(r":(?:[ \t]|$)", _COMMENT.sub("", text, count=1)):
            self.refuse("has a colon in a text, or a name of several words: put it in quotes")

    def below(self, indent: int, depth: int, *, in_mapping: bool) -> Value:
        """The value that stands in the lines below; "" when there is none."""
        self.at += 1
        self.skip()
        inner = self.indent()
        line = self.lines[self.at][inner:] if inner >= 0 else ""
        if inner == indent and in_mapping and _ITEM.match(line):
            return self.sequence(indent, depth + 1)
        if inner <= indent:
            return ""
        if _ITEM.match(line) or _KEY.match(line):
            return self.node(inner, depth)
        if line[0] in "\"'[{":
            return self.value(line, indent, depth, in_mapping=False)
        self.check_plain(line, in_mapping=False)
        return self.plain(line, indent)

    def plain(self, rest: str, indent: int) -> str:
        """A plain text, which goes on in the lines that are indented more."""
        pieces = [_COMMENT.sub("", rest, count=1).strip(BLANK)]
        commented = _COMMENT.search(rest) is not None
        self.at += 1
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip(BLANK) and self.indent() <= indent:
                break
            said = _COMMENT.sub("", line, count=1).strip(BLANK)
            if line.strip(BLANK) and not said:  # a comment ends it
                break
            if said and commented:
                self.refuse("goes on after a comment")
            commented = commented or said != line.strip(BLANK)
            pieces.append(said)
            self.at += 1
        return folded(pieces)

    def block(self, header: re.Match[str], indent: int) -> str:
        given = header[2] or header[5]
        start = self.at = self.at + 1
        least = indent + 1
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip(" ") and len(line) - len(line.lstrip(" ")) < least:
                break
            self.at += 1
        lines = self.lines[start : self.at]
        shortest = indent + int(given) if given else 0
        text = block_text(lines, header[1] == ">", header[3] or header[4] or "", shortest)
        if text is None:
            self.refuse("is not indented as the text before it is")
        return text

    def over_lines(self, text: str, indent: int, read: Callable[[str], tuple[Value, str] | None]) -> Value:
        """A value that has an end of its own, on this line or on one further down."""
        pieces = [text]
        while True:
            try:
                found = read("\n".join(pieces))
            except ValueError as error:
                self.refuse(str(error))
            if found is not None:
                break
            self.at += 1
            if (
                len(pieces) == LONGEST
                or self.at >= len(self.lines)
                or (self.lines[self.at].strip(BLANK) and self.indent() <= indent)
            ):
                self.refuse(f"should end what begins with {text[0]}")
            pieces.append(self.lines[self.at].lstrip(BLANK))
        value, rest = found
        if rest.strip(BLANK) and not re.match(r"[ \t]+#", rest):
            self.refuse("goes on after the end of its value")
        self.at += 1
        return value
