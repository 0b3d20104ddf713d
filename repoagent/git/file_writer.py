"""Replace one file of the work tree atomically, keeping its metadata and what another program saves during the call.

The new file is exchanged with the old one in one system call (renameat2 on Linux, renameatx_np on macOS), and exchanged
back if the old file has unexpected content. A file that cannot be exchanged (hard links, mount points) is overwritten
in place. A `FileStep` is one such write.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import (
    EXECUTABLE,
    Content,
    FileChange,
    FileLocation,
    is_partly_overwritten,
    open_location,
    read_content,
    same_content,
)
from repoagent.storage.folders import SystemFailed
from repoagent.storage.layout import to_stderr

_LINUX_EXCHANGE = 2  # RENAME_EXCHANGE of linux/fs.h
_DARWIN_SWAP = 2  # RENAME_SWAP of sys/stdio.h
_UNKNOWN = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


def exchange_files(folder: int, first: str, second: str) -> bool:
    """Exchange two files of the open folder; return False if the system or file system cannot do that.

    Raises OSError for any other failure, such as EBUSY for a mount point.
    """
    import ctypes  # 8 ms, and only writing needs it

    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        call, flag = getattr(library, "renameatx_np", None), _DARWIN_SWAP
    else:
        call, flag = getattr(library, "renameat2", None), _LINUX_EXCHANGE
    if call is None:
        return False
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    if call(folder, os.fsencode(first), folder, os.fsencode(second), flag) == 0:
        return True
    error = ctypes.get_errno()
    if error in _UNKNOWN:
        return False
    raise OSError(error, os.strerror(error), first)


class FilesChanged(Refused):
    """Files have changed since the edit was made. `current` maps their paths to their current content."""

    def __init__(self, current: dict[str, Content | None]) -> None:
        self.current = current
        names = ", ".join(sorted(current))
        super().__init__(f"{names} changed on disk, so the edit was not written: run it again")


class CannotReplace(OSError):
    """The file cannot be replaced without losing metadata, so it must be written in place."""


BACKUP_SUFFIX = ".old"  # appended to the name of the temporary file, for a copy of the replaced file
# The system refuses to rename over a mount point, and to create a file in a folder without write permission.
_NOT_REPLACEABLE = {errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS}
_WRITERS_SECONDS = 0.5  # a save takes some milliseconds
_POLL_SECONDS = 0.001


def write_file(
    top: Path,
    path: str,
    old: Content | None,
    new: Content | None,
    temporary: str,
    *,
    permissions: int | None = None,
) -> None:
    """Replace the content `old` of `path` with `new` (None: no file), keeping owner, mode, ACL and extended
    attributes.

    `temporary` is an unused file name in the same folder. A new file gets `permissions`, by default according to the
    umask. Missing folders are created; folders left empty by a deletion are removed. Raises FilesChanged if the
    content is not `old` or changes during the call, SystemFailed if a system call fails.
    """
    try:
        with open_location(top, path, temporary, create=old is None) as location:
            if old is not None and new is not None:
                _change(location, old, new)
            elif new is not None:
                _create(location, new, permissions)
            elif old is not None:
                _delete(location, old)
            os.fsync(location.folder)
    except OSError as error:
        raise SystemFailed(f"cannot write {path}: {error.strerror}; fix that and try again") from error
    if new is None:
        current = Path.cwd()
        for parent in [top / parent for parent in Path(path).parents][:-1]:
            if parent == current or parent in current.parents:  # keep the current folder of this process
                return
            try:
                parent.rmdir()
            except OSError:
                return


def _change(location: FileLocation, old: Content, new: Content) -> None:
    if same_content(old, new):
        _refuse_unless(location, old)
    elif old.is_link or new.is_link:
        _create_temporary(location, new)
        _swap(location, old, new)
        return
    else:
        try:
            _create_temporary_like(location, old, new)
            _swap(location, old, new)
        except CannotReplace:
            # from front to back, then truncate: a kill leaves a `is_partly_overwritten` file
            with os.fdopen(location.open(location.name, os.O_RDWR), "r+b", buffering=0) as file:
                if hasattr(fcntl, "F_SETLEASE"):
                    _lease(file.fileno(), fcntl.F_WRLCK)
                current = file.readall()
                if current != old.data:
                    raise FilesChanged({location.path: Content(current, old.mode)}) from None
                file.seek(0)
                view = memoryview(new.data)
                while view:
                    view = view[file.write(view) :]
                file.truncate()
                os.fsync(file.fileno())
    if old.mode != new.mode:  # as git does: set the executable bits of those who may read, or clear all
        mode = os.stat(location.name, dir_fd=location.folder, follow_symlinks=False).st_mode
        permissions = stat.S_IMODE(mode) & ~0o111
        if new.mode == EXECUTABLE:
            permissions |= (permissions & 0o444) >> 2
        os.chmod(location.name, permissions, dir_fd=location.folder)


def _create(location: FileLocation, new: Content, permissions: int | None) -> None:
    _create_temporary(location, new)
    try:
        if permissions is not None and not new.is_link:
            os.chmod(location.temporary, permissions, dir_fd=location.folder)
        try:
            location.link(location.temporary, location.name)
        except FileExistsError:
            raise FilesChanged({location.path: location.look(location.name)}) from None
        except OSError:  # a file system without hard links
            _refuse_unless(location, None)
            location.rename(location.temporary, location.name)
    finally:
        location.remove(location.temporary)


def _delete(location: FileLocation, old: Content) -> None:
    _refuse_unless(location, old)
    location.rename(location.name, location.temporary)
    _wait_for_writers(location, location.temporary)
    removed = location.look(location.temporary)
    if not same_content(removed, old):
        try:
            location.link(location.temporary, location.name)
        except FileExistsError:
            raise _keep_earlier_save(location) from None
    location.remove(location.temporary)
    if not same_content(removed, old):
        raise FilesChanged({location.path: removed})


def _refuse_unless(location: FileLocation, old: Content | None) -> None:
    current = location.look(location.name)
    if not same_content(current, old):
        raise FilesChanged({location.path: current})


def _keep_earlier_save(location: FileLocation) -> FilesChanged:
    """Keep an earlier save next to the file, which was saved again while that save was being restored."""
    number = 1
    while location.look(name := f"{location.temporary}-saved-{number}") is not None:
        number += 1
    location.rename(location.temporary, name)
    path = (Path(location.path).parent / name).as_posix()
    to_stderr(
        f"{location.path} was saved twice while repoagent was writing it: the earlier save is in {path}"
    )
    return FilesChanged({location.path: location.look(location.name)})


def _create_temporary(location: FileLocation, new: Content, permissions: int | None = None) -> None:
    if new.is_link:
        os.symlink(new.data, os.fsencode(location.temporary), dir_fd=location.folder)
        return
    if permissions is None:
        permissions = 0o777 if new.mode == EXECUTABLE else 0o666
    descriptor = location.open(location.temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permissions)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(new.data)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        location.remove(location.temporary)
        raise


def _create_temporary_like(location: FileLocation, old: Content, new: Content) -> None:
    """Create the temporary file with the bytes of `new` and the metadata of the existing file."""
    model = location.open(location.name, os.O_RDONLY)
    try:
        if os.fstat(model).st_nlink > 1:
            raise CannotReplace(errno.EMLINK, "it has several hard links")
        _refuse_unless(location, old)
        try:
            _create_temporary(location, new, 0o600)
        except OSError as error:
            raise _not_replaceable(error) from error
        try:
            copy_metadata(location, model)
        except BaseException:
            location.remove(location.temporary)
            raise
    finally:
        os.close(model)


def copy_metadata(location: FileLocation, model: int) -> None:
    """Copy owner, mode, ACL and extended attributes from the open file `model` to the temporary file.

    Raises CannotReplace if that is not permitted.
    """
    copy = location.open(location.temporary, os.O_RDONLY)
    try:
        status, created = os.fstat(model), os.fstat(copy)
        if (status.st_uid, status.st_gid) != (created.st_uid, created.st_gid):
            os.fchown(copy, status.st_uid, status.st_gid)
        os.fchmod(copy, stat.S_IMODE(status.st_mode))
        names = []
        if hasattr(os, "listxattr"):  # Linux; an ACL is an attribute there
            try:
                names = os.listxattr(model)
            except OSError as error:
                if error.errno not in (errno.ENOTSUP, errno.EOPNOTSUPP):
                    raise
        for name in names:
            value = os.getxattr(model, name)
            # some are set by the system, and we may not set them
            is_set = name.startswith("security.") and name in os.listxattr(copy)
            if not (is_set and os.getxattr(copy, name) == value):
                os.setxattr(copy, name, value)
        os.fsync(copy)
    except PermissionError as error:
        raise CannotReplace(error.errno, error.strerror) from error
    finally:
        os.close(copy)


def _swap(location: FileLocation, old: Content, new: Content) -> None:
    """Exchange the temporary file with the existing one, and back if that was not `old`: it was saved just before.

    Without an exchange, a second name keeps the existing file until it has been compared.
    """
    try:
        swapped = exchange_files(location.folder, location.temporary, location.name)
    except OSError as error:
        location.remove(location.temporary)
        raise _not_replaceable(error) from error
    kept = location.temporary
    if not swapped:
        kept += BACKUP_SUFFIX
        try:
            location.link(location.name, kept)
        except OSError as error:
            location.remove(location.temporary)
            raise CannotReplace(error.errno, error.strerror) from error
        try:
            location.rename(location.temporary, location.name)
        except OSError as error:
            location.remove(kept)
            location.remove(location.temporary)
            raise _not_replaceable(error) from error
    _wait_for_writers(location, kept)
    replaced = location.look(kept)
    if not same_content(replaced, old) and not swapped:
        location.rename(kept, location.name)
    elif not same_content(replaced, old):
        exchange_files(location.folder, location.temporary, location.name)
        _wait_for_writers(location, location.temporary)
        if not same_content(location.look(location.temporary), new):  # a later save
            exchange_files(location.folder, location.temporary, location.name)
            raise _keep_earlier_save(location)
    location.remove(kept)
    if not same_content(replaced, old):
        raise FilesChanged({location.path: replaced})


def _not_replaceable(error: OSError) -> OSError:
    """The error as CannotReplace, if the file can still be written in place."""
    return CannotReplace(error.errno, error.strerror) if error.errno in _NOT_REPLACEABLE else error


def _wait_for_writers(location: FileLocation, name: str) -> None:
    """Wait (0.5 s at most) until no program still writes the file that it had opened before the exchange. Only on
    Linux."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return
    try:
        descriptor = location.open(name, os.O_RDONLY)
    except OSError:  # a link, or gone
        return
    try:
        _lease(descriptor, fcntl.F_RDLCK)
    finally:
        os.close(descriptor)


