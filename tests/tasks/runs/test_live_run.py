"""The directory of a live, killed, resumed or ended run shows its actual state."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from repoagent.cli import Ended
from repoagent.errors import Busy, LimitReached, ModelError, NothingDone, Refused, RepoagentError
from repoagent.storage import json_files
from repoagent.storage.layout import Layout
from repoagent.tasks.runs.control import RunStopped, live_run
from repoagent.tasks.runs.directory import RunDirectory, RunRecord
from repoagent.tasks.runs.list import Run, list_runs, read_run
from tests.tasks.runs.conftest import USED, Start


@pytest.fixture
def task(layout: Layout) -> RunDirectory:
    return RunDirectory(layout, "task")


def ended(run_dir: RunDirectory, state: str = "done", text: str = "") -> Run:
    with live_run(run_dir, RunRecord("x")) as live:
        live.ended(state, text)
    return read_run(run_dir)


def test_another_process_is_refused_with_the_holder(start: Start) -> None:
    worker = start()
    message = rf"task is already running in process {worker.pid} .*since .*runs message task"
    with pytest.raises(Busy, match=message), live_run(worker.run_dir, RunRecord("another")):
        raise AssertionError("it was let in")
    run = read_run(worker.run_dir)
    assert run.state == "running" and run.record.prompt == "do it"


def test_killed_live_and_ended_runs_are_distinguished(layout: Layout, start: Start) -> None:
    start("works")
    killed = start("killed")
    killed.ask("turn", "runs make test")
    assert killed.answer() == "turned"
    killed.kill()
    start("ended").end("limit", "the limit of 3 turns")
    by_name = {run.name: run for run in list_runs(layout)}
    assert {name: (run.state, run.is_live) for name, run in by_name.items()} == {
        "works": ("running", True), "killed": ("killed", False), "ended": ("limit", False),
    }  # fmt: skip
    assert by_name["killed"].record.activity == "runs make test" and by_name["killed"].exit_code == 130
    assert by_name["ended"].exit_code == 5 and by_name["ended"].record.text == "the limit of 3 turns"


def test_a_resumed_run_adds_to_its_usage(task: RunDirectory, start: Start) -> None:
    first = start(model="m")
    for activity in ("reads", "writes"):
        first.ask("turn", activity)
        first.answer()
    first.kill()
    started = read_run(task).record.started
    with live_run(task, RunRecord("go on", model="n")) as live:
        assert (live.record.turns, live.record.tokens, live.record.cost) == (2, 240, 0.5)
        live.turn(turns=1, activity="reads", usage=USED, cost=0.25)
        live.ended("done", "fine", commits=["a" * 40])
    record = read_run(task).record
    assert (record.turns, record.tokens, record.cost, record.commits) == (3, 360, 0.75, ("a" * 40,))
    assert record.started == started <= record.process_started <= record.ended
    assert (record.prompt, record.model, record.activity) == ("go on", "n", "")
    with live_run(task, RunRecord("", model="n")) as live:  # without a new prompt, the old one is kept
        live.turn(turns=1, activity="", usage=USED, cost=None)
        live.ended("answered", "no")
    record = read_run(task).record
    assert (record.cost, record.prompt, record.commits) == (None, "go on", ("a" * 40,))


@pytest.mark.parametrize(
    ("error", "state", "code"),
    [
        (RunStopped("asked"), "stopped", 130),
        (LimitReached("the limit of $2"), "limit", 5),
        (ModelError("no answer"), "failed", 4),
        (Refused("it does not fit"), "failed", 3),
        (NothingDone("not needed"), "rejected", 1),
        (KeyboardInterrupt(), "stopped", 130),
        (Ended(15), "stopped", 130),
        (ZeroDivisionError("oh"), "failed", 70),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_error_that_ended_a_run_is_recorded(
    task: RunDirectory, error: BaseException, state: str, code: int
) -> None:
    with pytest.raises(type(error)), live_run(task, RunRecord("x")):
        raise error
    run = read_run(task)
    assert (run.state, run.exit_code) == (state, code) and run.record.text
    if isinstance(error, RepoagentError) and not isinstance(error, RunStopped):
        assert run.record.text == str(error)


def test_the_first_end_counts_and_a_missing_end_is_a_failure(task: RunDirectory) -> None:
    with live_run(task, RunRecord("x")) as live:
        live.turn(turns=1, activity="reads", usage=USED, cost=0.0)
        live.ended("answered", "yes", exit_code=6)
        live.turn(turns=9, activity="nothing any more", usage=USED, cost=0.0)
        live.ended("failed", "no")
    run = read_run(task)
    assert (run.state, run.exit_code, run.record.turns) == ("answered", 6, 1)
    with live_run(task, RunRecord("x")):
        pass
    assert read_run(task).state == "failed" and "without a result" in read_run(task).record.text


def test_files_are_private(task: RunDirectory, start: Start) -> None:
    old = os.umask(0)
    try:
        start().end()
    finally:
        os.umask(old)
    for path in (task.folder, *task.folder.rglob("*")):
        assert stat.S_IMODE(path.lstat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert (task.layout.root / ".gitignore").read_text() == "*\n"


def test_a_newer_run_json_is_not_changed(task: RunDirectory) -> None:
    ended(task)
    task.record.write_text(json.dumps({**json.loads(task.record.read_text()), "version": 2}))
    before = task.record.read_bytes()
    with pytest.raises(json_files.NewerFormat, match="update repoagent"), live_run(task, RunRecord("x")):
        raise AssertionError("it was begun")
    run = read_run(task)
    assert run.state == "unreadable" and "update repoagent" in run.problem
    assert task.record.read_bytes() == before


def test_a_malformed_run_json_is_set_aside(layout: Layout, task: RunDirectory) -> None:
    ended(task)
    task.record.write_text('{"version": 1, "na')
    warnings: list[str] = []
    assert list_runs(layout, warn=None)[0].state == "unreadable"  # as shell completion does
    assert task.record.exists()
    assert list_runs(layout, warn=warnings.append)[0].state == "unreadable"
    assert len(warnings) == 1 and "run.json.broken-1" in warnings[0]
    assert list_runs(layout, warn=warnings.append) == [] and len(warnings) == 1
    assert ended(task).state == "done"
    task.record.write_text('{"version": 1, "turns": "many"}')  # by hand
    assert list_runs(layout)[0].problem == "run.json is malformed: turns has the invalid value 'many'"
    with pytest.raises(Refused, match="malformed"), live_run(task, RunRecord("x")):
        pass


@pytest.mark.parametrize("where", ["runs", "runs/task", "runs/task/inbox"])
def test_a_link_instead_of_a_folder_is_refused(task: RunDirectory, tmp_path: Path, where: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = task.layout.root / where
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    with pytest.raises(Refused, match="symbolic link"):
        ended(task)
    assert not list(outside.iterdir())


def test_a_full_disk_at_the_end_does_not_hide_the_error(task: RunDirectory) -> None:
    warnings: list[str] = []
    with pytest.raises(ModelError, match="no answer"), live_run(task, RunRecord("x"), warn=warnings.append):
        task.record.unlink()
        task.record.mkdir()
        raise ModelError("no answer")
    assert len(warnings) == 1 and "could not record how" in warnings[0]
