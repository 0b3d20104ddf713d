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
from dataclasses import field
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.process import uninterrupted
from repoagent.llm.model import fence, printable
from repoagent.storage.secrets import mask, without_secrets
from repoagent.tasks.markdown_files import cut, one_line

LARGEST = 4_000_000  # bytes of output, after which a program is ended
_SILENCE = 0.3  # seconds that are waited for what a program has left in the background to print
_PIECE = 65_536


@dataclass(frozen=True)
class Ran:
    """What came of it. `output` and `errors` are text without the secrets of the environment; `ended` says, as the end
    of a sentence, why we ended it ("" when it ended by itself)."""

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
    """Run `command` (a text: by the shell; a list: as it is) at `top` and wait for it, at most `timeout` seconds.

    base: the environment, that of this process for None. environment: further variables. together: the errors stand in
    the output, in their order. All that it started has ended when this returns, also by ^C. Raises Refused when it
    can't be started.
    """
    began = time.monotonic()
    process: subprocess.Popen[bytes] | None = None
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
        heard = _Heard(process, stdin.encode("utf-8", "surrogateescape"))
        ended = heard.listen(began + timeout) and f"was ended after {timeout:g} seconds"
        if heard.size > LARGEST:
            ended = f"was ended after printing {LARGEST // 1_000_000} MB"
    except (OSError, ValueError) as error:  # a NUL in a name is a ValueError
        if process is not None:
            raise
        what = command if isinstance(command, str) else command[0]
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise Refused(f"could not run {what} ({reason})") from error
    finally:
        if process is not None:
            _end(process)
    return Ran(
        process.returncode, _text(heard.output), _text(heard.errors), time.monotonic() - began, ended or ""
    )


@dataclass
class _Heard:
    process: subprocess.Popen[bytes]
    left: bytes
    output: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)

    @property
    def size(self) -> int:
        return len(self.output) + len(self.errors)

    def listen(self, deadline: float) -> bool:
        """Until it has ended, or said too much, or too late. Returns whether it was too late."""
        pipes = self.process
        assert pipes.stdin and pipes.stdout
        with selectors.DefaultSelector() as selector:
            for pipe in (pipes.stdout, pipes.stderr):
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ)
            os.set_blocking(pipes.stdin.fileno(), False)
            selector.register(pipes.stdin, selectors.EVENT_WRITE)
            while selector.get_map() and self.size <= LARGEST:
                if time.monotonic() > deadline:
                    return True
                ready = selector.select(min(_SILENCE, max(0.0, deadline - time.monotonic())))
                if (
                    not [key for key, _ in ready if key.fileobj is not pipes.stdin]
                    and pipes.poll() is not None
                ):
                    break  # what it left in the background holds the pipes open
                for key, _ in ready:
                    if key.fileobj is pipes.stdin:
                        self._feed(selector)
                    elif data := os.read(key.fd, _PIECE):
                        (self.output if key.fileobj is pipes.stdout else self.errors).extend(data)
                    else:
                        selector.unregister(key.fileobj)
        if self.size > LARGEST:
            return False
        try:
            pipes.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return True
        return False

    def _feed(self, selector: selectors.BaseSelector) -> None:
        stdin = self.process.stdin
        assert stdin
        try:
            self.left = self.left[os.write(stdin.fileno(), self.left[:_PIECE]) :] if self.left else b""
        except BlockingIOError:
            return
        except BrokenPipeError:  # it does not want to know
            self.left = b""
        if not self.left:
            selector.unregister(stdin)
            stdin.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and what it left in the background."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def _text(data: bytearray) -> str:
    return without_secrets(data[:LARGEST].decode("utf-8", "replace")).replace("\r\n", "\n")


VERSION = 1
TIMEOUT = 300.0  # seconds
SHOWN = 8 * 1024  # characters of the output
PATHS = 1000  # that a command is told of

Event = Literal["before_turn", "after_edit", "before_finish"]


