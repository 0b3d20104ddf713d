"""The tools `search_files`, `files` and `recall`: what they show to a model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from repoagent.agent.actions import Action, Observation
from repoagent.edit.draft import Draft, EditSession
from repoagent.edit.guards.off_limits import off_limits_gate
from repoagent.edit.request import EditRequest
from repoagent.edit.tools import look_up, search_files
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


def seen(repo: GitRepo, tool: str, **args: str) -> Observation:
    session = EditSession(
        open_worktree(repo.top), EditRequest("x", ()), Draft({}), set(), off_limits_gate(repo.top, ())
    )
    return look_up(session, tool).perform(Action(tool, args))


@pytest.fixture
def files(repo: GitRepo) -> GitRepo:
    repo.write(".repoagentignore", "private/\n")
    repo.write("src/dos.txt", "class Dos(A):\r\n    name = 1\r\n")
    repo.commit("files", **{"src/range.py": TEXT, "private/plan.txt": "hidden Plan\nPLAN hidden\n"})
    return repo


def test_a_pattern_in_the_syntax_of_perl_finds_its_lines(files: GitRepo) -> None:
    for pattern, lines in {
        r"(?i)if_?-?range": [1, 2], r"(?i)BÄR": [4], r"\d+ B\wr": [4], r"\b(?:if|else)_range\b": [1],
        r"^\s+def\s(?=if)": [1], r"(?<!_)(?:r|R)ange": [2], r"<b>.*?</b>$": [3], r"B.r": [4],
        r"(?P<letter>a)(?P=letter)a": [6], r"^end$": [9], r"^$": [7, 8],
        r"lazy|end": [3, 9], r"a{4}": [6], r"if.range": [1], r"data\[": [4],
    }.items():  # fmt: skip
        matches = search_files(files.top, pattern, off_limits_gate(files.top, ()), "src/range.py")
        assert [int(row.split(":")[1]) for row in matches.rows] == lines, pattern
        assert not matches.remark
    assert "src/dos.txt:1:class Dos(A):" in seen(files, "search", pattern=r"\):$").text  # ends in CRLF


def test_no_match_invalid_and_slow_patterns(files: GitRepo) -> None:
    for pattern in ("IF.RANGE", "plan", "nowhere", r"lazy.*\nx"):  # `plan` is only in a withheld file
        assert seen(files, "search", pattern=pattern).text.startswith("No line matches. Each line is")
    for pattern in ("(unclosed", "*a", "x(?<n"):
        refused = seen(files, "search", pattern=pattern)
        assert not refused.ok and re.search("missing closing|quantifier|terminator", refused.text)
        assert "PCRE" not in refused.text and "UCP" not in refused.text
    for pattern, why in (("f(", "missing closing"), ('data["k"]', "as plain text")):
        plain = seen(files, "search", pattern=pattern)
        assert plain.ok and why in plain.text and 'src/range.py:4:x = data["k"] + f(1)' in plain.text
    files.write("long.txt", "a" * 40_000 + "!\n")
    slow = seen(files, "search", pattern=r"(a|aa)+[bc]")
    assert not slow.ok and "took too long" in slow.text


def test_omitted_matches_of_a_file_are_mentioned(repo: GitRepo) -> None:
    repo.write("many.txt", "needle\n" * 44)
    repo.write("one.txt", "needle\n")
    text = seen(repo, "search", pattern="needle").text
    assert text.count("many.txt:") == 20 and "one.txt:1:" in text
    assert "More matches were omitted (in many.txt)" in text
    assert seen(repo, "search", pattern="needle", path="many.txt").text.count("many.txt:") == 44


def test_outputs_are_searched_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "run-1.txt").write_bytes(b"one\nERROR: 17\0 failed\nf(x)\n")
    found = [
        search_files(tmp_path, pattern, lambda path: "", "run-1.txt", output=True).rows
        for pattern in (r"error: \d+", "f(x)")
    ]
    assert found == [("2:ERROR: 17\0 failed",), ("3:f(x)",)]


def paths(text: str) -> list[str]:
    return [row.split("  ")[0] for row in text.splitlines() if re.search(r"  \d", row)]


@pytest.fixture
def tree(repo: GitRepo) -> GitRepo:
    tracked = ("lib/a.py", "lib/deep/test_a.py", "lib/deep/b.ts", "top.py", "gone.py", "private/plan.py")
    ignored = {".gitignore": "*.log\nbuild/\n", ".repoagentignore": "private/\n"}
    repo.commit("tree", **ignored, **dict.fromkeys(tracked, "x = 1\n"))
    for path in ("lib/new.py", "lib/x.log", "build/out.py", ".env", "odd[1]/z.py"):
        repo.write(path, "y = 22\n")
    (repo.top / "gone.py").unlink()
    return repo


def test_a_folder_is_listed_with_the_counts_of_its_folders(tree: GitRepo) -> None:
    text = seen(tree, "files").text
    assert "lib/  4 files" in text and "odd[1]/  1 file\n" in text
    assert re.search(r"^top\.py  6 B  \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert not {"gone.py", ".env", "build/", "private/"} & set(paths(text))
    assert "2 files withheld." in text  # .env and private/plan.py
    lib = seen(tree, "files", path="./lib/").text
    assert paths(lib) == ["lib/deep/", "lib/a.py", "lib/new.py"]
    assert re.search(r"lib/new\.py  7 B  \S+  untracked", lib)
    assert paths(seen(tree, "files", path="top.py").text) == ["top.py"]


def test_a_pattern_is_a_glob_at_any_depth(tree: GitRepo) -> None:
    for path, pattern, names in (
        ("", "test_*.py", ["lib/deep/test_a.py"]),
        ("", "**/test_*.py", ["lib/deep/test_a.py"]),
        ("lib", "*.py", ["lib/a.py", "lib/deep/test_a.py", "lib/new.py"]),
        ("", "lib/*.py", ["lib/a.py", "lib/new.py"]),
        ("odd[1]", "*.py", ["odd[1]/z.py"]),  # the path is no glob
        ("", "private/*", []),
        ("", "*.log", []),
    ):
        text = seen(tree, "files", path=path, pattern=pattern).text
        assert paths(text) == names
        assert ("No file matches." in text) == (not names)
    assert "a pattern has no {a,b}" in seen(tree, "files", pattern="*.{py,ts}").text
    tree.write("{{cookiecutter.name}}/setup.py", "")
    assert paths(seen(tree, "files", pattern="{{cookiecutter.name}}/*.py").text) == [
        "{{cookiecutter.name}}/setup.py"
    ]


def test_omitted_files_are_counted(repo: GitRepo) -> None:
    for number in range(150):
        repo.write(f"{'one' if number < 90 else 'two'}/f{number:03}.py", "")
    text = seen(repo, "files", pattern="f*.py").text
    assert len(paths(text)) == 100
    assert "50 files omitted: name a folder or a narrower pattern." in text
    assert "omitted" not in seen(repo, "files", path="two", pattern="*.py").text


def test_a_path_outside_the_repository_is_refused(tree: GitRepo) -> None:
    (tree.top / "away").symlink_to("/etc")
    for path in ("../", "/etc", ".git", "nowhere"):
        assert not paths(seen(tree, "files", path=path).text), path
    assert "passwd" not in seen(tree, "files", path="away").text
    tree.write("a\n<b>.py", "")
    assert r"a\n<b>.py  0 B" in seen(tree, "files").text


def test_neighbors_and_history_do_not_name_withheld_files(repo: GitRepo) -> None:
    repo.write(".repoagentignore", "secret-*\n")
    repo.commit("together", **{"src/a.py": "1\n", "src/secret-plan.md": "a\n", "src/b.py": "1\n"})
    near, past = seen(repo, "neighbors", path="src/a.py"), seen(repo, "history", path="src")
    assert "src/b.py" in near.text and "in a.py, b.py" in past.text
    assert "secret-" not in near.text + past.text


def test_recall_omits_files_that_are_off_limits(repo: GitRepo) -> None:
    repo.write(".repoagentignore", "secret.py\n")
    assert not seen(repo, "recall").ok
    assert seen(repo, "recall", query="cache").text == "Nothing matches."
    for file, text in (("a.txt", "the cache is shared"), ("secret.py", "the cache holds a key")):
        folder = f".repoagent/memory/{file}-1a2b"
        repo.write(f"{folder}/identity.json", json.dumps({"version": 1, "path": file}))
        repo.write(f"{folder}/notes.md", f"- 2026-11-01: {text}\n")
    recalled = seen(repo, "recall", query="cache")
    assert recalled.ok and "a.txt: 2026-11-01: the cache is shared" in recalled.text
    assert "secret.py" not in recalled.text and "key" not in recalled.text
