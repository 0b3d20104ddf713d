"""Read `git log` within a time limit: the commits of one file, or the whole history as a stream.

Nothing is fetched: objects that a partial clone lacks are omitted.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import time
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.git.process import OFFLINE, git_output, git_stream

# Without colors, programs or lookups that the user has configured; see also `git.process.PINNED`.
LOG = ("log", "-z", "--no-notes", "--no-decorate", "--no-color", "--no-textconv")
LISTED = (*LOG, "--no-walk=unsorted", "--stdin")  # only the commits listed in standard input, in that order
# Commit, parents, short name, author by .mailmap, author date, subject, address; -z ends it with a NUL.
LOG_FORMAT = "--format=%x01%H%x00%P%x00%h%x00%aN%x00%aI%x00%s%x00%aE"
_FIELDS = 7
COMMIT_MARK = "--format=%x01%H"
RAW = re.compile(rb":(\d+) (\d+) ([0-9a-f]+) ([0-9a-f]+) ([A-Z])\d*")
COUNTS = re.compile(rb"(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)


@dataclass(frozen=True)
class FileCommit:
    """One commit that changed a file. A string is "" if there is no file or the value is unknown.

    date: the author date in ISO 8601.
    added, removed: the numbers of lines in this file; None if not counted or binary.
    path: the path of the file in the commit.
    status: git's letter (A, M, D, T; R for a rename).
    was: the path before a rename.
    before, after: blob ids.
    old_mode, new_mode: git's modes, in octal.
    touched: the paths that changed: the file's own, or those below a directory.
    """

    commit: str
    short: str
    author: str
    date: str
    subject: str
    added: int | None
    removed: int | None
    path: str = ""
    status: str = "M"
    parents: tuple[str, ...] = ()
    email: str = ""
    before: str = ""
    after: str = ""
    old_mode: str = ""
    new_mode: str = ""
    touched: tuple[str, ...] = ()
    was: str = ""


class Origin(NamedTuple):
    """The path, blob and mode of a renamed file, before or after the rename."""

    path: str
    blob: str
    mode: str


def split_log(
    data: bytes, fields: int = 1
) -> Iterator[tuple[list[bytes], list[tuple[re.Match[bytes], list[bytes]]]]]:
    """Split the output of `git log -z` with --raw or --numstat. The log's format has `fields` fields and begins with
    %x01. Yields the fields and the changes of each commit; a change is a match of RAW or COUNTS and its path, or both
    paths of a rename."""
    tokens = iter(data.split(b"\0")[:-1])  # text without a NUL after it is cut off
    header: list[bytes] = []
    changes: list[tuple[re.Match[bytes], list[bytes]]] = []
    for token in (token.lstrip(b"\n") for token in tokens):
        if token.startswith(b"\x01"):
            if header:
                yield header, changes
            header, changes = [token[1:], *islice(tokens, fields - 1)], []
        elif raw := RAW.fullmatch(token):
            changes.append((raw, [*islice(tokens, 2 if raw[5] in b"RC" else 1)]))
        elif counts := COUNTS.fullmatch(token):
            changes.append((counts, [counts[3]] if counts[3] else [*islice(tokens, 2)]))
    if len(header) == fields:
        yield header, changes


def parse_log(data: bytes, path: str) -> list[FileCommit]:
    """The commits in the output of a log of `path` with LOG_FORMAT and --raw, without renames. An incomplete commit at
    the end is left out; invalid UTF-8 is decoded with replacement characters."""
    commits = []
    for header, changes in split_log(data, _FIELDS):
        oid, parents, short, author, date, subject, email = (
            field.decode("utf-8", "replace") for field in header
        )
        change = changes[0][0] if len(changes) == 1 else None  # of a directory there may be several
        old_mode, new_mode, before, after, status = raw_fields(change) if change else ("", "", "", "", "M")
        touched = tuple(os.fsdecode(name) for _, names in changes for name in names)
        commits.append(
            FileCommit(
                oid, short, author, date, subject, None, None, path, status, tuple(parents.split()), email,
                before, after, old_mode, new_mode, touched,
            )
        )  # fmt: skip
    return commits


def raw_fields(change: re.Match[bytes]) -> tuple[str, str, str, str, str]:
    """Old and new mode, old and new blob ("" for none), status."""
    old_mode, new_mode, before, after, status = (field.decode() for field in change.groups())
    return old_mode, new_mode, before if before.strip("0") else "", after if after.strip("0") else "", status


def find_rename(data: bytes, path: str, *, forward: bool = False) -> Origin | None:
    """Where `path` was renamed from, according to the output of `diff-tree -z -M --raw --diff-filter=R`; with
    `forward`, what it was renamed to. None if it was not renamed."""
    tokens = iter(data.split(b"\0"))
    for token in tokens:
        raw = RAW.fullmatch(token)
        if raw is not None:
            old, new = os.fsdecode(next(tokens, b"")), os.fsdecode(next(tokens, b""))
            if path == (old if forward else new):
                mode, _, blob, *_ = raw_fields(raw)
                return Origin(new if forward else old, blob, mode)
    return None


def counts_of(change: re.Match[bytes]) -> tuple[int | None, int | None]:
    """The numbers of added and removed lines in a match of COUNTS, both None for a binary file."""
    return tuple(None if digits == b"-" else int(digits) for digits in change.groups()[:2])  # type: ignore[return-value]


RENAME_LIMIT = 400  # files compared for similarity: a commit that moves thousands of them can't take minutes
_CHUNK = 1 << 18
_PIPE = 1 << 20
_WHOLE = {"GIT_FLUSH": "0"}  # otherwise git writes each commit separately, which takes a quarter longer
_LONGEST_STATUS = 5  # "\nR100"; what begins a record is never shorter than the id of a commit
# Without .mailmap, which may change: it is applied for display.
_LOG = (
    *LOG, "--no-merges", "--name-status", "-r", "--no-relative", "--no-mailmap", "--submodule=short",
    "--ignore-submodules=none", f"-l{RENAME_LIMIT}", "--format=%H %ct %an <%ae>",
)  # fmt: skip
_EQUAL = "-M100%"  # similar content would have to be read, and a partial clone lacks it
_PLAIN = {prefix + kind: kind for prefix in (b"", b"\n") for kind in (b"A", b"M", b"D", b"T", b"U", b"X")}

# git's letter (A, M, D, T; R for a rename), the path, and of R the path before.
Change = tuple[bytes, bytes, bytes]

_new = tuple.__new__  # a quarter of the time that the class takes


class LogRecord(NamedTuple):
    """One commit, not a merge: its hexadecimal id, the committer date in seconds since 1970, the author's name and
    address as in the commit (in UTF-8 if git knows the commit's encoding), and its changes."""

    id: bytes
    time: int
    author: bytes
    changes: list[Change]


def stream_log(top: Path, *walk: str, blobs: bool = True) -> Generator[LogRecord, None, None]:
    """The commits of a `git log` with these revisions and options, in git's order; memory use stays constant. Without
    `blobs`, git reads no file contents, and only files with identical content count as renamed.

    Closing the generator ends git. Raises GitError at the end if git failed.
    """
    arguments = (*_LOG, "-M" if blobs else _EQUAL, *walk, "--")
    with git_stream(top, *arguments, env={**OFFLINE, **_WHOLE}) as output:
        descriptor = output.fileno()
        with suppress(AttributeError, OSError):  # so that git continues while we write; Linux only
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE)
        yield from records(iter(lambda: os.read(descriptor, _CHUNK), b""))


