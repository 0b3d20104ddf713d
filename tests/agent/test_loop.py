"""The loop, driven by an agent that reads its replies from a list; the model agent, and agents from plugins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock

import pytest

from repoagent.agent.actions import Action, Observation
from repoagent.agent.loop import (
    LoopEvent,
    LoopOutcome,
    ModelAgent,
    load_agent,
    message_and_notes,
    replay,
    run_loop,
)
from repoagent.agent.state import Needs, State, Tool, open_state
from repoagent.errors import CheckFailed, LimitReached, ModelError, Refused, UsageError
from repoagent.llm.conversation import Turn, to_messages
from repoagent.llm.model import Part, Reply, Request, Usage
from repoagent.llm.usage import Limits, Meter
from tests.llm import helpers

DIFF = "```diff\n--- a/x.py\n+++ b/x.py\n@@\n one\n-two\n+2\n three\n```\n"
OTHER = DIFF.replace("+2", "+3")
APPLIED = Observation("edit", "Applied.", final=True)
ASKED = State((Turn("user", "make it 2"),))


@dataclass
class Scripted:
    """An agent that returns `replies` one after the other, and raises LimitReached after the last."""

    replies: list[str]
    seen: list[State] = field(default_factory=list)

    def step(self, state: State) -> Turn:
        self.seen.append(state)
        if len(self.seen) > len(self.replies):
            raise LimitReached("no more calls")
        return Turn("assistant", self.replies[len(self.seen) - 1], {"model": "script"})

    def last_seen(self, call: int = -1) -> str:
        """The last turn that the model saw before a call."""
        return self.seen[call].turns[-1].text


@dataclass
class Table:
    """Tools that record their actions; `verdicts` are the results of the first edits, later ones apply."""

    verdicts: list[Observation] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def tools(self) -> list[Tool]:
        return [
            Tool("read", '<read path="FILE" lines="1-9"/> shows a file.', self.read, needs="nothing"),
            Tool("run", "<run>COMMAND</run> runs it.", self.run, needs=self.needs),
            Tool("edit", "", self.edit, replay=True),
        ]

    def read(self, action: Action) -> Observation:
        path = action.args.get("path")
        self.done.append(f"read {path}")
        return Observation("read", f"content of {path}", ok=path is not None)

    def needs(self, action: Action) -> Needs:
        return "nothing" if action.body.startswith("ls") else "writes"

    def run(self, action: Action) -> Observation:
        self.done.append(f"run {action.body}")
        if action.body in {"false", "denied"}:
            return Observation("run", "failed", ok=False, blocks=action.body == "denied")
        return Observation("run", f"exit 0, call {len(self.done)}")

    def edit(self, action: Action) -> Observation:
        self.done.append("edit")
        return self.verdicts.pop(0) if self.verdicts else APPLIED


class Game(NamedTuple):
    """One run: its agent, tools and events."""

    agent: Scripted
    table: Table
    events: list[LoopEvent]
    outcome: LoopOutcome
    turns: tuple[Turn, ...]


def play(
    *replies: str,
    verdicts: Sequence[Observation] = (),
    state: State = ASKED,
    file: Path | None = None,
    tools: Sequence[Tool] = (),
    **hooks: Callable[[State], Observation | None],
) -> Game:
    """One run, which begins or continues in `file`, if there is one."""
    agent, table, events = Scripted(list(replies)), Table(list(verdicts)), list[LoopEvent]()
    if file:
        state = open_state(file) if file.exists() else open_state(file).with_turn(*ASKED.turns)
    outcome = run_loop(agent, tools or table.tools(), state, on_event=events.append, **hooks)
    return Game(agent, table, events, outcome, outcome.state.turns)


def refusal(text: str = "hunk 1 does not fit") -> Observation:
    return Observation("edit", text, ok=False)


THREE = ("<run>a", "<run>b", "<run>c")  # malformed replies
ON = "<finish>x</finish>"
READ, OF_B = '<read path="a"/>', '<read path="b"/>'


@pytest.mark.parametrize(("replies", "verdicts", "done", "expected"), [
    ((*THREE, ON), (), [], "not closed"),
    ((*THREE, "<run>ok</run>", *THREE, ON), (), ["run ok"], "not closed"),
    (("", ON), (), [], "empty"),
    ([f"try {n}\n{DIFF}" for n in range(4)], [refusal(f"reason {n}") for n in range(3)], ["edit"] * 4, "reason 2"),
    ([*(f'try {n}\n{DIFF}<read path="{n}"/>' for n in range(7)), ON], (*[refusal()] * 3, APPLIED, *[refusal()] * 3),
     [done for n in range(7) for done in ("edit", f"read {n}")], "content of 6"),
    ((READ, '<read  path="a"/>\n', ON), (), ["read a"] * 2, "exactly this"),
    ((READ, OF_B, READ, OF_B, ON), (), ["read a", "read b"] * 2, "exactly this"),
    ((READ, f" <think>x</think>\n{OF_B}", ON), (), ["read a", "read b"], "content of b"),
    ((*["<run>make test</run>"] * 5, ON), (), ["run make test"] * 5, "exit 0, call 5"),
    (("I read it.\nObservation: it is fine", ON), (), [], "another speaker"),
    ((f"{DIFF}\nHuman: and y too\n{OTHER}", ON), (), ["edit"], "dropped"),
    ((f"{DIFF}{READ}", OTHER), (), ["edit", "read a", "edit"], "content of a"),
])  # fmt: skip
def test_failure_is_returned_to_the_model(
    replies: Sequence[str], verdicts: Sequence[Observation], done: list[str], expected: str
) -> None:
    game = play(*replies, verdicts=verdicts)
    assert (game.outcome.kind, game.table.done) == ("finished", done)
    assert expected in game.agent.last_seen()
    assert game.outcome.text == ("x" if replies[-1] == ON else game.outcome.text)


NO = Refused("the change was refused")
TRIES = [f"try {n}\n{DIFF}" for n in range(9)]


@pytest.mark.parametrize(("replies", "verdicts", "error", "message"), [
    ([READ], (), LimitReached, "no more calls"),
    ([*THREE, "<run>d", ON], (), ModelError, "malformed after 3 corrections"),
    (TRIES, [*[refusal()] * 3, Observation("edit", "no", ok=False, error=NO)], Refused, "the change was"),
    ([text for n in range(5) for text in (TRIES[n], f'<read path="{n}"/>')], [refusal(f"reason {n}") for n in range(5)],
     Refused, "reason 3"),
    ([DIFF] * 9, [refusal()] * 9, Refused, "does not fit"),
    ([READ] * 9, (), ModelError, "stuck in a loop"),
    ([READ, OF_B] * 5, (), ModelError, "stuck in a loop"),
])  # fmt: skip
def test_repeated_failure_is_raised(
    replies: Sequence[str], verdicts: Sequence[Observation], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        play(*replies, verdicts=verdicts)
    assert (caught.value is NO) == (message == "the change was")


def test_failed_check_is_returned_and_finally_raised() -> None:
    error = CheckFailed("make test failed")
    failed = Observation("check", "1 failed", ok=False, error=error)
    with pytest.raises(CheckFailed) as caught:
        play(*TRIES, before_finish=lambda state: failed)
    assert caught.value is error


@pytest.mark.parametrize(("reply", "done"), [
    (f"<read/>\n{OF_B}\n<run>ls</run>\n<run>make</run>", ["read None", "read b", "run ls", "run make"]),
    (f"<read/>\n{DIFF}", ["read None", "edit"]),
    ("<run>false</run>\n<run>make</run>\n<finish>ok</finish>", ["run false", "run make"]),
    ("<run>denied</run>\n<run>make</run>\n<run>ls</run>", ["run denied", "run ls"]),
    ("<read/>\n<finish>ok</finish>", ["read None"]),
    ("<run>false</run>\n<message>hm</message>\n<finish>ok</finish>", ["run false"]),
])  # fmt: skip
def test_failure_skips_only_actions_that_need_it(reply: str, done: list[str]) -> None:
    game = play(reply, "<reject>no</reject>")
    assert (game.table.done, game.outcome.kind) == (done, "rejected")
    assert game.outcome.messages == (("hm",) if "<message>" in reply else ())


def test_refused_edit_skips_writes_but_not_look_ups() -> None:
    reply = f'{DIFF}<run>make</run>\n<read path="x"/>\n<run>ls x</run>\n<finish>done</finish>'
    game = play(reply, "<reject>no</reject>", verdicts=(refusal(),))
    assert game.table.done == ["edit", "read x", "run ls x"]
    assert "run was not performed because an earlier `edit` failed." in [turn.text for turn in game.turns]
    kinds = [turn.meta["kind"] for turn in game.turns if turn.role == "observation"]
    assert kinds == ["edit", "skipped", "read", "run", "skipped"] and game.outcome.kind == "rejected"


@pytest.mark.parametrize("at", range(1, 7))
def test_skipped_actions_are_the_same_after_a_kill(at: int) -> None:
    """Killed at any point of a reply with a failure, even one that an older version has begun."""
    reply = f"<read/>\n<run>false</run>\n{DIFF}<run>make</run>\n<run>ls</run>\n<finish>done</finish>"
    whole = play(reply, "<reject>no</reject>", verdicts=(refusal(),))
    state = State((*ASKED.turns, *whole.turns[1 : 1 + at]))
    again = play("<reject>no</reject>", state=state, verdicts=(refusal(),))
    assert [turn.meta.get("kind") for turn in again.turns] == [turn.meta.get("kind") for turn in whole.turns]
    assert "run make" not in again.table.done
    older = tuple(
        replace(turn, meta={k: v for k, v in turn.meta.items() if k != "blocks"}) for turn in state.turns
    )
    again = play("<reject>no</reject>", state=State(older), verdicts=(refusal(),))
    assert again.outcome.kind == "rejected"
    assert "run make" not in again.table.done  # actions that were skipped after a failure stay skipped


# Calls in the format of another program.

FENCE = "I look first.\n```bash\nls -l\n```"
FOREIGN = (
    "<bash>ls -l</bash>",
    "Let me look.\n\nThen on.\n<execute_command>\n<command>ls</command>\n</execute_command>",
    '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>',
    '<tool_call>{"name": "read", "arguments": {"path": "a.py"}}',
    '<function_calls>\n<invoke name="shell">\nls\n</invoke>\n</function_calls>',
    "<str_replace path='a'>x</str_replace>",
    "<browse url='https://a.org'/>",
    "I run it.\n<python>print(1)</python>",
    FENCE,
)


def test_foreign_call_is_not_an_answer() -> None:
    for reply in FOREIGN:
        game = play(reply, "<finish>ok</finish>")
        assert game.outcome.kind == "finished" and not game.table.done
        problem = game.agent.last_seen()
        assert problem.startswith("Nothing in your last reply was performed: ") and "write a tag (" in problem
        assert ("send it again" in problem) is (reply == FENCE)


def test_advice_on_a_foreign_call_names_a_patch_only_if_there_are_edits() -> None:
    tools = Table([]).tools()
    assert "read, run), or a patch, as" in play(FOREIGN[0], ON, tools=tools).agent.last_seen()
    assert "read, run), as" in play(FOREIGN[0], ON, tools=tools[:2]).agent.last_seen()


def test_repeated_shell_block_is_the_answer() -> None:
    answer = FENCE.replace("I look first", "Say this")
    outcome = play(FENCE, answer).outcome
    assert (outcome.kind, outcome.text) == ("answered", answer)
    assert play(FENCE, "<run>ls</run>", FENCE, ON).outcome.kind == "finished"


def test_answer_with_code_is_an_answer() -> None:
    for reply in (
        "Run this:\n```bash\nmake\n```\nIt builds all of it.",
        "First:\n```sh\nmake\n```\nthen\n```sh\nmake install\n```",
        "It is `<bash>` in that program.",
        "Write\n```xml\n<bash>ls</bash>\n```\nthere.",
        "It is this.\n\n" + "A long answer. " * 30 + "\n```bash\nmake\n```",
        "T is generic:\n<T> is its parameter.",
        '{"name": "bash", "arguments": {"command": "ls"}}',
        "<details>\nmore\n</details>\n\nThat is all.",
        "The template has\n<list_item name='a'>one</list_item>",
        "The element is\n<run_id>5</run_id>\n<apply_filter/>\n<image_search/>",
        "```python\nprint(1)\n```",
    ):
        assert play(reply).outcome.kind == "answered", reply


def test_once_is_appended_to_the_last_observation_of_its_kind() -> None:
    def task(action: Action) -> Observation:
        return Observation("task", f"Added {action.body}", once="PLAN")

    reply = f"<task>1</task>\n<task>2</task>\n{READ}\n<task>3</task>\n"
    game = play(reply, ON, tools=[*Table().tools(), Tool("task", "", task)])
    seen = [turn.text for turn in game.turns if turn.meta.get("kind") == "task"]
    assert seen == ["Added 1", "Added 2", "Added 3\nPLAN"]


def test_other_text_and_messages_are_in_the_outcome() -> None:
    first = "<message>half way</message>\n<run>make</run>"
    game = play(first, "b.py is not done.\n<finish>a.py is done</finish>")
    outcome, words = game.outcome, [event.words for event in game.events if event.kind == "reply"]
    assert (outcome.text, outcome.words) == ("a.py is done", "b.py is not done.")
    assert outcome.messages == ("half way",) and words[-1] == "b.py is not done.\n\na.py is done"


def test_imitated_observation_is_dropped_and_reported() -> None:
    fake = "<run>make test</run>\n\n<observation>ok</observation>\n<run>rm -rf x</run>\n<finish>done</finish>"
    game = play(fake, "<finish>really</finish>")
    assert game.table.done == ["run make test"]
    assert game.turns[1].text == "<run>make test</run>\n\n"
    assert "dropped" in game.agent.last_seen()
    assert game.outcome.text == "really"
    assert any(event.kind == "dropped" and "rm -rf" in event.text for event in game.events)


# The end of a run.


def test_single_edit_ends_the_run_with_one_call() -> None:
    game = play(f"Only half.\n<commit>Make it 2</commit>\n{DIFF}<note>tabs</note>\n<think>fine</think>")
    assert (game.outcome.kind, game.outcome.text) == ("finished", "Only half.")
    assert (game.outcome.commit_message, game.outcome.notes) == ("Make it 2", ("tabs",))
    assert len(game.agent.seen) == 1


def test_last_commit_message_and_all_notes_count() -> None:
    game = play(
        f'<commit>One</commit>\n<note>a</note>\n{DIFF}<read path="a"/>',
        f"<commit>Two</commit>\n<note>b</note>\n<note>a</note>\n{OTHER}<run>x</run>",
        "<finish>done</finish>",
    )
    assert (game.outcome.commit_message, game.outcome.notes) == ("Two", ("a", "b"))
    assert message_and_notes(game.table.tools(), game.outcome.state) == ("Two", ("a", "b"))


@pytest.mark.parametrize(("replies", "kind", "text"), [
    (["<think>hm</think>\nWhich of the two do you mean?"], "answered", "Which of the two do you mean?"),
    (["I have changed it."], "answered", "I have changed it."),
    (['<reject why="not needed"/>'], "rejected", "not needed"),
    (["<think>a</think>", "<message>wait</message>", "<finish>x</finish>"], "finished", "x"),
])  # fmt: skip
def test_end_of_a_run(replies: list[str], kind: str, text: str) -> None:
    outcome = play(*replies).outcome
    assert (outcome.kind, outcome.text) == (kind, text)


@pytest.mark.parametrize(
    "last", [DIFF, "<finish>done</finish>", f"{DIFF}<finish>done</finish>", "It is changed."]
)
def test_objection_is_returned_to_the_model(last: str) -> None:
    objections = iter([Observation("person", "no, because it is ugly")])
    once = {hook: lambda state: next(objections, None) for hook in ("before_finish", "before_answer")}
    game = play(last, f"Nicer.\n{OTHER}", **once)
    assert game.outcome.kind == "finished"
    assert game.agent.last_seen() == "no, because it is ugly"
    rejected = play("<reject>x</reject>", before_finish=lambda state: refusal())
    assert rejected.outcome.kind == "rejected"  # which is not checked


# Resuming after a kill.


class Killed(BaseException):
    pass


KILL = Mock(side_effect=Killed)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "conversation.md"


@pytest.mark.parametrize("at", range(1, 12))
def test_killed_run_resumes_without_repeated_calls(file: Path, at: int) -> None:
    """Kill a run at each of its events; the resumed run ends the same, with the same total number of calls."""
    replies = ['<read path="a"/>\n<run>one</run>', "<run>oops", f"{DIFF}<finish>done</finish>"]
    agent, table, events = Scripted(replies), Table(), list[LoopEvent]()

    def die(event: LoopEvent) -> None:
        events.append(event)
        if len(events) == at:
            raise Killed

    with pytest.raises(Killed):
        run_loop(agent, table.tools(), open_state(file).with_turn(Turn("user", "make it 2")), on_event=die)
    outcome = run_loop(agent, table.tools(), open_state(file))
    assert (outcome.kind, outcome.text) == ("finished", "done")
    assert len(agent.seen) == 3 and table.done == ["read a", "run one", "edit"]
    assert open_state(file) == outcome.state


def test_objection_survives_a_kill(file: Path) -> None:
    with pytest.raises(LimitReached):
        play(DIFF, file=file, before_finish=lambda state: Observation("person", "no"))
    game = play(f"Better.\n{OTHER}", file=file)
    assert game.outcome.kind == "finished" and game.agent.last_seen() == "no"


def test_failures_are_counted_across_a_kill(file: Path) -> None:
    with pytest.raises(LimitReached):
        play("<run>a", "<run>b", file=file)
    with pytest.raises(ModelError):
        play("<run>c", "<run>d", ON, file=file)


def test_finish_is_checked_again_after_a_kill(file: Path) -> None:
    with pytest.raises(Killed):
        play(DIFF, file=file, before_finish=KILL)
    checked: list[State] = []
    assert play(file=file, before_finish=checked.append).outcome.kind == "finished" and len(checked) == 1


def test_dropped_end_stays_dropped_after_a_kill(file: Path) -> None:
    with pytest.raises(Killed):
        play(f"{DIFF}\nHuman: thanks", file=file, tools=[Tool("edit", "", KILL)])
    game = play(ON, file=file)
    assert game.outcome.text == "x" and "dropped" in game.agent.last_seen()


def test_replay_repeats_actions_without_lasting_effects(file: Path) -> None:
    with pytest.raises(LimitReached):
        play(f"{DIFF}{READ}", OTHER, file=file, verdicts=[APPLIED, refusal()])
    with pytest.raises(LimitReached):
        play(f"ok\n{DIFF}{OF_B}", file=file)
    table = Table()
    replay(table.tools(), open_state(file))
    assert table.done == ["edit", "edit"]
    with pytest.raises(Refused, match="cannot continue"):
        replay(Table([refusal()]).tools(), open_state(file))


def test_finished_earlier_run_is_ignored(file: Path) -> None:
    play(DIFF, file=file)
    table = Table()
    state = open_state(file).with_turn(Turn("user", "and now?"))
    replay(table.tools(), state)
    assert run_loop(Scripted([ON]), table.tools(), state).text == "x"
    assert table.done == []


# The model agent, and agents from plugins.


def parrot(reply: str) -> helpers.Scripted:
    """A model that repeats one reply."""
    return helpers.Scripted([Reply(reply, "end", Usage(input=10, output=5), "parrot-1")] * 9)


def prompt(state: State) -> tuple[Request, ...]:
    return (Request((Part("system"),), to_messages(state.turns, state.nonce)),)


def talk(model: helpers.Scripted, limits: Limits, heard: list[str]) -> LoopOutcome:
    return run_loop(ModelAgent(model, Meter(limits), prompt, on_text=heard.append), [], ASKED)


def test_limit_ends_an_endless_run() -> None:
    model = parrot("<think>hm</think>")
    with pytest.raises(LimitReached):
        talk(model, Limits(turns=2), [])
    assert len(model.seen) == 2
    last = model.seen[-1].messages[-1]
    assert last.role == "user" and "Noted." in last.text


def test_text_is_streamed_and_the_turn_names_the_model() -> None:
    heard: list[str] = []
    outcome = talk(parrot("Which one?"), Limits(), heard)
    assert heard == ["Which one?"] and outcome.kind == "answered"
    assert outcome.state.turns[-1].meta == {"model": "parrot-1"}


def test_replies_to_several_prompts_are_joined() -> None:
    parts = iter([{"sent": "first", "kind": "one"}, {"sent": "second", "kind": "one"}])
    model = parrot("x")
    agent = ModelAgent(model, Meter(), lambda state: prompt(state) * 2, on_reply=lambda *_: next(parts))
    meta = {"model": "parrot-1", "sent": "first second", "kind": "one"}
    assert agent.step(ASKED) == Turn("assistant", "x\n\nx", meta)


def test_agents_are_loaded_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a distribution with three agents: a valid one, one without its module, one without its name."""
    info = tmp_path / "clever_agents-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: clever-agents\nVersion: 1.0\n")
    points = "clever = clever_agents:Clever\ngone = no_such_module:X\nempty = clever_agents:Nothing\n"
    (info / "entry_points.txt").write_text(f"[repoagent.agents]\n{points}")
    (tmp_path / "clever_agents.py").write_text("class Clever: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_agent("clever").__name__ == "Clever" and load_agent() is ModelAgent
    with pytest.raises(UsageError, match="clever, empty, gone, model"):
        load_agent("stupid")
    for name in ("gone", "empty"):
        with pytest.raises(UsageError, match=f"could not load agent {name}"):
            load_agent(name)
