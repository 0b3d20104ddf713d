"""The window in the loop: a long run with checkpoints, killed at any point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from repoagent.agent.actions import Action, Observation
from repoagent.agent.context_window.checkpoint import HEADINGS, is_checkpoint
from repoagent.agent.context_window.shorten_text import spilling
from repoagent.agent.context_window.window import Window, tokens
from repoagent.agent.loop import LoopEvent, run
from repoagent.agent.plan import plan_from, plan_news, read_plan, task_tool
from repoagent.agent.state import State, Tool, open_state
from repoagent.llm.conversation import Turn, to_messages
from repoagent.llm.model import Message, fence

TOOLS = ("look", "task")
STEPS = 16


@dataclass
class Long:
    """An agent that calls one `look` after the other, and records the turns before each reply."""

    window: Window
    sent: list[tuple[Message, ...]] = field(default_factory=list)

    def step(self, state: State) -> Turn:
        turns = self.window.turns(state)
        assert tokens(turns) <= self.window.budget
        self.sent.append(to_messages(turns, state.nonce))
        number = sum(turn.role == "assistant" for turn in state.turns)
        if number == 0:
            return Turn("assistant", '<task add="Look at all"/>\n<task add="Say so"/>')
        if number == STEPS:
            return Turn(
                "assistant", '<task n="1" state="done"/>\n<task n="2" state="done"/>\n<finish>done</finish>'
            )
        return Turn("assistant", f'Number {number}.\n<look at="{number}"/>')


class Killed(BaseException):
    pass


@dataclass
class Play:
    home: Path
    kill_at: int = 0
    count: int = 0
    asked_at: int = 0  # the count at the first request for a checkpoint

    def __post_init__(self) -> None:
        self.window = Window(6_000, TOOLS, self.home / "checkpoint.md")
        self.agent = Long(self.window)

    def go(self) -> State:
        look = spilling(
            Tool("look", "", self.look), self.home / "output", shown_as=lambda path: path.name, limit=1_500
        )
        state = open_state(self.home / "c.md")
        state = state if state.turns else state.with_turn(Turn("user", "look at all of it"))
        tools = [look, task_tool(self.home / "plan.md")]
        return run(self.agent, tools, state, before_turn=self.before, on_event=self.event).state

    def look(self, action: Action) -> Observation:
        rows = "".join(f"{action.args['at']} {row}\n" for row in range(400))
        return Observation("look", fence(rows, "rows"))

    def before(self, state: State) -> State:
        self.die()
        news = plan_news(self.home / "plan.md", state.turns, TOOLS, state.nonce)
        state = self.window.ready(state if news is None else state.with_turn(news), self.ask)
        self.die()
        return state

    def ask(self, turns: tuple[Turn, ...]) -> tuple[str, Mapping[str, str]]:
        self.asked_at = self.asked_at or self.count
        self.die()
        return "\n".join(f"## {name}\n{len(turns)}" for name in HEADINGS), {}

    def event(self, event: LoopEvent) -> None:
        self.die()

    def die(self) -> None:
        self.count += 1
        if self.count == self.kill_at:
            raise Killed


def test_requests_grow_between_checkpoints(tmp_path: Path) -> None:
    play = Play(tmp_path)
    state = play.go()
    assert sum(map(is_checkpoint, state.turns)) >= 2
    assert len(list((tmp_path / "output").iterdir())) == STEPS - 1
    texts = ["".join(message.text for message in sent) for sent in play.agent.sent]
    fresh = sum(not later.startswith(earlier) for earlier, later in pairwise(texts))
    assert fresh == sum(map(is_checkpoint, state.turns))
    assert all("look at all of it" in text for text in texts)
    assert [task.state for task in plan_from(state.turns, TOOLS, state.nonce).tasks] == ["done", "done"]


@pytest.mark.soak
def test_killed_run_ends_like_an_uninterrupted_one(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = Play(tmp_path / "whole")
    expected = [(turn.role, turn.text) for turn in whole.go().turns]
    for at in (1, 3, *range(whole.asked_at - 1, whole.asked_at + 3), whole.count - 1):
        home = tmp_path / str(at)
        home.mkdir()
        play = Play(home, kill_at=at)
        with pytest.raises(Killed):
            play.go()
        assert [(turn.role, turn.text) for turn in play.go().turns] == expected
        assert read_plan(home / "plan.md") == read_plan(tmp_path / "whole" / "plan.md")
