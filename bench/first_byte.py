"""Measure how long `edit` and `run` take to send their first request: `python -m bench.first_byte`.

They alternate with a script that imports the SDK and streams one message, the minimum for a client of the SDK.
Wall time and CPU time (of the program and its child processes) count from the start of the process until the request
reaches a local server. Needs Linux, for /proc.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.options import options
from bench.repositories import Repository, cloned, environment, small
from bench.server import Handler, events
from bench.timing import MILLION, Failed

LIMIT = 1.25  # times the script
SCRIPT = """
import anthropic
with anthropic.Anthropic().messages.stream(
    model="claude-bench", max_tokens=1000, messages=[{"role": "user", "content": "hello"}]
) as stream:
    stream.get_final_text()
"""
_TICKS = os.sysconf("SC_CLK_TCK")
_TIMEOUT = 120  # seconds


@dataclass(frozen=True)
class Timing:
    """Milliseconds from the start of a program to the arrival of its request."""

    wall: float
    cpu: float


def main(arguments: Sequence[str] | None = None) -> None:
    args = options(
        "bench.first_byte", __doc__, arguments,
        runs=(9, "measured runs of each program"),
        repository=(Path, "work in a clone of this repository (default: in a generated one)"),
    )  # fmt: skip
    if not Path("/proc/self/stat").exists():
        raise SystemExit("no /proc: this bench needs Linux")
    repository = cloned(args.repository) if args.repository else small()
    program = str(Path(sys.executable).with_name("repoagent"))
    model = ("--model", "anthropic/claude-sonnet-5-5")
    commands = {
        "the SDK alone": [sys.executable, "-c", SCRIPT],
        "edit": [program, "edit", "--yes", *model, repository.edit.path, repository.edit.request],
        "run": [program, "run", "--mode", "auto", *model, repository.edit.request],
    }
    samples = measure(commands, repository, args.runs)
    print(f"{repository.describe()}: {args.runs} turns, load {os.getloadavg()[0]:.1f}")
    print(table(samples))


def measure(
    commands: Mapping[str, Sequence[str]], repository: Repository, runs: int
) -> dict[str, list[Timing]]:
    """Return the timings of `runs` alternating runs of each command, after one that fills caches. Raises Failed if a
    command sends no request."""
    samples: dict[str, list[Timing]] = {name: [] for name in commands}
    with _Server(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        env = {**environment(), "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-ant-bench"}
        for turn in range(-1, runs):
            for name, command in commands.items():
                repository.restore()
                timing = _timed(command, repository.top, env, server)
                if turn >= 0:
                    samples[name].append(timing)
        server.shutdown()
    repository.restore()
    return samples


def table(samples: Mapping[str, Sequence[Timing]]) -> str:
    """Return a line per command: median wall and CPU time, and median ratios to the first command in the same turn."""
    (_, base), *_ = samples.items()
    lines = [f"  {'':16}{'wall':>10}{'CPU':>10}{'x wall':>10}{'x CPU':>10}"]
    for name, timings in samples.items():
        wall, cpu = (statistics.median(getattr(one, field) for one in timings) for field in ("wall", "cpu"))
        line = f"  {name:16}{wall:>7,.0f} ms{cpu:>7,.0f} ms"
        if timings is not base:
            pairs = list(zip(timings, base, strict=True))
            ratios = [
                statistics.median(one.wall / other.wall for one, other in pairs),
                statistics.median(one.cpu / other.cpu for one, other in pairs),
            ]
            verdict = "kept" if max(ratios) <= LIMIT else "MISSED"
            line += "".join(f"{ratio:>10.2f}" for ratio in ratios) + f"   at most {LIMIT}: {verdict}"
        lines.append(line)
    return "\n".join(lines)


def _timed(command: Sequence[str], cwd: Path, env: Mapping[str, str], server: _Server) -> Timing:
    server.arrived = None
    started = time.monotonic_ns()
    with subprocess.Popen(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:  # fmt: skip
        server.session = process.pid
        try:
            output, _ = process.communicate(timeout=_TIMEOUT)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if server.arrived is None:
        name = " ".join(command[:2])
        raise Failed(f"{name} sent no request (exit {process.returncode}):\n{output.decode()}")
    arrived, cpu = server.arrived
    return Timing((arrived - started) / MILLION, cpu * 1000 / _TICKS)


def _ticks_of(session: int) -> int:
    """CPU ticks of a session: of its running processes and of the children that they have waited for."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                ticks += sum(map(int, fields[11:15]))
    return ticks


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    session = 0
    arrived: tuple[int, int] | None = None  # time of the first request, and CPU ticks until then


class _Handler(Handler, BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        now = time.monotonic_ns()
        if self.server.arrived is None:
            self.server.arrived = now, _ticks_of(self.server.session)
        self.body()
        self.send("text/event-stream", events("<reject>It is a benchmark.</reject>"))


if __name__ == "__main__":
    main()
