"""Read `git log`: the commits of one file, or of the whole history as a stream, within a time limit; and contents of
blobs.

Nothing is fetched: what a partial clone lacks is omitted.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import time
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.git.process import OFFLINE, GitError, git_output, git_stream

# Commit, parents, short name, author by .mailmap, author date, subject, address; -z ends it with a NUL.
LOG_FORMAT = "%H%x00%P%x00%h%x00%aN%x00%aI%x00%s%x00%aE"
_FIELDS = 7
COMMIT_MARK = "--format=%x01%H"
_HASH = re.compile(rb"\n?([0-9a-f]{40}|[0-9a-f]{64})")
RAW = re.compile(rb"\n?:(\d+) (\d+) ([0-9a-f]+) ([0-9a-f]+) ([A-Z])\d*")
COUNTS = re.compile(rb"\n?(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)


@dataclass(frozen=True)
class FileCommit:
    """One commit that changed a file.

    `date` is the author's, ISO 8601. `added` and `removed` are lines of this file, None for a binary file or
    where git could not tell. `path` is what the file was called in it, `status` git's letter (A, M, D, T; R
    for a rename). `before` and `after` are ids of blobs, "" for no file or where it is not known; modes are git's,
    in octal. `touched` are the paths that changed: the file's own, or those below a directory. `was` is the path before
    a rename, "" where there was none or it is not known.
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


@dataclass(frozen=True)
class Origin:
    """What a renamed file was before: its path, the blob and mode of then, and the lines that the rename changed."""

    path: str
    added: int | None
    removed: int | None
    blob: str = ""
    mode: str = ""


def parse_log(data: bytes, path: str) -> list[FileCommit]:
    """The commits in the output of a log of `path`; a last one that was cut off is left out.

    Text that is no UTF-8 is decoded with replacement characters.
    """
    tokens = data.split(b"\0")[:-1]  # what has no NUL behind it is not whole
    commits: list[FileCommit] = []
    place = 0
    while place + _FIELDS <= len(tokens):
        commit = _HASH.fullmatch(tokens[place])
        if commit is None:
            place += 1
            continue
        parents, short, author, date, subject, email = tokens[place + 1 : place + _FIELDS]
        place += _FIELDS
        raws: list[re.Match[bytes]] = []
        paths: list[bytes] = []
        counts: list[re.Match[bytes]] = []
        while place < len(tokens) and not _HASH.fullmatch(tokens[place]):
            if raw := RAW.fullmatch(tokens[place]):
                raws.append(raw)
                paths += tokens[place + 1 : place + 2]
                place += 1  # its path
            elif count := COUNTS.fullmatch(tokens[place]):
                counts.append(count)
            place += 1
        one = raws[0] if len(raws) == 1 else None
        commits.append(
            FileCommit(
                commit[1].decode(),
                _text(short),
                _text(author),
                _text(date),
                _text(subject),
                _sum(count[1] for count in counts),
                _sum(count[2] for count in counts),
                path,
                one[5].decode() if one else "M",
                tuple(_text(parents).split()),
                _text(email),
                _blob(one[3]) if one else "",
                _blob(one[4]) if one else "",
                one[1].decode() if one else "",
                one[2].decode() if one else "",
                tuple(os.fsdecode(path) for path in paths),
            )
        )
    return commits


def changes_by_commit(data: bytes) -> Iterator[tuple[str, re.Match[bytes] | None, list[bytes]]]:
    """Of `log -z --raw` or `--numstat` with the format COMMIT_MARK: a commit without a match, then each of its changes
    as a match of RAW or COUNTS with the paths, two for a rename."""
    commit = ""
    tokens = iter(data.split(b"\0"))
    for token in tokens:
        if token.lstrip(b"\n").startswith(b"\x01"):
            commit = _text(token.lstrip(b"\n")[1:])
            yield commit, None, []
        elif raw := RAW.fullmatch(token):
            yield commit, raw, [next(tokens, b"") for _ in range(2 if raw[5] in b"RC" else 1)]
        elif counts := COUNTS.fullmatch(token):
            yield commit, counts, [counts[3]] if counts[3] else [next(tokens, b""), next(tokens, b"")]


