"""The files of a work tree: their paths, contents and changes, and the error for a missing file."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.git.process import git, git_output
from repoagent.git.worktree import WorkTree, open_worktree

# Code points that HFS+ ignores in file names.
_HFS_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_PATHS_A_CALL = 500
_SUGGESTED = 3  # similar paths for a missing file
_COMPARED_NAMES = 100  # whose folders are compared, too


def check_path(path: str) -> None:
    """Raise Refused unless `path` is a valid path in a work tree: relative, without `..` or `.git`.

    Names that another file system reads as `.git` are refused too (core.protectHFS, core.protectNTFS).
    """
    try:
        os.fsencode(path)
        is_encodable = True
    except UnicodeEncodeError:  # a surrogate that does not encode a byte
        is_encodable = False
    if not path or path.startswith("/") or "\0" in path or not is_encodable:
        raise Refused(f"{path!r} is not a path inside the work tree: use a path relative to its top")
    for name in path.split("/"):
        if name in ("", ".", ".."):
            extra = repr(name) if name else "the extra slash"
            raise Refused(f"{path} is not a normalized path inside the work tree: remove {extra}")
        for piece in name.split("\\"):
            plain = piece.translate(_HFS_IGNORED).partition(":")[0].rstrip(" .").lower()
            if plain in (".git", "git~1"):
                raise Refused(f"{path} is in a git directory, where repoagent never reads or writes")


def is_ignored(worktree: WorkTree, paths: Collection[str]) -> set[str]:
    """The given `paths` that git ignores, whether or not they exist; tracked files are never included.

    Raises GitError for a path behind a symbolic link or in a submodule.
    """
    if not paths:
        return set()
    # "./" prevents a name like ":(top)x" from being parsed as a pathspec
    text = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
    ignored = git_output(worktree.top, "check-ignore", "-z", "--stdin", stdin=text, ok=(0, 1)).stdout
    return {os.fsdecode(path).removeprefix("./") for path in ignored.split(b"\0") if path}


def is_tracked(worktree: WorkTree, paths: Collection[str]) -> set[str]:
    """The given `paths` that are in the index; folders are never included."""
    names = list(paths)
    tracked: set[str] = set()
    for start in range(0, len(names), _PATHS_A_CALL):
        listing = git(worktree.top, "ls-files", "-z", "--cached", "--", *names[start : start + _PATHS_A_CALL])
        tracked.update(os.fsdecode(path) for path in listing.split(b"\0"))
    return tracked.intersection(names)


REGULAR = "100644"
EXECUTABLE = "100755"
SYMLINK = "120000"
SUBMODULE = "160000"


@dataclass(frozen=True)
class Content:
    """The raw bytes of a file in the work tree, without git's filters, and its git mode.

    The bytes of a symbolic link are its target.
    """

    data: bytes
    mode: str = REGULAR

    @property
    def is_link(self) -> bool:
        return self.mode == SYMLINK


@dataclass(frozen=True)
class FileChange:
    """One file before and after a change.

    Paths are relative to the top of the work tree, decoded with `os.fsdecode`. `old_path` and `old` are None for a new
    file, `path` and `new` for a deleted one; the paths of a rename differ.
    """

    old_path: str | None
    path: str | None
    old: Content | None
    new: Content | None

    @classmethod
    def at(cls, path: str, old: Content | None, new: Content | None) -> FileChange:
        """The change of `path` from `old` to `new`; None means no file."""
        return cls(path if old else None, path if new else None, old, new)

    @property
    def before(self) -> bytes | None:
        return self.old.data if self.old else None

    @property
    def after(self) -> bytes | None:
        return self.new.data if self.new else None

    @property
    def old_mode(self) -> str | None:
        return self.old.mode if self.old else None

    @property
    def mode(self) -> str | None:
        return self.new.mode if self.new else None

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
    def is_noop(self) -> bool:
        return (self.old_path, self.old) == (self.path, self.new)

    @property
    def name(self) -> str:
        """The path for messages: the new path, or the old path of a deleted file."""
        return self.path or self.old_path or ""

    def reversed(self) -> FileChange:
        return FileChange(self.path, self.old_path, self.new, self.old)

    def with_data(self, before: bytes | None, after: bytes | None) -> FileChange:
        """A copy of the change with other bytes, and the same paths and modes."""
        old = None if before is None else Content(before, self.old_mode or REGULAR)
        new = None if after is None else Content(after, self.mode or REGULAR)
        return FileChange(self.old_path, self.path, old, new)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# errors of opening a file that has just been replaced by a link, a socket or a folder
_SWAPPED = {errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.EISDIR}
_FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class FileLocation:
    """A file, identified by its open folder and its name in that folder.

    `temporary` is the name of repoagent's temporary file next to it.
    """

    folder: int
    name: str
    path: str
    temporary: str

    def look(self, name: str) -> Content | None:
        """The content of the file `name` in the folder; None if it is missing.

        Raises Refused for a folder or a special file, even if it appears during the call.
        """
        special = Refused(f"{self.path} is not a regular file: repoagent edits only regular files")
        try:
            status = os.stat(name, dir_fd=self.folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                return Content(os.fsencode(os.readlink(name, dir_fd=self.folder)), SYMLINK)
            if not stat.S_ISREG(status.st_mode):
                raise special
            descriptor = self.open(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in _SWAPPED:
                raise special from error
            raise
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise special
            return Content(file.read(), EXECUTABLE if status.st_mode & stat.S_IXUSR else REGULAR)

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
    top: Path,
    path: str,
    temporary: str = "",
    *,
    create: bool = False,
    enter: Callable[[str, int], None] | None = None,
) -> Iterator[FileLocation]:
    """Open the folder that contains `path` without following symbolic links; `create` makes missing folders.

    `enter` is called with the path and the descriptor of each folder on the way.
    """
    *folders, name = path.split("/")
    descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for depth, folder in enumerate(folders, 1):
            if create:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=descriptor)
            inner = os.open(folder, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
            if enter is not None:
                enter("/".join(folders[:depth]), descriptor)
        yield FileLocation(descriptor, name, path, temporary)
    finally:
        os.close(descriptor)


def read_content(top: Path, path: str) -> Content | None:
    """The content of `path`; None if it is missing. Raises Refused for a folder or a special file."""
    try:
        with open_location(top, path) as location:
            return location.look(location.name)
    except (FileNotFoundError, NotADirectoryError):
        return None


def same_content(first: Content | None, second: Content | None) -> bool:
    """Whether two contents have equal bytes, and both are links or both are files.

    The executable bit is ignored, since it is meaningless if core.fileMode is off.
    """
    if first is None or second is None:
        return first is second
    return first.data == second.data and first.is_link == second.is_link


def is_partly_overwritten(current: Content | None, old: Content | None, new: Content | None) -> bool:
    """Whether `current` is `old`, partly overwritten in place by `new`."""
    if current is None or old is None or new is None or current.is_link:
        return False
    low, high = 0, min(len(current.data), len(new.data))
    while low < high:  # the length of the common prefix, by bisection: a loop over bytes is slow
        middle = (low + high + 1) // 2
        if current.data[low:middle] == new.data[low:middle]:
            low = middle
        else:
            high = middle - 1
    return current.data[low:] == old.data[low:]


LARGEST = 256 * 1024 * 1024
_BINARY_PREFIX = 8000  # bytes, as many as git reads
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Source:
    """A file on disk. `blob` is the hash of its raw bytes, as computed by `git hash-object --no-filters`.

    For a missing file, `content` is None and `blob` is "".
    """

    path: str
    content: Content | None
    blob: str

    @property
    def data(self) -> bytes | None:
        return self.content.data if self.content else None

    @property
    def binary(self) -> bool:
        """Whether git would treat the file as binary; UTF-16 with a byte-order mark counts as text here."""
        head = (self.data or b"")[:_BINARY_PREFIX]
        return b"\0" in head and not head.startswith(_BYTE_ORDER_MARKS)


def blob_hash(data: bytes, object_format: str = "sha1") -> str:
    digest = hashlib.new(object_format, b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def empty_tree(worktree: WorkTree) -> str:
    """The id of a tree without files. The tree need not exist in the repository."""
    return hashlib.new(worktree.object_format, b"tree 0\0", usedforsecurity=False).hexdigest()


def read_source(worktree: WorkTree, path: str) -> Source:
    """Read the file `path` without following symbolic links.

    Raises Refused for an invalid path, a path in another repository, a symbolic link or a path behind one, a folder,
    and a special, unreadable or too large file.
    """
    check_path(path)

    enter = partial(_refuse_other_repository, worktree, path)
    try:
        with open_location(worktree.top, path, enter=enter) as location:
            descriptor = location.open(location.name, os.O_RDONLY)
            try:
                status = os.fstat(descriptor)
                if stat.S_ISDIR(status.st_mode):
                    enter(path, descriptor)
                    raise Refused(f"{path} is a folder: name a file in it")
                if not stat.S_ISREG(status.st_mode):
                    raise Refused(f"{path} is a special file: repoagent edits only regular files")
                if status.st_size > LARGEST:
                    raise Refused(
                        f"{path} is too large ({status.st_size:,} bytes): the limit is {LARGEST:,} bytes"
                    )
                with open(descriptor, "rb", closefd=False) as file:
                    data = file.read()
            finally:
                os.close(descriptor)
    except FileNotFoundError:
        return Source(path, None, "")
    except OSError as error:
        raise _unreadable(worktree, path, error) from error
    executable = bool(status.st_mode & stat.S_IXUSR)
    if not _trusts_executable_bit(worktree):
        entry = git(worktree.top, "ls-files", "-s", "-z", "--", path)
        executable = entry.startswith(b"100755 ") if entry else executable
    content = Content(data, EXECUTABLE if executable else REGULAR)
    return Source(path, content, blob_hash(data, worktree.object_format))


def _refuse_other_repository(worktree: WorkTree, path: str, folder: str, descriptor: int) -> None:
    try:
        os.stat(".git", dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        # A submodule that is not checked out is an empty folder, so only then ask git for the index.
        with os.scandir(descriptor) as entries:
            if next(entries, None) is not None:
                return
        if not git(worktree.top, "ls-files", "-s", "-z", "--", folder).startswith(b"160000 "):
            return
    inside = path.removeprefix(folder).removeprefix("/")
    remedy = f"run repoagent inside {folder}" + (f" on {inside}" if inside else "")
    raise Refused(f"{path} belongs to the submodule or repository {folder}: {remedy}")


def _unreadable(worktree: WorkTree, path: str, error: OSError) -> Refused:
    if error.errno == errno.ENXIO:
        return Refused(f"{path} is a special file: repoagent edits only regular files")
    names = path.split("/")
    for depth in range(1, len(names) + 1) if error.errno in (errno.ELOOP, errno.ENOTDIR) else ():
        part = "/".join(names[:depth])
        if (worktree.top / part).is_symlink():
            link = f"{path} {'is' if part == path else f'leads through {part},'} a symbolic link"
            try:
                real = Path(os.path.realpath(worktree.top / path))
            except OSError:  # it is no longer a link
                return Refused(f"{link}: repoagent edits only the files themselves")
            if not real.is_relative_to(worktree.top):
                return Refused(
                    f"{link} that points outside the work tree: repoagent edits only files inside it"
                )
            target = real.relative_to(worktree.top).as_posix()
            return Refused(f"{link}: name the file itself, {target}")
        if not (worktree.top / part).is_dir() and part != path:
            return Refused(f"cannot open {path}: {part} is not a folder")
    return Refused(f"cannot read {path}: {error.strerror}")


def _trusts_executable_bit(worktree: WorkTree) -> bool:
    elsewhere = {"GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_CONFIG"} & os.environ.keys()
    if not elsewhere and not worktree.is_linked:
        try:
            text = (worktree.common_dir / "config").read_bytes()
        except OSError:
            text = b""  # git reports the problem
        plain = not re.search(rb"(?i)\[include|worktreeConfig", text)  # no other file can override it
        if plain and re.findall(rb"(?im)^\s*filemode\s*=\s*(.*?)\s*$", text) == [b"true"]:
            return True
    answer = git_output(worktree.top, "config", "--type=bool", "--get", "core.filemode", ok=(0, 1))
    return answer.stdout.strip() != b"false"


class NoSuchFile(UsageError):
    """A file is missing.

    `reason` is a clause that says why, and `near` are similar existing files, likeliest first. All paths are absolute.
    """

    def __init__(
        self, path: Path, top: Path, *, reason: str = "", remedy: str = "", near: Sequence[Path] = ()
    ) -> None:
        self.path, self.reason, self.remedy, self.near = path, reason, remedy, tuple(near)
        super().__init__(
            self.worded(lambda path: os.path.relpath(path, top) if path.is_relative_to(top) else str(path))
        )

    def worded(self, name: Callable[[Path], str]) -> str:
        """The message, with each path formatted by `name`."""
        sentence = f"no such file: {name(self.path)}{self.reason and f', {self.reason}'}"
        *others, last = [shlex.quote(name(path)) for path in self.near] or [""]
        if last:
            sentence += f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
        if self.remedy:
            sentence += f" ({self.remedy})" if last else f"; {self.remedy}"
        return sentence

    def details(self) -> dict[str, object]:
        return {"file": str(self.path), "near": [str(path) for path in self.near]}


def no_such_file(name: str | Path, folder: Path, *, reason: str = "", remedy: str = "") -> NoSuchFile:
    """The error for the missing file `name`, relative to `folder`. Its message suggests files with similar names.

    Files that git ignores are not suggested.
    """
    path = Path(os.path.normpath(Path(os.path.realpath(folder), name)))
    try:
        top = open_worktree(folder).top
        listing = git(top, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    except (RepoagentError, OSError):
        return NoSuchFile(path, folder, reason=reason, remedy=remedy)
    if not path.is_relative_to(top):
        return NoSuchFile(path, top, reason=reason, remedy=remedy)
    paths = list(dict.fromkeys(os.fsdecode(entry) for entry in listing.split(b"\0") if entry))
    missing = os.fspath(path.relative_to(top))
    if missing in paths:
        restore = f"`git restore {shlex.quote(os.path.relpath(path))}` restores it{remedy and f'; {remedy}'}"
        return NoSuchFile(path, top, reason="which git still tracks", remedy=restore)
    written = os.path.relpath(path, Path.cwd())
    if written.startswith(".."):
        written = missing
    # the requested path from the top, else the only path that ends in it
    matches = [path for path in paths if path.endswith(f"/{written}") or path == written]
    match = matches[0] if len(matches) == 1 else written if written in matches else None
    near = [
        top / path
        for path in ([match] if match else similar_paths(written, paths))
        if os.path.lexists(top / path)
    ]
    return NoSuchFile(path, top, reason=reason, remedy=remedy, near=near)


def similar_paths(written: str, paths: Sequence[str]) -> list[str]:
    """Up to three of `paths` that `written` may be a misspelling of, likeliest first."""
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    folder, _, name = written.casefold().rpartition("/")
    stem = name.rpartition(".")[0] or name
    named: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        named[path.rpartition("/")[2].casefold()].append(path)
    names = list(named)
    cutoff = max(1, min(len(stem) // 3, 3)) if len(stem) > 1 else 0
    nearest = process.extract(name, names, scorer=OSA.distance, score_cutoff=cutoff, limit=_COMPARED_NAMES)
    distances = {near: int(distance) for near, distance, _ in nearest}
    distances.update(
        {other: 1 for other in names if (other.rpartition(".")[0] or other) == stem and other != name}
    )
    ranked = []
    for near, distance in distances.items():
        for path in named[near]:
            other = path.rpartition("/")[0].casefold()
            if not folder or f"/{other}/".endswith(f"/{folder}/"):
                away = 0
            else:
                away = 1 if f"/{folder}/" in f"/{other}/" else OSA.distance(folder, other)
            if not distance or away <= max(2, len(folder) // 3):
                ranked.append((2 * distance + away, len(path), path))
    ranked.sort()
    return [path for cost, _, path in ranked[:_SUGGESTED] if cost <= ranked[0][0] + (ranked[0][0] > 0)]
