"""The loop of an agent: request a reply, perform its actions, append the observations, until the task ends.

The conversation is its only state: the number of failures, the actions left to perform and repetitions are derived
from it, so a killed run resumes where it was. An `Agent` provides the replies: a model, or a plugin.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Protocol

from repoagent.agent.actions import Action, Observation
from repoagent.agent.parse_reply import Parsed, parse_reply
from repoagent.agent.state import (
    EDIT,
    ENDS,
    OWN,
    QUIET,
    REPEATED,
    State,
    Step,
    Tool,
    repetition_warning,
    steps_of_run,
    succeeded,
)
from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, Refused, RepoagentError, UsageError
from repoagent.llm.complete import OnWait, complete
from repoagent.llm.conversation import ATTACHED, Turn
from repoagent.llm.model import Model, OnText, Reply, Request, display_name
from repoagent.llm.usage import Meter

GROUP = "repoagent.agents"


class Agent(Protocol):
    """The source of replies. Actions are text (see `actions.render_action`), so the conversation is the whole state of
    a run, and any agent can continue it."""

    def step(self, state: State) -> Turn:
        """The next reply, as a turn with the role "assistant", whose `meta` is saved. Makes at most one model call."""


@dataclass(frozen=True)
class ModelAgent:
    """An agent that calls a model with the prompts that `render` makes from the state.

    There is usually one prompt; the replies to several prompts are joined. `on_reply` receives each request and its
    reply, and its result is added to the `meta` of the turn. Raises what `llm.complete` raises.
    """

    model: Model
    meter: Meter
    render: Callable[[State], Sequence[Request]]
    on_text: OnText = lambda *_: None
    on_void: OnText = lambda *_: None
    on_wait: OnWait = lambda *_: None
    on_reply: Callable[[Request, Reply], Mapping[str, str]] = lambda request, reply: {}
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


def load_agent(name: str = "model") -> Callable[..., Agent]:
    """A function that creates the agent `name` from the arguments of `ModelAgent`: that class for "model", otherwise an
    entry point of the group `repoagent.agents`. Raises UsageError if it is unknown or cannot be loaded."""
    if name == "model":
        return ModelAgent
    from importlib.metadata import entry_points

    points = entry_points(group=GROUP)
    for point in points:
        if point.name == name:
            try:
                factory: Callable[..., Agent] = point.load()
            except (Exception, SystemExit) as error:  # a plugin may raise anything
                reason = " ".join(str(error).split()) or type(error).__name__
                raise UsageError(f"could not load agent {name} ({point.value}): {reason}") from error
            return factory
    names = ", ".join(sorted({"model", *(point.name for point in points)}))
    raise UsageError(f"unknown agent {name}: choose one of {names}, or install the package that provides it")


FOREIGN = "foreign"  # the reason of a correction: the reply is a tool call in the format of another program
SKIPPED = "skipped"  # the kind of the observation in place of an action that was not performed
RETURNS = 3  # how often in a row a malformed reply, a refused edit or a failed check is returned to the model

End = Literal["finished", "rejected", "answered"]


class StuckInLoop(ModelError):
    """The model repeats its actions, although it was told."""


@dataclass(frozen=True)
class LoopEvent:
    """An event to display. `text` is the whole reply for "reply", and the part that was dropped from it for "dropped";
    `words` is the reply without actions and patches."""

    kind: Literal["reply", "dropped", "action", "observation"]
    text: str = ""
    words: str = ""
    action: Action | None = None
    observation: Observation | None = None


@dataclass(frozen=True)
class LoopOutcome:
    """The outcome of a run.

    text: the model's final message: what it did, why it rejected the task, its answer or its question.
    commit_message: the last commit message in the run's replies; "" for none.
    notes: all notes in these replies.
    words: the prose of the last reply; "" if `text` already has it.
    messages: the messages sent to the user during the run.
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


def run_loop(
    agent: Agent,
    tools: Iterable[Tool],
    state: State,
    *,
    before_finish: BeforeEnd = lambda state: None,
    before_answer: BeforeEnd = lambda state: None,
    before_turn: BeforeTurn = lambda state: state,
    on_event: Callable[[LoopEvent], None] = lambda event: None,
) -> LoopOutcome:
    """Continue from `state` until the task is finished, rejected or answered.

    If the conversation ends with a reply, its actions are performed before a new reply is requested. `before_finish` is
    called before a run counts as finished, `before_answer` before text alone counts as an answer. If either returns an
    observation, the observation goes back to the model. `before_turn` is called before each reply and may append turns;
    see `state.extra_turn`.

    Raises ModelError if the model does not follow the protocol, StuckInLoop if it repeats its actions. If three
    corrections in a row do not help, raises the `error` of the failed observation (Refused for an edit that has no
    `error`). Exceptions from the agent, the tools and `before_finish` propagate.
    """
    by_name = {tool.name: tool for tool in (*OWN, *tools)}
    current = _Run(agent, by_name, state, before_finish, before_answer, before_turn, on_event)
    while (end := current.turn()) is None:
        pass
    kind, text = end
    thought = current.parse(current.step).thought
    messages = tuple(
        action.body.strip()
        for step in steps_of_run(current.state.turns)
        for action, result in zip(current.parse(step).actions, step.performed, strict=False)
        if action.kind == result.meta.get("kind") == "message" and action.body.strip()
    )
    words = thought if thought != text else ""
    return LoopOutcome(
        kind, text, current.state, *message_and_notes(by_name.values(), current.state), words, messages
    )


