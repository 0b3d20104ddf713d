"""The data model: `FilePatch`, `Hunk` and `HunkLine` of an answer; `FileText`, the bytes of a file as lines."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import cached_property, lru_cache
from itertools import chain

from repoagent.dataclass import dataclass

CONTEXT, DELETE, ADD = " ", "-", "+"


@dataclass(frozen=True, slots=True)
class HunkLine:
    """One line of a hunk.

    bare: whether it has no first column.
    cr: whether it ends in a carriage return.
    rewritten: whether it is context that the answer deletes and adds again, so that the file must contain it exactly.
    """

    kind: str
    text: str
    bare: bool = False
    cr: bool = False
    rewritten: bool = False

    @property
    def raw(self) -> str:
        return self.text + "\r" * self.cr


@dataclass(frozen=True)
class Hunk:
    """One hunk of a patch.

    start: the old line number in its header (from 1), or None.
    counts: the old and new lengths in its header, or None.
    headings: the texts after `@@`, outermost first; `section` is the last one.
    old_marker, new_marker: whether the last line of that side is marked as having no newline.
    at_end: whether the last line is marked as the last of the file.
    tolerances: those that parsing the hunk needed.
    alternatives: all readings of the same text, between which the file decides.
    """

    lines: tuple[HunkLine, ...]
    number: int = 1
    start: int | None = None
    counts: tuple[int, int] | None = None
    section: str = ""
    old_marker: bool = False
    new_marker: bool = False
    at_end: bool = False
    tolerances: frozenset[str] = frozenset()
    headings: tuple[str, ...] = ()
    alternatives: tuple[Hunk, ...] = ()

    @cached_property
    def old(self) -> tuple[HunkLine, ...]:
        """The lines that the file must contain: context and deleted lines."""
        return tuple(line for line in self.lines if line.kind != ADD)

    @cached_property
    def new(self) -> tuple[HunkLine, ...]:
        """The lines after the change: context and added lines."""
        return tuple(line for line in self.lines if line.kind != DELETE)

    @property
    def added(self) -> tuple[HunkLine, ...]:
        return tuple(line for line in self.lines if line.kind == ADD)

    @property
    def deleted(self) -> tuple[HunkLine, ...]:
        return tuple(line for line in self.lines if line.kind == DELETE)

    @property
    def changes(self) -> bool:
        """Whether the hunk changes a line, or the newline at the end of the file."""
        return self.old_marker != self.new_marker or any(line.kind != CONTEXT for line in self.lines)

    @property
    def exact_counts(self) -> bool:
        return self.counts == (len(self.old), len(self.new))

    @property
    def is_short(self) -> bool:
        """Whether the header declares more lines than the hunk has, as in a truncated answer."""
        if self.counts is None:
            return False
        missing = (self.counts[0] - len(self.old), self.counts[1] - len(self.new))
        return min(missing) >= 0 and max(missing) > 0

    @property
    def is_complete(self) -> bool:
        """Whether the hunk has the declared lines, or has more and ends with context."""
        if self.exact_counts:
            return True
        return (
            self.counts is not None
            and not self.is_short
            and bool(self.lines)
            and self.lines[-1].kind == CONTEXT
        )


class Revision(IntEnum):
    """What the text before a patch says about earlier patches.

    NEUTRAL: nothing.
    VERSION: this patch is a better version.
    CORRECTS: this patch seems to correct the earlier ones.
    NEW: this is the corrected patch.
    WITHDRAWS: the earlier patches are withdrawn.
    """

    NEUTRAL = 0
    VERSION = 1
    CORRECTS = 2
    NEW = 3
    WITHDRAWS = 4


@dataclass(frozen=True)
class FilePatch:
    """The patch to one file in one block of an answer.

    old, new: the names as written; None if absent.
    action: "edit", "create", "delete", "rename" or "copy".
    form: "diff", "envelope", "search-replace" or "whole-file".
    whole: the new text of the file, or of its lines `rows` (half-open, from 0).
    cut: whether the answer seems to end inside the patch.
    revision: the effect of `prose`, the text before the block, on earlier patches.
    alternative: whether that text offers the patch as one of several choices.
    tolerances: those that parsing the name and the patch as a whole needed.
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
    revision: Revision = Revision.NEUTRAL
    prose: str = ""
    alternative: bool = False
    tolerances: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The new name as written, or else the old one; "" if there is neither."""
        return self.new or self.old or ""

    @property
    def revises(self) -> bool:
        return self.revision > Revision.NEUTRAL


def unchanged_as_context(lines: Sequence[HunkLine]) -> tuple[HunkLine, ...]:
    """Return `lines` with each pair of identical lines `-x` and `+x` replaced by context.

    Only elisions and pairs at the start or end of a run of changed lines are replaced.
    """
    result: list[HunkLine] = []
    at = 0
    while at < len(lines):
        middle = _run_end(lines, at, DELETE)
        end = _run_end(lines, middle, ADD)
        deleted, added = lines[at:middle], lines[middle:end]
        old_elisions = [row for row, line in enumerate(deleted) if is_elision(line.text)]
        new_elisions = [row for row, line in enumerate(added) if is_elision(line.text)]
        old_start = new_start = 0
        if [deleted[row].text for row in old_elisions] == [added[row].text for row in new_elisions]:
            for old_row, new_row in zip(old_elisions, new_elisions, strict=True):
                result += _common_ends_as_context(deleted[old_start:old_row], added[new_start:new_row])
                result.append(replace(deleted[old_row], kind=CONTEXT))
                old_start, new_start = old_row + 1, new_row + 1
        result += _common_ends_as_context(deleted[old_start:], added[new_start:])
        at = end
        if at < len(lines) and lines[at].kind == CONTEXT:
            result.append(lines[at])
            at += 1
    return tuple(result)


def _run_end(lines: Sequence[HunkLine], at: int, kind: str) -> int:
    while at < len(lines) and lines[at].kind == kind:
        at += 1
    return at


def _common_ends_as_context(deleted: Sequence[HunkLine], added: Sequence[HunkLine]) -> list[HunkLine]:
    equal = [(a.text, a.cr) == (b.text, b.cr) for a, b in zip(deleted, added, strict=False)]
    shorter = min(len(deleted), len(added))
    head = equal.index(False) if False in equal else shorter
    tail = 0
    while tail < shorter - head:
        old, new = deleted[-1 - tail], added[-1 - tail]
        if (old.text, old.cr) != (new.text, new.cr):
            break
        tail += 1
    last = len(deleted) - tail
    return [
        *(replace(line, kind=CONTEXT, rewritten=True) for line in deleted[:head]),
        *deleted[head:last],
        *added[head : len(added) - tail],
        *(replace(line, kind=CONTEXT, rewritten=True) for line in deleted[last:]),
    ]


_COMMENT = r"(?:#|//|/\*|<!--|--|;|%|\{/\*|\"\"\")"
_OMITTED = (
    r"(?:existing|unchanged|remaining|rest of|omitted|same|as before|previous code|other "
    r"(?:code|methods|functions)"
    r"|keep|snip|truncated|more code|code here)"
)
_ELISION = re.compile(
    rf"^\s*(?:(?:{_COMMENT}\s*)?(?:\.{{3,}}|…)\s*(?:\*/\}}?|-->)?"
    rf"|{_COMMENT}\s*[(\[]?(?:\.{{3,}}|…).*{_OMITTED}.*"
    rf"|{_COMMENT}\s*.*{_OMITTED}[^()=;]*(?:\.{{3,}}|…)\s*[)\]]?\s*(?:\*/\}}?|-->)?"
    rf"|{_COMMENT}\s*[(\[]?(?:the )?rest of .*\b(?:unchanged|same|omitted|as before|as (?:it )?(?:is|was))\b.*"
    rf"|[(\[](?:\.{{3,}}|…)?.*{_OMITTED}.*(?:\.{{3,}}|…)?[)\]])\s*$",
    re.IGNORECASE,
)
_SAYS_OMITTED = re.compile(_OMITTED, re.IGNORECASE)
_COMMENTED_CODE = re.compile(rf"\s*{_COMMENT}\s{{2,}}{_COMMENT}")  # a comment in code that a comment quotes


def is_elision(text: str) -> bool:
    """Whether a line is a placeholder for omitted code: `...`, `# ...`, `// ... existing code ...`."""
    return len(text) < 160 and _ELISION.match(text) is not None


def is_explicit_elision(text: str) -> bool:
    """Whether a line is an elision that cannot be literal text: a comment about omitted code, or dots at column 0."""
    if _COMMENTED_CODE.match(text) or text.startswith("...."):  # AsciiDoc delimits blocks with four dots
        return False
    return is_elision(text) and (_SAYS_OMITTED.search(text) is not None or not text[:1].isspace())


_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SURROGATE = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True)
class FileText:
    """The decoded lines of a file, split at newlines or, in a file without newlines, at carriage returns.

    `endings[i]` is LF, CRLF, CR, or "" for a last line without an ending.
    """

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
        """Return the file's bytes. Raises UnicodeEncodeError for a character that the encoding lacks."""
        joined = "".join(chain.from_iterable(zip(self.lines, self.endings, strict=True)))
        return self.bom + joined.encode(self.encoding, self.errors)


