"""The tools `delegate` and `wait`: run sub-agents, and merge their changes into the run's.

The kind `review` runs the program's own review of the uncommitted change.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import Asked, Mode
from repoagent.agent.state import Needs, Tool
from repoagent.dataclass import dataclass
from repoagent.errors import Busy, RepoagentError, UsageError
from repoagent.history.index.index import ITSELF
from repoagent.llm.conversation import read
from repoagent.llm.model import Usage, fence
from repoagent.llm.registry import AbsentModel
from repoagent.llm.usage import cost_text
from repoagent.storage.atomic import sweep
from repoagent.storage.locks import locked
from repoagent.storage.secrets import mask
from repoagent.tasks.changes.change_set import open_change_set
from repoagent.tasks.changes.detect import named
from repoagent.tasks.context import RunContext
from repoagent.tasks.runs import inbox
from repoagent.tasks.runs.directory import RunDirectory, names_of_folders, new_name
from repoagent.tasks.runs.list import Run, refreshed
from repoagent.tasks.runs.record import LONGEST, Record
from repoagent.tasks.subagents.process import Child, SubagentSpec, read_order, start, write_order
from repoagent.tasks.subagents.types import AgentType, Budget, child_options, instructions_text

_WAIT = 15.0  # seconds for a child to end whose parent was killed: it looks once a second, and may be writing


def take_over(context: RunContext, run_dir: RunDirectory) -> list[str]:
    """Take the changes of the child that lived in `home` over into the run's; their names."""
    for kept in run_dir.folders:  # it may have been killed
        sweep(kept)
    change_set = open_change_set(context.worktree, run_dir.changes)
    changes = change_set.present()
    if not changes and not change_set.candidates:
        return []
    known = {(change.name, change.after) for change in context.change_set.changes}  # a kill came in between
    context.change_set.mixed = {**context.change_set.mixed, **change_set.mixed}
    context.change_set.wrote([change for change in changes if (change.name, change.after) not in known])
    context.change_set.found(change_set.candidates)
    change_set.drop([change.name for change in (*change_set.changes, *change_set.candidates)])
    return [change.name for change in changes]


def known_by(name: str) -> str:
    """What stands with the end of a child in its parent's conversation: by that it is known what was told already."""
    return f"({name})"


ENDED = {
    "done": "finished",
    "answered": "answered",
    "unfinished": "left its edit incomplete",
    "limit": "reached a limit",
    "rejected": "declined",
}
GOOD = ("done", "answered")


def ended(run: Run, text: str, *, ok: bool) -> str:
    """How a child has ended, what it used, and its answer or why it has none: for its parent's conversation."""
    head = f"The sub-agent {ENDED.get(run.state, 'failed')} {known_by(run.name)}, {spent(run.record)}:"
    return f"{head}\n{fence(mask(text).strip(), 'answer')}" if ok else f"{head} {mask(text)[:1000]}"


def spent(record: Record) -> str:
    """What a run has used, in a few words: "3 calls, 12,345 tokens, $0.0210"."""
    calls = f"{record.turns} call{'s' * (record.turns != 1)}, {record.tokens:,} tokens"
    return calls if record.cost is None else f"{calls}, {cost_text(record.cost)}"