def _lease(descriptor: int, kind: int) -> None:
    """Take a lease: none else writes the file (F_RDLCK) or has it open (F_WRLCK), and whoever opens it waits. Continue
    without one after a while or an error."""
    deadline = time.monotonic() + _WRITERS_SECONDS
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # sent when a process waits for us; does nothing
    while True:
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, kind)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
                continue
        except OSError:  # another user's file, or a file system without leases
            pass
        return


@dataclass(frozen=True)
class FileStep:
    """The write of one file, from `old` to `new`.

    `temporary` is the name of the new file until it replaces the old one. For a change that is already in the work
    tree, `old` and `new` are the current content, `was` is the content before the change and `done` the content after
    it. If `new` comes from a hook or from a save by the user, `wrote` is what the step itself wrote.
    """

    path: str
    old: Content | None
    new: Content | None
    temporary: str
    permissions: int | None = None
    was: Content | None = None
    done: Content | None = None
    wrote: Content | None = None


def steps_of(
    changes: Iterable[FileChange], edit_id: str, in_place: Mapping[str, Content | None] | None = None
) -> tuple[FileStep, ...]:
    """The steps for the changes; a rename becomes a new file and a deletion.

    `in_place` means that the work tree already has the changes. It maps paths to the content of files that have changed
    since.
    """
    sides: list[tuple[str, Content | None, Content | None]] = []
    for change in changes:
        if change.path is not None:
            sides.append((change.path, None if change.is_rename else change.old, change.new))
        if change.old_path is not None and change.old_path != change.path:
            sides.append((change.old_path, change.old, None))
    steps = []
    for number, (path, old, new) in enumerate(sides):
        step = FileStep(path, old, new, f".repoagent-{edit_id}-{number}")
        if in_place is not None:
            current = in_place.get(path, new)
            step = replace(step, old=current, new=current, was=old, done=new)
        steps.append(step)
    return tuple(steps)


