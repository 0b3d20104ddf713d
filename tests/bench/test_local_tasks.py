"""The tasks of bench/local are sound: what is asked for can be done, and what is done wrong is noticed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.local.tasks import May, Task, all_tasks, damage, frozen

pytestmark = pytest.mark.soak

TASKS = all_tasks()
needs_node = pytest.mark.skipif(not shutil.which("node"), reason="node is not on PATH")
EACH = [
    pytest.param(task, id=task.name, marks=[needs_node] if task.language == "javascript" else [])
    for task in TASKS
]
each_task = pytest.mark.parametrize("task", EACH)


def test_the_tasks_are_as_many_and_as_mixed_as_they_are_said_to_be() -> None:
    assert len(TASKS) == 20
    assert {task.language for task in TASKS} == {"python", "javascript", "shell", "yaml", "markdown"}
    assert {len(task.files) for task in TASKS} == {1, 2}
    bounds = ((20, 60), (60, 200), (200, 500), (500, 1000))
    assert [sum(low <= task.lines < high for task in TASKS) for low, high in bounds] == [8, 6, 4, 2]


@each_task
def test_the_check_fails_before_and_the_judge_says_wrong(task: Task, tmp_path: Path) -> None:
    task.write(tmp_path)
    assert not task.passes_check(tmp_path)
    assert task.judge(tmp_path).outcome == "wrong"


@each_task
def test_the_check_passes_after_and_the_judge_says_solved(task: Task, tmp_path: Path) -> None:
    task.write(tmp_path, "after")
    assert task.passes_check(tmp_path)
    verdict = task.judge(tmp_path)
    assert (verdict.outcome, verdict.note) == ("solved", "")


@each_task
def test_any_stray_change_beside_the_solution_is_damage(task: Task, tmp_path: Path) -> None:
    task.write(tmp_path, "after")
    solved = {path: (tmp_path / path).read_bytes() for path in task.source}
    assert task.harm(solved) == ""
    other = next(path for path in task.source if path not in task.files)
    assert task.harm({**solved, other: solved[other] + b"#\n"})
    assert task.harm({**solved, "new.txt": b""})
    for file in task.files:
        places = [place for place in task.may if place.file == file]
        lines = solved[file].decode().splitlines(keepends=True)
        runs = frozen(task.source[file].decode().splitlines(keepends=True), places)
        only = [line for _, run in runs for line in run if line.strip() and lines.count(line) == 1]
        assert only
        for line in only[:: max(1, len(only) // 25)]:
            for instead in ([], [line.rstrip() + " \n"], ["x" + line], [line, line]):
                at = lines.index(line)
                text = "".join([*lines[:at], *instead, *lines[at + 1 :]])
                inside = instead == [line, line] and _at_an_edge(line, runs)
                assert inside or task.harm({**solved, file: text.encode()}), (file, line, instead)
        assert task.harm({**solved, file: solved[file].replace(b"\n", b"\r\n")})
        assert task.harm({path: data for path, data in solved.items() if path != file})


@each_task
def test_a_mistake_is_seen_by_the_judge(task: Task, tmp_path: Path) -> None:
    if not (task.folder / "wrong.patch").exists():
        pytest.skip("no mistake was thought of")
    task.write(tmp_path, "wrong")
    assert task.judge(tmp_path).outcome == "wrong"


def test_lines_that_are_to_be_kept_are_missed() -> None:
    before = "a\nb  # why\nc\n"
    assert damage(before, "a\nb\nc\n", [May("f", line="b")], ["b  # why"]) == "lost: b  # why"
    assert damage(before, "a\n  b  # why\nB\nc\n", [May("f", line="b")], ["b  # why"]) == ""


@pytest.mark.parametrize(
    ("after", "note"),
    [
        ("a\nb\nc\nd\n", ""),
        ("a\nB\nB\nc\nd\n", ""),
        ("a\nc\nd\n", ""),
        ("A\nb\nc\nd\n", "changed near line 1"),
        ("a\nb\nc\nD\n", "changed near line 4"),
        ("a\nb\nc\n", "changed near line 4"),
        ("a\nb\nc\nd\nmore\n", "changed near line 4"),
        ("a\nb\nd\n", "changed near line 3"),
        (None, "the file is gone"),
    ],
)
def test_only_the_named_place_may_change(after: str | None, note: str) -> None:
    assert damage("a\nb\nc\nd\n", after, [May("f", line="b")]) == note


def test_above_a_line_something_may_be_added_and_nothing_else() -> None:
    place = [May("f", before="b")]
    assert damage("a\nb\n", "a\nnew\nb\n", place) == ""
    assert damage("a\nb\n", "new\nb\n", place)
    assert damage("a\nb\n", "a\nb\nnew\n", place)


def test_a_place_that_is_not_clear_is_refused() -> None:
    with pytest.raises(ValueError, match="2 lines begin with 'a'"):
        damage("a\na\n", "a\n", [May("f", line="a")])
    with pytest.raises(ValueError, match="overlap"):
        damage("a\nb\nc\n", "a\n", [May("f", start="a"), May("f", line="b")])


def _at_an_edge(line: str, runs: Sequence[tuple[int, Sequence[str]]]) -> bool:
    """A line beside a place that may change: its twin stands in that place."""
    return any(run and line in (run[0], run[-1]) for _, run in runs)
