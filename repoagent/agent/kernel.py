"""A Jupyter kernel, which runs as a child process, and the cells of code that it executes.

The kernel runs in the same sandbox as a command, with its sockets in a folder. Its messages are signed with a key that
the executed code can read, so nothing in them is trusted.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from repoagent.agent.exec.process import Job, OutputFile
from repoagent.agent.exec.render_output import render_line
from repoagent.agent.exec.tools import CommandRunner
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.llm.model import fence

CONNECTION = "connection.json"
LARGEST = 32 * 1024 * 1024  # bytes of one message; a longer one is lost
_START = 60.0  # seconds until the first answer of a kernel
_BATCH = 64  # messages that are read before the caller looks at the clock again
_MAX_PATH = 90  # bytes of a socket's path: the system takes about 107, 103 on macOS
_LOG = 1024 * 1024  # bytes to save of the output of a kernel outside its cells
_LOG_TAIL = 1_000  # characters of its end that are shown if the kernel has died
_ASK_AGAIN = 0.25
_POLL = 0.1
_AFTER_REPLY = 5.0  # seconds to wait for the rest of the output
_INTERRUPT_AGAIN = 1.0  # an interrupt is lost if the code has not started
_MERCY = 5.0  # seconds between the first interrupt and ending the kernel


# what handling a message of an unexpected form may raise
_MALFORMED = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)


@dataclass
class Cell:
    """A cell of code that is running or has ended.

    request: the id of the execution request.
    output: the file for the output.
    ending: how the cell ended.
    error: the name of the exception.
    """

    request: str
    output: OutputFile
    ending: Literal["done", "raised", "interrupted", "killed", "died"] = "raised"
    error: str = ""
    seconds: float = 0.0
    idle: bool = False
    replied: float | None = None
    at_line_start: bool = field(default=True, init=False)

    def handle(self, message: Mapping[str, Any], *, public: bool = True) -> None:
        """Handle a message from the channel for output (`public`) or for replies. A malformed one is ignored."""
        with suppress(*_MALFORMED):
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":  # also of a thread that an earlier cell started
                self._write(content["text"])
            elif message["parent_header"]["msg_id"] != self.request:
                return
            elif kind in {"execute_result", "display_data"}:  # without text, its types are shown
                data = content["data"]
                self._write_lines(
                    data["text/plain"] if "text/plain" in data else f"({', '.join(data)})"[:200]
                )
            elif kind == "error":
                self.error = str(content["ename"])[:100]
                self._write_lines("\n".join(content["traceback"]) or content["evalue"])
            elif kind == "status" and public:
                self.idle = self.idle or content["execution_state"] == "idle"
            elif kind == "execute_reply" and self.replied is None:
                self.replied = time.monotonic()
                self.ending = "done" if content["status"] == "ok" else "raised"
                self.error = self.error or str(content.get("ename", ""))[:100]

    def _write(self, text: str) -> None:
        if text:
            self.output.write(text.encode("utf-8", "backslashreplace"))
            self.at_line_start = text.endswith("\n")

    def _write_lines(self, text: str) -> None:
        self._write(("" if self.at_line_start else "\n") + text.rstrip("\n") + "\n")


class Kernel:
    """A running or ended kernel.

    withheld: the files that are hidden from the kernel, with their inodes; None if it may see all files.
    """

    def __init__(self, runner: CommandRunner, python: str, scratch: Path) -> None:
        """Start a kernel and wait until it answers. Raises UsageError if it does not."""
        self._cleanup = ExitStack()
        # the sockets are k-1, k-2, ...
        channels = ("shell", "iopub", "stdin", "control", "hb")
        connection: Any = {
            "transport": "ipc", "ip": "k", "key": secrets.token_hex(32), "signature_scheme": "hmac-sha256",
            **{f"{name}_port": number for number, name in enumerate(channels, 1)},
        }  # fmt: skip
        try:
            runner.folder.mkdir(parents=True, exist_ok=True)
            scratch.mkdir(parents=True, exist_ok=True)
            self.folder = Path(tempfile.mkdtemp(prefix="kernel-", dir=scratch))
            file = self.folder / CONNECTION
            file.touch(mode=0o600)
            file.write_text(json.dumps(connection), encoding="utf-8")
            variables = {"JUPYTER_NO_CONFIG": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
            # not the user's profile and its start-up files
            for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
                variables[name] = str(self.folder / name.lower())
            text = (files("repoagent.agent") / "kernel_main.py").read_text(encoding="utf-8")
            job = Job("python kernel", self.folder, may="shown" if runner.gate.mode == "auto" else "all")
            self.withheld = withheld_inodes(runner) if job.may != "all" else None
            log = runner.folder / f".{self.folder.name}.log"  # where the code in the kernel cannot write
            self.command = runner.start(
                job, [python, "-c", text, CONNECTION, str(runner.top)], log, _LOG, variables
            )
        except OSError as error:
            raise UsageError(f"could not start the Python kernel: {error}") from error
        prefix = self.folder
        if len(str(prefix).encode()) > _MAX_PATH:
            link = self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="repoagent-"))
            prefix = Path(link) / "k"
            prefix.symlink_to(self.folder.absolute(), target_is_directory=True)
        connection["ip"] = f"{prefix}/k"
        try:
            self._connect(connection, runner.within_run(_START))
        except BaseException:
            self.close()
            raise

    def _connect(self, connection: Any, seconds: float) -> None:
        """Open the client's sockets, and wait at most `seconds` for an answer from the kernel and a message on its
        output channel. Raises UsageError if either is missing."""
        import zmq
        from jupyter_client.blocking.client import BlockingKernelClient

        context = zmq.Context()
        for option, value in ((zmq.LINGER, 0), (zmq.MAXMSGSIZE, LARGEST), (zmq.RECONNECT_IVL, 20)):
            context.setsockopt(option, value)  # the default of each socket
        self._cleanup.callback(context.destroy, linger=0)
        self.client = BlockingKernelClient(context=context)
        self.client.load_connection_info(connection)
        self.client.start_channels(stdin=False, hb=False, control=False)
        for channel in (self.client.shell_channel, self.client.iopub_channel):
            self._cleanup.callback(channel.stop)  # first: a context waits for ever for a socket that is open
        began, requested = time.monotonic(), 0.0
        answered = published = False
        while not (answered and published):
            if self.has_ended():
                raise UsageError(f"could not start the Python kernel: {self.last_words()}")
            current = time.monotonic()
            if current - began > seconds:
                raise UsageError(f"the Python kernel did not answer within {seconds:g} s.")
            if current - requested > _ASK_AGAIN:
                self.client.kernel_info()
                requested = current
            for message, public in self._messages(0.05):
                published = published or public
                answered = answered or message.get("msg_type") == "kernel_info_reply"

    def _messages(self, seconds: float) -> Iterator[tuple[dict[str, Any], bool]]:
        """Messages that arrive within `seconds`, at most a few at once, and whether each came on the channel for
        output. Unsigned ones are skipped."""
        import zmq

        channels = (self.client.iopub_channel, self.client.shell_channel)
        zmq.select([channel.socket for channel in channels], [], [], seconds)
        for channel in channels:
            for _ in range(_BATCH):
                try:
                    yield channel.get_msg(timeout=0), channel is self.client.iopub_channel
                except queue.Empty:
                    break
                except _MALFORMED:
                    continue

    def execute(self, code: str, seconds: float, output: OutputFile) -> Cell:
        """Run `code` for at most `seconds`; then interrupt it, and end the kernel if that does not help."""
        began = time.monotonic()
        interrupted, last_interrupt = 0.0, 0.0
        cell = Cell(self.client.execute(code, store_history=True, allow_stdin=False), output)
        while cell.replied is None or not (cell.idle or time.monotonic() - cell.replied > _AFTER_REPLY):
            ended = self.has_ended()  # before its last messages are read
            for message, public in self._messages(_POLL):
                cell.handle(message, public=public)
            current = time.monotonic()
            if cell.replied is not None:
                continue
            if ended:
                cell.ending = "died"
                break
            if current - began > seconds and current - last_interrupt > _INTERRUPT_AGAIN:
                interrupted, last_interrupt = interrupted or current, current
                with suppress(ProcessLookupError):  # KeyboardInterrupt in the code, a signal to its children
                    os.killpg(self.command.process.pid, signal.SIGINT)
            if interrupted and current - interrupted > _MERCY:
                self.command.end(f"stopped after {seconds:g} s (timeout)")
                cell.ending = "killed"
                break
        if cell.replied is not None and not cell.idle:
            self.command.end("stopped because its output was too long or came too fast; write it to a file")
            cell.ending = "killed"
        elif interrupted and cell.ending == "raised":
            cell.ending = "interrupted"
        cell.seconds = time.monotonic() - began
        return cell

    def has_ended(self) -> bool:
        return self.command.process.poll() is not None

    def last_words(self) -> str:
        """How the kernel ended, and the end of its log."""
        self.command.wait(2.0)
        log = self.command.file.read_bytes()[-4 * _LOG_TAIL :].decode("utf-8", "replace")
        shown = "\n".join(map(render_line, log.strip()[-_LOG_TAIL:].split("\n")))
        return f"{self.command.how()}." + (f"\n{fence(shown, 'log')}" if shown else "")

    def close(self) -> None:
        """End the kernel, and remove its files."""
        self._cleanup.close()
        if not self.command.has_ended():
            self.command.end()
        for file in (self.command.file, self.command.file.with_suffix(".why")):
            file.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def withheld_inodes(runner: CommandRunner) -> dict[str, int]:
    """Return the inode of each file that is hidden from models. A different inode later means that the file was
    replaced, which removes the mount that hides it."""
    inodes = {}
    for path in runner.gate.hidden.withheld():
        with suppress(OSError):
            inodes[path] = os.lstat(f"{runner.top}/{path}").st_ino
    return inodes
