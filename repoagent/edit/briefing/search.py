"""Look for a pattern of the model's in the files of the repository: bounded in time, memory and output."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from repoagent.edit.verify.scope import WhyNot
from repoagent.errors import UsageError
from repoagent.repo.run import GitError, git_stream

MATCH_LIMIT = 60
LINE_LIMIT = 200
SECONDS = 5.0
LARGEST = 4 * 1024 * 1024  # bytes of matching lines that are looked at
LONGEST = 300  # characters of a pattern
# What a regular expression takes ages or all memory for: references back, large counts, counts of groups.
_COSTLY = re.compile(r"\\[1-9]|\)\{|\{\d{3}|\{\d*,\d{3}")


def search(top: Path, pattern: str, why_not: WhyNot, path: str = "", *, at: str | None = None) -> list[str]:
    """Matching lines as `path:line:text`, with their indentation, of tracked and untracked files that may be shown, at
    most MATCH_LIMIT; of the one file `path`, ignored or not, where that is given. Of a long line the text around the
    match. `at` is a commit whose files are meant, or "" for those of the index.

    Raises UsageError for a pattern that would take too long.
    """
    if len(pattern) > LONGEST or re.search("[\0\n\ud800-\udfff]", pattern):
        raise UsageError(
            f"that pattern is no line of text of at most {LONGEST} characters: search for a part of it"
        )
    if _COSTLY.search(pattern):
        raise UsageError("references back and counts of groups are not searched for: use a simpler pattern")
    base = ["grep", "-I", "-n", "--column", "-z", "--no-color", "--full-name", "-m", "20"]
    where: tuple[str, ...] = (at,) if at else ()
    if path:
        base[-1] = str(MATCH_LIMIT + 1)
        where += ("--", path)
    if not at:
        base += ["--cached"] if at == "" else ["--untracked"]
        base += ["--no-exclude-standard"] if path and at is None else []
    try:
        data, late = _found(top, *base, "-E", "-e", pattern, *where)
    except GitError as error:
        if error.returncode != 128:
            raise
        data, late = _found(top, *base, "-F", "-e", pattern, *where)  # no regular expression: plain text
    found: list[str] = []
    for name, number, text in _matches(data):
        name = name.removeprefix(f"{at}:") if at else name
        if why_not(name):
            continue
        if len(found) == MATCH_LIMIT:
            late = True
            break
        found.append(f"{name}:{number}:{text}")
    if late:
        found.append("… more matches left out: search for something narrower")
    return found


def _matches(data: bytes) -> Iterator[tuple[str, str, str]]:
    for line in data.split(b"\n"):
        name, _, rest = line.partition(b"\0")
        number, _, rest = rest.partition(b"\0")
        column, _, text = rest.partition(b"\0")
        if text:
            yield name.decode("utf-8", "surrogateescape"), number.decode(), _around(text, int(column) - 1)


def _around(text: bytes, at: int) -> str:
    """A line, or what stands around the match that begins at byte `at`, with the number of that character."""
    if len(text) <= LINE_LIMIT:
        return text.decode(errors="replace")
    start = max(0, at - LINE_LIMIT // 4)
    piece = text[start : start + LINE_LIMIT].decode(errors="ignore")
    place = f"(character {len(text[:at].decode(errors='replace')) + 1}) " if at > LINE_LIMIT else ""
    return f"{place}{'…' if start else ''}{piece}"


class _Enough(Exception):
    """Thrown into `git_stream`, which then ends git."""


def _found(top: Path, *args: str) -> tuple[bytes, bool]:
    """What `git ARGS` prints, and whether it was cut off."""
    data = bytearray()
    try:
        with git_stream(top, *(os.fsencode(arg) for arg in args)) as stream:
            if not _drained(stream, data, time.monotonic() + SECONDS):
                raise _Enough
    except _Enough:
        return bytes(data[: data.rfind(b"\n") + 1]), True
    except GitError as error:
        if error.returncode != 1:  # nothing was found
            raise
    return bytes(data), False


def _drained(stream: IO[bytes], data: bytearray, deadline: float) -> bool:
    poll = select.poll()
    poll.register(stream, select.POLLIN | select.POLLHUP)
    while len(data) < LARGEST and poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        chunk = os.read(stream.fileno(), 1 << 16)
        if not chunk:
            return True
        data += chunk
    return False
