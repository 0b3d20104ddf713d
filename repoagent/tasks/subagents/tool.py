"""The tools `delegate` and `wait`: run sub-agents, and merge their changes into the run's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest
from repoagent.agent.state import Needs, Tool
from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused, UsageError
from repoagent.llm.conversation import read
from repoagent.llm.model import Usage, fence
from repoagent.llm.open_model import AbsentModel
from repoagent.llm.usage import Limits, cost_text
from repoagent.storage.atomic import sweep
from repoagent.storage.locks import locked
from repoagent.storage.secrets import mask
from repoagent.tasks.changes.change_set import open_change_set
from repoagent.tasks.changes.snapshot import named
from repoagent.tasks.run_context import RunContext, RunRequest
from repoagent.tasks.runs.directory import LONGEST, Record, RunDirectory, names_of_folders, new_name
from repoagent.tasks.runs.list import Run, read_run
from repoagent.tasks.subagents.process import Subagent, read_spec, start, write_spec
from repoagent.tasks.subagents.types import AgentType, narrowed

AT_ONCE = 6
MOST = 30  # sub-agents of one run
# seconds for a sub-agent to end after its parent was killed: it checks once a second, and may be writing
_WAIT = 15.0
_ENDS = {
    "done": "finished",
    "answered": "answered",
    "unfinished": "left its edit incomplete",
    "limit": "reached a limit",
    "rejected": "declined",
}


def merge_changes(context: RunContext, count: Callable[[Record], None]) -> str:
    """After a kill: merge the changes of sub-agents, and return a report for the model. `count` gets the record of each
    sub-agent whose result is not in the conversation yet."""
    texts = []
    conversation = "\n".join(turn.text for turn in context.state.turns if turn.role == "observation")
    for name in sorted(names_of_folders(context.layout)):
        run_dir = RunDirectory(context.layout, name)
        sweep(run_dir.folder)  # it may have been killed while it started
        try:
            parent = read_spec(run_dir)[0].parent if run_dir.subagent.is_file() else ""
        except (Refused, UsageError) as error:
            context.ui.say(f"warning: {error}")
            continue
        if parent != context.run_dir.name:
            continue
        try:
            with locked(run_dir.lock, timeout=_WAIT, what=f"the run {name}"):
                changed = _take_over(context, run_dir)
        except Busy:
            stop = f"stop it with `repoagent runs stop {name}`"
            context.ui.say(f"warning: the sub-agent {name} is still running; {stop}")
            continue
        run = read_run(run_dir)  # its lock is free: it has ended
        record = run.record
        if _id_of(name) not in conversation and record.process_started:
            count(record)
            if run.state in ("done", "answered"):
                answer = record.text
                if len(answer) >= LONGEST and (full := read(run_dir.conversation)) and full.turns:
                    answer = full.turns[-1].text
                texts.append(_result(run, answer, ok=True))
            else:
                texts.append(f"A sub-agent was ended {_id_of(name)}, {_usage_text(record)}.")
        if changed:
            names = ", ".join(changed)
            texts.append(f"A sub-agent that was ended had changed {names}: now part of your change.")
    return "\n".join(texts)


def _take_over(context: RunContext, run_dir: RunDirectory) -> list[str]:
    """Move the changes of a sub-agent that has ended to the run's; returns their names."""
    for folder in run_dir.folders:  # it may have been killed
        sweep(folder)
    change_set, child_change_set = context.change_set, open_change_set(context.worktree, run_dir.changes)
    changes = child_change_set.present()
    if not changes and not child_change_set.candidates:
        return []
    known = {(change.name, change.after) for change in change_set.changes}  # merged before a kill
    change_set.overlapping = {**change_set.overlapping, **child_change_set.overlapping}
    change_set.wrote([change for change in changes if (change.name, change.after) not in known])
    change_set.add_candidates(child_change_set.candidates)
    child_change_set.drop(
        [change.name for change in (*child_change_set.changes, *child_change_set.candidates)]
    )
    return [change.name for change in changes]