def merge_changes(context: RunContext, count: Callable[[Record], None]) -> str:
    """After a kill: take over what children have left, and say so to the model; "" where there is nothing. How a child
    ended is told, and `count` gets the record of what it used, unless the conversation has its result already."""
    said = []
    told = "\n".join(turn.text for turn in context.state.turns if turn.role == "observation")
    for name in sorted(names_of_folders(context.layout)):
        run_dir = RunDirectory(context.layout, name)
        sweep(run_dir.folder)  # of one that was killed as it was born
        if not (run_dir.folder / "child.json").is_file() or not _is_ours(context, run_dir):
            continue
        try:
            with locked(run_dir.lock, timeout=_WAIT, what=f"the run {name}"):
                changed = take_over(context, run_dir)
        except Busy:
            context.ui.say(
                f"warning: the sub-agent {name} is still running; stop it with `repoagent runs stop {name}`"
            )
            continue
        run = refreshed(Run(run_dir, Record(), ""))  # its lock is free: it has ended
        if known_by(name) not in told and run.record.begun:
            count(run.record)
            said.append(
                ended(run, _answer(run), ok=True)
                if run.state in GOOD
                else f"A sub-agent was ended {known_by(name)}, {spent(run.record)}."
            )
        if changed:
            said.append(
                f"A sub-agent that was ended had changed {', '.join(changed)}: now part of your change."
            )
    return "\n".join(said)


def _answer(run: Run) -> str:
    """The last word of a child that was done."""
    if len(run.record.text) < LONGEST:
        return run.record.text
    conversation = read(run.run_dir.conversation)  # which has all of it
    return conversation.turns[-1].text if conversation and conversation.turns else run.record.text


def _is_ours(context: RunContext, run_dir: RunDirectory) -> bool:
    try:
        return read_order(run_dir).parent == context.run_dir.name
    except UsageError:
        return False
    except RepoagentError as error:
        context.ui.say(f"warning: {error}")
        return False


MOST_ROUNDS = 40  # findings


