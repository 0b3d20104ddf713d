"""Undo changes of editors to the encoding, line endings and final blank lines of a segment; refuse if impossible."""

from __future__ import annotations

import re

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.syntax.parser import UTF8_MARK, WIDE_MARKS

_NAMES = {b"\n": "LF", b"\r\n": "CRLF", b"\r": "CR"}
_ENDING = re.compile(rb"\r\n|\n|\r")
_FINAL_ENDINGS = re.compile(rb"(?:\r\n|\n|\r)*\Z")
_CONFLICT = re.compile(rb"^(?:<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|) [^\r\n]*", re.MULTILINE)


@dataclass(frozen=True)
class SourceFacts:
    """The encoding of a source ("utf-8", "binary", or "latin-1" for any other single-byte encoding), and its line
    endings."""

    encoding: str
    endings: frozenset[bytes] = frozenset()


@dataclass(frozen=True)
class NormalizedSegment:
    """The normalized bytes of a segment file, and a sentence for each correction."""

    data: bytes
    notes: tuple[str, ...] = ()


def source_facts(base: bytes, encoding: str) -> SourceFacts:
    """The facts of the text that was split; `encoding` is that of its index. It is UTF-8 despite a few invalid
    bytes."""
    if encoding == "binary":
        return SourceFacts(encoding)
    text = base.decode("utf-8", "surrogateescape")
    invalid = sum("\udc80" <= char <= "\udcff" for char in text)
    is_utf8 = not invalid or sum(char >= "\x80" for char in text) - invalid > invalid
    return SourceFacts("utf-8" if is_utf8 else "latin-1", frozenset(line_endings(base)))


def normalize_segment(
    file: str, before: bytes, after: bytes, facts: SourceFacts, *, last: bool = False
) -> NormalizedSegment:
    """The saved content `after` of the segment `file`, with the byte-order mark, line endings and final blank lines of
    `before`, its content before the edit. The end of the `last` segment may lose blank lines.

    Raises Refused for another encoding, ambiguous line endings, a truncated file, and conflict markers.
    """
    if after == before or facts.encoding == "binary":
        return NormalizedSegment(after)
    if not after:
        return NormalizedSegment(UTF8_MARK if before.startswith(UTF8_MARK) else b"")
    notes: list[str] = []
    _check_encoding(file, before, after, utf8=facts.encoding == "utf-8")
    if after.startswith(UTF8_MARK) and not before.startswith(UTF8_MARK):
        after = after.removeprefix(UTF8_MARK)
        notes.append(f"{file}: removed a byte-order mark")
    elif before.startswith(UTF8_MARK) and not after.startswith(UTF8_MARK):
        after = UTF8_MARK + after
        notes.append(f"{file}: restored the byte-order mark")
    known = {match[0] for match in _CONFLICT.finditer(before)}
    if marker := next((match for match in _CONFLICT.finditer(after) if match[0] not in known), None):
        line = _line_at(after, marker.start())
        raise Refused(f"{file} has conflict markers (line {line}); resolve the conflict and join again")
    after = _with_endings_of(file, before, after, facts.endings, notes)
    after = _with_end_of(file, before, after, notes, last=last)
    return NormalizedSegment(after, tuple(notes))


def line_endings(data: bytes) -> set[bytes]:
    """The kinds of line endings in `data`."""
    crlf = {b"\r\n"} if b"\r\n" in data else set()
    rest = data.replace(b"\r\n", b"") if crlf else data
    return crlf | {ending for ending in (b"\n", b"\r") if ending in rest}


def with_ending(data: bytes, ending: bytes) -> bytes:
    """`data` with this line ending throughout."""
    return _ENDING.sub(lambda _: ending, data)


