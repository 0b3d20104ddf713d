"""The loop of an agent: ask for a reply, perform its actions, append the observations, until the task ends.

It keeps no counters: what failed how often, what is left to perform and whether a turn repeats all follow from the
conversation, so that a run that was killed resumes where it was. `Agent` is what decides the next step: a model, or a
plugin.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Protocol

from repoagent.agent.actions import Action, Observation
from repoagent.agent.loop_detection import repetition
from repoagent.agent.parse_reply import Parsed, parse
from repoagent.agent.reply_pieces import advice
from repoagent.agent.state import EDIT, ENDS, OWN, QUIET, State, Step, Tool, steps
from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, Refused, RepoagentError, UsageError
from repoagent.llm.client import OnWait, complete
from repoagent.llm.conversation import ATTACHED, Turn
from repoagent.llm.model import Model, OnText, Reply, Request, display_name
from repoagent.llm.usage import Meter

GROUP = "repoagent.agents"


class Agent(Protocol):
    """What the loop needs. Its actions are text in the protocol (`tags.render` writes one), so a
    conversation is the whole state of a run, and any agent can continue it."""

    def step(self, state: State) -> Turn:
        """The next reply, a turn of the role "assistant"; its `meta` is kept. One model call, or none."""
        ...

    def search_memory(self, query: str) -> list[str]:
        """What is remembered about `query`, the best first."""
        ...


@dataclass(frozen=True)
class ModelAgent:
    """A model, asked with the prompts that `render` makes of the state: mostly one; of several, the replies under
    each other are the reply. `continues` is as in `llm.complete`.

    What `on_reply` returns for a request and its reply goes into the `meta` of the turn.

    Raises what `llm.complete` does: LimitReached before a call that would pass a limit, ModelError.
    """

    model: Model
    meter: Meter
    render: Callable[[State], Sequence[Request]]
    on_text: OnText = lambda *_: None
    on_void: OnText = lambda *_: None
    on_wait: OnWait = lambda *_: None
    on_reply: Callable[[Request, Reply], Mapping[str, str]] = lambda request, reply: {}
    recall: Callable[[str], list[str]] = lambda query: []
    continues: bool = True

    def step(self, state: State) -> Turn:
        texts: list[str] = []
        meta: dict[str, str] = {}
        for request in self.render(state):
            reply = complete(
                self.model,
                request,
                self.meter,
                on_text=self.on_text,
                on_void=self.on_void,
                on_wait=self.on_wait,
                continues=self.continues,
            )
            texts.append(reply.text)
            facts = {"model": display_name(reply.model or self.model.spec), **self.on_reply(request, reply)}
            meta = {
                key: f"{meta[key]} {value}" if meta.get(key, value) != value else value
                for key, value in facts.items()
            }
        return Turn("assistant", "\n\n".join(texts), meta)

    def search_memory(self, query: str) -> list[str]:
        return self.recall(query)


def load_agent(name: str = "model") -> Callable[..., Agent]:
    """What makes the agent `name`, called with the arguments of `ModelAgent`: that class for "model", else
    what the entry-point group `repoagent.agents` offers. Raises UsageError for any other name."""
    if name == "model":
        return ModelAgent
    from importlib.metadata import entry_points

    points = entry_points(group=GROUP)
    for point in points:
        if point.name == name:
            try:
                made: Callable[..., Agent] = point.load()
            except (Exception, SystemExit) as error:  # anything may come out of other people's code
                reason = " ".join(str(error).split()) or type(error).__name__
                raise UsageError(f"could not load the agent {name} ({point.value}): {reason}") from error
            return made
    names = ", ".join(sorted({"model", *(point.name for point in points)}))
    raise UsageError(f"unknown agent {name}: choose one of {names}, or install the package that provides it")


FOREIGN = "foreign"  # the reason of a correction: the reply is a tool call in a form of another program
SKIPPED = "skipped"  # the kind of the observation in place of an action that was not performed
RETURNS = 3  # how often in a row a malformed reply, a refused edit or a failed check goes back

End = Literal["finished", "rejected", "answered"]


@dataclass(frozen=True)
class LoopEvent:
    """What a terminal may show: the `text` of a whole "reply" or of what was "dropped" of it, an "action"
    that starts, an "observation". `words` are what a reply says to the user, without its actions and patches."""

    kind: Literal["reply", "dropped", "action", "observation"]
    text: str = ""
    words: str = ""
    action: Action | None = None
    observation: Observation | None = None


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `text` is the model's last word: what it did, why it rejected, its answer or question.

    `commit_message` is the last one that the run's replies hold ("" for none), `notes` all of theirs. `words` is
    what else the last reply says, `messages` what the model has told the user on the way.
    """

    kind: End
    text: str
    state: State
    commit_message: str = ""
    notes: tuple[str, ...] = ()
    words: str = ""
    messages: tuple[str, ...] = ()


