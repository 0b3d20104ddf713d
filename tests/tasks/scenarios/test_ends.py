"""Tasks that are interrupted by a limit, the user or a question, and resumed."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from repoagent.errors import Exit, LimitReached, NothingDone
from repoagent.llm.usage import Limits
from tests.llm.providers.messages_server import Behaviour, Received, status, text
from tests.tasks.bare import NAME
from tests.tasks.scenarios.rules import fix_rounding, replace_line
from tests.tasks.scenarios.sight import Sight, edit, finish, patch
from tests.tasks.scenarios.stage import Look, Stage

Make = Callable[..., Stage]

BUMP = replace_line("README.md", "Converts units.", "Converts all units.", "Say all")


def expensive(received: Received, reply: str) -> Behaviour:
    return text(reply, usage={"input_tokens": 20_000, "output_tokens": 100})


def slow(received: Received, reply: str) -> Behaviour:
    return text(reply, first_delay=0.7)


@pytest.mark.parametrize(
    ("limits", "behave"),
    [
        (Limits(turns=3), None),
        (Limits(turns=40, tokens=70_000), expensive),
        (Limits(turns=40, cost=0.25), expensive),
        (Limits(turns=40, seconds=2.0), slow),
    ],
    ids=["turns", "tokens", "cost", "time"],
)
def test_resume_after_a_limit(
    stage: Make, limits: Limits, behave: Callable[[Received, str], Behaviour] | None
) -> None:
    """The run reports the limit and resumes from there, without repeating any work or cost."""
    task = stage("python")
    task.behave = behave
    with pytest.raises(LimitReached) as ended:
        task.go(fix_rounding, "Make the failing test pass.", limits=limits)
    assert ended.value.exit_code == Exit.LIMIT
    first = list(task.replies)
    task.sound("limit")
    assert (task.record()["exit"], task.repo.head()) == (5, task.before.head)  # type: ignore[union-attr]
    task.behave = None
    outcome = task.go(fix_rounding)
    assert outcome.kind == "done"
    assert task.kinds() == ["run", "read", "search", "read", "edit", "run", "finish"]
    assert 1 <= len(first) < 7
    task.whole("convert/rounding.py")


def test_a_second_prompt_continues_the_conversation(stage: Make) -> None:
    """`--continue`: the model still sees what it read, and the second commit is separate."""
    task = stage("python")
    task.go(BUMP, "Say all units.")
    first, calls = task.repo.head(), len(task.replies)

    def rule(see: Sight) -> str:
        if "every" not in see.words:
            return "<reject>what?</reject>"
        return replace_line("README.md", "all units", "every unit", "Say every")(_since_last_words(see))

    task.before = Look.at(task.repo)
    task.go(rule, "Now say every unit.")
    assert (task.repo.git("rev-parse", "HEAD^").strip(), len(task.replies)) == (first, calls + 3)
    assert task.record()["commits"] == [first, task.repo.head()]
    task.sound()
    task.undone()


def _since_last_words(see: Sight) -> Sight:
    """What the model sees since the last prompt of the user."""
    last = max(n for n, (role, said) in enumerate(see.messages) if role == "user" and "Now say every" in said)
    return Sight(see.system, ((see.messages[0][0], see.messages[0][1]), *see.messages[last:]))


def test_resume_in_another_clone(stage: Make, make_repo: Callable[..., object]) -> None:
    """Only the conversation file is copied to another machine: the model reads again what it needs, and finishes."""
    task = stage("python")
    with pytest.raises(LimitReached):
        task.go(fix_rounding, "Make the failing test pass.", limits=Limits(turns=4))
    other = type(task.repo)(task.repo.top.parent / "other")
    task.repo.git("clone", "-q", str(task.repo.top), str(other.top))
    there = other.top / ".repoagent" / "conversations"
    there.mkdir(parents=True)
    shutil.copy(task.file("conversations", f"{NAME}.md"), there / f"{NAME}.md")
    away = Stage(other, task.server)
    task.before, away.before = None, Look.at(other)
    task.repo = other
    assert task.go(fix_rounding, "").kind == "done"
    away.sound(audited=False)  # the audit of the other machine has the earlier commands
    away.committed("convert/rounding.py")
    away.undone()


@pytest.mark.soak
def test_a_question_to_the_user(stage: Make) -> None:
    """The model asks in words; the run ends unfinished, and resumes with the answer and its changes."""

    def rule(see: Sight) -> str:
        if not any(one.applied for one in see.done):
            return BUMP(see)
        if "in Kelvin" in see.words:
            return finish("Say all units", "as you said: in Kelvin")
        return "Shall it be in Kelvin or in Celsius?"

    task = stage("python")
    outcome = task.go(rule, "Say all units.")
    assert (outcome.kind, outcome.left) == ("unfinished", ("README.md",))
    assert task.before is not None
    assert (task.repo.head(), task.repo.status()) == (task.before.head, " M README.md\n")
    task.sound("unfinished")
    assert task.go(rule, "It is in Kelvin.").text == "as you said: in Kelvin"
    task.whole("README.md")


@pytest.mark.soak
def test_reject_reverts_the_changes(stage: Make) -> None:
    def rule(see: Sight) -> str:
        if not any(one.applied for one in see.done):
            return BUMP(see)
        see.ran("echo x >> docs/mass.md; mkdir new; echo y > new/file.txt")
        return "<reject>the README is generated</reject>"

    task = stage("python")
    task.repo.write("docs/area.md", "mine\n")
    with pytest.raises(NothingDone, match="generated"):
        task.go(rule, "Say all units.")
    assert task.before is not None
    assert Look.at(task.repo).differs(task.before) in ([], ["new/file.txt"])
    assert task.repo.head() == task.before.head
    task.sound("rejected")


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


@pytest.mark.soak
def test_a_kill_right_after_the_write(stage: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The edit is in the file, and not in the conversation: it is neither repeated nor lost."""
    from repoagent.tasks.plugins import HookAnswer, UserHooks

    class Killed(BaseException):
        pass

    def killed(self: UserHooks, event: str, *_: object) -> HookAnswer:
        if event == "after_edit":
            raise Killed
        return HookAnswer()

    task = stage("python")
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(UserHooks, "__call__", killed)
        with pytest.raises(Killed):
            task.go(BUMP, "Say all units.", config={"run.after_edit": "true"})
    assert b"all units" in task.repo.read("README.md")
    assert task.go(BUMP).kind == "done"
    assert task.kinds() == ["read", "edit", "finish"]
    task.whole("README.md")
