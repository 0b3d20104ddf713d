"""`run.json`: what a run is, its progress, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from datetime import datetime, timezone
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Exit

VERSION = 1
MOST = 1 << 20  # bytes of a run.json; ours have a few thousand
RUNNING, PAUSED = "running", "paused"
ENDS: Mapping[str, int] = {  # how a run can end, and what its process returns then unless it says otherwise
    "done": Exit.DONE,
    "answered": Exit.DONE,
    "unfinished": Exit.NOTHING,
    "rejected": Exit.NOTHING,
    "failed": Exit.REFUSED,
    "limit": Exit.LIMIT,
    "stopped": Exit.INTERRUPTED,
}
LONGEST = 2_000  # characters of a text about a run; all of it is in the conversation
_PROMPT = 300
_HIGHEST = 10**15


@dataclass(frozen=True)
class About:
    """What is known of a run before it begins. `parent` is the name of the run that delegated it, "" for none; of
    `prompt` the first line that says something is kept. `worktree` is the top it works in, `branch` what it commits
    to where that is not the branch that is checked out; `limits` as they are to be shown; `said` the options that the
    person has said."""

    prompt: str
    kind: str = "run"
    parent: str = ""
    model: str = ""
    mode: str = ""
    worktree: str = ""
    branch: str = ""
    limits: Mapping[str, float | int | None] = field(default_factory=dict)
    said: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """What `run.json` says. Times are ISO 8601 with their zone, "" for none: `started` is when the run first began,
    `begun` when its present or last process did. `pid`, `host`, `boot` and `born` tell that process from all others.
    `cost` is in US dollars, None where the price of some call is not known; it, `tokens` and `turns` are of all
    processes of the run together. `text` says how it ended, `exit` what its process returned."""

    name: str = ""
    kind: str = "run"
    parent: str = ""
    prompt: str = ""
    model: str = ""
    mode: str = ""
    pid: int = 0
    host: str = ""
    boot: str = ""
    born: str = ""
    started: str = ""
    begun: str = ""
    ended: str = ""
    state: str = ""
    turns: int = 0
    doing: str = ""
    tokens: int = 0
    cost: float | None = 0.0
    limits: Mapping[str, float | None] = field(default_factory=dict)
    said: Mapping[str, object] = field(default_factory=dict)
    worktree: str = ""
    branch: str = ""
    commits: Sequence[str] = ()
    text: str = ""
    exit: int | None = None


def to_dict(record: Record) -> dict[str, Any]:
    return {
        **vars(record),
        "limits": dict(record.limits),
        "said": dict(record.said),
        "commits": list(record.commits),
    }


def from_dict(value: Mapping[str, Any]) -> Record:
    """The record in `value`; what is not of its type is as if it was not there."""
    found: dict[str, Any] = {}
    for name, default in _DEFAULTS.items():
        given = value.get(name, default)
        if isinstance(given, type(default)) and not isinstance(given, bool):
            found[name] = max(0, min(given, _HIGHEST)) if isinstance(given, int) else given
    found["cost"] = _amount(value.get("cost", 0.0))
    if isinstance(limits := value.get("limits"), dict):
        found["limits"] = {str(name): _amount(limit) for name, limit in limits.items()}
    if isinstance(value.get("said"), dict):
        found["said"] = {str(name): one for name, one in value["said"].items() if _is_said(one)}
    if isinstance(value.get("commits"), list):
        found["commits"] = tuple(map(str, value["commits"]))
    code = value.get("exit")
    found["exit"] = code if type(code) is int and 0 <= code < 256 else None
    return Record(**found)


_DEFAULTS = {one.name: one.default for one in fields(Record) if isinstance(one.default, str | int)}


def _amount(value: object) -> float | None:
    """A number that is none too odd, None for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value <= _HIGHEST else None  # what is not a number is not in between


def _is_said(value: object) -> bool:
    """Whether it can be what an option says: a text, several, a number, yes; None for one that is hidden."""
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return isinstance(value, str | bool | None) or _amount(value) is not None


def first_line(text: str, most: int = _PROMPT) -> str:
    """The first line of `text` that is not blank, at most so many characters of it."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= most else line[: most - 1] + "…"


def cut(text: str) -> str:
    """`text` as it may stand in a record."""
    text = text.strip()
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def moment(text: str) -> float:
    """An ISO 8601 time as seconds since the epoch, 0.0 for none; one without a zone is taken as UTC."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
