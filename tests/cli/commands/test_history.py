"""`repoagent history` and `repoagent mine` as a user runs them."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from repoagent.git.worktree import open_worktree
from repoagent.history.index.index import mine_in_background, open_index
from tests.cli.apply_patch import Ask, Done
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.history.test_commit_summaries import Program, model
from tests.program import run, start

__all__ = ["model"]

APP = "def greet(name):\n    return 'hello ' + name\n\n\ndef main():\n    print(greet('world'))\n"


def grow(repo: GitRepo, count: int, path: str = "a.txt") -> None:
    for number in range(count):
        repo.commit(f"change {number}", **{path: f"{number}\n"})


def each(done: Done, field: str) -> list[str]:
    assert done.code == 0, done.err
    return [commit[field] for commit in done.json["commits"]]


def test_people_and_steps(repo: GitRepo, ask: Ask) -> None:
    repo.commit("greet well", **{"src/app.py": APP.replace("'hello '", "'hi '")})
    repo.git("config", "user.name", "dependabot[bot]")
    repo.commit("bump", **{"src/app.py": APP})
    done = ask("src/app.py")
    assert done.code == 0 and done.err == ""
    lines = done.out.splitlines()
    assert lines[0] == "src/app.py: 3 commits"
    assert re.fullmatch(r"Ada Tester  2  \d{4}-\d\d-\d\d +█+", lines[2])
    assert lines[3] == "bots: dependabot[bot] 1"
    day, short, author, subject = lines[5].split()[:4]
    assert (short, author, subject) == (repo.head()[:7], "dependabot[bot]", "bump") and day.startswith("20")
    assert lines[5].endswith("+1 −1") and lines[6].strip() == "changes greet"
    assert lines[-1].strip() == "added; with greet, main"


def test_json_a_limit_a_revision_and_an_old_name(repo: GitRepo, ask: Ask) -> None:
    grow(repo, 3)
    result = ask("a.txt", "--json", "--limit", "2").json
    assert result["version"] == 1 and result["path"] == "a.txt" and result["revision"] == repo.head()
    assert [commit["subject"] for commit in result["commits"]] == ["change 2", "change 1"]
    assert result["partial"] is True and result["people"]["commits"] == 4
    assert result["spent"] is None
    assert ask("a.txt", "--limit", "2").err == "2 older commits; show more with --limit\n"
    repo.git("tag", "v1", "HEAD^")
    repo.git("mv", "a.txt", "new.txt")
    repo.commit("move")
    before = ["change 2", "change 1", "change 0", "first commit"]
    assert each(ask("new.txt", "--json"), "subject") == ["move", *before]
    assert each(ask("a.txt", "--json", "--at", "v1"), "subject") == before[1:]
    assert "as a.txt:" in ask("new.txt").out
    assert ask("new.txt", "--at", "v1").code == 1  # it exists now, but not at that revision


def test_files_without_a_history(repo: GitRepo, tmp_path: Path, ask: Ask) -> None:
    repo.git("init", "-q", "empty")
    for path in ("empty/x.py", "new.py"):
        repo.write(path, "x\n")
    (repo.top / "folder").mkdir()
    for name, folder, code, message in (
        ("nope.py", repo.top, 2, "no such file: nope.py, and no commit touches it"),
        ("new.py", repo.top, 1, "no commit touches new.py: the file is not tracked"),
        ("x.py", repo.top / "empty", 1, "no history: this repository has no commits yet"),
    ):
        assert ask(name, cwd=folder) == Done(code, "", f"repoagent: {message}\n")
    assert "error" in ask("nope.py", "--json").json
    assert ask("folder").code == 1 and ask("a.txt", "--limit", "0").code == 2
    assert "is not in a git work tree" in ask("x.py", cwd=tmp_path, code=2).err


def test_a_deleted_and_a_moved_file(repo: GitRepo, ask: Ask) -> None:
    grow(repo, 1, "gone.txt")
    repo.git("rm", "-q", "gone.txt")
    short = repo.commit("remove it")[:7]
    done = ask("gone.txt")
    assert done.code == 0 and f"deleted in {short}" in done.err
    assert done.out.splitlines()[-2].strip().startswith("20")
    repo.git("mv", "a.txt", "moved.txt")
    short = repo.commit("move it")[:7]
    assert f"moved to moved.txt in {short}" in ask("a.txt").err
    assert any("moved to moved.txt" in note for note in ask("a.txt", "--json").json["notes"])


# Summaries.


def test_a_few_commits_are_summarized_without_a_question(repo: GitRepo, ask: Ask, model: Program) -> None:
    grow(repo, 2)
    done = ask("a.txt", "--model", model.spec, "--json")
    assert each(done, "summary") == ["says 1.1 in call 0", "says 2.1 in call 0", "says 3.1 in call 0"]
    assert done.json["spent"]["summarized"] == 3 and done.json["spent"]["calls"] == 1
    assert "says 1.1 in call 0" in ask("a.txt").out  # saved, and shown without a model
    assert each(ask("a.txt", "--model", "command:false", "--json"), "summary") == each(done, "summary")
    assert len(model.prompts) == 1
    assert repo.status() == ""


def test_the_configured_model_and_no_model(repo: GitRepo, ask: Ask, model: Program) -> None:
    assert "no model is configured" in ask("a.txt", "--summarize", code=4).err
    repo.git("config", "repoagent.summary.model", model.spec)
    assert each(ask("a.txt", "--summarize", "--json"), "summary") == ["says 1.1 in call 0"]
    repo.git("config", "--unset", "repoagent.summary.model")
    done = ask("a.txt", "--summarize", "--json")  # nothing is missing, so no confirmation is needed
    assert each(done, "summary") == ["says 1.1 in call 0"] and done.json["spent"] is None


def test_a_failing_model_and_garbled_lines_are_reported(repo: GitRepo, ask: Ask, model: Program) -> None:
    assert ask("README.md", "--model", "command:false", "--json", code=4).json["error"]["kind"] == "no_model"
    grow(repo, 2)
    model.answers("lines = lines[2:]")
    assert "the model wrote no usable summary for 1 commit" in ask("a.txt", "--model", model.spec, code=0).err
    model.answers("lines = ['I am sorry.']")
    assert "wrote no usable summary" in ask("a.txt", "--model", model.spec, code=4).err


@pytest.mark.soak
def test_summaries_survive_a_failure_and_an_interrupt(repo: GitRepo, ask: Ask, model: Program) -> None:
    grow(repo, 12)
    grow(repo, 12, "README.md")
    model.answers("if count: sys.exit('out of order')")
    done = ask("a.txt", "--model", model.spec, "--yes")
    assert done.code == 4 and "says 1.1 in call 0" in done.out and "out of order" in done.err
    model.answers("if count > 2: import time; time.sleep(60)")
    with Screen([*PROGRAM, "history", "README.md", "--yes", "--model", model.spec], repo.top) as window:
        window.expect("10 of 13 commits")
        while len(model.prompts) < 4:
            pass
        window.send("\x03")
        assert window.end() == 130
        assert "interrupted; the summaries of 10 commits were saved" in window.seen
    assert len([line for line in each(ask("README.md", "--json"), "summary") if line]) == 10


# `repoagent mine`.


def test_what_mine_prints(repo: GitRepo, in_process: Ask) -> None:
    done = in_process("mine")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("1 commit indexed, complete (0.")
    repo.commit("second", x="1")
    assert in_process("mine", "--quiet").out == ""
    message = in_process("mine", "--json").json
    assert message.pop("size") > 0
    path = str(repo.top / ".repoagent/history.db")
    state = {"commits": 2, "end": "whole", "new": 0, "complete": True}
    assert message == {"version": 1, "path": path, **state}


@pytest.mark.soak
def test_an_interrupt_of_mine_keeps_indexed_commits(repo: GitRepo) -> None:
    stream = "".join(
        f"commit refs/heads/main\ncommitter A <a@b> {1_500_000_000 + n * 86400} +0000\ndata 0\n"
        f"M 100644 inline f{n % 50}\ndata {len(str(n))}\n{n}\n"
        for n in range(30_000)
    )
    repo.git("fast-import", "--quiet", "--force", stdin=stream.encode())
    running = start(["mine"], repo.top)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with open_index(open_worktree(repo.top)) as index:
            if index.state("main").commits:
                break
    os.kill(running.pid, signal.SIGINT)
    _, err = running.communicate()
    if running.returncode == 0:
        pytest.skip("it was done before it could be interrupted")
    assert running.returncode == 130
    assert re.fullmatch(rb"interrupted \([0-9,]+ commits indexed\); continue with `repoagent mine`\n", err)
    assert run(["mine"], repo.top).stdout.startswith(b"30,000 commits indexed, complete")


def test_the_history_is_indexed_in_the_background(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    worktree = open_worktree(repo.top)
    monkeypatch.setenv("CI", "true")
    assert not mine_in_background(worktree)
    monkeypatch.delenv("CI")
    monkeypatch.setenv("REPOAGENT_HISTORY__BACKGROUND", "false")
    assert not mine_in_background(worktree)
    monkeypatch.delenv("REPOAGENT_HISTORY__BACKGROUND")
    assert mine_in_background(worktree)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with open_index(worktree) as index:
            if index.state().complete:
                return
        time.sleep(0.02)
    raise AssertionError("nothing was mined")
