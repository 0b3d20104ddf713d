"""A run's directory, and `run.json`: the run's parameters, progress, end and process.

A process is identified by its id and start time, because the id may be reused. A run that git tracks came with the
repository and is refused as untrusted: a user's own runs are never tracked.
"""

from __future__ import annotations

import os
import signal
import unicodedata
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Exit, Refused
from repoagent.git.process import GitError, git
from repoagent.memory.conversations import ENDING, RESERVED, check_name, refuse_reserved
from repoagent.storage import json_files
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Layout

OF_RUNS = ("run-", "chat-")  # prefixes of generated names


class _File:
    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, run_dir: RunDirectory, owner: object = None) -> Path:
        return run_dir.folder / self.name


@dataclass(frozen=True)
class RunDirectory:
    """The paths of the run `name`, even if it does not exist."""

    layout: Layout
    name: str

    record = _File("run.json")
    subagent = _File("subagent.json")  # the specification, which only a subagent has
    lock = _File("lock")
    inbox = _File("inbox")
    stop = _File("stop")
    plan = _File("plan.md")
    checkpoint = _File("checkpoint.md")
    output = _File("output")  # of commands, and text that was too long for the conversation
    changes = _File("changes")
    scratch = _File("scratch")  # $TMPDIR of commands

    @property
    def folder(self) -> Path:
        return self.layout.runs / self.name

    @property
    def conversation(self) -> Path:
        return self.layout.conversations / f"{self.name}{ENDING}"

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders in which a killed process may leave temporary files."""
        return (self.folder, self.output, self.changes, self.changes / "bytes", self.inbox)


def new_name(kind: str = "run") -> str:
    """Generate the name of a new run or chat. Such names sort by time (UTC)."""
    return f"{kind}-{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def open_run_directory(layout: Layout, name: str) -> RunDirectory:
    """The directory of the run `name`, which may be new. Raises UsageError for an invalid name, the name of an edit, or
    a generated name that no run has."""
    run_dir = RunDirectory(layout, name := check_name(name))
    exists = run_dir.folder.is_dir() or run_dir.conversation.is_file()
    if not exists or name.casefold().startswith(tuple(set(RESERVED) - set(OF_RUNS))):
        refuse_reserved(name)
    return run_dir


def resume_command(name: str, kind: str) -> str:
    return f"repoagent {'chat' if kind == 'chat' else 'run'} --resume {name}"


def names_of_folders(layout: Layout) -> list[str]:
    """The names of all run directories, unsorted."""
    try:
        with open_folder(layout.runs) as folder, os.scandir(folder) as entries:
            folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return [name for name in folders if not name.startswith(".")]


def refuse_foreign(run_dir: RunDirectory) -> None:
    """Raise Refused if git tracks the conversation of the run, or anything in its folder."""
    run_paths = (run_dir.folder, run_dir.conversation)
    if not any(os.path.lexists(path) for path in run_paths):
        return
    root = run_dir.layout.root
    plain_paths = [_plain(str(path.relative_to(root.parent))) for path in run_paths]
    try:
        tracked = git(root.parent, "ls-files", "-z", "--cached").split(b"\0")
    except GitError:  # without a work tree, git tracks nothing here
        return
    for name in tracked:
        path = _plain(os.fsdecode(name)) if name.startswith(b".") else ""
        if path and any(run_path.startswith(path) or path.startswith(run_path) for run_path in plain_paths):
            raise Refused(
                f"run {run_dir.name} came with the repository (git tracks {path.rstrip('/')}), so its "
                "content cannot be trusted; start a new run, or, if it is your own, remove its files from "
                "git first (`git rm -r --cached`)"
            )


def _plain(path: str) -> str:
    """`path` without differences that a file system may ignore, with a slash at the end."""
    return unicodedata.normalize("NFC", path).casefold() + "/"


VERSION = 1
MOST = 1 << 20  # bytes of a run.json
RUNNING = "running"
ENDS: Mapping[str, int] = {  # how a run can end, and the exit code of its process unless it sets another
    "done": Exit.DONE,
    "answered": Exit.DONE,
    "unfinished": Exit.NOTHING,
    "rejected": Exit.NOTHING,
    "failed": Exit.REFUSED,
    "limit": Exit.LIMIT,
    "stopped": Exit.INTERRUPTED,
}
LONGEST = 2_000  # characters of the text; the full text is in the conversation
_PROMPT = 300
_START_TIME = 19  # index of the word in /proc/PID/stat after the name: field 22 in proc(5)


@dataclass(frozen=True)
class RunRecord:
    """The content of `run.json`. Times are ISO 8601 with their zone.

    prompt: only its first line
    parent: the run that delegated to this one
    pid, host, pid_start: identify the process
    started, process_started: when the run, and its current or last process, started
    turns, tokens, cost: totals of all its processes; cost is in US dollars, None if the price of a call is unknown
    options: those set by the user, None for a hidden value
    branch: that of a linked work tree
    text: how it ended
    """

    prompt: str = ""
    name: str = ""
    kind: str = "run"
    parent: str = ""
    model: str = ""
    mode: str = ""
    pid: int = 0
    host: str = ""
    pid_start: str = ""
    started: str = ""
    process_started: str = ""
    ended: str = ""
    state: str = ""
    turns: int = 0
    activity: str = ""
    tokens: int = 0
    cost: float | None = 0.0
    limits: Mapping[str, float | None] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    worktree: str = ""
    branch: str = ""
    commits: tuple[str, ...] = ()
    text: str = ""
    exit: int | None = None


def from_dict(value: Mapping[str, Any]) -> RunRecord:
    """The record in `run.json`. Raises Refused if a field has the wrong type."""
    options = value.get("options")
    try:
        record = json_files.decode(RunRecord, {**value, "options": {}})
    except TypeError as error:
        raise Refused(f"run.json is malformed: {error}") from error
    return replace(record, options=options) if isinstance(options, dict) else record


def first_line(text: str, most: int = _PROMPT) -> str:
    """The first line of `text` that is not blank, shortened to `most` characters."""
    return cut(next((line for line in text.splitlines() if line.strip()), ""), most)


def cut(text: str, most: int = LONGEST) -> str:
    text = text.strip()
    return text if len(text) <= most else text[: most - 1] + "…"


def now() -> str:
    """The current time in UTC as ISO 8601 text with milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def parse_time(text: str) -> float:
    """Convert an ISO 8601 time, in UTC if it has no zone, to seconds since the epoch; 0.0 if `text` is not a time."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def host_name() -> str:
    """The name of this machine, or "-" if it has none."""
    return os.uname().nodename or "-"


def pid_start(pid: int) -> str:
    """When the process `pid` started, in the system's format; "" if it has ended."""
    if not 1 < pid < 2**31:
        return ""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        if Path("/proc/self").exists():
            return ""
        import subprocess

        command = ["env", "LC_ALL=C", "TZ=UTC", "ps", "-o", "lstart=", "-p", str(pid)]
        return " ".join(subprocess.run(command, capture_output=True, text=True, check=False).stdout.split())
    words = stat[stat.rfind(b")") + 2 :].split()  # the name in parentheses may contain anything
    has_ended = len(words) <= _START_TIME or words[0] in (b"Z", b"X")
    return "" if has_ended else words[_START_TIME].decode("ascii", "replace")


def terminate_process(record: RunRecord) -> bool:
    """Send SIGTERM to the process in the record of a run whose lock is held. Returns False if the process has ended or
    belongs to another user, or if its id now belongs to another process."""
    if not record.pid_start or pid_start(record.pid) != record.pid_start:
        return False
    try:
        os.kill(record.pid, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return False
    return True
