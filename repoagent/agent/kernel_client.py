"""A Jupyter kernel as a child process, and one cell run in it, by Jupyter's messaging protocol (version 5).

The kernel runs in the same sandbox as a command, with sockets in a folder. Its messages are signed with a key that the
code in it can read, so nothing in them is trusted.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from repoagent.agent.approvals.policy import May
from repoagent.agent.exec.command_runner import CommandRunner
from repoagent.agent.exec.output import drawn
from repoagent.agent.exec.process import Command, Job, OutputFile
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.llm.model import fence

if TYPE_CHECKING:
    import zmq

CONNECTION = "connection.json"
LARGEST = 32 * 1024 * 1024  # bytes of one message; a longer one closes its socket
START = 60.0  # seconds until the first answer of a kernel
_BATCH = 64  # messages that are read before the caller looks at the clock again
_SHELL, _IOPUB, _STDIN, _CONTROL, _HEARTBEAT = 1, 2, 3, 4, 5
_PREFIX = "k"  # the sockets are k-1, k-2, ...
_MAX_PATH = 90  # bytes of a socket's path: the system takes about 107, 103 on macOS
_LOG = 1024 * 1024  # bytes of what a kernel prints outside its cells
_LOG_TAIL = 1_000  # characters of its end that are shown when the kernel has died
_ASK_AGAIN = 0.25
_POLL = 0.1
_AFTER_REPLY = 2.0  # seconds that the rest of the output is waited for
_INTERRUPT_AGAIN = 1.0  # an interrupt is lost when the code has not begun
_MERCY = 5.0  # seconds between the first interrupt and the end of the kernel


@dataclass(frozen=True)
class Message:
    """A message of a kernel. `parent` is the id of the request; `public`: it was published, and is not a reply."""

    kind: str
    parent: str
    content: Mapping[str, Any] = field(default_factory=dict)
    public: bool = False


class Wire:
    """The client's end of the sockets of the kernel in `folder`."""

    def __init__(self, folder: Path, key: str) -> None:
        import zmq
        from jupyter_client.session import Session

        self._session = Session(key=key.encode(), username="repoagent")
        self._context = zmq.Context()
        self._link: tempfile.TemporaryDirectory[str] | None = None
        self._folder = folder
        if len(str(folder).encode()) > _MAX_PATH:
            self._link = tempfile.TemporaryDirectory(prefix="repoagent-")
            self._folder = Path(self._link.name) / "k"
            self._folder.symlink_to(folder.absolute(), target_is_directory=True)
        self._shell = self._connect(zmq.DEALER, _SHELL)
        self._iopub = self._connect(zmq.SUB, _IOPUB)

    def _connect(self, kind: int, number: int) -> zmq.Socket[bytes]:
        import zmq

        socket = self._context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, LARGEST)
        socket.setsockopt(zmq.RECONNECT_IVL, 20)
        socket.connect(f"ipc://{self._folder}/{_PREFIX}-{number}")
        if kind == zmq.SUB:
            socket.setsockopt(zmq.SUBSCRIBE, b"")
        return socket

    def subscribe_again(self) -> None:
        """Reconnect to the output of the kernel, after a message above the size limit closed the socket."""
        import zmq

        self._iopub.close()
        self._iopub = self._connect(zmq.SUB, _IOPUB)

    def send(self, kind: str, content: Mapping[str, object]) -> str:
        """Send a request and return its id."""
        sent = self._session.send(self._shell, kind, dict(content))
        return str(sent["header"]["msg_id"]) if sent else ""

    def messages(self, seconds: float) -> Iterator[Message]:
        """Messages that arrive within `seconds`, at most a few at once. Invalid and unsigned ones are skipped."""
        import zmq

        poller = zmq.Poller()
        for socket in (self._iopub, self._shell):
            poller.register(socket, zmq.POLLIN)
        ready = dict(poller.poll(int(seconds * 1000)))
        for socket in (self._iopub, self._shell):
            for _ in range(_BATCH if socket in ready else 0):
                try:
                    frames = socket.recv_multipart(zmq.NOBLOCK, copy=True)
                except zmq.Again:
                    break
                try:
                    _, parts = self._session.feed_identities(frames)
                    message = self._session.deserialize(parts)
                    kind, content = message["header"]["msg_type"], message["content"]
                    parent = message["parent_header"]
                except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
                    continue
                if isinstance(kind, str) and isinstance(parent, dict) and isinstance(content, dict):
                    yield Message(kind, str(parent.get("msg_id", "")), content, socket is self._iopub)

    def close(self) -> None:
        self._context.destroy(linger=0)
        if self._link is not None:
            self._link.cleanup()


