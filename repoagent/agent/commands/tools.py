"""The tools `run`, `wait` and `kill`."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approval.asked import Asked
from repoagent.agent.approval.shell import read
from repoagent.agent.commands.environment import environment
from repoagent.agent.commands.pipes import bash_options, was_cut_off
from repoagent.agent.commands.running import Command, Job, start
from repoagent.agent.commands.shop import Shop
from repoagent.agent.commands.shown import Shown, show
from repoagent.agent.commands.unfit import unfit
from repoagent.agent.commands.unmatched import unmatched
from repoagent.agent.commands.waiting import kill_tool, wait_tool
from repoagent.agent.tool import Needs, Tool
from repoagent.errors import RepoagentError, UsageError
from repoagent.llm.quoting import fence

LONGEST = 100_000  # bytes of a command: the system takes no more in one argument
FIRST_LOOK = 0.7  # seconds that a background command is given to print something, or to fail
NOTICEABLE = 2.0  # seconds: of a shorter run the time is not said, so that the same result reads the same


def command_tools(shop: Shop) -> tuple[Tool, ...]:
    """`run`, `wait` and `kill`, for the commands of `shop`."""
    return run_tool(shop), wait_tool(shop), kill_tool(shop)


def run_tool(shop: Shop) -> Tool:
    text = (
        "<run>COMMAND</run> runs it with bash in the work tree, without terminal or input, for at most "
        f'{shop.timeout:g} s; timeout="600", cwd="DIR", background="yes" for a server. Long output is cut to head and '
        "tail. Any exit code but 0, of each part of a pipe, is a failure."
    )

    def needs(action: Action) -> Needs:
        asked = Asked("command", action.body.strip(), cwd=action.args.get("cwd", ""))
        return "nothing" if shop.gate.only_reads(asked) else "writes"

    return Tool("run", text, lambda action: _reporting(action, lambda: _run(shop, action)), needs=needs)


def _reporting(action: Action, perform: Callable[[], Observation]) -> Observation:
    try:
        return perform()
    except RepoagentError as error:
        if error.exit_code not in {UsageError.exit_code}:
            raise
        return Observation(action.kind, str(error), ok=False)


def _run(shop: Shop, action: Action) -> Observation:
    text = action.body.strip()
    if not text:
        raise UsageError("say what to run: <run>make test</run>")
    if "\0" in text or len(text.encode("utf-8", "surrogatepass")) > LONGEST:
        raise UsageError(f"a command is text of at most {LONGEST} bytes: put what is longer into a file.")
    seconds = _seconds(shop, action.args)
    where, cwd = folder_of(shop.top, action.args.get("cwd", ""))
    in_background = action.args.get("background", "no").strip().lower() in {"yes", "true", "1", "on"}
    if reason := unfit(read(text), git_is_kept=bool(shop.gate.sandbox)):
        shop.audit({"kind": "command", "command": text, "cwd": cwd or ".", "by": "not fit", "reason": reason})
        return Observation("run", reason, ok=False)
    verdict = shop.gate.decide(Asked("command", text, cwd=cwd))
    if not verdict.allowed:
        return Observation("run", f"This command was not run: {verdict.reason}", ok=False)
    job = Job(text, where, cwd, verdict.by, verdict.may)
    if in_background:
        return _begin(shop, job)
    look_again = shop.look_before(job)
    command = None
    try:
        command = _started(shop, job)
        shop.running(text, command.file)
        if not command.wait(seconds):
            command.end(f"stopped after {seconds:g} s (time-out)")
    except BaseException as error:
        if command is not None:
            command.end("interrupted")
            shop.audit(command.record())
        elif not isinstance(error, Exception):  # a ^C right after its start, which has ended it
            said = {"command": text, "cwd": cwd or ".", "by": job.by, "stopped": "interrupted"}
            shop.audit({"kind": "command", **said})
        raise
    shop.audit(command.record())
    shown = show(command.file, shop.shown_as(command.file), shop.budget)
    return _ended(shop, command, shown, look_again())


def _seconds(shop: Shop, args: Mapping[str, str]) -> float:
    """The time-out of a command. Raises UsageError for arguments that are none."""
    if unknown := set(args) - {"timeout", "background", "cwd"}:
        raise UsageError(f"run has no argument {min(unknown)}: it has timeout, cwd and background.")
    seconds = shop.timeout
    if given := args.get("timeout", "").strip().removesuffix("s").strip():
        if not re.fullmatch(r"\d{1,6}(\.\d+)?", given) or not 0 < float(given) <= shop.longest:
            raise UsageError(f'timeout="{given}": it is a number of seconds, at most {shop.longest:g}.')
        seconds = float(given)
    left = shop.seconds_left()
    return seconds if left is None else max(0.1, min(seconds, left))


def folder_of(top: Path, cwd: str) -> tuple[Path, str]:
    """The folder `cwd` below the top, and its name from there. Raises UsageError when it is none, or leads out."""
    name = cwd.strip()
    base = top.resolve()
    if "\0" in name:
        raise UsageError("cwd is the path of a folder in the repository.")
    folder = (base / name).resolve()
    if not folder.is_relative_to(base):
        raise UsageError(f'cwd="{name}" leads out of the repository: it is a folder in it, like "src".')
    inside = folder.relative_to(base)
    if {".git", ".repoagent"}.intersection(part.lower() for part in inside.parts):
        raise UsageError(f'cwd="{name}" belongs to git or to repoagent: commands run in the work tree.')
    if not folder.is_dir():
        raise UsageError(f'there is no folder {name}: cwd is a folder in the repository, like "src".')
    return folder, "" if inside == Path() else str(inside)


def _started(shop: Shop, job: Job, name: str = "") -> Command:
    """Raises UsageError when it can't be started."""
    env = environment(shop.env)
    if job.may != "all":
        env |= shop.unshown()
    shell = _shell(env.get("PATH"))
    options = bash_options(read(job.text)) if shell.endswith("/bash") else []
    argv = [shell, *options, "-c", job.text]
    try:
        file = shop.next_file(f"{name}-{job.text}" if name else job.text)
        report = file.with_name(f".{file.stem}.why")
        command = start(job, shop.wrap(argv, report, job.may), file, env, shop.room())
        command.why = lambda: _why(shop, report)
        return command
    except OSError as error:
        raise UsageError(f"the command could not be started: {error}") from error


