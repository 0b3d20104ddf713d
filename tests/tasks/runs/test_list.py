"""List and find runs: live, ended, killed, copied, malformed and hostile ones."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent.errors import Refused, UsageError
from repoagent.llm.conversation import Turn, append_turns
from repoagent.llm.usage import Limits
from repoagent.memory.conversations import is_reserved
from repoagent.storage.layout import Layout
from repoagent.tasks.run_context import RunRequest, write_spec
from repoagent.tasks.runs import directory
from repoagent.tasks.runs.control import live_run
from repoagent.tasks.runs.directory import RunDirectory, RunRecord
from repoagent.tasks.runs.list import find_run, list_runs, run_tree, subagents_of
from tests.tasks.bare import JSON

ONE, TWO = "run-20260102-030405-abcdef", "run-20260102-030406-abc123"


def past(layout: Layout, name: str, ago: float = 0, **fields: Any) -> RunDirectory:
    """A run that ended `ago` hours ago according to its run.json."""
    run_dir = RunDirectory(layout, name)
    run_dir.folder.mkdir(parents=True, exist_ok=True)
    at = (datetime.now(timezone.utc) - timedelta(hours=ago)).isoformat()
    times = dict.fromkeys(("started", "process_started", "ended"), at)
    value = {"version": 1, **times, "state": "done", "prompt": "x", **fields}
    run_dir.record.write_text(json.dumps(value))
    return run_dir


def states(layout: Layout) -> dict[str, str]:
    return {run.name: run.state for run in list_runs(layout, warn=lambda _: None)}


def test_newest_first_and_a_resumed_run_is_new(layout: Layout) -> None:
    now = datetime.now(timezone.utc)
    east = (now - timedelta(hours=3)).astimezone(timezone(timedelta(hours=9)))
    past(layout, "old", 5)
    past(layout, "new", 1)
    past(layout, "again", 9, process_started=now.isoformat())
    past(layout, "elsewhere", 0, process_started=east.isoformat())
    past(layout, "when?", 0, process_started="yesterday", started=7)  # the time of its folder counts
    assert [run.name for run in list_runs(layout)] == ["when?", "again", "new", "elsewhere", "old"]


def test_a_conversation_without_a_folder_is_listed(layout: Layout) -> None:
    for name, prompt in ((ONE, "\nfix it\nplease"), ("chat-x", "hello"), ("mine", "a saved one")):
        turns = Turn("user", prompt, {"time": "x"}), Turn("assistant", "no")
        append_turns(RunDirectory(layout, name).conversation, *turns)
    (layout.conversations / "run-broken.md").write_bytes(b"\xff\xfe no conversation")
    (layout.conversations / "run-link.md").symlink_to("/etc/passwd")
    os.mkfifo(layout.conversations / "run-pipe.md")
    by_name = {run.name: run for run in list_runs(layout)}
    assert by_name.keys() == {ONE, "chat-x", "run-broken", "run-link", "run-pipe"}
    assert all(run.state == "conversation" for run in by_name.values())
    run = by_name[ONE]
    assert (run.record.prompt, run.record.kind, run.short) == ("fix it", "run", "abcdef")
    assert run.process_started == datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc).timestamp()
    assert by_name["chat-x"].record.kind == "chat" and by_name["run-broken"].record.prompt == ""


def test_hostile_folders_are_listed_as_unreadable_or_not_at_all(layout: Layout, tmp_path: Path) -> None:
    cafe = os.fsdecode(b"caf\xe9")
    for name in ("pipe", "link", "folder"):
        past(layout, name).record.unlink()
    os.mkfifo(layout.runs / "pipe/run.json")
    (layout.runs / "link/run.json").symlink_to("/etc/passwd")
    (layout.runs / "folder/run.json").mkdir()
    for name, text in {"large": " " * 2**21, "list": "[1]", "deep": "[" * 100_000}.items():
        past(layout, name).record.write_text(text)
    for name in ("empty", "torn", ".hidden", f"{cafe}/changes"):
        (layout.runs / name).mkdir(parents=True)
    (layout.runs / "torn/.tmp-1-0123456789ab").write_text("{")
    (layout.runs / "file").write_text("x")
    (layout.runs / "to").symlink_to(tmp_path)
    names = ("pipe", "large", "link", "folder", "list", "deep")
    assert states(layout) == dict.fromkeys(names, "unreadable")
    assert sorted(path.parent.name for path in layout.runs.glob("*/*.broken-1")) == ["deep", "list"]


@pytest.mark.soak
@settings(suppress_health_check=[HealthCheck.too_slow])  # any JSON is a deep strategy: slow on a busy machine
@given(st.dictionaries(st.sampled_from([*vars(RunRecord()), "version", "x"]), JSON))
def test_any_run_json_is_read_or_refused(value: dict[str, Any]) -> None:
    try:
        record = directory.from_dict(value)
    except Refused:
        return
    assert directory.from_dict(json.loads(json.dumps(vars(record)))) == record


def test_find_by_name(layout: Layout) -> None:
    with pytest.raises(UsageError, match="no runs yet"):
        find_run(layout, "last")
    for number, name in enumerate([ONE, TWO, "abc", "parser"]):
        past(layout, name, number)
    past(layout, "child", parent="parser")
    for name, full in {
        "abc": "abc",  # a full name takes precedence over a prefix
        "abcd": ONE, "abcdef": ONE, ONE: ONE, "run-20260102-030406": TWO, "last": ONE,
    }.items():  # fmt: skip
        assert find_run(layout, name).name == full
    for name, message in {
        "run-": r"'run-' is ambiguous: run-\S+abcdef, run-\S+abc123; use more",
        "zzz": f"there is child, {ONE}, ",
        **dict.fromkeys(("", "../memory", "/etc", "a\nb"), "no run"),
    }.items():
        with pytest.raises(UsageError, match=message):
            find_run(layout, name)


def test_a_name_must_be_valid_for_a_conversation(layout: Layout) -> None:
    names = [directory.new_name(), directory.new_name("chat")]
    assert all(map(is_reserved, names)) and len({*names, directory.new_name()}) == 3
    assert directory.open_run_directory(layout, "my task").name == "my task"
    for bad in ("a/b", "..", "", "-x", "edit-1", "kept-1", names[0]):
        with pytest.raises(UsageError):
            directory.open_run_directory(layout, bad)
    past(layout, names[0])
    assert directory.open_run_directory(layout, names[0]).name == names[0]  # it can be resumed


def test_subagents_are_listed_below_their_parents(layout: Layout) -> None:
    past(layout, "p", 9)
    for name, ago, parent in (("c2", 1, "p"), ("c1", 2, "p"), ("lone", 3, "gone")):
        past(layout, name, ago, parent=parent)
    all_runs = list_runs(layout)
    rows = [(depth, run.name) for depth, run in run_tree(all_runs)]
    assert rows == [(0, "lone"), (0, "p"), (1, "c1"), (1, "c2")]
    assert [run.name for run in subagents_of(find_run(layout, "p"), all_runs)] == ["c1", "c2"]


@pytest.mark.soak
def test_a_thousand_runs_are_listed_quickly(layout: Layout) -> None:
    for number in range(1000):
        past(layout, f"run-20260102-{number:06}-abcdef", number, prompt="words " * 20, host="h", tokens=9)
    took = []
    for _ in range(3):
        began = time.process_time()
        assert len(list_runs(layout)) == 1000
        took.append(time.process_time() - began)
    assert min(took) < 0.2, took


def test_a_run_is_live_before_its_first_record(layout: Layout) -> None:
    """Without a lock, it is not listed: it has not started, or was killed at its start."""
    child = RunDirectory(layout, "run-20990101-000000-aaaaaa")
    write_spec(child, RunRequest("x", child.name, "explore", "parent"), Limits())
    late = RunDirectory(layout, "run-20990101-000001-bbbbbb")
    with live_run(late, RunRecord("x")) as live:
        late.record.unlink()
        assert states(layout) == {late.name: "running"}
        live.ended("done", "")
