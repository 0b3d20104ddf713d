"""The data model: `FilePatch`, `Hunk` and `Line` as an answer writes them; `Text`, a file's bytes as lines and back."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import lru_cache
from itertools import chain

from repoagent.dataclass import dataclass

CONTEXT, DELETE, ADD = " ", "-", "+"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a hunk. `bare`: it came without a first column; `cr`: it ended in a carriage return; `rewritten`: it
    is context that was written as deleted and added again, so the file must have it as it is."""

    kind: str
    text: str
    bare: bool = False
    cr: bool = False
    rewritten: bool = False


@dataclass(frozen=True)
class Hunk:
    """One hunk. `start` is the line number that its header gives for the old file (from 1), `counts` the
    declared old and new lengths; both are None when absent. `old_marker` and `new_marker` tell whether that
    side's last line was marked as having no newline. `section` is the heading after `@@`, the last where there
    are several one after another (`headings`, outermost first). `at_end` tells that the old lines end the file.
    `otherwise` are other readings of the same text, for which the file decides. `tolerances` are those that
    reading it needed."""

    lines: tuple[Line, ...]
    number: int = 1
    start: int | None = None
    counts: tuple[int, int] | None = None
    section: str = ""
    old_marker: bool = False
    new_marker: bool = False
    tolerances: frozenset[str] = frozenset()
    headings: tuple[str, ...] = ()
    at_end: bool = False
    otherwise: tuple[Hunk, ...] = ()

    @property
    def old(self) -> tuple[Line, ...]:
        """The lines that the file must hold: context and deleted ones."""
        return tuple(line for line in self.lines if line.kind != ADD)

    @property
    def new(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.kind != DELETE)

    @property
    def added(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.kind == ADD)

    @property
    def deleted(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.kind == DELETE)

    @property
    def changes(self) -> bool:
        """Does it ask for any change (of a line, or of the newline at the end)?"""
        return self.old_marker != self.new_marker or any(line.kind != CONTEXT for line in self.lines)

    @property
    def exact_counts(self) -> bool:
        return self.counts == (len(self.old), len(self.new))

    @property
    def short(self) -> bool:
        """Its header promises more lines than came, and none fewer: the sign of a cut answer."""
        if self.counts is None:
            return False
        missing = (self.counts[0] - len(self.old), self.counts[1] - len(self.new))
        return min(missing) >= 0 and max(missing) > 0

    @property
    def whole(self) -> bool:
        """Does its header tell that all of it came? One that promises fewer lines does, if a line of the file is
        the last."""
        return self.exact_counts or (
            self.counts is not None
            and not self.short
            and self.lines[-1:] != ()
            and self.lines[-1].kind == CONTEXT
        )


class Revision(IntEnum):
    """What the text before a patch says about the patches above it.

    VERSION: it is a better version; CORRECTS: it seems to correct them; NEW: it is the corrected patch; WITHDRAWS: they
    are withdrawn.
    """

    NEUTRAL = 0
    VERSION = 1
    CORRECTS = 2
    NEW = 3
    WITHDRAWS = 4


@dataclass(frozen=True)
class FilePatch:
    """What one part of an answer asks for one file.

    `old` and `new` are names as written (None: not given); `action` is "edit", "create", "delete", "rename"
    or "copy". `whole` holds the complete new text of a whole-file answer, or of the lines `rows` of that file
    (from 0, the second is not included). `form` is "diff", "envelope", "search-replace"
    or "whole-file"; `block` counts the separate patches of the answer. `cut` tells that the answer seems to
    end inside it, `unclosed` that its fence lacks its end. `words`: what the text before its block (`prose`) makes
    of the patches above; `completes`: that what it does not speak of stays; `alternative`: they offer it as one of
    several choices. `tolerances` are those that reading the file's name and the patch as a whole needed.
    """

    old: str | None
    new: str | None
    form: str = "diff"
    action: str = "edit"
    hunks: tuple[Hunk, ...] = ()
    whole: str | None = None
    rows: tuple[int, int] | None = None
    mode: str | None = None
    binary: bool = False
    cut: bool = False
    unclosed: bool = False
    block: int = 0
    words: Revision = Revision.NEUTRAL
    prose: str = ""
    completes: bool = False
    alternative: bool = False
    tolerances: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.new or self.old or ""

    @property
    def revises(self) -> bool:
        """Do the words before it withdraw or correct what came before?"""
        return self.words > Revision.NEUTRAL


