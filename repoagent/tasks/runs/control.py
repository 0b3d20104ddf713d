"""Runs in progress, and the requests that other processes send them.

A run holds its lock, writes its progress, and reads requests before each model call. Requests are files in the run's
directory: messages and stops. A message is delivered at least once, because its file is removed only when the
conversation contains it. This module also waits for the end of runs, and deletes runs.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repoagent.errors import Busy, Exit, LimitReached, NothingDone, Refused, RepoagentError, UsageError
from repoagent.memory import conversation_log
from repoagent.memory.conversations import conversation_named, is_reserved
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular, remove_temporary_files, write_whole
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.layout import Warn, ensure_root, to_stderr
from repoagent.storage.locks import hold_lock, lock_holder
from repoagent.storage.secrets import mask
from repoagent.tasks.runs import directory
from repoagent.tasks.runs.directory import ENDS, RUNNING, VERSION, RunDirectory, RunRecord, first_line
from repoagent.tasks.runs.list import Run, list_runs, read_run, subagents_of

if TYPE_CHECKING:
    from repoagent.llm.model import Usage

ENDING = ".md"
LARGEST = 256 * 1024  # bytes of a message
_POLL = 0.2  # seconds between two checks while waiting for a run
_WAIT = 1.0  # seconds for the lock, because a process that checks it holds it for a moment


class NotRunning(Refused):
    """The run has ended or was killed."""


class StillRunning(Busy):
    """The run has not ended within the timeout."""


class RunStopped(RepoagentError):
    """The user stopped the run; it can be resumed. `how` becomes the `text` of its record."""

    exit_code = Exit.INTERRUPTED

    def __init__(self, sentence: str, how: str = "") -> None:
        super().__init__(sentence)
        self.how = how or sentence


def send_message(run: Run, text: str) -> Path:
    """Write `text` to the inbox of a run, and return the path of the message. Raises UsageError if the text is empty or
    too long, NotRunning if the run has ended, Refused if the message cannot be written."""
    if not text.strip():
        raise UsageError("the message is empty")
    data = text.encode("utf-8", "surrogateescape")
    if len(data) > LARGEST:
        raise UsageError(
            f"the message is {len(data):,} bytes long, more than {LARGEST:,}; write it to a file and name the "
            "file in the message"
        )
    _refuse_ended(run, " TEXT")
    name = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S-%f}-{os.urandom(2).hex()}{ENDING}"
    write_whole(run.run_dir.inbox / name, data)
    return run.run_dir.inbox / name


def unread(run_dir: RunDirectory) -> int:
    try:
        return len(_messages(run_dir.inbox))
    except Refused:  # the inbox is not a folder; the run reports that
        return 0


def _messages(folder: Path) -> list[str]:
    try:
        with open_folder(folder) as opened, os.scandir(opened) as entries:
            names = [entry.name for entry in entries if entry.stat(follow_symlinks=False).st_size]
    except FileNotFoundError:
        return []
    return sorted(name for name in names if name.endswith(ENDING) and not name.startswith("."))


def stop_run(run: Run) -> list[Run]:
    """Ask a run and its subagents to stop, and return them. Raises NotRunning if the run has ended, Refused if the
    request cannot be written."""
    targets = _with_subagents(run)
    for target in targets:
        if not os.path.lexists(target.run_dir.stop):  # of any type: it is never opened
            write_whole(target.run_dir.stop, b"")
    return targets


def terminate_run(run: Run) -> list[Run]:
    """Send SIGTERM to the processes of a run and its subagents, and return the runs that got it.

    A process gets it only if it holds the lock of the run, has the process id and start time in run.json, and belongs
    to the user. Raises NotRunning if the run has ended.
    """
    targets = _with_subagents(run)
    return [target for target in targets if target.is_live and directory.terminate_process(target.record)]


def wait_for_run(run: Run, timeout: float | None = None) -> Run:
    """Wait until a run has ended, and return it. Raises StillRunning after `timeout` seconds."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while (run := read_run(run.run_dir)).is_live:
        remaining = _POLL if deadline is None else deadline - time.monotonic()
        if remaining <= 0:
            raise StillRunning(f"{run.name} is still {run.state} after {timeout:g} s")
        time.sleep(min(_POLL, remaining))
    return run


