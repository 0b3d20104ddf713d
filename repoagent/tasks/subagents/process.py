"""A sub-agent as a process: its order (`child.json`), its events, and its questions, which its parent passes on."""

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
from dataclasses import field
from pathlib import Path
from typing import Any

from repoagent.agent.approvals.policy import MODES, Asked, Mode, Verdict
from repoagent.dataclass import dataclass
from repoagent.errors import Refused, UsageError
from repoagent.git.process import uninterrupted
from repoagent.history.index.index import ITSELF
from repoagent.storage import jsonl
from repoagent.tasks.runs.directory import RunDirectory
from repoagent.tasks.subagents.types import Budget

GRACE = 10.0  # seconds that a child has to end when it is told to
LONGEST = 8 << 20  # characters of an event
_KINDS = {"command", "python", "browse", "tool", "delegate"}

Event = dict[str, Any]


@dataclass
class Child:
    """One child at work. `last` is the event that it ended with, None as long as it has not."""

    name: str
    kind: str
    process: subprocess.Popen[str]
    events: queue.Queue[Event | None] = field(default_factory=queue.Queue)
    last: Event | None = None
    ended: bool = False
    errors: list[str] = field(default_factory=list)

    def listen(self, approve: Callable[[Asked], Verdict], until: Callable[[], bool] = lambda: False) -> bool:
        """Heed what it says until it has ended, or `until` is true; whether it has ended."""
        while not self.ended and not until():
            try:
                event = self.events.get(timeout=0.1)
            except queue.Empty:
                continue
            if event is None:
                self.process.wait()
                self.ended = True
            elif event.get("event") in {"end", "error"}:
                self.last = event
            elif event.get("event") == "ask":
                self._answer(event, approve)
        return self.ended

    def end(self) -> None:
        """Have it end: what it has done so far is kept."""
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
        self.ended = True

    def _answer(self, event: Event, approve: Callable[[Asked], Verdict]) -> None:
        of = str(event.get("of"))
        what = str(event.get("what") or event.get("diff") or ", ".join(event.get("files") or ()))
        asked = Asked(
            of if of in _KINDS else "edit",
            what,
            tuple(map(str, event.get("patterns") or ())),
            f"the sub-agent {self.name} asks" + (f"; {event['why']}" if event.get("why") else ""),
            str(event.get("sandbox") or ""),
            str(event.get("cwd") or ""),
        )
        verdict = approve(asked)
        word = "always" if verdict.keep else "run" if verdict.always else "yes" if verdict.allowed else "no"
        line = json.dumps({"id": event.get("id"), "answer": word, "reason": verdict.reason})
        try:
            if self.process.stdin is not None:
                self.process.stdin.write(line + "\n")
                self.process.stdin.flush()
        except (BrokenPipeError, ValueError):  # it has ended meanwhile, and `listen` sees that
            return


def start(name: str, kind: str, arguments: Sequence[str], top: Path) -> Child:
    """Start this program with `arguments` as the child `name`, in a process group of its own, and listen to it."""
    with uninterrupted():
        process = subprocess.Popen(
            [sys.executable, *ITSELF, *arguments],
            cwd=top,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            env={**os.environ, "REPOAGENT_PARENT": str(os.getpid())},
        )
        child = Child(name, kind, process)
        threading.Thread(target=_read, args=(child,), daemon=True).start()
        threading.Thread(target=_read_errors, args=(child,), daemon=True).start()
    return child


def die_with_parent() -> None:
    """In the child: be told to end when the parent ends, however it does. Where the system can't, look now and then."""
    parent = os.environ.pop("REPOAGENT_PARENT", "")
    if not parent.isdecimal():
        return

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _read(child: Child) -> None:
    try:
        while child.process.stdout is not None and (line := child.process.stdout.readline(LONGEST)):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                child.events.put(event)
    except ValueError:  # it was closed under us
        pass
    finally:
        child.events.put(None)


def _read_errors(child: Child) -> None:
    try:
        while child.process.stderr is not None and (line := child.process.stderr.readline(LONGEST)):
            child.errors.append(line.rstrip())
            del child.errors[:-20]
    except ValueError:
        return


VERSION = 1


@dataclass(frozen=True)
class SubagentSpec:
    """One child: whose it is, what it is, what it is to do and with what. `instructions` are worded for the prompt."""

    parent: str
    kind: str
    prompt: str
    instructions: str
    tools: frozenset[str]
    mode: Mode
    budget: Budget
    allow: tuple[str, ...] = ()
    network: bool = False
    confine: bool = True


def write_order(run_dir: RunDirectory, order: SubagentSpec) -> None:
    """Keep it in the child's home, which is made."""
    budget = order.budget
    value = {
        "parent": order.parent,
        "kind": order.kind,
        "prompt": order.prompt,
        "instructions": order.instructions,
        "tools": sorted(order.tools),
        "mode": order.mode,
        "turns": budget.turns,
        "tokens": budget.tokens,
        "cost": budget.cost,
        "seconds": budget.seconds,
        "allow": list(order.allow),
        "network": order.network,
        "confine": order.confine,
    }
    jsonl.write_document(run_dir.folder / "child.json", value, version=VERSION)


def read_order(run_dir: RunDirectory) -> SubagentSpec:
    """The order of a child. Raises UsageError where there is none, Refused for one that is broken."""
    value = jsonl.read_document(run_dir.folder / "child.json", version=VERSION)
    if value is None:
        raise UsageError(f"{run_dir.name} is not a sub-agent run")
    try:
        return _order(value)
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"the order of the sub-agent {run_dir.name} is malformed: {error}") from error


def _order(value: dict[str, Any]) -> SubagentSpec:
    mode = next(mode for mode in MODES if mode == value["mode"])
    return SubagentSpec(
        str(value["parent"]),
        str(value["kind"]),
        str(value["prompt"]),
        str(value["instructions"]),
        frozenset(map(str, value["tools"])),
        mode,
        Budget(value["turns"], value["tokens"], value["cost"], value["seconds"]),
        tuple(map(str, value["allow"])),
        bool(value["network"]),
        bool(value["confine"]),
    )
