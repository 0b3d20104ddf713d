"""One cell: its code is sent, what it prints and shows is put into a file, and it is ended when it takes too long."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal

from repoagent.agent.kernel.process import Kernel
from repoagent.agent.kernel.wire import Message
from repoagent.dataclass import dataclass

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

    asked: str
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
        self._tell_skipped()
        self._stream.close()

    def add(self, text: str, *, line: bool = False, last: bool = False) -> None:
        """Put `text` behind what is there. line: on lines of its own. last: also where there is no more room."""
        if line:
            text = ("" if self._at_start else "\n") + text.rstrip("\n") + "\n"
        data = text.encode("utf-8", "backslashreplace")
        if not data:
            return
        room = max(0, self._left)
        if last and len(data) > room:
            self._tell_skipped()
            room, self._spare = room + self._spare, max(0, self._spare - len(data))
        self._skipped += len(data) - len(data[:room])
        self._left -= len(data[:room])
        self._write(data[:room])
        self._at_start = text.endswith("\n")

    def _tell_skipped(self) -> None:
        if self._skipped:
            self._write(f"\n[… {self._skipped} bytes were not kept …]\n".encode())
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
            _heed(message, course, output)
        now = time.monotonic()
        if course.replied is not None and (course.idle or now - course.replied > _LINGER):
            break
        if kernel.has_ended():
            for message in kernel.wire.messages(_LOOK):
                _heed(message, course, output)
            return Cell("died", now - began, course.error)
        if now - began > seconds and (nudged is None or now - nudged > _AGAIN):
            stopped, nudged = stopped or now, now
            kernel.interrupt()
        if stopped is not None and now - stopped > MERCY:
            kernel.command.end(f"stopped after {seconds:g} s (time-out)")
            return Cell("killed", now - began)
    took = time.monotonic() - began
    if stopped is not None and course.status != "ok":
        return Cell("interrupted", took, course.error, not course.idle)
    return Cell("done" if course.status == "ok" else "raised", took, course.error, not course.idle)


def _heed(message: Message, course: _Course, output: Output) -> None:
    content, ours = message.content, message.parent == course.asked
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
