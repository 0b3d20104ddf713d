"""Detection of repetitions, and of repeated work that is none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.agent.actions import Action
from repoagent.agent.loop_detection import AGAIN, NEAR, PATIENCE, Repetition, repetition
from repoagent.agent.parse_reply import parse
from repoagent.agent.state import Step
from repoagent.llm.conversation import Turn
from repoagent.llm.model import fence

TOOLS = ("read", "run", "edit", "wait", "think", "message")


def actions(step: Step) -> Sequence[Action]:
    return parse(step.reply.text, TOOLS).actions


def step(reply: str, *results: str, ok: bool = True, extra: str = "") -> Step:
    kinds = [action.kind for action in parse(reply, TOOLS).actions]
    metas = [{"kind": kind, "ok": "yes" if ok else "no"} for kind in kinds]
    seen = [Turn("observation", text, meta) for text, meta in zip(results, metas, strict=False)]
    noted = [Turn("observation", "told", {"kind": extra, "extra": extra})] if extra else []
    return Step(Turn("assistant", reply), (*seen, *noted))


def run(command: str, result: str, prose: str = "", extra: str = "") -> Step:
    return step(f"{prose}\n<run>{command}</run>", result, extra=extra)


def edit(number: int, ok: bool = True) -> Step:
    return step(f"Try.\n```diff\n--- a/x.py\n+++ b/x.py\n@@\n-a\n+{number}\n```\n", "Applied.", ok=ok)


def warning(*steps: Step) -> Repetition | None:
    return repetition(steps, actions)


def test_no_steps_are_no_repetition() -> None:
    assert warning() is None
    assert warning(run("make", "ok")) is None


def test_same_reply_with_the_same_result() -> None:
    one = warning(run("make", "ok"), run("make", "ok"))
    assert one == Repetition(
        "You did exactly this before, with the same result. Do something else, finish, or reject.", "repeated"
    )
    warned = run("make", "ok", extra="repeated")
    over = warning(run("make", "ok"), warned, run("make", "ok"))
    assert over is not None
    assert over.over


def test_same_action_with_other_prose_is_detected_later() -> None:
    steps = [run("make", "failed", f"Attempt {n}.") for n in range(NEAR)]
    assert warning(*steps[:-1]) is None
    result = warning(*steps)
    assert result is not None
    assert "repeat the same actions" in result.text
    assert not result.over


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [
        ("1 failed in 0.31s", "1 failed in 12.02s", "1 failed in 3 s"),
        ("<A object at 0x7f00aa11>", "<A object at 0x7f00bb22>", "<A object at 0x1234>"),
        ("no /tmp/tmpab12/x.py", "no /tmp/tmpcd34/y.py", "no /tmp/pytest-3/z"),
        ("2026-11-22 10:00:01,123 error", "2026-11-22T10:00:02Z error", "2026-11-23 error"),
        (fence("at 10:01:02\n", "o"), fence("at 10:01:03\n", "o"), fence("at 10:01:04.5\n", "o")),
        ("x\n" * 200 + "in 1.1 s", "x\n" * 200 + "in 1.2 s", "x\n" * 200 + "in 1 s"),
    ],
)
def test_times_addresses_and_temporary_names_are_ignored(first: str, second: str, third: str) -> None:
    assert warning(run("t", first), run("t", second)) is None
    assert warning(run("t", first), run("t", second), run("t", third)) is not None


@pytest.mark.parametrize("other", ["2 failed", "line 12", "0 of 3"])
def test_other_numbers_count(other: str) -> None:
    assert warning(run("t", "1 failed", "a"), run("t", other, "b"), run("t", "1 failed", "c")) is None


def test_cycles_of_several_steps() -> None:
    for size in (2, 3, 4):
        steps = [run(f"c{n}", f"r{n}", f"round {number}") for number in range(NEAR) for n in range(size)]
        assert warning(*steps[:-1]) is None
        assert warning(*steps) is not None


def test_same_refused_edit_is_a_repetition() -> None:
    patch = edit(1, ok=False).reply.text
    steps = [step(f"{n}\n{patch}", "does not fit", ok=False) for n in range(NEAR)]
    assert warning(*steps) is not None


def test_repeated_read_with_others_in_between() -> None:
    look = '<read path="a.py" lines="1-20"/>'
    steps = [one for n in range(AGAIN) for one in (step(f"{n} {n}\n{look}", "text"), run(f"c{n}", f"{n} x"))][
        :-1
    ]
    result = warning(*steps)
    assert result is not None
    assert (result.extra, result.over) == ("again", False)
    assert "4th time" in result.text
    assert "read a.py 1-20" in result.text
    assert warning(*steps, run("other", "y")) is None
    assert warning(*steps[:2], edit(1), *steps[2:]) is None
    assert warning(*steps[:2], run("x", "y", extra="checkpoint"), *steps[2:]) is None


def test_waiting_may_repeat_longer() -> None:
    waits = [step('<wait id="1"/>', "still running") for _ in range(PATIENCE)]
    assert warning(*waits[:-1]) is None
    assert warning(*waits) is not None


def test_notices_in_between_are_ignored() -> None:
    for extra in ("again", "plan", "checkpoint"):
        assert warning(run("make", "ok", extra=extra), run("make", "ok")) is not None


@given(
    st.lists(
        st.lists(st.sampled_from(["make test", "make lint", "cat x"]), min_size=1, max_size=3, unique=True),
        min_size=1,
        max_size=15,
    ),
    st.sampled_from(["1 failed in 0.3s", "ok"]),
    st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_no_warning_while_edits_and_tests_alternate(
    rounds: list[list[str]], result: str, together: bool
) -> None:
    """Each round is a new edit, and some commands with the same prose and the same results."""
    steps: list[Step] = []
    for number, commands in enumerate(rounds):
        if together:
            text = edit(number).reply.text + "".join(f"<run>{command}</run>\n" for command in commands)
            steps.append(step(text, "Applied.", *[result] * len(commands)))
            assert warning(*steps) is None
            continue
        for one in (edit(number), *(run(command, result) for command in commands)):
            steps.append(one)
            assert warning(*steps) is None


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3)), max_size=40))
@settings(max_examples=30, deadline=None)
def test_result_depends_only_on_the_steps(asked: list[tuple[str, int]]) -> None:
    steps = [run(command, f"result {result}", str(n)) for n, (command, result) in enumerate(asked)]
    result = warning(*steps)
    assert warning(*steps) == result
    if result is not None:  # a detected repetition has an earlier occurrence
        assert asked.count(asked[-1]) > 1
