"""Look for a pattern of the model's in the files of the repository: bounded in time, memory and output."""

from __future__ import annotations

import os
import re
import select
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from repoagent.dataclass import dataclass
from repoagent.edit.verify.scope import WhyNot
from repoagent.errors import UsageError
from repoagent.repo.run import GitError, git_stream

MATCH_LIMIT = 60
FILE_LIMIT = 20  # of one file among several
LINE_LIMIT = 200
SECONDS = 5.0
LARGEST = 4 * 1024 * 1024  # bytes of matching lines that are looked at
LONGEST = 300  # characters of a pattern
# As Python reads a pattern: \w and (?i) know all letters, and $ matches before the CR of a CRLF file.
_AS_PYTHON = "(*UCP)(*ANYCRLF)"
_UTF8 = {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}  # git takes . for a byte otherwise
# What git reads in another way than Python does: anchors of the whole text, and counts without a minimum.
_DIFFERS = re.compile(r"\\.|\{(?=,\d+\})")
_INSTEAD = {r"\A": "^", r"\Z": "$", r"\z": "$", "{": "{0"}
# Without PCRE: what the C library does not know, and what it takes ages or all memory for.
_PERL = re.compile(r"(?<!\\)\(\?.{0,2}|\\[dDAzZ]|(?<!\\)[*+?}][?+]")
_COSTLY = re.compile(r"\\[1-9]|\)\{|\{\d{3}|\{\d*,\d{3}")
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_NO_PCRE = "USE_LIBPCRE"  # in what git says when it was built without


@dataclass(frozen=True)
class Matches:
    """Matching lines as `path:line:text`, and a sentence: what was left out, or how else the pattern would match."""

    rows: tuple[str, ...] = ()
    remark: str = ""


def search(
    top: Path, pattern: str, why_not: WhyNot, path: str = "", *, at: str | None = None, output: bool = False
) -> Matches:
    """Lines that match a Perl regular expression, with their indentation, of tracked and untracked files that may be
    shown, at most MATCH_LIMIT; of the one file `path`, ignored or not, where that is given. Of a long line the text
    around the match. `at` is a commit whose files are meant, or "" for those of the index. `output`: `path` is a file
    in the folder `top`, whatever git knows of it, and case does not count.

    Where no line matches, those that hold the pattern as plain text. Raises UsageError for a pattern that is not valid
    or takes too long.
    """
    if len(pattern) > LONGEST or re.search("[\0\n\ud800-\udfff]", pattern):
        raise UsageError(
            f"that pattern is no line of text of at most {LONGEST} characters: search for a part of it"
        )
    files = _Files(top, why_not, path, at, output)
    translated = _DIFFERS.sub(lambda found: _INSTEAD.get(found[0], found[0]), pattern)
    how: tuple[str, ...] = ("-P", "-e", _AS_PYTHON + translated)
    try:
        try:
            found = files.matches(*how)
        except GitError as error:
            if _NO_PCRE not in error.stderr:
                raise
            how = _extended(pattern)
            found = files.matches(*how)
    except GitError as error:
        found = files.matches("-F", "-e", pattern) if (reason := _invalid(error)) else Matches()
        if not found.rows:
            raise UsageError(reason or "that pattern takes too long: use a simpler one") from None
        return Matches(found.rows, f"Searched as plain text: {reason}. {found.remark}".rstrip())
    if not found.rows and re.search(r"\\[<>]", pattern):  # the ends of a word, as grep has them
        found = files.matches(*how[:-1], re.sub(r"\\[<>]", r"\\b", how[-1]))
    if not found.rows and _SPECIAL.search(pattern):
        found = files.matches("-F", "-e", pattern)
        if found.rows:
            remark = f"No line matches it as a regular expression; these lines hold it as plain text. {found.remark}"
            return Matches(found.rows, remark.rstrip())
    return found if found.rows else Matches((), _nothing(pattern, files.count("-i", *how)))


def _nothing(pattern: str, otherwise: int) -> str:
    if otherwise:
        lines = "1 line matches" if otherwise == 1 else f"{otherwise:,} lines match"
        return f"No line matches; {lines} without regard to case: begin with (?i)."
    return (
        r"No line matches: each line is searched alone, without its \n."
        if r"\n" in pattern
        else "No line matches."
    )


def _extended(pattern: str) -> tuple[str, ...]:
    """The arguments for a git that was built without PCRE. Raises UsageError for what it would misread."""
    case = ("-i",) if pattern.startswith("(?i)") else ()
    pattern = pattern.removeprefix("(?i)")
    if found := _PERL.search(pattern) or _COSTLY.search(pattern):
        raise UsageError(f"not supported by this git, which was built without PCRE: {found[0]}")
    return (*case, "-E", "-e", pattern)


def _invalid(error: GitError) -> str:
    """What git says is wrong with the pattern; "" when it failed at a match. Raises the error when it is another."""
    if error.returncode == 128 and "-e option, '" in error.stderr:
        why = error.stderr.rpartition("': ")[2]
        return f"not a valid regular expression: {why}"
    if error.returncode == 128 and "pcre2" in error.stderr:
        return ""
    raise error


@dataclass(frozen=True)
class _Files:
    """What is searched, see `search`."""

    top: Path
    why_not: WhyNot
    path: str
    at: str | None
    output: bool

    def _grep(self, *how: str) -> tuple[bytes, bool]:
        look = ["grep", "-z", "--no-color", "--full-name", *how]
        if self.output:
            return _found(self.top, *look, "-a", "-i", "--no-index", "--", self.path)
        look += ["-I", *([self.at] if self.at else ["--cached"] if self.at == "" else ["--untracked"])]
        if self.path:
            look[1:1] = ["--no-exclude-standard"] if self.at is None else []
            look += ["--", self.path]
        return _found(self.top, *look)

    def matches(self, *how: str) -> Matches:
        most = MATCH_LIMIT if self.path else FILE_LIMIT
        data, late = self._grep("-n", "--column", "-m", f"{most + 1}", *how)
        rows: list[str] = []
        seen: Counter[str] = Counter()
        for name, number, text in _matches(data):
            name = self._name(name)
            if self.why_not(name):
                continue
            seen[name] += 1
            if seen[name] > most or len(rows) == MATCH_LIMIT:
                late = True
                continue
            rows.append(f"{number}:{text}" if self.output else f"{name}:{number}:{text}")
        if late and not rows:
            raise UsageError("that search takes too long: use a simpler pattern")
        if not late:
            return Matches(tuple(rows))
        full = [name for name, count in seen.items() if count > most and not self.path][:3]
        where = f" (in {', '.join(full)})" if full else ""
        return Matches(tuple(rows), f"More matches were left out{where}: search for something narrower.")

    def count(self, *how: str) -> int:
        data, _ = self._grep("-c", *how)
        rows = [line.rpartition(b"\0") for line in data.splitlines()]
        return sum(int(count) for name, _, count in rows if not self.why_not(self._name(os.fsdecode(name))))

    def _name(self, name: str) -> str:
        return name.removeprefix(f"{self.at}:") if self.at else name


def _matches(data: bytes) -> Iterator[tuple[str, str, str]]:
    for line in data.split(b"\n"):
        name, _, rest = line.partition(b"\0")
        number, _, rest = rest.partition(b"\0")
        column, _, text = rest.partition(b"\0")
        if column:
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
        with git_stream(top, *(os.fsencode(arg) for arg in args), env=_UTF8) as stream:
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
