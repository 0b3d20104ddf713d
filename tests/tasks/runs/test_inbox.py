"""Messages are delivered in order and at least once, and no file in an inbox harms the run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from repoagent.storage.layout import Layout
from repoagent.tasks.runs.control import message
from repoagent.tasks.runs.directory import RunDirectory
from repoagent.tasks.runs.inbox import AT_ONCE, LARGEST, unread
from repoagent.tasks.runs.list import find
from repoagent.tasks.runs.live_run import live_run
from repoagent.tasks.runs.record import Record
from tests.tasks.runs.conftest import Worker

Start = Callable[..., Worker]


def put(run_dir: RunDirectory, name: str, text: str | bytes) -> None:
    (run_dir.inbox / name).write_bytes(text.encode() if isinstance(text, str) else text)


def test_messages_are_delivered_in_order_and_once(start: Start) -> None:
    worker = start()
    run = find(worker.run_dir.layout, "task")
    assert worker.control() == []
    for text in ("first", "second\nof two lines", "thïrd"):
        message(run, text)
    put(worker.run_dir, "zz by hand.md", "\ufeffby hand\r\n")
    assert unread(worker.run_dir) == 4
    assert worker.control() == ["first", "second\nof two lines", "thïrd", "by hand\r\n"]
    assert worker.control() == [] and unread(worker.run_dir) == 0
    assert not list(worker.run_dir.inbox.iterdir())


def test_an_unconfirmed_message_is_delivered_again(start: Start) -> None:
    worker = start()
    message(find(worker.run_dir.layout, "task"), "do not forget")
    assert worker.control() == ["do not forget"]
    worker.kill()
    again = start()
    assert again.control() == ["do not forget"]
    assert again.control() == []
    again.kill()
    assert start().control() == []


def test_messages_that_an_earlier_version_has_moved_aside_return(start: Start) -> None:
    worker = start()
    (worker.run_dir.inbox / "taken").mkdir(parents=True)
    put(worker.run_dir, "taken/1.md", "not lost")
    assert worker.control() == ["not lost"] and worker.control() == []


def test_a_late_message_is_delivered_at_a_resume(start: Start) -> None:
    worker = start()
    message(find(worker.run_dir.layout, "task"), "too late")
    worker.end()
    assert unread(worker.run_dir) == 1
    assert start().control() == ["too late"]


def test_invalid_messages_are_set_aside_with_a_warning(layout: Layout) -> None:
    run_dir, said = RunDirectory(layout, "task"), list[str]()
    with live_run(run_dir, Record("x"), warn=said.append) as live:
        os.mkfifo(run_dir.inbox / "a.md")
        (run_dir.inbox / "b.md").symlink_to("/etc/passwd")
        (run_dir.inbox / "c.md").mkdir()
        with (run_dir.inbox / "d.md").open("wb") as file:
            file.truncate(2**30)
        put(run_dir, "e.md", b"caf\xe9")
        put(run_dir, "f.txt", "no message")
        put(run_dir, ".g.md", "hidden")
        put(run_dir, "h\x1b[31m.md", "red")
        assert live.control() == ["caf�", "red"]
        assert len(said) == 4 and all("did not pass it to the run" in each for each in said)
        assert live.control() == [] and len(said) == 4
        assert {path.name for path in run_dir.inbox.glob("*broken*")} == {f"{n}.md.broken-1" for n in "abcd"}
        assert (run_dir.inbox / "d.md.broken-1").stat().st_size == 2**30
        live.ended("done", "")


def test_a_file_that_is_being_written_is_read_later(layout: Layout) -> None:
    run_dir = RunDirectory(layout, "task")
    with live_run(run_dir, Record("x")) as live:
        put(run_dir, "a.md", "")
        assert live.control() == [] and (run_dir.inbox / "a.md").exists()
        put(run_dir, "a.md", "now")
        put(run_dir, "b.md", "")
        os.utime(run_dir.inbox / "b.md", (time.time() - 60,) * 2)
        assert live.control() == ["now"]
        live.confirm()
        assert unread(run_dir) == 0  # a file that stays empty is removed
        live.ended("done", "")


def test_many_messages_are_delivered_in_batches(layout: Layout) -> None:
    run_dir = RunDirectory(layout, "task")
    with live_run(run_dir, Record("x")) as live:
        for number in range(AT_ONCE + 3):
            put(run_dir, f"{number:03}.md", f"{number}")
        assert live.control() == [str(number) for number in range(AT_ONCE)]
        assert live.control() == [str(number) for number in range(AT_ONCE, AT_ONCE + 3)]
        put(run_dir, "full.md", "x" * LARGEST)
        assert [len(each) for each in live.control()] == [LARGEST]
        live.ended("done", "")
