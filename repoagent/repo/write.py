"""Give one file of the work tree new content: whole or not at all, its metadata kept, nobody's save lost."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from repoagent.errors import Refused
from repoagent.repo.change import EXECUTABLE
from repoagent.repo.content import Content, Place, open_place, same
from repoagent.repo.exchange import exchange
from repoagent.store.folders import SystemFailed

# A rename is refused for a mount point, a temporary file for a folder that we may not write to.
_NOT_REPLACEABLE = {errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS}


class Moved(Refused):
    """A file is no longer what the edit was made for. `current` holds what it is now, by path."""

    def __init__(self, current: dict[str, Content | None]) -> None:
        self.current = current
        names = ", ".join(sorted(current))
        super().__init__(f"{names} was changed meanwhile and is left as it is: run the edit again")


class _CannotReplace(Exception):
    """The file can't be swapped for a new one without losing something: it must be written in place."""


def put(
    top: Path,
    path: str,
    old: Content | None,
    new: Content | None,
    temporary: str,
    *,
    permissions: int | None = None,
) -> None:
    """Make `path` hold `new` where it holds `old`; None is no file.

    `temporary` is a free file name for the folder of `path`; nothing is left of it afterwards. A new file
    gets `permissions`, by default what the umask says; missing folders are made for it, and empty ones are
    removed after a deletion, as git does. Owner, mode,
    ACL and extended attributes of an existing file stay; one with several names, or one that can't be
    replaced, is written in place. Raises Moved when the file is not `old`, also when it is changed while
    this runs, and it then is what the other writer made of it.
    """
    try:
        with open_place(top, path, temporary, create=old is None) as place:
            if old is not None and new is not None:
                _change(place, old, new)
            elif new is not None:
                _create(place, new, permissions)
            elif old is not None:
                _take_away(place, old)
            os.fsync(place.folder)
    except OSError as error:
        raise SystemFailed(
            f"{path} could not be written: {error.strerror}; put that right and try again"
        ) from error
    if new is None:
        _remove_empty_parents(top, path)


def missing_folders(top: Path, path: str) -> list[str]:
    """The folders that would have to be made for `path`, the deepest first."""
    parents = [parent.as_posix() for parent in Path(path).parents][:-1]
    return [parent for parent in parents if not (top / parent).is_dir()]


def _remove_empty_parents(top: Path, path: str) -> None:
    """But not the folder this process stands in, nor those above it."""
    here = Path.cwd()
    for parent in [top / parent for parent in Path(path).parents][:-1]:
        if parent == here or parent in here.parents:
            return
        try:
            parent.rmdir()
        except OSError:
            return


def _expect(place: Place, old: Content | None) -> None:
    found = place.look(place.name)
    if not same(found, old):
        raise Moved({place.path: found})


def permissions_of(top: Path, path: str) -> int | None:
    """Those of a file; None for a symbolic link, or where there is nothing."""
    try:
        status = (top / path).lstat()
    except OSError:
        return None
    return None if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)


def _create(place: Place, new: Content, permissions: int | None) -> None:
    _make(place, new, 0o777 if new.mode == EXECUTABLE else 0o666)
    try:
        if permissions is not None and not new.is_link:
            os.chmod(place.temporary, permissions, dir_fd=place.folder)
        try:
            place.link(place.temporary, place.name)
        except FileExistsError:
            raise Moved({place.path: place.look(place.name)}) from None
        except OSError:  # a file system without hard links
            _expect(place, None)
            place.rename(place.temporary, place.name)
    finally:
        place.remove(place.temporary)


def _take_away(place: Place, old: Content) -> None:
    _expect(place, old)
    place.rename(place.name, place.temporary)
    found = place.look(place.temporary)
    if not same(found, old):
        try:
            place.link(place.temporary, place.name)
        except FileExistsError:
            raise _saved_again(place) from None
    place.remove(place.temporary)
    if not same(found, old):
        raise Moved({place.path: found})


def _change(place: Place, old: Content, new: Content) -> None:
    if same(old, new):
        _expect(place, old)
    elif old.is_link or new.is_link:
        _make(place, new, 0o777 if new.mode == EXECUTABLE else 0o666)
        _swap(place, old, new)
        return
    else:
        try:
            _make_like(place, old, new)
            _swap(place, old, new)
        except _CannotReplace:
            _write_in_place(place, old, new)
    if old.mode != new.mode:
        _set_executable(place, new)


