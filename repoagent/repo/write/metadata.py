"""Owner, mode, ACL and extended attributes of a file, and its executable bit as git sees it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from repoagent.repo.content import Place
from repoagent.repo.write.failures import CannotReplace


def permissions_of(top: Path, path: str) -> int | None:
    """Those of a file; None for a symbolic link, or where there is nothing."""
    try:
        status = (top / path).lstat()
    except OSError:
        return None
    return None if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)


def copy_metadata(place: Place, model: int) -> None:
    """Give the temporary file all of this that the open file `model` has. Raises CannotReplace where we may not."""
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
        raise CannotReplace(error.errno, error.strerror) from error
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


def set_executable(place: Place, *, executable: bool) -> None:
    """Turn the executable bits on for those who may read, or off for all, as git does."""
    permissions = stat.S_IMODE(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode)
    permissions &= ~0o111
    if executable:
        permissions |= (permissions & 0o444) >> 2
    os.chmod(place.name, permissions, dir_fd=place.folder)
