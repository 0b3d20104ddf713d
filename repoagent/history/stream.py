"""What each commit did to which paths: one `git log`, read as it comes, one record per commit."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from repoagent.repo.run import OFFLINE, git_stream

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
