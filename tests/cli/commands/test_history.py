"""`repoagent history` as a user runs it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.apply_patch import Ask, Done
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.history.summaries.conftest import Program, model

COMMAND = "history"

__all__ = ["model"]

APP = "def greet(name):\n    return 'hello ' + name\n\n\ndef main():\n    print(greet('world'))\n"


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
    assert subjects(ask("new.txt", "--json")) == ["move", *before]
    assert subjects(ask("a.txt", "--json", "--at", "v1")) == before[1:]
    assert "as a.txt:" in ask("new.txt").out
    assert ask("new.txt", "--at", "v1").code == 1  # it exists now, but not at that revision


# --- bad input


def test_files_without_a_history(
    repo: GitRepo, tmp_path: Path, make_repo: Callable[[str], GitRepo], ask: Ask
) -> None:
    empty = make_repo("empty")
    empty.write("x.py", "x\n")
    repo.write("new.py", "x\n")
    (repo.top / "folder").mkdir()
    for name, folder, code, message in (
        ("nope.py", repo.top, 2, "no such file: nope.py, and no commit touches it"),
        ("new.py", repo.top, 1, "no commit touches new.py: the file is not tracked"),
        ("x.py", empty.top, 1, "no history: this repository has no commits yet"),
    ):
        assert ask(name, cwd=folder) == Done(code, "", f"repoagent: {message}\n")
    assert "error" in ask("nope.py", "--json").json
    repo.git("add", "new.py")
    assert "staged but not committed" in ask("new.py").err
    assert ask("folder").code == 1 and ask("a.txt", "--limit", "0").code == 2
    outside = ask("x.py", cwd=tmp_path)
    assert outside.code == 2 and "is not in a git work tree" in outside.err


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


def test_a_failing_model_shows_the_history_and_garbled_lines_are_reported(
    repo: GitRepo, ask: Ask, model: Program
) -> None:
    done = ask("README.md", "--model", "command:false", "--json")
    assert done.code == 4 and done.json["error"]["kind"] == "no_model"
    grow(repo, 2)
    model.answers("lines = lines[2:]")
    done = ask("a.txt", "--model", model.spec)
    assert done.code == 0 and "the model wrote no usable summary for 1 commit" in done.err
    model.answers("lines = ['I am sorry.']")
    done = ask("a.txt", "--model", model.spec)
    assert done.code == 4 and "wrote no usable summary" in done.err


@pytest.mark.soak
def test_completed_summaries_survive_a_failure_and_an_interrupt(
    repo: GitRepo, ask: Ask, model: Program
) -> None:
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
    assert len([line for line in lines(ask("README.md", "--json")) if line]) == 10
