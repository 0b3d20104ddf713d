"""Start commands with the settings of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import MappingProxyType

from repoagent.agent.approvals.policy import Gate, May
from repoagent.agent.exec.process import Command, Job, environment
from repoagent.agent.exec.render_output import SHOWN_BYTES
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError


@dataclass
class CommandRunner:
    """The settings for commands, and the commands in the background.

    top: the work tree. folder: for output files. env: the environment. wrap: the command line in the sandbox, which
    writes to a report file why it ended a command; why_ended: reads that file. unshown: further variables of a command
    that may not see hidden files. seconds_left: of the run, None without a limit. watch: called before a command in the
    foreground, with whether one in the background may have written since the last call; the result is called after it,
    and returns which files changed. audit: records events. shown_as: the name of an output file for the model. explain:
    which limit of the sandbox an output is about. running: called with each command in the foreground and its output
    file. timeout, longest: the default and maximum of seconds. budget: bytes of output that are shown. keep: bytes of
    an output that are saved; keep_total: bytes of all outputs of the run, without the end of each.
    """

    top: Path
    folder: Path
    env: Mapping[str, str]
    gate: Gate
    wrap: Callable[[Sequence[str], Path, May], list[str]] = lambda argv, report, may: list(argv)
    unshown: Callable[[], Mapping[str, str]] = dict
    why_ended: Callable[[Path], str | None] = lambda report: None
    seconds_left: Callable[[], float | None] = lambda: None
    watch: Callable[[bool], Callable[[], str]] = lambda background: lambda: ""
    audit: Callable[[Mapping[str, object]], None] = lambda event: None
    shown_as: Callable[[Path], str] = str
    explain: Callable[[str], str] = lambda output: ""
    running: Callable[[str, Path], None] = lambda command, output: None
    timeout: float = 120.0
    longest: float = 3600.0
    budget: int = SHOWN_BYTES
    keep: int = 64 * 1024 * 1024
    keep_total: int = 1024 * 1024 * 1024
    background: dict[str, Command] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)  # background commands whose end is known to the model
    settled: set[str] = field(default_factory=set)  # commands whose changes were seen after their end

    def time_limit(self, text: str) -> float:
        """The seconds for timeout="TEXT", or what is left of the run if that is less. Raises UsageError."""
        text = text.strip().removesuffix("s").strip()
        if text and (not re.fullmatch(r"\d{1,6}(\.\d+)?", text) or not 0 < float(text) <= self.longest):
            raise UsageError(f'timeout="{text}": use a number of seconds, at most {self.longest:g}.')
        return self.within_run(float(text) if text else self.timeout)

    def within_run(self, seconds: float) -> float:
        """`seconds`, or what is left of the run if that is less."""
        remaining = self.seconds_left()
        return seconds if remaining is None else max(0.1, min(seconds, remaining))

    def start(
        self,
        job: Job,
        argv: Sequence[str],
        file: Path,
        keep: int,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Command:
        """Start `argv` for `job` in its sandbox, with `variables` added to its environment. At most `keep` bytes of its
        output, and the end, go to `file`. Raises OSError."""
        report = file.with_name(f".{file.stem.removeprefix('.')}.why")
        env = {**environment(self.env), **variables, **(self.unshown() if job.may != "all" else {})}

        def why() -> str | None:
            reason = self.why_ended(report)
            report.unlink(missing_ok=True)
            return reason

        return Command(job, self.wrap(argv, report, job.may), file, env, keep, why=why)

    def look_before(self, job: Job) -> Callable[[], str]:
        """As `look`, but does nothing if neither the command nor one in the background can write."""
        if job.may == "read" and all(command.has_ended() for command in self.background.values()):
            return lambda: ""
        return self.look()

    def look(self) -> Callable[[], str]:
        """Take a snapshot of the files. The result takes another one, and returns which files changed in between, or
        before while a command ran in the background."""
        since = [name for name in self.background if name not in self.settled]
        self.settled.update([name for name in since if self.background[name].has_ended()])
        return self.watch(any(self.background[name].job.may != "read" for name in since))

    def notices(self) -> list[str]:
        """A sentence for each background command that has ended since the last call, and the changed files."""
        sentences = []
        for name, command in self.background.items():
            if command.has_ended() and self.report(name):
                sentences.append(
                    f"The background command {name} ({command.label}) has ended: {command.how()}."
                )
        if sentences and (changed := self.look()()):
            sentences.append(changed)
        return sentences

    def report(self, name: str) -> bool:
        """Record the end of a background command; False if it is recorded already."""
        if name in self.reported:
            return False
        self.reported.add(name)
        self.audit({**self.background[name].record(), "background": name})
        return True

    def close(self) -> None:
        """End all background commands."""
        for name, command in self.background.items():
            if not command.has_ended():
                command.end()
            self.report(name)

    def next_file(self, label: str) -> Path:
        """Create an empty output file. Raises OSError."""
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

    def remaining_bytes(self) -> int:
        """The number of bytes of the next output to save."""
        return max(0, min(self.keep, self.keep_total - sum(file.stat().st_size for file in self._outputs())))

    def _outputs(self) -> list[Path]:
        try:
            return sorted(file for file in self.folder.iterdir() if re.match(r"\d+-", file.name))
        except FileNotFoundError:
            return []