def _shell(path: str | None) -> str:
    """bash, where there is one: that of the system, rather than what PATH may find in the work tree."""
    for shell in ("/bin/bash", "/usr/bin/bash"):
        if os.access(shell, os.X_OK):
            return shell
    return shutil.which("bash", path=path) or "/bin/sh"


def _why(shop: Shop, report: Path) -> str | None:
    """Why the sandbox ended a command; asked once, when it has ended."""
    said = shop.why_ended(report)
    report.unlink(missing_ok=True)
    return said


def _begin(shop: Shop, job: Job) -> Observation:
    """Start a command in the background, and give it a moment."""
    name = shop.next_name()
    changed = shop.look()() if job.may != "read" else ""  # what it changes is told from what was there
    command = _started(shop, job, name)
    shop.background[name] = command
    shop.audit({**command.record(), "background": name})
    ended = command.wait(FIRST_LOOK)
    shown = show(command.file, shop.shown_as(command.file), shop.budget)
    command.shown = shown.until
    if ended:
        shop.told.add(name)
        shop.audit({**command.record(), "background": name})
        more = "\n".join(filter(None, [changed, shop.look_before(job)()]))
        return _ended(shop, command, shown, more, name)
    said = f'It runs in the background as {name}: <wait command="{name}"/>, <kill command="{name}"/>.'
    text = "\n".join(filter(None, [said, fence(shown.text, "output") if shown.text else "", changed]))
    return Observation("run", text, data=data_of(shop, command, name))


def _ended(shop: Shop, command: Command, shown: Shown, more: str, name: str = "") -> Observation:
    """What came of a command that has ended."""
    nothing = unmatched(command.job.text, command.exit, shown.text)
    more = "\n".join(filter(None, [more, shop.explain(shown.text)]))
    return Observation(
        "run",
        told(command, shown, more, nothing),
        ok=command.exit == 0
        or bool(nothing)
        or was_cut_off(read(command.job.text), command.exit, shown.text),
        data=data_of(shop, command, name),
        blocks=False,
    )


def told(command: Command, shown: Shown, more: str = "", nothing: str = "") -> str:
    """How a command has ended, what it printed, and what it changed. `nothing`: what its exit code means."""
    took = f", {command.seconds:.0f} s" if command.seconds >= NOTICEABLE else ""
    head = f"{command.how()}{f': {nothing}' if nothing else ''}{took}"
    head += "" if shown.text or nothing else ", no output"
    trouble = command.pump.trouble and f"Not all of the output could be kept: {command.pump.trouble}."
    held = (
        command.pump.held and 'What it left running has been ended: use background="yes" for what is to stay.'
    )
    output = fence(shown.text, "output") if shown.text else ""
    return "\n".join(filter(None, [head, output, trouble or "", held or "", more.strip()]))


def data_of(shop: Shop, command: Command, name: str = "") -> dict[str, object]:
    """What a program may want to know of it."""
    return {
        "command": command.job.text,
        "exit": command.exit,
        "seconds": round(command.seconds, 3),
        "output": shop.shown_as(command.file),
        **({"stopped": command.stopped} if command.stopped else {}),
        **({"background": name} if name else {}),
    }