def review(top: str, model: str, budget: Budget, seconds: float | None) -> Observation:
    """Review the work tree against HEAD with `model`, and tell the findings."""
    arguments = ["review", "--worktree", "--json", "--ask", "--model", model]
    if budget.cost is not None:
        arguments += ["--max-cost", str(budget.cost)]
    try:
        done = subprocess.run(
            [sys.executable, *ITSELF, *arguments],
            cwd=top,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return Observation("delegate", f"The review took more than {seconds:g} s and was stopped.", ok=False)
    try:
        report = json.loads(done.stdout)
        findings = list(report["findings"])
    except (ValueError, KeyError, TypeError):
        said = (
            done.stderr.decode("utf-8", "replace").strip() or done.stdout.decode("utf-8", "replace").strip()
        )
        return Observation("delegate", f"The review failed: {said[:500]}", ok=False)
    lines = [_line(finding) for finding in findings[:MOST_ROUNDS]]
    notes = [str(note) for note in report.get("notes") or ()]
    text = fence("\n".join(lines), "findings") if lines else "The review found nothing."
    tokens, cost = report.get("tokens") or 0, report.get("cost")
    price = f", {cost_text(cost)}" if isinstance(cost, (int, float)) else ""
    head = f"The child finished, {tokens:,} tokens{price}:"
    data = {"kind": "review", "findings": len(findings), "ended": "done", "tokens": tokens, "cost": cost}
    return Observation("delegate", "\n".join([head, text, *notes]), data=data)


def _line(finding: dict[str, Any]) -> str:
    place = f"{finding.get('path')}:{finding.get('line') or finding.get('start') or ''}".rstrip(":")
    why = finding.get("why") or finding.get("message") or ""
    return f"{place} [{finding.get('level')}, {finding.get('rule')}] {finding.get('title')}: {why}"


AT_ONCE = 6
MOST = 30  # children of one run
NOT_FOR_CHILDREN = frozenset({"delegate"})


@dataclass
class SubagentPool:
    """The children of a run. `tools` are the names of the parent's."""

    context: RunContext
    kinds: Mapping[str, AgentType]
    tools: frozenset[str]
    model: str
    living: dict[str, Child] = field(default_factory=dict)
    count: int = 0

    def notices(self) -> list[str]:
        """What children in the background have answered since this was last asked."""
        said = []
        for number, child in list(self.living.items()):
            if child.listen(self.context.ui.approve, until=lambda: True) or self._has_ended(child):
                said.append(f"The sub-agent {number} has ended.\n{self._over(number).text}")
        return said

    def close(self) -> None:
        """End all children that are left."""
        for child in self.living.values():
            child.end()
        self.living.clear()

    def delegate(self, action: Action) -> Observation:
        context = self.context
        kind = self.kinds.get(name := action.args.get("kind", "explore").strip())
        if kind is None:
            raise UsageError(f"unknown kind {name}: choose one of {', '.join(sorted(self.kinds))}")
        if not action.body.strip() and kind.name != "review":
            raise UsageError('no task for the sub-agent: use <delegate kind="explore">question</delegate>')
        if len(self.living) >= AT_ONCE or self.count >= MOST:
            raise UsageError(f"at most {AT_ONCE} sub-agents run at once, and {MOST} in a run")
        verdict = context.gate.decide(Asked("delegate", f"{kind.name}: {action.body.strip()[:500]}"))
        if not verdict.allowed:
            return Observation("delegate", f"The sub-agent was not started: {verdict.reason}", ok=False)
        mode: Mode = "read-only" if context.request.plan_only else context.gate.mode
        child = child_options(kind, self.tools - NOT_FOR_CHILDREN, mode, self._left(action))
        model = child.model or self.model
        if model == AbsentModel.spec:
            raise UsageError("a sub-agent needs a model, and none is configured")
        self.count += 1
        if kind.name == "review":
            seen = review(str(context.worktree.top), model, child.budget, child.budget.seconds)
            tokens, cost = seen.data.get("tokens"), seen.data.get("cost")
            if isinstance(tokens, int) and tokens:
                used = Usage(input=tokens, estimated=True)
                context.model_setup.meter.add_child(used, 0, cost if isinstance(cost, (int, float)) else None)
            return seen
        run_dir = RunDirectory(context.layout, new_name("run"))
        order = SubagentSpec(
            context.run_dir.name, kind.name, mask(action.body.strip()), instructions_text(kind),
            child.tools, child.mode, child.budget, tuple(rule.pattern for rule in context.gate.allow),
            context.request.network, context.request.confine,
        )  # fmt: skip
        write_order(run_dir, order)
        started = start(
            run_dir.name,
            kind.name,
            ["run", "--child", run_dir.name, "--json-stream", "--model", model],
            context.worktree.top,
        )
        number = f"c{self.count}"
        self.living[number] = started
        context.ui.progress("child", {"child": run_dir.name, "kind": kind.name, "id": number})
        if action.args.get("background", "no").strip().lower() in {"yes", "true", "1", "on"}:
            return Observation(
                "delegate",
                (
                    f'It runs in the background as {number}: continue, and use <wait child="{number}"/> for its '
                    "answer."
                ),
                data={"child": run_dir.name, "id": number},
            )
        return self._waited(number)

    def needs(self, action: Action) -> Needs:
        """A child that only looks around needs nothing; a review is of the change, so the edits have to be there."""
        kind = self.kinds.get(action.args.get("kind", "explore").strip())
        looks = kind is not None and kind.mode == "read-only" and kind.name != "review"
        return "nothing" if looks else "writes"

    def wait(self, action: Action) -> Observation:
        number = action.args.get("child", "").strip()
        if number not in self.living:
            if number in {f"c{n}" for n in range(1, self.count + 1)}:
                raise UsageError(f"the sub-agent {number} has ended; its answer is above")
            raise UsageError(f"no sub-agent {number} is running" + self._known())
        return replace(self._waited(number), kind="wait")

    def _known(self) -> str:
        return f": {', '.join(self.living)}" if self.living else "."

    def _waited(self, number: str) -> Observation:
        child, meter = self.living[number], self.context.model_setup.meter
        try:
            while not child.listen(self.context.ui.approve, until=self._is_paused):
                began = time.monotonic()
                child.listen(self.context.ui.approve, until=lambda: not self._is_paused())
                meter.started += time.monotonic() - began  # a pause counts for no limit on time
        except BaseException:
            child.end()
            del self.living[number]
            raise
        return self._over(number)

    def _is_paused(self) -> bool:
        return inbox.is_there(self.context.run_dir.pause)

    def _has_ended(self, child: Child) -> bool:
        return child.process.poll() is not None and child.listen(self.context.ui.approve)

    def _over(self, number: str) -> Observation:
        """What a child that has ended leaves: its answer, its usage, its changes."""
        child = self.living.pop(number)
        child.end()
        run_dir = RunDirectory(self.context.layout, child.name)
        last = child.last or {}
        self._count_usage(last)
        changed = take_over(self.context, run_dir)
        run = refreshed(Run(run_dir, Record(name=child.name), ""))
        record = run.record
        data: dict[str, object] = {
            "child": child.name, "kind": child.kind, "files": changed,
            "ended": run.state, "calls": record.turns, "tokens": record.tokens, "cost": record.cost,
        }  # fmt: skip
        ok = last.get("event") == "end"
        text = str(last.get("text" if ok else "error") or "")
        if not ok:
            text = (
                text
                or run.record.text
                or (child.errors[-1] if child.errors else "it ended without an answer")
            )
        return Observation("delegate", _with_files(ended(run, text, ok=ok), changed), ok=ok, data=data)

    def _count_usage(self, last: Mapping[str, object]) -> None:
        used = last.get("usage")
        if not isinstance(used, Mapping):
            return
        meter = self.context.model_setup.meter
        names = ("input", "output", "cache_read", "cache_write")
        tokens = {name: int(used.get(name, 0)) for name in names}
        usage = Usage(**tokens, estimated=bool(used.get("estimated")))
        cost = last.get("cost")
        meter.add_child(usage, int(used.get("calls", 0)), cost if isinstance(cost, (int, float)) else None)

    def _left(self, action: Action) -> Budget:
        """What of the parent's budget the child may use: no more than is left, and than the action says."""
        meter = self.context.model_setup.meter
        limits = meter.limits
        left = Budget(
            None if limits.turns is None else max(1, limits.turns - meter.attempts),
            None if limits.tokens is None else max(0, limits.tokens - meter.usage.total),
            None if limits.cost is None or meter.cost is None else max(0.0, limits.cost - meter.cost),
            meter.seconds_left,
        )
        if asked := action.args.get("max_turns", "").strip():
            if not asked.isdecimal() or int(asked) < 1:
                raise UsageError(f'max_turns="{asked}": use a whole number')
            left = replace(left, turns=min(int(asked), left.turns or int(asked)))
        return left


def delegate_tools(subagents: SubagentPool, wait: Tool | None) -> tuple[Tool, ...]:
    """`delegate`, and `wait` (that of commands, where there is one) for children too."""
    text = (
        '<delegate kind="explore">QUESTION OR TASK</delegate> asks a sub-agent, which sees nothing of this '
        'conversation; background="yes" for several, then <wait child="c1"/>.'
    )

    def waiting(action: Action) -> Observation:
        if wait is not None and "child" not in action.args:
            return wait.perform(action)
        return _reporting("wait", lambda: subagents.wait(action))

    said = wait.text if wait is not None else '<wait child="c1"/> waits for the answer of a sub-agent.'
    return (
        Tool(
            "delegate",
            text,
            lambda action: _reporting("delegate", lambda: subagents.delegate(action)),
            needs=subagents.needs,
        ),
        Tool("wait", said, waiting, needs="nothing"),
    )


def _with_files(text: str, changed: list[str]) -> str:
    return (
        f"{text}\nIt changed {', '.join(map(named, changed))}: now part of your change." if changed else text
    )


def _reporting(kind: str, perform: Callable[[], Observation]) -> Observation:
    try:
        return perform()
    except RepoagentError as error:
        if error.exit_code != UsageError.exit_code:
            raise
        return Observation(kind, str(error), ok=False)
