"""The tools `run`, `wait` and `kill`: commands in the foreground and in the background."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest
from repoagent.agent.approvals.shell_parser import read_command
from repoagent.agent.exec.command_runner import CommandRunner
from repoagent.agent.exec.process import Command, Job, environment
from repoagent.agent.exec.render_output import bash_options, drawn, show, unmatched, was_cut_off
from repoagent.agent.state import Needs, Tool, check_arguments, failing, switched_on
from repoagent.errors import UsageError
from repoagent.llm.model import fence

SECONDS = 30.0  # of a wait, by default
LONGEST_WAIT = 600.0
LONGEST_COMMAND = 100_000  # bytes; the system limits the length of an argument
FIRST_LOOK = 0.7  # seconds for a background command to print something, or to fail
NOTICEABLE = 2.0  # seconds; shorter times are not shown, so that the same result reads the same
_LINE = 500  # characters of a line that are searched
_PATTERN = 200
_POLL = 0.05
# A pattern with these can take forever on one line.
_COSTLY = re.compile(r"\)[*+{]|\\[1-9]|\(\?[<!=P]")


def command_tools(runner: CommandRunner) -> tuple[Tool, ...]:
    """`run`, `wait` and `kill`."""
    run_text = (
        "<run>COMMAND</run> runs it with bash in the work tree, without terminal or input, for at most "
        f'{runner.timeout:g} s; timeout="600", cwd="DIR", background="yes" for a server. Long output is '
        "cut to head and tail. Any exit code but 0, of any part of a pipe, is a failure."
    )
    wait_text = '<wait command="b1" seconds="30"/> waits until a background command ends, or prints a line for="REGEX".'
    kill_text = '<kill command="b1"/> ends a background command.'

    def needs(action: Action) -> Needs:
        request = ApprovalRequest("command", action.body.strip(), cwd=action.args.get("cwd", ""))
        return "nothing" if runner.gate.only_reads(request) else "writes"

    return (
        Tool("run", run_text, failing("run", lambda action: _run(runner, action)), needs=needs),
        Tool("wait", wait_text, failing("wait", lambda action: _wait(runner, action)), needs="nothing"),
        Tool("kill", kill_text, failing("kill", lambda action: _kill(runner, action), blocks=False)),
    )


def _run(runner: CommandRunner, action: Action) -> Observation:
    text = action.body.strip()
    if not text:
        raise UsageError("no command: use <run>make test</run>")
    if "\0" in text or len(text.encode("utf-8", "surrogatepass")) > LONGEST_COMMAND:
        raise UsageError(
            f"a command must be text of at most {LONGEST_COMMAND} bytes; write longer input to a file."
        )
    check_arguments(action, ("timeout", "cwd", "background"))
    seconds = runner.time_limit(action.args.get("timeout", ""))
    folder, cwd = _folder_of(runner.top, action.args.get("cwd", "").strip())
    verdict = runner.gate.decide(ApprovalRequest("command", text, cwd=cwd))
    if not verdict.allowed:
        return Observation("run", f"This command was not run: {verdict.reason}", ok=False)
    job = Job(text, folder, cwd, verdict.by, verdict.may)
    if switched_on(action, "background"):
        return _run_in_background(runner, job)
    look_again = runner.look_before(job)
    command = None
    try:
        command = _start(runner, job)
        runner.running(text, command.file)
        if not command.wait(seconds):
            command.end(f"stopped after {seconds:g} s (timeout)")
    except BaseException as error:
        if command is not None:
            command.end("interrupted")
            runner.audit(command.record())
        elif not isinstance(error, Exception):  # a ^C right after its start, which has ended it
            event = {"kind": "command", "command": text, "cwd": cwd or ".", "by": job.by}
            runner.audit({**event, "stopped": "interrupted"})
        raise
    runner.audit(command.record())
    return _ended(runner, command, look_again)


def _folder_of(top: Path, name: str) -> tuple[Path, str]:
    """The folder `name`, and its path relative to the top. Raises UsageError if it is missing or outside."""
    base = top.resolve()
    if "\0" in name:
        raise UsageError("cwd must be the path of a folder in the repository.")
    folder = (base / name).resolve()
    if not folder.is_relative_to(base):
        raise UsageError(f'cwd="{name}" is outside the repository; name a folder in it, such as "src".')
    inside = folder.relative_to(base)
    if {".git", ".repoagent"}.intersection(part.lower() for part in inside.parts):
        raise UsageError(f'cwd="{name}" belongs to git or repoagent; commands run in the work tree.')
    if not folder.is_dir():
        raise UsageError(f'no folder {name}: cwd must be a folder in the repository, such as "src".')
    return folder, "" if inside == Path() else str(inside)


def _start(runner: CommandRunner, job: Job, name: str = "") -> Command:
    """Raises UsageError if it cannot be started."""
    # the bash of the system, rather than one that PATH may find in the work tree; else sh
    shells = [shell for shell in ("/bin/bash", "/usr/bin/bash") if os.access(shell, os.X_OK)]
    shell = (
        shells[0] if shells else shutil.which("bash", path=environment(runner.env).get("PATH")) or "/bin/sh"
    )
    options = bash_options(read_command(job.text)) if shell.endswith("/bash") else []
    try:
        file = runner.next_file(f"{name}-{job.text}" if name else job.text)
        return runner.start(job, [shell, *options, "-c", job.text], file, runner.remaining_bytes())
    except OSError as error:
        raise UsageError(f"could not start the command: {error}") from error


def _run_in_background(runner: CommandRunner, job: Job) -> Observation:
    """Start a command in the background, and wait a moment."""
    name = f"b{len(runner.background) + 1}"
    changed = runner.look()() if job.may != "read" else ""  # the baseline for its own changes
    command = _start(runner, job, name)
    runner.background[name] = command
    runner.audit({**command.record(), "background": name})
    if command.wait(FIRST_LOOK):
        runner.report(name)
        return _ended(runner, command, lambda: f"{changed}\n{runner.look_before(job)()}", name)
    head = f'It runs in the background as {name}: <wait command="{name}"/>, <kill command="{name}"/>.'
    text = "\n".join(filter(None, [head, _new_output(runner, command), changed]))
    return Observation("run", text, data=_data(runner, command, name))


def _ended(
    runner: CommandRunner, command: Command, look_again: Callable[[], str], name: str = ""
) -> Observation:
    """The observation on a command that has ended: its exit code, its output, and the changed files."""
    output = _new_output(runner, command)
    changed = look_again().strip()
    meaning = unmatched(command.job.text, command.exit, output)
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
            'Processes that it left running were killed; use background="yes" for what should keep running.'
        )
    text = "\n".join(filter(None, [*parts, changed, runner.explain(output).strip()]))
    ok = command.exit == 0 or bool(meaning)
    ok = ok or was_cut_off(read_command(command.job.text), command.exit, output)
    return Observation("run", text, ok=ok, data=_data(runner, command, name), blocks=False)


def _new_output(runner: CommandRunner, command: Command) -> str:
    """The output since the last call, as quoted text; "" for none."""
    text, command.shown = show(command.file, runner.shown_as(command.file), runner.budget, command.shown)
    return fence(text, "output") if text else ""


def _data(runner: CommandRunner, command: Command, name: str) -> dict[str, object]:
    state = "runs" if command.exit is None else "ended"
    return {
        "command": command.job.text,
        "exit": command.exit,
        "seconds": round(command.seconds, 3),
        "output": runner.shown_as(command.file),
        **({"stopped": command.stopped} if command.stopped else {}),
        **({"background": name, "state": state} if name else {}),
    }


def _kill(runner: CommandRunner, action: Action) -> Observation:
    name, command = _background_command(runner, action)
    if not command.has_ended():
        command.end("ended by you")
    return _state("kill", runner, name, command)


def _wait(runner: CommandRunner, action: Action) -> Observation:
    check_arguments(action, ("command", "for", "seconds"))
    name, command = _background_command(runner, action)
    text = action.args.get("seconds", "").strip() or f"{SECONDS:g}"
    if not re.fullmatch(r"\d{1,6}(\.\d+)?", text) or not 0 < float(text) <= LONGEST_WAIT:
        raise UsageError(f'seconds="{text}": use a number above 0, at most {LONGEST_WAIT:g}.')
    seconds = runner.within_run(float(text))
    awaited = action.args.get("for", "")
    seen = _line_watch(command.file, awaited) if awaited else lambda: False
    deadline = time.monotonic() + seconds
    while True:
        ended = command.has_ended()
        timed_out = time.monotonic() >= deadline
        if seen():
            return _state("wait", runner, name, command, "Ready. ")
        if ended or timed_out:
            within = "" if ended else f" within {seconds:g} s"
            return _state("wait", runner, name, command, f"Not ready{within}. " if awaited else "")
        command.wait(min(_POLL, max(0.0, deadline - time.monotonic())))


def _state(kind: str, runner: CommandRunner, name: str, command: Command, ready: str = "") -> Observation:
    """The observation on a background command: `ready` (a sentence or ""), its state, and its new output."""
    output = _new_output(runner, command)
    ended = command.has_ended()
    head = f"{ready}{name} has ended: {command.how()}" if ended else f"{ready}{name} runs"
    changed = runner.look_before(command.job)() if ended and runner.report(name) else ""
    text = "\n".join(filter(None, [head, output or "No new output.", changed, runner.explain(output)]))
    succeeded = not ended or command.exit == 0 or command.stopped == "ended by you"
    ok = ready == "Ready. " if ready else succeeded
    return Observation(kind, text, ok, data=_data(runner, command, name))


def _background_command(runner: CommandRunner, action: Action) -> tuple[str, Command]:
    """The named background command; by default the only one that runs. Raises UsageError."""
    name = (action.args.get("command", "") or action.body).strip()
    running = [name for name, command in runner.background.items() if not command.has_ended()]
    if not name and len(running) == 1:
        name = running[0]
    if name in runner.background:
        return name, runner.background[name]
    choices = f"running: {', '.join(running)}" if running else "none runs"
    if name:
        raise UsageError(f"no background command {name}: {choices}.")
    raise UsageError(f'name the command, as in command="b1": {choices}.')


def _line_watch(file: Path, awaited: str) -> Callable[[], bool]:
    """A function that reads new output, and returns whether a line contains `awaited`, as text or as a pattern.

    Raises UsageError for an invalid pattern, or one that could take forever.
    """
    if len(awaited) > _PATTERN or _COSTLY.search(awaited) or len(re.findall(r"(?<!\\)[*+{]", awaited)) > 3:
        raise UsageError('for="..." must be a simple pattern: a word or two of the line.')
    try:
        pattern = re.compile(awaited)
    except re.error as error:
        raise UsageError(f'for="{awaited}" is not a valid regular expression: {error}') from error
    at = 0

    def seen() -> bool:
        nonlocal at
        with file.open("rb") as stream:
            stream.seek(at)
            while data := stream.read(1 << 20):
                for line in data.decode("utf-8", "replace").split("\n"):
                    shown = drawn(line)[:_LINE]
                    if awaited in shown or pattern.search(shown):
                        return True
                at += data.rfind(b"\n") + 1 or (len(data) if len(data) == 1 << 20 else 0)
                if len(data) < 1 << 20:
                    break
                stream.seek(at)
        return False

    return seen
