"""Control a run from another process: message, pause, resume, stop, terminate, wait and delete.

Requests are files in the run's directory, which it reads before its next call.
"""

from __future__ import annotations

import os
import shutil
import time
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
from repoagent.tasks.runs import inbox, live_run
from repoagent.tasks.runs.directory import RunDirectory, resume_command
from repoagent.tasks.runs.inbox import ENDING, LARGEST
from repoagent.tasks.runs.list import ELSEWHERE, Run, children, refreshed, runs

_POLL = (0.05, 0.5)  # seconds between two checks while waiting for a run: the first, the longest
_REMOVED = ".gone-"  # prefix of a folder that is being removed


class NotRunning(Refused):
    """The run has ended or was killed."""


class StillRunning(Busy):
    """The run has not ended within the timeout."""


def message(run: Run, text: str) -> Path:
    """Write `text` to the inbox of a run, which reads it before its next call; a paused run reads it when resumed.
    Returns the file.

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
    _refuse_ended(run, "TEXT")
    name = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S-%f}-{os.urandom(2).hex()}{ENDING}"
    write_whole(run.run_dir.inbox / name, data)
    return run.run_dir.inbox / name


def stop(run: Run) -> list[Run]:
    """Ask a run and its sub-agents to stop, and return them. Raises NotRunning, Refused."""
    targets = _with_subagents(run)
    for target in targets:
        inbox.request(target.run_dir.stop)
    return targets


def pause(run: Run) -> list[Run]:
    """Ask a run and its sub-agents to pause, and return them. Raises NotRunning, NothingDone if that was already
    requested, Refused."""
    targets = _with_subagents(run)
    if inbox.is_requested(run.run_dir.pause):
        raise NothingDone(f"{run.name} has already been asked to pause")
    for target in targets:
        inbox.request(target.run_dir.pause)
    return targets


def resume(run: Run) -> list[Run]:
    """End the pause of a run and its sub-agents, and return them. Raises NotRunning, NothingDone if it is not paused
    or its parent is, Refused."""
    targets = _with_subagents(run)
    parent = run.record.parent
    if parent and inbox.is_requested(RunDirectory(run.run_dir.layout, parent).pause):
        raise NothingDone(
            f"{run.name} is paused with its parent {parent}; use `repoagent runs resume {parent}`"
        )
    resumed = [target for target in targets if inbox.clear(target.run_dir.pause)]
    if run not in resumed:
        raise NothingDone(f"{run.name} is not paused")
    return resumed


def terminate_run(run: Run) -> list[Run]:
    """Send SIGTERM to the processes of a run and its sub-agents. Returns the runs that got it.

    A process gets it only if it is on this machine, holds the lock of the run, and has the process id and start time of
    run.json. Raises NotRunning, Refused without permission to signal it.
    """
    ended = []
    for target in _with_subagents(run):
        record = target.record
        is_on_this_host = record.host == live_run.host() or (record.boot and record.boot == live_run.boot())
        try:
            if target.is_live and is_on_this_host and live_run.terminate(record.pid, record.pid_start):
                ended.append(target)
        except PermissionError as error:
            raise Refused(
                f"cannot end process {record.pid} of the run {target.name}: it belongs to another user"
            ) from error
    return ended


def wait(run: Run, timeout: float | None = None) -> Run:
    """Wait until a run has ended, and return it. Raises StillRunning after `timeout` seconds. A run on another machine
    is returned immediately."""
    deadline = None if timeout is None else time.monotonic() + timeout
    poll, longest = _POLL
    while (run := refreshed(run)).is_live:
        remaining = longest if deadline is None else deadline - time.monotonic()
        if remaining <= 0:
            raise StillRunning(f"{run.name} is still {run.state} after {timeout:g} s")
        time.sleep(min(poll, remaining))
        poll = min(poll * 1.5, longest)
    return run


def _with_subagents(run: Run) -> list[Run]:
    """The run and its live sub-agents. Raises NotRunning."""
    _refuse_ended(run)
    return [run, *(child for child in children(run, runs(run.run_dir.layout)) if child.is_live)]


def _refuse_ended(run: Run, arguments: str = "") -> None:
    current = refreshed(run)
    if not current.is_live and current.state != ELSEWHERE:
        command = resume_command(run.name, run.record.kind)
        if arguments and run.record.kind != "chat":
            command += f" {arguments}"
        raise NotRunning(f"{run.name} is not running ({current.state}); resume it with `{command}`")


def delete(run: Run) -> bool:
    """Remove the directory of a run, and archive its conversation if its name was generated. Returns whether the
    conversation was archived and can be restored with `restore_conversation`. Raises Busy if the run is live, Refused
    if the directory cannot be removed."""
    run_dir = run.run_dir
    data = None
    with ExitStack() as stack:
        if run_dir.folder.is_dir() and not run_dir.folder.is_symlink():
            try:
                stack.enter_context(locked(run_dir.lock, timeout=0.5, what=f"the run {run.name}"))
            except Busy as error:
                raise Busy(
                    f"{run.name} is running; stop it with `repoagent runs stop {run.name}` before you "
                    "delete it"
                ) from error
        if is_reserved(run.name):
            conversation = named(run_dir.layout, run.name)
            if (data := read_regular(conversation.path)) is not None:
                change(run_dir.layout, conversation, data, None, "delete")
        _remove(run_dir)
    return data is not None


def remove_orphaned(run_dir: RunDirectory) -> None:
    """Remove what a run wrote after its directory was removed: such a directory has no lock."""
    if run_dir.folder.is_dir() and not os.path.lexists(run_dir.lock):
        _remove(run_dir)


def restore_conversation(
    layout: Layout, worktree: WorkTree, name: str, *, warn: Warn = to_stderr
) -> RunDirectory:
    """Restore the conversation of a deleted run, by its full name. Raises NothingDone if it still exists, UsageError if
    there was none, Refused."""
    conversation = named(layout, name)
    if conversation.path.exists():
        raise NothingDone(f"the conversation of {conversation.name} exists; there is nothing to restore")
    undo(layout, worktree, conversation, warn=warn)
    return RunDirectory(layout, conversation.name)


def _remove(run_dir: RunDirectory) -> None:
    """Rename the folder, then remove it; the next call removes the rest after a kill."""
    removed = f"{_REMOVED}{os.urandom(6).hex()}"
    try:
        with open_folder(run_dir.layout.runs) as parent:
            os.rename(run_dir.name, removed, src_dir_fd=parent, dst_dir_fd=parent)
            names = os.listdir(parent)  # noqa: PTH208  (of a descriptor)
        for name in names:
            if name.startswith(_REMOVED):
                shutil.rmtree(run_dir.layout.runs / name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise system_failed("remove", run_dir.folder, error) from error
