"""Two edits of one repository at the same time: nothing is lost, and neither waits without need."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests import program
from tests.conftest import GitRepo
from tests.edit.conftest import MODEL, Script, diff


def second(tmp_path: Path) -> Script:
    """Another scripted model."""
    folder = tmp_path / "second"
    folder.mkdir()
    (folder / "model.sh").write_text(MODEL)
    return Script(folder)


def start(repo: GitRepo, script: Script, *args: str) -> program.Running:
    return program.start(["edit", *args, "--yes", "--json"], repo.top, env={"REPOAGENT_MODEL": script.spec})


def both(one: program.Running, other: program.Running) -> list[dict[str, object]]:
    done = [process.communicate() for process in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0], done
    return [json.loads(out) for out, _ in done]


@pytest.mark.soak
def test_two_files_and_a_slow_check(repo: GitRepo, script: Script, tmp_path: Path) -> None:
    other = second(tmp_path)
    script.replies(diff("a.txt", " line 1", "-line 2", "+LINE 2", " line 3"))
    other.replies(diff("README.md", "-A small repository.", "+A smaller one."))
    checking = tmp_path / "checking"
    # the second commits while the check of the first runs
    other.act(0, f"while [ ! -e {checking} ]; do sleep 0.01; done")
    check = ("--check", f"touch {checking}; sleep 1", "--check-unconfined")
    first = start(repo, script, "a.txt", "shout", *check)
    values = both(first, start(repo, other, "README.md", "say less"))
    assert repo.status() == ""
    assert repo.git("rev-list", "--count", "HEAD").strip() == "3"
    assert {value["commit"] for value in values} == set(repo.git("log", "-n2", "--format=%H").split())
    assert b"LINE 2" in repo.read("a.txt") and b"A smaller one." in repo.read("README.md")
    assert repo.git("show", "--format=", "--name-only", "HEAD").count("\n") == 1


@pytest.mark.soak
def test_the_same_command_twice_is_busy(repo: GitRepo, script: Script) -> None:
    script.replies('<read path="README.md"/>\n', "no more")
    script.act(1, "sleep 30")
    first = start(repo, script, "a.txt", "shout")
    try:
        while len(script.prompts) < 2:
            assert first.poll() is None
        script.act(2, "exit 1")
        again = start(repo, script, "a.txt", "shout")
        again.communicate()
        assert again.returncode == 4  # it started over, and its own model failed: the first still runs
        assert "A small repository." not in script.prompts[2]
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate()
    assert repo.status() == ""
