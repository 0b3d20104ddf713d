"""Split a text into a folder, which is new or contains an earlier split."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from repoagent.errors import Refused, UsageError
from repoagent.git.worktree import layout
from repoagent.split.folder_index import LOCK, NAME, STAGED, Index, edited_segments, lock_split, read_index
from repoagent.split.folder_writer import finish, put
from repoagent.split.source import SourceText
from repoagent.split.split_plan import SplitOptions, new_index, plan_split
from repoagent.storage.folders import open_folder, resolve_above

_NAMED = 5  # files that a message names


def create(text: SourceText, options: SplitOptions, folder: Path) -> Index:
    """Write the split of `text` into `folder`, which is new, empty, or contains an earlier split of the same file.

    Raises Refused if it contains anything else or edited segments that are not merged, and on a system error;
    UsageError if it is not a folder or is in a git directory. Nothing is written in these cases.
    """
    folder = resolve_above(folder.parent) / folder.name
    _check_location(folder, text)
    existing_split(folder, text)
    index = new_index(text, options, folder)
    with _new_folder(folder), lock_split(folder):
        old = existing_split(folder, text)
        put(plan_split(index, text.data, finish(old) if old else None, {}), old)
    return index


def existing_split(folder: Path, text: SourceText) -> Index | None:
    """The earlier split of the same file in `folder`; None if it is empty or missing. Raises as `create`."""
    if not folder.parent.is_dir():
        raise UsageError(f"no such folder: {folder.parent}; create it, or use another one with -o")
    if os.path.lexists(folder) and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; use another one with -o")
    try:
        with open_folder(folder) as opened, os.scandir(opened) as entries:
            names = {entry.name for entry in entries}
    except FileNotFoundError:
        return None
    if NAME not in names:
        if names - {LOCK, STAGED}:
            raise Refused(f"{folder} is not empty and not a split; use another folder with -o")
        return None
    old = read_index(folder, missing_ok=True)
    if old.source.path != text.path:
        raise Refused(
            f"{folder} contains the split of {old.source.path or 'standard input'}; use another folder with -o"
        )
    edited = [segment.file for segment in edited_segments(old, missing_ok=True)]
    if edited:
        files = ", ".join(edited[:_NAMED]) + (
            f" and {len(edited) - _NAMED} more" if len(edited) > _NAMED else ""
        )
        raise Refused(
            f"{folder} has edits that are not merged ({files}); use --join to merge them, or --refresh to keep them"
        )
    return old


def _check_location(folder: Path, text: SourceText) -> None:
    real = Path(os.path.realpath(folder))
    refused = ".git" in real.parts
    if text.worktree is not None:
        own = (text.worktree.git_dir, text.worktree.common_dir)
        splits = layout(text.worktree).splits  # in a bare repository that is in the git directory
        refused = not real.is_relative_to(splits) and (
            refused or any(real.is_relative_to(path) for path in own)
        )
    if refused:
        raise UsageError(f"{folder} is in a git directory; use another folder with -o")


@contextmanager
def _new_folder(folder: Path) -> Iterator[None]:
    """Create `folder` if needed, and remove a created folder again on failure."""
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
