"""Messages arrive, in their order, at least once; and nothing that lies in an inbox harms the run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from repoagent.llm.conversation import Turn, append
from repoagent.storage.layout import Layout
from repoagent.tasks.runs.control import message
from repoagent.tasks.runs.directory import RunDirectory
from repoagent.tasks.runs.inbox import AT_ONCE, LARGEST, Message, unread
from repoagent.tasks.runs.list import find
from repoagent.tasks.runs.live import living
from repoagent.tasks.runs.record import About
from tests.tasks.runs.conftest import Worker

Start = Callable[..., Worker]


def put(home: RunDirectory, name: str, text: str | bytes) -> None:
    (home.inbox / name).write_bytes(text.encode() if isinstance(text, str) else text)


def test_messages_come_between_turns_in_their_order_and_once(start: Start) -> None:
    worker = start()
    run = find(worker.home.layout, "task")
    assert worker.control() == []
    for text in ("first", "second\nof two lines", "thïrd"):
        message(run, text)
    put(worker.home, "zz by hand.md", "\ufeffby hand\r\n")
    assert unread(worker.home) == 4
    assert worker.control() == ["first", "second\nof two lines", "thïrd", "by hand\r\n"]
    assert worker.control() == [] and unread(worker.home) == 0
    assert not list(worker.home.taken.iterdir())


def test_who_is_killed_before_it_was_kept_gets_it_again(start: Start) -> None:
    worker = start()
    message(find(worker.home.layout, "task"), "do not forget")
    assert worker.control() == ["do not forget"]
    worker.kill()
    again = start()
    assert again.control() == ["do not forget"]
    assert again.control() == []
    again.kill()
    assert start().control() == []


def test_a_turn_that_names_it_says_that_it_was_kept(layout: Layout) -> None:
    home = RunDirectory(layout, "task")
    with pytest.raises(KeyboardInterrupt), living(home, About("x")) as live:
        for text in ("one", "two", "three"):
            message(find(layout, "task"), text)
        one, two, three = live.control()
        assert isinstance(two, Message) and two == "two"
        append(home.conversation, Turn("user", f"{one}\n\n{two}", {"message": f"{one.name}/{two.name}"}))
        append(
            home.conversation, Turn("observation", three, {"message": three.name})
        )  # forged: not a person's
        raise KeyboardInterrupt
    with living(home, About("x")) as live:
        assert live.control() == ["three"]
        live.ended("done", "")


def test_what_came_too_late_is_there_when_it_is_resumed(start: Start) -> None:
    worker = start()
    message(find(worker.home.layout, "task"), "too late")
    worker.end()
    assert unread(worker.home) == 1
    assert start().control() == ["too late"]


def test_what_is_no_message_is_set_aside_and_said(layout: Layout) -> None:
    home, said = RunDirectory(layout, "task"), list[str]()
    with living(home, About("x"), warn=said.append) as live:
        os.mkfifo(home.inbox / "a.md")
        (home.inbox / "b.md").symlink_to("/etc/passwd")
        (home.inbox / "c.md").mkdir()
        with (home.inbox / "d.md").open("wb") as file:
            file.truncate(2**30)
        put(home, "e.md", b"caf\xe9")
        put(home, "f.txt", "no message")
        put(home, ".g.md", "hidden")
        put(home, "h\x1b[31m.md", "red")
        assert live.control() == ["caf�", "red"]
        assert len(said) == 4 and all("the run has not seen it" in each for each in said)
        assert live.control() == [] and len(said) == 4
        assert {path.name for path in home.inbox.glob("*broken*")} == {f"{n}.md.broken-1" for n in "abcd"}
        assert (home.inbox / "d.md.broken-1").stat().st_size == 2**30
        live.ended("done", "")


def test_a_file_that_is_about_to_be_written_is_waited_for(layout: Layout) -> None:
    home = RunDirectory(layout, "task")
    with living(home, About("x")) as live:
        put(home, "a.md", "")
        assert live.control() == [] and (home.inbox / "a.md").exists()
        put(home, "a.md", "now")
        put(home, "b.md", "")
        os.utime(home.inbox / "b.md", (time.time() - 60,) * 2)
        assert live.control() == ["now"] and unread(home) == 0  # one that stays empty says nothing
        live.ended("done", "")


def test_many_come_in_parts(layout: Layout) -> None:
    home = RunDirectory(layout, "task")
    with living(home, About("x")) as live:
        for number in range(AT_ONCE + 3):
            put(home, f"{number:03}.md", f"{number}")
        assert live.control() == [str(number) for number in range(AT_ONCE)]
        assert live.control() == [str(number) for number in range(AT_ONCE, AT_ONCE + 3)]
        put(home, "full.md", "x" * LARGEST)
        assert [len(each) for each in live.control()] == [LARGEST]
        live.ended("done", "")
