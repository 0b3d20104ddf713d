"""The encoding of a segment as it was: what an editor has saved in another is refused.

The line endings of a segment as they were: put back where an editor has changed all of them, or the last one.

The form in which texts are merged: git counts lines by their line feeds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from repoagent.errors import Refused
from repoagent.syntax.parser import UTF8_MARK, WIDE_MARKS

Read = tuple[bytes, tuple[str, ...]]


def encoding_of(data: bytes) -> str:
    """How a text of bytes is encoded: "utf-8", also where a few bytes of it are none, else "latin-1", which stands for
    any encoding of one byte a character."""
    try:
        data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "surrogateescape")
        escaped = sum("\udc80" <= char <= "\udcff" for char in text)
        return "utf-8" if sum(char >= "\x80" for char in text) - escaped > escaped else "latin-1"
    return "utf-8"


def with_own_encoding(file: str, before: bytes, after: bytes, encoding: str) -> Read:
    """`after` with a byte-order mark only where `before` has one, and what was done. `encoding` is that of the source.

    Raises Refused where `after` is in another.
    """
    wanted = "UTF-8" if encoding == "utf-8" else "the encoding that it had, of one byte a character"
    wide = next((WIDE_MARKS[mark] for mark in WIDE_MARKS if after.startswith(mark)), "")
    if wide and not before.startswith(tuple(WIDE_MARKS)):
        raise Refused(f"{file} was saved as {wide}: save it in {wanted}, and join again")
    if b"\0" in after and b"\0" not in before:
        raise Refused(f"{file} holds NUL bytes since it was edited: save it as text and join again")
    data, notes = with_own_mark(file, before, after)
    old, new = _text(before), _text(data)
    if new is None and old is not None and encoding == "utf-8":
        raise Refused(
            f"{file} is no UTF-8 any more (line {_bad_line(data)}), and the source is: save it as UTF-8 and join again"
        )
    if new is None or new.isascii() or (old is not None and not old.isascii()):
        return data, notes
    if "\ufffd" in new and (old is None or encoding != "utf-8"):
        raise _damaged(file, new)
    if encoding != "utf-8":
        raise Refused(
            f"{file} was saved as UTF-8 (line {_first_beyond_ascii(new)}): save it in {wanted}, and join again"
        )
    return data, notes


def with_own_mark(file: str, before: bytes, after: bytes) -> Read:
    """`after` with a byte-order mark where `before` has one, and none else. Both are UTF-8, or of one byte a
    character."""
    if after.startswith(UTF8_MARK) and not before.startswith(UTF8_MARK):
        return after.removeprefix(UTF8_MARK), (f"{file}: a byte-order mark at its head was taken out",)
    if after and before.startswith(UTF8_MARK) and not after.startswith(UTF8_MARK):
        return UTF8_MARK + after, (f"{file}: the byte-order mark at its head was put back",)
    return after, ()


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _bad_line(data: bytes) -> int:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1
    return 1


def _first_beyond_ascii(text: str) -> int:
    return next(number for number, line in enumerate(text.split("\n"), 1) if not line.isascii())


def _damaged(file: str, text: str) -> Refused:
    line = text.count("\n", 0, text.index("\ufffd")) + 1
    return Refused(
        f"{file} was edited by a program that could not read all of its characters, and has put U+FFFD in their "
        f"place (line {line}): take the segment back, and edit it in the encoding of the source"
    )


NAMES = {b"\n": "LF", b"\r\n": "CRLF", b"\r": "CR"}
_ENDING = re.compile(rb"\r\n|\n|\r")
_LAST = re.compile(rb"(?:\r\n|\n|\r)*\Z")


def endings(data: bytes) -> set[bytes]:
    """The line endings in `data`."""
    found = {b"\r\n"} if b"\r\n" in data else set()
    rest = data.replace(b"\r\n", b"") if found else data
    return found | {mark for mark in (b"\n", b"\r") if mark in rest}


def with_ending(data: bytes, ending: bytes) -> bytes:
    """`data` with this ending after each line."""
    return _ENDING.sub(lambda _: ending, data)


def with_own_endings(
    file: str, before: bytes, after: bytes, usual: set[bytes]
) -> tuple[bytes, tuple[str, ...]]:
    """`after` with the line endings of `before` (those of the source, `usual`, where it has none), and what was done.

    Raises Refused where it has more kinds than before, so that nobody can tell which were meant.
    """
    known = endings(before) or usual
    found = endings(after)
    if not known and len(found) < 2:
        return after, ()  # it was one line
    if found <= known and (len(known) == 1 or not _changed(before, after)):
        return after, ()
    if len(known) == 1 and len(found) == 1:
        (own,), (other,) = known, found
        note = f"{file}: its line endings were {NAMES[other]}, and are {NAMES[own]} again"
        return with_ending(after, own), (note,)
    if len(known) == 1:
        (own,) = known
        line = _first_other(after, own)
        raise Refused(
            f"{file} has mixed line endings since it was edited: line {line} does not end in {NAMES[own]} as the "
            "others did; give all of its lines one ending and join again"
        )
    if not known:
        raise Refused(
            f"{file} has mixed line endings since it was edited: give all of its lines one, and join again"
        )
    raise Refused(
        f"{file} had mixed line endings, and those of lines that are otherwise unchanged were changed (line "
        f"{_changed(before, after) or _first_new(after, known)} first): take the segment back, or edit it with a "
        "program that keeps them"
    )


def _first_other(data: bytes, own: bytes) -> int:
    for number, match in enumerate(_ENDING.finditer(data), 1):
        if match[0] != own:
            return number
    return 1


def _first_new(data: bytes, known: set[bytes]) -> int:
    for number, match in enumerate(_ENDING.finditer(data), 1):
        if match[0] not in known:
            return number
    return 1


def _changed(before: bytes, after: bytes) -> int:
    """The first line of `after`, from 1, whose text is in `before` with other endings only; 0 for none."""
    old: dict[bytes, set[bytes]] = {}
    for line in before.splitlines(keepends=True):
        text = line.rstrip(b"\r\n")
        old.setdefault(text, set()).add(line[len(text) :])
    for number, line in enumerate(after.splitlines(keepends=True), 1):
        text = line.rstrip(b"\r\n")
        if text and line[len(text) :] and line[len(text) :] not in old.get(text, {line[len(text) :]}):
            return number
    return 0


def with_own_end(
    file: str, before: bytes, after: bytes, *, last: bool = False
) -> tuple[bytes, tuple[str, ...]]:
    """`after` ended as `before` is: with its final newline, or without one, and what was done. `last`: nothing follows
    it in the source; else blank lines at its end stand between it and the next segment, and a formatter, which takes it
    for a whole file, leaves none.

    Raises Refused where it looks like what a save leaves that broke off.
    """
    if not after or not before:
        return after, ()
    old, new = _tail(before), _tail(after)
    if old and not new:
        rest = before[len(after) :] if before.startswith(after) else b""
        if rest and not rest.startswith((b"\n", b"\r")):
            line = after.count(b"\n") + 1
            raise Refused(
                f"{file} breaks off in its line {line}, as an interrupted save leaves it: if that is meant, end that "
                "line with a newline; then join again"
            )
        more = len(_ENDING.findall(old)) - 1
        blank = f" and the blank line{'s' * (more > 1)} before it were" if more else " was"
        return after + old, (f"{file}: its final newline{blank} put back",)
    blanks = len(_ENDING.findall(old)) - 1
    trimmed = blanks > 0 and len(_ENDING.findall(new)) == 1 and _last_line(before) == _last_line(after)
    if trimmed and not last:
        lines = "blank lines at its end were" if blanks > 1 else "blank line at its end was"
        return after[: -len(new)] + old, (
            f"{file}: the {lines} put back, they part it from the next segment",
        )
    if new and not old:
        return after[: -len(new)], (
            f"{file}: the newline at its end was taken out, as the text there had none",
        )
    return after, ()


def _last_line(data: bytes) -> bytes:
    """The last line with anything on it; nothing where that is long."""
    lines = data[-4096:].splitlines()
    return next((line for line in reversed(lines) if line), b"")


def _tail(data: bytes) -> bytes:
    """The line endings that `data` ends with."""
    match = _LAST.search(data, len(data) - len(data[-4096:]))
    return match[0] if match else b""


LF = b"\n"


class Form:
    """The form in which `base`, the text that was split, and `present`, the source as it is, are merged.

    Where the source has other line endings throughout by now, or lone carriage returns, line feeds stand for them.
    `given` is a text of the side of `base` in that form, `back` a merged one as the present source has it.
    """

    def __init__(self, base: bytes, present: bytes) -> None:
        old, new = endings(base), endings(present)
        (mark,) = new if len(new) == 1 else (b"",)
        self.ending = mark if len(old) <= 1 and (mark == b"\r" or (old and mark and old != new)) else b""
        self.present = with_ending(present, LF) if self.ending else present

    def given(self, texts: Sequence[bytes]) -> Sequence[bytes]:
        return [with_ending(text, LF) for text in texts] if self.ending else texts

    def back(self, data: bytes) -> bytes:
        return with_ending(data, self.ending) if self.ending else data