@dataclass
class Kernel:
    """A running or ended kernel. `version` is that of its Python; `withheld`: the files that were hidden from it at its
    start, None if it may see all."""

    command: Command
    wire: Wire
    folder: Path
    version: str = ""
    withheld: Mapping[str, int] | None = None

    def has_ended(self) -> bool:
        return self.command.process.poll() is not None

    def subscribe_again(self) -> None:
        """Read its output again after a message that was too long. Raises UsageError."""
        self.wire.subscribe_again()
        self.await_reply(START)

    def await_reply(self, seconds: float) -> str:
        """Wait until it answers and publishes, and return the version of its Python. Raises UsageError."""
        began, requested = time.monotonic(), 0.0
        version, published = "", False
        while not (version and published):
            if self.has_ended():
                raise UsageError(f"could not start the Python kernel: {self.last_words()}")
            current = time.monotonic()
            if current - began > seconds:
                raise UsageError(f"the Python kernel did not answer within {seconds:g} s.")
            if current - requested > _ASK_AGAIN:
                self.wire.send("kernel_info_request", {})
                requested = current
            for message in self.wire.messages(0.05):
                published = published or message.public
                if message.kind == "kernel_info_reply":
                    language = message.content.get("language_info")
                    number = language.get("version") if isinstance(language, dict) else None
                    version = drawn(str(number or "?").partition("\n")[0])[:20]
        return version

    def last_words(self) -> str:
        """How it ended, and the end of its log."""
        self.command.wait(2.0)
        log = self.command.file.read_bytes()[-4 * _LOG_TAIL :].decode("utf-8", "replace")
        shown = "\n".join(map(drawn, log.strip()[-_LOG_TAIL:].split("\n")))
        return f"{self.command.how()}." + (f"\n{fence(shown, 'log')}" if shown else "")

    def close(self) -> None:
        """End it, and remove its files."""
        self.wire.close()
        if not self.command.has_ended():
            self.command.end()
        for file in (self.command.file, self.command.file.with_suffix(".why")):
            file.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def start_kernel(runner: CommandRunner, python: str, scratch: Path, seconds: float) -> Kernel:
    """Start a kernel and wait, for at most `seconds`, until it answers. Raises UsageError when it does not."""
    key = secrets.token_hex(32)
    connection = {
        "transport": "ipc", "ip": _PREFIX, "key": key, "signature_scheme": "hmac-sha256",
        "shell_port": _SHELL, "iopub_port": _IOPUB, "stdin_port": _STDIN, "control_port": _CONTROL,
        "hb_port": _HEARTBEAT,
    }  # fmt: skip
    try:
        runner.folder.mkdir(parents=True, exist_ok=True)
        scratch.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="kernel-", dir=scratch))
        file = folder / CONNECTION
        file.touch(mode=0o600)
        file.write_text(json.dumps(connection), encoding="utf-8")
        variables = {
            "IPYTHONDIR": str(folder / "ipython"),  # not the user's profile and its start-up files
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "JUPYTER_NO_CONFIG": "1",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }
        text = (files("repoagent.agent") / "kernel_boot.py").read_text(encoding="utf-8")
        argv = [python, "-c", text, CONNECTION, str(runner.top)]
        may: May = "shown" if runner.gate.mode == "auto" else "all"
        withheld = withheld_inodes(runner) if may != "all" else None
        log = runner.folder / f".{folder.name}.log"  # where the code in the kernel cannot write
        command = runner.start(Job("python kernel", folder, may=may), argv, log, _LOG, variables)
    except OSError as error:
        raise UsageError(f"could not start the Python kernel: {error}") from error
    kernel = Kernel(command, Wire(folder, key), folder, withheld=withheld)
    try:
        kernel.version = kernel.await_reply(seconds)
    except BaseException:
        kernel.close()
        raise
    return kernel