def _id_of(name: str) -> str:
    """The mark of a sub-agent in its parent's conversation, which shows that its result is there."""
    return f"({name})"


def _result(run: Run, text: str, *, ok: bool) -> str:
    """How a sub-agent ended, its usage, and its answer or error, for its parent's conversation."""
    end = _ENDS.get(run.state, "failed")
    head = f"The sub-agent {end} {_id_of(run.name)}, {_usage_text(run.record)}:"
    return f"{head}\n{fence(mask(text).strip(), 'answer')}" if ok else f"{head} {mask(text)[:1000]}"


def _usage_text(record: Record) -> str:
    """For example "3 calls, 12,345 tokens, $0.0210"."""
    calls = f"{record.turns} call{'s' * (record.turns != 1)}, {record.tokens:,} tokens"
    return calls if record.cost is None else f"{calls}, {cost_text(record.cost)}"


@dataclass
class SubagentPool:
    """The sub-agents of a run. `tools` are the names of the run's own tools; `running` has the sub-agents by number."""

    context: RunContext
    types: Mapping[str, AgentType]
    tools: frozenset[str]
    model: str
    running: dict[str, Subagent] = field(default_factory=dict)
    count: int = 0

    def notices(self) -> list[str]:
        """The results of background sub-agents since the last call."""
        texts = []
        for number, subagent in list(self.running.items()):
            if subagent.process.poll() is not None:
                subagent.listen(self.context.ui.approve)
                texts.append(f"The sub-agent {number} has ended.\n{self._collect(number).text}")
        return texts

    def close(self) -> None:
        """Terminate all sub-agents that are still running."""
        for subagent in self.running.values():
            subagent.end()
        self.running.clear()

    def delegate(self, action: Action) -> Observation:
        """Start a sub-agent, and wait for its answer unless it runs in the background. Raises UsageError for an invalid
        action."""
        context, request, task = self.context, self.context.request, action.body.strip()
        type_ = self.types.get(name := action.args.get("kind", "explore").strip())
        if type_ is None:
            raise UsageError(f"unknown kind {name}: choose one of {', '.join(sorted(self.types))}")
        if not task:
            raise UsageError('no task for the sub-agent: use <delegate kind="explore">question</delegate>')
        if len(self.running) >= AT_ONCE or self.count >= MOST:
            raise UsageError(f"at most {AT_ONCE} sub-agents run at once, and {MOST} in a run")
        verdict = context.gate.decide(ApprovalRequest("delegate", f"{type_.name}: {task[:500]}"))
        if not verdict.allowed:
            return Observation("delegate", f"The sub-agent was not started: {verdict.reason}", ok=False)
        mode = "read-only" if request.plan_only else context.gate.mode
        meter = context.model_setup.meter
        limits = meter.limits
        left = Limits(
            None if limits.turns is None else max(1, limits.turns - meter.attempts),
            None if limits.tokens is None else max(0, limits.tokens - meter.usage.total),
            None if limits.cost is None or meter.cost is None else max(0.0, limits.cost - meter.cost),
            seconds=meter.seconds_left,
        )
        child = narrowed(type_, self.tools - {"delegate"}, mode, left)
        model = child.model or self.model
        if model == AbsentModel.spec:
            raise UsageError("a sub-agent needs a model, and none is configured")
        self.count += 1
        run_dir = RunDirectory(context.layout, new_name("run"))
        child_request = RunRequest(
            mask(task), run_dir.name, type_.name, context.run_dir.name, child.mode or mode, tools=child.tools,
            instructions=child.instructions, allow=tuple(rule.pattern for rule in context.gate.allow),
            network=request.network, confine=request.confine,
        )  # fmt: skip
        write_spec(run_dir, child_request, child.limits)
        arguments = ["run", "--child", run_dir.name, "--json-stream", "--model", model]
        number = f"c{self.count}"
        self.running[number] = start(run_dir.name, type_.name, arguments, context.worktree.top)
        context.ui.progress("child", {"child": run_dir.name, "kind": type_.name, "id": number})
        if action.args.get("background", "no").strip().lower() in {"yes", "true", "1", "on"}:
            text = f'It runs in the background as {number}: continue, and use <wait child="{number}"/> for its answer.'
            return Observation("delegate", text, data={"child": run_dir.name, "id": number})
        return self._wait_for(number)

    def needs(self, action: Action) -> Needs:
        """A sub-agent that only reads needs nothing."""
        type_ = self.types.get(action.args.get("kind", "explore").strip())
        return "nothing" if type_ is not None and type_.mode == "read-only" else "writes"

    def wait(self, action: Action) -> Observation:
        """Wait for the answer of a sub-agent in the background. Raises UsageError if there is none of that number."""
        number = action.args.get("child", "").strip()
        if number not in self.running:
            if number in {f"c{n}" for n in range(1, self.count + 1)}:
                raise UsageError(f"the sub-agent {number} has ended; its answer is above")
            names = f": {', '.join(self.running)}" if self.running else "."
            raise UsageError(f"no sub-agent {number} is running{names}")
        return replace(self._wait_for(number), kind="wait")

    def _wait_for(self, number: str) -> Observation:
        subagent = self.running[number]
        try:
            subagent.listen(self.context.ui.approve)
        except BaseException:
            subagent.end()
            del self.running[number]
            raise
        return self._collect(number)

    def _collect(self, number: str) -> Observation:
        """The answer, usage and changes of a sub-agent that has ended."""
        subagent = self.running.pop(number)
        subagent.end()
        run_dir = RunDirectory(self.context.layout, subagent.name)
        last = subagent.last or {}
        if isinstance(counts := last.get("usage"), Mapping):
            names = ("input", "output", "cache_read", "cache_write")
            tokens = {name: int(counts.get(name, 0)) for name in names}
            usage = Usage(**tokens, estimated=bool(counts.get("estimated")))
            price = last["cost"] if isinstance(last.get("cost"), int | float) else None
            self.context.model_setup.meter.add_child(usage, int(counts.get("calls", 0)), price)
        changed = _take_over(self.context, run_dir)
        run = read_run(run_dir)
        record = run.record
        ok = last.get("event") == "end"
        text = str(last.get("text" if ok else "error") or "")
        if not ok and not text:
            errors: Sequence[str] = subagent.errors or ["it ended without an answer"]
            text = record.text or errors[-1]
        text = _result(run, text, ok=ok)
        if changed:
            text += f"\nIt changed {', '.join(map(named, changed))}: now part of your change."
        data: dict[str, object] = {
            "child": subagent.name, "kind": subagent.kind, "files": changed,
            "ended": run.state, "calls": record.turns, "tokens": record.tokens, "cost": record.cost,
        }  # fmt: skip
        return Observation("delegate", text, ok=ok, data=data)


def delegate_tools(subagents: SubagentPool, wait: Tool | None) -> tuple[Tool, ...]:
    """The tool `delegate`, and `wait` for sub-agents and, with the tool `wait` of commands, for these."""

    def perform(kind: str, method: Callable[[Action], Observation], action: Action) -> Observation:
        if kind == "wait" and wait is not None and "child" not in action.args:
            return wait.perform(action)
        try:
            return method(action)
        except UsageError as error:
            return Observation(kind, str(error), ok=False)

    text = (
        '<delegate kind="explore">QUESTION OR TASK</delegate> asks a sub-agent, which sees nothing of this '
        'conversation; background="yes" for several, then <wait child="c1"/>.'
    )
    wait_text = wait.text if wait is not None else '<wait child="c1"/> waits for the answer of a sub-agent.'
    return (
        Tool("delegate", text, partial(perform, "delegate", subagents.delegate), needs=subagents.needs),
        Tool("wait", wait_text, partial(perform, "wait", subagents.wait), needs="nothing"),
    )
