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
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from repoagent.agent.approvals.policy import May
from repoagent.agent.exec.command_runner import CommandRunner
from repoagent.agent.exec.output import drawn
from repoagent.agent.exec.process import Command, Job
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.llm.model import fence

if TYPE_CHECKING:
    import zmq

LARGEST = 32 * 1024 * 1024  # bytes of one message; a longer one is not taken
_AT_ONCE = 64  # messages that are taken before the caller looks at the clock again
_SHELL, _IOPUB, _STDIN, _CONTROL, _HEARTBEAT = 1, 2, 3, 4, 5
_PREFIX = "k"  # the sockets are k-1, k-2, ...
_LONGEST = 90  # bytes of a socket's path: the system takes about 107, 103 on macOS
CONNECTION = "connection.json"


@dataclass(frozen=True)
class Message:
    """What a kernel says. `parent` is the id of what it is about; `public` tells what it announces from an answer."""

    kind: str
    parent: str
    content: Mapping[str, Any] = field(default_factory=dict)
    public: bool = False


def connection(folder: Path) -> str:
    """Write the file by which a kernel that is started in `folder` knows where to listen, and return the key of its
    messages. Raises OSError."""
    key = secrets.token_hex(32)
    names = {"shell": _SHELL, "iopub": _IOPUB, "stdin": _STDIN, "control": _CONTROL, "hb": _HEARTBEAT}
    facts = {
        "transport": "ipc",
        "ip": _PREFIX,
        "key": key,
        "signature_scheme": "hmac-sha256",
        **{f"{name}_port": number for name, number in names.items()},
    }
    file = folder / CONNECTION
    file.touch(mode=0o600)
    file.write_text(json.dumps(facts), encoding="utf-8")
    return key


class Wire:
    """The near end of a kernel's sockets."""

    def __init__(self, folder: Path, key: str) -> None:
        import zmq
        from jupyter_client.session import Session

        self._short: tempfile.TemporaryDirectory[str] | None = None
        self._session = Session(key=key.encode(), username="repoagent")
        self._context = zmq.Context()
        self._folder = self._reachable(folder)
        self._shell = self._connected(zmq.DEALER, _SHELL)
        self._iopub: zmq.Socket[bytes] | None = None
        self.listen()

    def listen(self) -> None:
        """Subscribe to the output of the kernel; again after a message above the size limit closed the socket."""
        import zmq

        if self._iopub is not None:
            self._iopub.close()
        self._iopub = self._connected(zmq.SUB, _IOPUB)
        self._iopub.setsockopt(zmq.SUBSCRIBE, b"")

    def _connected(self, kind: int, number: int) -> zmq.Socket[bytes]:
        import zmq

        socket = self._context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, LARGEST)
        socket.setsockopt(zmq.RECONNECT_IVL, 20)
        socket.connect(f"ipc://{self._folder}/{_PREFIX}-{number}")
        return socket

    def ask(self, kind: str, content: Mapping[str, object]) -> str:
        """Send a request; its id."""
        sent = self._session.send(self._shell, kind, dict(content))
        return str(sent["header"]["msg_id"]) if sent else ""

    def messages(self, seconds: float) -> Iterator[Message]:
        """Messages that arrive within `seconds`, at most a few at once. Invalid ones are skipped."""
        import zmq

        poller = zmq.Poller()
        sockets = [socket for socket in (self._iopub, self._shell) if socket is not None]
        for socket in sockets:
            poller.register(socket, zmq.POLLIN)
        ready = dict(poller.poll(int(seconds * 1000)))
        for socket in sockets:
            for _ in range(_AT_ONCE if socket in ready else 0):
                try:
                    frames = socket.recv_multipart(zmq.NOBLOCK, copy=True)
                except zmq.Again:
                    break
                message = self._read(frames, public=socket is self._iopub)
                if message is not None:
                    yield message

    def close(self) -> None:
        self._context.destroy(linger=0)
        if self._short is not None:
            self._short.cleanup()

    def _read(self, frames: list[bytes], *, public: bool) -> Message | None:
        try:
            _, parts = self._session.feed_identities(frames)
            read = self._session.deserialize(parts)
            kind, parent, content = read["header"]["msg_type"], read["parent_header"], read["content"]
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
            return None  # no message, or none that is signed
        if not (isinstance(kind, str) and isinstance(parent, dict) and isinstance(content, dict)):
            return None
        return Message(kind, str(parent.get("msg_id", "")), content, public)

    def _reachable(self, folder: Path) -> Path:
        """A path of `folder` that is short enough for a socket in it."""
        if len(str(folder).encode()) <= _LONGEST:
            return folder
        self._short = tempfile.TemporaryDirectory(prefix="repoagent-")
        link = Path(self._short.name) / "k"
        link.symlink_to(folder.absolute(), target_is_directory=True)
        return link