_Run = tuple[list[Line], list[Line], list[Line]]


def settle(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The same change with each `-x` that is answered by an equal `+x` as context, at both ends of a run; and so each
    line that stands for what is left out."""
    settled: list[Line] = []
    for deleted, added, rest in _parted(_runs(lines)):
        head = 0
        while head < min(len(deleted), len(added)) and _same(deleted[head], added[head]):
            head += 1
        tail = 0
        while tail < min(len(deleted), len(added)) - head and _same(deleted[-1 - tail], added[-1 - tail]):
            tail += 1
        settled += [replace(line, kind=CONTEXT, rewritten=True) for line in deleted[:head]]
        settled += deleted[head : len(deleted) - tail]
        settled += added[head : len(added) - tail]
        settled += [replace(line, kind=CONTEXT, rewritten=True) for line in deleted[len(deleted) - tail :]]
        settled += rest
    return tuple(settled)


def _parted(runs: Iterable[_Run]) -> Iterator[_Run]:
    """The runs, cut at each elision that is deleted and added again."""
    for deleted, added, rest in runs:
        gone = [at for at, line in enumerate(deleted) if is_elision(line.text)]
        come = [at for at, line in enumerate(added) if is_elision(line.text)]
        first = second = 0
        if [deleted[at].text for at in gone] == [added[at].text for at in come]:
            for at, other in zip(gone, come, strict=True):
                yield deleted[first:at], added[second:other], [replace(deleted[at], kind=CONTEXT)]
                first, second = at + 1, other + 1
        yield deleted[first:], added[second:], rest


def _same(one: Line, other: Line) -> bool:
    return one.text == other.text and one.cr == other.cr


def _runs(lines: Sequence[Line]) -> Iterator[_Run]:
    """The hunk as runs of deletions, the additions right after them, and then one line of context or none."""
    at = 0
    while at < len(lines):
        deleted, added, rest = [], [], []
        while at < len(lines) and lines[at].kind == DELETE:
            deleted.append(lines[at])
            at += 1
        while at < len(lines) and lines[at].kind == ADD:
            added.append(lines[at])
            at += 1
        if at < len(lines) and lines[at].kind == CONTEXT:
            rest.append(lines[at])
            at += 1
        yield deleted, added, rest


_COMMENT = r"(?:#|//|/\*|<!--|--|;|%|\{/\*|\"\"\")"
_WORDS = (
    r"(?:existing|unchanged|remaining|rest of|omitted|same as|as before|previous code|other "
    r"(?:code|methods|functions)"
    r"|keep|snip|truncated|more code|code here)"
)
_ELISION = re.compile(
    rf"^\s*(?:(?:{_COMMENT}\s*)?(?:\.{{3,}}|…)\s*(?:\*/\}}?|-->)?"
    rf"|{_COMMENT}\s*[(\[]?(?:\.{{3,}}|…).*{_WORDS}.*"
    rf"|{_COMMENT}\s*.*{_WORDS}[^()=;]*(?:\.{{3,}}|…)\s*[)\]]?\s*(?:\*/\}}?|-->)?"
    rf"|[(\[](?:\.{{3,}}|…)?.*{_WORDS}.*(?:\.{{3,}}|…)?[)\]])\s*$",
    re.IGNORECASE,
)
_SPOKEN = re.compile(_WORDS, re.IGNORECASE)
_SHOWN = re.compile(rf"\s*{_COMMENT}\s{{2,}}{_COMMENT}")  # a comment in the code that a comment shows


def is_elision(text: str) -> bool:
    """Does a line stand for code left out: `...`, `# ...`, `// ... existing code ...`?"""
    return len(text) < 160 and _ELISION.match(text) is not None


def is_spoken_elision(text: str) -> bool:
    """An elision that no programmer means literally: a comment that says so in words, or dots at column 0."""
    if _SHOWN.match(text) or text.startswith("...."):  # which AsciiDoc begins and ends a block with
        return False
    return is_elision(text) and (_SPOKEN.search(text) is not None or not text[:1].isspace())


_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_ESCAPED = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True)
class SourceText:
    """A file as the model was shown it: raw work-tree bytes and git's mode ("100644", "100755", "120000")."""

    data: bytes
    mode: str = "100644"


@dataclass(frozen=True)
class Text:
    """Decoded lines. They end at newlines or, in a file without any, at lone carriage returns. `endings[i]` is LF,
    CRLF, CR, or "" for a last line without one."""

    lines: tuple[str, ...]
    endings: tuple[str, ...]
    encoding: str = "utf-8"
    errors: str = "strict"
    bom: bytes = b""

    @property
    def final_newline(self) -> bool:
        """Whether the last line ends in a newline; True for an empty file."""
        return not self.endings or bool(self.endings[-1])

    def encode(self) -> bytes:
        """The bytes. Raises UnicodeEncodeError for a character that the encoding lacks."""
        whole = "".join(chain.from_iterable(zip(self.lines, self.endings, strict=True)))
        return self.bom + whole.encode(self.encoding, self.errors)


@lru_cache(maxsize=4)
def decode(data: bytes) -> Text | None:
    """The lines of `data`, or None if it is binary. `decode(data).encode() == data` always holds. The last few results
    are cached.

    UTF-16 is recognized by its byte-order mark or by the NULs of ASCII letters; mostly valid UTF-8 keeps its bad bytes
    as surrogate escapes; anything else is Latin-1. NULs make a file binary unless the rest is UTF-8 and there are fewer
    of them than lines.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return _decoded(data, bom, encoding)
    return _decoded(data, b"", _wide(data) or "utf-8")


def _wide(data: bytes) -> str | None:
    """UTF-16 without a byte-order mark: of letters below U+0100 each other byte is a NUL, and nearly always
    the same one."""
    if len(data) % 2 or b"\0" not in data[:64]:
        return None
    first, second, half = data[::2].count(0), data[1::2].count(0), len(data) // 2
    if not first and second >= 0.7 * half:
        return "utf-16-le"
    return "utf-16-be" if not second and first >= 0.7 * half else None


def _decoded(data: bytes, bom: bytes, encoding: str) -> Text | None:
    body = data[len(bom) :]
    errors = "strict"
    try:
        whole = body.decode(encoding)
    except UnicodeDecodeError:
        if encoding != "utf-8" or b"\0" in body:
            return None
        whole = body.decode("utf-8", "surrogateescape")
        escaped = sum("\udc80" <= char <= "\udcff" for char in whole)
        multibyte = sum(char >= "\x80" for char in whole) - escaped
        if multibyte > escaped:
            errors = "surrogateescape"
        else:
            encoding, whole = "latin-1", body.decode("latin-1")
    if "\0" in whole and whole.count("\0") > whole.count("\n"):
        return None
    lines, endings = split_lines(whole)
    return Text(lines, endings, encoding, errors, bom)


def split_lines(whole: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lines without their endings, and the endings, as in `Text`."""
    mark = "\n" if "\n" in whole or "\r" not in whole else "\r"
    lines = whole.split(mark)
    tail = lines.pop()
    endings = [mark] * len(lines)
    if "\r\n" in whole:
        for number, line in enumerate(lines):
            if line.endswith("\r"):
                lines[number], endings[number] = line[:-1], "\r\n"
    if tail:
        lines.append(tail)
        endings.append("")
    return tuple(lines), tuple(endings)


def as_in(text: Text, line: str) -> str:
    """A line of an answer in the encoding of `text`: surrogates, that is bytes that are not UTF-8, are characters of
    a Latin-1 file."""
    if text.encoding != "latin-1":
        return line
    return _ESCAPED.sub(lambda match: chr(ord(match[0]) - 0xDC00), line)


def numbered(lines: Iterable[tuple[int, str]]) -> str:
    """Lines (from 0) for an error text, numbered from 1."""
    return "\n".join(f"{number + 1:>6}  {text}" for number, text in lines)
