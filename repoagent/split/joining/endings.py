"""The line endings of a segment as they were: put back where an editor has changed all of them, or the last one."""

from __future__ import annotations

import re

from repoagent.errors import Refused

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
