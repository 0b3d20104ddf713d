"""List the runs of a repository, and find a run by its name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from repoagent.dataclass import dataclass
from repoagent.errors import Exit, Refused, UsageError
from repoagent.memory.conversations import conversation_names
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular, set_aside_broken
from repoagent.storage.layout import Layout, Warn, to_stderr
from repoagent.storage.locks import lock_holder
from repoagent.tasks.runs import directory
from repoagent.tasks.runs.directory import ENDS, RUNNING, VERSION, RunDirectory, RunRecord

KILLED, CONVERSATION, UNREADABLE = "killed", "conversation", "unreadable"
LAST = "last"
_NAMED = 5  # runs listed in a message


@dataclass(frozen=True)
class Run:
    """A run and its current state.

    state: "running"; how it ended (`directory.ENDS`); "killed" if its process ended without recording how;
        "conversation" if only its conversation exists; "unreadable" with the `problem`
    process_started: when its current or last process started, in seconds since the epoch
    """

    run_dir: RunDirectory
    record: RunRecord
    state: str
    process_started: float = 0.0
    problem: str = ""

    @property
    def name(self) -> str:
        return self.run_dir.name

    @property
    def short(self) -> str:
        """The last part of a generated name; any other name unchanged."""
        head, _, last = self.name.rpartition("-")
        return last if head.startswith(directory.OF_RUNS) and len(last) == 6 else self.name

    @property
    def is_live(self) -> bool:
        return self.state == RUNNING

    @property
    def exit_code(self) -> int:
        """The exit code of its last process; 130 if it was killed."""
        if self.state not in ENDS:
            return Exit.INTERRUPTED if self.state == KILLED else Exit.REFUSED
        return ENDS[self.state] if self.record.exit is None else self.record.exit


def list_runs(layout: Layout, *, warn: Warn | None = to_stderr) -> list[Run]:
    """All runs, newest first. A malformed `run.json` is renamed with a warning, or left unchanged if `warn` is None."""
    names = set(directory.names_of_folders(layout))
    names |= {name for name in conversation_names(layout) if name.casefold().startswith(directory.OF_RUNS)}
    all_runs = [read_run(RunDirectory(layout, name), warn=warn) for name in names]
    listed = [
        run for run in all_runs if run.state != CONVERSATION or os.path.lexists(run.run_dir.conversation)
    ]
    return sorted(listed, key=lambda run: (run.process_started, run.name), reverse=True)


def find_run(layout: Layout, name: str, *, warn: Warn = to_stderr) -> Run:
    """The run with this name, short name or unique prefix of either. "last" means the newest run that is not
    a subagent. Raises UsageError if no run matches or more than one does."""
    return choose_run(list_runs(layout, warn=warn), name)


def choose_run(all_runs: Sequence[Run], name: str) -> Run:
    """Like `find_run`, but among `all_runs`, which are sorted newest first."""
    if not all_runs:
        raise UsageError('no runs yet; start one with `repoagent run "TASK"`')
    for run in all_runs:
        if run.name == name:
            return run
    if name == LAST:
        return next(
            (run for run in all_runs if run.state != UNREADABLE and not run.record.parent), all_runs[0]
        )
    matches = [run for run in all_runs if run.short == name] or [
        run for run in all_runs if name and (run.name.startswith(name) or run.short.startswith(name))
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f"{name!r} is ambiguous: {_listed(matches)}; use more of the name")
    raise UsageError(f"no run {name!r}; there is {_listed(all_runs)}")


def _listed(some_runs: Sequence[Run]) -> str:
    omitted = f" and {len(some_runs) - _NAMED:,} more" if len(some_runs) > _NAMED else ""
    return ", ".join(run.name for run in some_runs[:_NAMED]) + omitted


def subagents_of(run: Run, among: Iterable[Run]) -> list[Run]:
    """The subagents of `run`, oldest first."""
    delegated = [child for child in among if child.record.parent == run.name and child.name != run.name]
    return sorted(delegated, key=lambda child: (child.process_started, child.name))


def run_tree(all_runs: Sequence[Run]) -> list[tuple[int, Run]]:
    """Runs in the given order with depth 0, each followed by its subagents with depth 1, oldest first."""
    names = {run.name for run in all_runs}
    below: dict[str, list[tuple[int, Run]]] = {}
    for run in reversed(all_runs):
        below.setdefault(run.record.parent, []).append((1, run))
    rows: list[tuple[int, Run]] = []
    for run in all_runs:
        if run.record.parent not in names:
            rows += [(0, run), *below.get(run.name, [])]
    return rows


def read_run(run_dir: RunDirectory, *, warn: Warn | None = to_stderr) -> Run:
    """The current state of the run in `run_dir`, which may only have a conversation."""
    try:
        data = read_regular(run_dir.record, most=directory.MOST)
    except Refused as error:
        return _without_record(run_dir, UNREADABLE, f"could not read its run.json: {error}")
    if data is None:
        return _without_record(run_dir, RUNNING if lock_holder(run_dir.lock) else CONVERSATION)
    value = json_files.parse_document(data)
    if value is None:
        if warn is not None:
            set_aside_broken(run_dir.record, "is malformed or was not written by repoagent", warn)
        return _without_record(run_dir, UNREADABLE, "its run.json is malformed")
    if value["version"] > VERSION:
        problem = f"its run.json has format version {value['version']}; update repoagent"
        return _without_record(run_dir, UNREADABLE, problem)
    try:
        record = directory.from_dict({**value, "name": run_dir.name})
    except Refused as error:
        return _without_record(run_dir, UNREADABLE, str(error))
    if record.ended and record.state in ENDS:
        state = record.state
    else:
        state = KILLED if lock_holder(run_dir.lock) is None else RUNNING
    started = directory.parse_time(record.process_started) or directory.parse_time(record.started)
    return Run(run_dir, record, state, started or _changed(run_dir))


def _without_record(run_dir: RunDirectory, state: str, problem: str = "") -> Run:
    """A run whose record cannot be read. A generated name has its kind and the time of its start; the conversation has
    its prompt."""
    try:
        text = (read_regular(run_dir.conversation) or b"").decode("utf-8", "replace")
    except Refused:  # a link; list the name anyway
        text = ""
    first_turn = text.partition("\n## [")[2].partition("\n")[2].partition("\n## [")[0]
    kind = "chat" if run_dir.name.casefold().startswith("chat-") else "run"
    try:
        digits = "".join(run_dir.name.split("-")[1:3])
        started = datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        started = _changed(run_dir)
    record = RunRecord(directory.first_line(first_turn), run_dir.name, kind)
    return Run(run_dir, record, state, started, problem)


def _changed(run_dir: RunDirectory) -> float:
    """When the directory or the conversation was last changed."""
    for path in (run_dir.folder, run_dir.conversation):
        try:
            return path.lstat().st_mtime
        except OSError:
            continue
    return 0.0
