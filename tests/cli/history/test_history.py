"""`repoagent history` as a user runs it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.cli.applying import Done
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.history.summaries.conftest import Program, model

__all__ = ["model"]

Ask = Callable[..., Done]
APP = "def greet(name):\n    return 'hello ' + name\n\n\ndef main():\n    print(greet('world'))\n"


@pytest.fixture
def ask(in_process: Ask) -> Ask:
    """`repoagent history ARGS` in this process, at the top or in `cwd`."""
    return partial(in_process, "history")


def grow(repo: GitRepo, count: int, path: str = "a.txt") -> None:
    for number in range(count):
        repo.commit(f"change {number}", **{path: f"{number}\n"})


def subjects(done: Done) -> list[str]:
    assert done.code == 0, done.err
    return [commit["subject"] for commit in done.json["commits"]]


# --- output


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


def test_json(repo: GitRepo, ask: Ask) -> None:
    grow(repo, 3)
    result = ask("a.txt", "--json", "--limit", "2").json
    assert result["version"] == 1 and result["path"] == "a.txt" and result["revision"] == repo.head()
    assert [commit["subject"] for commit in result["commits"]] == ["change 2", "change 1"]
    assert result["partial"] is True and result["people"]["commits"] == 4
    assert result["spent"] is None


def test_at_a_revision_and_under_an_old_name(repo: GitRepo, ask: Ask) -> None:
    grow(repo, 2)
    repo.git("tag", "v1")
    repo.git("mv", "a.txt", "new.txt")
    repo.commit("move")
    assert subjects(ask("new.txt", "--json")) == ["move", "change 1", "change 0", "first commit"]
    assert subjects(ask("a.txt", "--json", "--at", "v1")) == ["change 1", "change 0", "first commit"]
    assert "as a.txt:" in ask("new.txt").out
    assert ask("new.txt", "--at", "v1").code == 1  # it exists now, but not at that revision


def test_an_absolute_limit_and_older_commits(repo: GitRepo, ask: Ask) -> None:
    grow(repo, 4)
    done = ask("a.txt", "--limit", "2")
    assert done.err == "3 older commits; show more with --limit\n"
    assert ask("a.txt", "--limit", "0").code == 2


# --- bad input


def test_a_file_that_never_existed(repo: GitRepo, ask: Ask) -> None:
    done = ask("nope.py")
    assert (done.code, done.err) == (
        2, "repoagent: no such file: nope.py, and no commit touches it\n"
    )  # fmt: skip
    assert "error" in json.loads(ask("nope.py", "--json").out)


def test_untracked_and_staged(repo: GitRepo, ask: Ask) -> None:
    repo.write("new.py", "x\n")
    done = ask("new.py")
    assert (done.code, done.err) == (1, "repoagent: no commit touches new.py: the file is not tracked\n")
    repo.git("add", "new.py")
    assert "staged but not committed" in ask("new.py").err
    (repo.top / "folder").mkdir()
    assert ask("folder").code == 1


def test_a_deleted_and_a_moved_file(repo: GitRepo, ask: Ask) -> None:
    grow(repo, 1, "gone.txt")
    repo.git("rm", "-q", "gone.txt")
    short = repo.commit("remove it")[:7]
    done = ask("gone.txt")
    assert done.code == 0 and f"deleted in {short}" in done.err
    assert [line.strip() for line in done.out.splitlines()][-3:-1][1].startswith("20")
    repo.git("mv", "a.txt", "moved.txt")
    short = repo.commit("move it")[:7]
    assert f"moved to moved.txt in {short}" in ask("a.txt").err
    assert any("moved to moved.txt" in note for note in ask("a.txt", "--json").json["notes"])


def test_not_a_repository_and_no_commit(
    tmp_path: Path, make_repo: Callable[[str], GitRepo], ask: Ask
) -> None:
    done = ask("x.py", cwd=tmp_path)
    assert done.code == 2 and "is not in a git work tree" in done.err
    empty = make_repo("empty")
    empty.write("x.py", "x\n")
    done = ask("x.py", cwd=empty.top)
    assert (done.code, done.err) == (1, "repoagent: no history: this repository has no commits yet\n")


# --- summaries


def lines(done: Done) -> list[str | None]:
    assert done.code == 0, done.err
    return [commit["summary"] for commit in done.json["commits"]]


def test_a_few_commits_are_summarized_without_a_question(repo: GitRepo, ask: Ask, model: Program) -> None:
    grow(repo, 2)
    done = ask("a.txt", "--model", model.spec, "--json")
    assert lines(done) == ["says 1.1 in call 0", "says 2.1 in call 0", "says 3.1 in call 0"]
    assert done.json["spent"]["summarized"] == 3 and done.json["spent"]["calls"] == 1
    assert "says 1.1 in call 0" in ask("a.txt").out  # saved, and shown without a model
    assert lines(ask("a.txt", "--model", "command:false", "--json")) == lines(done)
    assert len(model.prompts) == 1
    assert repo.status() == ""


def test_the_configured_model_and_no_model(repo: GitRepo, ask: Ask, model: Program) -> None:
    done = ask("a.txt", "--summarize")
    assert done.code == 4 and "no model is configured" in done.err
    repo.git("config", "repoagent.summary.model", model.spec)
    assert lines(ask("a.txt", "--summarize", "--json")) == ["says 1.1 in call 0"]
    repo.git("config", "--unset", "repoagent.summary.model")
    done = ask("a.txt", "--summarize", "--json")  # nothing is missing, so no confirmation is needed
    assert lines(done) == ["says 1.1 in call 0"] and done.json["spent"] is None


@pytest.mark.soak
def test_a_failing_model_shows_the_history(repo: GitRepo, ask: Ask, model: Program) -> None:
    grow(repo, 12)
    model.answers("if count: sys.exit('out of order')")
    done = ask("a.txt", "--model", model.spec, "--yes")
    assert done.code == 4 and "says 1.1 in call 0" in done.out and "out of order" in done.err
    done = ask("README.md", "--model", "command:false", "--json")
    assert done.code == 4 and json.loads(done.out)["error"]["kind"] == "no_model"


def test_garbled_lines_are_reported(repo: GitRepo, ask: Ask, model: Program) -> None:
    grow(repo, 2)
    model.answers("lines = lines[2:]")
    done = ask("a.txt", "--model", model.spec)
    assert done.code == 0 and "the model wrote no usable summary of 1 commit" in done.err
    model.answers("lines = ['I am sorry.']")
    done = ask("a.txt", "--model", model.spec)
    assert done.code == 4 and "wrote no usable summary" in done.err


@pytest.mark.soak
def test_completed_summaries_survive_an_interrupt(repo: GitRepo, ask: Ask, model: Program) -> None:
    grow(repo, 12)
    model.answers("if count: import time; time.sleep(60)")
    with Screen(
        [*PROGRAM, "history", "a.txt", "--yes", "--model", model.spec], repo.top, width=100
    ) as window:
        window.expect("10 of 13 commits")
        while len(model.prompts) < 2:
            pass
        window.send("\x03")
        assert window.end() == 130
        assert "interrupted; the summaries of 10 commits were saved" in window.seen
    assert len([line for line in lines(ask("a.txt", "--json")) if line]) == 10
