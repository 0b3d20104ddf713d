"""Commands in the background: wait for a line, a port or the end; clean up."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.agent.exec import process
from tests.agent.exec.conftest import Bench

SERVER = "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', {port})); s.listen(); print('ready', flush=True); time.sleep(60)"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


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
@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"seconds": "x"}, "seconds="),
        ({"seconds": "9999"}, "at most 600"),
        ({"port": "70000"}, "port="),
        ({"line": "("}, "is not a valid regular expression: missing )"),
        ({"line": "(a+)+b"}, "simple pattern"),
        ({"line": "a*a*a*a*a*b"}, "simple pattern"),
        ({"line": "x" * 300}, "simple pattern"),
    ],
)
def test_invalid_wait_is_refused(bench: Bench, args: dict[str, str], expected: str) -> None:
    bench.run("sleep 60", background="yes")
    seen = bench.wait(**args)
    assert not seen.ok and expected in seen.text


def test_immediate_failure_is_reported_at_once(bench: Bench) -> None:
    seen = bench.run("echo no; exit 4", background="yes")
    assert not seen.ok and "exit 4" in seen.text and "no\n" in seen.text and bench.runner.notices() == []


@pytest.mark.soak
def test_wait_for_a_line_shows_only_new_output(bench: Bench) -> None:
    seen = bench.run(
        "echo one; until [ -e go ]; do sleep 0.02; done; echo two; echo 'listening on 80'; sleep 60",
        background="yes",
    )
    assert seen.ok and "as b1" in seen.text and "one\n" in seen.text
    assert "No new output." in bench.wait(seconds="0.1").text
    missing = bench.wait(line="listening on \\d+", seconds="0.2")
    assert not missing.ok and "Not ready within 0.2 s. b1 runs" in missing.text
    (bench.runner.top / "go").touch()
    seen = bench.wait(command="b1", line="listening on \\d+", seconds="10")
    assert (
        seen.ok
        and "Ready. b1 runs" in seen.text
        and "two\nlistening on 80\n" in seen.text
        and "one" not in seen.text
    )
    assert bench.wait(line="one", seconds="5").ok  # the line was printed before the wait
    seen = bench.kill()
    assert seen.ok and "ended by you, exit 143 (SIGTERM)" in seen.text
    assert "ended by you" in bench.kill(command="b1").text


@pytest.mark.soak
def test_wait_for_the_end_reports_it_once(bench: Bench, until: Callable[..., None]) -> None:
    bench.run("sleep 0.9; echo a; exit 3", background="yes")
    bench.run("sleep 0.8", background="yes")
    seen = bench.wait(command="b1")
    assert not seen.ok and "b1 has ended: exit 3" in seen.text
    until(bench.runner.background["b2"].has_ended)
    assert bench.runner.notices() == ["The background command b2 (sleep 0.8) has ended: exit 0."]
    assert bench.runner.notices() == []
    assert [event["exit"] for event in bench.events if event.get("background") == "b1"] == [None, 3]


@pytest.mark.soak
def test_wait_for_a_line_stops_when_the_command_ends(bench: Bench) -> None:
    bench.run("sleep 0.8; echo a", background="yes")
    began = time.monotonic()
    seen = bench.wait(line="never", seconds="30")
    assert not seen.ok and "Not ready. b1 has ended: exit 0" in seen.text and time.monotonic() - began < 10


def test_wait_for_a_port(bench: Bench) -> None:
    port = free_port()
    bench.run(f'exec {sys.executable} -c "{SERVER.format(port=port)}"', background="yes")
    assert bench.wait(port=str(port), seconds="10").ok
    other = free_port()
    with socket.socket() as mine:
        mine.bind(("127.0.0.1", other))
        mine.listen()
        assert not bench.wait(port=str(other), seconds="0.3").ok  # another process listens there


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare")
def test_port_in_another_network_namespace_is_detected(until: Callable[..., None]) -> None:
    port = free_port()
    command = [
        "unshare",
        "--map-root-user",
        "--net",
        "sh",
        "-c",
        f'ip link set lo up 2>/dev/null; {sys.executable} -c "{SERVER.format(port=port)}"; true',
    ]
    with subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        try:
            line = server.stdout.readline() if server.stdout else b""
            if line != b"ready\n":
                pytest.skip(f"no network of one's own here: {line!r}")
            until(lambda: process.listens(server.pid, port))
            assert not process.listens(os.getpid(), free_port())
        finally:
            os.killpg(server.pid, 9)


@pytest.mark.soak
def test_background_commands_end_with_the_run(bench: Bench, tmp_path: Path) -> None:
    bench.run("echo $$ > pid; sleep 60", background="yes")
    bench.run("sh -c 'echo $$ > inner; sleep 60'; true", background="yes")
    bench.runner.close()
    for name in ("pid", "inner"):
        pid = int((bench.runner.top / name).read_text())
        assert not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text()


@pytest.mark.soak
def test_resumed_run_reports_ended_background_commands(bench: Bench) -> None:
    bench.run("echo hello; sleep 60", background="yes")
    bench.runner.close()
    again = Bench(bench.runner.top)
    seen = again.wait(command="b1")
    assert (
        not seen.ok
        and "ended with the run that started it; its output is in output/001-b1-echo-hello" in seen.text
    )
    assert "as b2" in again.run("sleep 60", background="yes").text
    again.runner.close()
