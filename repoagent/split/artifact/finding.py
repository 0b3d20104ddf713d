"""Find what is to be split: a file of a work tree, one outside of any, or standard input."""

from __future__ import annotations

import os
import re
import stat
from hashlib import sha1
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.repo.missing import no_such_file
from repoagent.repo.run import git
from repoagent.repo.source import LARGEST, blob_hash, read_source
from repoagent.repo.worktree import NoWorkTree, WorkTree, layout, open_worktree, relative
from repoagent.split.artifact.index import Index
from repoagent.split.artifact.reading import read_index
from repoagent.split.artifact.shown import near, quoted


@dataclass(frozen=True)
class Text:
    """What is split: `path` as `IndexedSource` has it, and the bytes. `worktree` is None outside of a repository."""

    path: str
    data: bytes
    worktree: WorkTree | None = None

    @property
    def blob(self) -> str:
        return blob_hash(self.data, self.worktree.object_format if self.worktree else "sha1")


def find_worktree(cwd: Path) -> WorkTree | None:
    """The work tree of `cwd`; None outside of one. Raises UsageError where git refuses the repository."""
    try:
        return open_worktree(cwd)
    except NoWorkTree:
        return None


def find_text(name: str, cwd: Path) -> Text:
    """The file that a person in `cwd` calls `name`, read.

    In a work tree it must be a file of it: see `read_source`. Outside of any, symbolic links are followed.
    Raises UsageError for one that is missing or a folder, Refused for what can't or must not be read.
    """
    full = cwd / name
    folder = Path(os.path.realpath(full.parent))
    worktree = find_worktree(cwd)
    if worktree is None or not folder.is_relative_to(worktree.top):
        worktree = find_worktree(folder) if folder.is_dir() else None
    if worktree is None or not folder.is_relative_to(worktree.top):  # with GIT_DIR set, it may be another
        real = Path(os.path.realpath(full))
        return Text(str(real), _read_anywhere(real, name))
    return _in_worktree(worktree, relative(worktree, name, cwd))


def text_of(index: Index, cwd: Path) -> Text:
    """The source of a split as it is now. Raises UsageError when it was standard input, or is gone (and says where
    it may be)."""
    path = index.source.path
    if not path:
        raise UsageError(f"{near(index.folder, cwd)} was split from standard input: give the new text as `-`")
    if path.startswith("/"):
        return Text(path, _read_anywhere(Path(path), path))
    worktree = worktree_of(index, cwd)
    if worktree is None:
        raise UsageError(
            f"{path}, the source of {near(index.folder, cwd)}, is a file of a repository: run this in it"
        )
    source = read_source(worktree, path)
    if source.data is None:
        raise UsageError(gone(worktree, index, cwd))
    return Text(path, source.data, worktree)


def gone(worktree: WorkTree, index: Index, cwd: Path) -> str:
    """What to do when the source is not there any more, as a sentence."""
    path = index.source.path
    at = quoted(index.folder, cwd)
    for entry in git(worktree.top, "ls-files", "-s", "-z").split(b"\0"):
        fields, _, name = entry.partition(b"\t")
        if index.source.blob.encode() in fields.split(b" "):
            found = worktree.top / os.fsdecode(name)
            return (
                f"{path} is not there any more; {os.fsdecode(name)} holds the text that was split: carry the split "
                f"over with `repoagent split {quoted(found, cwd)} --refresh {at}`"
            )
    return (
        f"{path} is not there any more: bring it back (`git restore` does, if git has it), or, where it was renamed, "
        f"say its new name: `repoagent split NAME --refresh {at}`"
    )


def worktree_of(index: Index, cwd: Path) -> WorkTree | None:
    """The work tree that the path of the source is relative to: the one around `cwd` if the split is in the
    `.repoagent` that it shares with others, else the one around the split (which may be a submodule of the other), else
    the one around `cwd` after all."""
    here = find_worktree(cwd)
    if here and index.folder.is_relative_to(layout(here).root):
        return here
    return find_worktree(index.folder) or here


def default_folder(text: Text) -> Path:
    """Where a split of `text` stands when nobody says where: in `.repoagent/splits/`, under a slug of its path, with a
    hash of it where another file has that slug or may have it.

    Raises UsageError outside of a repository, and for standard input.
    """
    if text.worktree is None or not text.path:
        what = (
            f"{text.path} is in no repository" if text.path else "standard input has no place in a repository"
        )
        raise UsageError(f"{what}: say with -o into which folder to write the segments")
    splits = layout(text.worktree).splits
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", text.path).strip("-.")[:80]
    own = f"{slug}-{sha1(os.fsencode(text.path), usedforsecurity=False).hexdigest()[:8]}"
    if slug != text.path.replace("/", "-") or _source_of(splits / slug) not in (None, text.path):
        return splits / own
    return splits / slug


def _source_of(folder: Path) -> str | None:
    """The source of the split in `folder`, if there is one that can be read."""
    try:
        return read_index(folder, missing_ok=True).source.path
    except RepoagentError:  # whoever writes there says what is wrong
        return None


def _in_worktree(worktree: WorkTree, path: str) -> Text:
    source = read_source(worktree, path)
    if source.data is None:
        raise no_such_file(path, worktree.top)
    return Text(path, source.data, worktree)


def _read_anywhere(path: Path, name: str) -> bytes:
    """The bytes of a file that is not in a repository."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise no_such_file(path, Path.cwd()) from None
    except OSError as error:
        raise Refused(f"{name} can't be read: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{name} is a folder: name a file in it")
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{name} is a special file: give its text on standard input, with `-`")
        if status.st_size > LARGEST:
            raise Refused(
                f"{name} has {status.st_size:,} bytes, and repoagent splits files up to {LARGEST:,}"
            )
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)
