"""Who decides what to do next: a model behind a prompt, or an agent that somebody plugs in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from repoagent.agent.state import State
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.llm import Meter, Model, OnText, OnWait, Reply, Request, Turn, complete
from repoagent.llm.naming import shown

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


def _ignore(*_: object) -> None:
    pass


def _nothing(request: Request, reply: Reply) -> Mapping[str, str]:
    return {}


def _no_memory(query: str) -> list[str]:
    return []


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
    on_text: OnText = _ignore
    on_void: OnText = _ignore
    on_wait: OnWait = _ignore
    on_reply: Callable[[Request, Reply], Mapping[str, str]] = _nothing
    recall: Callable[[str], list[str]] = _no_memory
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
            said = {"model": shown(reply.model or self.model.spec), **self.on_reply(request, reply)}
            meta = {
                key: f"{meta[key]} {value}" if meta.get(key, value) != value else value
                for key, value in said.items()
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

    found = entry_points(group=GROUP)
    for point in found:
        if point.name == name:
            try:
                made: Callable[..., Agent] = point.load()
            except (Exception, SystemExit) as error:  # anything may come out of other people's code
                said = " ".join(str(error).split()) or type(error).__name__
                raise UsageError(f"the agent {name} ({point.value}) can't be loaded: {said}") from error
            return made
    names = ", ".join(sorted({"model", *(point.name for point in found)}))
    raise UsageError(f"there is no agent {name}: choose one of {names}, or install the package that has it.")
