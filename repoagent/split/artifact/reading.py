"""Read a split back: its index, what each segment's file holds, what the files were before a person edited them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from repoagent.errors import Refused, UsageError
from repoagent.split.artifact.index import BASE, NAME, Index, IndexedSegment, digest
from repoagent.split.artifact.schema import broken, parse_index
from repoagent.split.artifact.shown import quoted
from repoagent.store import locked, read_regular

STAGED = ".staged"  # the folder in which a change is made ready, and from which it is put in place
LOCK = ".lock"


@contextmanager
def holding(folder: Path, *, timeout: float = 10.0) -> Iterator[None]:
    """Hold the split in `folder` against other commands that would change it. Raises Busy, which names the holder."""
    with locked(folder / LOCK, timeout=timeout, what=f"the split in {folder}"):
        yield


def read_index(path: Path, *, missing_ok: bool = False) -> Index:
    """The index at `path`, a folder or the `index.json` in it, checked: names stay inside the folder, the segments
    follow each other from the first byte to the last, hashes are hashes, all files are there (not so with
    `missing_ok`).

    Raises UsageError where there is none, Newer for a later format, Refused for one that is broken or names a file
    that is missing, no regular file, or outside of where it may be. Nothing is changed.
    """
    path = index_path(path)
    data = read_regular(path)
    if data is None:
        raise UsageError(
            f"there is no split at {path}: name a folder, or the {NAME} in it, that repoagent split made"
        )
    index = parse_index(path, data)
    if index.source.path.startswith("/"):
        _check_outside(index)
    for segment in index.segments:
        _check_file(index, segment, missing_ok=missing_ok)
    return index


def index_path(path: Path) -> Path:
    """The index that a person meant by `path`, absolute. Raises UsageError for another file."""
    full = Path(os.path.normpath(Path.cwd() / path))
    if full.name != NAME and full.is_file():
        raise UsageError(f"{path} is a file: name the folder of the split that it is in, or the {NAME} there")
    return full / NAME if full.is_dir() or full.name != NAME else full


def _check_outside(index: Index) -> None:
    """An index in a repository may be somebody else's: it does not name files anywhere on the disk."""
    from repoagent.repo.worktree import NoWorkTree, open_worktree

    try:
        top = open_worktree(index.folder).top
    except NoWorkTree:
        return
    raise broken(
        index.path, f"it is in the repository {top} and its source, {index.source.path}, is named absolutely"
    )


def _check_file(index: Index, segment: IndexedSegment, *, missing_ok: bool) -> None:
    path = index.folder / segment.file
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        if missing_ok or segment.file in index.pending:
            return
        again = f"`repoagent split --refresh {quoted(index.folder, Path.cwd())}`"
        raise Refused(f"{path} is missing: put it back, or let {again} make it again") from None
    except OSError as error:
        raise Refused(f"{path} can't be read: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise Refused(f"{path} is not a regular file: remove it or move it away")


def base_bytes(index: Index) -> bytes:
    """The bytes of the source that was split. Raises Refused when they are not there as they were."""
    for path in (index.folder / BASE, index.folder / STAGED / BASE):
        data = _read(path)
        if data is not None and len(data) == index.source.size and digest(data) == index.source.sha256:
            return data
    raise broken(index.path, f"{index.folder / BASE} is not the text that was split")


def segment_bytes(index: Index, segment: IndexedSegment) -> bytes:
    """What `segment` holds now: its file where a person has edited it, else its part of the source.

    Raises Refused when the file is missing or no regular file.
    """
    data = file_bytes(index, segment)
    if data is None or _is_untouched(index, segment, digest(data)):
        return base_bytes(index)[segment.start : segment.end]
    return data


def file_bytes(index: Index, segment: IndexedSegment) -> bytes | None:
    """The bytes of the segment's file; None where it is still to be written (`pending`)."""
    data = _read(index.folder / segment.file)
    if data is None and segment.file not in index.pending:
        raise Refused(f"{index.folder / segment.file} is missing: put it back")
    return data


def segment_base(index: Index, segment: IndexedSegment) -> bytes:
    """What the segment's file was edited from: its part of the source, or of an earlier text of it (`based_on`).

    To merge an edited segment, its three sides are this, `segment_bytes` and `base_bytes(index)[start:end]`.
    Raises Refused when it is not there as it was.
    """
    if not segment.based_on:
        return base_bytes(index)[segment.start : segment.end]
    path = index.folder / segment.kept_base
    data = _read(path)
    if data is None or digest(data) != segment.based_on:
        raise broken(index.path, f"{path} is not the text that {segment.file} was edited from")
    return data


def edited(index: Index, *, missing_ok: bool = False) -> list[IndexedSegment]:
    """The segments whose files a person has changed, and that are not merged, in order of the source.

    Raises Refused for a file that is missing, unless `missing_ok`: then it counts as untouched.
    """
    found = []
    for segment in index.segments:
        data = _read(index.folder / segment.file) if missing_ok else file_bytes(index, segment)
        if data is not None and not _is_untouched(index, segment, digest(data)):
            found.append(segment)
    return found


def _is_untouched(index: Index, segment: IndexedSegment, present: str) -> bool:
    """Whether a file with the hash `present` is as repoagent wrote it, if only for an earlier text of the source."""
    return present in {segment.sha256, segment.based_on, index.pending.get(segment.file)}


def _read(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except FileNotFoundError:
        return None