START = 60.0  # seconds that a kernel has to answer for the first time
_ASK_AGAIN = 0.25
_LOG = 1024 * 1024  # bytes of what it prints outside its cells
_LOG_TAIL = 1_000  # characters of its end that are shown when the kernel has died


@dataclass
class Kernel:
    """One that runs, or has run. `version` is that of its Python, as it says; `withheld`: the files that it does not
    see, which are those of its beginning; None where it may see all."""

    command: Command
    wire: Wire
    folder: Path
    version: str = ""
    withheld: Mapping[str, int] | None = None

    def interrupt(self) -> None:
        """What ^C does at a terminal: KeyboardInterrupt in the code, and a signal to what it has started."""
        try:
            os.killpg(self.command.process.pid, signal.SIGINT)
        except ProcessLookupError:
            pass

    def has_ended(self) -> bool:
        return self.command.process.poll() is not None

    def listen_again(self) -> None:
        """Take up what it announces where a message that was too long has ended that. Raises UsageError."""
        self.wire.listen()
        _await_reply(self, START)

    def last_words(self) -> str:
        """How it ended, and the end of what it printed to say why."""
        self.command.wait(2.0)
        tail = (
            self.command.file.read_bytes()[-4 * _LOG_TAIL :].decode("utf-8", "replace").strip()[-_LOG_TAIL:]
        )
        shown = "\n".join(map(drawn, tail.split("\n")))
        return f"{self.command.how()}." + (f"\n{fence(shown, 'log')}" if shown else "")

    def close(self) -> None:
        """End it, and take away its files."""
        self.wire.close()
        if not self.command.has_ended():
            self.command.end()
        for file in (self.command.file, self.command.file.with_suffix(".why")):
            file.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def start_kernel(runner: CommandRunner, python: str, scratch: Path, seconds: float) -> Kernel:
    """Start a kernel and wait, for at most `seconds`, until it answers. Raises UsageError when it does not."""
    try:
        runner.folder.mkdir(parents=True, exist_ok=True)
        scratch.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="kernel-", dir=scratch))
        key = connection(folder)
        text = (files("repoagent.agent") / "kernel_boot.py").read_text(encoding="utf-8")
        variables = {
            "IPYTHONDIR": str(
                folder / "ipython"
            ),  # without the profile of the user, and what it runs at each start
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "JUPYTER_NO_CONFIG": "1",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }
        argv = [python, "-c", text, CONNECTION, str(runner.top)]
        may: May = "shown" if runner.gate.mode == "auto" else "all"
        withheld = withheld_inodes(runner) if may != "all" else None
        log = runner.folder / f".{folder.name}.log"  # where what runs in the kernel cannot write
        command = runner.start(Job("python kernel", folder, may=may), argv, log, _LOG, variables)
    except OSError as error:
        raise UsageError(f"could not start the Python kernel: {error}") from error
    kernel = Kernel(command, Wire(folder, key), folder, withheld=withheld)
    try:
        kernel.version = _await_reply(kernel, seconds)
    except BaseException:
        kernel.close()
        raise
    return kernel


def withheld_inodes(runner: CommandRunner) -> dict[str, int]:
    """The files that no model is to see, and which file each is: what covers one goes when another replaces it."""
    inodes = {}
    for path in runner.gate.withheld():
        with suppress(OSError):
            inodes[path] = os.lstat(f"{runner.top}/{path}").st_ino
    return inodes


def _await_reply(kernel: Kernel, seconds: float) -> str:
    """Wait for an answer, and until what it announces is heard too; the version of its Python."""
    began, requested = time.monotonic(), 0.0
    version, heard = "", False
    while not (version and heard):
        if kernel.has_ended():
            raise UsageError(f"could not start the Python kernel: {kernel.last_words()}")
        current = time.monotonic()
        if current - began > seconds:
            raise UsageError(f"the Python kernel did not answer within {seconds:g} s.")
        if current - requested > _ASK_AGAIN:
            kernel.wire.ask("kernel_info_request", {})
            requested = current
        for message in kernel.wire.messages(0.05):
            heard = heard or message.public
            if message.kind == "kernel_info_reply":
                language = message.content.get("language_info")
                number = language.get("version") if isinstance(language, dict) else None
                version = drawn(str(number or "?").partition("\n")[0])[:20]
    return version


MERCY = 5.0  # seconds that code has to heed an interrupt
_LINGER = 2.0  # seconds that the rest of the output is waited for when the answer has come
_AGAIN = 1.0  # seconds between two interrupts: one is lost when the code has not begun
_LOOK = 0.1
_LAST = 256 * 1024  # bytes of an output that is too long which are left for the error at its end

Ending = Literal["done", "raised", "interrupted", "killed", "died"]


