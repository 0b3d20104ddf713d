"""The encoding of a segment as it was: converted back where an editor has saved it in another, else refused."""

from __future__ import annotations

from repoagent.errors import Refused
from repoagent.split.marks import UTF8_MARK, WIDE_MARKS

_NAMES = {"utf-8": "UTF-8", "latin-1": "Latin-1", "cp1252": "Windows-1252"}
_EIGHT_BIT = ("cp1252", "latin-1")

Read = tuple[bytes, tuple[str, ...]]


def is_wide(encoding: str) -> bool:
    """Whether its units are of more than one byte."""
    return encoding in WIDE_MARKS.values()


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


def narrowed(file: str, data: bytes, encoding: str) -> bytes:
    """`data` of a source in UTF-16 or UTF-32 in UTF-8; of others as it is. Raises Refused where it is no whole text."""
    if not is_wide(encoding):
        return data
    try:
        return data.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise Refused(
            f"{file} can't be read as {_name(encoding)}, which the source is: save it in that encoding, or take it "
            "back, and join again"
        ) from error


def widened(data: bytes, encoding: str) -> bytes:
    """What `narrowed` has made UTF-8, as it was."""
    if not is_wide(encoding):
        return data
    return data.decode("utf-8", "surrogatepass").encode(encoding, "surrogatepass")


def with_own_encoding(file: str, before: bytes, after: bytes, encoding: str) -> Read:
    """`after` in the encoding of the source, and what was done; `before` and the result are UTF-8 where that is wide.

    Raises Refused where it is in none that can be told.
    """
    if is_wide(encoding):
        return _wide(file, before, after, encoding)
    for mark, wide in WIDE_MARKS.items():
        if after.startswith(mark) and not before.startswith(mark):
            text = _text(after, wide)
            return _converted(file, text, _name(wide), encoding, before)
    if b"\0" in after and b"\0" not in before:
        raise Refused(f"{file} holds NUL bytes since it was edited: save it as text and join again")
    data, notes = with_own_mark(file, before, after)
    return _eight_bit(file, before, data, encoding, notes)


def with_own_mark(file: str, before: bytes, after: bytes) -> Read:
    """`after` with a byte-order mark where `before` has one, and none else. Both are UTF-8, or of one byte a
    character."""
    if after.startswith(UTF8_MARK) and not before.startswith(UTF8_MARK):
        return after.removeprefix(UTF8_MARK), (f"{file}: a byte-order mark at its head was taken out",)
    if after and before.startswith(UTF8_MARK) and not after.startswith(UTF8_MARK):
        return UTF8_MARK + after, (f"{file}: the byte-order mark at its head was put back",)
    return after, ()


def _wide(file: str, before: bytes, after: bytes, encoding: str) -> Read:
    mark = next((mark for mark in WIDE_MARKS if after.startswith(mark)), b"")
    own = _name(encoding)
    if mark and WIDE_MARKS[mark] != encoding:
        text = _text(after, WIDE_MARKS[mark])
        other = _name(WIDE_MARKS[mark])
        how = "of the other byte order" if other == own else "and not as before"
        said: tuple[str, ...] = (f"{file}: it was saved as {other} {how}, and was turned back",)
    elif after and b"\0" not in after and (text := _text(after, "utf-8")) is not None:
        said = (f"{file}: it was saved as UTF-8, and is {own} again",)
    else:
        text, said = _text(after, encoding), ()
    if (
        text is None
        or "\0" in text
        or _bytes_between(text) - _bytes_between(before.decode("utf-8", "replace"))
    ):
        raise Refused(
            f"{file} is no {own} text since it was edited, and the source is: save it as {own}, or as UTF-8, and join "
            "again"
        )
    data, notes = with_own_mark(file, before, text.encode("utf-8", "surrogatepass"))
    return data, (*said, *([] if said else notes))


def _bytes_between(text: str) -> set[str]:
    """Characters that are a line feed and a plain letter taken for one: something has added bytes, not UTF-16."""
    return {
        char
        for char in set(text)
        if ord(char) < 0x7F7F and any(pair[0] == 10 and 32 <= pair[1] < 127 for pair in _both_ways(ord(char)))
    }


def _both_ways(code: int) -> tuple[tuple[int, int], tuple[int, int]]:
    high, low = divmod(code, 256)
    return (high, low), (low, high)


def _eight_bit(file: str, before: bytes, after: bytes, encoding: str, notes: tuple[str, ...]) -> Read:
    old, new = _text(before, "utf-8"), _text(after, "utf-8")
    if encoding == "utf-8" and old is not None and new is None:
        for other in _EIGHT_BIT:
            text = _text(after, other)
            if text is not None and _shared(old, text):
                data, more = _converted(file, text, _name(other), encoding, before)
                return data, (*notes, *more)
        raise Refused(
            f"{file} is no UTF-8 any more (line {_bad_line(after)}), and the source is: save it as UTF-8 and join again"
        )
    if encoding == "utf-8" or new is None or new.isascii():
        if old is None and new is not None and new.count("\ufffd"):
            raise _damaged(file, new)
        return after, notes
    if old is None:  # bytes that are no UTF-8 were there, and now all is
        for other in _EIGHT_BIT:
            text = _text(before, other)
            if text is not None and _shared(text, new):
                data, more = _converted(file, new, "UTF-8", other, before)
                return data, (*notes, *more)
    elif not old.isascii():
        return after, notes
    if "\ufffd" in new:
        raise _damaged(file, new)
    raise Refused(
        f"{file} is UTF-8 since it was edited (line {_first_beyond_ascii(new)}), and the source is in an encoding of "
        "one byte a character: save it in that one and join again"
    )


def _converted(file: str, text: str | None, name: str, encoding: str, before: bytes) -> Read:
    said = f"{file}: it was saved as {name}, and is {_name(encoding)} again"
    try:
        data = (text or "").removeprefix("\ufeff").encode(encoding) if text is not None else None
    except UnicodeEncodeError:
        data = None
    if data is None:
        raise Refused(
            f"{file} was saved as {name}, and can't be turned back into {_name(encoding)}, which the "
            "source is: save it in that encoding and join again"
        )
    return with_own_mark(file, before, data)[0], (said,)


def _name(encoding: str) -> str:
    return _NAMES.get(encoding, encoding[:6].upper())


def _text(data: bytes, encoding: str) -> str | None:
    """The text, a byte-order mark as its first character; None where it is not in that encoding."""
    try:
        return data.decode(encoding, "surrogatepass" if is_wide(encoding) else "strict")
    except UnicodeDecodeError:
        return None


def _shared(one: str, other: str) -> bool:
    """Whether a line with letters beyond ASCII is in both: then both were read in their own encoding."""
    lines = {line for line in one.splitlines() if not line.isascii()}
    return any(line in lines for line in other.splitlines())


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
