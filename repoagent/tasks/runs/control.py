"""Control a run from another process: message, pause, resume, stop, terminate, wait and delete.

Requests are files in the run's directory, which it reads before its next call.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path

from repoagent.errors import Busy, NothingDone, Refused, UsageError
from repoagent.git.worktree import WorkTree
from repoagent.memory.conversation_changes import change, undo
from repoagent.memory.conversation_names import is_reserved, named
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.layout import Layout, Warn, to_stderr
from repoagent.storage.locks import locked
from repoagent.tasks.runs import inbox, live
from repoagent.tasks.runs.directory import RunDirectory, resume_command
from repoagent.tasks.runs.inbox import ENDING, LARGEST
from repoagent.tasks.runs.list import ELSEWHERE, Run, children, refreshed, runs
from repoagent.tasks.runs.record import PAUSED, RUNNING

_POLL = (0.05, 0.5)  # seconds between two looks at a run that is waited for: the first, the longest


class NotRunning(Refused):
    """The run has ended or was killed: nobody is there to ask."""


class StillRunning(Busy):
    """The run was waited for in vain."""


def message(run: Run, text: str) -> Path:
    """Put `text` into the inbox of a run; the file. It is read before the next call, in a pause when that is over.

    Raises UsageError for an empty or too long text, NotRunning, Refused.
    """
    if not text.strip():
        raise UsageError("the message is empty")
    data = text.encode("utf-8", "surrogateescape")
    if len(data) > LARGEST:
        raise UsageError(
            f"the message has {len(data):,} bytes, more than {LARGEST:,}; write it to a file and name the "
            "file in the message"
        )
    _listening(run, "TEXT")
    name = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S-%f}-{os.urandom(2).hex()}{ENDING}"
    write_whole(run.run_dir.inbox / name, data)
    return run.run_dir.inbox / name


def stop(run: Run) -> list[Run]:
    """Ask a run and all that it has delegated to stop; these. Raises NotRunning, Refused."""
    _listening(run)
    asked = [run, *_living_below(run)]
    for each in asked:
        inbox.ask(each.run_dir.stop)
    return asked


def pause(run: Run) -> list[Run]:
    """Ask a run and all that it has delegated to stand still; these. Raises NotRunning, NothingDone when it was asked
    already, Refused."""
    _listening(run)
    if inbox.is_there(run.run_dir.pause):
        raise NothingDone(f"{run.name} is already asked to pause")
    asked = [run, *_living_below(run)]
    for each in asked:
        inbox.ask(each.run_dir.pause)
    return asked


def resume(run: Run) -> list[Run]:
    """End the pause of a run and of all that it has delegated; these. Raises NotRunning, NothingDone when it is not
    paused, or paused together with the run that delegated it, Refused."""
    _listening(run)
    parent = run.record.parent
    if parent and inbox.is_there(RunDirectory(run.run_dir.layout, parent).pause):
        raise NothingDone(
            f"{run.name} is paused with its parent {parent}; use `repoagent runs resume {parent}`"
        )
    below = _living_below(run)
    if not inbox.clear(run.run_dir.pause):
        raise NothingDone(f"{run.name} is not paused")
    return [run, *(each for each in below if inbox.clear(each.run_dir.pause))]


def terminate_run(run: Run) -> list[Run]:
    """Send SIGTERM to the processes of a run and of all that it has delegated; those that got it.

    Only a process of this machine is sent it that holds the lock of the run, is the one that run.json names, and
    began when that says: never one that has the number by now. Raises NotRunning, Refused when it may not be signalled.
    """
    _listening(run)
    ended = []
    for each in [run, *_living_below(run)]:
        told = each.record
        mine = told.host == live.host() or (told.boot and told.boot == live.boot())
        try:
            if each.alive and mine and live.terminate(told.pid, told.born):
                ended.append(each)
        except PermissionError as error:
            raise Refused(
                f"cannot end process {told.pid} of the run {each.name}: it belongs to another user"
            ) from error
    return ended


def wait(run: Run, timeout: float | None = None) -> Run:
    """Wait until a run is not alive, at most `timeout` seconds; how it is then. Raises StillAlive after that time.

    Whether one of another machine is alive can't be known here: it is returned as it is.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    pauses = _pauses()
    while True:
        run = refreshed(run)
        if not run.alive:
            return run
        left = _POLL[1] if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise StillRunning(f"{run.name} is still {run.state} after {timeout:g} s")
        time.sleep(min(next(pauses), left))


