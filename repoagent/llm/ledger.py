"""What was spent: one line for each attempt at a model, in the user's own state folder, a file for each day.

It is the user's money, so it stands with the user, not with one repository: a daily limit holds over all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError
from repoagent.llm.model import Usage
from repoagent.llm.naming import shown
from repoagent.store import jsonl
from repoagent.store.report import Warn, to_stderr

VERSION = 1


@dataclass(frozen=True)
class Spent:
    """One attempt. `time` is ISO 8601 with its zone, `cost` in US dollars, None where no price is known."""

    time: str
    model: str
    run: str
    repository: str
    files: tuple[str, ...]
    usage: Usage
    cost: float | None


@dataclass(frozen=True)
class Ledger:
    """The ledger in `folder`, and what the attempts that are written next are for.

    `must`: whether a limit depends on it. Otherwise an edit does not fail because it can't be written: `warn`
    is told.
    """

    folder: Path
    run: str = ""
    repository: str = ""
    files: tuple[str, ...] = ()
    must: bool = False
    warn: Warn = to_stderr

    def about(self, run: str, repository: str, files: tuple[str, ...]) -> Ledger:
        """The same ledger for the attempts of `run`."""
        return replace(self, run=run, repository=repository, files=files)

    def add(self, spec: str, usage: Usage, cost: float | None) -> None:
        """Write one attempt down. Raises Refused or Busy where it can't be, if a limit depends on it."""
        if spec.startswith("replay:"):
            return
        now = datetime.now().astimezone()
        entry = Spent(
            now.isoformat(timespec="seconds"), shown(spec), self.run, self.repository, self.files, usage, cost
        )
        try:
            jsonl.append(_file(self.folder, now.date()), {"version": VERSION, **asdict(entry)})
        except (RepoagentError, OSError) as error:
            if self.must:
                raise
            self.warn(f"what was spent could not be written down: {error}")

    def today(self) -> float:
        """US dollars of all attempts of today whose price is known."""
        return sum(entry.cost or 0.0 for entry in read_day(self.folder, datetime.now().astimezone().date()))


def state_folder(env: Mapping[str, str] | None = None) -> Path:
    """Where the ledger of this user stands: `$XDG_STATE_HOME/repoagent/spent`."""
    env = os.environ if env is None else env
    home = Path(env.get("XDG_STATE_HOME", ""))
    base = home if home.is_absolute() else Path(env.get("HOME") or Path.home(), ".local", "state")
    return base / "repoagent" / "spent"


def read(folder: Path, since: date | None = None) -> Iterator[Spent]:
    """Everything spent since the day `since` (None: ever), oldest first."""
    first = f"{since}.jsonl" if since else ""
    for path in sorted(folder.glob("????-??-??.jsonl")):
        if path.name >= first:
            yield from _read(path)


def read_day(folder: Path, day: date) -> Iterator[Spent]:
    """What was spent on one day."""
    yield from _read(_file(folder, day))


def _file(folder: Path, day: date) -> Path:
    return folder / f"{day}.jsonl"


def _read(path: Path) -> Iterator[Spent]:
    for record in jsonl.read(path):
        if (entry := _entry(record)) is not None:
            yield entry


def _entry(record: Mapping[str, Any]) -> Spent | None:
    """An entry, or None for one of a newer format, or that somebody has edited into something else."""
    try:
        if record["version"] > VERSION:
            return None
        return Spent(
            str(record["time"]),
            str(record["model"]),
            str(record["run"]),
            str(record["repository"]),
            tuple(map(str, record["files"])),
            Usage(**record["usage"]),
            None if record["cost"] is None else float(record["cost"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
