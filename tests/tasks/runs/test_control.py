"""A live run: requests to it, the state that its directory shows when it is killed, resumed or ended, and its deletion. No
other process is ever signalled, no file harms the run."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from repoagent.cli import Ended
from repoagent.errors import Busy, LimitReached, ModelError, NothingDone, Refused, RepoagentError, UsageError
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.llm.conversation import Turn, append_turns
from repoagent.memory import conversation_log
from repoagent.memory.conversations import conversation_named
from repoagent.storage import json_files
from repoagent.storage.layout import Layout
from repoagent.tasks.runs import control
from repoagent.tasks.runs.control import RunStopped, live_run
from repoagent.tasks.runs.directory import RunDirectory, RunRecord, new_name, pid_start, terminate_process
from repoagent.tasks.runs.list import Run, find_run, list_runs, read_run
from tests.conftest import GitRepo
from tests.tasks.runs.conftest import USED, Start, Worker


def of(worker: Worker) -> Run:
    return find_run(worker.run_dir.layout, worker.run_dir.name)


def put(run_dir: RunDirectory, name: str, text: str | bytes) -> None:
    (run_dir.inbox / name).write_bytes(text.encode() if isinstance(text, str) else text)


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is not a run."""
    process = subprocess.Popen(["sleep", "60"])
    time.sleep(0.02)  # so that a later process has another start time, in hundredths of a second
    yield process
    process.kill()
    process.wait()


def test_messages_are_delivered_in_order_and_at_least_once(start: Start) -> None:
    worker = start()
    assert worker.control() == []
    for text, why in ((" \n", "empty"), ("x" * 300_000, "300,000 bytes")):
        with pytest.raises(UsageError, match=why):
            control.send_message(of(worker), text)
    for text in ("first", "second\nof two lines"):
        control.send_message(of(worker), text)
    put(worker.run_dir, "zz by hand.md", "\ufeffby hand\r\n")
    assert control.unread(worker.run_dir) == 3
    assert worker.control() == ["first", "second\nof two lines", "by hand\r\n"]
    assert worker.control() == [] and not list(worker.run_dir.inbox.iterdir())
    control.send_message(of(worker), "do not forget")
    assert worker.control() == ["do not forget"]
    worker.kill()  # before it confirmed
    again = start()
    assert again.control() == ["do not forget"] and again.control() == []
    control.send_message(of(again), "too late")
    again.end()
    assert control.unread(again.run_dir) == 1 and start().control() == ["too late"]


def test_other_files_in_the_inbox_are_refused_or_read_later(layout: Layout) -> None:
    run_dir = RunDirectory(layout, "task")
    with live_run(run_dir, RunRecord("x")) as live:
        os.mkfifo(run_dir.inbox / "a.md")  # ignored, as empty files are
        put(run_dir, "e.md", b"caf\xe9")
        put(run_dir, "f.txt", "no message")
        put(run_dir, ".g.md", "hidden")
        put(run_dir, "h\x1b[31m.md", "red")
        put(run_dir, "i.md", "")  # it is being written
        assert [*live.control().values()] == ["caf�", "red"]
        put(run_dir, "i.md", "now")
        assert [*live.control().values()] == ["now"]
        live.confirm()
        assert control.unread(run_dir) == 0
        put(run_dir, "full.md", "x" * control.LARGEST)
        assert [len(text) for text in live.control().values()] == [control.LARGEST]
        wrong = run_dir.inbox / "z.md"
        wrong.symlink_to("/etc/passwd")
        with pytest.raises(Refused, match=r"z\.md is not a regular file: remove it or move it away"):
            live.control()
        wrong.unlink()
        put(run_dir, "z.md", "x" * (control.LARGEST + 1))
        with pytest.raises(Refused, match=r"z\.md is larger than the limit of 256 KiB"):
            live.control()
        live.ended("done", "")


@pytest.mark.soak
@pytest.mark.parametrize(
    "make", [Path.touch, os.mkfifo, lambda path: path.symlink_to("x")], ids=["file", "pipe", "dangling link"]
)
def test_a_stop_file_of_any_type_stops_once(start: Start, make: Callable[[Path], None]) -> None:
    worker = start()
    path = worker.run_dir.stop
    make(path)
    assert worker.control() == "RunStopped"
    worker.wait()
    assert (of(worker).state, of(worker).exit_code) == ("stopped", 130) and not path.exists()
    assert start().control() == []  # the resumed run works