def _with_subagents(run: Run) -> list[Run]:
    """The run and its live subagents. Raises NotRunning."""
    _refuse_ended(run)
    return [run, *(child for child in subagents_of(run, list_runs(run.run_dir.layout)) if child.is_live)]


def _refuse_ended(run: Run, arguments: str = "") -> None:
    if not (current := read_run(run.run_dir)).is_live:
        command = directory.resume_command(run.name, run.record.kind)
        command += "" if run.record.kind == "chat" else arguments
        raise NotRunning(f"{run.name} is not running ({current.state}); resume it with `{command}`")


def delete_run(run: Run) -> bool:
    """Remove the directory of a run, and delete its conversation if the run's name was generated. Returns whether the
    conversation can be restored. Raises Busy if the run is still running, Refused if the directory cannot be
    removed."""
    run_dir = run.run_dir
    data = None
    with ExitStack() as stack:
        if run_dir.folder.is_dir() and not run_dir.folder.is_symlink():
            try:
                stack.enter_context(hold_lock(run_dir.lock, timeout=0.5, label=f"run {run.name}"))
            except Busy as error:
                stop_it = f"stop it with `repoagent runs stop {run.name}` before you delete it"
                raise Busy(f"{run.name} is running; {stop_it}") from error
        if is_reserved(run.name):
            conversation = conversation_named(run_dir.layout, run.name)
            if (data := read_regular(conversation.path)) is not None:
                conversation_log.change_conversation(run_dir.layout, conversation, data, None, "delete")
        removed = f".gone-{os.urandom(6).hex()}"  # so that a kill leaves no part of a run
        try:
            with open_folder(run_dir.layout.runs) as parent:
                os.rename(run_dir.name, removed, src_dir_fd=parent, dst_dir_fd=parent)
            shutil.rmtree(run_dir.layout.runs / removed)
        except FileNotFoundError:  # it has only a conversation
            pass
        except OSError as error:
            raise system_failed("remove", run_dir.folder, error) from error
    return data is not None


def _clear(path: Path) -> None:
    """Remove a request, which is not a folder."""
    try:
        with open_folder(path.parent) as parent:
            os.unlink(path.name, dir_fd=parent)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise system_failed("remove", path, error) from error