def _line_at(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


def _check_encoding(file: str, before: bytes, after: bytes, *, utf8: bool) -> None:
    """Raise Refused if a file is no longer in the encoding of its source."""
    wanted = "UTF-8" if utf8 else "its original single-byte encoding"
    wide = next((name for mark, name in WIDE_MARKS.items() if after.startswith(mark)), "")
    if wide and not before.startswith(tuple(WIDE_MARKS)):
        raise Refused(f"{file} was saved as {wide}; save it in {wanted} and join again")
    if b"\0" in after and b"\0" not in before:
        raise Refused(f"the edited {file} contains NUL bytes; save it as text and join again")
    was_valid = _is_utf8(before)
    try:
        text = after.decode()
    except UnicodeDecodeError as error:
        if utf8 and was_valid:
            raise Refused(
                f"{file} is no longer valid UTF-8 (line {_line_at(after, error.start)}), but the source is; save it "
                "as UTF-8 and join again"
            ) from None
        return
    if text.removeprefix("\ufeff").isascii() or (was_valid and not before.isascii()) or (utf8 and was_valid):
        return
    if "\ufffd" in text:
        line = text.count("\n", 0, text.index("\ufffd")) + 1
        raise Refused(
            f"{file} was edited by a program that replaced some characters by U+FFFD (line {line}); restore the "
            "segment, and edit it in the encoding of the source"
        )
    if not utf8:
        line = next(number for number, line in enumerate(text.split("\n"), 1) if not line.isascii())
        raise Refused(f"{file} was saved as UTF-8 (line {line}); save it in {wanted} and join again")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _with_endings_of(
    file: str, before: bytes, after: bytes, source_endings: frozenset[bytes], notes: list[str]
) -> bytes:
    """`after` with the line endings of `before`, or of the source if `before` has none."""
    known, present = line_endings(before) or source_endings, line_endings(after)
    if not known and len(present) < 2:
        return after
    if len(known) > 1:
        line = _first_changed_ending(before, after) or (not present <= known and _first_other(after, known))
        if line:
            raise Refused(
                f"{file} has mixed line endings, and the edit changed those of unchanged lines (first on line {line}); "
                "restore the segment, or edit it with a program that preserves them"
            )
        return after
    (own,) = known or _ENDING.findall(after)[:1]
    if present <= {own}:
        return after
    if len(present) > 1:
        raise Refused(
            f"the edited {file} has mixed line endings: line {_first_other(after, {own})} does not end in "
            f"{_NAMES[own]} like the others; use one line ending throughout and join again"
        )
    (other,) = present
    notes.append(f"{file}: changed the line endings from {_NAMES[other]} back to {_NAMES[own]}")
    return with_ending(after, own)


def _first_other(data: bytes, known: set[bytes] | frozenset[bytes]) -> int:
    """The first line, from 1, with an ending that is not `known`."""
    return next(number for number, match in enumerate(_ENDING.finditer(data), 1) if match[0] not in known)


def _first_changed_ending(before: bytes, after: bytes) -> int:
    """The first line of `after`, from 1, whose text has only other endings in `before`; 0 for none."""
    old: dict[bytes, set[bytes]] = {}
    for line in before.splitlines(keepends=True):
        text = line.rstrip(b"\r\n")
        old.setdefault(text, set()).add(line[len(text) :])
    for number, line in enumerate(after.splitlines(keepends=True), 1):
        text = line.rstrip(b"\r\n")
        ending = line[len(text) :]
        if text and ending and ending not in old.get(text, {ending}):
            return number
    return 0


def _with_end_of(file: str, before: bytes, after: bytes, notes: list[str], *, last: bool) -> bytes:
    """`after` with the final newline and blank lines of `before`. A formatter treats a segment as a whole file and
    removes the blank lines at its end."""
    old, new = _final_endings(before), _final_endings(after)
    blank_lines = len(_ENDING.findall(old)) - 1
    blank = f"the blank line{'s' * (blank_lines > 1)}"
    if old and not new:
        if before.startswith(after) and not before.startswith((b"\n", b"\r"), len(after)):
            raise Refused(
                f"{file} looks truncated in line {_line_at(after, len(after))}, as after an interrupted save; restore "
                "it, or if this is intended, end the line with a newline; then join again"
            )
        more = f" and {blank} before it" if blank_lines else ""
        notes.append(f"{file}: restored the final newline{more}")
        return after + old
    if new and before and not old:
        notes.append(f"{file}: removed the final newline, since the source has none there")
        return after[: -len(new)]
    same_text = _last_text(before) == _last_text(after)
    if blank_lines > 0 and len(_ENDING.findall(new)) == 1 and same_text and not last:
        notes.append(f"{file}: restored {blank} before the next segment")
        return after[: -len(new)] + old
    return after


def _last_text(data: bytes) -> bytes:
    """The last nonblank line of the last 4 KB."""
    return next((line for line in reversed(data[-4096:].splitlines()) if line), b"")


def _final_endings(data: bytes) -> bytes:
    match = _FINAL_ENDINGS.search(data, max(0, len(data) - 4096))
    return match[0] if match else b""
