"""What `edit` and `run` take to the first byte of their request: `python -m bench.first_byte`.

Beside them, in the same run and in turns: a script that imports the SDK and streams one message, which is the least
that a client of the SDK can take. Wall time and CPU time (of the program and all that it started) are both from the
start of the process to the arrival of the request at a local server. Needs /proc, so Linux.
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

MOST = 1.25  # times the script
SCRIPT = """
import anthropic
with anthropic.Anthropic().messages.stream(
    model="claude-bench", max_tokens=1000, messages=[{"role": "user", "content": "hello"}]
) as stream:
    stream.get_final_text()
"""
_TICKS = os.sysconf("SC_CLK_TCK")
_PATIENCE = 120


@dataclass(frozen=True)
class Took:
    """Milliseconds up to the arrival of the request."""

    wall: float
    cpu: float


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        "bench.first_byte", __doc__, arguments,
        runs=(9, "how often each is measured"),
        repository=(Path, "work in a clone of it, not in one that is made here"),
    )  # fmt: skip
    if not Path("/proc/self/stat").exists():
        raise SystemExit("no /proc: this bench needs Linux")
    repository = cloned(given.repository) if given.repository else small()
    program = str(Path(sys.executable).with_name("repoagent"))
    model = ("--model", "anthropic/claude-sonnet-5-5")
    commands = {
        "the SDK alone": [sys.executable, "-c", SCRIPT],
        "edit": [program, "edit", "--yes", *model, repository.edit.path, repository.edit.request],
        "run": [program, "run", "--mode", "auto", *model, repository.edit.request],
    }
    samples = measure(commands, repository, given.runs)
    print(f"{repository.describe()}: {given.runs} turns, load {os.getloadavg()[0]:.1f}")
    print(table(samples))


def measure(
    commands: Mapping[str, Sequence[str]], repository: Repository, runs: int
) -> dict[str, list[Took]]:
    """What each of the commands took, in turns; before the first, each runs once to fill caches. Raises Failed for one
    that sends no request."""
    samples: dict[str, list[Took]] = {name: [] for name in commands}
    with _Server(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        env = {**environment(), "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-ant-bench"}
        for turn in range(-1, runs):
            for name, command in commands.items():
                repository.restore()
                took = _timed(command, repository.top, env, server)
                if turn >= 0:
                    samples[name].append(took)
        server.shutdown()
    repository.restore()
    return samples


def table(samples: Mapping[str, Sequence[Took]]) -> str:
    """Medians of wall and CPU time, and the median of the ratios to the first subject in the same turn."""
    (_, base), *_ = samples.items()
    lines = [f"  {'':16}{'wall':>10}{'CPU':>10}{'x wall':>10}{'x CPU':>10}"]
    for name, took in samples.items():
        wall, cpu = (statistics.median(getattr(one, what) for one in took) for what in ("wall", "cpu"))
        line = f"  {name:16}{wall:>7,.0f} ms{cpu:>7,.0f} ms"
        if took is not base:
            pairs = list(zip(took, base, strict=True))
            ratios = [
                statistics.median(one.wall / other.wall for one, other in pairs),
                statistics.median(one.cpu / other.cpu for one, other in pairs),
            ]
            verdict = "kept" if max(ratios) <= MOST else "MISSED"
            line += "".join(f"{ratio:>10.2f}" for ratio in ratios) + f"   at most {MOST}: {verdict}"
        lines.append(line)
    return "\n".join(lines)


def _timed(command: Sequence[str], cwd: Path, env: Mapping[str, str], server: _Server) -> Took:
    server.arrived = None
    started = time.monotonic_ns()
    with subprocess.Popen(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:  # fmt: skip
        server.session = process.pid
        try:
            said, _ = process.communicate(timeout=_PATIENCE)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if server.arrived is None:
        raise Failed(f"{' '.join(command[:2])} sent no request (exit {process.returncode}):\n{said.decode()}")
    arrived, cpu = server.arrived
    return Took((arrived - started) / MILLION, cpu * 1000 / _TICKS)


def _ticks_of(session: int) -> int:
    """CPU time of all processes of a session, and of those that have ended and were waited for."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                ticks += sum(map(int, fields[11:15]))
    return ticks


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    session = 0
    arrived: tuple[int, int] | None = None  # when, and the ticks until then


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