class LiveRun:
    """A run in progress, created by `live_run`. Use it in one thread only."""

    def __init__(self, run_dir: RunDirectory, record: RunRecord, earlier: RunRecord, warn: Warn) -> None:
        self.run_dir, self._earlier, self._warn = run_dir, earlier, warn
        self._handed_out: list[str] = []
        self._lock = _lock_identity(run_dir)
        # a subagent obeys requests to its parent, too, because it may start after they were made
        parents = [RunDirectory(run_dir.layout, record.parent)] if record.parent else []
        self._stops = [each.stop for each in (run_dir, *parents)]
        self.record = replace(
            record,
            name=run_dir.name, prompt=first_line(mask(record.prompt)) or earlier.prompt,
            pid=os.getpid(), host=directory.host_name(), pid_start=directory.pid_start(os.getpid()),
            started=earlier.started or directory.now(), process_started=directory.now(), state=RUNNING,
            turns=earlier.turns, tokens=earlier.tokens, cost=earlier.cost, commits=earlier.commits,
        )  # fmt: skip
        self._write(settled=True)

    @property
    def lost(self) -> bool:
        """Whether the run's directory was removed or moved. Another process may have resumed the run since."""
        return _lock_identity(self.run_dir) != self._lock

    def turn(self, *, turns: int, activity: str, usage: Usage, cost: float | None) -> None:
        """Record the progress of this process, added to that of earlier ones. `activity` is the next step; `cost` is
        None if a price is unknown."""
        before = self._earlier
        self._update(
            turns=before.turns + turns, activity=first_line(mask(activity)), tokens=before.tokens + usage.total,
            cost=None if cost is None or before.cost is None else before.cost + cost,
        )  # fmt: skip

    def committed(self, commits: Sequence[str]) -> None:
        """Record the commits of this process; `commits` has all of them, not only new ones."""
        self._update(commits=tuple(dict.fromkeys((*self._earlier.commits, *commits))))

    def control(self) -> dict[str, str]:
        """Return the new messages, in order, as a mapping from file names to texts.

        The next call of this method or of `confirm` confirms that the conversation contains them. Raises RunStopped if
        the user stops the run, Refused if the inbox is not a folder, or a message is a link or larger than LARGEST.
        """
        self.confirm()
        if any(map(os.path.lexists, self._stops)):
            raise RunStopped(
                f"run {self.run_dir.name} was stopped on request; resume it with "
                f"`{directory.resume_command(self.run_dir.name, self.record.kind)}`",
                "stopped on request",
            )
        texts: dict[str, str] = {}
        for name in _messages(self.run_dir.inbox):
            if data := read_regular(self.run_dir.inbox / name, most=LARGEST):
                texts[name] = data.decode("utf-8-sig", "replace")
        self._handed_out = [*texts]
        return texts

    def confirm(self) -> None:
        """Confirm that the conversation contains the messages that `control` returned, and remove their files."""
        for name in self._handed_out:
            _clear(self.run_dir.inbox / name)
        self._handed_out = []

    def ended(
        self, state: str, text: str, *, commits: Sequence[str] = (), exit_code: int | None = None
    ) -> None:
        """Record the end of the run; only the first call counts. `state` is one of `directory.ENDS`, and `text` says
        how the run ended. `exit_code` overrides the exit code of the state."""
        if self.record.ended or self.lost:
            return
        self.confirm()
        _clear(self.run_dir.stop)
        all_commits = dict.fromkeys((*self._earlier.commits, *self.record.commits, *commits))
        code = ENDS[state] if exit_code is None else exit_code
        self.record = replace(
            self.record, state=state, text=directory.cut(mask(text)), commits=tuple(all_commits), exit=int(code),
            ended=directory.now(), activity="",
        )  # fmt: skip
        self._write(settled=True)

    def failed(self, error: BaseException) -> None:
        """Record that the run ended with `error`. Only warns if the record cannot be written."""
        code = error.exit_code if isinstance(error, RepoagentError) else Exit.INTERNAL
        text = str(error)
        match error:
            case RunStopped():
                state, text = "stopped", error.how
            case KeyboardInterrupt():
                state, code, text = "stopped", Exit.INTERRUPTED, text or "interrupted"
            case LimitReached():
                state = "limit"
            case NothingDone():
                state = "rejected"
            case RepoagentError():
                state = "failed"
            case _:
                state, text = "failed", f"internal error in repoagent: {type(error).__name__}: {error}"
        self._handed_out = []  # they may not be in the conversation
        try:
            self.ended(state, text, exit_code=code)
        except RepoagentError as failure:
            self._warn(f"could not record how run {self.run_dir.name} ended: {failure}")

    def _update(self, **fields: Any) -> None:
        updated = replace(self.record, **fields)
        if updated != self.record and not self.record.ended:
            self.record = updated
            self._write(settled=False)

    def _write(self, *, settled: bool) -> None:
        if not self.lost:
            data = json_files.dumps({"version": VERSION, **vars(self.record)}, indent=1) + b"\n"
            write_whole(self.run_dir.record, data, settled=settled)


@contextmanager
def live_run(run_dir: RunDirectory, record: RunRecord, *, warn: Warn = to_stderr) -> Iterator[LiveRun]:
    """Hold the run for the block: create its directory or resume it. At the end, record the error that ended the block,
    or that the run failed if `LiveRun.ended` was not called.

    Raises Busy, which names the process that holds the run, and Refused if the run's files cannot be used.
    """
    layout, name = run_dir.layout, run_dir.name
    ensure_root(layout)
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(run_dir.lock, timeout=_WAIT, label=f"run {name}"))
        except Busy as error:
            if not (holder := lock_holder(run_dir.lock)):
                raise
            raise Busy(
                f"run {name} is already running in {holder}; wait for it (`repoagent runs wait {name}`), "
                f"send it a message (`repoagent runs message {name} TEXT`) or stop it (`repoagent runs stop {name}`)"
            ) from error
        earlier = json_files.read_document(run_dir.record, version=VERSION, warn=warn)
        for folder in (*run_dir.folders, layout.root, layout.conversations, layout.sent):
            remove_temporary_files(folder)
        _clear(run_dir.stop)  # a request to an earlier process that was killed
        with open_folder(run_dir.inbox, create=True):
            pass
        live = LiveRun(run_dir, record, directory.from_dict(earlier or {}), warn)
        try:
            yield live
        except BaseException as error:
            live.failed(error)
            raise
        live.ended("failed", "it ended without a result")


def _lock_identity(run_dir: RunDirectory) -> tuple[int, int] | None:
    try:
        status = run_dir.lock.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