def test_a_killed_run_accepts_no_requests_and_its_own_are_dropped(start: Start) -> None:
    worker = start()
    control.stop_run(of(worker))
    worker.kill()
    again = start()
    assert again.control() == []
    again.kill()
    reason = r"task is not running \(killed\); resume it with `repoagent run --resume task"
    for request in (control.stop_run, control.terminate_run, lambda run: control.send_message(run, "hello")):
        with pytest.raises(control.NotRunning, match=reason):
            request(of(again))
    assert not again.run_dir.stop.exists() and control.unread(again.run_dir) == 0


def test_requests_include_sub_agents_and_those_that_start_later(start: Start) -> None:
    parent, child, other = start("parent"), start("child", parent="parent"), start("other")
    start("past", parent="parent").end()
    assert [run.name for run in control.stop_run(of(parent))] == ["parent", "child"]
    assert child.control() == "RunStopped" and other.control() == []
    assert start("late", parent="parent").control() == "RunStopped"


def test_terminate_is_recorded_and_waited_for(start: Start) -> None:
    worker = start()
    with pytest.raises(control.StillRunning, match=r"still running after 0.1 s"):
        control.wait_for_run(of(worker), 0.1)
    assert [run.name for run in control.terminate_run(of(worker))] == ["task"]
    ended = control.wait_for_run(of(worker), 5)
    assert ended.state == "stopped" and "SIGTERM" in ended.record.text
    assert worker.answer() == "Ended" and control.wait_for_run(ended) == read_run(ended.run_dir)


@pytest.mark.soak
@pytest.mark.parametrize(
    "lie", [{}, {"pid_start": "1"}, {"pid": 2**40}, {"pid": -1}, {"pid": 1, "pid_start": ""}]
)
def test_another_process_is_never_terminated(
    start: Start, stranger: subprocess.Popen[bytes], lie: dict[str, object]
) -> None:
    worker = start()
    record = json.loads(worker.run_dir.record.read_text())
    reused = {"pid": stranger.pid}
    worker.run_dir.record.write_text(json.dumps({**record, **(lie or reused)}))
    assert control.terminate_run(of(worker)) == []
    assert stranger.poll() is None and worker.control() == []


def test_only_the_holder_of_the_lock_is_terminated(layout: Layout, stranger: subprocess.Popen[bytes]) -> None:
    """A repository may contain a run.json that names any process."""
    run_dir, birth = RunDirectory(layout, "task"), pid_start(stranger.pid)
    with live_run(run_dir, RunRecord("x")):
        record = json.loads(run_dir.record.read_text())
    forged = {**record, "pid": stranger.pid, "pid_start": birth, "ended": "", "state": "running"}
    run_dir.record.write_text(json.dumps(forged))
    with pytest.raises(Refused, match="killed"):
        control.terminate_run(find_run(layout, "task"))
    assert stranger.poll() is None


def test_a_process_is_identified_by_its_start_time(stranger: subprocess.Popen[bytes]) -> None:
    birth = pid_start(stranger.pid)
    process = RunRecord(pid=stranger.pid, pid_start=birth)
    assert birth and birth == pid_start(stranger.pid) and birth != pid_start(1)
    assert pid_start(0) == pid_start(-1) == pid_start(2**31) == ""
    assert not terminate_process(RunRecord(pid=stranger.pid))
    assert terminate_process(process) and stranger.wait(5) == -signal.SIGTERM
    assert pid_start(stranger.pid) == "" and not terminate_process(process)


def test_a_deleted_conversation_can_be_restored_unless_it_was_named(repo: GitRepo) -> None:
    layout = layout_of(open_worktree(repo.top))
    run_dir, mine = RunDirectory(layout, new_name()), RunDirectory(layout, "mine")
    for each in (run_dir, mine):
        with live_run(each, RunRecord("x")) as live:
            each.output.mkdir(mode=0o700)
            (each.output / "1.txt").write_text("much")
            live.ended("done", "")
        append_turns(each.conversation, Turn("user", "precious"))
    # a conversation with a chosen name is kept
    assert not control.delete_run(find_run(layout, "mine"))
    assert mine.conversation.exists() and not mine.folder.exists()
    data = run_dir.conversation.read_bytes()
    assert control.delete_run(find_run(layout, run_dir.name))
    assert list_runs(layout) == [] and not list(layout.runs.iterdir()) and not run_dir.conversation.exists()
    conversation = conversation_named(layout, run_dir.name)
    conversation_log.reverse_change(layout, conversation, conversation_log.UNDO, warn=print)
    assert run_dir.conversation.read_bytes() == data
    assert find_run(layout, run_dir.name).state == "conversation"
    assert control.delete_run(find_run(layout, run_dir.name)) and list_runs(layout) == []


# -- the state in the directory


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
