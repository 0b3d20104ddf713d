"""The index of lines: keys of all lines at once equal those of single lines."""

from __future__ import annotations

import pytest

from repoagent.patch.locate.exact import EXACT, LEVELS, FileIndex

ODD = [chr(code) for code in (*range(0x3100), *range(0xD800, 0xE000, 64), *range(0xF900, 0x10000), 0x1F600)]
LINES = tuple(f"{odd} a {odd}e\u0301\u2026{odd}\t" for odd in ODD if odd != "\n")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("lines", [LINES, LINES[:127], (), ("",), ("", " ", "\x0c", "")])
def test_keys_of_all_lines_equal_those_of_single_lines(lines: tuple[str, ...], level: str) -> None:
    assert FileIndex(lines).keys(level) == [LEVELS[level](line) for line in lines]


def test_rows_are_all_rows_in_order() -> None:
    index = FileIndex(("a", "b", "a", "", "a", ""))
    assert {key: index.rows(key, EXACT) for key in ("a", "b", "", "c")} == {
        "a": [0, 2, 4],
        "b": [1],
        "": [3, 5],
        "c": [],
    }
    assert index.counts(EXACT) == {"a": 3, "b": 1, "": 2}


@pytest.mark.parametrize("level", LEVELS)
def test_runs_are_found_at_every_row(level: str) -> None:
    index = FileIndex(("}", "", "x", "}", "", "}", "", "y"))
    assert index.find(["}", ""], level) == [0, 3, 5]
    assert index.find(["}", "", "}"], level) == [3]
    assert index.find(["", "}", "x"], level) == [] == index.find([], level) == index.find(["z"], level)
