"""Swap a file for a new one with all that belonged to the old one, or write into it where that can't be done."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time

from repoagent.repo.change import EXECUTABLE
from repoagent.repo.content import Content, Place, same
from repoagent.repo.write.exchange import exchange
from repoagent.repo.write.failures import CannotReplace, Moved, expect, saved_again
from repoagent.repo.write.metadata import copy_metadata

SECOND = ".old"  # of the name of a temporary file, for one that keeps what it replaces
# A rename is refused for a mount point, a temporary file for a folder that we may not write to.
_NOT_REPLACEABLE = {errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS}
_WRITERS_SECONDS = 0.5  # a save takes some milliseconds
_POLL_SECONDS = 0.001


def make(place: Place, new: Content, permissions: int | None = None) -> None:
    """The temporary file: with `new`, and with `permissions`, by default what the umask says."""
    if new.is_link:
        os.symlink(new.data, os.fsencode(place.temporary), dir_fd=place.folder)
        return
    if permissions is None:
        permissions = 0o777 if new.mode == EXECUTABLE else 0o666
    descriptor = place.open(place.temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permissions)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(new.data)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        place.remove(place.temporary)
        raise


def make_like(place: Place, old: Content, new: Content) -> None:
    """The temporary file: with the bytes of `new`, and everything else of the file that is there."""
    model = place.open(place.name, os.O_RDONLY)
    try:
        if os.fstat(model).st_nlink > 1:
            raise CannotReplace(errno.EMLINK, "it has several names")
        expect(place, old)
        try:
            make(place, new, 0o600)
        except OSError as error:
            if error.errno in _NOT_REPLACEABLE:
                raise CannotReplace(error.errno, error.strerror) from error
            raise
        try:
            copy_metadata(place, model)
        except BaseException:
            place.remove(place.temporary)
            raise
    finally:
        os.close(model)


def swap(place: Place, old: Content, new: Content) -> None:
    """Put the temporary file in place. Whatever was there comes out as the temporary one: if that is not
    `old`, somebody saved in the last moment, and it goes back."""
    try:
        swapped = exchange(place.folder, place.temporary, place.name)
    except OSError as error:
        raise _failed_to_replace(place, error) from error
    if not swapped:
        _replace(place, old)
        return
    wait_for_writers(place, place.temporary)
    found = place.look(place.temporary)
    if not same(found, old):
        exchange(place.folder, place.temporary, place.name)
        wait_for_writers(place, place.temporary)
        if not same(place.look(place.temporary), new):  # that is a later save
            exchange(place.folder, place.temporary, place.name)
            raise saved_again(place)
    place.remove(place.temporary)
    if not same(found, old):
        raise Moved({place.path: found})


def _replace(place: Place, old: Content) -> None:
    """Without an exchange: a second name keeps what is replaced until it has been looked at."""
    kept = place.temporary + SECOND
    try:
        place.link(place.name, kept)
    except OSError as error:
        place.remove(place.temporary)
        raise CannotReplace(error.errno, error.strerror) from error
    try:
        place.rename(place.temporary, place.name)
    except OSError as error:
        place.remove(kept)
        raise _failed_to_replace(place, error) from error
    wait_for_writers(place, kept)
    found = place.look(kept)
    if not same(found, old):
        place.rename(kept, place.name)
        raise Moved({place.path: found})
    place.remove(kept)


def _failed_to_replace(place: Place, error: OSError) -> OSError:
    place.remove(place.temporary)
    return CannotReplace(error.errno, error.strerror) if error.errno in _NOT_REPLACEABLE else error


def wait_for_writers(place: Place, name: str) -> None:
    """Wait until nobody has the file open to write it, as whoever had opened it before it was replaced: what they
    write goes with it. Only Linux can tell; a file that is held open for long is not waited for."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return
    try:
        descriptor = place.open(name, os.O_RDONLY)
    except OSError:  # a link, or gone
        return
    try:
        _lease(descriptor, fcntl.F_RDLCK)
    finally:
        os.close(descriptor)


def _lease(descriptor: int, kind: int) -> None:
    """Get the lease that the system gives only where nobody else writes the file (F_RDLCK), or has it open (F_WRLCK);
    others who open it then wait until the descriptor is closed. Go on without where that takes long, or can't be."""
    deadline = time.monotonic() + _WRITERS_SECONDS
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # sent when somebody waits for us; does nothing
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


def write_in_place(place: Place, old: Content, new: Content) -> None:
    """Front to back, cut last: a kill leaves a beginning of `new` and the rest of `old`, see `torn`."""
    with os.fdopen(place.open(place.name, os.O_RDWR), "r+b", buffering=0) as file:
        if hasattr(fcntl, "F_SETLEASE"):
            _lease(file.fileno(), fcntl.F_WRLCK)
        found = file.readall()
        if found != old.data:
            raise Moved({place.path: Content(found, old.mode)})
        file.seek(0)
        view = memoryview(new.data)
        while view:
            view = view[file.write(view) :]
        file.truncate()
        os.fsync(file.fileno())