def records(chunks: Iterable[bytes]) -> Iterator[LogRecord]:
    """The records in git's output, given in chunks of any size. An incomplete change at the end is left out."""
    rest, header = b"", b""
    changes: list[Change] = []
    for chunk in chunks:
        tokens = (rest + chunk).split(b"\0")
        index, last = 0, len(tokens) - 1
        while index < last:
            token = tokens[index]
            kind = _PLAIN.get(token)
            if kind is not None:
                if index + 1 >= last:
                    break
                changes.append((kind, tokens[index + 1], b""))
                index += 2
            elif len(token) > _LONGEST_STATUS:
                if header:
                    yield _record(header, changes)
                header, changes = token, []
                index += 1
            else:
                if index + 2 >= last:
                    break
                changes.append((token.lstrip(b"\n")[:1], tokens[index + 2], tokens[index + 1]))
                index += 3
        rest = b"\0".join(tokens[index:])
    if header:
        yield _record(header, changes)


def _record(header: bytes, changes: list[Change]) -> LogRecord:
    identity, time, author = header.split(b" ", 2)
    return _new(LogRecord, (identity, int(time or b"0"), author, changes))  # a broken commit has no time


def deadline_in(seconds: float | None) -> float | None:
    """The value that `time.monotonic` will have after `seconds` seconds; None for no limit."""
    return None if seconds is None else time.monotonic() + seconds


class _TimeUp(Exception):
    """Raised inside of `git_stream`, which then ends git; leaving its block normally would wait."""


def timed_git(top: Path, *args: str, deadline: float | None) -> tuple[bytes, bool]:
    """Run `git ARGS` in `top`, without fetching anything, until `deadline` (a value of `time.monotonic`, None for no
    limit). Returns its output, and whether it was cut off. Raises GitError if git fails before the deadline."""
    data = bytearray()
    try:
        with git_stream(top, *args, env=OFFLINE) as stream:
            poll = select.poll()
            poll.register(stream.fileno(), select.POLLIN | select.POLLHUP)
            while True:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not poll.poll(None if left is None else left * 1000):
                    raise _TimeUp
                chunk = os.read(stream.fileno(), 1 << 16)
                if not chunk:
                    break
                data += chunk
    except _TimeUp:
        return bytes(data), True
    return bytes(data), False


def git_offline(top: Path, *args: str, names: Collection[str] = ()) -> bytes:
    """Run `git ARGS` and return its output. It reads `names` from standard input, one per line, and fetches nothing.
    Raises GitError if git fails."""
    data = "".join(f"{name}\n" for name in names).encode()
    return git_output(top, *args, stdin=data, env=OFFLINE).stdout
