"""Commands and the user change the repository during a run."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.tasks.scenarios.rules import changed, replace_line
from tests.tasks.scenarios.sight import Sight, edit, finish, patch
from tests.tasks.scenarios.stage import Look, Stage

Make = Callable[..., Stage]

BUMP = replace_line("README.md", "Converts units.", "Converts all units.", "Say all")


def commands(*texts: str, keep: tuple[str, ...] = ()) -> Callable[[Sight], str]:
    def rule(see: Sight) -> str:
        for text in texts:
            if (result := see.ran(text, again=False)).exit != 0:
                return f"<reject>{result.seen}</reject>"
        for path in keep:
            see.once("keep", f'<keep path="{path}"/>', path=path)
        return finish("Run commands", "they ran")

    return rule


def test_a_file_that_a_command_creates_and_the_model_edits(stage: Make) -> None:
    """An edit keeps the file."""

    def rule(see: Sight) -> str:
        see.ran("cp docs/mass.md docs/copy.md", again=False)
        return replace_line("docs/copy.md", "# Mass", "# Copy")(see)

    task = stage("python")
    task.go(rule, "Copy it.")
    task.whole("docs/copy.md")


def test_commands_delete_and_move_and_change_modes(stage: Make) -> None:
    task = stage("python")
    rule = commands(
        "rm docs/mass.md",
        "mv docs/area.md docs/surface.md",
        "chmod +x tests/run.py",
        "ln -s README.md LIESMICH",
        keep=("docs/surface.md", "LIESMICH"),
    )
    task.go(rule, "Move things.")
    assert task.repo.status() == ""
    task.whole("LIESMICH", "docs/area.md", "docs/mass.md", "docs/surface.md", "tests/run.py")


def test_a_command_that_reverts_its_change(stage: Make) -> None:
    """A file with its original content has no change."""
    task = stage("python")
    rule = commands("cp README.md /dev/shm/.proof && echo x >> README.md", "sed -i '$d' README.md")
    outcome = task.go(rule, "Nothing.", confine=False)
    assert (outcome.kind, outcome.commits) == ("done", ())
    assert Look.at(task.repo) == task.before
    task.sound()


def test_the_user_commits_other_work_during_the_run(stage: Make) -> None:
    task = stage("python")

    def commit() -> None:
        task.repo.write("docs/mass.md", "mine\n")
        task.repo.git("commit", "-q", "-m", "mine", "docs/mass.md")
        task.before = Look.at(task.repo)

    task.at[2] = commit
    task.go(BUMP, "Say all units.")
    assert task.repo.git("log", "-2", "--format=%s").split("\n")[:2] == ["Say all", "mine"]
    task.whole("README.md")


def test_the_user_commits_the_runs_change_during_the_run(stage: Make) -> None:
    """`git commit -a` during the run includes the edit: nothing is left to commit, and the run ends normally."""
    task = stage("python")
    task.at[3] = lambda: task.repo.git("commit", "-q", "-a", "-m", "all of it")
    outcome = task.go(BUMP, "Say all units.")
    assert (outcome.kind, outcome.commits) == ("done", ())
    assert task.repo.git("log", "-1", "--format=%s").strip() == "all of it"
    assert task.repo.status() == ""
    task.sound()


def test_the_user_stages_the_runs_change_during_the_run(stage: Make) -> None:
    task = stage("python")
    task.at[3] = lambda: task.repo.git("add", "-A")
    task.go(BUMP, "Say all units.")
    assert task.repo.status() == ""
    task.sound()
    task.committed("README.md")


def test_undo_of_a_change_that_was_staged_before_the_commit(stage: Make) -> None:
    task = stage("python")
    task.at[3] = lambda: task.repo.git("add", "-A")
    task.go(BUMP, "Say all units.")
    task.undone()


def test_the_user_deletes_the_runs_file_during_the_run(stage: Make) -> None:
    """It stays deleted and uncommitted; the rest of the change is committed."""
    task = stage("python")

    def rule(see: Sight) -> str:
        if not any(one.applied for one in see.done):
            one, two = see.lines("README.md"), see.lines("docs/mass.md")
            return edit(
                patch("README.md", one, changed(one, "units", "all units")),
                patch("docs/mass.md", two, changed(two, "Mass", "Masses")),
            )
        return finish("Say all", "said")

    task.at[4] = (task.repo.top / "docs/mass.md").unlink
    task.go(rule, "Say all units.")
    assert task.repo.status() == " D docs/mass.md\n"
    task.sound()
    task.committed("README.md")


def test_unusual_and_non_utf8_names(stage: Make) -> None:
    task = stage("python")
    odd = ["a b.txt", "ü.txt", 'quo"te.txt', "-dash.txt", "new\nline.txt", ":(top).txt"]
    for name in odd:
        task.repo.write(name, "word\n")
    raw = os.fsencode(task.repo.top) + b"/caf\xe9.txt"
    with open(raw, "wb") as file:  # noqa: PTH123  (a name in bytes)
        file.write(b"word\n")
    task.repo.commit("odd names")
    rule = commands('for f in *.txt; do sed -i s/word/sword/ "./$f"; done')
    task.go(rule, "Change them.")
    assert task.repo.status() == ""
    assert task.repo.git("show", "--format=", "--name-only", "-z", "HEAD").count("\0") == len(odd) + 1
    task.sound()
    task.undone()


def test_in_a_repository_without_a_commit(stage: Make) -> None:
    task = stage("python")
    task.repo.git("update-ref", "-d", "HEAD")
    task.repo.git("rm", "-r", "-q", "--cached", ".")
    head = task.repo.git("rev-parse", "-q", "--verify", "HEAD", ok=False)
    assert head == ""
    task.before = Look({}, "", "", "")

    def rule(see: Sight) -> str:
        if any(one.applied for one in see.done):
            return finish("Begin", "it has begun")
        return edit("--- /dev/null\n+++ b/FIRST.md\n@@\n+# First\n")

    assert task.go(rule, "Begin.").kind == "done"
    assert task.repo.git("ls-tree", "-r", "--name-only", "HEAD") == "FIRST.md\n"
    task.sound()


def test_a_commit_per_edit_and_a_kill_after_the_commit(stage: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is not in the conversation: the edit is not repeated, and the run ends normally."""
    from repoagent.tasks.plugins import HookAnswer, UserHooks

    class Killed(BaseException):
        pass

    def killed(self: UserHooks, event: str, *_: object) -> HookAnswer:
        if event == "after_edit":
            raise Killed
        return HookAnswer()

    task = stage("python")
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(UserHooks, "__call__", killed)
        with pytest.raises(Killed):
            task.go(BUMP, "Say all units.", config={"run.after_edit": "true"}, commit_per_edit=True)
    assert task.go(BUMP, commit_per_edit=True).kind == "done"
    assert task.kinds() == ["read", "edit", "finish"]
    task.whole("README.md")
