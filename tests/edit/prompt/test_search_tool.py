"""The tool `search`: patterns in Perl's syntax find their lines, and "no line matches" is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.agent.actions import Action, Observation
from repoagent.edit.draft import Draft, EditSession
from repoagent.edit.file_search import search
from repoagent.edit.guards.off_limits import gate
from repoagent.edit.request import EditRequest
from repoagent.edit.tools import look_up
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo

TEXT = """\
    def if_range(self):
    "If-Range: bytes"
lazy <b>one</b><b>two</b>
x = data["k"] + f(1)  # 12 Bär
tag <word>
aaaa aa


end
"""


@pytest.fixture
def files(repo: GitRepo) -> GitRepo:
    repo.write(".repoagentignore", "private/\n")
    repo.write("src/range.py", TEXT)
    repo.write("src/dos.txt", "class Dos(A):\r\n    name = 1\r\n")
    repo.write("private/plan.txt", "hidden Plan\nPLAN hidden\n")
    repo.git("add", ".")
    return repo


def seen(repo: GitRepo, pattern: str, **args: str) -> Observation:
    bench = EditSession(open_worktree(repo.top), EditRequest("x", ()), Draft({}), set(), gate(repo.top, ()))
    return look_up(bench, "search").perform(Action("search", {"pattern": pattern, **args}))


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        (r"(?i)if_?-?range", [1, 2]),
        (r"(?i)BÄR", [4]),
        (r"\d+ B\wr", [4]),
        (r"\b(?:if|else)_range\b", [1]),
        (r"^\s+def\s(?=if)", [1]),
        (r"(?<!_)(?:r|R)ange", [2]),
        (r"<b>.*?</b>$", [3]),
        (r"B.r", [4]),
        (r"(?P<letter>a)(?P=letter)a", [6]),
        (r"\baa{,1}\b", [6]),
        (r"\Aend\Z", [9]),
        (r"^$", [7, 8]),
        # as before
        (r"lazy|end", [3, 9]),
        (r"a{4}", [6]),
        (r"if.range", [1]),
        (r"data\[", [4]),
    ],
)
def test_a_pattern_finds_its_lines(files: GitRepo, pattern: str, lines: list[int]) -> None:
    found = search(files.top, pattern, gate(files.top, ()), "src/range.py")
    assert [int(row.split(":")[1]) for row in found.rows] == lines
    assert not found.remark


def test_a_line_of_a_crlf_file_ends_before_it(files: GitRepo) -> None:
    assert "src/dos.txt:1:class Dos(A):" in seen(files, r"\):$").text


def test_no_match_and_withheld_files(files: GitRepo) -> None:
    for pattern in ("IF.RANGE", "plan", "nowhere", r"lazy.*\nx"):
        assert seen(files, pattern).text.startswith("No line matches. Each line is searched separately; (?i)")


@pytest.mark.parametrize("pattern", ["(unclosed", "*a", "x(?<n"])
def test_an_invalid_pattern_is_refused_with_the_reason(files: GitRepo, pattern: str) -> None:
    found = seen(files, pattern)
    assert not found.ok
    assert any(why in found.text for why in ("missing closing parenthesis", "quantifier", "terminator"))
    assert "PCRE" not in found.text and "UCP" not in found.text


@pytest.mark.parametrize(("pattern", "why"), [("f(", "missing closing"), ('data["k"]', "as plain text")])
def test_an_invalid_expression_is_searched_as_plain_text(files: GitRepo, pattern: str, why: str) -> None:
    found = seen(files, pattern)
    assert found.ok and why in found.text
    assert 'src/range.py:4:x = data["k"] + f(1)' in found.text


def test_a_pattern_that_takes_too_long_is_an_error(files: GitRepo) -> None:
    files.write("long.txt", "a" * 40_000 + "!\n")
    found = seen(files, r"(a|aa)+[bc]")
    assert not found.ok and "takes too long" in found.text


def test_omitted_matches_of_a_file_are_mentioned(repo: GitRepo) -> None:
    repo.write("many.txt", "needle\n" * 44)
    repo.write("one.txt", "needle\n")
    text = seen(repo, "needle").text
    assert text.count("many.txt:") == 20 and "one.txt:1:" in text
    assert "More matches were omitted (in many.txt)" in text
    assert seen(repo, "needle", path="many.txt").text.count("many.txt:") == 44


def test_outputs_are_searched_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "run-1.txt").write_bytes(b"one\nERROR: 17\0 failed\nf(x)\n")
    assert search(tmp_path, r"error: \d+", lambda path: "", "run-1.txt", output=True).rows[0].startswith("2:")
    assert search(tmp_path, "f(x)", lambda path: "", "run-1.txt", output=True).rows == ("3:f(x)",)
