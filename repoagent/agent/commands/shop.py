"""What commands are run with: plain values and functions, made by who assembles a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from repoagent.agent.approval import Gate
from repoagent.agent.approval.asked import May
from repoagent.agent.commands.running import Command, Job
from repoagent.dataclass import dataclass


def _as_it_is(argv: Sequence[str], report: Path, may: May) -> list[str]:
    return list(argv)


def _no_limit() -> float | None:
    return None


def _nothing_changed(background: bool) -> Callable[[], str]:
    return lambda: ""


def _nothing(_: Mapping[str, object]) -> None:
    pass


@dataclass
class Shop:
    """Where and how commands run, and those that run in the background.

    top: the work tree. folder: where their output is kept. env: the environment they start from. wrap: what to run
    instead of a command that may touch so much, for a sandbox that writes into a file why it ended one; why_ended:
    what that file says. unshown: further variables of a command that may not see all. seconds_left: of the run, None
    without a limit. watch: called before a command in the foreground, with whether one in the background may have
    written since the last call; what it returns is called after it, and says which files changed. audit: is told of
    each command. shown_as: how a model can name a file of `folder`. explain: says which of the confinement's limits an
    output is about. running: is told of a command in the foreground that was started, and where it prints.
    timeout, longest: seconds that a command has by itself, and that may be asked for. budget: bytes of output that are
    shown. keep: bytes of output that are kept in a file; keep_in_all: in all files of the run, but for the end of each.
    """

    top: Path
    folder: Path
    env: Mapping[str, str]
    gate: Gate
    wrap: Callable[[Sequence[str], Path, May], list[str]] = _as_it_is
    unshown: Callable[[], Mapping[str, str]] = dict
    why_ended: Callable[[Path], str | None] = lambda report: None
    seconds_left: Callable[[], float | None] = _no_limit
    watch: Callable[[bool], Callable[[], str]] = _nothing_changed
    audit: Callable[[Mapping[str, object]], None] = _nothing
    shown_as: Callable[[Path], str] = str
    explain: Callable[[str], str] = lambda output: ""
    running: Callable[[str, Path], None] = lambda command, output: None
    timeout: float = 120.0
    longest: float = 3600.0
    budget: int = 8 * 1024
    keep: int = 64 * 1024 * 1024
    keep_in_all: int = 1024 * 1024 * 1024
    background: dict[str, Command] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)  # of background commands: their end is known to the model
    settled: set[str] = field(default_factory=set)  # of background commands: looked at since their end

    def look_before(self, job: Job) -> Callable[[], str]:
        """Look before a command; what is returned looks after it. Nothing has to be looked at where it can't write, and
        nothing else that was started here does."""
        if job.may == "read" and all(command.has_ended() for command in self.background.values()):
            return lambda: ""
        return self.look()

    def look(self) -> Callable[[], str]:
        """Look at the files; what is returned looks again, and says which changed: between the two looks, and before
        them while a command ran in the background."""
        since = [name for name in self.background if name not in self.settled]
        self.settled.update([name for name in since if self.background[name].has_ended()])
        return self.watch(any(self.background[name].job.may != "read" for name in since))

    def notices(self) -> list[str]:
        """A sentence for each background command that has ended since this was last asked, and what they changed."""
        said = []
        for name, command in self.background.items():
            if name not in self.told and command.has_ended():
                self.told.add(name)
                said.append(f"The background command {name} ({command.label}) has ended: {command.how()}.")
                self.audit({**command.record(), "background": name})
        if said and (changed := self.look()()):
            said.append(changed)
        return said

    def close(self) -> None:
        """End all background commands."""
        for name, command in self.background.items():
            if not command.has_ended():
                command.end()
            if name not in self.told:
                self.told.add(name)
                self.audit({**command.record(), "background": name})

    def next_name(self) -> str:
        """The id of the next background command: none that an earlier process of this run has given."""
        earlier = [
            int(match[1]) for file in self._outputs() if (match := re.match(r"\d+-b(\d+)-", file.name))
        ]
        return f"b{max([*earlier, *(int(name[1:]) for name in self.background)], default=0) + 1}"

    def earlier(self, name: str) -> Path | None:
        """The output of a background command of an earlier process of this run."""
        pattern = re.compile(rf"\d+-{re.escape(name)}-")
        return next((file for file in self._outputs() if pattern.match(file.name)), None)

    def next_file(self, label: str) -> Path:
        """A new file for output, there and empty. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        slug = re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-").lower()[:32].rstrip("-") or "command"
        numbers = [int(file.name.split("-")[0]) for file in self._outputs()]
        number = max(numbers, default=0) + 1
        while True:
            path = self.folder / f"{number:03}-{slug}.txt"
            try:
                path.open("xb").close()
            except FileExistsError:
                number += 1
            else:
                path.chmod(0o600)
                return path

    def room(self) -> int:
        """How many bytes of the next output are kept."""
        return max(0, min(self.keep, self.keep_in_all - sum(file.stat().st_size for file in self._outputs())))

    def _outputs(self) -> list[Path]:
        try:
            return sorted(file for file in self.folder.iterdir() if re.match(r"\d+-", file.name))
        except FileNotFoundError:
            return []
