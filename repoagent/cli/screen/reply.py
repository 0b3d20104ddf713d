"""A model's reply as it is shown while it comes: its words, folded; not the edit, which is shown once it fits."""

from __future__ import annotations

import re
import sys
from dataclasses import field

from repoagent.cli.screen.clean import clean, columns
from repoagent.dataclass import dataclass

_FENCE = re.compile(r"\s*(`{3,}|~{3,})[ \t]*([^\s`]*)")
_TAG = re.compile(r"<([a-z_]+)\b")
_DATA = {"commit", "note", "think"}  # their bodies are no words to the person, or are shown elsewhere
_LAST = {"finish", "reject"}  # shown when they have become true
# Said in other words when they are done.
_ACTIONS = {
    "browse", "delegate", "files", "history", "keep", "kill", "message", "neighbors", "outline", "python", "read",
    "recall", "restore", "run", "search", "skill", "task", "uses", "wait", "write",
}  # fmt: skip
_ENDS = re.compile(r"</?(?:finish|reject)\b[^>\n]*>")


@dataclass
class Words:
    """What of a reply is shown. `hides` says that an edit is being written at the moment; `ends` that what ends a task
    is shown too, as it has become true."""

    hides: bool = False
    ends: bool = False
    _line: str = ""  # the line so far; nothing of it is shown while it may become the head of something
    _passing: bool = False
    _closing: re.Pattern[str] | None = field(default=None, repr=False)
    _blank: int = 0  # lines that are shown once words come after them
    _most: int = 0  # of them: none before the first words of a reply, one where something hidden stood

    def feed(self, piece: str) -> str:
        """The part that is to be shown of the reply up to the end of `piece`, and was not shown before."""
        shown = ""
        for part in re.findall(r"[^\n]*\n|[^\n]+", piece):
            ended = part.endswith("\n")
            if not self._passing:
                self._line += part
            if self._closing is not None:
                if ended and self._closing.search(self._line):
                    self._closing, self.hides = None, False
            elif self._passing:
                shown += part
            elif ended or not _undecided(self._line):
                shown += self._begun()
                self._passing = not ended
            if ended:
                self._line, self._passing = "", False
        return shown

    def rest(self) -> str:
        """What was held back at the end of the reply."""
        line, passing, hidden = self._line, self._passing, self._closing
        self._line, self._passing, self._closing, self.hides = "", False, None, False
        last = (
            ""
            if passing or hidden is not None or self._opens(line)
            else self._with_blank(_without_ends(line))
        )
        self._blank = self._most = 0
        return last

    def _begun(self) -> str:
        """Look at the line as far as it goes: its text, or nothing where something hidden begins with it."""
        closing = self._opens(self._line)
        if closing is None:
            return self._with_blank(_without_ends(self._line))
        self._most = min(self._most, 1)
        if not closing.search(self._line[1:]):
            self._closing, self.hides = closing, _FENCE.match(self._line) is not None
        return ""

    def _opens(self, line: str) -> re.Pattern[str] | None:
        """What ends the hidden part that begins with this line; None for a line of words."""
        if fence := _FENCE.match(line):
            info = fence[2].lower()
            if info in {"diff", "patch"} or "." in info or "/" in info:
                return re.compile(rf"^\s*{fence[1][0]}{{{len(fence[1])},}}\s*$")
            return None
        tag = _TAG.match(line)
        if tag is None or tag[1] not in _DATA | _ACTIONS | (set() if self.ends else _LAST):
            return None
        return re.compile(rf"/>\s*$|</{tag[1]}\b")

    def _with_blank(self, line: str) -> str:
        """A line of words after the blank ones before it."""
        if not line.strip():
            self._blank += line.endswith("\n")
            return ""
        blank, self._blank = min(self._blank, self._most), 0
        self._most = sys.maxsize
        return "\n" * blank + line


@dataclass
class Fold:
    """Folds words that come in pieces at `width` columns, between words."""

    width: int
    _column: int = 0
    _gap: str = ""
    _word: str = ""

    def feed(self, text: str) -> str:
        """The text, folded, up to its last whole word."""
        done = ""
        for token in re.findall(r"\n|[^\S\n]+|\S+", text):
            if token == "\n":
                done += self.rest() + "\n"
                self._column = 0
            elif token.isspace():
                done += self._put()
                self._gap += token
            else:
                self._word += token
        return done

    def rest(self) -> str:
        """The last word, and no gap after it."""
        word = self._put()
        self._gap = ""
        return word

    def _put(self) -> str:
        word, self._word = self._word, ""
        if not word:
            return ""
        gap, self._gap = self._gap, ""
        shown = clean(word)
        size = columns(clean(gap), self._column)
        if self._column and self._column + size + columns(shown) > self.width:
            gap, self._column, size = "\n", 0, 0
        self._column += size + columns(shown)
        return gap + word


class Plain(Fold):
    """Words as they are, folded and clean: for a terminal that shows no styles."""

    holds_table = False

    def feed(self, text: str) -> str:
        return clean(super().feed(text.replace("\r\n", "\n")))

    def rest(self) -> str:
        return clean(super().rest())


def _without_ends(line: str) -> str:
    """The line without the tags that end a task, where it begins with one."""
    return _ENDS.sub("", line) if line.lstrip().startswith("<") else line


def _undecided(line: str) -> bool:
    """Whether more of the line has to come before it is known what begins with it."""
    text = line.lstrip()
    return (
        not text
        or text.startswith("<")
        or any(text.startswith(mark) or mark.startswith(text) for mark in ("```", "~~~"))
    )
