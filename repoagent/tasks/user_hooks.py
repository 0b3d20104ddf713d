"""Run the user's commands `run.before_turn`, `run.after_edit` and `run.before_finish`, and report them to the model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.process import uninterrupted
from repoagent.llm.model import fence, printable
from repoagent.storage.secrets import mask, without_secrets
from repoagent.tasks.markdown_files import cut, one_line

LARGEST = 4_000_000  # bytes of output, after which a program is killed
VERSION = 1
TIMEOUT = 300.0  # seconds
SHOWN = 8 * 1024  # characters of the output
PATHS = 1000  # passed to a command
_PATIENCE = 2.0  # seconds for output of processes that left the process group

Event = Literal["before_turn", "after_edit", "before_finish"]
EVENTS: tuple[Event, ...] = ("before_turn", "after_edit", "before_finish")


@dataclass(frozen=True)
class Ran:
    """The result of a program. `output` and `errors` do not contain secrets of the environment; `ended` is the reason
    why it was killed, worded as the end of a sentence, "" if it was not."""

    code: int
    output: str
    errors: str
    seconds: float
    ended: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.ended


def start(
    command: str | Sequence[str],
    *,
    top: Path,
    stdin: str = "",
    base: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float,
    together: bool = False,
) -> Ran:
    """Run `command` (a string: by the shell) at `top`, for at most `timeout` seconds.

    base: the environment, None for that of this process. environment: further variables. together: merge standard error
    into the output. Kills all its processes before returning, also after ^C. Raises Refused if it cannot be started.
    """
    started, ended = time.monotonic(), ""
    with TemporaryFile() as source:
        source.write(stdin.encode("utf-8", "surrogateescape"))
        source.seek(0)
        try:
            with uninterrupted():  # a ^C right after the start must not lose the process to kill
                process = subprocess.Popen(
                    command,
                    shell=isinstance(command, str),
                    cwd=top,
                    env={**(os.environ if base is None else base), **(environment or {})},
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT if together else subprocess.PIPE,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:  # a NUL in a name is a ValueError
            program = command if isinstance(command, str) else command[0]
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise Refused(f"could not run {program} ({reason})") from error
    output, errors = bytearray(), bytearray()
    readers = [
        Thread(target=_read, args=(process, pipe, data), daemon=True)
        for pipe, data in ((process.stdout, output), (process.stderr, errors))
        if pipe is not None
    ]
    try:
        for reader in readers:
            reader.start()
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        ended = f"was ended after {timeout:g} seconds"
    finally:
        _kill(process)
        process.wait()
    for reader in readers:
        reader.join(_PATIENCE)
    if max(len(output), len(errors)) > LARGEST:
        ended = f"was ended after printing {LARGEST // 1_000_000} MB"
    return Ran(process.returncode, _text(output), _text(errors), time.monotonic() - started, ended)


def _read(process: subprocess.Popen[bytes], pipe: IO[bytes], data: bytearray) -> None:
    with pipe:
        while piece := os.read(pipe.fileno(), 65_536):
            data += piece
            if len(data) > LARGEST:
                _kill(process)
                break


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its background processes."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _text(data: bytearray) -> str:
    return without_secrets(data[:LARGEST].decode("utf-8", "replace")).replace("\r\n", "\n")


@dataclass(frozen=True)
class HookAnswer:
    """The output of a hook for the model, "" for none, and whether it succeeded."""

    ok: bool = True
    text: str = ""


@dataclass(frozen=True)
class UserHooks:
    """The hook commands of the user's configuration (None: not set) for the run `run` at `top`. Call it to run one.

    timeout: of each, in seconds. audit: gets an event for each. confined: returns the command to run instead and its
    environment if there are unreviewed changes; None to run the command itself.
    """

    top: Path
    run: str
    commands: Mapping[Event, str | None]
    timeout: float = TIMEOUT
    audit: Callable[[Mapping[str, object]], None] = lambda event: None
    confined: Callable[[Sequence[str]], tuple[list[str], Mapping[str, str]] | None] = lambda argv: None

    def __call__(self, event: Event, turn: int = 0, paths: Sequence[str] | None = None) -> HookAnswer:
        """Run the command for `event`; `paths` are those that an edit or the run has changed."""
        command = self.commands.get(event)
        if command is None:
            return HookAnswer()
        facts = {"turn": turn} if paths is None else {"turn": turn, "paths": [*paths][:PATHS]}
        message = {"version": VERSION, "event": event, "run": self.run, "top": str(self.top), **facts}
        variables = {  # for hooks that do not read JSON
            "AGENT_EVENT": event,
            "AGENT_RUN": self.run,
            "AGENT_TURN": str(turn),
            "AGENT_PATHS": "\n".join(list(paths or ())[:PATHS]).replace("\0", "")[: 64 * 1024],
        }
        argv, env = self.confined(["/bin/sh", "-c", command]) or (command, None)
        stdin = json.dumps(message) + "\n"
        try:
            ran = start(
                argv, top=self.top, base=env, stdin=stdin, environment=variables, timeout=self.timeout, together=True
            )  # fmt: skip
        except Refused as error:
            return HookAnswer(False, f"run.{event}: {error}.")
        seconds = round(ran.seconds, 3)
        self.audit({"kind": "hook", "event": event, "command": command, "exit": ran.code, "seconds": seconds})
        output = mask(printable(excerpt(ran.output)))
        if ran.ok and not output.strip():
            return HookAnswer()
        ending = "" if ran.ok else f", which {ran.ended}" if ran.ended else f", exit code {ran.code}"
        command_text = cut(one_line(mask(without_secrets(command))), 200)
        lead = f"The user's command {event} (`{command_text}`){ending}"
        text = f"{lead}:\n{fence(output, 'output')}" if output.strip() else f"{lead}, and printed nothing."
        return HookAnswer(ran.ok, text)


def excerpt(text: str, limit: int = SHOWN) -> str:
    """The head and a longer tail of a text, because the important part of an error is at its end."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit // 4], text[len(text) - (limit - limit // 4) :]
    return f"{head}\n[… {len(text) - limit} characters omitted …]\n{tail}"
