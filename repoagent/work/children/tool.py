"""The action `delegate`: a part of the work for a child, whose answer and usage alone come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace

from repoagent.agent import Action, Observation, Tool
from repoagent.agent.approval import Asked, Mode
from repoagent.agent.tool import Needs
from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError, UsageError
from repoagent.llm import Usage
from repoagent.llm.select import Absent
from repoagent.store.masking import mask
from repoagent.work.children.adopting import ended, take_over
from repoagent.work.children.order import Order, write_order
from repoagent.work.children.process import Child, start
from repoagent.work.children.reviewer import review
from repoagent.work.desk import Desk
from repoagent.work.home import Home, Record, Run, new_name, refreshed, requests
from repoagent.work.kinds import Budget, Kind, instructions_text, narrowed
from repoagent.work.tools.names import named

AT_ONCE = 6
MOST = 30  # children of one run
NOT_FOR_CHILDREN = frozenset({"delegate"})


@dataclass
class Nursery:
    """The children of a run. `tools` are the names of the parent's."""

    desk: Desk
    kinds: Mapping[str, Kind]
    tools: frozenset[str]
    model: str
    living: dict[str, Child] = field(default_factory=dict)
    count: int = 0

    def notices(self) -> list[str]:
        """What children in the background have answered since this was last asked."""
        said = []
        for number, child in list(self.living.items()):
            if child.listen(self.desk.talk.approve, until=lambda: True) or self._has_ended(child):
                said.append(f"The child {number} has ended.\n{self._over(number).text}")
        return said

    def close(self) -> None:
        """End all children that are left."""
        for child in self.living.values():
            child.end()
        self.living.clear()

    def delegate(self, action: Action) -> Observation:
        desk = self.desk
        kind = self.kinds.get(name := action.args.get("kind", "explore").strip())
        if kind is None:
            raise UsageError(f"there is no kind {name}: choose one of {', '.join(sorted(self.kinds))}")
        if not action.body.strip() and kind.name != "review":
            raise UsageError('say what the child is to do: <delegate kind="explore">question</delegate>')
        if len(self.living) >= AT_ONCE or self.count >= MOST:
            raise UsageError(f"at most {AT_ONCE} children work at once, and {MOST} in a run")
        verdict = desk.gate.decide(Asked("delegate", f"{kind.name}: {action.body.strip()[:500]}"))
        if not verdict.allowed:
            return Observation("delegate", f"The child was not started: {verdict.reason}", ok=False)
        mode: Mode = "read-only" if desk.request.plan_only else desk.gate.mode
        child = narrowed(kind, self.tools - NOT_FOR_CHILDREN, mode, self._left(action))
        model = child.model or self.model
        if model == Absent.spec:
            raise UsageError("a child needs a model, and none is configured")
        self.count += 1
        if kind.name == "review":
            seen = review(str(desk.worktree.top), model, child.budget, child.budget.seconds)
            tokens, cost = seen.data.get("tokens"), seen.data.get("cost")
            if isinstance(tokens, int) and tokens:
                used = Usage(input=tokens, estimated=True)
                desk.means.meter.add_child(used, 0, cost if isinstance(cost, (int, float)) else None)
            return seen
        home = Home(desk.layout, new_name("run"))
        order = Order(
            desk.home.name, kind.name, mask(action.body.strip()), instructions_text(kind), child.tools, child.mode,
            child.budget, tuple(rule.pattern for rule in desk.gate.allow), desk.request.network, desk.request.confine,
        )  # fmt: skip
        write_order(home, order)
        started = start(
            home.name,
            kind.name,
            ["run", "--child", home.name, "--json-stream", "--model", model],
            desk.worktree.top,
        )
        number = f"c{self.count}"
        self.living[number] = started
        desk.talk.progress("child", {"child": home.name, "kind": kind.name, "id": number})
        if action.args.get("background", "no").strip().lower() in {"yes", "true", "1", "on"}:
            return Observation(
                "delegate",
                f'It works in the background as {number}: go on, and <wait child="{number}"/> for its answer.',
                data={"child": home.name, "id": number},
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
                raise UsageError(f"the child {number} has ended: what it answered stands further up")
            raise UsageError(f"there is no child {number} at work" + self._known())
        return replace(self._waited(number), kind="wait")

    def _known(self) -> str:
        return f": {', '.join(self.living)}" if self.living else "."

    def _waited(self, number: str) -> Observation:
        child, meter = self.living[number], self.desk.means.meter
        try:
            while not child.listen(self.desk.talk.approve, until=self._is_paused):
                began = time.monotonic()
                child.listen(self.desk.talk.approve, until=lambda: not self._is_paused())
                meter.started += time.monotonic() - began  # a pause counts for no limit on time
        except BaseException:
            child.end()
            del self.living[number]
            raise
        return self._over(number)

    def _is_paused(self) -> bool:
        return requests.is_there(self.desk.home.pause)

    def _has_ended(self, child: Child) -> bool:
        return child.process.poll() is not None and child.listen(self.desk.talk.approve)

    def _over(self, number: str) -> Observation:
        """What a child that has ended leaves: its answer, its usage, its changes."""
        child = self.living.pop(number)
        child.end()
        home = Home(self.desk.layout, child.name)
        last = child.last or {}
        self._count_usage(last)
        changed = take_over(self.desk, home)
        run = refreshed(Run(home, Record(name=child.name), ""))
        record = run.record
        data: dict[str, object] = {
            "child": child.name, "kind": child.kind, "files": changed,
            "ended": run.state, "calls": record.turns, "tokens": record.tokens, "cost": record.cost,
        }  # fmt: skip
        ok = last.get("event") == "end"
        text = str(last.get("text" if ok else "error") or "")
        if not ok:
            text = (
                text or run.record.text or (child.errors[-1] if child.errors else "it ended without a word")
            )
        return Observation("delegate", _with_files(ended(run, text, ok=ok), changed), ok=ok, data=data)

    def _count_usage(self, last: Mapping[str, object]) -> None:
        used = last.get("usage")
        if not isinstance(used, Mapping):
            return
        meter = self.desk.means.meter
        names = ("input", "output", "cache_read", "cache_write")
        tokens = {name: int(used.get(name, 0)) for name in names}
        usage = Usage(**tokens, estimated=bool(used.get("estimated")))
        cost = last.get("cost")
        meter.add_child(usage, int(used.get("calls", 0)), cost if isinstance(cost, (int, float)) else None)

    def _left(self, action: Action) -> Budget:
        """What of the parent's budget the child may use: no more than is left, and than the action says."""
        meter = self.desk.means.meter
        limits = meter.limits
        left = Budget(
            None if limits.turns is None else max(1, limits.turns - meter.attempts),
            None if limits.tokens is None else max(0, limits.tokens - meter.usage.total),
            None if limits.cost is None or meter.cost is None else max(0.0, limits.cost - meter.cost),
            meter.seconds_left,
        )
        if asked := action.args.get("max_turns", "").strip():
            if not asked.isdecimal() or int(asked) < 1:
                raise UsageError(f'max_turns="{asked}": it is a whole number')
            left = replace(left, turns=min(int(asked), left.turns or int(asked)))
        return left


def delegate_tools(nursery: Nursery, wait: Tool | None) -> tuple[Tool, ...]:
    """`delegate`, and `wait` (that of commands, where there is one) for children too."""
    text = (
        '<delegate kind="explore">QUESTION OR TASK</delegate> asks a sub-agent, which sees nothing of this '
        'conversation; background="yes" for several, then <wait child="c1"/>.'
    )

    def waiting(action: Action) -> Observation:
        if wait is not None and "child" not in action.args:
            return wait.perform(action)
        return _reporting("wait", lambda: nursery.wait(action))

    said = wait.text if wait is not None else '<wait child="c1"/> waits for the answer of a child.'
    return (
        Tool(
            "delegate",
            text,
            lambda action: _reporting("delegate", lambda: nursery.delegate(action)),
            needs=nursery.needs,
        ),
        Tool("wait", said, waiting, needs="nothing"),
    )


def _with_files(text: str, changed: list[str]) -> str:
    return (
        f"{text}\nIt changed {', '.join(map(named, changed))}: a part of your change now."
        if changed
        else text
    )


def _reporting(kind: str, perform: Callable[[], Observation]) -> Observation:
    try:
        return perform()
    except RepoagentError as error:
        if error.exit_code != UsageError.exit_code:
            raise
        return Observation(kind, str(error), ok=False)