@dataclass(frozen=True)
class Cell:
    """What came of it. error: the name of the exception. seconds: on the clock. lost: not all of its output came."""

    ending: Ending
    seconds: float
    error: str = ""
    lost: bool = False


@dataclass
class _Course:
    """What is known of a cell while it runs."""

    request: str
    status: str = ""
    error: str = ""
    idle: bool = False
    replied: float | None = None


class Output:
    """The file with what a cell prints; at most `keep` bytes of it."""

    def __init__(self, file: Path, keep: int) -> None:
        self._file = file
        self._left = keep
        self._spare = _LAST
        self._skipped = 0
        self.trouble = ""

    def __enter__(self) -> Output:
        self._stream: BinaryIO = self._file.open("ab", buffering=0)
        self._at_start = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._report_skipped()
        self._stream.close()

    def add(self, text: str, *, line: bool = False, last: bool = False) -> None:
        """Append `text`. line: on lines of its own. last: also beyond the limit."""
        if line:
            text = ("" if self._at_start else "\n") + text.rstrip("\n") + "\n"
        data = text.encode("utf-8", "backslashreplace")
        if not data:
            return
        room = max(0, self._left)
        if last and len(data) > room:
            self._report_skipped()
            room, self._spare = room + self._spare, max(0, self._spare - len(data))
        self._skipped += len(data) - len(data[:room])
        self._left -= len(data[:room])
        self._write(data[:room])
        self._at_start = text.endswith("\n")

    def _report_skipped(self) -> None:
        if self._skipped:
            self._write(f"\n[… {self._skipped} bytes were not saved …]\n".encode())
            self._skipped = 0

    def _write(self, data: bytes) -> None:
        try:
            self._stream.write(data)
        except OSError as error:  # a full disk: the code goes on, what it prints is lost
            self.trouble = error.strerror or str(error)


def execute(kernel: Kernel, code: str, seconds: float, output: Output) -> Cell:
    """Run `code`, for at most `seconds`; then it is interrupted, and its kernel ended where it does not heed that."""
    began = time.monotonic()
    stopped: float | None = None
    nudged: float | None = None
    course = _Course(
        kernel.wire.ask(
            "execute_request",
            {
                "code": code,
                "silent": False,
                "store_history": True,
                "user_expressions": {},
                "allow_stdin": False,
                "stop_on_error": True,
            },
        )
    )
    while True:
        for message in kernel.wire.messages(_LOOK):
            _handle(message, course, output)
        current = time.monotonic()
        if course.replied is not None and (course.idle or current - course.replied > _LINGER):
            break
        if kernel.has_ended():
            for message in kernel.wire.messages(_LOOK):
                _handle(message, course, output)
            return Cell("died", current - began, course.error)
        if current - began > seconds and (nudged is None or current - nudged > _AGAIN):
            stopped, nudged = stopped or current, current
            kernel.interrupt()
        if stopped is not None and current - stopped > MERCY:
            kernel.command.end(f"stopped after {seconds:g} s (timeout)")
            return Cell("killed", current - began)
    took = time.monotonic() - began
    if stopped is not None and course.status != "ok":
        return Cell("interrupted", took, course.error, not course.idle)
    return Cell("done" if course.status == "ok" else "raised", took, course.error, not course.idle)


def _handle(message: Message, course: _Course, output: Output) -> None:
    content, ours = message.content, message.parent == course.request
    if message.kind == "stream":  # also what a thread of an earlier cell prints now
        output.add(_text(content, "text"))
    elif not ours:
        return
    elif message.kind in {"execute_result", "display_data"}:
        output.add(_plain(content), line=True, last=True)
    elif message.kind == "error":
        trace = content.get("traceback")
        lines = [str(line) for line in trace] if isinstance(trace, list) else []
        course.error = _text(content, "ename")[:100]
        output.add("\n".join(lines) or _text(content, "evalue"), line=True, last=True)
    elif message.kind == "status" and message.public:
        course.idle = course.idle or content.get("execution_state") == "idle"
    elif message.kind == "execute_reply" and course.replied is None:
        course.replied = time.monotonic()
        course.status = _text(content, "status")
        course.error = course.error or _text(content, "ename")[:100]
        payload = content.get("payload")
        for page in payload if isinstance(payload, list) else []:  # what `name?` shows
            if isinstance(page, dict) and page.get("source") == "page":
                output.add(_plain(page), line=True, last=True)


def _plain(content: Mapping[str, object]) -> str:
    """The text of a result; of one that has none, which kinds it has."""
    data = content.get("data")
    if not isinstance(data, dict):
        return ""
    if isinstance(text := data.get("text/plain"), str):
        return text
    return f"({', '.join(map(str, data))})"[:200]


def _text(content: Mapping[str, object], key: str) -> str:
    value = content.get(key)
    return value if isinstance(value, str) else ""