BeforeEnd = Callable[[State], "Observation | None"]
BeforeTurn = Callable[[State], State]


def run(
    agent: Agent,
    tools: Iterable[Tool],
    state: State,
    *,
    before_finish: BeforeEnd = lambda state: None,
    before_answer: BeforeEnd = lambda state: None,
    before_turn: BeforeTurn = lambda state: state,
    on_event: Callable[[LoopEvent], None] = lambda event: None,
) -> Outcome:
    """Go on from `state` until the task is finished, rejected or answered.

    A conversation that ends in a reply goes on with its actions, not with a call. `before_finish` is asked
    before a run counts as finished, `before_answer` before words alone count as an answer; an observation that
    one of them returns goes back to the model instead. `before_turn` is asked before each reply, and may append
    turns to the state: what the user says while it runs, what has happened since; see `state.extra_turn`.

    Raises ModelError when the model does not follow the protocol or is stuck in a loop; the `error` of an
    observation (for an edit at least Refused) that went back in vain three times in a row; and what the
    agent, the tools and `before_finish` raise.
    """
    by_name = {tool.name: tool for tool in (*OWN, *tools)}
    this = _Run(agent, by_name, state, before_finish, before_answer, before_turn, on_event)
    try:
        while True:
            this.turn()
    except _Over as over:
        summary = account(this.tools.values(), this.state)
        thought = this.parse(steps(this.state.turns)[-1]).thought
        words = thought if thought != over.text else ""
        return Outcome(over.kind, over.text, this.state, *summary, words, this.messages())


def account(tools: Iterable[Tool], state: State) -> tuple[str, tuple[str, ...]]:
    """The last commit message ("" for none) and all notes in the replies of the present run."""
    by_name = {tool.name: tool for tool in (*OWN, *tools)}
    replies = [_read(step.reply.text, by_name, state) for step in steps(state.turns)]
    messages = [reply.commit_message for reply in replies if reply.commit_message]
    notes = dict.fromkeys(note for reply in replies for note in reply.notes)
    return messages[-1] if messages else "", tuple(notes)


def replay(tools: Iterable[Tool], state: State) -> None:
    """Perform again what `state` says was done by tools whose effect lives in a process only (`Tool.replay`).

    To be called before `run` by who continues a conversation in a new process. Raises Refused when something
    does not work as it did.
    """
    by_name = {tool.name: tool for tool in (*OWN, *tools)}
    for step in steps(state.turns):
        actions = _read(step.reply.text, by_name, state).actions
        for action, seen in zip(actions, step.performed, strict=False):
            if not by_name[action.kind].replay or seen.meta.get("kind") != action.kind:
                continue
            if _ok(seen) or "partial" in seen.meta:
                again = by_name[action.kind].perform(action)
                if again.ok != _ok(seen):
                    raise again.error or Refused(f"cannot continue this conversation: {again.text}")


def why_skipped(tool: Tool, action: Action, performed: Iterable[Turn]) -> str:
    """Why `action`, of `tool`, may not be performed after these observations of the same reply; "" when it may."""
    needs = tool.needed_by(action)
    failed = [turn for turn in performed if not _ok(turn) and turn.meta.get("kind") != SKIPPED]
    if needs == "writes":
        failed = [turn for turn in failed if turn.meta.get("blocks") != "no"]
    if needs == "nothing" or not failed:
        return ""
    return f"{action.kind} was not performed, because `{failed[0].meta.get('kind')}` before it failed."


