"""Messages and requests to a live run from another process; wait for its end, and delete it.

They are files in the run's directory, which it reads before its next call. A message is delivered at least once: its
file is removed when the conversation contains it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from datetime import datetime, timezone
from pathlib import Path

from repoagent.errors import Busy, NothingDone, Refused, UsageError
from repoagent.memory.conversation_changes import change, undo
from repoagent.memory.conversation_names import is_reserved, named
from repoagent.storage.atomic import read_regular, set_aside, write_whole
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.layout import Layout, Warn, to_stderr
from repoagent.storage.locks import locked
from repoagent.tasks.runs.directory import RunDirectory, resume_command
from repoagent.tasks.runs.list import Run, children, refreshed, runs
from repoagent.tasks.runs.record import terminate

ENDING = ".md"
LARGEST = 256 * 1024  # bytes of a message
AT_ONCE = 20  # messages that `take` returns
_HALF_WRITTEN = 2.0  # seconds: a younger empty file may still be written
_POLL = (0.05, 0.5)  # seconds between two checks while waiting for a run: the first, the longest
_REMOVED = ".gone-"  # prefix of a folder that is being removed


class NotRunning(Refused):
    """The run has ended or was killed."""


class StillRunning(Busy):
    """The run has not ended within the timeout."""


def message(run: Run, text: str) -> Path:
    """Write `text` to the inbox of a run, which reads it before its next call. Returns the file.

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


def unread(run_dir: RunDirectory) -> int:
    """The number of messages that the run has not seen."""
    try:
        return len(_names(run_dir.inbox))
    except Refused:  # the inbox is not a folder; `take` reports that
        return 0


def take(run_dir: RunDirectory, warn: Warn) -> dict[str, str]:
    """Read at most AT_ONCE messages of the inbox: their file names, in order, and texts. Call `remove` when the
    conversation contains them.

    Links, pipes and files above LARGEST are set aside with a warning. Raises Refused if the inbox is not a folder.
    """
    messages: dict[str, str] = {}
    for name in _names(run_dir.inbox):
        if len(messages) == AT_ONCE:
            break
        path = run_dir.inbox / name
        try:
            data = read_regular(path, most=LARGEST)
        except Refused as error:
            with suppress(FileNotFoundError):
                warn(f"{error}; kept it as {set_aside(path).name} and did not pass it to the run")
            continue
        if data is None or (not data and 0 <= time.time() - path.lstat().st_mtime < _HALF_WRITTEN):
            continue
        if (text := data.decode("utf-8-sig", "replace")).strip():
            messages[name] = text
        else:
            clear(path)
    return messages


def remove(run_dir: RunDirectory, messages: Iterable[str]) -> None:
    """Remove the files of messages that the conversation contains."""
    for name in messages:
        clear(run_dir.inbox / name)


def _names(folder: Path) -> list[str]:
    try:
        with open_folder(folder) as opened:
            names = os.listdir(opened)  # noqa: PTH208  (of a descriptor)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if name.endswith(ENDING) and not name.startswith("."))


def clear(path: Path) -> None:
    """Remove a message or request, a file of any type. Raises Refused if it cannot be removed."""
    try:
        with open_folder(path.parent) as parent:
            os.unlink(path.name, dir_fd=parent)
    except FileNotFoundError:
        pass
    except OSError as error:
        if not path.is_dir():  # systems disagree on the error for a folder
            raise system_failed("remove", path, error) from error
        set_aside(path)


def stop(run: Run) -> list[Run]:
    """Ask a run and its sub-agents to stop, and return them. Raises NotRunning, Refused."""
    targets = _with_subagents(run)
    for target in targets:
        if not os.path.lexists(target.run_dir.stop):  # of any type: it is never opened
            write_whole(target.run_dir.stop, b"")
    return targets


def terminate_run(run: Run) -> list[Run]:
    """Send SIGTERM to the processes of a run and its sub-agents. Returns the runs that got it.

    A process gets it only if it holds the lock of the run, and has the process id, start time and boot of run.json.
    Raises NotRunning, Refused without permission to signal it.
    """
    ended = []
    for target in _with_subagents(run):
        try:
            if target.is_live and terminate(target.record):
                ended.append(target)
        except PermissionError as error:
            raise Refused(
                f"cannot end process {target.record.pid} of the run {target.name}: it belongs to another user"
            ) from error
    return ended


def wait(run: Run, timeout: float | None = None) -> Run:
    """Wait until a run has ended, and return it. Raises StillRunning after `timeout` seconds."""
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
    if not (current := refreshed(run)).is_live:
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
                stop_it = f"stop it with `repoagent runs stop {run.name}` before you delete it"
                raise Busy(f"{run.name} is running; {stop_it}") from error
        if is_reserved(run.name):
            conversation = named(run_dir.layout, run.name)
            if (data := read_regular(conversation.path)) is not None:
                change(run_dir.layout, conversation, data, None, "delete")
        _remove(run_dir)
    return data is not None


def restore_conversation(layout: Layout, name: str, *, warn: Warn = to_stderr) -> RunDirectory:
    """Restore the conversation of a deleted run, by its full name. Raises NothingDone if it still exists, UsageError if
    there was none, Refused."""
    conversation = named(layout, name)
    if conversation.path.exists():
        raise NothingDone(f"the conversation of {conversation.name} exists; there is nothing to restore")
    undo(layout, conversation, warn=warn)
    return RunDirectory(layout, conversation.name)


def remove_orphaned(run_dir: RunDirectory) -> None:
    """Remove what a run wrote after its directory was removed: such a directory has no lock."""
    if run_dir.folder.is_dir() and not os.path.lexists(run_dir.lock):
        _remove(run_dir)


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
