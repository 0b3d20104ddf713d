"""The text of a plan: any text can be parsed, and a change loses nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.agent.plan.document import (
    MARKS,
    Plan,
    Task,
    TaskState,
    added,
    changed,
    moved,
    noted,
    numbered,
)

WHOLE = """# Plan

Do it with care.

- [x] 1. Find out why
- [~] 2. Fix the parser (after 1)
  It is in `number`.

  Signs too.
  - [ ] 2.1. A sign
  - [-] 2.2. Hexadecimal
- [!] 3. Ask about the format (after 1, 2.1)

## Later

* [ ] 4: Docs
"""

LINES = st.one_of(
    st.sampled_from(
        [
            "", "# Plan", "- [ ] 1. One", "- [x] 2. Two (after 1)", "  - [ ] 1.1. Sub", "\t- [~] 7. Tab", "- [ ] no id",
            "- [ ] 1. twice", "  note", "    deeper", "```", "~~~", "- plain", "* [X] star", "1. [ ] ordered", "- [ ]",
            "- [ ] 3.", "  \\- [ ] quoted", "- [x](link)", "\r", "- [-] 2.1: gone\r", "- [ ] a (after lunch)",
            "- [ ] x (after 9, 1.)", "      - [ ] deep", "text", "- [/] odd", "- [ ] 01.002. zeros",
        ]
    ),
    st.text(max_size=12).map(lambda text: text.replace("\n", " ")),
)  # fmt: skip
TEXTS = st.lists(LINES, max_size=14).map("\n".join)
NOTES = st.lists(LINES, max_size=4).map("\n".join)


def test_tasks_are_parsed() -> None:
    assert Plan(WHOLE).tasks == (
        Task("1", "Find out why", "done"),
        Task("2", "Fix the parser", "active", ("1",), "It is in `number`.\n\nSigns too."),
        Task("2.1", "A sign", "open", under="2"),
        Task("2.2", "Hexadecimal", "dropped", under="2"),
        Task("3", "Ask about the format", "blocked", ("1", "2.1")),
        Task("4", "Docs"),
    )
    assert [task.id for task in Plan(WHOLE).open] == ["2", "2.1", "3", "4"]


@pytest.mark.parametrize(
    "text", ["", "- [ ]", "- [x](link)", "- [?] what", "    text", "```\n- [ ] 1. an example\n```", "- [] x]"]
)
def test_line_that_is_not_a_task(text: str) -> None:
    assert [task.title for task in Plan(text).tasks] in ([], ["x]"])


def test_unclosed_fence_hides_nothing() -> None:
    assert len(Plan("```\n- [ ] 1. One\n- [ ] 2. Two").tasks) == 2


def test_line_without_an_id_gets_the_next_free_one() -> None:
    plan = numbered(Plan("- [ ] new\n- [x] 2. Two\n  - [ ] sub\n- [ ] 2. twice\n"))
    assert plan.text == "- [ ] 3. new\n- [x] 2. Two\n  - [ ] 2.1. sub\n- [ ] 4. twice\n"
    lines = plan.text.splitlines()
    again = Plan("\n".join([lines[2].strip(), lines[3], lines[0]]))
    assert [(task.id, task.under) for task in again.tasks] == [("2.1", ""), ("4", ""), ("3", "")]


def test_number_without_a_point_is_not_an_id() -> None:
    assert [task.title for task in Plan("- [ ] 3 files to check\n- [ ] 2.0 release").tasks] == [
        "3 files to check",
        "2.0 release",
    ]


def test_done_task_settles_its_subtasks() -> None:
    assert Plan("- [x] 1. A\n  - [ ] 1.1. B\n    - [ ] 1.1.1. C\n- [ ] 2. D").open == (Task("2", "D"),)


def test_change_rewrites_only_its_line() -> None:
    plan = Plan(WHOLE.replace("\n", "\r\n"))
    done = changed(plan, "4", replace(plan.tasks[-1], state="done"))
    assert done.text == WHOLE.replace("* [ ] 4: Docs", "* [x] 4. Docs").replace("\n", "\r\n")
    noted_, id = noted(done, "3", "who?"), "3"
    assert "- [!] 3. Ask about the format (after 1, 2.1)\r\n  who?\r\n\r\n## Later" in noted_.text
    assert noted(noted_, id, "who?") == noted_


def test_position_of_a_new_task() -> None:
    plan, id = added(Plan(WHOLE), Task("", "More", note="why\n- [ ] not a task", under="2"))
    assert id == "2.3"
    assert (
        "  - [-] 2.2. Hexadecimal\n  - [ ] 2.3. More\n    why\n    \\- [ ] not a task\n- [!] 3" in plan.text
    )
    plan, id = added(plan, Task("", "First", after=("3",)), before="1")
    assert (id, plan.tasks[0]) == ("5", Task("5", "First", after=("3",)))
    plan, id = added(Plan("no newline"), Task("", "3. odd title"))
    assert plan.text == "no newline\n- [ ] 1. 3. odd title\n"
    assert plan.tasks == (Task("1", "3. odd title"),)


def test_task_moves_with_its_subtasks() -> None:
    plan = moved(Plan(WHOLE), "2", under="4")
    assert plan.text.endswith(
        "* [ ] 4: Docs\n  - [~] 2. Fix the parser (after 1)\n    It is in `number`.\n\n    Signs too.\n"
        "    - [ ] 2.1. A sign\n    - [-] 2.2. Hexadecimal\n"
    )
    assert [task.id for task in moved(plan, "3", under="", before="1").tasks[:2]] == ["3", "1"]


@given(TEXTS)
@settings(max_examples=40, deadline=None)
def test_adding_ids_does_not_change_the_tasks(text: str) -> None:
    plan = Plan(text)
    ids = [task.id for task in plan.tasks]
    assert len(set(ids)) == len(ids)
    whole = numbered(plan)
    assert whole.tasks == plan.tasks
    assert numbered(whole) == whole
    unnumbered = {item.line for item in plan.items if not item.numbered}
    assert [line for n, line in enumerate(whole.lines) if n not in unnumbered] == [
        line for n, line in enumerate(plan.lines) if n not in unnumbered
    ]


@given(TEXTS, NOTES, st.data())
@settings(max_examples=30, deadline=None)
def test_new_task_does_not_change_other_tasks(text: str, note: str, data: st.DataObject) -> None:
    plan = numbered(Plan(text))
    ids = [task.id for task in plan.tasks]
    under = data.draw(st.sampled_from(["", *ids]))
    before = data.draw(st.sampled_from(["", *ids]))
    made, id = added(plan, Task("", "Title", note=note, under=under), before=before)
    assert [task for task in made.tasks if task.id != id] == list(plan.tasks)
    new = next(task for task in made.tasks if task.id == id)
    assert new.under == (next(t.under for t in plan.tasks if t.id == before) if before else under)
    assert all(line in made.text for line in plan.lines)
    again = noted(made, id, note)
    assert again == made  # the parsed note is the one that was added


@given(TEXTS, st.sampled_from(list(MARKS)), st.data())
@settings(max_examples=30, deadline=None)
def test_changed_state_changes_nothing_else(text: str, state: TaskState, data: st.DataObject) -> None:
    plan = numbered(Plan(text))
    if not plan.tasks:
        return
    task = data.draw(st.sampled_from(plan.tasks))
    made = changed(plan, task.id, replace(task, state=state))
    assert made.tasks == tuple(replace(t, state=state) if t is task else t for t in plan.tasks)


@given(TEXTS, st.data())
@settings(max_examples=30, deadline=None)
def test_move_loses_nothing(text: str, data: st.DataObject) -> None:
    plan = numbered(Plan(text))
    if len(plan.tasks) < 2:
        return
    task = data.draw(st.sampled_from(plan.tasks))
    inside = {task.id, *(t.id for t in plan.below(task.id))}
    places = [t.id for t in plan.tasks if t.id not in inside]
    under = data.draw(st.sampled_from(["", *places]))
    made = moved(plan, task.id, under=under)
    assert {(t.id, t.title, t.state) for t in made.tasks} == {(t.id, t.title, t.state) for t in plan.tasks}
    assert sorted("".join(made.text.split())) == sorted("".join(plan.text.split()))
    assert next(t.under for t in made.tasks if t.id == task.id) == under


def test_very_deep_ids_are_limited() -> None:
    deep = "\n".join(f"{'  ' * n}- [ ] task" for n in range(70))
    for text in (deep, "- [ ] 999999999. a\n- [ ] b\n- [ ] 999999999. c"):
        plan = numbered(Plan(text))
        assert numbered(plan) == plan
        assert len({task.id for task in plan.tasks}) == len(plan.tasks)


def test_long_plan_is_parsed_quickly() -> None:
    text = "\n".join(f"{'  ' * (n % 40)}- [ ] task {n}\n{'  ' * (n % 40)}  note" for n in range(2000))
    assert len(Plan(text).tasks) == 2000
