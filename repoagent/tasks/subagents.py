"""Subagents: the tools `delegate` and `wait`, which run parts of a task in other processes.

A subagent is a run with a specification (`subagent.json`). It prints its events and questions; the parent forwards the
questions to the user. Its changes become the parent's.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest, Verdict
from repoagent.agent.state import Needs, Tool, report_usage_errors, switched_on
from repoagent.dataclass import dataclass
from repoagent.display_text import plural
from repoagent.errors import Busy, UsageError
from repoagent.git.process import defer_signals
from repoagent.history.index.index import ITSELF
from repoagent.llm.conversation import read_conversation
from repoagent.llm.model import Usage, fence
from repoagent.llm.open_model import AbsentModel
from repoagent.llm.usage import cost_text
from repoagent.storage import json_files
from repoagent.storage.atomic import remove_temporary_files
from repoagent.storage.locks import hold_lock
from repoagent.storage.secrets import mask
from repoagent.tasks.agent_types import AgentType, narrow_type
from repoagent.tasks.changes.change_set import open_change_set, quote_unless_plain
from repoagent.tasks.run_context import RunContext, RunRequest, write_spec
from repoagent.tasks.runs.directory import LONGEST, RunDirectory, RunRecord, names_of_folders, new_name
from repoagent.tasks.runs.list import Run, list_runs, read_run, subagents_of

AT_ONCE = 6
MOST = 30  # subagents of one run
SHARE = 3  # a background subagent gets a third of what is left: the run goes on, and may start others
GRACE = 10.0  # seconds for a subagent to end after SIGTERM
# seconds for a subagent to end after its parent was killed: it checks once a second, and may be writing
_WAIT = 15.0
_QUESTIONS = {"command", "python", "browse", "tool", "delegate"}
_ENDS = {
    "done": "finished",
    "answered": "answered",
    "unfinished": "left its edit incomplete",
    "limit": "reached a limit",
    "rejected": "declined",
}


def die_with_parent() -> None:
    """Make this process end when its parent ends, even if the parent was killed."""
    parent = os.environ.pop("REPOAGENT_PARENT", "")
    if not parent.isdecimal():
        return

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


class Subagent:
    """A subagent: a repoagent process run in `top` with `arguments`, in its own process group. `last` is its final
    event, and `error` the last line of its standard error."""

    def __init__(self, name: str, kind: str, arguments: Sequence[str], top: Path) -> None:
        self.name, self.kind = name, kind
        self.last: dict[str, Any] | None = None
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.error = "it ended without an answer"
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `end`)
        with defer_signals():
            self.process = subprocess.Popen(
                [sys.executable, *ITSELF, *arguments],
                cwd=top, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
                text=True, encoding="utf-8", errors="replace", start_new_session=True,
                env={**os.environ, "REPOAGENT_PARENT": str(os.getpid())},
            )  # fmt: skip
            threading.Thread(target=self._read_events, daemon=True).start()

    def listen(self, approve: Callable[[ApprovalRequest], Verdict]) -> None:
        """Handle the subagent's events until it has ended."""
        while (event := self._events.get()) is not None:
            if event.get("event") in {"end", "error"}:
                self.last = event
            elif event.get("event") == "ask":
                kind, why = str(event.get("of")), event.get("why")
                request = ApprovalRequest(
                    kind if kind in _QUESTIONS else "edit",
                    str(event.get("what") or event.get("diff") or ", ".join(event.get("files") or ())),
                    tuple(map(str, event.get("patterns") or ())),
                    f"the subagent {self.name} asks" + (f"; {why}" if why else ""),
                    str(event.get("sandbox") or ""),
                )
                self._answer(event.get("id"), approve(request))
        self.process.wait()
        self._stderr.seek(0)
        if lines := self._stderr.read().decode("utf-8", "replace").split("\n")[:-1]:
            self.error = lines[-1].rstrip()

    def used(self, record: RunRecord) -> tuple[Usage, float | None, int]:
        """The subagent's usage, cost and number of calls, from its final event, or from `record` if it was killed."""
        last = self.last or {}
        if "usage" not in last:
            return Usage(record.tokens, estimated=True), record.cost, record.turns
        return json_files.decode(Usage, last["usage"]), last["cost"], last["usage"]["calls"]

    def _answer(self, question: object, verdict: Verdict) -> None:
        answer = "always" if verdict.keep else "run" if verdict.always else "yes" if verdict.allowed else "no"
        line = json.dumps({"id": question, "answer": answer, "reason": verdict.reason})
        assert self.process.stdin is not None
        with suppress(BrokenPipeError, ValueError):  # it has ended; `listen` detects that
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(GRACE)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._stderr):
            if stream is not None:
                with suppress(BrokenPipeError):  # an answer that it did not read is still buffered
                    stream.close()

    def _read_events(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # `end` closed it
            for line in self.process.stdout:
                with suppress(ValueError):
                    event = json.loads(line)
                    if isinstance(event, dict):
                        self._events.put(event)
        self._events.put(None)


def merge_changes(context: RunContext) -> str:
    """Merge the changes of subagents after a kill, and return a report for the model."""
    texts = []
    for name in names_of_folders(context.layout):
        remove_temporary_files(
            RunDirectory(context.layout, name).folder
        )  # of one that was killed as it started
    conversation = "\n".join(turn.text for turn in context.state.turns if turn.role == "observation")
    for run in subagents_of(read_run(context.run_dir), list_runs(context.layout, warn=context.ui.say)):
        try:
            with hold_lock(run.run_dir.lock, timeout=_WAIT, label=f"run {run.name}"):
                changed = _take_over(context, run.run_dir)
        except Busy:
            stop = f"stop it with `repoagent runs stop {run.name}`"
            context.ui.say(f"warning: subagent {run.name} is still running; {stop}")
            continue
        run = read_run(run.run_dir)  # its lock is free: it has ended
        if _id_of(run.name) not in conversation:
            if run.state in ("done", "answered"):
                answer = run.record.text
                if len(answer) >= LONGEST and (full := read_conversation(run.run_dir.conversation)):
                    answer = full.turns[-1].text if full.turns else answer
                texts.append(_result(run, answer, ok=True))
            else:
                texts.append(f"The subagent {_id_of(run.name)} did not finish: {_usage_text(run.record)}.")
        if changed:
            texts.append(f"A subagent had changed {', '.join(changed)}: that is now part of your change.")
    return "\n".join(texts)


def _take_over(context: RunContext, run_dir: RunDirectory) -> list[str]:
    """Merge the changes of an ended subagent into the run's; returns their names."""
    for folder in run_dir.folders:  # it may have been killed
        remove_temporary_files(folder)
    change_set, of_child = context.change_set, open_change_set(context.worktree, run_dir.changes)
    changes = of_child.present()
    if not changes and not of_child.candidates:
        return []
    known = {(change.name, change.after) for change in change_set.changes}  # merged before a kill
    change_set.overlapping |= of_child.overlapping
    new = [change for change in changes if (change.name, change.after) not in known]
    change_set.wrote(new, of_child.accepted.intersection(new))
    context.recall_accepted()
    change_set.add_candidates(of_child.candidates)
    of_child.drop([change.name for change in (*of_child.changes, *of_child.candidates)])
    return [change.name for change in changes]


def _id_of(name: str) -> str:
    """The mark that shows that the parent's conversation has its result."""
    return f"({name})"


def _result(run: Run, text: str, *, ok: bool) -> str:
    head = f"The subagent {_ENDS.get(run.state, 'failed')} {_id_of(run.name)}, {_usage_text(run.record)}:"
    return f"{head}\n{fence(mask(text).strip(), 'answer')}" if ok else f"{head} {mask(text)[:1000]}"


def _usage_text(record: RunRecord) -> str:
    """For example "3 calls, 12,345 tokens, $0.0210"."""
    calls = f"{plural(record.turns, 'call')}, {record.tokens:,} tokens"
    return calls if record.cost is None else f"{calls}, {cost_text(record.cost)}"


@dataclass
class SubagentPool:
    """The subagents of a run. `tools` are the names of the run's own tools; `running` maps numbers to subagents."""

    context: RunContext
    types: Mapping[str, AgentType]
    tools: frozenset[str]
    model: str
    running: dict[str, Subagent] = field(default_factory=dict)
    count: int = 0

    def notices(self) -> list[str]:
        """The results of background subagents that have ended since the last call."""
        texts = []
        for number, subagent in list(self.running.items()):
            if subagent.process.poll() is not None:
                texts.append(f"Subagent {number} has ended.\n{self._answer_of(number).text}")
        return texts

    def close(self) -> None:
        for subagent in self.running.values():
            subagent.end()
        meter = self.context.model_setup.meter
        meter.lent.clear()
        for subagent in self.running.values():
            run = read_run(RunDirectory(self.context.layout, subagent.name))
            meter.count(*subagent.used(run.record))
        self.running.clear()

    def delegate(self, action: Action) -> Observation:
        """Start a subagent, and wait for its answer unless it runs in the background."""
        context, request, task = self.context, self.context.request, action.body.strip()
        type_ = self.types.get(kind := action.args.get("kind", "explore").strip())
        if type_ is None:
            raise UsageError(f"unknown kind {kind}: choose one of {', '.join(sorted(self.types))}")
        if not task:
            raise UsageError('no task for the subagent: use <delegate kind="explore">question</delegate>')
        if len(self.running) >= AT_ONCE or self.count >= MOST:
            raise UsageError(f"too many subagents: at most {AT_ONCE} at once, and at most {MOST} per run")
        verdict = context.gate.decide(ApprovalRequest("delegate", f"{kind}: {task[:500]}"))
        if not verdict.allowed:
            return Observation("delegate", f"The subagent was not started: {verdict.reason}", ok=False)
        mode = "read-only" if request.plan_only else context.gate.mode
        meter = context.model_setup.meter
        left, background = meter.left, switched_on(action, "background")
        if background:
            divided = {name: getattr(left, name) for name in ("turns", "tokens", "cost")}
            left = replace(left, **{name: n and type(n)(n / SHARE) for name, n in divided.items()})
        child = narrow_type(type_, self.tools - {"delegate"}, mode, left)
        model = child.model or self.model
        if model == AbsentModel.spec:
            raise UsageError("a subagent needs a model, and none is configured")
        self.count += 1
        run_dir = RunDirectory(context.layout, new_name("run"))
        child_request = RunRequest(
            mask(task), run_dir.name, kind, context.run_dir.name, child.mode or mode, tools=child.tools,
            instructions=child.instructions, allow=tuple(rule.pattern for rule in context.gate.allow),
            network=request.network, confine=request.confine,
        )  # fmt: skip
        write_spec(run_dir, child_request, child.limits)
        arguments = ["run", "--child", run_dir.name, "--json-stream", "--model", model]
        number = f"c{self.count}"
        self.running[number] = Subagent(run_dir.name, kind, arguments, context.worktree.top)
        meter.lent[run_dir.name] = child.limits
        context.ui.progress("child", {"child": run_dir.name, "kind": kind, "id": number})
        if background:
            text = f'It is running as {number}: continue, and use <wait child="{number}"/> to get its answer.'
            return Observation("delegate", text, data={"child": run_dir.name, "id": number})
        return self._answer_of(number)

    def needs(self, action: Action) -> Needs:
        """The earlier actions of the reply that must not have failed: "nothing" if the subagent only reads, otherwise
        "writes"."""
        type_ = self.types.get(action.args.get("kind", "explore").strip())
        return "nothing" if type_ is not None and type_.mode == "read-only" else "writes"

    def wait(self, action: Action) -> Observation:
        number = action.args.get("child", "").strip()
        if number in self.running:
            return replace(self._answer_of(number), kind="wait")
        names = f": {', '.join(self.running)}" if self.running else "."
        raise UsageError(f"no subagent {number} is running{names}")

    def _answer_of(self, number: str) -> Observation:
        """Wait for the end of a subagent, and merge its changes."""
        subagent, context = self.running[number], self.context
        try:
            subagent.listen(context.gate.ask)
        finally:  # after ^C it stays in `running`, so that `close` counts its usage
            subagent.end()
        run = read_run(RunDirectory(context.layout, subagent.name))
        record, last = run.record, subagent.last or {}
        meter = context.model_setup.meter
        meter.count(*subagent.used(record))
        del self.running[number], meter.lent[subagent.name]
        changed = _take_over(context, run.run_dir)
        ok = last.get("event") == "end"
        text = str(last.get("text" if ok else "error") or "")
        if not ok and not text:
            text = record.text or subagent.error
        text = _result(run, text, ok=ok)
        if changed:
            text += f"\nIt changed {', '.join(map(quote_unless_plain, changed))}: that is now part of your change."
        data: dict[str, object] = {
            "child": subagent.name, "kind": subagent.kind, "files": changed,
            "ended": run.state, "calls": record.turns, "tokens": record.tokens, "cost": record.cost,
        }  # fmt: skip
        return Observation("delegate", text, ok=ok, data=data)


def delegate_tools(subagents: SubagentPool, wait: Tool | None) -> tuple[Tool, ...]:
    """The tools `delegate` and `wait`. The parameter `wait` is the tool that waits for commands; the new `wait` waits
    for commands and subagents."""

    def wait_for(action: Action) -> Observation:
        if wait is not None and "child" not in action.args:
            return wait.perform(action)
        return subagents.wait(action)

    text = (
        '<delegate kind="explore">QUESTION OR TASK</delegate> asks a subagent, which sees nothing of this '
        'conversation; background="yes" for several, then <wait child="c1"/>.'
    )
    wait_text = wait.text if wait is not None else '<wait child="c1"/> waits for the answer of a subagent.'
    return (
        Tool("delegate", text, report_usage_errors("delegate", subagents.delegate), needs=subagents.needs),
        Tool("wait", wait_text, report_usage_errors("wait", wait_for), needs="nothing"),
    )