def renamed(data: bytes, path: str, *, forward: bool = False) -> Origin | None:
    """Where `path` came from, from the output of `diff-tree -z -M --raw --numstat --diff-filter=R`; with `forward`
    where it went."""
    tokens = data.split(b"\0")
    mine, other = (1, 2) if forward else (2, 1)
    blob = mode = ""
    for place in range(len(tokens) - 2):
        if tokens[place + mine] != os.fsencode(path):
            continue
        if raw := RAW.fullmatch(tokens[place]):
            blob, mode = _blob(raw[3]), raw[1].decode()
        elif (counts := COUNTS.fullmatch(tokens[place])) and not counts[3]:
            return Origin(
                os.fsdecode(tokens[place + other]), number(counts[1]), number(counts[2]), blob, mode
            )
    return None


def _sum(numbers: Iterable[bytes]) -> int | None:
    """Of lines in several files: None where none was counted, or one is binary."""
    counted = [number(digits) for digits in numbers]
    known = [count for count in counted if count is not None]
    return sum(known) if known and len(known) == len(counted) else None


def _blob(oid: bytes) -> str:
    return oid.decode() if oid.strip(b"0") else ""


def number(digits: bytes) -> int | None:
    """What `--numstat` says of lines; None of a binary file."""
    return None if digits == b"-" else int(digits)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


RENAME_LIMIT = 400  # files compared for similarity: a commit that moves thousands of them can't take minutes
_CHUNK = 1 << 18
_PIPE = 1 << 20
_WHOLE = {
    "GIT_FLUSH": "0"
}  # git would write each commit on its own into a pipe, which takes both ends a quarter longer
_LONGEST_STATUS = 5  # "\nR100"; what begins a record is never shorter than the id of a commit
# Authors stay as they were written: .mailmap applies where they are shown, and may change.
_LOG = (
    "log", "--no-merges", "--name-status", "-z", "-r", "--no-follow", "--no-notes", "--no-decorate", "--no-color",
    "--no-show-signature", "--no-ext-diff", "--no-textconv", "--no-relative", "--no-mailmap", "--encoding=UTF-8",
    "--submodule=short", "--ignore-submodules=none", f"-l{RENAME_LIMIT}", "--format=%H %ct %an <%ae>",
)  # fmt: skip
_SIMILAR = ("-M", "-C")
_EQUAL = ("-M100%", "-C100%")  # similar content would have to be read, and a partial clone lacks it
_PLAIN = {prefix + kind: kind for prefix in (b"", b"\n") for kind in (b"A", b"M", b"D", b"T", b"U", b"X")}

# git's letter (A, M, D, T; R and C for a rename and a copy), the path, and of R and C the path before.
Change = tuple[bytes, bytes, bytes]

_new = tuple.__new__  # a quarter of the time that the class takes


class Record(NamedTuple):
    """One commit that is no merge: its id in hexadecimal, the committer date in seconds since 1970, the author's name
    and address as they stand in the commit (UTF-8 where git can tell), and what it did."""

    id: bytes
    time: int
    author: bytes
    changes: list[Change]


def arguments(*, blobs: bool = True) -> tuple[str, ...]:
    """How git has to be run for `records`; the walk comes behind. Without `blobs` it reads none: renames are then
    those of equal content."""
    return (*_LOG, *(_SIMILAR if blobs else _EQUAL))


def stream(top: Path, *walk: str, blobs: bool = True) -> Generator[Record, None, None]:
    """The commits of the walk (revisions and options of `git log`) in its order; memory stays flat.

    Closing the generator ends git. Raises GitError when git fails, at the end.
    """
    with git_stream(top, *arguments(blobs=blobs), *walk, "--", env={**OFFLINE, **_WHOLE}) as output:
        descriptor = output.fileno()
        with suppress(AttributeError, OSError):  # room for git to go on while we write; only Linux has it
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE)
        yield from records(iter(lambda: os.read(descriptor, _CHUNK), b""))


def records(chunks: Iterable[bytes]) -> Iterator[Record]:
    """The records in git's output, which may be cut anywhere. What is not whole at its end is left out, but for a last
    commit, which has no end of its own."""
    rest, header = b"", b""
    changes: list[Change] = []
    for chunk in chunks:
        tokens = (rest + chunk).split(b"\0")
        place, last = 0, len(tokens) - 1
        while place < last:
            token = tokens[place]
            kind = _PLAIN.get(token)
            if kind is not None:
                if place + 1 >= last:
                    break
                changes.append((kind, tokens[place + 1], b""))
                place += 2
            elif len(token) > _LONGEST_STATUS:
                if header:
                    yield _record(header, changes)
                header, changes = token, []
                place += 1
            else:
                if place + 2 >= last:
                    break
                changes.append((token.lstrip(b"\n")[:1], tokens[place + 2], tokens[place + 1]))
                place += 3
        rest = b"\0".join(tokens[place:])
    if header:
        yield _record(header, changes)


