"""Pause, resume, stop and terminate a run; no other process is ever signalled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.llm.model import Usage
from repoagent.storage.layout import Layout
from repoagent.tasks.runs.control import (
    NotRunning,
    StillRunning,
    message,
    pause,
    resume,
    stop,
    terminate_run,
    wait,
)
from repoagent.tasks.runs.directory import RunDirectory
from repoagent.tasks.runs.list import Run, find, refreshed
from repoagent.tasks.runs.live_run import live_run, pid_start, terminate
from repoagent.tasks.runs.record import Record
from tests.tasks.runs.conftest import Worker

Start = Callable[..., Worker]


def of(worker: Worker) -> Run:
    return find(worker.run_dir.layout, worker.run_dir.name)


def until(state: str, worker: Worker) -> Run:
    for _ in range(200):
        if of(worker).state == state:
            return of(worker)
        time.sleep(0.02)
    raise AssertionError(f"it is {of(worker).state}, not {state}")


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is not a run."""
    process = subprocess.Popen(["sleep", "60"])
    time.sleep(0.02)  # so that a later process has another start time, in hundredths of a second
    yield process
    process.kill()
    process.wait()


@pytest.mark.soak
def test_a_message_does_not_end_a_pause(start: Start) -> None:
    worker = start()
    pause(of(worker))
    assert of(worker).state == "running"  # until its next call of `control`
    worker.ask("control")
    until("paused", worker)
    with pytest.raises(NothingDone, match="already"):
        pause(of(worker))
    message(of(worker), "in the pause")
    time.sleep(0.3)
    assert of(worker).state == "paused"
    resume(of(worker))
    assert worker.answer() == ["in the pause"]
    assert of(worker).state == "running"
    with pytest.raises(NothingDone, match="not paused"):
        resume(of(worker))


def test_stop_ends_a_pause(start: Start) -> None:
    worker = start()
    pause(of(worker))
    worker.ask("control")
    until("paused", worker)
    stop(of(worker))
    assert worker.answer() == "Stopped"
    worker.wait()
    found = of(worker)
    assert (found.state, found.exit_code) == ("stopped", 130)
    assert not worker.run_dir.stop.exists() and not worker.run_dir.pause.exists()
    assert start().control() == []  # the resumed run works


@pytest.mark.soak
def test_a_pause_does_not_count_as_time(layout: Layout) -> None:
    run_dir = RunDirectory(layout, "task")
    with live_run(run_dir, Record("x")) as live:
        pause(find(layout, "task"))
        pid = os.fork()
        if not pid:
            time.sleep(0.3)
            run_dir.pause.unlink()
            os._exit(0)
        assert live.control() == [] and 0.2 < live.paused < 5
        os.waitpid(pid, 0)
        live.ended("done", "")


def test_a_run_that_waits_for_a_sub_agent_is_paused_immediately(layout: Layout) -> None:
    with live_run(RunDirectory(layout, "task"), Record("x")) as live:
        live.turn(turns=1, activity="run make", usage=Usage(), cost=None)
        pause(find(layout, "task"))
        assert find(layout, "task").state == "running"
        live.turn(turns=1, activity="delegate explore", usage=Usage(), cost=None)
        assert find(layout, "task").state == "paused"
        resume(find(layout, "task"))
        assert find(layout, "task").state == "running"
        live.ended("done", "")


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["file", "folder", "full folder", "pipe", "dangling link"])
def test_a_stop_file_of_any_type_stops_once(layout: Layout, start: Start, kind: str) -> None:
    worker = start()
    path = worker.run_dir.stop
    match kind:
        case "file":
            path.write_text("please\n")
        case "folder" | "full folder":
            path.mkdir()
            if kind == "full folder":
                (path / "x").touch()
        case "pipe":
            os.mkfifo(path)
        case _:
            path.symlink_to("nowhere")
    assert worker.control() == "Stopped"
    assert start().control() == []


def test_requests_to_a_killed_process_are_dropped(start: Start) -> None:
    worker = start()
    stop(of(worker))
    worker.kill()
    assert start().control() == []


@pytest.mark.soak
def test_requests_include_sub_agents(start: Start) -> None:
    parent, child, other = start("parent"), start("child", parent="parent"), start("other")
    past = start("past", parent="parent")
    past.end()
    assert [run.name for run in pause(of(parent))] == ["parent", "child"]
    child.ask("control")
    until("paused", child)
    assert {run.name for run in resume(of(parent))} == {"parent", "child"}
    assert child.answer() == []
    assert len(stop(of(parent))) == 2
    assert child.control() == "Stopped" and other.control() == []


