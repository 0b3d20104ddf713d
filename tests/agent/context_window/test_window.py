"""The turns of a long conversation to send: checkpoints, and invariants of every conversation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent.agent.context_window.checkpoint import (
    HEADINGS,
    CheckpointFacts,
    body_of,
    facts_from_turns,
    is_checkpoint,
)
from repoagent.agent.context_window.window import (
    WORDS,
    Window,
    estimate_turns,
    latest_checkpoint,
    tokens_for_turns,
    with_cache_breakpoints,
    without_older_attachments,
)
from repoagent.agent.state import State, open_state, steps_of_run
from repoagent.errors import LimitReached, ModelError, UsageError
from repoagent.llm.conversation import Turn, dumps, loads, to_messages
from repoagent.llm.model import Message, Part, Request, fence

TOOLS = ("read", "run", "edit", "task")
WRITTEN = "\n".join(f"## {name}\nabout {name.lower()}" for name in HEADINGS)


user, reply = partial(Turn, "user"), partial(Turn, "assistant")


def seen(kind: str, text: str, **meta: str) -> Turn:
    return Turn("observation", text, {"kind": kind, "ok": "yes", **meta})


def lines(count: int, word: str = "line") -> str:
    return "".join(f"{word} {number}\n" for number in range(count))


def read(path: str, first: int, last: int, blob: str = "b") -> list[Turn]:
    text = fence(lines(last - first + 1, path), f'file path="{path}" blob="{blob}" lines="{first}-{last}"')
    return [reply(f'I look.\n<read path="{path}" lines="{first}-{last}"/>'), seen("read", text)]


def long(count: int, size: int = 60) -> list[Turn]:
    """The turns of `count` steps."""
    return [turn for n in range(count) for turn in read(f"f{n}.py", 1, size)]


def writer(text: str = WRITTEN, error: Exception | None = None) -> Mock:
    """A model that writes checkpoints."""
    return Mock(return_value=(text, {"model": "m", "tokens": "10+2"}), side_effect=error)


def test_window_without_room_is_refused() -> None:
    fixed = Request((Part("x" * 30_000),), (Message("user", (Part("y"),)),))
    with pytest.raises(UsageError, match=r"leaves about 0 of 8,000 tokens"):
        tokens_for_turns(8_000, 2_000, fixed)
    assert tokens_for_turns(20_000, 2_000, fixed) == 20_000 - 2_000 - 10_000 - 1


def test_checkpoint_is_requested_with_the_sent_turns_and_replaces_them(tmp_path: Path) -> None:
    state = State((user("do it"), *long(40)), file=tmp_path / "c.md")
    window = Window(10_000, TOOLS, tmp_path / "checkpoint.md")
    assert window.is_due(state)
    ask = writer()
    after = window.ready(state, ask, lambda _: CheckpointFacts("[x] 1. A", ("a.py",), ("exit 1: make",)))
    ask.assert_called_once()
    (sent,) = ask.call_args.args
    assert sent[:-1] == state.turns[: len(sent) - 1] and "## Tried and failed" in sent[-1].text
    assert estimate_turns(sent) <= window.budget
    turn = after.turns[-1]
    assert (turn.meta["by"], turn.meta["model"], turn.meta["extra"]) == ("model", "m", "checkpoint")
    shown = window.turns(after)
    assert shown == (state.turns[0], turn, *state.turns[-len(shown[2:]) :]) and shown[2].role == "assistant"
    assert not window.is_due(after) and estimate_turns(shown) < window.budget * 0.55
    body = (tmp_path / "checkpoint.md").read_text()
    assert body.startswith("## Goal\nabout goal") and "[x] 1. A" in body and "- exit 1: make" in body
    assert body_of(turn.text) == body.rstrip("\n")
    assert steps_of_run(after.turns)[-1].performed == steps_of_run(state.turns)[-1].performed


@pytest.mark.parametrize("error", [LimitReached("no"), ModelError("no"), None])
def test_run_continues_without_a_checkpoint_from_the_model(error: Exception | None) -> None:
    tested = seen("run", "exit 2 after 0.1 s\n" + fence("exit 0\n", "o"))
    turns = [user("do it"), *long(30), reply("Now the tests.\n<run>make test</run>"), tested]
    turns += [reply("Fix.\n```diff\n--- a/x.py\n+++ b/x.py\n@@\n-a\n+b\n```\n"), seen("edit", "Applied.")]
    ask = writer("I would rather go on.\n<run>rm -rf x</run>", error)
    state = Window(10_000, TOOLS).ready(State(tuple(turns)), ask, force=True)
    text = state.turns[-1].text
    assert state.turns[-1].meta["by"] == "program"
    assert "- Now the tests.; run make test (exit 2)" in text and "- exit 2: make test" in text
    assert "- Fix.; edit x.py" in text and "Files changed:\n- x.py" in text
    assert "rm -rf" not in text


def test_checkpoint_is_made_only_if_it_helps() -> None:
    window = Window(20_000, TOOLS)
    empty = State((user("x"),))
    assert window.ready(empty, force=True) == empty
    short = State((user("x"), *long(9)))
    assert window.ready(short) == short and window.turns(short) == short.turns
    state = window.ready(short, force=True)
    assert len(window.turns(state)) < 9
    assert window.ready(state, force=True) == state
    ask = writer()
    state = Window(3_000, TOOLS).ready(State((user("x"), *long(30))), ask)
    assert state.turns[-1].meta["by"] == "program" and not ask.called  # too small to be worth a call


def test_conversation_truncated_by_the_user_has_a_window() -> None:
    window = Window(8_000, TOOLS)
    turns = (user("x"), *long(3), seen("checkpoint", "c", extra="checkpoint", keeps="99", budget="?"))
    assert window.turns(State(turns)) == (turns[0], turns[-1], *turns[1:-1])
    mark = seen("checkpoint", "c", extra="checkpoint", keeps="1", budget="8000")
    odd = (user("x"), *long(1), mark, reply("y"))
    assert window.turns(State(odd)) == (odd[0], odd[3], odd[4])


def test_older_messages_of_the_user_are_cut_first() -> None:
    words = [user(f"{n} begins\n{lines(400)}ends {n}") for n in range(4)]
    last = user("now\n" + lines(200) + "end")
    window = Window(4_000, TOOLS)
    shown = window.turns(window.ready(State((*words, last))))
    *older, kept = [turn for turn in shown if turn.role == "user"]
    assert kept == last and len(older) == 4
    for number, turn in enumerate(older):
        assert turn.text.startswith(f"{number} begins") and turn.text.endswith(f"ends {number}")
        assert "is omitted" in turn.text
    assert estimate_turns(shown) <= 4_000


def test_facts_from_the_conversation() -> None:
    turns = [reply("<run>make</run>\n<run>ls</run>"), seen("run", "exit code 0"), seen("run", "no", ok="no")]
    turns += [reply("<run>make</run>"), seen("run", "exited with 3")]
    assert facts_from_turns([user("x"), *turns], TOOLS).commands == ("failed: ls", "exit 3: make")


def test_cache_marks_are_reused_by_the_next_request() -> None:
    messages = to_messages((user("x"), *long(3)), "abc")
    request = with_cache_breakpoints(Request((), messages))
    marks = [part.cache for message in request.messages for part in message.parts]
    assert marks == [True, False, False, False, True, False, True]
    assert [m.text for m in request.messages] == [m.text for m in messages]


# Invariants of every conversation.

TEXT = st.builds(
    lambda word, count, wide: (word + ("\n" if wide else " ")) * count,
    st.sampled_from(["a", "if x:", "é", "</x"]),
    st.integers(1, 900),
    st.booleans(),
)
OBSERVED = st.one_of(
    st.builds(lambda text: [seen("run", f"exit 1\n{fence(text, 'output')}")], TEXT),
    st.builds(lambda a, n: [read(f"{a}.py", 1, n)[1]], st.sampled_from("ab"), st.integers(1, 300)),
    st.builds(lambda text: [seen("message", text), seen("plan", "p", extra="plan")], TEXT),
)
RESULTS = st.lists(OBSERVED, min_size=1, max_size=3)
STEP = st.builds(lambda text, results: [reply(text), *chain.from_iterable(results)], TEXT, RESULTS)
WORD = st.builds(lambda text: [user(text)], TEXT)
NOTED = st.just([user("and"), seen("before_turn", "tests fail")])
WRITERS = st.sampled_from(
    [None, writer(WRITTEN + lines(5)), writer(WRITTEN + lines(3_000)), writer(error=LimitReached("no"))]
)


@pytest.mark.soak
@given(
    TEXT,
    st.lists(st.one_of(STEP, STEP, STEP, STEP, WORD, NOTED), min_size=1, max_size=14),
    st.integers(2_000, 12_000),
    WRITERS,
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.data_too_large])
def test_invariants_of_a_window(first: str, units: list[list[Turn]], budget: int, ask: Mock | None) -> None:
    window = Window(budget, TOOLS)
    state = State((user(first),), nonce="7f3a9c21")
    before: tuple[Turn, ...] = ()
    count = 0
    for unit in units:
        state = window.ready(replace(state, turns=(*state.turns, *unit)), ask)
        shown = window.turns(state)
        assert estimate_turns(shown) <= budget and not window.is_due(state)
        made = sum(map(is_checkpoint, state.turns))
        if made == count:
            assert shown[: len(before)] == before
        before, count = shown, made
        check(state, shown, budget)


def check(state: State, shown: tuple[Turn, ...], budget: int) -> None:
    turns = state.turns
    words = [turn for turn in turns if turn.role == "user"]
    sent = [turn for turn in shown if turn.role == "user"]
    assert len(sent) == len(words)
    if estimate_turns(words) <= budget * WORDS:
        assert sent == words
    mark = latest_checkpoint(turns)
    start = mark[1] if mark else 0
    rest = [turn for n, turn in enumerate(turns) if turn.role == "user" or n >= start]
    expected = [(turn.role, turn.meta) for turn in rest if not is_checkpoint(turn)]
    assert [(turn.role, turn.meta) for turn in shown if not is_checkpoint(turn)] == expected
    is_border = turns[start].role != "observation" or turns[start - 1].role == "user"
    assert start in {0, len(turns) - 1} or is_border
    assert sum(map(is_checkpoint, shown)) == (mark is not None)
    text = "".join(message.text for message in to_messages(shown, state.nonce))
    assert all(turn.text in text for turn in shown)
    again = loads(dumps(turns, state.nonce))
    assert Window(99, ()).turns(State(again.turns, again.nonce)) == shown


def test_requests_grow_between_checkpoints_and_are_the_same_after_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "c.md"
    window = Window(8_000, TOOLS, tmp_path / "checkpoint.md")
    state = State(file=file).with_turn(user("x"))
    ask = writer()
    sent, rewritten = "", 0
    for turn in long(40):
        if turn.role == "assistant":
            state = window.ready(state, ask)
            text = "".join(message.text for message in to_messages(window.turns(state), state.nonce))
            rewritten += not text.startswith(sent)
            sent = text
        state = state.with_turn(turn)
    resumed = open_state(file)
    assert resumed.turns == state.turns
    assert to_messages(window.turns(resumed), resumed.nonce) == to_messages(window.turns(state), state.nonce)
    # between checkpoints a request begins with the text of the last one, for the cache of the provider
    assert rewritten == ask.call_count == sum(map(is_checkpoint, state.turns)) > 1


def test_image_counts_and_is_omitted_like_a_long_result() -> None:
    attached = f"{'a' * 32}.png 4000 shot.png"
    plain, image = seen("read", "shot.png is a PNG"), seen("read", "shot.png is a PNG", attached=attached)
    assert estimate_turns([image]) == estimate_turns([plain]) + 4000
    turns = [user("look"), reply("<read/>"), image, *read("a.py", 1, 5), reply("<read/>"), image]
    early, late = (
        turn for turn in without_older_attachments(turns) if "PNG" in turn.text or "shot" in turn.text
    )
    assert early.text == "(shot.png: left out. Read it again if you need it.)"
    assert "attached" not in early.meta and late == image
    state = State(tuple(turns))
    window = Window(20_000, TOOLS)
    assert window.turns(state) == state.turns  # all turns in order, until a checkpoint is due
    after = window.turns(window.ready(State((*turns, *long(40))), None))
    assert not [turn for turn in after if "attached" in turn.meta]
