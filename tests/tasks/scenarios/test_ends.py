"""Tasks that are interrupted by a limit, the user or a question, and resumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from repoagent.errors import Exit, LimitReached
from repoagent.llm.usage import Limits
from tests.llm.providers.messages_server import Behaviour, Received, status, text
from tests.tasks.bare import NAME
from tests.tasks.scenarios.rules import fix_rounding, replace_line
from tests.tasks.scenarios.sight import Sight, edit, finish, patch
from tests.tasks.scenarios.stage import Look, Stage

Make = Callable[..., Stage]

BUMP = replace_line("README.md", "Converts units.", "Converts all units.", "Say all")


@pytest.mark.parametrize(
    ("limits", "reply"),
    [
        (Limits(turns=3), {}),
        (Limits(turns=40, tokens=70_000), {"usage": {"input_tokens": 20_000, "output_tokens": 100}}),
        (Limits(turns=40, cost=0.25), {"usage": {"input_tokens": 20_000, "output_tokens": 100}}),
        (Limits(turns=40, seconds=2.0), {"first_delay": 0.9}),
    ],
    ids=["turns", "tokens", "cost", "time"],
)
def test_resume_after_a_limit(stage: Make, limits: Limits, reply: dict[str, Any]) -> None:
    """The run reports the limit and resumes from there, without repeating any work or cost."""
    task = stage("python")
    task.behave = lambda received, words: text(words, **reply)
    # a limit of time would also end a command, and the rule would give up
    rule, path = (BUMP, "README.md") if limits.seconds else (fix_rounding, "convert/rounding.py")
    with pytest.raises(LimitReached) as ended:
        task.go(rule, "Improve it.", limits=limits)
    assert ended.value.exit_code == Exit.LIMIT
    first = list(task.replies)
    task.sound("limit")
    assert (task.record()["exit"], task.repo.head()) == (5, task.before.head)  # type: ignore[union-attr]
    task.behave = None
    assert task.go(rule).kind == "done"
    kinds = (
        ["read", "edit", "finish"]
        if limits.seconds
        else ["run", "read", "search", "read", "edit", "run", "finish"]
    )
    assert task.kinds() == kinds and 1 <= len(first) < len(kinds)
    task.whole(path)


def test_plan_first_then_resume(stage: Make) -> None:
    """--plan-only writes a nested plan; the resumed run does it task by task."""

    def rule(see: Sight) -> str:
        if "Only a plan is wanted" in see.system:
            if see.last("task") is None:
                return (
                    '<task add="Say all units">README.md</task>\n<task add="Read it" under="1"/>\n'
                    '<task add="Change it" under="1"/>'
                )
            return "<finish>three steps</finish>"
        plan = see.once("task", "<task/>") if see.last("task") else ""
        if "[ ] 1.1" in plan:
            return '<read path="README.md"/>\n<task n="1.1" state="done"/>'
        if "[ ] 1.2" in plan:
            lines = see.lines("README.md")
            return edit(
                patch("README.md", lines, [line.replace("Converts", "Converts all") for line in lines])
            ) + ('<task n="1.2" state="done"/>\n<task n="1" state="done"/>')
        return finish("Say all units", "all tasks are done")

    task = stage("python")
    assert task.go(rule, "Say all units.", plan_only=True).text == "three steps"
    assert Look.at(task.repo) == task.before
    plan = task.file("runs", NAME, "plan.md").read_text()
    assert plan.count("- [ ] 1") == 3
    task.go(rule, "Do it.")
    assert task.file("runs", NAME, "plan.md").read_text().count("- [x] 1") == 3
    task.whole("README.md")


def test_a_plan_that_the_user_edits_during_the_run(stage: Make) -> None:
    """A task that the user adds must be done before the run can finish."""
    task = stage("python")

    def rule(see: Sight) -> str:
        if see.last("task") is None:
            return '<task add="Say all units"/>'
        results = "\n".join([*see.results("plan"), *see.results("task"), *see.results("finish")])
        if not any(one.applied for one in see.done):
            return BUMP(see)
        if "Thank Ada" in results and not any("Thanks" in one.body for one in see.done if one.applied):
            lines = see.lines("CONTRIBUTING.md")
            return (
                edit(patch("CONTRIBUTING.md", lines, [*lines, "", "Thanks, Ada."]))
                + '<task n="2" state="done"/>'
            )
        if see.last("task", n="1") is None:
            return '<task n="1" state="done"/>'
        return finish("Say all units", "done")

    def add() -> None:
        file = task.file("runs", NAME, "plan.md")
        file.write_text(file.read_text().rstrip("\n") + "\n- [ ] 2. Thank Ada in CONTRIBUTING.md\n")

    task.at[4] = add
    task.go(rule, "Say all units.")
    assert b"Thanks, Ada." in task.repo.read("CONTRIBUTING.md")
    task.whole("CONTRIBUTING.md", "README.md")


def test_an_overloaded_server_is_retried(stage: Make) -> None:
    """No action of an incomplete reply is performed, and each call is counted."""
    task = stage("python")
    failing = {2: status(529), 4: status(500)}

    def behave(received: Received, reply: str) -> Behaviour | str:
        number = len(task.server.requests)  # type: ignore[union-attr]
        return failing.get(number, reply)

    task.behave = behave
    outcome = task.go(BUMP, "Say all units.")
    assert outcome.turns == 5
    assert task.record()["turns"] == 5
    task.whole("README.md")