def with_permissions(
    top: Path, steps: Sequence[FileStep], changes: Sequence[FileChange]
) -> tuple[FileStep, ...]:
    """The steps, with `permissions` set for renamed and deleted files."""
    sources = {
        change.path: change.old_path
        for change in changes
        if change.is_rename and change.mode == change.old_mode
    }
    with_them = []
    for step in steps:
        if step.path in sources or step.new is None:
            with suppress(OSError):
                mode = (top / (sources.get(step.path) or step.path)).lstat().st_mode
                if not stat.S_ISLNK(mode):
                    step = replace(step, permissions=stat.S_IMODE(mode))
        with_them.append(step)
    return tuple(with_them)


def refuse_moved(top: Path, steps: Sequence[FileStep]) -> None:
    current = {step.path: read_content(top, step.path) for step in steps}
    moved = {
        step.path: current[step.path] for step in steps if not same_content(current[step.path], step.old)
    }
    if moved:
        raise FilesChanged(moved)


def new_folders(top: Path, steps: Sequence[FileStep]) -> tuple[str, ...]:
    """The folders that the steps will create, inner ones first."""
    parents = {
        parent.as_posix()
        for step in steps
        if step.new is not None
        for parent in list(Path(step.path).parents)[:-1]
    }
    return tuple(sorted((path for path in parents if not (top / path).is_dir()), key=len, reverse=True))


def revert_step(top: Path, step: FileStep) -> bool:
    """Restore `old` if the file still has what the step wrote; return False if another program has changed it.

    If a killed process left another program's version under a temporary name, that version is restored instead.
    """
    save: Path | None = None
    for name in (step.temporary, step.temporary + BACKUP_SUFFIX):  # remove our files that a kill has left
        path = (Path(step.path).parent / name).as_posix()
        leftover = read_content(top, path)
        if leftover is None:
            continue
        unfinished = step.new is not None and step.new.data.startswith(leftover.data)
        if same_content(leftover, step.old) or unfinished:
            (top / path).unlink()
        else:
            save = top / path
    current = read_content(top, step.path)
    if save is not None and same_content(current, step.new) and current is not None:
        save.replace(top / step.path)
        return False
    if current == step.old or (same_content(current, step.old) and current != step.new):
        return True
    if not same_content(current, step.new) and not is_partly_overwritten(current, step.old, step.new):
        return False
    try:
        write_file(top, step.path, current, step.old, step.temporary, permissions=step.permissions)
    except FilesChanged:
        return False
    return True