@dataclass(frozen=True)
class HookAnswer:
    """What a command said, for the model ("" for nothing), and whether it ended well."""

    ok: bool = True
    text: str = ""


def _nothing(event: Mapping[str, object]) -> None:
    pass


@dataclass(frozen=True)
class UserHooks:
    """The commands of the person's configuration (None: there is none), for the run `run` in the work tree `top`.

    timeout: of each, in seconds. audit: is told of each that was run. confined: what to run instead of a command, and
    its environment, while there are changes that no person has seen; None for the command itself.
    """

    top: Path
    run: str
    turn_command: str | None = None
    edit_command: str | None = None
    finish_command: str | None = None
    timeout: float = TIMEOUT
    audit: Callable[[Mapping[str, object]], None] = _nothing
    confined: Callable[[Sequence[str]], tuple[list[str], Mapping[str, str]] | None] = lambda argv: None

    def before_turn(self, turn: int) -> str:
        """What is to be told before turn number `turn`, "" for nothing."""
        return self._said("before_turn", self.turn_command, {"turn": turn}).text

    def after_edit(self, paths: Sequence[str], turn: int = 0) -> str:
        """What is to be told after an edit of `paths` (from the top), "" for nothing."""
        return self._said("after_edit", self.edit_command, {"turn": turn, "paths": [*paths][:PATHS]}).text

    def before_finish(self, paths: Sequence[str] = (), turn: int = 0) -> HookAnswer:
        """Whether the run may count as finished. `paths` is what it has changed."""
        return self._said("before_finish", self.finish_command, {"turn": turn, "paths": [*paths][:PATHS]})

    def _said(self, event: Event, command: str | None, facts: Mapping[str, object]) -> HookAnswer:
        if command is None:
            return HookAnswer()
        given = {"version": VERSION, "event": event, "run": self.run, "top": str(self.top), **facts}
        argv, env = self.confined(["/bin/sh", "-c", command]) or (command, None)
        try:
            ran = start(
                argv,
                top=self.top,
                base=env,
                stdin=json.dumps(given) + "\n",
                environment=variables(given),
                timeout=self.timeout,
                together=True,
            )
        except Refused as error:
            return HookAnswer(False, f"run.{event}: {error}.")
        self.audit(
            {
                "kind": "around",
                "event": event,
                "command": command,
                "exit": ran.code,
                "seconds": round(ran.seconds, 3),
            }
        )
        return HookAnswer(ran.ok, hook_report(event, command, ran))


def variables(given: Mapping[str, object]) -> dict[str, str]:
    """What a command finds in its environment, for those who do not read JSON: paths stand a line each."""
    listed = given.get("paths")
    paths = "\n".join(map(str, listed)) if isinstance(listed, list) else ""
    return {
        "AGENT_EVENT": str(given["event"]),
        "AGENT_RUN": str(given["run"]),
        "AGENT_TURN": str(given.get("turn", "")),
        "AGENT_PATHS": paths.replace("\0", "")[: 64 * 1024],
    }


def hook_report(event: Event, command: str, ran: Ran) -> str:
    """What the model is told. A command that ended well and printed nothing is not mentioned."""
    output = mask(printable(excerpt(ran.output)))
    if ran.ok and not output.strip():
        return ""
    how = "" if ran.ok else f", which {ran.ended}" if ran.ended else f", exit code {ran.code}"
    shown = cut(one_line(mask(without_secrets(command))), 200)
    lead = f"The user's command {event} (`{shown}`){how}"
    return f"{lead}:\n{fence(output, 'output')}" if output.strip() else f"{lead}, and printed nothing."


def excerpt(text: str, limit: int = SHOWN) -> str:
    """A text, the middle left out where it is longer than `limit` characters: most of an error is at the end."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit // 4], text[len(text) - (limit - limit // 4) :]
    return f"{head}\n[… {len(text) - limit} characters omitted …]\n{tail}"
