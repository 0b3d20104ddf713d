"""Detection of repetitions, and of repeated work that is none."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.agent.actions import Action
from repoagent.agent.parse_reply import parse_reply
from repoagent.agent.state import NEAR, PATIENCE, Step, repetition_warning
from repoagent.llm.conversation import Turn
from repoagent.llm.model import fence

TOOLS = ("read", "run", "edit", "wait", "think", "message")


def actions(step: Step) -> Sequence[Action]:
    return parse_reply(step.reply.text, TOOLS).actions


def step(reply: str, *results: str, ok: bool = True, extra: str = "") -> Step:
    calls = zip(parse_reply(reply, TOOLS).actions, results, strict=True)
    status = "yes" if ok else "no"
    seen = [Turn("observation", text, {"kind": call.kind, "ok": status}) for call, text in calls]
    noted = [Turn("observation", "told", {"kind": extra, "extra": extra})] if extra else []
    return Step(Turn("assistant", reply), (*seen, *noted))


def run(command: str, result: str, prose: str = "", extra: str = "") -> Step:
    return step(f"{prose}\n<run>{command}</run>", result, extra=extra)


def edit(number: int, ok: bool = True, prose: str = "Try.") -> Step:
    patch = f"```diff\n--- a/x.py\n+++ b/x.py\n@@\n-a\n+{number}\n```\n"
    return step(f"{prose}\n{patch}", "Applied." if ok else "does not fit", ok=ok)


def warning(*steps: Step) -> str:
    return repetition_warning(steps, actions)


def test_same_reply_with_the_same_result() -> None:
    assert warning() == warning(run("make", "ok")) == ""
    text = "You did exactly this before, with the same result. Do something else, finish, or reject."
    assert warning(run("make", "ok"), run("make", "ok")) == text
    for extra in ("plan", "checkpoint"):  # notices in between are ignored
        assert warning(run("make", "ok", extra=extra), run("make", "ok"))


def test_similar_steps_are_detected_later() -> None:
    attempts = [run("make", "failed", f"Attempt {n}.") for n in range(NEAR)]
    waits = [step('<wait id="1"/>', "still running") for _ in range(PATIENCE)]
    cycles = [
        [run(f"c{n}", f"r{n}", f"round {i}") for i in range(NEAR) for n in range(size)] for size in (2, 3, 4)
    ]
    for steps in (attempts, waits, *cycles):
        assert not warning(*steps[:-1]) and warning(*steps)


RESULTS = [  # three results of one command, and whether they are the same
    (("1 failed in 0.31s", "1 failed in 12.02s", "1 failed in 3 s"), True),
    (("<A object at 0x7f00aa11>", "<A object at 0x7f00bb22>", "<A object at 0x1234>"), True),
    (("no /tmp/tmpab12/x.py", "no /tmp/tmpcd34/y.py", "no /tmp/pytest-3/z"), True),
    (("2026-11-22 10:00:01,123 error", "2026-11-22T10:00:02Z error", "2026-11-23 error"), True),
    ((fence("at 10:01:02\n", "o"), fence("at 10:01:03\n", "o"), fence("at 10:01:04.5\n", "o")), True),
    (("x\n" * 200 + "in 1.1 s", "x\n" * 200 + "in 1.2 s", "x\n" * 200 + "in 1 s"), True),
    (("1 failed", "2 failed", "1 failed"), False),
    (("line 11", "line 12", "line 11"), False),
    (("0 of 4", "0 of 3", "0 of 4"), False),
]


def test_times_addresses_and_temporary_names_are_ignored() -> None:
    for results, is_same in RESULTS:
        steps = [run("t", result) for result in results]
        assert not warning(*steps[:2]) and bool(warning(*steps)) is is_same, results


def test_edit_or_checkpoint_ends_a_series() -> None:
    steps = [run("t", "1 failed", f"Attempt {n}.") for n in range(NEAR)]
    assert not warning(*steps[:1], edit(1), *steps[1:])
    assert not warning(*steps[:1], run("x", "y", extra="checkpoint"), *steps[1:])


COMMANDS = st.lists(st.sampled_from(["make test", "make lint", "cat x"]), min_size=1, max_size=3, unique=True)


@given(
    st.lists(COMMANDS, min_size=1, max_size=15), st.sampled_from(["1 failed in 0.3s", "ok"]), st.booleans()
)
@settings(max_examples=30)
def test_edits_between_tests_prevent_a_warning(rounds: list[list[str]], result: str, together: bool) -> None:
    """Each round is a new edit, and some commands with the same prose and the same results."""
    steps: list[Step] = []
    for number, commands in enumerate(rounds):
        text = edit(number).reply.text + "".join(f"<run>{command}</run>\n" for command in commands)
        one = [step(text, "Applied.", *[result] * len(commands))]
        several = [edit(number), *(run(command, result) for command in commands)]
        for added in one if together else several:
            steps.append(added)
            assert not warning(*steps)
