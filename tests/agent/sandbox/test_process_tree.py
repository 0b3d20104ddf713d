"""The parents of a command: exit codes, streams, signals, limits, and no process that outlives it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from repoagent.agent.sandbox.confine import Sandbox, unconfined_command, why_ended
from repoagent.agent.sandbox.policy import Policy
from tests.llm.helpers import gone, soon

from .targets import WORKING, end, params

if sys.platform != "linux":
    pytest.skip("process trees are Linux's", allow_module_level=True)

every_wrap = pytest.mark.parametrize("box", params(None))
best_wrap = pytest.mark.parametrize("box", params() if WORKING else [pytest.param(None, id="unconfined")])
SOON = 2.0  # seconds

# Processes that try to stay; each writes its pid in the sandbox to a file, and has a mark in its arguments.
STAYING = {
    "daemon": "(setsid sh -c 'sleep 999.{mark}; :' >/dev/null 2>&1 &) ; sleep 0.05",
    "ignores-signals": "sh -c 'trap \"\" TERM HUP INT; sleep 999.{mark}; sleep 999.{mark}' & sleep 0.05",
    "closes-everything": "(exec 0<&- 1>&- 2>&-; exec setsid sleep 999.{mark}) & sleep 0.05",
    "twice-forked": "( ( (setsid sleep 999.{mark} >/dev/null 2>&1 &) & ) & ) ; sleep 0.05",
}


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    top = tmp_path / "top"
    (top / "in").mkdir(parents=True)
    return Policy(top, tmp_path / "scratch")


@pytest.fixture
def mark() -> Iterator[str]:
    mark = str(time.time_ns())
    yield mark
    for process in marked(mark):
        end(process)


def marked(mark: str) -> list[int]:
    """The running processes with `mark` in their arguments, including their parents."""
    processes = []
    for folder in Path("/proc").glob("[1-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if mark.encode() in (folder / "cmdline").read_bytes() and not gone(int(folder.name)):
                processes.append(int(folder.name))
    return processes


def wrapped(box: Sandbox | None, *arguments: object) -> list[str]:
    """The command line for (argv, policy, report)."""
    return (box.wrap if box else unconfined_command)(*arguments)


def run(argv: Sequence[str], policy: Policy, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, cwd=policy.top, input=stdin, capture_output=True, timeout=30, check=False)


@contextmanager
def started(argv: Sequence[str], policy: Policy) -> Iterator[subprocess.Popen[bytes]]:
    """A command in its own process group, after it has printed a line."""
    options = {"stdout": subprocess.PIPE, "start_new_session": True}
    with subprocess.Popen(argv, cwd=policy.top, **options) as process:
        try:
            process.stdout.readline()
            yield process
        finally:
            process.kill()


@best_wrap
def test_streams_and_exit_code_pass_through(box: Sandbox | None, policy: Policy) -> None:
    data = bytes(range(256)) * 500
    done = run(wrapped(box, ["sh", "-c", "cat; echo no >&2; exit 7"], policy), policy, data)
    assert (done.returncode, done.stdout, done.stderr) == (7, data, b"no\n")
    assert run(wrapped(box, ["sh", "-c", "kill -SEGV $$"], policy), policy).returncode == 128 + signal.SIGSEGV


def test_command_that_cannot_be_executed_is_reported(policy: Policy) -> None:
    (policy.top / "text").write_text("text")
    missing, denied = (
        run(unconfined_command([name], policy), policy) for name in ("no-such-program", "./text")
    )
    assert (missing.returncode, missing.stderr) == (127, b"no-such-program: No such file or directory\n")
    assert (denied.returncode, denied.stderr) == (126, b"./text: Permission denied\n")


@every_wrap
def test_signals_reach_the_command(box: Sandbox | None, policy: Policy) -> None:
    script = "trap 'echo got; exit 3' TERM; echo ready; while :; do sleep 0.02; done"
    with started(wrapped(box, ["sh", "-c", script], policy), policy) as process:
        process.terminate()
        assert process.wait(SOON) == 3
        assert process.stdout.read() == b"got\n"


@pytest.mark.parametrize("staying", STAYING.values(), ids=STAYING)
def test_process_stays_without_parents_of_ours(staying: str, policy: Policy, mark: str) -> None:
    argv = ["sh", "-c", staying.format(mark=mark)]
    subprocess.run(argv, cwd=policy.top, check=True, stdout=subprocess.DEVNULL)
    assert marked(mark)


@pytest.mark.soak
@every_wrap
@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGKILL])
def test_no_process_stays(box: Sandbox | None, number: int | None, policy: Policy, mark: str) -> None:
    """When the command ends, or its process group is killed."""
    script = "\n".join(staying.format(mark=mark) for staying in STAYING.values())
    if number is None:
        assert run(wrapped(box, ["sh", "-c", f"{script}\nexit 5"], policy), policy).returncode == 5
        assert soon(lambda: not marked(mark), SOON)
        return
    script += f"\ntrap '' TERM; echo ready; sleep 999.{mark}; sleep 999.{mark}"
    with started(wrapped(box, ["sh", "-c", script], policy), policy) as process:
        os.killpg(process.pid, number)
        process.wait(SOON)
        assert soon(lambda: not marked(mark), SOON)


@pytest.mark.soak
@every_wrap
def test_everything_ends_with_the_caller(box: Sandbox | None, policy: Policy, mark: str) -> None:
    argv = wrapped(box, ["sh", "-c", f"echo ready; sleep 999.{mark}"], policy)
    caller = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"
    with started([sys.executable, "-c", caller, *argv], policy) as process:
        process.kill()
        process.wait()
        assert soon(lambda: not marked(mark), SOON)


@pytest.mark.soak
@best_wrap
def test_end_of_the_calling_thread_does_not_end_the_command(box: Sandbox | None, policy: Policy) -> None:
    """The kernel sends a death signal if the thread that started a process ends, not only if the whole process does."""
    caller = (
        "import subprocess, sys, threading\nkept = []\n"
        "thread = threading.Thread(target=lambda: kept.append(subprocess.Popen(sys.argv[1:])))\n"
        "thread.start(); thread.join(); sys.exit(kept[0].wait())"
    )
    argv = wrapped(box, ["sh", "-c", "sleep 0.4; exit 9"], policy)
    assert run([sys.executable, "-c", caller, *argv], policy).returncode == 9


@every_wrap
def test_too_much_memory(box: Sandbox | None, policy: Policy, tmp_path: Path) -> None:
    report = tmp_path / "report"
    hog = "import time; kept = [bytes(bytearray(1 << 20)) for _ in range(150)]; kept = [k[:-1] + b'1' for k in kept]; time.sleep(60)"
    limited = replace(policy, memory=64 << 20)
    done = run(wrapped(box, [sys.executable, "-I", "-S", "-c", hog], limited, report), policy)
    assert done.returncode == 137
    assert why_ended(report) == "it used more than 64 MB of memory"


@best_wrap
def test_too_many_processes(box: Sandbox | None, policy: Policy, tmp_path: Path, mark: str) -> None:
    limited = replace(policy, memory=256 << 20, processes=10)
    script = f"for i in $(seq 20); do sleep 999.{mark} & done; wait"
    done = run(wrapped(box, ["sh", "-c", script], limited), policy)
    assert (done.returncode, done.stderr) == (137, b"it ran more than 10 processes at once\n")
    assert soon(lambda: not marked(mark), SOON)
    report = tmp_path / "report"
    done = run(wrapped(box, ["sh", "-c", "sleep 0.2 & sleep 0.1; wait"], limited, report), policy)
    assert (done.returncode, done.stderr, why_ended(report)) == (0, b"", None)
    assert why_ended(tmp_path / "no such file") is None


BOMBS = {
    "of-a-shell": ["bash", "-c", ":(){ (( SECONDS < 8 )) && :|:& };:; sleep 60"],
    "in-sessions-of-their-own": [
        sys.executable, "-I", "-S", "-c",
        "import os, time\nend = time.monotonic() + 8\nwhile time.monotonic() < end:\n"
        "    if os.fork() == 0:\n        os.setsid()\n        time.sleep(0.01)\n",
    ],
}  # fmt: skip


@pytest.mark.soak
@every_wrap
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_fork_bomb(box: Sandbox | None, bomb: list[str], policy: Policy, mark: str) -> None:
    """It would end by itself, to protect the machine, but only after the limit of this test."""
    if bomb is BOMBS["in-sessions-of-their-own"] and os.geteuid() and not (box and box.mounting):
        pytest.skip("without namespaces and root, each session has as much of the processor as our parents")
    limited = replace(policy, processes=50)
    began = time.monotonic()
    assert run(wrapped(box, [*bomb, mark], limited), policy).returncode == 137
    assert time.monotonic() - began < 5
    assert soon(lambda: not marked(mark), SOON)


@best_wrap
def test_terminal_passes_through(box: Sandbox | None, policy: Policy) -> None:
    ours, theirs = pty.openpty()
    try:
        script = "test -t 0 && test -t 1 && read line && echo got $line"
        argv = wrapped(box, ["sh", "-c", script], policy)
        process = subprocess.Popen(argv, cwd=policy.top, stdin=theirs, stdout=theirs)
        os.write(ours, b"words\n")
        assert process.wait(20) == 0
        text = b""
        while b"got words" not in text:
            text += os.read(ours, 1000)
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.soak
def test_command_that_fills_the_disk_is_ended(policy: Policy, tmp_path: Path) -> None:
    """With a small tmpfs in a mount namespace."""
    fill = "for n in $(seq 14); do head -c 1M /dev/zero >>in/full; sleep 0.03; done; echo all"
    alone = 'mount -t tmpfs -o size=16m none "$0" && mkdir -p "$0/in" && cd "$0" && exec "$@"'
    report = tmp_path / "why"
    results = []
    for argv in (["sh", "-c", fill], unconfined_command(["sh", "-c", fill], policy, report)):
        done = run(["unshare", "-rm", "sh", "-c", alone, str(policy.top), *argv], policy)
        if b"unshare" in done.stderr or b"mount" in done.stderr:
            pytest.skip("no namespaces here")
        results.append((done.returncode, done.stdout))
    assert results == [(0, b"all\n"), (137, b"")]
    assert why_ended(report) == f"it left less than 8 MB free on the disk that contains {policy.top}"


@pytest.mark.soak
@pytest.mark.parametrize("box", [box for box in WORKING if box.mounting])
def test_shared_memory_is_limited(box: Sandbox, policy: Policy) -> None:
    """It belongs to no process, so the limit on memory does not cover it."""
    fill = "head -c 40M /dev/zero >/dev/shm/full; stat -c %s /dev/shm/full; (echo >/dev/full-too) 2>&1; echo >/dev/null"
    free = fill.replace("/dev/full", f"{policy.top}/full").replace("/dev/shm", str(policy.top))
    assert b"41943040\n" in run(["sh", "-c", free], policy).stdout
    done = run(wrapped(box, ["sh", "-c", fill], replace(policy, memory=20 << 20)), policy)
    lines = done.stdout.split(b"\n")
    assert lines[0] == b"20971520" and b"full-too" in lines[1]