def message_and_notes(tools: Iterable[Tool], state: State) -> tuple[str, tuple[str, ...]]:
    """The last commit message ("" for none) and all notes in the replies of the current run."""
    by_name = {tool.name: tool for tool in (*OWN, *tools)}
    replies = [_read(step.reply.text, by_name, state) for step in steps_of_run(state.turns)]
    messages = [reply.commit_message for reply in replies if reply.commit_message]
    notes = dict.fromkeys(note for reply in replies for note in reply.notes)
    return messages[-1] if messages else "", tuple(notes)


def replay(tools: Iterable[Tool], state: State) -> None:
    """Repeat the actions in `state` with `Tool.replay`, to continue a conversation in a new process. If an action that
    succeeded before fails now, raises its error, or Refused if it has none."""
    by_name = {tool.name: tool for tool in (*OWN, *tools)}
    for step in steps_of_run(state.turns):
        actions = _read(step.reply.text, by_name, state).actions
        for action, result in zip(actions, step.performed, strict=False):
            if by_name[action.kind].replay and result.meta.get("kind") == action.kind and succeeded(result):
                repeated = by_name[action.kind].perform(action)
                if not repeated.ok:
                    raise repeated.error or Refused(f"cannot continue this conversation: {repeated.text}")


def why_skipped(tool: Tool, action: Action, performed: Iterable[Turn]) -> str:
    """Why `action`, of `tool`, must not be performed after these observations of the same reply; "" if it may be."""
    needs = tool.needed_by(action)
    failed = [turn for turn in performed if not succeeded(turn) and turn.meta.get("kind") != SKIPPED]
    if needs == "writes":
        failed = [turn for turn in failed if turn.meta.get("blocks") != "no"]
    if needs == "nothing" or not failed:
        return ""
    return f"{action.kind} was not performed because an earlier `{failed[0].meta.get('kind')}` failed."


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
        """The last reply and its observations."""
        return steps_of_run(self.state.turns)[-1]

    @property
    def previous(self) -> list[Turn]:
        """The observations of the step before the last."""
        return [turn for step in steps_of_run(self.state.turns)[-2:-1] for turn in step.observations]

    def turn(self) -> tuple[End, str] | None:
        """Perform the pending reply, or request a new one and perform it. Returns the end of the run, or None."""
        if not steps_of_run(self.state.turns) or self.is_done():
            self.ask()
        step, reply, end = self.step, self.parse(self.step), None
        if reply.problem:
            self.correct(reply.problem)
        elif problem := self.misread(reply):
            self.correct(problem, {"reasons": [FOREIGN]})
        elif reply.thought and not reply.asks and "dropped" not in step.reply.meta:
            end = self.end("answered", reply.thought, self.before_answer)
        else:
            end = self.perform(reply)
        if end is not None:
            return end
        if warning := repetition_warning(
            steps_of_run(self.state.turns), lambda step: self.parse(step).actions
        ):
            if any(turn.meta.get("extra") == REPEATED for turn in self.previous):
                stuck = "the model is stuck in a loop; rephrase the request, or choose another model"
                raise self.failure or StuckInLoop(stuck)
            self.add(Observation(REPEATED, warning, ok=False), extra=REPEATED)
        return None

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
        """Whether nothing of the last reply is left to do, and the run continues."""
        step, reply = self.step, self.parse(self.step)
        if reply.problem or len(step.observations) > len(step.performed):
            return bool(step.observations)
        return 0 < len(reply.actions) <= len(step.performed) and not _ends(reply, step)

    def perform(self, reply: Parsed) -> tuple[End, str] | None:
        for at in range(len(self.step.performed), len(reply.actions)):
            action = reply.actions[at]
            tool = self.tools[action.kind]
            if why := why_skipped(tool, action, self.step.performed):
                if action.kind == "finish" and reply.commit_message:
                    why += (
                        " The commit message is kept: send only `<finish>` once the failure is fixed, or if it does "
                        "not concern your change."
                    )
                result = Observation(SKIPPED, why, ok=False, blocks=False)
            else:
                self.on_event(LoopEvent("action", action=action))
                result = tool.perform(action)
            if result.final and action.kind in ENDS:
                text = result.text or reply.thought
                if result.kind == "reject":
                    return "rejected", text
                return self.end("finished", text, self.before_finish)
            if result.once and all(other.kind != action.kind for other in reply.actions[at + 1 :]):
                result = replace(result, text=f"{result.text}\n{result.once}".lstrip("\n"))
            self.add(replace(result, blocks=result.blocks and tool.needed_by(action) != "nothing"))
        return self.end("finished", reply.thought, self.before_finish) if _ends(reply, self.step) else None

    def end(self, kind: End, text: str, before: BeforeEnd) -> tuple[End, str] | None:
        """The end of the run, unless `before` objects."""
        objection = before(self.state)
        if objection is None:
            return kind, text
        self.add(objection, extra="objection")
        return None

    def misread(self, reply: Parsed) -> str:
        """The problem with a reply that calls a tool in the format of another program; "" for none. A shell block may
        be an answer: it is one if the model sends it again."""
        if reply.foreign == "block":
            was_corrected = any(turn.meta.get("reasons") == FOREIGN for turn in self.previous)
            if was_corrected or (EDIT in self.tools and self.tools[EDIT].loose):
                return ""
        names = ", ".join(name for name in self.tools if name != EDIT)
        problem = (
            f"code blocks and calls in this form are not performed; write a tag ({names})"
            + (", or a patch" if EDIT in self.tools else "")
            + ", as described at the start."
        )
        return reply.foreign and problem + " If it is your answer, send it again." * (
            reply.foreign == "block"
        )

    def correct(self, problem: str, data: Mapping[str, object] | None = None) -> None:
        error = ModelError(
            f"the model's output is still malformed after 3 corrections ({problem.rstrip('.')}); try again, or "
            "choose another model with --model"
        )
        text = f"Nothing in your last reply was performed: {problem}"
        self.add(Observation("correction", text, ok=False, data=data or {}, error=error), extra="correction")

    def add(self, result: Observation, extra: str = "") -> None:
        """Append an observation. Raises its error if its kind has failed too often in a row."""
        self.failure = None if result.ok else result.error
        if result.kind == EDIT and not result.ok:
            self.failure = result.error or Refused(result.shown or result.text)
        text = result.text
        if (dropped := self.step.reply.meta.get("dropped")) and not self.step.observations:
            text = (
                f"The last {dropped} characters of your reply were dropped, because they imitated another "
                f"speaker; no action in them was performed, and nothing they report is true.\n\n{text}"
            )
        reasons = result.data.get("reasons")
        meta = {
            "final": "yes" if result.final else "",
            "blocks": "no" if not result.ok and not result.blocks else "",
            "extra": extra,
            ATTACHED: result.attached,
            "reasons": " ".join(map(str, reasons)) if isinstance(reasons, list) else "",
        }
        if result.data.get("shown"):
            meta["shown"] = json.dumps(result.data["shown"])
        meta = {key: value for key, value in meta.items() if value}
        meta = {"kind": result.kind, "ok": "yes" if result.ok else "no", **meta}
        self.state = self.state.with_turn(Turn("observation", text, meta))
        self.on_event(LoopEvent("observation", observation=result))
        if self.failure and self.failures(result.kind) > RETURNS:
            raise self.failure

    def failures(self, kind: str) -> int:
        """The number of observations of this kind that have failed since the last success, whatever came in between. A
        correction counts only if the next reply was malformed, too."""
        count = 0
        for step in reversed(steps_of_run(self.state.turns)):
            results = [turn for turn in step.observations if turn.meta.get("kind") == kind]
            if any(map(succeeded, results)) or (kind == "correction" and not results):
                break
            count += len(results)
        return count


def _read(reply: str, tools: Mapping[str, Tool], state: State, *, was_cut: bool = False) -> Parsed:
    loose = EDIT in tools and tools[EDIT].loose
    return parse_reply(reply, tools, nonce=state.nonce, was_cut=was_cut, loose=loose)


def _ends(reply: Parsed, step: Step) -> bool:
    """Whether a performed reply ends the run: everything succeeded, and each action is final or quiet."""
    final = [turn.meta.get("final") == "yes" for turn in step.performed]
    pairs = zip(reply.actions, step.performed, final, strict=False)
    return (
        len(step.performed) >= len(reply.actions)
        and any(final)
        and "dropped" not in step.reply.meta
        and all(succeeded(result) and (ends or action.kind in QUIET) for action, result, ends in pairs)
    )
