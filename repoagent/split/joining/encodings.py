"""The encoding of a segment as it was: what an editor has saved in another is refused."""

from __future__ import annotations

from repoagent.errors import Refused
from repoagent.split.marks import UTF8_MARK, WIDE_MARKS

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
