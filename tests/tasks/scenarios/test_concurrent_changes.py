"""Commands and the user change the repository during a run."""

from __future__ import annotations

import os
from collections.abc import Callable

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
