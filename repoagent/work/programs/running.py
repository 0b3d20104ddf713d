"""Run a program of the person's: a text on its standard input, what it prints up to a size and a time."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.repo.run import uninterrupted
from repoagent.store.secrets import without_secrets

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
            ended = f"was ended after it had printed {LARGEST // 1_000_000} MB"
    except (OSError, ValueError) as error:  # a NUL in a name is a ValueError
        if process is not None:
            raise
        what = command if isinstance(command, str) else command[0]
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise Refused(f"{what} can't be run ({reason})") from error
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
