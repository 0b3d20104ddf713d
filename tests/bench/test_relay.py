"""The relay of bench/relay: the real program asks, files answer."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from bench.relay.__main__ import report
from bench.relay.server import listening, waiting
from tests import program
from tests.conftest import GitRepo

ROOT = Path(__file__).parents[2]
WRONG, RIGHT = (
    "```diff\n--- a/a.py\n+++ b/a.py\n@@\n-y = 1\n+y = 2\n```\n",
    "<commit>\nSet x\n</commit>\n```diff\n--- a/a.py\n+++ b/a.py\n@@\n-x = 1\n+x = 2\n```\n",
)


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    server = listening(tmp_path / "relay", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def _relay(verb: str, folder: Path, *more: str, stdin: str = "") -> str:
    command = [sys.executable, "-m", "bench.relay", verb, str(folder), *more]
    return subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, text=True, check=True).stdout


def test_an_edit_is_answered_by_hand_and_counted(
    repo: GitRepo, tmp_path: Path, relay: ThreadingHTTPServer
) -> None:
    repo.commit("start", **{"a.py": "x = 1\n"})
    folder = tmp_path / "relay"
    url = f"http://127.0.0.1:{relay.server_address[1]}"
    env = {"ANTHROPIC_BASE_URL": f"{url}/one", "ANTHROPIC_API_KEY": "sk-ant-relay"}
    command = ["edit", "--yes", "--model", "anthropic/claude-sonnet-5-5", "a.py", "set x to 2"]
    running = program.start(command, repo.top, env=env, load=["anthropic"])
    first = Path(_relay("wait", folder, "--seconds", "60").strip())
    assert first == folder / "one" / "001.request.txt"
    text = first.read_text()
    assert text.index("= system =") < text.index("cache breakpoint") < text.index("set x to 2")
    _relay("answer", folder, "-", stdin=WRONG)
    second = Path(_relay("wait", folder, "--seconds", "60").strip())
    assert second.name == "002.request.txt"
    blocks = [{"type": "thinking", "thinking": "x, not y", "signature": "s"}, {"type": "text", "text": RIGHT}]
    (folder / "one" / "002.answer.json").write_text(json.dumps(blocks))
    _, err = running.communicate()
    assert running.wait() == 0, err.decode()
    assert repo.read("a.py") == b"x = 2\n"
    assert waiting(folder) == []
    calls = [json.loads(line) for line in (folder / "one" / "log.jsonl").read_text().splitlines()]
    assert calls[0]["cached"] == 0 < calls[1]["fresh"] < calls[1]["cached"] <= calls[0]["fresh"]
    line, refusal = report(folder).splitlines()[1:]
    assert (line.split()[:2], line.split()[-1]) == (["one", "2"], "1")
    assert refusal.split()[:2] == ["002", "edit:"]
    assert "y = 1" in report(folder, whole=True)
