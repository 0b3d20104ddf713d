"""A live run: it holds its lock, writes its progress, and reads requests before each call."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from repoagent.errors import Busy, Exit, LimitReached, NothingDone, RepoagentError
from repoagent.storage import json_files
from repoagent.storage.atomic import sweep, write_whole
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Warn, ensure, to_stderr
from repoagent.storage.locks import lock_holder, locked
from repoagent.storage.secrets import mask
from repoagent.tasks.runs import control
from repoagent.tasks.runs import record as records
from repoagent.tasks.runs.directory import RunDirectory, resume_command
from repoagent.tasks.runs.record import ENDS, RUNNING, VERSION, Record, first_line

if TYPE_CHECKING:
    from repoagent.llm.model import Usage

_WAIT = 1.0  # seconds for the lock, because a process that checks it holds it for a moment


class Stopped(RepoagentError):
    """The user stopped the run; it can be resumed. `how` is the text in its record."""

    exit_code = Exit.INTERRUPTED

    def __init__(self, sentence: str, how: str = "") -> None:
        super().__init__(sentence)
        self.how = how or sentence


class LiveRun:
    """A live run, for one thread; created by `live_run`."""

    def __init__(self, run_dir: RunDirectory, record: Record, earlier: Record, warn: Warn) -> None:
        self.run_dir, self._earlier, self._warn = run_dir, earlier, warn
        self._handed_out: dict[str, str] = {}
        self._lock = _lock_identity(run_dir)
        # a sub-agent obeys requests to its parent, too, because it may start after they were made
        parents = [RunDirectory(run_dir.layout, record.parent)] if record.parent else []
        self._stops = [each.stop for each in (run_dir, *parents)]
        self.record = replace(
            record,
            name=run_dir.name, prompt=first_line(mask(record.prompt)) or earlier.prompt,
            pid=os.getpid(), host=records.host(), boot=records.boot(), pid_start=records.pid_start(os.getpid()),
            started=earlier.started or records.now(), process_started=records.now(), state=RUNNING,
            turns=earlier.turns, tokens=earlier.tokens, cost=earlier.cost, commits=earlier.commits,
        )  # fmt: skip
        self._write(settled=True)

    @property
    def lost(self) -> bool:
        """Whether its directory was removed or moved. Another process may have resumed this run since, so nothing is
        written any more."""
        return _lock_identity(self.run_dir) != self._lock

    def turn(self, *, turns: int, activity: str, usage: Usage, cost: float | None) -> None:
        """Record the progress of this process, added to that of earlier ones. `activity` is the next step; `cost` is
        None if a price is unknown."""
        before = self._earlier
        self._update(
            turns=before.turns + turns,
            tokens=before.tokens + usage.total,
            cost=None if cost is None or before.cost is None else before.cost + cost,
            activity=first_line(mask(activity)),
        )

    def adopted(self, child: Record) -> None:
        """Add the usage of a sub-agent that ended after an earlier process of this run."""
        before = self._earlier
        cost = None if before.cost is None or child.cost is None else before.cost + child.cost
        turns, tokens = before.turns + child.turns, before.tokens + child.tokens
        self._earlier = replace(before, turns=turns, tokens=tokens, cost=cost)

    def committed(self, commits: Sequence[str]) -> None:
        """Record the commits made so far by this process."""
        self._update(commits=tuple(dict.fromkeys((*self._earlier.commits, *commits))))

    def control(self) -> dict[str, str]:
        """Call before each model call, and before the run ends. Returns the file names and texts of new messages; the
        next call of this or `confirm` confirms that the conversation contains them. Raises Stopped if the user stops
        the run."""
        self.confirm()
        if any(map(os.path.lexists, self._stops)):
            raise Stopped(
                f"the run {self.run_dir.name} was stopped on request; resume it with "
                f"`{resume_command(self.run_dir.name, self.record.kind)}`",
                "stopped on request",
            )
        self._handed_out = control.take(self.run_dir, self._warn)
        return self._handed_out

    def confirm(self) -> None:
        """Confirm that the conversation contains the messages that `control` returned, and remove their files."""
        control.remove(self.run_dir, self._handed_out)
        self._handed_out = {}

    def ended(
        self, state: str, text: str, *, commits: Sequence[str] = (), exit_code: int | None = None
    ) -> None:
        """Record the end of the run; only the first call counts. state: one of `record.ENDS`. text: how it ended.
        exit_code: of the process, if it does not follow from the state."""
        if self.record.ended or self.lost:
            return
        self.confirm()
        self._end(state, text, commits, ENDS[state] if exit_code is None else exit_code)

    def failed(self, error: BaseException) -> None:
        """Record that the run ended with `error`. A failure to write that is only a warning."""
        if self.record.ended or self.lost:
            return
        code = error.exit_code if isinstance(error, RepoagentError) else Exit.INTERNAL
        text = str(error)
        match error:
            case Stopped():
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
        try:
            self._end(state, text, (), code)
        except RepoagentError as failure:
            self._warn(f"could not record how the run {self.run_dir.name} ended: {failure}")

    def _end(self, state: str, text: str, commits: Sequence[str], code: int) -> None:
        control.clear(self.run_dir.stop)
        all_commits = dict.fromkeys((*self._earlier.commits, *self.record.commits, *commits))
        self.record = replace(
            self.record, state=state, text=records.cut(mask(text)), commits=tuple(all_commits), exit=int(code),
            ended=records.now(), activity="",
        )  # fmt: skip
        self._write(settled=True)

    def _update(self, **fields: Any) -> None:
        updated = replace(self.record, **fields)
        if updated != self.record and not self.record.ended:
            self.record = updated
            self._write(settled=False)

    def _write(self, *, settled: bool) -> None:
        if not self.lost:
            data = json_files.dumps({"version": VERSION, **records.to_dict(self.record)}, indent=1) + b"\n"
            write_whole(self.run_dir.record, data, settled=settled)


@contextmanager
def live_run(run_dir: RunDirectory, record: Record, *, warn: Warn = to_stderr) -> Iterator[LiveRun]:
    """Hold the run for the block: create its directory or resume it. Records an error that ends the block, unless
    `LiveRun.ended` was called; a block that ends without either counts as failed.

    Raises Busy, which names the process that holds the run; Refused; Newer for a run.json of a newer version.
    """
    layout = run_dir.layout
    ensure(layout)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(run_dir.lock, timeout=_WAIT, what=f"the run {run_dir.name}"))
        except Busy as error:
            if not (holder := lock_holder(run_dir.lock)):
                raise
            raise Busy(
                f"the run {run_dir.name} is running in {holder}; wait for it (`repoagent runs wait {run_dir.name}`), "
                f"send it a message (`repoagent runs message {run_dir.name} TEXT`) or stop it"
            ) from error
        earlier = json_files.read_document(run_dir.record, version=VERSION, warn=warn)
        for folder in (*run_dir.folders, layout.root, layout.conversations, layout.sent):
            sweep(folder)
        control.clear(run_dir.stop)  # a request to an earlier process that was killed
        with open_folder(run_dir.inbox, create=True):
            pass
        live = LiveRun(run_dir, record, records.from_dict(earlier or {}), warn)
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