@lru_cache(maxsize=4)
def decode_text(data: bytes) -> FileText | None:
    """Decode `data`, or return None if it is binary. `encode` on the result returns exactly `data`.

    UTF-16 is recognized by its byte-order mark. Mostly valid UTF-8 keeps invalid bytes as surrogate escapes; anything
    else is Latin-1. NULs make a file binary, unless the rest is UTF-8 and there are fewer NULs than lines.
    """
    bom, encoding = next((entry for entry in _BOMS if data.startswith(entry[0])), (b"", ""))
    encoding = encoding or "utf-8"
    body = data[len(bom) :]
    errors = "strict"
    try:
        decoded = body.decode(encoding)
    except UnicodeDecodeError:
        if encoding != "utf-8" or b"\0" in body:
            return None
        decoded = body.decode("utf-8", "surrogateescape")
        escaped = sum("\udc80" <= char <= "\udcff" for char in decoded)
        multibyte = sum(char >= "\x80" for char in decoded) - escaped
        if multibyte > escaped:
            errors = "surrogateescape"
        else:
            encoding, decoded = "latin-1", body.decode("latin-1")
    if "\0" in decoded and decoded.count("\0") > decoded.count("\n"):
        return None
    return FileText(*split_lines(decoded), encoding, errors, bom)


