"""Run the user's commands `run.before_turn`, `run.after_edit` and `run.before_finish`, and report them to the model."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.process import uninterrupted
from repoagent.llm.model import fence, printable
from repoagent.storage.secrets import mask, without_secrets
from repoagent.tasks.markdown_files import cut, one_line

LARGEST = 4_000_000  # bytes of output, after which a program is ended
VERSION = 1
TIMEOUT = 300.0  # seconds
SHOWN = 8 * 1024  # characters of the output
PATHS = 1000  # that a command gets
_SILENCE = 0.3  # seconds to wait for output of what a program left in the background
_PIECE = 65_536

Event = Literal["before_turn", "after_edit", "before_finish"]


@dataclass(frozen=True)
class Ran:
    """The result of a program. `output` and `errors` are without the secrets of the environment; `ended` says, as the
    end of a sentence, why we ended it, "" if we did not."""

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

    base: the environment, None for that of this process. environment: further variables. together: errors are part of
    the output. Everything it started has ended on return, also after ^C. Raises Refused if it can't be started.
    """
    began = time.monotonic()
    try:
        with uninterrupted():  # a ^C right after the start must find the process to end
            process = subprocess.Popen(
                command,
                shell=isinstance(command, str),
                cwd=top,
                env={**(os.environ if base is None else base), **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if together else subprocess.PIPE,
                start_new_session=True,
            )
    except (OSError, ValueError) as error:  # a NUL in a name is a ValueError
        program = command if isinstance(command, str) else command[0]
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise Refused(f"could not run {program} ({reason})") from error
    output, errors = bytearray(), bytearray()
    ended = ""
    try:
        if _communicate(process, stdin.encode("utf-8", "surrogateescape"), output, errors, began + timeout):
            ended = f"was ended after {timeout:g} seconds"
        elif len(output) + len(errors) > LARGEST:
            ended = f"was ended after printing {LARGEST // 1_000_000} MB"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
    texts = [
        without_secrets(data[:LARGEST].decode("utf-8", "replace")).replace("\r\n", "\n")
        for data in (output, errors)
    ]
    return Ran(process.returncode, texts[0], texts[1], time.monotonic() - began, ended)


def _communicate(
    process: subprocess.Popen[bytes], data: bytes, output: bytearray, errors: bytearray, deadline: float
) -> bool:
    """Feed and read the process until it has ended or printed too much. Returns whether the deadline passed."""
    stdin, stdout = process.stdin, process.stdout
    assert stdin and stdout
    os.set_blocking(stdin.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(stdin, selectors.EVENT_WRITE)
        for pipe in (stdout, process.stderr):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() and len(output) + len(errors) <= LARGEST:
            remaining = deadline - time.monotonic()
            if remaining < 0:
                return True
            ready = selector.select(min(_SILENCE, remaining))
            if all(key.fileobj is stdin for key, _ in ready) and process.poll() is not None:
                break  # what it left in the background holds the pipes open
            for key, _ in ready:
                if key.fileobj is stdin:
                    try:
                        data = data[os.write(stdin.fileno(), data[:_PIECE]) :] if data else b""
                    except BlockingIOError:
                        continue
                    except BrokenPipeError:  # it does not read its input
                        data = b""
                    if not data:
                        selector.unregister(stdin)
                        stdin.close()
                elif piece := os.read(key.fd, _PIECE):
                    (output if key.fileobj is stdout else errors).extend(piece)
                else:
                    selector.unregister(key.fileobj)
    if len(output) + len(errors) > LARGEST:
        return False
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return True
    return False


@dataclass(frozen=True)
class HookAnswer:
    """The output of a hook for the model, "" for none, and whether it succeeded."""

    ok: bool = True
    text: str = ""


@dataclass(frozen=True)
class UserHooks:
    """The commands of the user's configuration (None: not set) for the run `run` at `top`.

    timeout: of each, in seconds. audit: gets an event for each. confined: the command to run instead and its
    environment, while there are changes that no user has seen; None for the command itself.
    """

    top: Path
    run: str
    turn_command: str | None = None
    edit_command: str | None = None
    finish_command: str | None = None
    timeout: float = TIMEOUT
    audit: Callable[[Mapping[str, object]], None] = lambda event: None
    confined: Callable[[Sequence[str]], tuple[list[str], Mapping[str, str]] | None] = lambda argv: None

    def before_turn(self, turn: int) -> str:
        """What to tell the model before turn number `turn`."""
        return self._run("before_turn", self.turn_command, {"turn": turn}).text

    def after_edit(self, paths: Sequence[str], turn: int = 0) -> str:
        """What to tell the model after an edit of `paths`."""
        return self._run("after_edit", self.edit_command, {"turn": turn, "paths": [*paths][:PATHS]}).text

    def before_finish(self, paths: Sequence[str] = (), turn: int = 0) -> HookAnswer:
        """Whether the run may finish. `paths` are those it has changed."""
        return self._run("before_finish", self.finish_command, {"turn": turn, "paths": [*paths][:PATHS]})

    def _run(self, event: Event, command: str | None, facts: Mapping[str, object]) -> HookAnswer:
        if command is None:
            return HookAnswer()
        message = {"version": VERSION, "event": event, "run": self.run, "top": str(self.top), **facts}
        paths = facts.get("paths")
        variables = {  # for those who do not read JSON
            "AGENT_EVENT": event,
            "AGENT_RUN": self.run,
            "AGENT_TURN": str(facts.get("turn", "")),
            "AGENT_PATHS": "\n".join(paths if isinstance(paths, list) else []).replace("\0", "")[: 64 * 1024],
        }
        argv, env = self.confined(["/bin/sh", "-c", command]) or (command, None)
        try:
            ran = start(
                argv,
                top=self.top,
                base=env,
                stdin=json.dumps(message) + "\n",
                environment=variables,
                timeout=self.timeout,
                together=True,
            )
        except Refused as error:
            return HookAnswer(False, f"run.{event}: {error}.")
        self.audit(
            {
                "kind": "hook",
                "event": event,
                "command": command,
                "exit": ran.code,
                "seconds": round(ran.seconds, 3),
            }
        )
        return HookAnswer(ran.ok, _report(event, command, ran))


def _report(event: Event, command: str, ran: Ran) -> str:
    """For the model; "" for a command that succeeded and printed nothing."""
    output = mask(printable(excerpt(ran.output)))
    if ran.ok and not output.strip():
        return ""
    ending = "" if ran.ok else f", which {ran.ended}" if ran.ended else f", exit code {ran.code}"
    command_text = cut(one_line(mask(without_secrets(command))), 200)
    lead = f"The user's command {event} (`{command_text}`){ending}"
    return f"{lead}:\n{fence(output, 'output')}" if output.strip() else f"{lead}, and printed nothing."


def excerpt(text: str, limit: int = SHOWN) -> str:
    """The head and the longer tail of a text: most of an error is at the end."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit // 4], text[len(text) - (limit - limit // 4) :]
    return f"{head}\n[… {len(text) - limit} characters omitted …]\n{tail}"
