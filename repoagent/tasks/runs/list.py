"""List the runs of a repository from their directories, and find the one that a name means."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone

from repoagent.dataclass import dataclass
from repoagent.errors import Exit, Refused, UsageError
from repoagent.memory.conversation_names import names
from repoagent.storage import jsonl
from repoagent.storage.atomic import is_temporary, read_regular, sweep
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Layout, Warn, to_stderr
from repoagent.storage.locks import held_by
from repoagent.tasks.runs import inbox, live
from repoagent.tasks.runs.directory import OF_RUNS, RunDirectory, names_of_folders, short_name
from repoagent.tasks.runs.record import (
    ENDS,
    MOST,
    PAUSED,
    RUNNING,
    VERSION,
    Record,
    first_line,
    from_dict,
    moment,
)

KILLED, ELSEWHERE, ALONE, UNREADABLE = "killed", "elsewhere", "conversation", "unreadable"
LAST = "last"
_SAFE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HEAD = 4096  # bytes of a conversation in which its first words are looked for
_YOUNG = 60.0  # seconds: somebody may be about to write into an empty folder
_NAMED = 5  # runs that a message names


@dataclass(frozen=True)
class Run:
    """A run as it is now.

    state: "running" or "paused" while it is alive; as it ended (`record.ENDS`); "killed" when its process is gone
        without an end, "elsewhere" when that was on another machine and can't be known here; "conversation" when only
        its conversation is here, copied from another machine say; "unreadable" with the `problem`.
    begun: seconds since the epoch, of its present or last process.
    """

    run_dir: RunDirectory
    record: Record
    state: str
    begun: float = 0.0
    problem: str = ""

    @property
    def name(self) -> str:
        return self.run_dir.name

    @property
    def short(self) -> str:
        """What is enough to name it, unless another one begins so."""
        return short_name(self.run_dir.name)

    @property
    def alive(self) -> bool:
        return self.state in (RUNNING, PAUSED)

    @property
    def starting(self) -> bool:
        """Whether its process has not written its record yet."""
        return self.alive and not self.record.started

    @property
    def exit_code(self) -> int:
        """What its process returned, or what stands for that."""
        if self.state not in ENDS:
            return Exit.INTERRUPTED if self.state == KILLED else Exit.REFUSED
        return ENDS[self.state] if self.record.exit is None else self.record.exit


def runs(layout: Layout, *, warn: Warn | None = to_stderr) -> list[Run]:
    """All runs, live and past, those that began last first. A broken `run.json` is set aside, and `warn` told; with
    None for it nothing is touched."""
    homes = [
        name
        for name in names_of_folders(layout)
        if not _stillborn(RunDirectory(layout, name), keep=warn is None)
    ]
    found = [_run(RunDirectory(layout, name), warn) for name in homes]
    known = set(homes)
    found += [
        _alone(RunDirectory(layout, name))
        for name in names(layout)
        if name.casefold().startswith(OF_RUNS) and name not in known
    ]
    return sorted(found, key=lambda run: (run.begun, run.name), reverse=True)


def _stillborn(run_dir: RunDirectory, *, keep: bool) -> bool:
    """Whether there is nothing in the folder yet, or a kill came before there was: no run. One that is not new goes,
    unless it is to be kept."""
    try:
        with open_folder(run_dir.folder) as opened, os.scandir(opened) as found:
            names, age = [entry.name for entry in found], time.time() - os.fstat(opened).st_mtime
    except (OSError, Refused):
        return False
    if not all(is_temporary(name) for name in names):
        return False
    if age > _YOUNG and not keep:
        sweep(run_dir.folder)
        with suppress(OSError):  # somebody has begun in it after all
            run_dir.folder.rmdir()
    return True


def refreshed(run: Run, *, warn: Warn = to_stderr) -> Run:
    """The same run as it is now."""
    return _run(run.run_dir, warn) if run.run_dir.folder.is_dir() else _alone(run.run_dir)


def find(layout: Layout, name: str, *, warn: Warn = to_stderr) -> Run:
    """The run that a person names: by its name, the last part of it, the beginning of one of these if no other begins
    so, or "last" for the newest that no run delegated and that has begun. Raises UsageError, which names those near."""
    return chosen(runs(layout, warn=warn), name)


def chosen(found: Sequence[Run], name: str) -> Run:
    """The one of all runs, the newest first, that a person names; as `find`."""
    if not found:
        raise UsageError('no runs yet; start one with `repoagent run "TASK"`')
    for run in found:
        if run.name == name:
            return run
    if name == LAST:
        begun = [run for run in found if not run.starting]
        if not begun:
            raise UsageError(f"the run {found[0].name} is still starting; try again in a second")
        return next((run for run in begun if not run.record.parent), begun[0])
    exact = [run for run in found if run.short == name]
    fits = exact or [
        run for run in found if name and (run.name.startswith(name) or run.short.startswith(name))
    ]
    if len(fits) == 1:
        return fits[0]
    if fits:
        raise UsageError(f"{name!r} is ambiguous: {_listed(fits)}; use more of the name")
    from difflib import get_close_matches

    both = {word: run.name for run in reversed(found) for word in (run.short, run.name)}
    near = dict.fromkeys(both[word] for word in get_close_matches(name, both, n=_NAMED, cutoff=0.6))
    hint = f"did you mean {' or '.join(near)}?" if near else f"there is {_listed(found)}"
    raise UsageError(f"no run {name!r}; {hint}")


def children(run: Run, among: Iterable[Run]) -> list[Run]:
    """The runs that it delegated, the first one first."""
    found = [one for one in among if one.record.parent == run.name and one.name != run.name]
    return sorted(found, key=lambda one: (one.begun, one.name))


def tree(found: Sequence[Run]) -> list[tuple[int, Run]]:
    """`found` in its order, but each child below its parent, with how deep it stands. None is lost or twice there,
    whatever the records say of parents."""
    names = {run.name for run in found}
    below: dict[str, list[Run]] = {}
    for run in reversed(found):  # the first child first
        below.setdefault(run.record.parent, []).append(run)
    placed: dict[str, tuple[int, Run]] = {}
    roots = [run for run in found if run.record.parent not in names]
    for root in (*roots, *found):  # those that are each other's parents have no root
        waiting = [(0, root)]
        while waiting:
            depth, run = waiting.pop()
            if run.name not in placed:
                placed[run.name] = (depth, run)
                waiting += [(depth + 1, child) for child in reversed(below.get(run.name, []))]
    return list(placed.values())


def _run(run_dir: RunDirectory, warn: Warn | None) -> Run:
    try:
        data = _bytes(run_dir)
    except Refused as error:
        return _unreadable(run_dir, str(error))
    if data is None:
        parent, kind = _ordered(run_dir)
        young = parent and time.time() - _changed(run_dir) < _YOUNG
        if young or held_by(run_dir.lock) is not None:  # it begins just now
            return Run(
                run_dir, Record(name=run_dir.name, kind=kind, parent=parent), RUNNING, _changed(run_dir)
            )
        aside = any(run_dir.folder.glob(f"{run_dir.record.name}.broken-*"))
        return _unreadable(
            run_dir, "its run.json was malformed and was renamed" if aside else "it has no run.json", parent
        )
    value = jsonl.parse(data)
    if value is None:
        if warn is None:
            return _unreadable(run_dir, "its run.json is malformed")
        jsonl.set_aside_broken(run_dir.record, "is malformed or was not written by repoagent", warn)
        return _unreadable(run_dir, "its run.json was malformed and was renamed")
    if value["version"] > VERSION:
        return _unreadable(run_dir, f"its run.json has format version {value['version']}; update repoagent")
    record = replace(from_dict(value), name=run_dir.name)
    begun = moment(record.begun) or moment(record.started) or _changed(run_dir)
    return Run(run_dir, record, _state(run_dir, record), begun)


def _state(run_dir: RunDirectory, record: Record) -> str:
    if record.ended and record.state in ENDS:
        return record.state
    if held_by(run_dir.lock) is not None:
        waits = record.doing.startswith(("delegate ", "wait ")) and inbox.is_there(run_dir.pause)
        return PAUSED if record.state == PAUSED or waits else RUNNING
    same = record.boot == live.boot() if record.boot and live.boot() else False
    return KILLED if same or record.host == live.host() else ELSEWHERE


def _bytes(run_dir: RunDirectory) -> bytes | None:
    """What stands in run.json; the folder is known to be a real one. Raises Refused for what is no such file."""
    try:
        descriptor = os.open(run_dir.record, _SAFE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"could not read its run.json: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST:
            raise Refused("its run.json is not a regular file, or is too large; move it away")
        return os.read(descriptor, MOST)
    finally:
        os.close(descriptor)


def _ordered(run_dir: RunDirectory) -> tuple[str, str]:
    """The parent and the kind of a run whose record is not there yet; of a child its order says them."""
    try:
        order = jsonl.parse(read_regular(run_dir.folder / "child.json", most=MOST) or b"")
    except Refused:
        order = None
    parent, kind = (str((order or {}).get(key) or "") for key in ("parent", "kind"))
    return parent, kind or _kind(run_dir.name)


def _unreadable(run_dir: RunDirectory, problem: str, parent: str = "") -> Run:
    record = Record(name=run_dir.name, kind=_kind(run_dir.name), parent=parent)
    return Run(run_dir, record, UNREADABLE, _from_name(run_dir.name) or _changed(run_dir), problem)


def _alone(run_dir: RunDirectory) -> Run:
    """A run of which only the conversation is here."""
    record = Record(name=run_dir.name, kind=_kind(run_dir.name), prompt=_first_words(run_dir))
    return Run(run_dir, record, ALONE, _from_name(run_dir.name) or _changed(run_dir))


def _kind(name: str) -> str:
    """What a run of this name was, where nothing else says it."""
    return "chat" if name.casefold().startswith("chat-") else "run"


def _from_name(name: str) -> float:
    try:
        words = "".join(name.split("-")[1:3])
        return datetime.strptime(words, "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _first_words(run_dir: RunDirectory) -> str:
    try:
        with open_folder(run_dir.conversation.parent) as parent:
            descriptor = os.open(run_dir.conversation.name, _SAFE, dir_fd=parent)
    except (OSError, Refused):  # gone by now, or a link: its name is listed all the same
        return ""
    try:
        data = os.read(descriptor, _HEAD) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)
    _, mark, said = data.decode("utf-8", "replace").partition("\n## [")
    return first_line(said.partition("\n")[2].partition("\n## [")[0]) if mark else ""


def _changed(run_dir: RunDirectory) -> float:
    for path in (run_dir.folder, run_dir.conversation):
        try:
            return path.lstat().st_mtime
        except OSError:
            continue
    return 0.0


def _listed(found: Sequence[Run]) -> str:
    more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    return ", ".join(run.name for run in found[:_NAMED]) + more
