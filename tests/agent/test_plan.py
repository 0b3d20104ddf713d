"""The text of a plan, the tool `task`, and concurrent edits of the file by the user."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.agent.actions import Action, Observation
from repoagent.agent.parse_reply import parse_reply
from repoagent.agent.plan import (
    MARKS,
    Plan,
    Task,
    TaskState,
    change_plan,
    plan_from,
    plan_news,
    read_plan,
    task_tool,
    update_plan,
    with_ids,
)
from repoagent.errors import Refused, UsageError
from repoagent.llm.conversation import Turn

WHOLE = """# Plan

- [x] 1. Find out why
- [~] 2. Fix the parser
  It is in `number`.

  Signs too.
  - [-] 2.2. Hexadecimal
- [!] 3. Ask about the format

## Later

* [ ] 4: Docs
"""
TOOLS = ("task", "read")
THREE = "- [ ] 1. A\n- [ ] 2. B\n- [ ] 3. C\n"

LINES = st.text(max_size=12).map(lambda text: text.replace("\n", " ")) | st.sampled_from([
    "", "# Plan", "- [ ] 1. One", "- [x] 2. Two (after 1)", "  - [ ] 1.1. Sub", "\t- [~] 7. Tab", "- [ ] no id",
    "- [ ] 1. twice", "  note", "    deeper", "```", "- plain", "* [X] star", "1. [ ] ordered", "- [ ]",
    "- [ ] 3.", "  \\- [ ] quoted", "\r", "- [-] 2.1: gone\r", "      - [ ] deep", "- [/] odd",
    "- [ ] 999999999. high",
])  # fmt: skip
PLANS = st.lists(LINES, max_size=14).map(lambda lines: Plan("\n".join(lines)))
NOTES = st.lists(LINES, max_size=4).map("\n".join)


def ask(plan: Plan, body: str = "", **args: str) -> Plan:
    return change_plan(plan, Action("task", args, body))[0]


def perform(file: Path, body: str = "", **args: str) -> Observation:
    return task_tool(file).perform(Action("task", args, body))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "plan.md"


def test_tasks_are_parsed() -> None:
    plan = Plan(WHOLE)
    assert plan.tasks == (
        Task("1", "Find out why", "done"),
        Task("2", "Fix the parser", "active", "It is in `number`.\n\nSigns too."),
        Task("2.2", "Hexadecimal", "dropped"),
        Task("3", "Ask about the format", "blocked"),
        Task("4", "Docs"),
    )
    assert [task.id for task in plan.open] == ["2", "3", "4"]


def test_lines_that_are_tasks() -> None:
    titles = {
        **{text: [] for text in ("", "- [ ]", "- [x](link)", "- [?] what", "    text")},
        "- [] x]": ["x]"],
        "- [ ] 3 files to check\n- [ ] 2.0 release": ["3 files to check", "2.0 release"],
    }
    assert {text: [task.title for task in Plan(text).tasks] for text in titles} == titles


def test_line_without_an_id_gets_the_next_free_one_and_keeps_it() -> None:
    plan = with_ids(Plan("- [ ] new\n- [x] 2. Two\n  - [ ] sub\n- [ ] 2. twice\n"))
    assert plan.text == "- [ ] 3. new\n- [x] 2. Two\n  - [ ] 4. sub\n- [ ] 5. twice\n"
    moved = Plan("\n".join(reversed(plan.text.splitlines())))
    assert [task.id for task in moved.tasks] == ["5", "4", "2", "3"]


def test_change_rewrites_only_its_line() -> None:
    done = ask(Plan(WHOLE), n="4", state="done")
    assert done.text == WHOLE.replace("* [ ] 4: Docs", "* [x] 4. Docs")
    with_note = ask(done, "who?", n="3")
    assert "- [!] 3. Ask about the format\n  who?\n\n## Later" in with_note.text
    assert ask(with_note, "who?", n="3") == with_note


def test_position_of_a_new_task() -> None:
    plan = ask(Plan(WHOLE), "why\n- [ ] not a task", add="More")
    assert plan.text == WHOLE + "* [ ] 5. More\n  why\n  \\- [ ] not a task\n"
    plan = ask(Plan("no newline"), add="3. odd title")
    assert plan.text == "no newline\n- [ ] 1. 3. odd title\n"
    assert plan.tasks == (Task("1", "3. odd title"),)
    twice = ask(ask(plan, "why", add="New"), "why", add="New")
    assert twice.text.count("New") == twice.text.count("why") == 1


@given(PLANS)
@settings(max_examples=40)
def test_adding_ids_does_not_change_the_tasks(plan: Plan) -> None:
    ids = [task.id for task in plan.tasks]
    assert len(set(ids)) == len(ids)
    whole = with_ids(plan)
    assert whole.tasks == plan.tasks and with_ids(whole) == whole
    new = {item.line for item in plan.items if not item.numbered}
    rest = [[line for n, line in enumerate(each.lines) if n not in new] for each in (plan, whole)]
    assert rest[0] == rest[1]


@given(PLANS, NOTES, st.sampled_from(list(MARKS)))
@settings(max_examples=50)
def test_change_leaves_the_other_tasks(plan: Plan, note: str, state: TaskState) -> None:
    plan = with_ids(plan)
    made = ask(plan, note, add="A new title")
    (id,) = {task.id for task in made.tasks} - {task.id for task in plan.tasks}
    assert [task for task in made.tasks if task.id != id] == list(plan.tasks)
    assert all(line in made.text for line in plan.lines)
    assert ask(made, note, n=id) == made  # the parsed note is the one that was added
    after = ask(made, n=id, state=state)
    assert [task for task in after.tasks if task.id != id] == list(plan.tasks)
    assert {task.id: task.state for task in after.tasks}[id] == state


@pytest.mark.parametrize(("args", "why"), [
    ({"n": "9"}, "no task 9: the tasks are 1, 2, 3"),
    ({"add": "  "}, "needs a title"),
    ({"add": "x", "n": "1"}, "either"),
    ({"state": "done"}, "id= only marks"),
    ({"n": "1", "state": "ready"}, "unknown state"),
    ({"n": "1", "under": "2"}, "unknown argument under"),
])  # fmt: skip
def test_invalid_action_is_refused(args: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        ask(Plan(THREE), **args)


def test_failed_system_call_stops_the_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = Mock(side_effect=OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    with monkeypatch.context() as patched:
        patched.setattr("repoagent.storage.atomic.os.fsync", fails)
        patched.setattr("repoagent.storage.atomic.os.fdatasync", fails, raising=False)
        with pytest.raises(Refused, match="Too many open files"):
            perform(file, add="A")
    assert not file.exists()
    assert perform(file, add="A").ok


def test_tag_as_a_model_writes_it(file: Path) -> None:
    added = '<task add="One">why\nso</task>\n<task add="Two"/>\n'
    talk(file, f'{added}<task n="1" state="completed">it was b</task>\n')
    assert file.read_text().endswith("- [x] 1. One\n  why\n  so\n  it was b\n- [ ] 2. Two\n")
    shown = perform(file).text
    assert "  it was b" in shown and "<plan>" in shown


def test_task_is_not_done_after_a_failure(file: Path) -> None:
    for args, needs in (({}, "nothing"), ({"add": "A"}, "writes"), ({"n": "1", "state": "completed"}, "all")):
        assert task_tool(file).needed_by(Action("task", args)) == needs


def test_answer_for_a_long_plan_shows_open_tasks(file: Path) -> None:
    file.write_text("".join(f"- [{'x' if n < 30 else ' '}] {n}. T{n}\n" for n in range(1, 33)))
    text = perform(file, n="30", state="active").once
    assert "[~] 30. T30" in text and "T29" not in text and "(29 more done or dropped)" in text


def test_unreadable_plan_file_is_reported(file: Path, tmp_path: Path) -> None:
    file.write_bytes(b"- [ ] 1. A\n- [ ] \xff\n")
    with pytest.raises(Refused, match=r"plan\.md is not UTF-8 \(line 2\)"):
        read_plan(file)
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


def test_file_is_written_only_for_a_change(file: Path) -> None:
    assert read_plan(file).tasks == ()
    perform(file)
    assert not file.exists()
    file.write_bytes(b"\xef\xbb\xbf- [ ] 1. A\r\n")
    before = file.stat().st_ino
    perform(file, n="1", state="open")
    assert file.stat().st_ino == before
    perform(file, n="1", state="done")
    assert file.read_bytes() == b"- [x] 1. A\n"


def test_concurrent_save_by_the_user_is_not_lost(file: Path) -> None:
    file.write_text(THREE)
    saves = [THREE.replace("3. C", "3. By hand"), "- [ ] mine\n" + THREE.replace("3. C", "3. By hand")]

    def slow(plan: Plan) -> Plan:
        made = ask(plan, n="2", state="done")
        if saves:
            file.write_text(saves.pop(0))
        return made

    update_plan(file, slow)
    assert file.read_text() == "- [ ] 4. mine\n- [ ] 1. A\n- [x] 2. B\n- [ ] 3. By hand\n"


def test_write_during_the_replacement_is_not_lost(file: Path, tmp_path: Path) -> None:
    file.write_text(THREE)
    with file.open("a") as held:  # an editor with the file open, which writes just after it was compared
        real = os.replace

        def replace(source: str, target: str, **folders: int) -> None:
            if (source, target) == (f"{file.name}.new", file.name) and "mine" not in file.read_text():
                held.write("- [ ] mine\n")
                held.flush()
            real(source, target, **folders)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", replace)
            perform(file, n="2", state="done")
    assert read_plan(file).text == THREE.replace("[ ] 2", "[x] 2") + "- [ ] 4. mine\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.md", "plan.md.lock"]


def test_concurrent_additions_are_not_lost(file: Path) -> None:
    def many(name: str) -> None:
        for number in range(8):
            perform(file, add=f"{name}{number}")

    with ThreadPoolExecutor() as pool:
        list(pool.map(many, "abc"))
    plan = read_plan(file)
    assert len(plan.tasks) == len({task.id for task in plan.tasks}) == 24


# The plan according to the conversation.


def talk(file: Path, *replies: str) -> tuple[Turn, ...]:
    """The turns of a run with `replies`, and the results of the tool."""
    turns = [Turn("user", "do it")]
    for reply in replies:
        turns.append(Turn("assistant", reply))
        for action in parse_reply(reply, TOOLS).actions:
            seen = task_tool(file).perform(action)
            turns.append(Turn("observation", seen.text, {"kind": "task", "ok": "yes" if seen.ok else "no"}))
    return tuple(turns)


def test_missing_plan_is_rebuilt_from_the_conversation(file: Path) -> None:
    turns = talk(
        file,
        '<task add="A">note</task>\n<task add="B"/>\n<task n="9" state="done"/>\n<task add="skipped"/>',
        'I read `<task add="no"/>`.\n<task n="2" state="done"/>',
    )
    text = file.read_text()
    assert plan_from(turns, TOOLS).text == text
    assert plan_news(file, turns, TOOLS) is None
    # a change of a task that only an edit of the user, which is not in the conversation, had added
    gone = Turn("assistant", '<task n="7" state="done"/>')
    done = Turn("observation", "7 is done", {"kind": "task", "ok": "yes"})
    assert plan_from((*turns, gone, done), TOOLS).text == text
    file.unlink()
    assert plan_news(file, turns, TOOLS) is None
    assert file.read_text() == text


def test_edit_of_the_user_is_reported_once(file: Path) -> None:
    turns = talk(file, '<task add="A"/>\n<task add="B"/>\n<task add="C"/>')
    text = file.read_text().replace("- [ ] 1. A\n", "").replace("[ ] 2. B", "[x] 2. Be")
    file.write_text(text.replace("3. C\n", "3. C\n  soon\n") + "- [ ] also this\n  with care\n")
    news = plan_news(file, turns, TOOLS)
    assert news is not None
    assert "- [x] 2. Be\n- [ ] 3. C\n  soon\n- [ ] 4. also this\n  with care\n" in news.text
    assert "- [ ] 4. also this" in file.read_text()
    turns = (*turns, news)
    assert plan_news(file, turns, TOOLS) is None
    more = (*turns, *talk(file, '<task n="4" state="active"/>')[1:])
    assert plan_from(more, TOOLS).text == file.read_text()
    assert more[-1].text.startswith("4 is active: also this")


ACTIONS = st.builds(
    lambda form, word, n: form.format(word=word, n=n),
    st.sampled_from(
        ['<task add="{word}"/>', '<task n="{n}" state="{word}"/>', '<task n="{n}">{word}</task>']
    ),
    st.sampled_from(["done", "active", "dropped", "open"]),
    st.sampled_from(["1", "2", "3"]),
)


@given(st.lists(st.lists(ACTIONS, max_size=3), max_size=6))
@settings(max_examples=25)
def test_rebuilt_plan_equals_the_file(
    tmp_path_factory: pytest.TempPathFactory, replies: list[list[str]]
) -> None:
    file = tmp_path_factory.mktemp("plan") / "plan.md"
    turns = talk(file, *("\n".join(reply) for reply in replies if reply))
    assert plan_from(turns, TOOLS).tasks == read_plan(file).tasks
