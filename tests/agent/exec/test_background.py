"""Commands in the background: wait for a line or the end; clean up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.agent.exec.conftest import Bench, until


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, "name the command"),
        ({"command": "b9"}, "no background command b9: none runs"),
        ({"command": "b1", "until": "x"}, "unknown argument until"),
    ],
)
def test_wait_without_a_background_command_fails(bench: Bench, args: dict[str, str], expected: str) -> None:
    seen = bench.wait(**args)
    assert not seen.ok and expected in seen.text
    assert not bench.kill(command="x").ok


@pytest.mark.soak
def test_invalid_wait_is_refused(bench: Bench) -> None:
    bench.run("sleep 60", background="yes")
    for args, expected in (
        ({"seconds": "x"}, "seconds="),
        ({"seconds": "9999"}, "at most 600"),
        ({"port": "8000"}, "unknown argument port"),
    ):
        seen = bench.wait(**args)
        assert not seen.ok and expected in seen.text


def test_immediate_failure_is_reported_at_once(bench: Bench) -> None:
    seen = bench.run("echo no; exit 4", background="yes")
    assert not seen.ok and "exit 4" in seen.text and "no\n" in seen.text and bench.runner.notices() == []


@pytest.mark.soak
def test_wait_shows_only_new_output(bench: Bench) -> None:
    seen = bench.run(
        "echo one; until [ -e go ]; do sleep 0.02; done; echo two; echo 'listening on 80'; sleep 60",
        background="yes",
    )
    assert seen.ok and "as b1" in seen.text and "one\n" in seen.text
    assert "No new output." in bench.wait(seconds="0.1").text
    (bench.runner.top / "go").touch()
    until(lambda: b"listening" in bench.runner.background["b1"].file.read_bytes())
    seen = bench.wait(command="b1", seconds="0.1")
    assert seen.ok and "b1 runs" in seen.text
    assert "two\nlistening on 80\n" in seen.text and "one" not in seen.text
    seen = bench.kill()
    assert seen.ok and "ended by you, exit 143 (SIGTERM)" in seen.text
    assert "ended by you" in bench.kill(command="b1").text


@pytest.mark.soak
def test_end_is_reported_once(bench: Bench) -> None:
    bench.run("sleep 0.9; echo a; exit 3", background="yes")
    bench.run("sleep 0.8", background="yes")
    began = time.monotonic()
    seen = bench.wait(command="b1", seconds="30")
    assert not seen.ok and "b1 has ended: exit 3" in seen.text and time.monotonic() - began < 20
    until(bench.runner.background["b2"].has_ended)
    assert bench.runner.notices() == ["The background command b2 (sleep 0.8) has ended: exit 0."]
    assert bench.runner.notices() == []
    assert [event["exit"] for event in bench.events if event.get("background") == "b1"] == [None, 3]


@pytest.mark.soak
def test_background_commands_end_with_the_run(bench: Bench) -> None:
    bench.run("echo $$ > pid; sleep 60", background="yes")
    bench.run("sh -c 'echo $$ > inner; sleep 60'; true", background="yes")
    bench.runner.close()
    for name in ("pid", "inner"):
        pid = int((bench.runner.top / name).read_text())
        assert not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text()
