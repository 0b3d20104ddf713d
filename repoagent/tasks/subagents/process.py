"""A sub-agent as a process: its specification (`subagent.json`), its events, and its questions, which the parent
forwards to the user."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import IO, Any

from repoagent.agent.approvals.policy import MODES, ApprovalRequest, Verdict
from repoagent.dataclass import dataclass
from repoagent.errors import Refused, UsageError
from repoagent.git.process import uninterrupted
from repoagent.git.transaction.results import Options
from repoagent.history.index.index import ITSELF
from repoagent.llm.usage import Limits
from repoagent.storage import json_files
from repoagent.tasks.run_context import RunRequest
from repoagent.tasks.runs.directory import RunDirectory

VERSION = 1
GRACE = 10.0  # seconds for a sub-agent to end after SIGTERM
LONGEST = 8 << 20  # characters of an event
_QUESTIONS = {"command", "python", "browse", "tool", "delegate"}
_SPECIFIED = ("parent", "kind", "prompt", "instructions", "tools", "mode", "allow", "network", "confine")

Event = dict[str, Any]
Approve = Callable[[ApprovalRequest], Verdict]


@dataclass
class Subagent:
    """A running sub-agent. `last` is its final event."""

    name: str
    kind: str
    process: subprocess.Popen[str]
    events: queue.Queue[Event | None] = field(default_factory=queue.Queue)
    last: Event | None = None
    errors: list[str] = field(default_factory=list)

    def listen(self, approve: Approve) -> None:
        """Handle its events until it has ended."""
        while True:
            try:
                event = self.events.get(timeout=0.1)
            except queue.Empty:
                continue
            if event is None:
                self.process.wait()
                return
            if event.get("event") in {"end", "error"}:
                self.last = event
            elif event.get("event") == "ask":
                self._answer(event, approve)

    def end(self) -> None:
        """Terminate it; its work so far is kept."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(GRACE)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _answer(self, event: Event, approve: Approve) -> None:
        kind = str(event.get("of"))
        request = ApprovalRequest(
            kind if kind in _QUESTIONS else "edit",
            str(event.get("what") or event.get("diff") or ", ".join(event.get("files") or ())),
            tuple(map(str, event.get("patterns") or ())),
            f"the sub-agent {self.name} asks" + (f"; {event['why']}" if event.get("why") else ""),
            str(event.get("sandbox") or ""),
        )
        verdict = approve(request)
        answer = "always" if verdict.keep else "run" if verdict.always else "yes" if verdict.allowed else "no"
        line = json.dumps({"id": event.get("id"), "answer": answer, "reason": verdict.reason})
        with suppress(BrokenPipeError, ValueError):  # it has ended; `listen` detects that
            if self.process.stdin is not None:
                self.process.stdin.write(line + "\n")
                self.process.stdin.flush()


def start(name: str, kind: str, arguments: Sequence[str], top: Path) -> Subagent:
    """Start repoagent with `arguments` as the sub-agent `name`, in its own process group, and read its events."""
    with uninterrupted():
        process = subprocess.Popen(
            [sys.executable, *ITSELF, *arguments],
            cwd=top, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, encoding="utf-8", errors="replace", start_new_session=True,
            env={**os.environ, "REPOAGENT_PARENT": str(os.getpid())},
        )  # fmt: skip
        subagent = Subagent(name, kind, process)
        for target, stream in ((_read_events, process.stdout), (_read_errors, process.stderr)):
            threading.Thread(target=target, args=(subagent, stream), daemon=True).start()
    return subagent


def die_with_parent() -> None:
    """In the sub-agent: end when the parent ends, even if it was killed."""
    parent = os.environ.pop("REPOAGENT_PARENT", "")
    if not parent.isdecimal():
        return

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _read_events(subagent: Subagent, stream: IO[str]) -> None:
    with suppress(ValueError):  # `end` closed it
        while line := stream.readline(LONGEST):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                subagent.events.put(event)
    subagent.events.put(None)


def _read_errors(subagent: Subagent, stream: IO[str]) -> None:
    with suppress(ValueError):
        while line := stream.readline(LONGEST):
            subagent.errors.append(line.rstrip())
            del subagent.errors[:-20]


def write_spec(run_dir: RunDirectory, request: RunRequest, limits: Limits) -> None:
    """Create the directory of the sub-agent and write its specification there."""
    value = {name: getattr(request, name) for name in _SPECIFIED}
    value |= {name: getattr(limits, name) for name in ("turns", "tokens", "cost", "seconds")}
    value |= {"tools": sorted(request.tools or ()), "allow": list(request.allow)}
    json_files.write_document(run_dir.subagent, value, version=VERSION)


def read_spec(run_dir: RunDirectory) -> tuple[RunRequest, Limits]:
    """Read the specification. Raises UsageError if the run is not a sub-agent, Refused if it is malformed."""
    value = json_files.read_document(run_dir.subagent, version=VERSION)
    if value is None:
        raise UsageError(f"{run_dir.name} is not a sub-agent run")
    try:
        if value["mode"] not in MODES:
            raise ValueError(f"mode {value['mode']}")
        request = RunRequest(
            str(value["prompt"]),
            run_dir.name,
            str(value["kind"]),
            str(value["parent"]),
            value["mode"],
            commit=Options(no_commit=True),
            tools=frozenset(map(str, value["tools"])),
            instructions=str(value["instructions"]),
            allow=tuple(map(str, value["allow"])),
            network=bool(value["network"]),
            confine=bool(value["confine"]),
        )
        limits = {name: value[name] for name in ("turns", "tokens", "cost", "seconds")}
        return request, Limits(**limits)
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"the specification of the sub-agent {run_dir.name} is malformed: {error}") from error
