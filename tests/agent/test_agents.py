"""The model agent, and agents from plugins."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.agent.loop import ModelAgent, Outcome, load_agent, run
from repoagent.agent.state import State
from repoagent.errors import LimitReached, UsageError
from repoagent.llm.conversation import Turn, to_messages
from repoagent.llm.model import OnText, Part, Reply, Request, Usage
from repoagent.llm.usage import Limits, Meter

ASKED = State((Turn("user", "make it 2"),))


class Parrot:
    """A model with one reply."""

    spec = "test/parrot"
    context_tokens = None

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.requests: list[Request] = []

    def complete(self, request: Request, on_text: OnText) -> Reply:
        self.requests.append(request)
        on_text(self.reply)
        return Reply(self.reply, "end", Usage(input=10, output=5), "parrot-1")


def prompt(state: State) -> tuple[Request, ...]:
    return (Request((Part("system"),), to_messages(state.turns, state.nonce)),)


def talk(model: Parrot, limits: Limits, heard: list[str]) -> Outcome:
    return run(ModelAgent(model, Meter(limits), prompt, on_text=heard.append), [], ASKED)


def test_limit_ends_an_endless_run() -> None:
    model = Parrot("<think>hm</think>")
    with pytest.raises(LimitReached):
        talk(model, Limits(turns=2), [])
    assert len(model.requests) == 2
    last = model.requests[-1].messages[-1]
    assert last.role == "user" and "Noted." in last.text


def test_text_is_streamed_and_the_turn_names_the_model() -> None:
    heard: list[str] = []
    outcome = talk(Parrot("Which one?"), Limits(), heard)
    assert heard == ["Which one?"] and outcome.kind == "answered"
    assert outcome.state.turns[-1].meta == {"model": "parrot-1"}


def test_replies_to_several_prompts_are_joined() -> None:
    parts = iter(["first", "second"])
    agent = ModelAgent(
        Parrot("x"), Meter(), lambda state: prompt(state) * 2, on_reply=lambda _, reply: {"sent": next(parts), "kind": "one"}
    )  # fmt: skip
    assert agent.step(ASKED) == Turn(
        "assistant", "x\n\nx", {"model": "parrot-1", "sent": "first second", "kind": "one"}
    )


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution with three agents: a valid one, one without its module, one without its name."""
    info = tmp_path / "clever_agents-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: clever-agents\nVersion: 1.0\n")
    points = "clever = clever_agents:Clever\ngone = no_such_module:X\nempty = clever_agents:Nothing\n"
    (info / "entry_points.txt").write_text(f"[repoagent.agents]\n{points}")
    (tmp_path / "clever_agents.py").write_text("class Clever: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("stupid", "clever, empty, gone, model"),
        ("gone", "could not load the agent gone"),
        ("empty", "could not load the agent empty"),
    ],
)
def test_agent_that_cannot_be_loaded(plugged: None, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_agent(name)


def test_plugin_is_loaded_and_the_model_is_the_default(plugged: None) -> None:
    assert load_agent("clever").__name__ == "Clever"
    assert load_agent() is ModelAgent
