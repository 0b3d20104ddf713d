"""The text to split: a file of a work tree, a file outside of any, or standard input."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, UsageError
from repoagent.git.files import LARGEST, blob_hash, read_source
from repoagent.git.process import git
from repoagent.git.similar_paths import no_such_file
from repoagent.git.worktree import NoWorkTree, WorkTree, layout, open_worktree, relative
from repoagent.split.folder_index import Index, IndexedSource, digest, display_path, quoted_path
from repoagent.syntax.parser import UTF8_MARK, WIDE_MARKS

_SAMPLE = 8000  # bytes; as many as git reads to recognize a binary file


@dataclass(frozen=True)
class SourceText:
    """The text to split; `path` as in `IndexedSource`. `worktree` is None outside of a repository."""

    path: str
    data: bytes
    worktree: WorkTree | None = None


def find_worktree(cwd: Path) -> WorkTree | None:
    """The work tree of `cwd`; None outside of one. Raises UsageError if git refuses the repository."""
    try:
        return open_worktree(cwd)
    except NoWorkTree:
        return None


def find_text(name: str, cwd: Path) -> SourceText:
    """Read the file `name`, relative to `cwd`.

    A file of a work tree is read by `read_source`; outside of one, symbolic links are followed. Raises UsageError if it
    is missing or a folder, Refused if it cannot or must not be read.
    """
    full = cwd / name
    folder = Path(os.path.realpath(full.parent))
    worktree = find_worktree(cwd)
    if worktree is None or not folder.is_relative_to(worktree.top):
        worktree = find_worktree(folder) if folder.is_dir() else None
    if worktree is None or not folder.is_relative_to(worktree.top):  # with GIT_DIR set, it may be another
        real = os.path.realpath(full)
        return SourceText(real, _read_anywhere(real))
    path = relative(worktree, name, cwd)
    data = read_source(worktree, path).data
    if data is None:
        raise no_such_file(path, worktree.top)
    return SourceText(path, data, worktree)


def current_source(index: Index, cwd: Path) -> SourceText:
    """The current text of the source of a split. Raises UsageError if it was standard input, or is missing; the message
    says where it may be."""
    path, shown = index.source.path, display_path(index.folder, cwd)
    if not path:
        raise UsageError(f"{shown} was split from standard input; pass the new text as `-`")
    if path.startswith("/"):
        return SourceText(path, _read_anywhere(path))
    worktree = worktree_of(index, cwd)
    if worktree is None:
        raise UsageError(f"{path}, the source of {shown}, is in a repository; run the command there")
    data = read_source(worktree, path).data
    if data is None:
        raise UsageError(missing_source_message(worktree, index, cwd))
    return SourceText(path, data, worktree)


def missing_source_message(worktree: WorkTree, index: Index, cwd: Path) -> str:
    """What to do if the source no longer exists, as a sentence."""
    path = index.source.path
    at = quoted_path(index.folder, cwd)
    for entry in git(worktree.top, "ls-files", "-s", "-z").split(b"\0"):
        fields, _, name = entry.partition(b"\t")
        if index.source.blob.encode() in fields.split(b" "):
            copy = worktree.top / os.fsdecode(name)
            return (
                f"{path} no longer exists, but {os.fsdecode(name)} has the same text; if it was renamed, run "
                f"`repoagent split {quoted_path(copy, cwd)} --refresh {at}`"
            )
    return (
        f"{path} no longer exists; restore it (`git restore`), or if it was renamed, run "
        f"`repoagent split NAME --refresh {at}` with its new name"
    )


def worktree_of(index: Index, cwd: Path) -> WorkTree | None:
    """The work tree to which the path of the source is relative: that of `cwd` if the split is in its `.repoagent`,
    otherwise that of the split (which may be a submodule), or that of `cwd` if the split is in none."""
    current = find_worktree(cwd)
    if current and index.folder.is_relative_to(layout(current).root):
        return current
    return find_worktree(index.folder) or current


def _read_anywhere(path: str) -> bytes:
    """The bytes of a file that is not in a repository."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Refused(f"{path} is a special file; pass its text on standard input, with `-`")
            if status.st_size > LARGEST:
                raise Refused(f"{path} has {status.st_size:,} bytes; the limit of split is {LARGEST:,}")
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise no_such_file(path, Path.cwd()) from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder; name a file in it") from None
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from error


def source_of(text: SourceText) -> IndexedSource:
    """The facts of a text that an index stores."""
    data = text.data
    crlf = data.count(b"\r\n")
    counts = {"lf": data.count(b"\n") - crlf, "crlf": crlf, "cr": data.count(b"\r") - crlf}
    used = [name for name, count in counts.items() if count]
    bom = data.startswith(UTF8_MARK)
    encoding = "utf-8"
    if is_binary(data):
        encoding = "binary"
    elif not bom:
        try:
            data.decode()
        except UnicodeDecodeError:
            encoding = "unknown-8bit"
    return IndexedSource(
        path=text.path,
        blob=blob_hash(data, text.worktree.object_format if text.worktree else "sha1"),
        sha256=digest(data),
        size=len(data),
        encoding=encoding,
        bom=bom,
        line_ending="none" if not used else used[0] if len(used) == 1 else "mixed",
        final_newline=data.endswith((b"\n", b"\r")),
    )


def is_binary(data: bytes) -> bool:
    """Whether git would call it binary: a NUL in the first 8,000 bytes, without a byte-order mark."""
    return b"\0" in data[:_SAMPLE] and not data.startswith(UTF8_MARK)


def wide_encoding(data: bytes) -> str:
    """ "UTF-16" or "UTF-32" for a text with their byte-order mark, otherwise "". Without one, the text is binary."""
    return next((name for mark, name in WIDE_MARKS.items() if data.startswith(mark)), "")