class _Over(Exception):
    def __init__(self, kind: End, text: str) -> None:
        super().__init__(kind)
        self.kind: End = kind
        self.text = text


@dataclass
class _Run:
    agent: Agent
    tools: Mapping[str, Tool]
    state: State
    before_finish: BeforeEnd
    before_answer: BeforeEnd
    before_turn: BeforeTurn
    on_event: Callable[[LoopEvent], None]
    failure: RepoagentError | None = None  # of the last observation

    @property
    def step(self) -> Step:
        """The last reply and what came of it."""
        return steps(self.state.turns)[-1]

    def turn(self) -> None:
        """Ask for a reply, unless one is not done with yet, and do what it says. Raises _Over at the end."""
        if not steps(self.state.turns) or self.is_done():
            self.ask()
        step, reply = self.step, self.parse(self.step)
        if reply.problem:
            self.correct(reply.problem)
        elif problem := self.misread(reply):
            self.correct(problem, {"reasons": [FOREIGN]})
        elif reply.thought and not reply.asks and "dropped" not in step.reply.meta:
            self.end("answered", reply.thought, self.before_answer)
        else:
            self.perform(reply)
        repeated = repetition(steps(self.state.turns), lambda step: self.parse(step).actions)
        if repeated is not None and repeated.over:
            stuck = "the model is stuck in a loop; rephrase the request, or use another --model"
            raise self.failure or ModelError(stuck)
        if repeated is not None:
            self.add(Observation("repeated", repeated.text, ok=False), extra=repeated.extra)

    def ask(self) -> None:
        self.state = self.before_turn(self.state)
        turn = self.agent.step(self.state)
        reply = _read(turn.text, self.tools, self.state)
        meta = {**turn.meta, "dropped": str(len(reply.dropped))} if reply.dropped else turn.meta
        self.state = self.state.with_turn(Turn("assistant", reply.reply, meta))
        words = [reply.thought, *(action.body.strip() for action in reply.actions if action.kind in ENDS)]
        self.on_event(LoopEvent("reply", reply.reply, "\n\n".join(filter(None, words))))
        if reply.dropped:
            self.on_event(LoopEvent("dropped", reply.dropped))

    def parse(self, step: Step) -> Parsed:
        return _read(step.reply.text, self.tools, self.state, was_cut="dropped" in step.reply.meta)

    def is_done(self) -> bool:
        """Whether nothing of the last reply is left to do, and the run goes on."""
        step, reply = self.step, self.parse(self.step)
        if reply.problem or len(step.observations) > len(step.performed):
            return bool(step.observations)
        return 0 < len(reply.actions) <= len(step.performed) and not _ends(reply, step)

    def perform(self, reply: Parsed) -> None:
        for at in range(len(self.step.performed), len(reply.actions)):
            action = reply.actions[at]
            tool = self.tools[action.kind]
            if why := why_skipped(tool, action, self.step.performed):
                if action.kind == "finish" and reply.commit_message:
                    why += (
                        " Its commit message is kept: send only `<finish>` once that is fixed, or is not part of "
                        "your change."
                    )
                seen = Observation(SKIPPED, why, ok=False, blocks=False)
            else:
                self.on_event(LoopEvent("action", action=action))
                seen = tool.perform(action)
            if seen.final and action.kind in ENDS:
                text = seen.text or reply.thought
                if seen.kind == "reject":
                    raise _Over("rejected", text)
                self.end("finished", text, self.before_finish)
                return
            if seen.once and all(other.kind != action.kind for other in reply.actions[at + 1 :]):
                seen = replace(seen, text=f"{seen.text}\n{seen.once}".lstrip("\n"))
            self.add(replace(seen, blocks=seen.blocks and tool.needed_by(action) != "nothing"))
        if _ends(reply, self.step):
            self.end("finished", reply.thought, self.before_finish)

    def end(self, kind: End, text: str, before: BeforeEnd) -> None:
        """End the run, unless `before` has something to say."""
        objection = before(self.state)
        if objection is None:
            raise _Over(kind, text)
        self.add(objection, extra="objection")

    def misread(self, reply: Parsed) -> str:
        """What is wrong with a reply that asks for a tool in a form of another program, or for one that is not there;
        "" for nothing. A code block for the shell may be an answer: it is one where the model says it again."""
        call = reply.foreign
        if call is None:
            return ""
        loose = EDIT in self.tools and self.tools[EDIT].loose
        before = [turn for step in steps(self.state.turns)[-2:-1] for turn in step.observations]
        again = any(turn.meta.get("reasons") == FOREIGN for turn in before)
        if (call.form == "fence" and again) or (loose and not call.sure):
            return ""
        return advice(call, self.tools)

    def messages(self) -> tuple[str, ...]:
        """What the model told the user in the present run."""
        return tuple(
            action.body.strip()
            for step in steps(self.state.turns)
            for action, seen in zip(self.parse(step).actions, step.performed, strict=False)
            if action.kind == seen.meta.get("kind") == "message" and action.body.strip()
        )

    def correct(self, problem: str, data: Mapping[str, object] | None = None) -> None:
        error = ModelError(
            f"the model's output is still malformed after 3 corrections ({problem.rstrip('.')}); try again, or use "
            "another --model"
        )
        text = f"Nothing in your last reply was performed: {problem}"
        self.add(Observation("correction", text, ok=False, data=data or {}, error=error), extra="correction")

    def add(self, seen: Observation, extra: str = "") -> None:
        """Append an observation, and end the run when its kind went back in vain too often."""
        self.failure = None if seen.ok else seen.error
        if seen.kind == EDIT and not seen.ok:
            self.failure = seen.error or Refused(seen.shown or seen.text)
        text = seen.text
        if (dropped := self.step.reply.meta.get("dropped")) and not self.step.observations:
            text = (
                f"The last {dropped} characters of your reply were dropped, because they imitated another "
                f"speaker; nothing in them was performed or is true.\n\n{text}"
            )
        reasons = seen.data.get("reasons")
        meta = {
            "final": "yes" if seen.final else "",
            "blocks": "no" if not seen.ok and not seen.blocks else "",
            "extra": extra,
            ATTACHED: seen.attached,
            "reasons": " ".join(map(str, reasons)) if isinstance(reasons, list) else "",
            "partial": "yes" if seen.data.get("partial") else "",
        }
        meta |= {key: json.dumps(seen.data[key]) for key in ("allowed", "shown") if seen.data.get(key)}
        meta = {key: value for key, value in meta.items() if value}
        meta = {"kind": seen.kind, "ok": "yes" if seen.ok else "no", **meta}
        self.state = self.state.with_turn(Turn("observation", text, meta))
        self.on_event(LoopEvent("observation", observation=seen))
        if self.failure and self.failures(seen.kind) > RETURNS:
            raise self.failure

    def failures(self, kind: str) -> int:
        """How many observations of this kind, up to the last, were failures in a row.

        Others between them do not matter, but a correction only counts if the reply after it was wrong again.
        """
        count = 0
        for step in reversed(steps(self.state.turns)):
            seen = [turn for turn in step.observations if turn.meta.get("kind") == kind]
            if any(map(_ok, seen)) or (kind == "correction" and not seen):
                break
            count += len(seen)
        return count


def _read(reply: str, tools: Mapping[str, Tool], state: State, *, was_cut: bool = False) -> Parsed:
    loose = EDIT in tools and tools[EDIT].loose
    return parse(reply, tools, nonce=state.nonce, was_cut=was_cut, loose=loose)


def _ends(reply: Parsed, step: Step) -> bool:
    """Whether a reply that was performed asks for nothing more: all went well, and all is final or quiet."""
    final = [turn.meta.get("final") == "yes" for turn in step.performed]
    pairs = zip(reply.actions, step.performed, final, strict=False)
    return (
        len(step.performed) >= len(reply.actions)
        and any(final)
        and "dropped" not in step.reply.meta
        and all(_ok(seen) and (ends or action.kind in QUIET) for action, seen, ends in pairs)
    )


def _ok(seen: Turn) -> bool:
    return seen.meta.get("ok") != "no"