def _pauses() -> Iterator[float]:
    pause, longest = _POLL
    while True:
        yield pause
        pause = min(pause * 1.5, longest)


def _listening(run: Run, words: str = "") -> None:
    """Raise NotRunning where the run has ended."""
    state = refreshed(run).state
    if state not in (RUNNING, PAUSED, ELSEWHERE):
        kind = run.record.kind
        how = f"resume it with `{resume_command(run.name, kind)}{f' {words}' if words and kind != 'chat' else ''}`"
        raise NotRunning(f"{run.name} is not running ({state}); {how}")


def _living_below(run: Run) -> list[Run]:
    """The live runs that it has delegated, and those that they have."""
    everything = runs(run.run_dir.layout)
    found, waiting, seen = [], [run], {run.name}
    while waiting:
        for child in children(waiting.pop(), everything):
            if child.name not in seen:
                seen.add(child.name)
                waiting.append(child)
                if child.alive:
                    found.append(child)
    return found


GONE = ".gone-"  # how the name of a folder begins that is being removed


def delete(run: Run) -> bool:
    """Remove the home of a run. Its conversation is put away too if its name is one that the program gave: True then,
    and `bring_back` finds it.

    Raises Busy when the run is alive, Refused where it can't be removed.
    """
    run_dir = run.run_dir
    put_away = False
    with ExitStack() as held:
        if run_dir.folder.is_dir() and not run_dir.folder.is_symlink():
            try:
                held.enter_context(locked(run_dir.lock, timeout=0.5, what=f"the run {run.name}"))
            except Busy as error:
                raise Busy(
                    f"{run.name} is running; stop it with `repoagent runs stop {run.name}` before you "
                    "delete it"
                ) from error
        if is_reserved(run.name):
            place = named(run_dir.layout, run.name)
            data = read_regular(place.path)
            if data is not None:
                change(run_dir.layout, place, data, None, "delete")
                put_away = True
        _remove(run_dir)
    return put_away


def remove_orphaned(run_dir: RunDirectory) -> None:
    """What a run whose home was removed under it has written there since: without its lock it is no home."""
    if run_dir.folder.is_dir() and not os.path.lexists(run_dir.lock):
        _remove(run_dir)


def restore_conversation(
    layout: Layout, worktree: WorkTree, name: str, *, warn: Warn = to_stderr
) -> RunDirectory:
    """Bring the conversation of a deleted run back, by its whole name; its home. Raises NothingDone when it is there,
    UsageError when there was none, Refused."""
    place = named(layout, name)
    if place.path.exists():
        raise NothingDone(f"the conversation of {place.name} exists; there is nothing to restore")
    undo(layout, worktree, place, warn=warn)
    return RunDirectory(layout, place.name)


def _remove(run_dir: RunDirectory) -> None:
    """Take the folder out of sight at once, then what is in it away; what a kill leaves of that goes the next time."""
    try:
        with open_folder(run_dir.layout.runs) as parent:
            aside = f"{GONE}{os.urandom(6).hex()}"
            try:
                os.rename(run_dir.name, aside, src_dir_fd=parent, dst_dir_fd=parent)
            except FileNotFoundError:
                return
            with os.scandir(parent) as found:
                gone = [entry.name for entry in found if entry.name.startswith(GONE)]
        for name in gone:
            shutil.rmtree(run_dir.layout.runs / name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise system_failed("remove", run_dir.folder, error) from error
