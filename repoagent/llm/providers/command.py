"""A program as a model: the prompt on its standard input, the reply on its standard output."""

from __future__ import annotations

import codecs
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from repoagent.errors import ModelError
from repoagent.llm.model import OnText, Reply, Request, Usage
from repoagent.llm.rendering import render
from repoagent.llm.usage import estimate_tokens
from repoagent.repo.run import uninterrupted

_NOT_FOUND = 127  # of every shell
_STDERR_SHOWN = 500  # characters, the last ones


@dataclass(frozen=True)
class CommandModel:
    """`command` is run by the shell, as the user wrote it, in the current folder."""

    command: str
    timeout: float = 600.0  # seconds

    @property
    def spec(self) -> str:
        return f"command:{self.command}"

    @property
    def context_tokens(self) -> int | None:
        return None

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """See `llm.model.Model`. The usage is an estimate. However this ends, no process is left behind."""
        import tempfile

        prompt = render(request)
        with tempfile.TemporaryFile() as errors, _running(self.command, errors, self.timeout) as run:
            threading.Thread(target=_feed, args=(run.process, prompt.encode()), daemon=True).start()
            text = _listen(run.process, on_text)
            code = run.process.wait()
            if run.timed_out.is_set():
                raise ModelError(f"`{self.command}` did not finish in {self.timeout:g} s: it was stopped")
            if code == _NOT_FOUND:
                raise ModelError(f"`{self.command}` can't be run{_shown(errors)}: check --model command:...")
            if code:
                how = f"exit code {code}" if code > 0 else f"signal {-code}"
                raise ModelError(f"`{self.command}` failed with {how}{_shown(errors)}")
            if not text.strip():
                raise ModelError(f"`{self.command}` printed no reply{_shown(errors)}")
        usage = Usage(estimate_tokens(prompt), estimate_tokens(text), estimated=True)
        return Reply(text, "end", usage, self.spec)


@dataclass(frozen=True)
class _Run:
    process: subprocess.Popen[bytes]
    timed_out: threading.Event


@contextmanager
def _running(command: str, errors: IO[bytes], timeout: float) -> Iterator[_Run]:
    """The command in a process group of its own, which does not outlive the block or the time-out."""
    process: subprocess.Popen[bytes] | None = None
    alarm: threading.Timer | None = None
    try:
        with uninterrupted():  # a ^C right after the start must find the process to end
            process = subprocess.Popen(
                command,
                shell=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        run = _Run(process, threading.Event())
        alarm = threading.Timer(timeout, _stop, [run])
        alarm.daemon = True
        alarm.start()
        yield run
    except OSError as error:
        if process is not None:
            raise
        raise ModelError(f"`{command}` can't be run: {error}") from error
    finally:
        if alarm is not None:
            alarm.cancel()
        if process is not None:
            _kill_group(process.pid)  # what it left in the background, or all of it after ^C
            process.wait()
            if process.stdout:
                process.stdout.close()


def _stop(run: _Run) -> None:
    run.timed_out.set()
    _kill_group(run.process.pid)


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _feed(process: subprocess.Popen[bytes], prompt: bytes) -> None:
    """Write the prompt in a thread of its own: a program may answer before it has read everything."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(prompt)


def _listen(process: subprocess.Popen[bytes], on_text: OnText) -> str:
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces: list[str] = []
    done = False
    while not done:
        data = os.read(process.stdout.fileno(), 65_536)
        done = not data
        piece = decoder.decode(data, final=done)
        if piece:
            pieces.append(piece)
            on_text(piece)
    return "".join(pieces)


def _shown(errors: IO[bytes]) -> str:
    errors.seek(0)
    said = " ".join(errors.read().decode(errors="replace").split())
    return f": {said[-_STDERR_SHOWN:]}" if said else ""
