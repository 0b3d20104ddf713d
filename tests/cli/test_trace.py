"""REPOAGENT_TRACE: processes and their times, without private data."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from repoagent import tracing
from tests.cli.apply_patch import Ask, Done
from tests.conftest import GitRepo
from tests.program import run

LINE = re.compile(r"\d\d:\d\d:\d\d\.\d{6} (\w+) +(?:(\d+\.\d{3}) s)? +(.*)")


def traced(text: str) -> list[tuple[str, str]]:
    """(kind, text) of each line."""
    result = []
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        assert match, line
        result.append((match[1], match[3]))
    return result


def test_each_git_process_is_listed_with_its_time(repo: GitRepo, in_process: Ask) -> None:
    done = run(["neighbors", "a.txt"], repo.top, env={"REPOAGENT_TRACE": "1"})
    lines = [line for line in done.stderr.decode().splitlines() if LINE.fullmatch(line)]
    result = traced("\n".join(lines))
    assert result[0] == ("start", "repoagent neighbors a.txt")
    assert result[-1] == ("end", "repoagent: exit 0")
    assert any(kind == "git" and text.startswith("rev-parse --path-format") for kind, text in result)
    assert all("core.quotepath" not in text for _, text in result)  # options of every call are left out
    assert done.stdout.decode() == in_process("neighbors", "a.txt").out


def test_where_a_trace_goes(
    repo: GitRepo, in_process: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for value in ("", "0", "false", "OFF"):
        monkeypatch.setenv("REPOAGENT_TRACE", value)
        assert not tracing.is_on()
    done = run(["config", "max_turns"], repo.top)
    assert (done.stdout, done.stderr) == (b"10\n", b"")
    path = tmp_path / "trace"
    for _ in range(2):
        assert in_process("config", "max_turns", REPOAGENT_TRACE=str(path)) == Done(0, "10\n", "")
    kinds = [kind for kind, _ in traced(path.read_text())]
    assert kinds.count("start") == kinds.count("end") == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for value in ("trace.txt", "/nowhere/at/all"):
        done = run(["config", "max_turns"], repo.top, env={"REPOAGENT_TRACE": value})
        assert done.stdout == b"10\n"
        assert done.stderr.count(b"cannot trace to REPOAGENT_TRACE=") == done.stderr.count(b"\n") == 1
    assert not (repo.top / "trace.txt").exists()


def test_an_edit_shows_phases_and_models_without_content(in_process: Ask, tmp_path: Path) -> None:
    reply = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-line 1\n+line uno\n line 2\n"
    (tmp_path / "reply").write_text(f"```diff\n{reply}```\n")
    model = f"command:API_KEY=hush-hush-12 cat {tmp_path}/reply"
    log = tmp_path / "trace"
    words = ("edit", "a.txt", "say hush-hush-34 in Spanish", "--yes", "--model", model)
    in_process(*words, REPOAGENT_TRACE=str(log), SOME_TOKEN="hush-hush-34", code=0)
    text = log.read_text()
    result = traced(text)
    assert {"start", "git", "phase", "model", "end"} <= {kind for kind, _ in result}
    assert any(kind == "git" and " commit " in message for kind, message in result)
    (request,) = [message for kind, message in result if kind == "model"]
    assert re.search(r"\d+ \+ \d+ tokens, end$", request)
    assert "hush" not in text and "uno" not in text
