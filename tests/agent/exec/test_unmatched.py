"""Exit codes that are not failures."""

from __future__ import annotations

import pytest

from repoagent.agent.exec.render_output import unmatched


@pytest.mark.parametrize(
    ("command", "meaning"),
    [
        ("grep -rn foo src", "no match"),
        ("cd src && rg foo", "no match"),
        ("cat a.txt | grep foo | head -5", "no match"),
        ("git grep -n foo", "no match"),
        ("diff a b", "they differ"),
        ("git diff --quiet", "they differ"),
        ("ls src; grep -n foo a.txt", "no match"),
    ],
)
def test_no_match_is_not_a_failure(command: str, meaning: str) -> None:
    assert unmatched(command, 1, "") == meaning
    assert unmatched(command, 2, "") == ""


def test_no_match_below_xargs() -> None:
    assert unmatched("find . -name '*.py' | xargs grep foo", 123, "") == "no match"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("pytest -q && grep foo log", ""),
        ("make | grep error", ""),
        ("cat gone | grep foo", "cat: gone: No such file or directory"),
        ("cd gone && grep foo a", "bash: line 1: cd: gone: No such file or directory"),
        ("$TOOL | grep foo", ""),
        ("git diff", ""),
        ("python3 x.py", ""),
    ],
)
def test_possible_failure_is_a_failure(command: str, output: str) -> None:
    assert unmatched(command, 1, output) == ""