def withheld_inodes(runner: CommandRunner) -> dict[str, int]:
    """The files that are hidden from models, with their inodes: a mount over a file goes when it is replaced."""
    inodes = {}
    for path in runner.gate.withheld():
        with suppress(OSError):
            inodes[path] = os.lstat(f"{runner.top}/{path}").st_ino
    return inodes


@dataclass(frozen=True)
class Cell:
    """The result of a cell. error: the name of the exception. seconds: on the clock. lost: output is missing."""

    ending: Literal["done", "raised", "interrupted", "killed", "died"]
    seconds: float
    error: str = ""
    lost: bool = False


@dataclass
class CellRun:
    """The state of a running cell, and the file for its output."""

    request: str
    output: OutputFile
    status: str = ""
    error: str = ""
    idle: bool = False
    replied: float | None = None
    at_line_start: bool = True

    def handle(self, message: Message) -> None:
        content = message.content
        if message.kind == "stream":  # also of a thread that an earlier cell started
            self._write(_text(content, "text"))
        elif message.parent != self.request:
            return
        elif message.kind in {"execute_result", "display_data"}:
            self._write_lines(_plain(content))
        elif message.kind == "error":
            trace = content.get("traceback")
            lines = [str(line) for line in trace] if isinstance(trace, list) else []
            self.error = _text(content, "ename")[:100]
            self._write_lines("\n".join(lines) or _text(content, "evalue"))
        elif message.kind == "status" and message.public:
            self.idle = self.idle or content.get("execution_state") == "idle"
        elif message.kind == "execute_reply" and self.replied is None:
            self.replied = time.monotonic()
            self.status = _text(content, "status")
            self.error = self.error or _text(content, "ename")[:100]
            payload = content.get("payload")
            for page in payload if isinstance(payload, list) else []:  # what `name?` shows
                if isinstance(page, dict) and page.get("source") == "page":
                    self._write_lines(_plain(page))

    def _write(self, text: str) -> None:
        if text:
            self.output.write(text.encode("utf-8", "backslashreplace"))
            self.at_line_start = text.endswith("\n")

    def _write_lines(self, text: str) -> None:
        self._write(("" if self.at_line_start else "\n") + text.rstrip("\n") + "\n")


def execute(kernel: Kernel, code: str, seconds: float, output: OutputFile) -> Cell:
    """Run `code` for at most `seconds`, then interrupt it, and end its kernel if that does not help."""
    began = time.monotonic()
    interrupted: float | None = None
    last_interrupt = 0.0
    options = {"silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
    request = {"code": code, "stop_on_error": True, **options}
    run = CellRun(kernel.wire.send("execute_request", request), output)
    while True:
        for message in kernel.wire.messages(_POLL):
            run.handle(message)
        current = time.monotonic()
        if run.replied is not None and (run.idle or current - run.replied > _AFTER_REPLY):
            break
        if kernel.has_ended():
            for message in kernel.wire.messages(_POLL):
                run.handle(message)
            return Cell("died", current - began, run.error)
        if current - began > seconds and current - last_interrupt > _INTERRUPT_AGAIN:
            interrupted, last_interrupt = interrupted or current, current
            with suppress(ProcessLookupError):  # KeyboardInterrupt in the code, and a signal to its children
                os.killpg(kernel.command.process.pid, signal.SIGINT)
        if interrupted is not None and current - interrupted > _MERCY:
            kernel.command.end(f"stopped after {seconds:g} s (timeout)")
            return Cell("killed", current - began)
    ending: Literal["done", "raised", "interrupted"] = "done" if run.status == "ok" else "raised"
    if interrupted is not None and ending == "raised":
        ending = "interrupted"
    return Cell(ending, time.monotonic() - began, run.error, not run.idle)


def _plain(content: Mapping[str, object]) -> str:
    """The text of a result; of one without text, its types."""
    data = content.get("data")
    if not isinstance(data, dict):
        return ""
    if isinstance(text := data.get("text/plain"), str):
        return text
    return f"({', '.join(map(str, data))})"[:200]


def _text(content: Mapping[str, object], key: str) -> str:
    value = content.get(key)
    return value if isinstance(value, str) else ""
