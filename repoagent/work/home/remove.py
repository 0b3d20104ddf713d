"""A run that is deleted: its folder goes, and its conversation is put away, from where it can be brought back."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack

from repoagent.errors import Busy, NothingDone
from repoagent.memory.conversations.changing import change
from repoagent.memory.conversations.names import is_reserved
from repoagent.memory.conversations.places import named
from repoagent.memory.conversations.take_back import undo
from repoagent.repo.worktree import WorkTree
from repoagent.store import Layout, Warn, locked, read_regular, to_stderr
from repoagent.store.folders import failed, folder
from repoagent.work.home.listing import Run
from repoagent.work.home.place import Home

GONE = ".gone-"  # how the name of a folder begins that is being removed


def delete(run: Run) -> bool:
    """Remove the home of a run. Its conversation is put away too if its name is one that the program gave: True then,
    and `bring_back` finds it.

    Raises Busy when the run is alive, Refused where it can't be removed.
    """
    home = run.home
    put_away = False
    with ExitStack() as held:
        if home.folder.is_dir() and not home.folder.is_symlink():
            try:
                held.enter_context(locked(home.lock, timeout=0.5, what=f"the run {run.name}"))
            except Busy as error:
                raise Busy(
                    f"{run.name} is alive: `repoagent runs stop {run.name}` first, then delete it"
                ) from error
        if is_reserved(run.name):
            place = named(home.layout, run.name)
            data = read_regular(place.path)
            if data is not None:
                change(home.layout, place, data, None, "delete")
                put_away = True
        _remove(home)
    return put_away


def sweep_away(home: Home) -> None:
    """What a run whose home was removed under it has written there since: without its lock it is no home."""
    if home.folder.is_dir() and not os.path.lexists(home.lock):
        _remove(home)


def bring_back(layout: Layout, worktree: WorkTree, name: str, *, warn: Warn = to_stderr) -> Home:
    """Bring the conversation of a deleted run back, by its whole name; its home. Raises NothingDone when it is there,
    UsageError when there was none, Refused."""
    place = named(layout, name)
    if place.path.exists():
        raise NothingDone(f"the conversation of {place.name} is there: nothing is to be brought back")
    undo(layout, worktree, place, warn=warn)
    return Home(layout, place.name)


def _remove(home: Home) -> None:
    """Take the folder out of sight at once, then what is in it away; what a kill leaves of that goes the next time."""
    try:
        with folder(home.layout.runs) as parent:
            aside = f"{GONE}{os.urandom(6).hex()}"
            try:
                os.rename(home.name, aside, src_dir_fd=parent, dst_dir_fd=parent)
            except FileNotFoundError:
                return
            with os.scandir(parent) as found:
                gone = [entry.name for entry in found if entry.name.startswith(GONE)]
        for name in gone:
            shutil.rmtree(home.layout.runs / name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise failed("remove", home.folder, error) from error