def _make(place: Place, new: Content, permissions: int) -> None:
    if new.is_link:
        os.symlink(new.data, os.fsencode(place.temporary), dir_fd=place.folder)
        return
    descriptor = place.open(place.temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permissions)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(new.data)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        place.remove(place.temporary)
        raise


def _make_like(place: Place, old: Content, new: Content) -> None:
    """The temporary file: with the bytes of `new`, and everything else of the file that is there."""
    model = place.open(place.name, os.O_RDONLY)
    try:
        if os.fstat(model).st_nlink > 1:
            raise _CannotReplace
        _expect(place, old)
        try:
            _make(place, new, 0o600)
        except OSError as error:
            if error.errno in _NOT_REPLACEABLE:
                raise _CannotReplace from error
            raise
        try:
            _copy_metadata(place, model)
        except BaseException:
            place.remove(place.temporary)
            raise
    finally:
        os.close(model)


def _copy_metadata(place: Place, model: int) -> None:
    copy = place.open(place.temporary, os.O_RDONLY)
    try:
        status, mine = os.fstat(model), os.fstat(copy)
        if (status.st_uid, status.st_gid) != (mine.st_uid, mine.st_gid):
            os.fchown(copy, status.st_uid, status.st_gid)
        os.fchmod(copy, stat.S_IMODE(status.st_mode))
        if hasattr(os, "listxattr"):  # Linux; an ACL is an attribute there
            _copy_attributes(model, copy)
        os.fsync(copy)
    except PermissionError as error:
        raise _CannotReplace from error
    finally:
        os.close(copy)


def _copy_attributes(model: int, copy: int) -> None:
    try:
        names = os.listxattr(model)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EOPNOTSUPP):
            return
        raise
    for name in names:
        value = os.getxattr(model, name)
        if name.startswith("security.") and name in os.listxattr(copy) and os.getxattr(copy, name) == value:
            continue  # the system has set it already, and we may not
        os.setxattr(copy, name, value)


def _swap(place: Place, old: Content, new: Content) -> None:
    """Put the temporary file in place. Whatever was there comes out as the temporary one: if that is not
    `old`, somebody saved in the last moment, and it goes back."""
    try:
        swapped = exchange(place.folder, place.temporary, place.name)
    except OSError as error:
        raise _failed_to_replace(place, error) from error
    if not swapped:
        _replace(place, old)
        return
    found = place.look(place.temporary)
    if not same(found, old):
        exchange(place.folder, place.temporary, place.name)
        if not same(place.look(place.temporary), new):
            raise _saved_again(place)
    place.remove(place.temporary)
    if not same(found, old):
        raise Moved({place.path: found})


def _replace(place: Place, old: Content) -> None:
    """Without an exchange: a second name keeps what is replaced until it has been looked at."""
    kept = f"{place.temporary}.old"
    try:
        place.link(place.name, kept)
    except OSError as error:
        place.remove(place.temporary)
        raise _CannotReplace from error
    try:
        place.rename(place.temporary, place.name)
    except OSError as error:
        place.remove(kept)
        raise _failed_to_replace(place, error) from error
    found = place.look(kept)
    if not same(found, old):
        place.rename(kept, place.name)
        raise Moved({place.path: found})
    place.remove(kept)


def _failed_to_replace(place: Place, error: OSError) -> Exception:
    place.remove(place.temporary)
    return _CannotReplace() if error.errno in _NOT_REPLACEABLE else error


def _saved_again(place: Place) -> Refused:
    return Refused(f"{place.path} is saved again and again: one save is kept beside it as {place.temporary}")


def _write_in_place(place: Place, old: Content, new: Content) -> None:
    """Front to back, cut last: a kill leaves a beginning of `new` and the rest of `old`, see `torn`."""
    with os.fdopen(place.open(place.name, os.O_RDWR), "r+b", buffering=0) as file:
        found = file.readall()
        if found != old.data:
            raise Moved({place.path: Content(found, old.mode)})
        file.seek(0)
        view = memoryview(new.data)
        while view:
            view = view[file.write(view) :]
        file.truncate()
        os.fsync(file.fileno())


def _set_executable(place: Place, new: Content) -> None:
    """Turn the executable bits on for those who may read, or off for all, as git does."""
    permissions = stat.S_IMODE(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode)
    permissions &= ~0o111
    if new.mode == EXECUTABLE:
        permissions |= (permissions & 0o444) >> 2
    os.chmod(place.name, permissions, dir_fd=place.folder)