def _record(header: bytes, changes: list[Change]) -> Record:
    identity, time, author = header.split(b" ", 2)
    return _new(Record, (identity, int(time or b"0"), author, changes))  # a broken commit has no time


class _TimeUp(Exception):
    """Thrown into `git_stream`, which then ends git; leaving its block in peace would wait."""


def deadline_in(seconds: float | None) -> float | None:
    """The time of `time.monotonic` that is so many seconds from now; None for no limit."""
    return None if seconds is None else time.monotonic() + seconds


class TimedGit:
    """`git ARGS` in `top`, started at once, never fetching; `deadline` is a time of `time.monotonic`, None for no
    limit."""

    def __init__(self, top: Path, *args: str, deadline: float | None) -> None:
        self._deadline = deadline
        self._stack = ExitStack()
        self._stream = self._stack.enter_context(git_stream(top, *args, env=OFFLINE))

    def read(self) -> tuple[bytes, bool]:
        """All that git printed until the deadline, and whether it was cut off. What is there already is read
        however late it is. Ends git. Raises GitError when git fails in time."""
        data = bytearray()
        try:
            with self._stack:
                if not self._drain(data):
                    raise _TimeUp
        except _TimeUp:
            return bytes(data), True
        return bytes(data), False

    def close(self) -> None:
        """End git if it still runs."""
        try:
            with self._stack:
                raise _TimeUp
        except _TimeUp:
            return

    def _drain(self, data: bytearray) -> bool:
        descriptor = self._stream.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
        while poll.poll(self._milliseconds()):
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                return True
            data += chunk
        return False

    def _milliseconds(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic()) * 1000


def read_blobs(top: Path, names: Collection[str], *, largest: int, most: int) -> dict[str, bytes]:
    """The blobs that `names` (whole or shortened ids) name, by name; those that this clone does not have, that are
    larger than `largest` bytes, or that come after the first `most` bytes are left out.

    Two calls of git however many they are, two more in a clone that lacks some. Raises GitError.
    """
    wanted = list(dict.fromkeys(name for name in names if name))
    if not wanted:
        return {}
    try:
        sizes = _sizes(top, wanted)
    except GitError:  # without a remote to fetch from, git stops at the first missing object
        wanted = _present(top, wanted)
        sizes = _sizes(top, wanted)
    chosen: list[str] = []
    for name in wanted:
        size = sizes.get(name, largest + 1)
        if size <= min(largest, most):
            chosen.append(name)
            most -= size
    return _contents(top, chosen)


def offline(top: Path, *args: str, names: Collection[str] = ()) -> bytes:
    """`git ARGS` that fetches nothing, with `names` on its standard input, a line each. Raises GitError."""
    data = "".join(f"{name}\n" for name in names).encode()
    return git_output(top, *args, stdin=data, env=OFFLINE).stdout


def _sizes(top: Path, names: Collection[str]) -> dict[str, int]:
    lines = offline(top, "cat-file", "--batch-check", names=names).split(b"\n")
    found = {}
    for name, line in zip(names, lines, strict=False):
        fields = line.split(b" ")
        if len(fields) == 3 and fields[1] == b"blob":
            found[name] = int(fields[2])
    return found


def _present(top: Path, names: Collection[str]) -> list[str]:
    """The objects among `names` that this clone has. Runs offline, so nothing is fetched."""
    options = (
        "--objects",
        "--no-object-names",
        "--no-walk",
        "--missing=print",
        "--ignore-missing",
        "--stdin",
    )
    listed = sorted(offline(top, "rev-list", *options, names=names).decode().split())
    return [name for name in names if any(oid.startswith(name) for oid in listed)]


def _contents(top: Path, names: Collection[str]) -> dict[str, bytes]:
    if not names:
        return {}
    data = offline(top, "cat-file", "--batch", names=names)
    found: dict[str, bytes] = {}
    place = 0
    for name in names:
        end = data.index(b"\n", place)
        size = int(data[place:end].rpartition(b" ")[2])
        found[name] = data[end + 1 : end + 1 + size]
        place = end + size + 2
    return found
