"""Split a text into a folder, for the first time or anew."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from repoagent.errors import Refused, UsageError
from repoagent.repo.worktree import layout
from repoagent.split.artifact.finding import Text
from repoagent.split.artifact.index import NAME, Index, digest
from repoagent.split.artifact.making import Made, Ways, index_of
from repoagent.split.artifact.reading import LOCK, STAGED, edited, holding, read_index
from repoagent.split.artifact.writing import finish, put
from repoagent.store.atomic import read_regular
from repoagent.store.folders import folder as open_folder
from repoagent.store.folders import real

_NAMED = 5  # files that a message names


def create(text: Text, ways: Ways, folder: Path) -> Index:
    """Write the split of `text` into `folder`, which is made, is empty, or holds an earlier split of the same file.

    Raises Refused when it holds anything else, or segments that a person has edited and not merged, and when the
    system says no; UsageError when it is no folder or in a git directory. Nothing is written then.
    """
    folder = real(folder.parent) / folder.name
    _check_place(folder, text)
    earlier(folder, text)
    index = index_of(text, ways, folder)
    with _made(folder), holding(folder):
        old = earlier(folder, text)
        put(_made_of(index, text.data, old), old)
    return index


def earlier(folder: Path, text: Text) -> Index | None:
    """The split of the same file that `folder` holds; None if it is empty or not there. See `create`."""
    if not folder.parent.is_dir():
        raise UsageError(f"there is no folder {folder.parent}: make it, or name another one with -o")
    if os.path.lexists(folder) and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name another one with -o")
    try:
        with open_folder(folder) as opened, os.scandir(opened) as entries:
            names = {entry.name for entry in entries}
    except FileNotFoundError:
        return None
    if NAME not in names:
        if names - {LOCK, STAGED}:
            raise Refused(f"{folder} is not empty, and no split of a file: name another folder with -o")
        return None
    old = read_index(folder, missing_ok=True)
    if old.source.path != text.path:
        raise Refused(
            f"{folder} holds the split of {old.source.path or 'standard input'}: name another folder with -o"
        )
    changed = [segment.file for segment in edited(old, missing_ok=True)]
    if changed:
        raise Refused(
            f"{some(changed)} in {folder} {'was' if len(changed) == 1 else 'were'} edited and not merged: join with "
            "--join, or keep the edits with --refresh"
        )
    return old


def some(names: Collection[str]) -> str:
    """`names`, or the first of them and how many more."""
    listed = list(names)[:_NAMED]
    more = len(names) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more else "")


def _check_place(folder: Path, text: Text) -> None:
    place = Path(os.path.realpath(folder))
    refused = ".git" in place.parts
    if text.worktree is not None:
        own = (text.worktree.git_dir, text.worktree.common_dir)
        ours = layout(text.worktree).splits  # in a bare repository that is in the git directory
        refused = not place.is_relative_to(ours) and (
            refused or any(place.is_relative_to(path) for path in own)
        )
    if refused:
        raise UsageError(f"{folder} is in a git directory: name another folder with -o")


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """`folder`, which goes again if it was made here and nothing came into it."""
    new = not folder.exists()
    with open_folder(folder, create=True):
        pass
    try:
        yield
    except BaseException:
        if new and not os.path.lexists(folder / NAME):
            with suppress(OSError):
                (folder / LOCK).unlink(missing_ok=True)
                folder.rmdir()
        raise


def _made_of(index: Index, base: bytes, old: Index | None) -> Made:
    old = finish(old) if old else None
    present = hashes(old)
    files = {segment.file: segment.sha256 for segment in index.segments}
    return Made(
        index,
        base,
        {name: present.get(name, "") for name, wanted in files.items() if present.get(name) != wanted},
        {name: found for name, found in present.items() if name not in files},
    )


def hashes(index: Index | None) -> dict[str, str]:
    """The hash of each segment's file that is there."""
    found = {}
    for segment in index.segments if index else ():
        data = read_regular(index.folder / segment.file) if index else None
        if data is not None:
            found[segment.file] = digest(data)
    return found
