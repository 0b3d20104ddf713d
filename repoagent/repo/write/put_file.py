"""Give one file of the work tree new content: whole or not at all, its metadata kept, nobody's save lost."""

from __future__ import annotations

import os
from pathlib import Path

from repoagent.repo.change import EXECUTABLE
from repoagent.repo.content import Content, Place, open_place, same
from repoagent.repo.write.failures import CannotReplace, Moved, expect, saved_again
from repoagent.repo.write.metadata import set_executable
from repoagent.repo.write.replace import make, make_like, swap, wait_for_writers, write_in_place
from repoagent.store.folders import SystemFailed


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
    removed after a deletion, as git does. Owner, mode, ACL and extended attributes of an existing file stay;
    one with several names, or one that can't be replaced, is written in place. Raises Moved when the file is
    not `old`, also when it is changed while this runs, and it then is what the other writer made of it;
    SystemFailed when the system says no.
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


def _create(place: Place, new: Content, permissions: int | None) -> None:
    make(place, new)
    try:
        if permissions is not None and not new.is_link:
            os.chmod(place.temporary, permissions, dir_fd=place.folder)
        try:
            place.link(place.temporary, place.name)
        except FileExistsError:
            raise Moved({place.path: place.look(place.name)}) from None
        except OSError:  # a file system without hard links
            expect(place, None)
            place.rename(place.temporary, place.name)
    finally:
        place.remove(place.temporary)


def _take_away(place: Place, old: Content) -> None:
    expect(place, old)
    place.rename(place.name, place.temporary)
    wait_for_writers(place, place.temporary)
    found = place.look(place.temporary)
    if not same(found, old):
        try:
            place.link(place.temporary, place.name)
        except FileExistsError:
            raise saved_again(place) from None
    place.remove(place.temporary)
    if not same(found, old):
        raise Moved({place.path: found})


def _change(place: Place, old: Content, new: Content) -> None:
    if same(old, new):
        expect(place, old)
    elif old.is_link or new.is_link:
        make(place, new)
        swap(place, old, new)
        return
    else:
        try:
            make_like(place, old, new)
            swap(place, old, new)
        except CannotReplace:
            write_in_place(place, old, new)
    if old.mode != new.mode:
        set_executable(place, executable=new.mode == EXECUTABLE)
