"""The files of a work tree: which paths are allowed, what a file holds, and the change of one file.

`look` opens each folder on the way without following symbolic links. `read_source` also refuses everything that is
not a regular file of this repository.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.process import git, git_output
from repoagent.git.worktree import WorkTree

# Code points that HFS+ leaves out when it compares names.
_HFS_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_PATHS_A_CALL = 500


def check_path(path: str) -> None:
    """Raise Refused unless `path` may name a file of a work tree: relative, no `..`, nothing that is `.git`.

    Names that other file systems take for `.git` are refused too, as git does (core.protectHFS, protectNTFS).
    """
    if not path or path.startswith("/") or "\0" in path or _unnameable(path):
        raise Refused(f"{path!r} is not a path inside the work tree: use one relative to its top")
    for name in path.split("/"):
        if name in ("", ".", ".."):
            raise Refused(f"{path} is not a plain path inside the work tree: write it without {name!r}")
        for piece in name.split("\\"):
            plain = piece.translate(_HFS_IGNORED).partition(":")[0].rstrip(" .").lower()
            if plain in (".git", "git~1"):
                raise Refused(f"{path} is in a git directory, and repoagent never reads or writes there")


def _unnameable(path: str) -> bool:
    """Whether it holds half of a UTF-16 pair, which stands for no byte."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return True
    return False


def is_ignored(worktree: WorkTree, paths: Collection[str]) -> set[str]:
    """Those of `paths` that git's ignore rules name, existing or not; tracked files are never among them.

    One git call. Raises GitError for a path behind a symbolic link or in a submodule.
    """
    if not paths:
        return set()
    # "./" keeps a name like ":(top)x" from being taken for a pathspec
    given = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
    found = git_output(worktree.top, "check-ignore", "-z", "--stdin", stdin=given, ok=(0, 1)).stdout
    return {os.fsdecode(path).removeprefix("./") for path in found.split(b"\0") if path}


def is_tracked(worktree: WorkTree, paths: Collection[str]) -> set[str]:
    """Those of `paths` that are in the index (a folder is not, whatever is in it). One git call per 500
    paths."""
    wanted = list(paths)
    found: set[str] = set()
    for start in range(0, len(wanted), _PATHS_A_CALL):
        some = wanted[start : start + _PATHS_A_CALL]
        listed = git(worktree.top, "ls-files", "-z", "--cached", "--", *some)
        found.update(os.fsdecode(path) for path in listed.split(b"\0"))
    return found.intersection(wanted)


REGULAR = "100644"
EXECUTABLE = "100755"
SYMLINK = "120000"
SUBMODULE = "160000"


@dataclass(frozen=True)
class FileChange:
    """One file before and after, as raw work-tree bytes (git's filters not applied).

    Paths are relative to the top of the work tree, `/`-separated, decoded with `os.fsdecode`
    (so any byte survives). `old_path` is None for a new file, `path` is None for a deleted one, and
    both are given and differ for a rename. Modes are git's: "100644", "100755", "120000"; a mode is
    None exactly where the bytes of its side are None.
    """

    old_path: str | None
    path: str | None
    before: bytes | None
    after: bytes | None
    old_mode: str | None = None
    mode: str | None = None

    @property
    def is_new(self) -> bool:
        return self.old_path is None

    @property
    def is_deletion(self) -> bool:
        return self.path is None

    @property
    def is_rename(self) -> bool:
        return self.old_path is not None and self.path is not None and self.old_path != self.path

    @property
    def name(self) -> str:
        """The path to speak of it by: the new one, or the deleted one."""
        return self.path or self.old_path or ""


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SWAPPED = {
    errno.ELOOP,
    errno.EINVAL,
    errno.ENXIO,
    errno.EISDIR,
}  # a link, a file in place of one, a socket, a folder
_FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Content:
    """The bytes of a file and its git mode; those of a symbolic link are its target."""

    data: bytes
    mode: str = REGULAR

    @property
    def is_link(self) -> bool:
        return self.mode == SYMLINK


@dataclass(frozen=True)
class FileLocation:
    """The file `path`: its open folder, its name there, and a name beside it that is ours."""

    folder: int
    name: str
    path: str
    temporary: str

    def look(self, name: str) -> Content | None:
        """What is at `name` in the folder. Raises Refused for a folder or a special file, and for what becomes another
        thing in this moment."""
        try:
            status = os.stat(name, dir_fd=self.folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                return Content(os.fsencode(os.readlink(name, dir_fd=self.folder)), SYMLINK)
            if not stat.S_ISREG(status.st_mode):
                raise self._special()
            descriptor = self.open(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in _SWAPPED:
                raise self._special() from error
            raise
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise self._special()
            return Content(file.read(), EXECUTABLE if status.st_mode & stat.S_IXUSR else REGULAR)

    def _special(self) -> Refused:
        return Refused(f"{self.path} is not a regular file: repoagent edits only regular files")

    def open(self, name: str, flags: int, permissions: int = 0o600) -> int:
        return os.open(name, flags | _FILE_FLAGS, permissions, dir_fd=self.folder)

    def link(self, source: str, target: str) -> None:
        os.link(source, target, src_dir_fd=self.folder, dst_dir_fd=self.folder, follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target, src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.folder)


@contextmanager
def open_location(
    top: Path, path: str, temporary: str = "", *, create: bool = False
) -> Iterator[FileLocation]:
    """The place of `path` (relative to `top`); with `create`, folders are made where they are missing."""
    *folders, name = path.split("/")
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=here)
            inner = os.open(folder, _FOLDER, dir_fd=here)
            os.close(here)
            here = inner
        yield FileLocation(here, name, path, temporary)
    finally:
        os.close(here)


def look(top: Path, path: str) -> Content | None:
    """What is at `path` (relative to `top`), or None. Raises Refused for a folder or a special file."""
    try:
        with open_location(top, path) as location:
            return location.look(location.name)
    except (FileNotFoundError, NotADirectoryError):
        return None


def same(one: Content | None, other: Content | None) -> bool:
    """Equal bytes of the same kind. The executable bit does not count: where core.fileMode is off it means
    nothing."""
    if one is None or other is None:
        return one is other
    return one.data == other.data and one.is_link == other.is_link


def torn(found: Content | None, old: Content | None, new: Content | None) -> bool:
    """Whether `found` is `old` half overwritten in place by `new`."""
    if found is None or old is None or new is None or found.is_link:
        return False
    ours = _common_length(found.data, new.data)
    return found.data[ours:] == old.data[ours:]


def _common_length(one: bytes, other: bytes) -> int:
    """How many bytes both begin with, by halving: a loop over bytes is slow."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


LARGEST = 256 * 1024 * 1024
_BINARY_LOOK = 8000  # as many bytes as git itself looks at
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
_SOURCE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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
        return Refused(f"cannot open {path}: {so_far} is not a folder")
    return Refused(f"cannot read {path}: {error.strerror}")


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
        descriptor = os.open(name, _SOURCE_FLAGS, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _behind_link(worktree, path, path) from error
        if error.errno == errno.ENXIO:
            raise Refused(f"{path} is a special file: repoagent edits only regular files") from error
        raise Refused(f"cannot read {path}: {error.strerror}") from error
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
