"""The directory of a live, killed, resumed or ended run shows its actual state."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.cli import Ended
from repoagent.errors import Busy, LimitReached, ModelError, NothingDone, Refused, RepoagentError
from repoagent.storage import json_files
from repoagent.storage.layout import Layout
from repoagent.tasks.runs.control import Stopped, live_run
from repoagent.tasks.runs.directory import Record, RunDirectory, from_dict
from repoagent.tasks.runs.list import Run, find, runs
from tests.tasks.runs.conftest import USED, Worker

Start = Callable[..., Worker]


def of(run_dir: RunDirectory) -> Run:
    return find(run_dir.layout, run_dir.name)


def record(run_dir: RunDirectory) -> Record:
    return of(run_dir).record


def test_another_process_is_refused_with_the_holder(layout: Layout, start: Start) -> None:
    worker = start()
    said = rf"task is running in process {worker.pid} .*since .*runs message task"
    with pytest.raises(Busy, match=said), live_run(worker.run_dir, Record("another")):
        raise AssertionError("it was let in")
    assert of(worker.run_dir).state == "running" and record(worker.run_dir).prompt == "do it"


def test_killed_live_and_ended_runs_are_distinguished(start: Start) -> None:
    works, killed, ended = start("works"), start("killed"), start("ended")
    killed.ask("turn", "runs make test")
    assert killed.answer() == "turned"
    killed.kill()
    ended.end("limit", "the limit of 3 turns")
    found = {run.name: run for run in runs(works.run_dir.layout)}
    assert {name: run.state for name, run in found.items()} == {
        "works": "running",
        "killed": "killed",
        "ended": "limit",
    }
    assert found["killed"].record.activity == "runs make test" and found["killed"].exit_code == 130
    assert found["ended"].exit_code == 5 and found["ended"].record.text == "the limit of 3 turns"
    assert found["works"].is_live and not found["killed"].is_live


def test_a_resumed_run_adds_to_its_usage(layout: Layout, start: Start) -> None:
    first = start(model="m")
    for doing in ("reads", "writes"):
        first.ask("turn", doing)
        first.answer()
    first.kill()
    begun = record(first.run_dir)
    with live_run(first.run_dir, Record("go on", model="n")) as live:
        assert (live.record.turns, live.record.tokens, live.record.cost) == (2, 240, 0.5)
        live.turn(turns=1, activity="reads", usage=USED, cost=0.25)
        live.ended("done", "fine", commits=["a" * 40])
    final = record(first.run_dir)
    assert (final.turns, final.tokens, final.cost) == (3, 360, 0.75)
    assert final.started == begun.started <= final.process_started <= final.ended and final.commits == (
        "a" * 40,
    )
    assert final.prompt == "go on" and final.model == "n" and final.activity == ""
    with live_run(first.run_dir, Record("", model="n")) as live:  # without a new prompt, the old one is kept
        live.turn(turns=1, activity="", usage=USED, cost=None)
        live.ended("answered", "no")
    assert record(first.run_dir).cost is None and record(first.run_dir).prompt == "go on"
    assert record(first.run_dir).commits == ("a" * 40,)


@pytest.mark.parametrize(
    ("error", "state", "code"),
    [
        (Stopped("asked"), "stopped", 130),
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
    layout: Layout, error: BaseException, state: str, code: int
) -> None:
    run_dir = RunDirectory(layout, "task")
    with pytest.raises(type(error)), live_run(run_dir, Record("x")):
        raise error
    found = of(run_dir)
    assert (found.state, found.exit_code) == (state, code) and found.record.text
    if isinstance(error, RepoagentError) and not isinstance(error, Stopped):
        assert found.record.text == str(error)


def test_the_first_end_counts_and_a_missing_end_is_a_failure(layout: Layout) -> None:
    run_dir = RunDirectory(layout, "task")
    with live_run(run_dir, Record("x")) as live:
        live.turn(turns=1, activity="reads", usage=USED, cost=0.0)
        live.ended("answered", "yes", exit_code=6)
        live.turn(turns=9, activity="nothing any more", usage=USED, cost=0.0)
        live.ended("failed", "no")
    assert (of(run_dir).state, of(run_dir).exit_code, record(run_dir).turns) == ("answered", 6, 1)
    with live_run(run_dir, Record("x")):
        pass
    assert of(run_dir).state == "failed" and "without a result" in record(run_dir).text


def test_files_are_private(layout: Layout, start: Start) -> None:
    old = os.umask(0)
    try:
        worker = start()
        worker.end()
    finally:
        os.umask(old)
    for path in (worker.run_dir.folder, *worker.run_dir.folder.rglob("*")):
        assert stat.S_IMODE(path.lstat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert (layout.root / ".gitignore").read_text() == "*\n"


def test_a_newer_run_json_is_not_changed(layout: Layout, start: Start) -> None:
    worker = start()
    worker.end()
    run_dir = worker.run_dir
    run_dir.record.write_text(json.dumps({**json.loads(run_dir.record.read_text()), "version": 2}))
    before = run_dir.record.read_bytes()
    with pytest.raises(json_files.NewerFormat, match="update repoagent"), live_run(run_dir, Record("x")):
        raise AssertionError("it was begun")
    assert of(run_dir).state == "unreadable" and "update repoagent" in of(run_dir).problem
    assert run_dir.record.read_bytes() == before


def test_a_malformed_run_json_is_set_aside(layout: Layout) -> None:
    run_dir, said = RunDirectory(layout, "task"), list[str]()
    with live_run(run_dir, Record("x")) as live:
        live.ended("done", "")
    run_dir.record.write_text('{"version": 1, "na')
    found = runs(layout, warn=None)  # as shell completion does
    assert found[0].state == "unreadable" and run_dir.record.exists()
    assert runs(layout, warn=said.append)[0].state == "unreadable"
    assert len(said) == 1 and "run.json.broken-1" in said[0]
    assert "was renamed" in runs(layout, warn=said.append)[0].problem and len(said) == 1
    with live_run(run_dir, Record("y")) as live:
        live.ended("done", "")
    assert of(run_dir).state == "done"


@pytest.mark.parametrize("where", ["runs", "runs/task", "runs/task/inbox"])
def test_a_link_instead_of_a_folder_is_refused(layout: Layout, tmp_path: Path, where: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = layout.root / where
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    with pytest.raises(Refused, match="symbolic link"), live_run(RunDirectory(layout, "task"), Record("x")):
        raise AssertionError("it was begun")
    assert not list(outside.iterdir())


def test_a_full_disk_at_the_end_does_not_hide_the_error(layout: Layout) -> None:
    said: list[str] = []
    run_dir = RunDirectory(layout, "task")
    with pytest.raises(ModelError, match="no answer"), live_run(run_dir, Record("x"), warn=said.append):
        run_dir.record.unlink()
        run_dir.record.mkdir()
        raise ModelError("no answer")
    assert len(said) == 1 and "could not record how" in said[0]


def test_names_of_an_earlier_version_are_read() -> None:
    value = {"doing": "reads", "said": {"check": "true"}, "begun": "2026-01-01T00:00:00Z", "born": "7"}
    record = from_dict(value)
    assert (record.activity, record.options, record.pid_start) == ("reads", {"check": "true"}, "7")
    assert from_dict({**value, "activity": "writes"}).activity == "writes"
