"""Parse the arguments of `edit`: lines and symbols of files, and which argument is the instruction."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.edit.request import Target, parse_target, split_arguments
from repoagent.errors import UsageError


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("src/app.py", Target("src/app.py")),
        ("src/app.py:10", Target("src/app.py", 10, 10)),
        ("src/app.py:10-40", Target("src/app.py", 10, 40)),
        ("src/app.py::Class.method", Target("src/app.py", symbol="Class.method")),
        ("lib.rs::a::b", Target("lib.rs", symbol="a::b")),
        ("C:name", Target("C:name")),
    ],
)
def test_a_target_is_a_file_lines_or_a_symbol(tmp_path: Path, text: str, target: Target) -> None:
    assert parse_target(text, tmp_path) == target


@pytest.mark.parametrize("text", ["a.py:0", "a.py:9-3", "a.py:0-4"])
def test_an_empty_range_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="line numbers start at 1"):
        parse_target(text, tmp_path)


def test_an_existing_file_of_that_name_takes_precedence(tmp_path: Path) -> None:
    (tmp_path / "odd:10").write_text("x")
    assert parse_target("odd:10", tmp_path) == Target("odd:10")


def test_the_last_argument_is_the_instruction_unless_it_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x")
    (tmp_path / "b.py").write_text("x")
    assert split_arguments(["a.py", "fix it"], instruction_elsewhere=False, cwd=tmp_path) == (
        ["a.py"],
        "fix it",
    )
    assert split_arguments(["a.py", "b.py"], instruction_elsewhere=False, cwd=tmp_path) == (
        ["a.py", "b.py"],
        None,
    )
    assert split_arguments(["a.py", "b.py:1"], instruction_elsewhere=False, cwd=tmp_path) == (
        ["a.py", "b.py:1"],
        None,
    )
    assert split_arguments(["a.py", "-"], instruction_elsewhere=False, cwd=tmp_path) == (["a.py"], "-")
    assert split_arguments(["a.py", "new.py"], instruction_elsewhere=True, cwd=tmp_path) == (
        ["a.py", "new.py"],
        None,
    )


def test_a_very_long_instruction_is_not_a_file_name(tmp_path: Path) -> None:
    long = "rewrite " * 2000
    assert split_arguments(["a.py", long], instruction_elsewhere=False, cwd=tmp_path) == (["a.py"], long)
