"""List and find runs: live, ended, killed, copied, malformed and hostile ones."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent.errors import UsageError
from repoagent.llm.conversation import Turn, append
from repoagent.llm.usage import Limits
from repoagent.memory.conversations import is_reserved
from repoagent.storage.layout import Layout
from repoagent.tasks.run_context import RunRequest
from repoagent.tasks.runs.control import live_run
from repoagent.tasks.runs.directory import (
    Record,
    RunDirectory,
    from_dict,
    new_name,
    open_run_directory,
    to_dict,
)
from repoagent.tasks.runs.list import Run, children, find, runs, tree
from repoagent.tasks.subagents import write_spec
from tests.tasks.runs.conftest import Worker

Start = Callable[..., Worker]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def past(layout: Layout, name: str, ago: float = 0, **said: Any) -> RunDirectory:
    """A run that ended `ago` hours ago according to its run.json."""
    run_dir = RunDirectory(layout, name)
    run_dir.folder.mkdir(parents=True, exist_ok=True)
    at = (datetime.now(timezone.utc) - timedelta(hours=ago)).isoformat()
    times = dict.fromkeys(("started", "process_started", "ended"), at)
    value = {"version": 1, **times, "state": "done", "prompt": "x", **said}
    run_dir.record.write_text(json.dumps(value))
    return run_dir


def states(layout: Layout) -> dict[str, str]:
    return {run.name: run.state for run in runs(layout, warn=lambda _: None)}


def test_newest_first_and_a_resumed_run_is_new(layout: Layout) -> None:
    past(layout, "old", 5)
    past(layout, "new", 1)
    now = datetime.now(timezone.utc)
    past(layout, "again", 9, process_started=now.isoformat())
    past(
        layout,
        "elsewhere",
        0,
        process_started=(now - timedelta(hours=3)).astimezone(timezone(timedelta(hours=9))).isoformat(),
    )
    past(layout, "when?", 0, process_started="yesterday", started=7)  # the time of its folder counts
    assert [run.name for run in runs(layout)] == ["when?", "again", "new", "elsewhere", "old"]


def test_a_run_without_an_end_and_a_lock_was_killed(layout: Layout) -> None:
    past(layout, "there", ended="", state="running", host="another", boot="another")
    past(layout, "odd", state="splendid")
    assert states(layout) == {"there": "killed", "odd": "killed"}


def test_a_conversation_without_a_folder_is_listed(layout: Layout) -> None:
    name = "run-20260102-030405-abcdef"
    append(
        RunDirectory(layout, name).conversation,
        Turn("user", "\nfix it\nplease", {"time": "x"}),
        Turn("assistant", "no"),
    )
    append(RunDirectory(layout, "chat-x").conversation, Turn("user", "hello"))
    append(RunDirectory(layout, "mine").conversation, Turn("user", "a saved one"))
    (layout.conversations / "run-broken.md").write_bytes(b"\xff\xfe no conversation")
    (layout.conversations / "run-link.md").symlink_to("/etc/passwd")
    os.mkfifo(layout.conversations / "run-pipe.md")
    found = {run.name: run for run in runs(layout)}
    assert set(found) == {name, "chat-x", "run-broken", "run-link", "run-pipe"}
    assert {run.state for run in found.values()} == {"conversation"}
    run = found[name]
    assert (run.record.prompt, run.record.kind, run.short) == ("fix it", "run", "abcdef")
    assert (
        datetime.fromtimestamp(run.process_started, timezone.utc).isoformat() == "2026-01-02T03:04:05+00:00"
    )
    assert found["chat-x"].record.kind == "chat" and found["run-broken"].record.prompt == ""


def test_hostile_folders_are_listed_as_unreadable_or_not_at_all(layout: Layout, tmp_path: Path) -> None:
    run_dir = past(layout, "pipe")
    run_dir.record.unlink()
    os.mkfifo(run_dir.record)
    past(layout, "large").record.write_bytes(b" " * 2**21)
    past(layout, "link").record.unlink()
    (layout.runs / "link" / "run.json").symlink_to("/etc/passwd")
    past(layout, "folder").record.unlink()
    (layout.runs / "folder" / "run.json").mkdir()
    past(layout, "list").record.write_text("[1]")
    past(layout, "deep").record.write_text("[" * 100_000)
    (layout.runs / "empty").mkdir()
    (layout.runs / "torn").mkdir()
    (layout.runs / "torn" / ".tmp-1-0123456789ab").write_text("{")
    (layout.runs / ".hidden").mkdir()
    (layout.runs / "file").write_text("x")
    (layout.runs / "to").symlink_to(tmp_path)
    (layout.runs / os.fsdecode(b"caf\xe9") / "changes").mkdir(parents=True)
    found = states(layout)
    assert set(found) == {"pipe", "large", "link", "folder", "list", "deep", os.fsdecode(b"caf\xe9")}
    assert set(found.values()) == {"unreadable"}
    assert sorted(path.parent.name for path in layout.runs.glob("*/*.broken-1")) == ["deep", "list"]


@pytest.mark.soak
@settings(suppress_health_check=[HealthCheck.too_slow])  # any JSON is a deep strategy: slow on a busy machine
@given(st.dictionaries(st.sampled_from([*to_dict(Record()), "version", "x"]), JSON))
def test_any_run_json_can_be_read(value: dict[str, Any]) -> None:
    found = from_dict(value)
    again = from_dict(json.loads(json.dumps(to_dict(found), allow_nan=False)))
    assert again == found and (found.cost is None or found.cost >= 0) and found.turns >= 0


def test_find_by_name(layout: Layout) -> None:
    with pytest.raises(UsageError, match="no runs yet"):
        find(layout, "last")
    one, two = "run-20260102-030405-abcdef", "run-20260102-030406-abc123"
    for number, name in enumerate([one, two, "abc", "parser"]):
        past(layout, name, number)
    assert find(layout, "abc").name == "abc"  # a full name takes precedence over a prefix
    assert find(layout, "abcd").name == find(layout, "abcdef").name == find(layout, one).name == one
    assert find(layout, "run-20260102-030406").name == two and find(layout, "last").name == one
    past(layout, "child", parent="parser")
    assert find(layout, "last").name == one
    with pytest.raises(UsageError, match=r"'run-' is ambiguous: run-\S+abcdef, run-\S+abc123; use more"):
        find(layout, "run-")
    with pytest.raises(UsageError, match="did you mean parser"):
        find(layout, "praser")
    with pytest.raises(UsageError, match=f"there is child, {one}, "):
        find(layout, "zzz")
    for odd in ("", "../memory", "/etc", "a\nb"):
        with pytest.raises(UsageError, match="no run"):
            find(layout, odd)


def test_a_name_must_be_valid_for_a_conversation(layout: Layout) -> None:
    names = [new_name(), new_name("chat")]
    assert all(map(is_reserved, names)) and names[0].startswith("run-2") and len({*names, new_name()}) == 3
    assert open_run_directory(layout, "my task").name == "my task"
    for bad in ("a/b", "..", "", "-x", "edit-1", "kept-1", names[0]):
        with pytest.raises(UsageError):
            open_run_directory(layout, bad)
    past(layout, names[0])
    assert open_run_directory(layout, names[0]).name == names[0]  # it exists, so it can be resumed


def test_sub_agents_are_listed_below_their_parents(layout: Layout) -> None:
    past(layout, "p", 9)
    past(layout, "c2", 1, parent="p")
    past(layout, "c1", 2, parent="p")
    past(layout, "g", 0.5, parent="c1")
    past(layout, "lone", 3, parent="gone")
    found = runs(layout)
    assert [(depth, run.name) for depth, run in tree(found)] == [
        (0, "g"), (0, "lone"), (0, "p"), (1, "c1"), (1, "c2"),
    ]  # fmt: skip
    assert [run.name for run in children(find(layout, "p"), found)] == ["c1", "c2"]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), unique_by=lambda pair: pair[0]))
def test_each_run_is_listed_once_with_any_parents(pairs: list[tuple[int, int]]) -> None:
    layout = Layout(Path("/nowhere"), Path("/nowhere"))
    found = [
        Run(RunDirectory(layout, str(name)), Record(parent=str(parent)), "done") for name, parent in pairs
    ]
    assert sorted(run.name for _, run in tree(found)) == sorted(run.name for run in found)


@pytest.mark.soak
def test_a_thousand_runs_are_listed_quickly(layout: Layout) -> None:
    for number in range(1000):
        past(layout, f"run-20260102-{number:06}-abcdef", number, prompt="words " * 20, host="h", tokens=9)
    took = []
    for _ in range(3):
        began = time.process_time()
        assert len(runs(layout)) == 1000
        took.append(time.process_time() - began)
    assert min(took) < 0.15, took


def test_last_is_not_a_starting_run(layout: Layout) -> None:
    """Neither a subagent with only its specification, nor a run with a lock and no record."""
    run_dir = RunDirectory(layout, "run-20990101-000000-aaaaaa")
    write_spec(run_dir, RunRequest("x", run_dir.name, "explore", "parent"), Limits())
    with pytest.raises(UsageError, match="still starting"):
        find(layout, "last")
    past(layout, "parent", ago=1)
    late = RunDirectory(layout, "run-20990101-000001-bbbbbb")
    with live_run(late, Record("x")) as live:
        late.record.unlink()
        found = {run.name: run for run in runs(layout)}
        assert find(layout, "last").name == "parent"
        assert found[late.name].starting and not found["parent"].starting
        assert [run.state for run in children(found["parent"], found.values())] == ["running"]
        live.ended("done", "")
    os.utime(RunDirectory(layout, "run-20990101-000000-aaaaaa").folder, (1, 1))  # it never started
    assert states(layout)["run-20990101-000000-aaaaaa"] == "unreadable"
    assert find(layout, "last").name == late.name
