"""The tools `run`, `wait` and `kill`: commands in the foreground and in the background."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from types import MappingProxyType

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest, Gate, May
from repoagent.agent.exec.process import Command, Job, command_environment
from repoagent.agent.exec.render_output import SHOWN_BYTES, bash_options, explain_exit_code, show_output
from repoagent.agent.state import Needs, Tool, check_arguments, report_usage_errors, switched_on
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.llm.model import fence

SECONDS = 30.0  # of a wait, by default
LONGEST_WAIT = 600.0
LONGEST_COMMAND = 100_000  # bytes; the system limits the length of an argument
FIRST_LOOK = 0.7  # seconds for a background command to print something, or to fail
NOTICEABLE = 2.0  # seconds; shorter times are not shown, so that the same result reads the same
_SECONDS = re.compile(r"\d{1,6}(\.\d+)?")


@dataclass
class CommandRunner:
    """Runs commands in `top` with the settings of a run.

    folder: the folder for output files.
    wrap: returns the command line that runs a command in the sandbox. If the sandbox ends the command, it writes the
        reason to the given report file.
    why_ended: reads the report file.
    unshown: returns additional variables for a command that may not see hidden files.
    seconds_left: returns the time left for the run; None without a limit.
    watch: called before a command, with whether a background command may have written files since the last call. It
        returns a function to call after the command, which says which files changed.
    shown_as: returns the name of an output file for the model.
    running: called with each foreground command and its output file.
    timeout, longest: the default and the maximum time limit, in seconds.
    budget: the maximum number of bytes of an output to show.
    keep, keep_total: the maximum number of bytes to save, of one output and of all outputs together.
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
    running: Callable[[str, Path], None] = lambda command, output: None
    timeout: float = 120.0
    longest: float = 3600.0
    budget: int = SHOWN_BYTES
    keep: int = 64 * 1024 * 1024
    keep_total: int = 1024 * 1024 * 1024
    background: dict[str, Command] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)  # background commands whose end is known to the model
    settled: set[str] = field(default_factory=set)  # commands whose changes were seen after their end

    def tools(self) -> tuple[Tool, ...]:
        run_text = (
            "<run>COMMAND</run> runs it with bash in the work tree, without a terminal or input, for at most "
            f'{self.timeout:g} s; timeout="600", background="yes" for a server. Long output is '
            "cut to its head and tail. A non-zero exit code of any part of a pipe is a failure."
        )
        wait_text = '<wait command="b1" seconds="30"/> waits until a background command ends.'
        kill_text = '<kill command="b1"/> ends a background command.'

        def needs(action: Action) -> Needs:
            request = ApprovalRequest("command", action.body.strip())
            return "nothing" if self.gate.only_reads(request) else "writes"

        return (
            Tool("run", run_text, report_usage_errors("run", self._run), needs=needs),
            Tool("wait", wait_text, report_usage_errors("wait", self._wait), needs="nothing"),
            Tool("kill", kill_text, report_usage_errors("kill", self._kill, blocks=False)),
        )

    def look(self) -> Callable[[], str]:
        """Take a snapshot of the files. Call the returned function to learn which files changed since then, or earlier
        while a background command ran."""
        since = [name for name in self.background if name not in self.settled]
        self.settled.update([name for name in since if self.background[name].has_ended()])
        return self.watch(any(self.background[name].job.may != "read" for name in since))

    @contextmanager
    def reporting(self, look_again: Callable[[], str]) -> Iterator[None]:
        """Add the result of `look_again` to a UsageError raised in the block.

        `look_again` must be called even then: otherwise the next resume would attribute the user's changes to an
        interrupted command.
        """
        try:
            yield
        except UsageError as error:
            raise UsageError("\n".join(filter(None, [str(error), look_again().strip()]))) from error

    def notices(self) -> list[str]:
        """Return a sentence for each background command that has ended since the last call, and one about changed
        files."""
        sentences = [
            f"The background command {name} ({command.label}) has ended: {command.how()}."
            for name, command in self.background.items()
            if command.has_ended() and self._report(name)
        ]
        if sentences and (changed := self.look()()):
            sentences.append(changed)
        return sentences

    def close(self) -> None:
        for name, command in self.background.items():
            if not command.has_ended():
                command.end()
            self._report(name)

    def _run(self, action: Action) -> Observation:
        text = action.body.strip()
        if not text:
            raise UsageError("no command: use <run>make test</run>")
        if "\0" in text or len(text.encode("utf-8", "surrogatepass")) > LONGEST_COMMAND:
            raise UsageError(
                f"a command must be text of at most {LONGEST_COMMAND} bytes; write longer input to a file."
            )
        check_arguments(action, ("timeout", "background"))
        seconds = self.time_limit(action)
        verdict = self.gate.decide(ApprovalRequest("command", text))
        if not verdict.allowed:
            return Observation("run", f"This command was not run: {verdict.reason}", ok=False)
        job = Job(text, self.top, verdict.by, verdict.may)
        if switched_on(action, "background"):
            return self._run_in_background(job)
        look_again = self._look_before(job)
        command = None
        try:
            with self.reporting(look_again):
                command = self._start(job)
            self.running(text, command.file)
            if not command.wait(seconds):
                command.end(f"stopped after {seconds:g} s (timeout)")
        except BaseException as error:
            if command is not None:
                command.end("interrupted")
                self.audit(command.record())
            elif not isinstance(error, Exception):  # a ^C right after its start, which has ended it
                self.audit({"kind": "command", "command": text, "by": job.by, "stopped": "interrupted"})
            raise
        self.audit(command.record())
        return self._ended(command, look_again)

    def _run_in_background(self, job: Job) -> Observation:
        name = f"b{len(self.background) + 1}"
        changed = self.look()() if job.may != "read" else ""  # the baseline for its own changes
        command = self._start(job, f"{name}-")
        self.background[name] = command
        self.audit({**command.record(), "background": name})
        if command.wait(FIRST_LOOK):
            self._report(name)
            return self._ended(command, lambda: f"{changed}\n{self._look_before(job)()}", name)
        head = (
            f'It is running in the background as {name}: <wait command="{name}"/>, <kill command="{name}"/>.'
        )
        text = "\n".join(filter(None, [head, self._new_output(command), changed]))
        return Observation("run", text, data=self._data(command, name))

    def _start(self, job: Job, prefix: str = "") -> Command:
        # the bash of the system, rather than one that PATH may find in the work tree; else sh
        env = command_environment(self.env)
        shells = [shell for shell in ("/bin/bash", "/usr/bin/bash") if os.access(shell, os.X_OK)]
        shell = shells[0] if shells else shutil.which("bash", path=env.get("PATH")) or "/bin/sh"
        options = bash_options(job.text) if shell.endswith("/bash") else []
        try:
            file = self.next_file(prefix + job.text)
            return self.start(job, [shell, *options, "-c", job.text], file, self.remaining_bytes())
        except OSError as error:
            raise UsageError(f"could not start the command: {error}") from error

    def start(
        self,
        job: Job,
        argv: Sequence[str],
        file: Path,
        keep: int,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Command:
        """Start `argv` for `job` in its sandbox, with `variables` added to its environment.

        The first `keep` bytes of the output, and its end, are saved in `file`. Raises OSError if the command cannot be
        started.
        """
        report = file.with_name(f".{file.stem.removeprefix('.')}.why")
        env = {**command_environment(self.env), **variables, **(self.unshown() if job.may != "all" else {})}

        def why() -> str | None:
            reason = self.why_ended(report)
            report.unlink(missing_ok=True)
            return reason

        return Command(job, self.wrap(argv, report, job.may), file, env, keep, why=why)

    def remaining_bytes(self) -> int:
        return max(0, min(self.keep, self.keep_total - sum(file.stat().st_size for file in self._outputs())))

    def next_file(self, label: str) -> Path:
        """Create an empty output file. Raises OSError if that fails."""
        self.folder.mkdir(parents=True, exist_ok=True)
        slug = re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-").lower()[:32].rstrip("-") or "command"
        number = max((int(file.name.split("-")[0]) for file in self._outputs()), default=0) + 1
        path = self.folder / f"{number:03}-{slug}.txt"
        path.touch(mode=0o600, exist_ok=False)
        return path

    def _outputs(self) -> list[Path]:
        return sorted(file for file in self.folder.iterdir() if re.match(r"\d+-", file.name))

    def _ended(self, command: Command, look_again: Callable[[], str], name: str = "") -> Observation:
        """The observation on a command that has ended: its exit code, its output, and the changed files."""
        output = self._new_output(command)
        changed = look_again().strip()
        meaning = explain_exit_code(command.job.text, command.exit, output)
        head = f"{command.how()}: {meaning}" if meaning else command.how()
        if command.seconds >= NOTICEABLE:
            head += f", {command.seconds:.0f} s"
        if not output and not meaning:
            head += ", no output"
        parts = [head, output]
        if command.output.write_error:
            parts.append(f"Some of the output was not saved: {command.output.write_error}.")
        if command.left_running:
            parts.append(
                'Processes that the command left running were killed; use background="yes" for anything that should '
                "keep running."
            )
        text = "\n".join(filter(None, [*parts, changed]))
        ok = command.exit == 0 or bool(meaning)
        return Observation("run", text, ok=ok, data=self._data(command, name), blocks=False)

    def _kill(self, action: Action) -> Observation:
        name, command = self._background_command(action)
        if not command.has_ended():
            command.end("killed by you")
        return self._state("kill", name, command)

    def _wait(self, action: Action) -> Observation:
        check_arguments(action, ("command", "seconds"))
        name, command = self._background_command(action)
        command.wait(self._within_run(action, "seconds", SECONDS, LONGEST_WAIT))
        return self._state("wait", name, command)

    def _state(self, kind: str, name: str, command: Command) -> Observation:
        """The observation on a background command: its state and its new output."""
        output = self._new_output(command)
        ended = command.has_ended()
        head = f"{name} has ended: {command.how()}" if ended else f"{name} is running"
        changed = self._look_before(command.job)() if ended and self._report(name) else ""
        text = "\n".join(filter(None, [head, output or "No new output.", changed]))
        ok = not ended or command.exit == 0 or command.stopped == "killed by you"
        return Observation(kind, text, ok, data=self._data(command, name))

    def _background_command(self, action: Action) -> tuple[str, Command]:
        """The named background command; by default the only one that runs. Raises UsageError."""
        name = (action.args.get("command", "") or action.body).strip()
        running = [name for name, command in self.background.items() if not command.has_ended()]
        if not name and len(running) == 1:
            name = running[0]
        if name in self.background:
            return name, self.background[name]
        problem = f"no background command {name}" if name else 'name the command, as in command="b1"'
        raise UsageError(f"{problem} (running: {', '.join(running) or 'none'}).")

    def time_limit(self, action: Action) -> float:
        """The time limit of a command, in seconds, never longer than the time left for the run. Raises UsageError if
        the argument `timeout` is invalid."""
        return self._within_run(action, "timeout", self.timeout, self.longest)

    def _within_run(self, action: Action, argument: str, default: float, longest: float) -> float:
        text = action.args.get(argument, "").strip().removesuffix("s").strip() or f"{default:g}"
        if not _SECONDS.fullmatch(text) or not 0 < float(text) <= longest:
            raise UsageError(f'{argument}="{text}": use a number of seconds, at most {longest:g}.')
        return self.within_run(float(text))

    def within_run(self, seconds: float) -> float:
        remaining = self.seconds_left()
        return seconds if remaining is None else max(0.1, min(seconds, remaining))

    def _look_before(self, job: Job) -> Callable[[], str]:
        """Like `look`, but does nothing if neither the command nor one in the background can write."""
        if job.may == "read" and all(command.has_ended() for command in self.background.values()):
            return lambda: ""
        return self.look()

    def _report(self, name: str) -> bool:
        """Record the end of a background command; False if it is recorded already."""
        if name in self.reported:
            return False
        self.reported.add(name)
        self.audit({**self.background[name].record(), "background": name})
        return True

    def _new_output(self, command: Command) -> str:
        """The output since the last call, as quoted text; "" for none."""
        text, command.shown = show_output(
            command.file, self.shown_as(command.file), self.budget, command.shown
        )
        return fence(text, "output") if text else ""

    def _data(self, command: Command, name: str) -> dict[str, object]:
        state = "runs" if command.exit is None else "ended"
        return {
            "command": command.job.text,
            "exit": command.exit,
            "seconds": round(command.seconds, 3),
            "output": self.shown_as(command.file),
            **({"stopped": command.stopped} if command.stopped else {}),
            **({"background": name, "state": state} if name else {}),
        }
