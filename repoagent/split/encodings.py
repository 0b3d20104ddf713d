"""Restore what an editor changes in a segment besides the text: byte-order mark, line endings, final newline.

Another encoding is refused. `MergeForm` gives texts line feeds for a merge, since git counts lines by them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from repoagent.errors import Refused
from repoagent.syntax.parser import UTF8_MARK, WIDE_MARKS

Normalized = tuple[bytes, tuple[str, ...]]


def encoding_of(data: bytes) -> str:
    """The encoding of a text: "utf-8", also with a few invalid bytes, else "latin-1" for any single-byte encoding."""
    try:
        data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "surrogateescape")
        escaped = sum("\udc80" <= char <= "\udcff" for char in text)
        return "utf-8" if sum(char >= "\x80" for char in text) - escaped > escaped else "latin-1"
    return "utf-8"


def with_own_encoding(file: str, before: bytes, after: bytes, encoding: str) -> Normalized:
    """`after` with the byte-order mark of `before`, and notes. `encoding` is that of the source.

    Raises Refused if `after` is in another encoding.
    """
    wanted = "UTF-8" if encoding == "utf-8" else "its original single-byte encoding"
    wide = next((WIDE_MARKS[mark] for mark in WIDE_MARKS if after.startswith(mark)), "")
    if wide and not before.startswith(tuple(WIDE_MARKS)):
        raise Refused(f"{file} was saved as {wide}; save it in {wanted} and join again")
    if b"\0" in after and b"\0" not in before:
        raise Refused(f"the edited {file} contains NUL bytes; save it as text and join again")
    data, notes = with_own_mark(file, before, after)
    old, new = _text(before), _text(data)
    if new is None and old is not None and encoding == "utf-8":
        raise Refused(
            f"{file} is no longer valid UTF-8 (line {_bad_line(data)}), but the source is; save it as UTF-8 "
            "and join again"
        )
    if new is None or new.isascii() or (old is not None and not old.isascii()):
        return data, notes
    if "\ufffd" in new and (old is None or encoding != "utf-8"):
        raise _damaged(file, new)
    if encoding != "utf-8":
        raise Refused(
            f"{file} was saved as UTF-8 (line {_first_beyond_ascii(new)}); save it in {wanted} and join again"
        )
    return data, notes


def with_own_mark(file: str, before: bytes, after: bytes) -> Normalized:
    """`after` with the byte-order mark of `before`, and notes. Neither is UTF-16 or UTF-32."""
    if after.startswith(UTF8_MARK) and not before.startswith(UTF8_MARK):
        return after.removeprefix(UTF8_MARK), (f"{file}: removed a byte-order mark",)
    if after and before.startswith(UTF8_MARK) and not after.startswith(UTF8_MARK):
        return UTF8_MARK + after, (f"{file}: restored the byte-order mark",)
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
        f"{file} was edited by a program that replaced some characters by U+FFFD (line {line}); restore the segment, "
        "and edit it in the encoding of the source"
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
    """`data` with this line ending throughout."""
    return _ENDING.sub(lambda _: ending, data)


def with_own_endings(
    file: str, before: bytes, after: bytes, usual: set[bytes]
) -> tuple[bytes, tuple[str, ...]]:
    """`after` with the line endings of `before` (or of the source, `usual`, if it has none), and notes.

    Raises Refused if it has more kinds than before, so that the intended ones are unknown.
    """
    known = endings(before) or usual
    found = endings(after)
    if not known and len(found) < 2:
        return after, ()  # it was one line
    if found <= known and (len(known) == 1 or not _changed(before, after)):
        return after, ()
    if len(known) == 1 and len(found) == 1:
        (own,), (other,) = known, found
        note = f"{file}: changed the line endings from {NAMES[other]} back to {NAMES[own]}"
        return with_ending(after, own), (note,)
    if len(known) == 1:
        (own,) = known
        line = _first_other(after, own)
        raise Refused(
            f"the edited {file} has mixed line endings: line {line} does not end in {NAMES[own]} like the others; use "
            "one line ending throughout and join again"
        )
    if not known:
        raise Refused(
            f"the edited {file} has mixed line endings; use one line ending throughout and join again"
        )
    raise Refused(
        f"{file} has mixed line endings, and the edit changed those of unchanged lines (first on line "
        f"{_changed(before, after) or _first_new(after, known)}); restore the segment, or edit it with a program that "
        "preserves them"
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
    """The first line of `after`, from 1, whose text `before` has with other endings only; 0 for none."""
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
    """`after` with the final newline and blank lines of `before`, and notes. A formatter, which takes a segment for a
    whole file, removes the blank lines before the next segment; there is none after the `last` one.

    Raises Refused if the file looks truncated by an interrupted save.
    """
    if not after or not before:
        return after, ()
    old, new = _tail(before), _tail(after)
    if old and not new:
        rest = before[len(after) :] if before.startswith(after) else b""
        if rest and not rest.startswith((b"\n", b"\r")):
            line = after.count(b"\n") + 1
            raise Refused(
                f"{file} looks truncated in line {line}, as after an interrupted save; restore it, or if this is "
                "intended, end the line with a newline; then join again"
            )
        more = len(_ENDING.findall(old)) - 1
        blank = f" and the blank line{'s' * (more > 1)} before it" if more else ""
        return after + old, (f"{file}: restored the final newline{blank}",)
    blanks = len(_ENDING.findall(old)) - 1
    trimmed = blanks > 0 and len(_ENDING.findall(new)) == 1 and _last_line(before) == _last_line(after)
    if trimmed and not last:
        note = f"{file}: restored the blank line{'s' * (blanks > 1)} before the next segment"
        return after[: -len(new)] + old, (note,)
    if new and not old:
        return after[: -len(new)], (f"{file}: removed the final newline, since the source has none there",)
    return after, ()


def _last_line(data: bytes) -> bytes:
    """The last nonblank line of the last 4 KB."""
    lines = data[-4096:].splitlines()
    return next((line for line in reversed(lines) if line), b"")


def _tail(data: bytes) -> bytes:
    """The line endings at the end of `data`."""
    match = _LAST.search(data, len(data) - len(data[-4096:]))
    return match[0] if match else b""


LF = b"\n"


class MergeForm:
    """Line endings for the merge of `base`, the text that was split, with the `present` source.

    If the source has changed its line endings throughout, or has lone carriage returns, the merge uses line feeds.
    `given` converts texts of the side of `base`, `back` a merged text to the line endings of the source.
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
