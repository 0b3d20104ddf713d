"""Tasks that change files: search, read, patch, check and commit; and undo them exactly."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from repoagent.errors import LimitReached
from repoagent.llm.usage import Limits
from tests.tasks.scenarios.rules import (
    changed,
    fix_rounding,
    rename_everywhere,
    replace_line,
)
from tests.tasks.scenarios.sight import Sight, created, deleted, edit, finish, patch
from tests.tasks.scenarios.stage import Stage

Make = Callable[..., Stage]


def test_fix_a_failing_test(stage: Make) -> None:
    task = stage("python")
    outcome = task.go(fix_rounding, "Make the failing test pass.")
    assert (outcome.kind, "'ok'" in outcome.text) == ("done", True)
    assert task.kinds() == ["run", "read", "search", "read", "edit", "run", "finish"]
    task.whole("convert/rounding.py")


def test_rename_a_function_across_files(stage: Make) -> None:
    task = stage("python")
    outcome = task.go(
        rename_everywhere("register", "add_unit", "python3 -S -c 'import convert.units'"), "Rename it."
    )
    assert outcome.kind == "done"
    names = ["length", "mass", "volume", "speed", "energy", "pressure", "area", "power"]
    task.whole("convert/table.py", *(f"convert/units/{name}.py" for name in names))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("path", "words", "data"),
    [
        ("docs/manual.md", ("it could.", "it could, or 1."), (b"could.\r\n", b"could, or 1.\r\n")),
        ("docs/auteurs.txt", ("Müller", "Möller"), (b"Ren\xe9 M\xfcller\n", b"Ren\xe9 M\xf6ller\n")),
        ("docs/last.txt", ("has no end", "has none"), (b"line has no end", b"line has none")),
    ],
    ids=["crlf", "latin-1", "no final newline"],
)
def test_only_the_edited_words_of_a_file_change(
    stage: Make, path: str, words: tuple[str, str], data: tuple[bytes, bytes]
) -> None:
    task = stage("c")
    was = task.repo.read(path)
    assert data[0] in was
    task.go(replace_line(path, *words), f"{words[0]} is to be {words[1]}")
    assert task.repo.read(path) == was.replace(*data)
    task.whole(path)


@pytest.mark.parametrize("staged", [False, True])
def test_the_users_work_in_the_same_file_stays_uncommitted(stage: Make, staged: bool) -> None:
    task = stage("python")
    mine = task.repo.read("convert/rounding.py").replace(b'"""Rounding."""', b'"""Rounding, mine."""')
    task.repo.write("docs/mass.md", "staged\n")
    task.repo.write("convert/rounding.py", mine)
    task.repo.git("add", "docs/mass.md", *(["convert/rounding.py"] if staged else []))
    task.repo.write("notes.txt", "untracked\n")
    task.go(fix_rounding, "Make the failing test pass.")
    assert "mine" not in task.repo.git("show", "HEAD:convert/rounding.py")
    assert task.repo.read("convert/rounding.py") == mine.replace(b"str(value)", b"str(round(value))")
    status = "M " if staged else " M"
    assert task.repo.status() == f"{status} convert/rounding.py\nM  docs/mass.md\n?? notes.txt\n"
    task.whole("convert/rounding.py")


def test_create_rename_and_delete(stage: Make) -> None:
    def rule(see: Sight) -> str:
        if any(one.applied for one in see.done):
            left = see.ran("ls docs")
            return finish("Turn mass into weight", "weight" if "weight.md" in left.output else "?")
        old, gone = see.lines("docs/mass.md"), see.lines("docs/area.md")
        head = (
            "diff --git a/docs/mass.md b/docs/weight.md\nrename from docs/mass.md\nrename to docs/weight.md\n"
        )
        moved = patch("docs/mass.md", old, changed(old, "# Mass", "# Weight"))
        moved = moved.replace("+++ b/docs/mass.md", "+++ b/docs/weight.md")
        return edit(
            head + moved, deleted("docs/area.md", gone), created("docs/README.md", "# docs\n\nOne each.\n")
        )

    task = stage("python")
    assert task.go(rule, "Rename mass to weight, drop area, and describe docs.").text == "weight"
    task.whole("docs/README.md", "docs/area.md", "docs/mass.md", "docs/weight.md")


def test_commits_of_an_interrupted_run_are_recorded(stage: Make) -> None:
    def rule(see: Sight) -> str:
        for path in ("docs/mass.md", "docs/area.md"):
            lines = see.lines(path)
            if any(line.startswith("One") for line in lines):
                return edit(patch(path, lines, changed(lines, "One", "1")))
        return "<finish>both are reworded</finish>"

    task = stage("python")
    with pytest.raises(LimitReached):
        task.go(rule, "Write numbers.", commit_per_edit=True, limits=Limits(turns=2))
    task.sound("limit")
    assert task.record()["commits"] == [task.repo.head()]
    task.go(rule, commit_per_edit=True)
    assert task.record()["commits"] == task.repo.git("log", "--reverse", "-2", "--format=%H").split()
