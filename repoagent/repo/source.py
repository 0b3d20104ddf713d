"""Read a file of the work tree the way an edit needs it: its raw bytes, mode and blob, and never a
stranger's."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.repo.change import EXECUTABLE, REGULAR
from repoagent.repo.paths import check_path
from repoagent.repo.run import git, git_output
from repoagent.repo.worktree import WorkTree

LARGEST = 256 * 1024 * 1024
_BINARY_LOOK = 8000  # as many bytes as git itself looks at
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Source:
    """A file as it is on disk. A missing one has `data` and `mode` None and `blob` "".

    `blob` is the hash of the raw bytes, as `git hash-object --no-filters` gives it.
    """

    path: str
    data: bytes | None
    mode: str | None
    blob: str

    @property
    def binary(self) -> bool:
        """Whether git would take it for binary; UTF-16 with its byte-order mark is text here."""
        head = (self.data or b"")[:_BINARY_LOOK]
        return b"\0" in head and not head.startswith(_BYTE_ORDER_MARKS)


def blob_hash(data: bytes, object_format: str = "sha1") -> str:
    """The id of `data` as a git blob."""
    digest = hashlib.new(object_format, b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def read_source(worktree: WorkTree, path: str) -> Source:
    """Read the file `path` (relative to the top), no symbolic link followed.

    Raises Refused for a path that can't be a file of this work tree (see `check_path`), one in a submodule or
    another repository, one behind or itself a symbolic link, a folder, a special file, an unreadable one or
    one of more than LARGEST bytes.
    """
    check_path(path)
    *folders, name = path.split("/")
    parent = _open_folders(worktree, path, folders)
    if parent is None:
        return Source(path, None, None, "")
    try:
        found = _read(worktree, path, parent, name)
    finally:
        os.close(parent)
    if found is None:
        return Source(path, None, None, "")
    data, executable = found
    return Source(
        path, data, _mode(worktree, path, executable=executable), blob_hash(data, worktree.object_format)
    )


def _open_folders(worktree: WorkTree, path: str, folders: list[str]) -> int | None:
    """A descriptor of the folder that holds `path`, or None when it is missing."""
    here = os.open(worktree.top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for depth, name in enumerate(folders, 1):
        so_far = "/".join(folders[:depth])
        try:
            inner = os.open(name, _FOLDER, dir_fd=here)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _no_folder(worktree, path, so_far, error) from error
        finally:
            os.close(here)
        here = inner
        try:
            _refuse_other_repository(worktree, path, so_far, here)
        except BaseException:
            os.close(here)
            raise
    return here


def _no_folder(worktree: WorkTree, path: str, so_far: str, error: OSError) -> Refused:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        if (worktree.top / so_far).is_symlink():
            return _behind_link(worktree, path, so_far)
        return Refused(f"{path} can't be a file: {so_far} is not a folder")
    return Refused(f"{path} can't be read: {error.strerror}")


def _behind_link(worktree: WorkTree, path: str, link: str) -> Refused:
    """The refusal of a path that is, or leads through, the symbolic link `link`."""
    what = "is" if link == path else f"leads through {link},"
    try:
        real = Path(os.path.realpath(worktree.top / path))
    except OSError:  # by now it is a link no more
        return Refused(f"{path} {what} a symbolic link: repoagent edits only the files themselves")
    if not real.is_relative_to(worktree.top):
        return Refused(
            f"{path} {what} a symbolic link out of the work tree: repoagent edits only files inside it"
        )
    target = real.relative_to(worktree.top).as_posix()
    return Refused(f"{path} {what} a symbolic link: name the file itself, {target}")


def _refuse_other_repository(worktree: WorkTree, path: str, folder: str, descriptor: int) -> None:
    try:
        os.stat(".git", dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        pass
    else:
        raise _in_other_repository(path, folder)
    # A submodule that is not checked out is an empty folder: only then is the index worth a git call.
    with os.scandir(descriptor) as entries:
        empty = next(entries, None) is None
    if empty and git(worktree.top, "ls-files", "-s", "-z", "--", folder).startswith(b"160000 "):
        raise _in_other_repository(path, folder)


def _in_other_repository(path: str, folder: str) -> Refused:
    inside = path.removeprefix(folder).removeprefix("/")
    what = f"run repoagent inside {folder}" + (f" with {inside}" if inside else "")
    return Refused(f"{path} belongs to the submodule or repository {folder}: {what}")


def _read(worktree: WorkTree, path: str, parent: int, name: str) -> tuple[bytes, bool] | None:
    try:
        descriptor = os.open(name, _FILE, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _behind_link(worktree, path, path) from error
        if error.errno == errno.ENXIO:
            raise Refused(f"{path} is a special file: repoagent edits only regular files") from error
        raise Refused(f"{path} can't be read: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            _refuse_other_repository(worktree, path, path, descriptor)
            raise Refused(f"{path} is a folder: name a file in it")
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{path} is a special file: repoagent edits only regular files")
        if status.st_size > LARGEST:
            raise Refused(f"{path} has {status.st_size:,} bytes, and repoagent edits files up to {LARGEST:,}")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(), bool(status.st_mode & stat.S_IXUSR)
    finally:
        os.close(descriptor)


def _mode(worktree: WorkTree, path: str, *, executable: bool) -> str:
    """git's mode of a file: what the index says where the file system's executable bit means nothing."""
    if not _trusts_executable_bit(worktree):
        entry = git(worktree.top, "ls-files", "-s", "-z", "--", path)
        if entry:
            executable = entry.startswith(b"100755 ")
    return EXECUTABLE if executable else REGULAR


def _trusts_executable_bit(worktree: WorkTree) -> bool:
    """core.fileMode. `git init` writes it, so a look into the file saves a call of git nearly always."""
    elsewhere = {"GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_CONFIG"} & os.environ.keys()
    if not elsewhere and not worktree.is_linked:
        try:
            text = (worktree.common_dir / "config").read_bytes()
        except OSError:
            text = b""  # git is asked, and has its own words for this
        plain = not re.search(rb"(?i)\[include|worktreeConfig", text)  # nothing else is read for it
        if plain and re.findall(rb"(?im)^\s*filemode\s*=\s*(.*?)\s*$", text) == [b"true"]:
            return True
    answer = git_output(worktree.top, "config", "--type=bool", "--get", "core.filemode", ok=(0, 1))
    return answer.stdout.strip() != b"false"
