"""What was spent: one line a call, over all repositories of a user."""

from __future__ import annotations

import json
import threading
from datetime import date, datetime
from pathlib import Path

import pytest

from repoagent.errors import RepoagentError
from repoagent.llm.model import Usage
from repoagent.llm.usage import SpendLog, read, state_folder

USAGE = Usage(100, 20, 3, 4)


def today() -> date:
    return datetime.now().astimezone().date()


def test_a_call_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    spend_log = SpendLog(tmp_path / "spent").about("20261122-1", "/some/repository", ("a.py", "b c.py"))
    spend_log.add("openai/gpt-x", USAGE, 0.25)
    spend_log.add("ollama/llama", USAGE, None)
    first, second = read(tmp_path / "spent")
    assert (first.model, first.run, first.repository, first.files) == (
        "openai/gpt-x",
        "20261122-1",
        "/some/repository",
        ("a.py", "b c.py"),
    )
    assert (first.usage, first.cost, second.cost) == (USAGE, 0.25, None)
    assert datetime.fromisoformat(first.time).tzinfo is not None
    assert spend_log.today() == 0.25


def test_a_replay_is_not_spent(tmp_path: Path) -> None:
    SpendLog(tmp_path / "spent").add("replay:x.jsonl", USAGE, 0.0)
    assert not (tmp_path / "spent").exists()


def test_only_the_days_asked_for_are_read(tmp_path: Path) -> None:
    SpendLog(tmp_path).add("a/b", USAGE, 1.0)
    (tmp_path / f"{today()}.jsonl").rename(tmp_path / "2001-02-03.jsonl")
    SpendLog(tmp_path).add("a/b", USAGE, 2.0)
    assert [spent.cost for spent in read(tmp_path)] == [1.0, 2.0]
    assert [spent.cost for spent in read(tmp_path, today())] == [2.0]
    assert SpendLog(tmp_path).today() == 2.0


def test_lines_of_another_format_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spend_log = SpendLog(tmp_path)
    spend_log.add("a/b", USAGE, 1.0)
    file = tmp_path / f"{today()}.jsonl"
    good = json.loads(file.read_text())
    strange = [{**good, "version": 2}, {**good, "cost": "much"}, {**good, "usage": {"input": 1, "in": 2}}, {}]
    with file.open("a") as lines:
        lines.write("".join(json.dumps(record) + "\n" for record in strange) + "no json\n")
    spend_log.add("a/b", USAGE, 2.0)
    assert spend_log.today() == 3.0
    assert "1 broken line" in capsys.readouterr().err


def test_what_can_t_be_written_does_not_stop_an_edit_unless_a_limit_depends_on_it(tmp_path: Path) -> None:
    (tmp_path / "spent").write_text("a file where the folder should be")
    said: list[str] = []
    SpendLog(tmp_path / "spent", warn=said.append).add("a/b", USAGE, 1.0)
    assert "cannot record the cost of this call" in said[0]
    with pytest.raises(RepoagentError):
        SpendLog(tmp_path / "spent", must=True).add("a/b", USAGE, 1.0)


def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    def spend() -> None:
        for _ in range(5):
            SpendLog(tmp_path).add("a/b", USAGE, 0.5)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert SpendLog(tmp_path).today() == 20.0


def test_it_is_in_the_state_folder(tmp_path: Path) -> None:
    assert state_folder({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "repoagent" / "spent"
    for home in ("", "relative"):
        env = {"XDG_STATE_HOME": home, "HOME": str(tmp_path)}
        assert state_folder(env) == tmp_path / ".local" / "state" / "repoagent" / "spent"
