"""Undo changes of editors to the encoding, line endings and final blank lines of a segment; refuse if impossible."""

from __future__ import annotations

import re

from repoagent.errors import Refused
from repoagent.syntax.parser import UTF8_MARK, WIDE_MARKS

_NAMES = {b"\n": "LF", b"\r\n": "CRLF", b"\r": "CR"}
_ENDING = re.compile(rb"\r\n|\n|\r")
_FINAL_ENDINGS = re.compile(rb"(?:\r\n|\n|\r)*\Z")
_CONFLICT = re.compile(rb"^(?:<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|) [^\r\n]*", re.MULTILINE)


def is_mostly_utf8(data: bytes) -> bool:
    """Whether the encoding is UTF-8, despite a few invalid bytes."""
    text = data.decode("utf-8", "surrogateescape")
    invalid = sum("\udc80" <= char <= "\udcff" for char in text)
    return not invalid or sum(char >= "\x80" for char in text) > 2 * invalid


def line_endings(data: bytes) -> set[bytes]:
    """The kinds of line endings in `data`."""
    crlf = {b"\r\n"} if b"\r\n" in data else set()
    rest = data.replace(b"\r\n", b"") if crlf else data
    return crlf | {ending for ending in (b"\n", b"\r") if ending in rest}


def with_ending(data: bytes, ending: bytes) -> bytes:
    """`data` with this line ending throughout."""
    return _ENDING.sub(lambda _: ending, data)


def normalize_segment(
    file: str, before: bytes, after: bytes, *, utf8: bool, endings: set[bytes], last: bool = False
) -> tuple[bytes, list[str]]:
    """The saved content `after` of the segment `file`, with the byte-order mark, line endings and final blank lines of
    `before`, its content before the edit, and a sentence for each correction.

    `utf8` and `endings` are those of the source. The end of the `last` segment may lose blank lines. Raises Refused for
    another encoding, ambiguous line endings, a truncated file, and conflict markers.
    """
    marked = before.startswith(UTF8_MARK)
    if after == before or not after:
        return after or (UTF8_MARK if marked else b""), []
    notes: list[str] = []
    _check_encoding(file, before, after, utf8=utf8)
    if after.startswith(UTF8_MARK) != marked:
        after = UTF8_MARK + after if marked else after.removeprefix(UTF8_MARK)
        notes.append(f"{file}: {'restored the' if marked else 'removed a'} byte-order mark")
    known = {match[0] for match in _CONFLICT.finditer(before)}
    if marker := next((match for match in _CONFLICT.finditer(after) if match[0] not in known), None):
        line = _line_at(after, marker.start())
        raise Refused(f"{file} has conflict markers (line {line}); resolve the conflict and join again")
    after = _with_endings_of(file, before, after, line_endings(before) or endings, notes)
    return _with_end_of(file, before, after, notes, last=last), notes


def _line_at(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


def _check_encoding(file: str, before: bytes, after: bytes, *, utf8: bool) -> None:
    """Raise Refused if a file is no longer in the encoding of its source."""
    encoding = "UTF-8" if utf8 else "its original single-byte encoding"
    if (b"\0" in after and b"\0" not in before) or after.startswith(tuple(WIDE_MARKS)):
        raise Refused(f"{file} has NUL bytes or is UTF-16; save it in {encoding} and join again")
    before_is_utf8 = _invalid_byte(before) is None
    invalid = _invalid_byte(after)
    if invalid is not None:
        if utf8 and before_is_utf8:
            line = _line_at(after, invalid)
            raise Refused(
                f"{file} is no longer valid UTF-8 (line {line}); save it in {encoding} and join again"
            )
        return
    if after.removeprefix(UTF8_MARK).isascii() or (before_is_utf8 and (utf8 or not before.isascii())):
        return
    if (replaced := after.find("\ufffd".encode())) >= 0:
        raise Refused(
            f"{file} was edited by a program that replaced some characters by U+FFFD (line {_line_at(after, replaced)})"
            "; restore the segment, and edit it in the encoding of the source"
        )
    if not utf8:
        line = next(number for number, line in enumerate(after.split(b"\n"), 1) if not line.isascii())
        raise Refused(f"{file} was saved as UTF-8 (line {line}); save it in {encoding} and join again")


def _invalid_byte(data: bytes) -> int | None:
    """The offset of the first byte that is not UTF-8; None if there is none."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def _with_endings_of(file: str, before: bytes, after: bytes, known: set[bytes], notes: list[str]) -> bytes:
    """`after` with the line endings of `before`, which are `known`."""
    present = line_endings(after)
    if not known and len(present) < 2:
        return after
    if len(known) > 1:
        old: dict[bytes, set[bytes]] = {}
        for text, ending in _split_endings(before):
            old.setdefault(text, set()).add(ending)
        for number, (text, ending) in enumerate(_split_endings(after), 1):
            if ending and (ending not in known or (text and ending not in old.get(text, {ending}))):
                raise Refused(
                    f"{file} has mixed line endings, and the edit changed those of unchanged lines (first on line "
                    f"{number}); restore the segment, or edit it with a program that preserves them"
                )
        return after
    own = next(iter(known), b"") or _ENDING.findall(after)[0]
    if present <= {own}:
        return after
    if len(present) > 1:
        line = next(n for n, match in enumerate(_ENDING.finditer(after), 1) if match[0] != own)
        raise Refused(
            f"the edited {file} has mixed line endings: line {line} does not end in {_NAMES[own]} like the others; use "
            "one line ending throughout and join again"
        )
    notes.append(f"{file}: changed the line endings from {_NAMES[present.pop()]} back to {_NAMES[own]}")
    return with_ending(after, own)


def _split_endings(data: bytes) -> list[tuple[bytes, bytes]]:
    """The lines, each as its text and its ending."""
    lines = [(line.rstrip(b"\r\n"), line) for line in data.splitlines(keepends=True)]
    return [(text, line[len(text) :]) for text, line in lines]


def _with_end_of(file: str, before: bytes, after: bytes, notes: list[str], *, last: bool) -> bytes:
    """`after` with the final newline and blank lines of `before`. A formatter treats a segment as a whole file and
    removes the blank lines at its end."""
    old, new = _final_endings(before), _final_endings(after)
    if old and not new:
        if before.startswith(after) and not before.startswith((b"\n", b"\r"), len(after)):
            raise Refused(
                f"{file} looks truncated in line {_line_at(after, len(after))}, as after an interrupted save; restore "
                "it, or if this is intended, end the line with a newline; then join again"
            )
        notes.append(f"{file}: restored the final newline{'s' * (_ENDING.subn(b'', old)[1] > 1)}")
        return after + old
    if new and before and not old:
        notes.append(f"{file}: removed the final newline, since the source has none there")
        return after[: -len(new)]
    one_left = len(_ENDING.findall(new)) == 1 < len(_ENDING.findall(old))
    if one_left and not last and _last_text(before) == _last_text(after):
        notes.append(f"{file}: restored the blank lines before the next segment")
        return after[: -len(new)] + old
    return after


def _last_text(data: bytes) -> bytes:
    """The last nonblank line of the last 4 KB."""
    return next((line for line in reversed(data[-4096:].splitlines()) if line), b"")


def _final_endings(data: bytes) -> bytes:
    match = _FINAL_ENDINGS.search(data, max(0, len(data) - 4096))
    return match[0] if match else b""
