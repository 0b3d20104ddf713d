"""The tool `task`: changes by a model, and concurrent edits of the file by the user."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.agent.actions import Action, Observation
from repoagent.agent.parse_reply import parse
from repoagent.agent.plan import file
from repoagent.agent.plan.document import Plan
from repoagent.agent.plan.file import open_tasks, plan_from, plan_news, read_plan, task_tool, update_plan
from repoagent.agent.plan.tool import performed
from repoagent.agent.state import State
from repoagent.errors import Refused, UsageError
from repoagent.llm.conversation import Turn

TOOLS = ("task", "read")
THREE = "- [ ] 1. A\n  - [ ] 1.1. B\n- [ ] 2. C (after 1)\n"


def ask(plan: Plan, body: str = "", **args: str) -> Plan:
    return performed(plan, Action("task", args, body))[0]


def perform(file: Path, body: str = "", **args: str) -> Observation:
    return task_tool(file).perform(Action("task", args, body))


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"n": "9"}, "no task 9: the tasks are 1, 1.1, 2"),
        ({"add": "x", "under": "9"}, "no task 9"),
        ({"add": "x", "after": "9"}, "no task 9"),
        ({"add": "  "}, "needs a title"),
        ({"add": "x", "n": "1"}, "either"),
        ({"state": "done"}, 'n="1.2"'),
        ({"n": "1", "state": "ready"}, "unknown state"),
        ({"n": "1", "color": "red"}, "no argument color="),
        ({"n": "1", "after": "2"}, "depend on itself"),
        ({"n": "1", "after": "1"}, "depend on itself"),
        ({"n": "1.1", "after": "1"}, "depend on itself"),
        ({"n": "1.1", "after": "2"}, "depend on itself"),
        ({"n": "1", "under": "1.1"}, "below itself"),
        ({"n": "1", "state": "done"}, "while 1.1 is open"),
    ],
)
def test_invalid_action_is_refused(args: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        ask(Plan(THREE), **args)


def test_failed_system_call_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr("repoagent.storage.atomic.os.fsync", fails)
        patched.setattr("repoagent.storage.atomic.os.fdatasync", fails, raising=False)
        with pytest.raises(Refused, match="Too many open files"):
            perform(tmp_path / "plan.md", add="A")
    assert not (tmp_path / "plan.md").exists()
    assert perform(tmp_path / "plan.md", add="A").ok


def test_tag_as_a_model_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "plan.md"
    reply = '<task add="One">why\nso</task>\n<task add="Two" after="1"/>\n<task n="1" state="done">it was b</task>\n'
    for action in parse(reply, TOOLS).actions:
        assert task_tool(file).perform(action).ok
    assert file.read_text().endswith("- [x] 1. One\n  why\n  so\n  it was b\n- [ ] 2. Two (after 1)\n")
    shown = perform(file).text
    assert "  it was b" in shown
    assert "<plan>" in shown
    assert parse('<task id="1" state="done"/>', TOOLS).actions[0].args == {"state": "done"}
    assert "id= only marks" in perform(file, state="done").text


def test_states_and_their_effect_on_other_tasks() -> None:
    plan, sentence = performed(Plan(THREE), Action("task", {"n": "2", "state": "active"}))
    assert sentence == "2 is active: C (1: required before it, and not done)"
    done = ask(ask(plan, n="1.1", state="done"), n="1", state="done")
    assert [task.id for task in done.open] == ["2"]
    more, sentence = performed(done, Action("task", {"add": "D", "under": "1"}))
    assert sentence == "Added 1.2: D (1: open again)"
    assert [task.state for task in more.tasks] == ["active", "done", "open", "active"]
    assert [task.id for task in ask(plan, n="1", state="dropped").open] == ["2"]


def test_task_that_is_added_twice_exists_once() -> None:
    plan = ask(ask(Plan(THREE), "why", add="New", under="1"), "why", add="New", under="1")
    assert plan.text.count("New") == plan.text.count("why") == 1


def test_answer_for_a_long_plan_shows_open_tasks(tmp_path: Path) -> None:
    file = tmp_path / "plan.md"
    file.write_text("".join(f"- [{'x' if n < 30 else ' '}] {n}. T{n}\n" for n in range(1, 33)))
    text = perform(file, n="30", state="active").once
    assert "[~] 30. T30" in text
    assert "T29" not in text
    assert "(29 more done or dropped)" in text


def test_unreadable_plan_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "plan.md"
    file.write_bytes(b"- [ ] 1. A\n- [ ] \xff\n")
    with pytest.raises(Refused, match=r"plan\.md is not UTF-8 \(line 2\)"):
        open_tasks(file)
    assert not perform(file, add="x").ok
    assert file.read_bytes().endswith(b"\xff\n")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(Refused, match="not a regular file"):
        read_plan(file)
    file.unlink()
    file.mkdir()
    assert "not a regular file" in perform(file, add="x").text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.md", "plan.md.lock"]


def test_byte_order_mark_is_preserved(tmp_path: Path) -> None:
    file = tmp_path / "plan.md"
    file.write_bytes(b"\xef\xbb\xbf- [ ] 1. A\r\n")
    perform(file, n="1", state="done")
    assert file.read_bytes() == b"\xef\xbb\xbf- [x] 1. A\r\n"


def test_unchanged_plan_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "plan.md"
    assert read_plan(file).tasks == open_tasks(file) == ()
    perform(file)
    assert not file.exists()
    file.write_text(THREE)
    before = file.stat().st_ino
    perform(file, n="1", state="open")
    assert file.stat().st_ino == before


def test_concurrent_save_by_the_user_is_not_lost(tmp_path: Path) -> None:
    file = tmp_path / "plan.md"
    file.write_text(THREE)
    saves = [THREE.replace("2. C", "2. By hand"), "- [ ] mine\n" + THREE.replace("2. C", "2. By hand")]

    def slow(plan: Plan) -> Plan:
        made = ask(plan, n="1.1", state="done")
        if saves:
            file.write_text(saves.pop(0))
        return made

    update_plan(file, slow)
    assert file.read_text() == "- [ ] 3. mine\n- [ ] 1. A\n  - [x] 1.1. B\n- [ ] 2. By hand (after 1)\n"


def test_write_during_the_replacement_is_not_lost(tmp_path: Path) -> None:
    file = tmp_path / "plan.md"
    file.write_text(THREE)
    with file.open("a") as held:  # an editor with the file open, which writes just after it was compared
        real = os.replace

        def replace(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
            if target == file.name and not file.read_text().endswith("mine\n"):
                held.write("- [ ] mine\n")
                held.flush()
            real(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", replace)
            perform(file, n="1.1", state="done")
    assert read_plan(file).text == THREE.replace("[ ] 1.1", "[x] 1.1") + "- [ ] 3. mine\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.md", "plan.md.lock"]


def test_concurrent_additions_are_not_lost(tmp_path: Path) -> None:
    file = tmp_path / "plan.md"

    def many(name: str) -> None:
        for number in range(8):
            perform(file, add=f"{name}{number}")

    threads = [threading.Thread(target=many, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    plan = read_plan(file)
    assert len(plan.tasks) == len({task.id for task in plan.tasks}) == 24


# The plan according to the conversation.


def talk(file: Path, *replies: str) -> tuple[Turn, ...]:
    """The turns of a run with `replies`, and the results of the tool."""
    turns = [Turn("user", "do it")]
    for reply in replies:
        turns.append(Turn("assistant", reply))
        for action in parse(reply, TOOLS).actions:
            seen = task_tool(file).perform(action)
            turns.append(Turn("observation", seen.text, {"kind": "task", "ok": "yes" if seen.ok else "no"}))
    return tuple(turns)


def test_plan_is_rebuilt_from_the_conversation(tmp_path: Path) -> None:
    file = tmp_path / "plan.md"
    turns = talk(
        file,
        '<task add="A">note</task>\n<task add="B" under="1"/>\n<task n="9" state="done"/>\n<task add="skipped"/>',
        'I read `<task add="no"/>`.\n<task n="1.1" state="done"/>',
    )
    assert plan_from(turns, TOOLS).text == file.read_text()
    assert plan_news(file, turns, TOOLS) is None
    file.unlink()
    assert plan_news(file, turns, TOOLS) is None
    assert plan_from(turns, TOOLS).text == file.read_text()


def test_rebuilding_the_plan_of_a_long_conversation_is_incremental(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[Action] = []

    def counted(plan: Plan, action: Action) -> tuple[Plan, str]:
        done.append(action)
        return performed(plan, action)

    monkeypatch.setattr(file, "performed", counted)
    turns: list[Turn] = []
    for number in range(20):
        turns.append(Turn("assistant", f'<task add="of a long plan {number}"/>'))
        turns.append(Turn("observation", "", {"kind": "task", "ok": "yes"}))
        assert len(plan_from(turns, TOOLS).tasks) == number + 1
    assert len(done) == 20


def test_edit_of_the_user_is_reported_once(tmp_path: Path) -> None:
    file = tmp_path / "plan.md"
    turns = talk(file, '<task add="A"/>\n<task add="B"/>\n<task add="C"/>')
    text = file.read_text()
    file.write_text(
        text.replace("- [ ] 1. A\n", "").replace("[ ] 2. B", "[x] 2. Be").replace("3. C", "3. C (after 2)")
        + "- [ ] also this\n  with care\n"
    )
    news = plan_news(file, turns, TOOLS)
    assert news is not None
    assert (
        "- 1. A\n2: open -> done, now called Be\n3: now after 2\n+ 4. also this (open): with care"
        in news.text
    )
    assert "- [ ] 4. also this" in file.read_text()
    turns = (*turns, news)
    assert plan_news(file, turns, TOOLS) is None
    more = (*turns, *talk(file, '<task n="4" state="active"/>')[1:])
    assert plan_from(more, TOOLS).text == file.read_text()
    assert State(more).turns[-1].text.startswith("4 is active: also this")


ACTIONS = st.builds(
    lambda kind, title, n, other: {
        "add": f'<task add="{title}" under="{other}"/>',
        "after": f'<task add="{title}" after="{n}"/>',
        "state": f'<task n="{n}" state="{title}"/>',
        "move": f'<task n="{n}" before="{other}"/>',
        "note": f'<task n="{n}">{title}</task>',
    }[kind],
    st.sampled_from(["add", "add", "after", "state", "move", "note"]),
    st.sampled_from(["done", "active", "dropped", "open"]),
    st.sampled_from(["1", "2", "1.1", "3"]),
    st.sampled_from(["", "1", "2"]),
)


@given(st.lists(st.lists(ACTIONS, max_size=3), max_size=6))
@settings(max_examples=25, deadline=None)
def test_rebuilt_plan_equals_the_plan_in_the_file(
    tmp_path_factory: pytest.TempPathFactory, replies: list[list[str]]
) -> None:
    file = tmp_path_factory.mktemp("plan") / "plan.md"
    turns = talk(file, *("\n".join(reply) for reply in replies if reply))
    assert plan_from(turns, TOOLS).tasks == read_plan(file).tasks
