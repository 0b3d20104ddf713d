"""A run that was killed or failed is resumed by the same command; two runs at the same time lose nothing."""

from __future__ import annotations

import gzip
import json
import os
import signal
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests import program
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, diff, make_script
from tests.program import Running

Killed = Callable[..., None]


@pytest.fixture
def killed(repo: GitRepo, script: Script) -> Killed:
    """Start `repoagent ARGS` and kill it as soon as the file `when` exists."""

    def killed(when: Path, *args: str) -> None:
        with Path(os.devnull).open("r+b") as null:  # its model continues to run, and would keep a pipe open
            streams = [null.fileno()] * 3
            process = Running(args, repo.top, {**os.environ, "REPOAGENT_MODEL": script.spec}, streams)
        while not when.exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.wait()

    return killed


def left_behind(repo: GitRepo) -> list[str]:
    """The files of unfinished edits, and their locks."""
    folders = (".repoagent/conversations/*", ".git/repoagent/locks/*", ".git/*.lock")
    return [path.name for folder in folders for path in repo.top.glob(folder)]


@pytest.mark.soak
def test_killed_during_the_model_call(repo: GitRepo, run: Run, script: Script, killed: Killed) -> None:
    script.replies('<read path="README.md"/>\n', "never given", GREET)
    script.act(1, "sleep 5")
    command = ("edit", "src/app.py", "greet with a comma", "--yes")
    killed(script.folder / "prompt-01", *command)
    assert repo.status() == ""
    done = run(*command, "--json", code=0)
    assert len(script.prompts) == 3  # the last call was repeated, the first was not
    assert "A small repository." in script.prompts[2] and done.json["usage"]["calls"] == 1
    assert left_behind(repo) == []


def test_killed_in_the_check(repo: GitRepo, run: Run, script: Script, killed: Killed, tmp_path: Path) -> None:
    script.replies(GREET)
    started = tmp_path / "started"
    check = f"test -e {started} || {{ touch {started}; sleep 5; }}"
    command = ("edit", "src/app.py", "greet with a comma", "--yes", "--check-unconfined", "--check", check)
    repo.write("src/app.py", repo.read("src/app.py") + b"# mine\n")
    killed(started, *command)
    assert (repo.top / ".git/index.lock").exists()  # git now refuses, so that nothing is lost
    done = run(*command, code=0)
    assert "recovered: " in done.err and "resuming interrupted edit " in done.err
    assert len(script.prompts) == 1
    assert repo.git("diff", "HEAD^", "--stat").count("|") == 1
    assert repo.status() == " M src/app.py\n" and left_behind(repo) == []


@pytest.mark.soak
def test_a_failed_model_call_is_resumed_or_started_over(repo: GitRepo, run: Run, script: Script) -> None:
    command = ("edit", "src/app.py", "greet with a comma", "--dry-run")
    for option in ((), ("--conversation", "fresh")):
        script.replies('<read path="README.md"/>\n')
        run(*command, code=4)
        assert len(script.prompts) == 2
        (script.folder / "reply-02").write_text(GREET)
        run(*command, *option, code=0)
        assert ("A small repository." in script.prompts[2]) == (not option)
        left = left_behind(repo)
        assert left == [] if not option else left[0].startswith("kept-")


def test_a_run_without_a_reply_leaves_no_file(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies()
    edit(code=4)
    edit(file="README.md", request="say more", code=4)
    assert sum(name.startswith("edit-") for name in left_behind(repo)) <= 1


def test_killed_between_the_commit_and_the_memory(repo: GitRepo, edit: Run, run: Run, script: Script) -> None:
    repo.hook("post-commit", "cp .repoagent/conversations/edit-*.md ..\n")
    script.replies(GREET, GREET)
    edit()
    (file,) = repo.top.parent.glob("edit-*.md")
    file.rename(repo.top / ".repoagent/conversations" / file.name)
    run("undo", code=0)
    edit()  # the first edit was made and undone: this is another one
    assert len(script.prompts) == 2
    assert repo.git("rev-list", "--count", "HEAD").strip() == "2"


def test_interrupted_after_the_commit(repo: GitRepo, edit: Run, run: Run, script: Script) -> None:
    repo.hook("post-commit", "kill -INT $(ps -o ppid= -p $PPID)\n")
    script.replies(GREET)
    done = edit(code=130)
    assert "interrupted after the change was made" in done.err
    assert left_behind(repo) == []
    assert "recorded edit" in run("undo", code=0).err


def test_old_requests_are_removed(repo: GitRepo, run: Run, script: Script) -> None:
    sent = repo.top / ".repoagent/sent"
    sent.mkdir(parents=True)
    for name, days in [("old.txt", 31), ("long.txt.gz", 31), ("new.txt", 29)]:
        (sent / name).write_text("x")
        os.utime(sent / name, (time.time() - days * 86_400,) * 2)
    script.replies(GREET)
    run("edit", "src/app.py", "greet with a comma", "--dry-run", code=0)
    assert not (sent / "old.txt").exists() and not (sent / "long.txt.gz").exists()
    assert (sent / "new.txt").exists()
    assert len(list(sent.glob("*.txt"))) == 2


def test_a_long_request_is_compressed(repo: GitRepo, run: Run, script: Script) -> None:
    repo.write("task.md", "greet with a comma\n" * 4_000)
    script.replies(GREET)
    assert run("edit", "src/app.py", "-F", "task.md", "--dry-run").code == 0
    (kept,) = (repo.top / ".repoagent/sent").glob("*.txt.gz")
    text = gzip.decompress(kept.read_bytes())
    assert kept.name == sha256(text).hexdigest()[:24] + ".txt.gz"
    assert text.decode().rstrip("\n") == script.prompts[0].rstrip("\n")


def start(repo: GitRepo, script: Script, *args: str) -> program.Running:
    return program.start(["edit", *args, "--yes", "--json"], repo.top, env={"REPOAGENT_MODEL": script.spec})


@pytest.mark.soak
def test_two_files_and_a_slow_check(repo: GitRepo, script: Script, tmp_path: Path) -> None:
    other = make_script(tmp_path / "second")
    script.replies(diff("a.txt", " line 1", "-line 2", "+LINE 2", " line 3"))
    other.replies(diff("README.md", "-A small repository.", "+A smaller one."))
    checking = tmp_path / "checking"
    # the second commits while the check of the first runs
    other.act(0, f"while [ ! -e {checking} ]; do sleep 0.01; done")
    check = ("--check", f"touch {checking}; sleep 1", "--check-unconfined")
    edits = [start(repo, script, "a.txt", "shout", *check), start(repo, other, "README.md", "say less")]
    outputs = [edit.communicate() for edit in edits]
    assert [edit.returncode for edit in edits] == [0, 0], outputs
    assert repo.status() == ""
    assert repo.git("rev-list", "--count", "HEAD").strip() == "3"
    commits = {json.loads(out)["commit"] for out, _ in outputs}
    assert commits == set(repo.git("log", "-n2", "--format=%H").split())
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
