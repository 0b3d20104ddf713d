"""The audit records what a command writes, and a moved submodule is reported."""

from __future__ import annotations

from pathlib import Path

from repoagent.agent.actions import Action
from repoagent.agent.approvals.policy import Gate
from repoagent.agent.exec.tools import CommandRunner
from repoagent.git.worktree import open_worktree
from repoagent.tasks.changes.change_set import open_change_set
from repoagent.tasks.changes.command_watch import CommandWatch
from repoagent.tasks.changes.snapshot import settle_command
from tests.conftest import GitRepo
from tests.tasks.bare import FINISH, audited, go


def test_the_audit_records_what_a_command_writes(repo: GitRepo) -> None:
    repo.commit("Begin", **{"a.txt": "one\n", "gone.txt": "x\n", "clean.txt": "x\n"})
    before = repo.git("rev-parse", "HEAD:a.txt").strip()
    command = "echo two > a.txt; rm gone.txt; echo new > new.txt"
    go(repo, f"<run>{command}</run>", FINISH, FINISH)
    lines = audited(repo, "write")
    written = {line["path"]: (line["before"], line["after"]) for line in lines if line["by"] == "command"}
    after = repo.git("hash-object", "a.txt").strip()
    gone, new = repo.git("rev-parse", "HEAD~1:gone.txt").strip(), repo.git("hash-object", "new.txt").strip()
    assert written == {"a.txt": (before, after), "gone.txt": (gone, None), "new.txt": (None, new)}
    assert all(one["run"] and one["version"] == 1 for one in lines)


def test_a_command_that_changes_an_untracked_file_is_reported(repo: GitRepo) -> None:
    """Its bytes are stored nowhere else."""
    repo.commit(**{"a.txt": "one\n"})
    repo.write("notes.txt", "mine\n")
    repo.write("plan.txt", "mine too\n")
    commands = ("echo more >> notes.txt; mv plan.txt moved.txt", "echo x >> moved.txt", "rm moved.txt")
    runs = [f"<run>{command}</run>" for command in commands]
    restore = '<restore path="notes.txt"/>\n<restore path="plan.txt"/>'
    _, model, user = go(repo, *runs, restore, FINISH, FINISH)
    said = "\n".join(user.messages)
    for name in ("notes.txt", "plan.txt"):
        assert f"the command changed {name}, which git does not track; the previous content is kept" in said
    assert "moved.txt" not in said and "moved.txt (deleted)" not in model.last_prompt
    assert (
        "It changed moved.txt (new), notes.txt, plan.txt (deleted), which git does not track"
        in model.last_prompt
    )
    assert model.last_prompt.count("It changed moved.txt, which git") == 1
    assert (repo.read("notes.txt"), repo.read("plan.txt")) == (b"mine\n", b"mine too\n")


def test_a_command_that_cannot_be_started_is_not_taken_for_an_interrupted_one(
    repo: GitRepo, tmp_path: Path
) -> None:
    change_set = open_change_set(open_worktree(repo.top), tmp_path / "changes")
    runner = CommandRunner(repo.top, tmp_path / "output", {}, Gate("ask", path="/usr/bin:/bin"))
    runner.watch = CommandWatch(change_set.worktree, change_set, lambda said: None)
    runner.wrap = lambda argv, report, may: ["/no/such/sandbox", *argv]
    assert "could not start" in runner.tools()[0].perform(Action("run", {}, "ls")).text
    repo.write("mine.txt", "mine\n")
    assert settle_command(change_set) == "" and change_set.candidates == ()
