"""What a command, also one in the background, changes is recorded, reported and guarded against harm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.agent.actions import Action
from repoagent.agent.approvals.policy import ApprovalRequest, Gate, Verdict
from repoagent.agent.exec.tools import CommandRunner
from repoagent.agent.sandbox.confine import find_sandbox
from repoagent.git.worktree import open_worktree
from repoagent.tasks.changes.change_set import open_change_set
from repoagent.tasks.changes.command_watch import CommandWatch
from repoagent.tasks.changes.snapshot import settle_command
from tests.cli.apply_patch import apply
from tests.conftest import GitRepo
from tests.tasks.bare import FINISH, User, audited, committed, confined, diff, go, nobody, then


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
    said = "\n".join(user.sentences)
    for name in ("notes.txt", "plan.txt"):
        assert f"the command changed {name}, which git does not track; the previous content is kept" in said
    assert "moved.txt" not in said and "moved.txt (deleted)" not in model.last_prompt
    undo = 'that is not part of your change; <restore path="FILE"/> undoes it.'
    assert f"It changed notes.txt, plan.txt (deleted), which git does not track: {undo}" in model.last_prompt
    assert model.last_prompt.count("It created moved.txt, which git") == 2
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


# -- commands in the background

WAITS = "until [ -e go ]; do sleep 0.02; done; rm go"


@pytest.fixture
def three(repo: GitRepo) -> GitRepo:
    repo.commit("Begin", **{f"{name}.txt": f"{name}\n" for name in "abd"})
    return repo


def test_changes_in_the_background_are_candidates(three: GitRepo) -> None:
    save = then(lambda: (three.write("d.txt", "the user's\n"), three.write("go", "")), '<wait command="b1"/>')
    run = f'<run background="yes">{WAITS}; echo new >b.txt; echo c >c.txt</run>'
    ends = ['<keep path="b.txt"/>', "<run>true</run>", FINISH, FINISH]
    _, _, user = go(three, run, diff("a.txt", "a", "edited"), save, *ends, mode="ask")
    result = next(one.text for one in user.observations if one.kind == "wait")
    assert "b.txt, c.txt (new), d.txt: that is not part of your change" in result and "a.txt" not in result
    assert any("in the background changed b.txt, c.txt (new), d.txt" in one for one in user.sentences)
    assert committed(three) == ["a.txt", "b.txt"]
    assert three.git("status", "--porcelain").split() == ["M", "d.txt", "??", "c.txt"]
    written = {one["path"] for one in audited(three, "write") if one.get("by") == "background"}
    assert written == {"b.txt", "c.txt", "d.txt"}


def test_the_runs_own_changes_are_not_candidates(three: GitRepo) -> None:
    steps = ['<run background="yes">sleep 60</run>', diff("a.txt", "a", "one"), "<run>true</run>", '<restore path="a.txt"/>',
             "<run>echo z >d.txt</run>", diff("b.txt", "b", "two"), "<run>true</run>"]  # fmt: skip
    _, _, user = go(three, *steps, FINISH, FINISH, mode="ask")
    assert not [one.text for one in user.observations if "background, " in one.text]
    assert not [one for one in user.sentences if "in the background" in one]
    assert committed(three) == ["b.txt", "d.txt"]


def test_a_later_change_of_the_runs_file_is_reported(three: GitRepo) -> None:
    run = f'<run background="yes">{WAITS}; echo more >>a.txt</run>'
    waits = then(lambda: three.write("go", ""), '<wait command="b1"/>')
    _, _, user = go(three, run, diff("a.txt", "a", "one"), waits, FINISH, FINISH, mode="ask")
    assert "a.txt, which you had changed, changed again" in "".join(one.text for one in user.observations)
    assert three.git("show", "HEAD:a.txt") == "one\n" and three.read("a.txt") == b"one\nmore\n"


# -- files that act when a folder is opened, and mass deletions: protected in every mode


def refuse_or_not(request: ApprovalRequest) -> Verdict:
    return Verdict(request.kind not in {"delete", "sensitive"}, reason="no", by="person")


@pytest.mark.skipif(
    (found := find_sandbox()) is None or not found.mounting, reason="no sandbox with mounts works here"
)
def test_files_that_act_on_opening_are_write_protected(repo: GitRepo) -> None:
    """Existing or not, at the top and below; the placeholders of the sandbox are removed."""
    repo.commit(**{".idea/x.xml": "1\n", "src/AGENTS.md": "1\n", "lib/.envrc": "1\n", "CLAUDE.md": "1\n"})
    before = sorted(path.name for path in repo.top.iterdir())
    tries = "mkdir -p .vscode/a; echo x >.vscode/tasks.json; echo x >.envrc; rm -r .idea; mv lib/.envrc lib/e; mkdir ok"
    more = "for f in .idea/x.xml src/AGENTS.md lib/.envrc CLAUDE.md; do echo 2 >$f; done; echo 2 >src/app.py"
    go(repo, f"<run>{tries}; {more}; true</run>", FINISH, mode="auto")
    assert committed(repo) == ["src/app.py"]
    assert sorted({path.name for path in repo.top.iterdir()} - {".repoagent"}) == sorted([*before, "ok"])
    run = "<run>echo 2 >CLAUDE.md; echo x >.envrc</run>"
    go(repo, run, FINISH, FINISH, mode="auto", allow_sensitive=True)
    assert (repo.read("CLAUDE.md"), repo.read(".envrc")) == (b"2\n", b"x\n")


def test_files_that_act_on_opening_are_removed_after_a_command(repo: GitRepo) -> None:
    """Without a sandbox that prevents it, with ignored files, and a repository in a folder."""
    repo.commit(**{".gitignore": ".vscode/\n", "CLAUDE.md": "1\n"})
    user = User(allows=refuse_or_not)
    made = "mkdir .vscode; echo x >.vscode/tasks.json; echo x >AGENTS.md; echo 2 >CLAUDE.md; git init -q src; echo 2 >a.txt"
    _, model, _ = go(repo, f"<run>{made}</run>", FINISH, FINISH, mode="ask", confine=False, user=user)
    assert "restored the previous content" in model.last_prompt
    assert not any((repo.top / path).exists() for path in (".vscode/tasks.json", "AGENTS.md", "src/.git"))
    assert (repo.read("CLAUDE.md"), repo.read("a.txt")) == (b"1\n", b"2\n")


def many(repo: GitRepo, number: int) -> None:
    repo.commit(**{f"old/f{n}.txt": f"{n}\n" for n in range(number)})


@confined
@pytest.mark.parametrize("answer", [nobody, refuse_or_not, None])
def test_a_mass_deletion_needs_approval_in_auto(
    repo: GitRepo, answer: Callable[[ApprovalRequest], Verdict] | None
) -> None:
    many(repo, 12)
    user = User(allows=answer) if answer else User()
    _, model, _ = go(repo, "<run>rm -r old; echo 2 >a.txt</run>", FINISH, FINISH, mode="auto", user=user)
    assert [request.kind for request in user.requests] == ["delete"]  # asked about once
    if answer:
        assert "ommands deleted 12 files" in model.last_prompt
        assert any("restored" in said for said in user.sentences)
        assert len(list((repo.top / "old").iterdir())) == 12 and committed(repo) == ["a.txt"]
    else:
        assert len(committed(repo)) == 13


@confined
def test_deletions_add_up_and_a_rename_is_not_a_deletion(repo: GitRepo) -> None:
    many(repo, 40)
    user = User(allows=nobody)
    move = "<run>mkdir new; mv old/f1?.txt new</run>"
    first, last = "<run>rm old/f21.txt old/f22.txt old/f23.txt old/f24.txt</run>", "<run>rm old/f3.txt</run>"
    go(repo, move, first, last, '<keep path="new"/>' + FINISH, FINISH, FINISH, mode="auto", user=user)
    assert [request.what.count("old/") for request in user.requests] == [5]  # a tenth of 43
    assert (repo.top / "old/f3.txt").exists() and (repo.top / "new/f11.txt").exists()
    assert not (repo.top / "old/f21.txt").exists()


def test_a_mass_deletion_by_an_edit_needs_separate_approval(repo: GitRepo) -> None:
    many(repo, 11)
    gone = "".join(
        f"diff --git a/old/f{n}.txt b/old/f{n}.txt\ndeleted file mode 100644\n--- a/old/f{n}.txt\n+++ /dev/null\n"
        f"@@ -1 +0,0 @@\n-{n}\n"
        for n in range(11)
    )
    done = apply(repo.top, gone, "--yes")
    assert done.code == 3 and "is one of 11 files that this change deletes" in done.err
    assert apply(repo.top, gone, "--yes", "--allow-sensitive").code == 0
    repo.git("reset", "-q", "--hard", "HEAD^")
    go(repo, f"```diff\n{gone}```\n", FINISH, FINISH, mode="auto")
    assert len(list((repo.top / "old").iterdir())) == 11
