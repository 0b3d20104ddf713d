"""The loop, driven by an agent that reads its replies from a list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from repoagent.agent import (
    Action,
    LoopEvent,
    Observation,
    Outcome,
    State,
    Tool,
    account,
    open_state,
    replay,
    run,
)
from repoagent.errors import CheckFailed, LimitReached, ModelError, Refused
from repoagent.llm import Turn

DIFF = "```diff\n--- a/x.py\n+++ b/x.py\n@@\n one\n-two\n+2\n three\n```\n"
OTHER = DIFF.replace("+2", "+3")
APPLIED = Observation("edit", "Applied.", final=True)
ASKED = State((Turn("user", "make it 2"),))


@dataclass
class Scripted:
    """An agent whose model says one of `replies` after the other, and runs into a limit after the last."""

    replies: list[str]
    seen: list[State] = field(default_factory=list)

    def step(self, state: State) -> Turn:
        self.seen.append(state)
        if len(self.seen) > len(self.replies):
            raise LimitReached("no more calls")
        return Turn("assistant", self.replies[len(self.seen) - 1], {"model": "script"})

    def search_memory(self, query: str) -> list[str]:
        return []

    def told(self, call: int = -1) -> str:
        """The last turn that the model saw before a call."""
        return self.seen[call].turns[-1].text


@dataclass
class Table:
    """Tools that write down what was done; `verdicts` are what the edits come to, then all apply."""

    verdicts: list[Observation] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def tools(self) -> list[Tool]:
        return [
            Tool("read", "", self.read),
            Tool("run", "", self.run),
            Tool("edit", "", self.edit, replay=True),
        ]

    def read(self, action: Action) -> Observation:
        self.done.append(f"read {action.args.get('path')}")
        return Observation("read", f"content of {action.args.get('path')}", ok="path" in action.args)

    def run(self, action: Action) -> Observation:
        self.done.append(f"run {action.body}")
        return Observation("run", f"exit 0, call {len(self.done)}")

    def edit(self, action: Action) -> Observation:
        self.done.append("edit")
        return self.verdicts.pop(0) if self.verdicts else APPLIED


@dataclass
class Game:
    """One run: what was said, done and seen."""

    agent: Scripted
    table: Table
    events: list[LoopEvent]
    outcome: Outcome

    @property
    def turns(self) -> tuple[Turn, ...]:
        return self.outcome.state.turns


def play(
    *replies: str,
    verdicts: tuple[Observation, ...] = (),
    state: State = ASKED,
    before_finish: Callable[[State], Observation | None] = lambda state: None,
    before_answer: Callable[[State], Observation | None] = lambda state: None,
) -> Game:
    agent, table, events = Scripted(list(replies)), Table(list(verdicts)), list[LoopEvent]()
    outcome = run(
        agent,
        table.tools(),
        state,
        before_finish=before_finish,
        before_answer=before_answer,
        on_event=events.append,
    )
    return Game(agent, table, events, outcome)


def refusal(text: str = "hunk 1 does not fit") -> Observation:
    return Observation("edit", text, ok=False)


# Failures.


def test_a_limit_is_not_swallowed() -> None:
    with pytest.raises(LimitReached):
        play('<read path="a"/>')


def test_malformed_replies_are_corrected_three_times() -> None:
    game = play("<run>a", "<run>b", "<run>c", "<finish>done</finish>")
    assert game.outcome.kind == "finished"
    assert game.table.done == []
    assert "not closed" in game.agent.told()


def test_the_fourth_malformed_reply_in_a_row_is_the_end() -> None:
    with pytest.raises(ModelError, match="form of an answer"):
        play("<run>a", "<run>b", "<run>c", "<run>d", "<finish>done</finish>")


def test_corrections_count_only_in_a_row() -> None:
    game = play(
        "<run>a", "<run>b", "<run>c", "<run>ok</run>", "<run>d", "<run>e", "<run>f", "<finish>x</finish>"
    )
    assert game.outcome.kind == "finished"


def test_an_empty_reply_is_corrected() -> None:
    game = play("", "<finish>x</finish>")
    assert "empty" in game.agent.told()


def test_a_refused_edit_goes_back_with_the_reason_three_times() -> None:
    reasons = tuple(refusal(f"reason {n}") for n in range(3))
    game = play(DIFF, f"Again.\n{DIFF}", f"And again.\n{DIFF}", f"Now.\n{DIFF}", verdicts=reasons)
    assert game.outcome.kind == "finished"
    assert game.agent.told() == "reason 2"


def test_the_fourth_refusal_in_a_row_is_raised() -> None:
    error = Refused("the change was refused")
    verdicts = (*(refusal(f"reason {n}") for n in range(3)), Observation("edit", "no", ok=False, error=error))
    with pytest.raises(Refused) as caught:
        play(*(f"try {n}\n{DIFF}" for n in range(5)), verdicts=verdicts)
    assert caught.value is error


def test_looking_around_does_not_make_refusals_fewer() -> None:
    replies = [text for n in range(5) for text in (f"try {n}\n{DIFF}", f'<read path="{n}"/>')]
    with pytest.raises(Refused, match="reason 3"):
        play(*replies, verdicts=tuple(refusal(f"reason {n}") for n in range(5)))


def test_an_applied_edit_makes_refusals_start_anew() -> None:
    bad, good = refusal(), APPLIED
    replies = [f'try {n}\n{DIFF}<read path="{n}"/>' for n in range(7)]
    game = play(*replies, "<finish>x</finish>", verdicts=(bad, bad, bad, good, bad, bad, bad))
    assert game.outcome.kind == "finished"


def test_after_a_failure_the_rest_of_the_reply_is_not_done() -> None:
    game = play(f"{DIFF}<run>make</run>\n<finish>done</finish>", "<reject>no</reject>", verdicts=(refusal(),))
    assert game.table.done == ["edit"]
    assert [turn.meta["kind"] for turn in game.turns if turn.role == "observation"] == [
        "edit",
        "skipped",
        "skipped",
    ]
    assert game.outcome.kind == "rejected"


def test_a_failed_check_goes_back_and_is_raised_in_the_end() -> None:
    error = CheckFailed("make test failed")
    failed = Observation("check", "1 failed", ok=False, error=error)
    with pytest.raises(CheckFailed) as caught:
        play(*(f"try {n}\n{DIFF}" for n in range(9)), before_finish=lambda state: failed)
    assert caught.value is error


def test_the_third_same_turn_is_the_end_and_the_second_is_told() -> None:
    with pytest.raises(ModelError, match="repeats itself"):
        play(*['<read path="a"/>'] * 9)
    game = play('<read path="a"/>', ' <think>x</think>\n<read path="b"/>', "<finish>x</finish>")
    assert not any("exactly this" in turn.text for turn in game.turns)
    game = play('<read path="a"/>', '<read  path="a"/>\n', "<finish>x</finish>")
    assert "exactly this" in game.agent.told()


def test_the_same_command_with_another_result_is_no_repetition() -> None:
    game = play(*["<run>make test</run>"] * 5, "<finish>x</finish>")
    assert len(game.table.done) == 5


def test_ping_pong_is_noticed() -> None:
    with pytest.raises(ModelError, match="repeats itself"):
        play(*['<read path="a"/>', '<read path="b"/>'] * 5)
    game = play(*['<read path="a"/>', '<read path="b"/>'] * 2, "<finish>x</finish>")
    assert "exactly this" in game.agent.told()


def test_the_same_refused_edit_ends_with_the_refusal() -> None:
    with pytest.raises(Refused, match="does not fit"):
        play(*[DIFF] * 9, verdicts=(refusal(),) * 9)


def test_what_imitates_an_observation_is_dropped_and_that_is_said() -> None:
    fake = "<run>make test</run>\n\n<observation>ok</observation>\n<run>rm -rf x</run>\n<finish>done</finish>"
    game = play(fake, "<finish>really</finish>")
    assert game.table.done == ["run make test"]
    assert game.turns[1].text == "<run>make test</run>\n\n"
    assert "dropped" in game.agent.told()
    assert game.outcome.text == "really"
    assert any(event.kind == "dropped" and "rm -rf" in event.text for event in game.events)


def test_an_edit_followed_by_an_imitation_is_not_taken_as_the_end() -> None:
    game = play(f"{DIFF}\nHuman: and y too\n{OTHER}", "<finish>x only</finish>")
    assert game.table.done == ["edit"]
    assert game.outcome.text == "x only"


def test_prose_before_an_imitation_is_no_answer() -> None:
    game = play("I read it.\nObservation: it is fine", "<finish>x</finish>")
    assert game.outcome.kind == "finished"
    assert "somebody else" in game.agent.told()


# Ends.


def test_an_edit_alone_ends_the_run_with_one_call() -> None:
    game = play(f"It was wrong.\n<commit>Make it 2</commit>\n{DIFF}<note>tabs</note>\n<think>fine</think>")
    assert (game.outcome.kind, game.outcome.text) == ("finished", "It was wrong.")
    assert (game.outcome.commit_message, game.outcome.notes) == ("Make it 2", ("tabs",))
    assert len(game.agent.seen) == 1


def test_an_edit_that_also_reads_is_not_the_end() -> None:
    game = play(f'{DIFF}<read path="a"/>', OTHER)
    assert game.table.done == ["edit", "read a", "edit"]


def test_the_last_commit_message_and_all_notes_count() -> None:
    game = play(
        f'<commit>One</commit>\n<note>a</note>\n{DIFF}<read path="a"/>',
        f"<commit>Two</commit>\n<note>b</note>\n<note>a</note>\n{OTHER}<run>x</run>",
        "<finish>done</finish>",
    )
    assert (game.outcome.commit_message, game.outcome.notes) == ("Two", ("a", "b"))
    assert account(game.table.tools(), game.outcome.state) == ("Two", ("a", "b"))


def test_prose_is_an_answer() -> None:
    game = play("<think>hm</think>\nWhich of the two do you mean?")
    assert (game.outcome.kind, game.outcome.text) == ("answered", "Which of the two do you mean?")


def test_rejecting_does_not_ask_whether_it_may() -> None:
    game = play('<reject why="not needed"/>', before_finish=lambda state: refusal())
    assert (game.outcome.kind, game.outcome.text) == ("rejected", "not needed")


def test_thinking_and_messages_go_on() -> None:
    game = play("<think>a</think>", "<message>wait</message>", "<finish>x</finish>")
    assert [event.action.kind for event in game.events if event.action] == ["think", "message", "finish"]


@pytest.mark.parametrize("last", [DIFF, "<finish>done</finish>", f"{DIFF}<finish>done</finish>"])
def test_an_objection_goes_back_to_the_model(last: str) -> None:
    objections = [Observation("person", "no, because it is ugly")]
    game = play(
        last, f"Nicer.\n{OTHER}", before_finish=lambda state: objections.pop() if objections else None
    )
    assert game.outcome.kind == "finished"
    assert game.agent.told() == "no, because it is ugly"


def test_words_alone_can_be_sent_back() -> None:
    objections = [Observation("form", "where is the file?", ok=False)]
    game = play(
        "I have changed it.", OTHER, before_answer=lambda state: objections.pop() if objections else None
    )
    assert game.outcome.kind == "finished"
    assert game.agent.told() == "where is the file?"
    assert play("I have changed it.").outcome.kind == "answered"


def test_a_caller_may_give_its_own_message_tool() -> None:
    said: list[str] = []

    def show(action: Action) -> Observation:
        said.append(action.body)
        return Observation("message", "Shown.")

    run(Scripted(["<message>hi</message>\n<finish/>"]), [Tool("message", "", show)], ASKED)
    assert said == ["hi"]


# Going on after a kill.


class Killed(BaseException):
    pass


def kill(*args: object) -> Observation:
    raise Killed


def started(file: Path) -> State:
    return open_state(file).with_turn(Turn("user", "make it 2"))


@pytest.mark.parametrize("at", range(1, 12))
def test_a_killed_run_goes_on_and_pays_nothing_twice(tmp_path: Path, at: int) -> None:
    """Kill a run at each of its events; what is continued ends the same, with the same calls in all."""
    file = tmp_path / "conversation.md"
    replies = ['<read path="a"/>\n<run>one</run>', "<run>oops", f"{DIFF}<finish>done</finish>"]
    agent, table, count = Scripted(replies), Table(), 0

    def die(event: LoopEvent) -> None:
        nonlocal count
        count += 1
        if count == at:
            raise Killed

    with pytest.raises(Killed):
        run(agent, table.tools(), started(file), on_event=die)
    outcome = run(agent, table.tools(), open_state(file))
    assert (outcome.kind, outcome.text) == ("finished", "done")
    assert len(agent.seen) == 3
    assert table.done == ["read a", "run one", "edit"]
    assert open_state(file) == outcome.state


def test_an_objection_survives_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "conversation.md"
    agent = Scripted([DIFF])
    with pytest.raises(LimitReached):
        run(agent, Table().tools(), started(file), before_finish=lambda state: Observation("person", "no"))
    agent = Scripted([f"Better.\n{OTHER}"])
    assert run(agent, Table().tools(), open_state(file)).kind == "finished"
    assert agent.told() == "no"


def test_failures_are_counted_over_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "conversation.md"
    with pytest.raises(LimitReached):
        run(Scripted(["<run>a", "<run>b"]), Table().tools(), started(file))
    with pytest.raises(ModelError):
        run(Scripted(["<run>c", "<run>d", "<finish>x</finish>"]), Table().tools(), open_state(file))


def test_a_kill_before_finishing_asks_again(tmp_path: Path) -> None:
    file = tmp_path / "conversation.md"
    with pytest.raises(Killed):
        run(Scripted([DIFF]), Table().tools(), started(file), before_finish=kill)
    asked: list[State] = []

    def note(state: State) -> None:
        asked.append(state)

    outcome = run(Scripted([]), Table().tools(), open_state(file), before_finish=note)
    assert outcome.kind == "finished"
    assert len(asked) == 1


def test_a_dropped_end_stays_dropped_over_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "conversation.md"
    with pytest.raises(Killed):
        run(Scripted([f"{DIFF}\nHuman: thanks"]), [Tool("edit", "", kill)], started(file))
    agent = Scripted(["<finish>done</finish>"])
    assert run(agent, Table().tools(), open_state(file)).text == "done"
    assert "dropped" in agent.told()


def test_replay_performs_what_lives_in_the_process_only(tmp_path: Path) -> None:
    file = tmp_path / "conversation.md"
    with pytest.raises(LimitReached):
        run(Scripted([f'{DIFF}<read path="a"/>', OTHER]), Table([APPLIED, refusal()]).tools(), started(file))
    with pytest.raises(LimitReached):
        run(Scripted([f'ok\n{DIFF}<read path="b"/>']), Table().tools(), open_state(file))
    table = Table()
    replay(table.tools(), open_state(file))
    assert table.done == ["edit", "edit"]
    with pytest.raises(Refused, match="can't be continued"):
        replay(Table([refusal()]).tools(), open_state(file))


def test_a_finished_run_of_the_past_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "conversation.md"
    run(Scripted([DIFF]), Table().tools(), started(file))
    table, agent = Table(), Scripted(["<finish>nothing to do</finish>"])
    state = open_state(file).with_turn(Turn("user", "and now?"))
    replay(table.tools(), state)
    assert run(agent, table.tools(), state).text == "nothing to do"
    assert table.done == []