def test_a_sub_agent_that_starts_during_a_pause_is_paused(start: Start) -> None:
    parent = start("parent")
    pause(of(parent))
    child, other = start("child", parent="parent"), start("other")
    assert other.control() == []
    child.ask("control")
    until("paused", child)
    with pytest.raises(
        NothingDone, match="child is paused with its parent parent; use `repoagent runs resume parent`"
    ):
        resume(of(child))
    resume(of(parent))
    assert child.answer() == []
    assert [run.name for run in stop(of(parent))] == ["parent", "child"]
    assert start("late", parent="parent").control() == "Stopped"


def test_a_killed_run_accepts_no_requests(start: Start) -> None:
    worker = start()
    worker.kill()
    for ask in (stop, pause, resume, terminate_run, lambda run: message(run, "hello")):
        with pytest.raises(
            NotRunning, match=r"task is not running \(killed\); resume it with `repoagent run --resume task"
        ):
            ask(of(worker))
    assert not worker.run_dir.stop.exists() and not list(worker.run_dir.inbox.glob("*.md"))


@pytest.mark.parametrize(("text", "why"), [(" \n", "empty"), ("x" * 300_000, "300,000 bytes")])
def test_invalid_messages_are_refused(start: Start, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        message(of(start()), text)


def test_terminate_is_recorded(start: Start) -> None:
    worker = start()
    assert [run.name for run in terminate_run(of(worker))] == ["task"]
    found = wait(of(worker), 5)
    assert found.state == "stopped" and "SIGTERM" in found.record.text
    assert worker.answer() == "Ended"


@pytest.mark.soak
@pytest.mark.parametrize("lie", ["pid", "pid_start", "host", "huge", "negative", "init"])
def test_another_process_is_never_terminated(
    start: Start, stranger: subprocess.Popen[bytes], lie: str
) -> None:
    worker = start()
    record = json.loads(worker.run_dir.record.read_text())
    lies: dict[str, dict[str, object]] = {
        "pid": {"pid": stranger.pid},  # the process id was reused
        "pid_start": {"pid_start": "1"},
        "host": {
            "pid": stranger.pid,
            "pid_start": pid_start(stranger.pid),
            "host": "elsewhere",
            "boot": "another",
        },
        "huge": {"pid": 2**40},
        "negative": {"pid": -1},
        "init": {"pid": 1, "pid_start": ""},
    }
    worker.run_dir.record.write_text(json.dumps({**record, **lies[lie]}))
    assert terminate_run(of(worker)) == []
    assert stranger.poll() is None and worker.control() == []


def test_only_the_holder_of_the_lock_is_terminated(layout: Layout, stranger: subprocess.Popen[bytes]) -> None:
    """A repository may contain a run.json that names any process."""
    run_dir = RunDirectory(layout, "task")
    with live_run(run_dir, Record("x")):
        record = json.loads(run_dir.record.read_text())
    forged = {
        **record,
        "pid": stranger.pid,
        "pid_start": pid_start(stranger.pid),
        "ended": "",
        "state": "running",
    }
    run_dir.record.write_text(json.dumps(forged))
    with pytest.raises(Refused, match="killed"):
        terminate_run(find(layout, "task"))
    assert stranger.poll() is None


def test_a_process_is_identified_by_its_start_time(stranger: subprocess.Popen[bytes]) -> None:
    birth = pid_start(stranger.pid)
    assert birth and birth == pid_start(stranger.pid) and birth != pid_start(1)
    assert pid_start(0) == pid_start(-1) == pid_start(2**31) == "" and not terminate(stranger.pid, "")
    assert terminate(stranger.pid, birth) and stranger.wait(5) == -signal.SIGTERM
    assert pid_start(stranger.pid) == "" and not terminate(stranger.pid, birth)


def test_wait(start: Start) -> None:
    worker = start()
    with pytest.raises(StillRunning, match=r"still running after 0.1 s"):
        wait(of(worker), 0.1)
    worker.ask("end", "failed", "it does not fit")
    found = wait(of(worker), 5)
    assert (found.state, found.exit_code) == ("failed", 3)
    assert wait(found) == refreshed(found)