def raw_text(data: bytes) -> FileText:
    """Return the lines as git counts them: split at LF only, with the byte-order mark and carriage returns."""
    *lines, last = data.decode("utf-8", "surrogateescape").split("\n")
    endings = ["\n"] * len(lines)
    if last:
        lines, endings = [*lines, last], [*endings, ""]
    return FileText(tuple(lines), tuple(endings), errors="surrogateescape")


def split_lines(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lines of a text without their endings, and the endings, as in `FileText`."""
    newline = "\n" if "\n" in text or "\r" not in text else "\r"
    lines = text.split(newline)
    tail = lines.pop()
    endings = [newline] * len(lines)
    if "\r\n" in text:
        for number, line in enumerate(lines):
            if line.endswith("\r"):
                lines[number], endings[number] = line[:-1], "\r\n"
    if tail:
        lines.append(tail)
        endings.append("")
    return tuple(lines), tuple(endings)


def in_encoding_of(text: FileText, line: str) -> str:
    """Convert a line of an answer to the encoding of `text`: for Latin-1, surrogate escapes become characters."""
    if text.encoding != "latin-1":
        return line
    return _SURROGATE.sub(lambda match: chr(ord(match[0]) - 0xDC00), line)


def with_line_numbers(lines: Iterable[tuple[int, str]]) -> str:
    """Return the lines as text, each after its number; numbers count from 0 in `lines` and from 1 in the text."""
    return "\n".join(f"{number + 1:>6}  {text}" for number, text in lines)
