"""What each commit did to a file."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.history.commit_details import Step, Touched, compare, did, lines_of, parts, steps
from repoagent.history.file_log import file_log, read_log
from repoagent.history.log import FileCommit
from tests.conftest import GitRepo

APP = "import os\n\n\nclass App:\n    def run(self):\n        return 1\n\n    def stop(self):\n        return 2\n\n\ndef main():\n    App().run()\n"


def done(top: Path, path: str, **options: float) -> list[Step]:
    return steps(top, file_log(top, path, 50, seconds=20)[0].commits, seconds=options.get("seconds", 20))


def said(top: Path, path: str) -> list[str]:
    return [did(step) for step in done(top, path)]


def touched(before: str, after: str, path: str = "a.py") -> Touched:
    old, new = parts(path, before.encode()), parts(path, after.encode())
    assert old is not None and new is not None
    return compare(old, new)


def test_definitions_added_removed_changed_and_renamed() -> None:
    assert touched(APP, APP.replace("return 1", "return 10")).changed == ("App.run",)
    assert touched(APP, APP + "\n\ndef other():\n    pass\n").added == ("other",)
    assert touched(APP, APP.partition("def main")[0]).removed == ("main",)
    assert touched(APP, APP.replace("stop", "halt")).renamed == (("App.stop", "App.halt"),)
    assert touched(APP, APP.replace("App", "Application")).renamed == (("App", "Application"),)
    assert touched(APP, APP.replace("import os", "import sys")) == Touched(outside=True)
    assert touched(APP, APP) == Touched(outside=True)
    assert touched("", APP).added == ("App", "main")  # its members come with it


def test_a_function_takes_its_local_ones_along_and_twins_are_told_apart() -> None:
    local = "def f():\n    def g():\n        return 1\n    return g\n"
    assert touched(local, local.replace("1", "2")).changed == ("f",)
    twins = "if x:\n    def f():\n        return 1\nelse:\n    def f():\n        return 2\n"
    assert touched(twins, twins.replace("2", "3")).changed == ("f",)


@settings(max_examples=40)
@given(st.text(max_size=200), st.text(max_size=200))
def test_any_two_texts_are_compared(before: str, after: str) -> None:
    old, new = (parts("a.py", text.encode("utf-8", "replace")) for text in (before, after))
    if old is not None and new is not None:  # None is for binary ones
        found = compare(old, new)
        assert {*found.added, *found.changed} <= {part.qualified_name for part in new}


def test_what_git_and_the_outline_say(repo: GitRepo) -> None:
    repo.commit("add", **{"app.py": APP})
    repo.commit("change", **{"app.py": APP.replace("return 1", "return 10")})
    repo.commit("space", **{"app.py": APP.replace("return 1", "return 10").replace("\n\n\n", "\n\n\n\n")})
    repo.commit("imports", **{"app.py": APP.replace("os", "sys")})
    repo.git("mv", "app.py", "src/core.py")
    repo.commit("move")
    path = repo.top / "src/core.py"
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    repo.commit("mode")
    found = done(repo.top, "src/core.py")
    assert [did(step) for step in found] == [
        "made executable",
        "moved from app.py",
        "changes App.run",
        "white space only",
        "changes App.run",
        "added; with App, main",
    ]
    assert [lines_of(step.commit) for step in found][-1] == "+13 −0"
    assert [step.files for step in found] == [1, 1, 1, 1, 1, 1]


def test_a_rename_with_a_change_compares_with_the_old_file(repo: GitRepo) -> None:
    repo.commit("add", **{"app.py": APP * 2})
    repo.git("mv", "app.py", "core.py")
    repo.write("core.py", APP * 2 + "\n\ndef more():\n    pass\n")
    repo.commit("move and grow")
    assert said(repo.top, "core.py")[0] == "moved from app.py; adds more"


def test_deleted_links_and_files_without_a_grammar(repo: GitRepo) -> None:
    repo.commit("link", **{"l.txt": "x\n"})
    (repo.top / "l.txt").unlink()
    (repo.top / "l.txt").symlink_to("a.txt")
    repo.commit("made a link")
    repo.git("rm", "-q", "l.txt")
    repo.commit("gone")
    assert said(repo.top, "l.txt") == ["deleted", "made a symbolic link", "added"]
    assert said(repo.top, "a.txt") == ["added"]


def test_a_directory_names_its_files(repo: GitRepo) -> None:
    repo.commit("two", **{"src/app.py": "def greet():\n    pass\n", "src/b.py": "x = 1\n"})
    repo.commit("one", **{"src/app.py": "def greet():\n    return 1\n"})
    assert said(repo.top, "src")[:2] == ["in app.py; changes greet", "in app.py, b.py"]


def test_a_long_list_is_cut() -> None:
    names = tuple(f"f{n}" for n in range(9))
    step = Step(FileCommit("a" * 40, "a", "A", "2026-01-01", "s", 1, 1, "a.py", "M"), Touched(changed=names))
    assert did(step) == "changes f0, f1, f2, f3 and 5 more"
    assert did(step, names=8) == "changes f0, f1, f2, f3, f4, f5, f6, f7, f8"


def test_large_files_and_lack_of_time_cost_symbols_only(repo: GitRepo) -> None:
    repo.commit("add", **{"big.py": "def f():\n    return 1\n" + "# x\n" * 70_000})
    repo.commit("change", **{"big.py": "def f():\n    return 2\n" + "# x\n" * 70_000})
    repo.commit("small", **{"small.py": "def f():\n    return 2\n"})
    assert [step.touched for step in done(repo.top, "big.py")] == [None, None]
    assert done(repo.top, "small.py", seconds=0)[0].touched is None
    assert done(repo.top, "small.py")[0].touched == Touched(added=("f",))


def objects(clone: Path) -> str:
    command = ["git", "count-objects", "-v"]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, check=True).stdout


def test_a_partial_clone_fetches_nothing(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    for number in range(3):
        repo.commit(f"change {number}", **{"app.py": APP.replace("return 1", f"return {number}")})
    clone = tmp_path / "partial"
    subprocess.run(["git", "clone", "-q", "--filter=blob:none", repo.top.as_uri(), clone], check=True)
    before = objects(clone)
    found = done(clone, "app.py")
    assert objects(clone) == before
    assert [(step.commit.subject, step.touched, step.files) for step in found] == [
        ("change 2", None, 1),
        ("change 1", None, 1),
        ("change 0", None, 1),
    ]
    subprocess.run(["git", "cat-file", "-p", "HEAD~1:app.py"], cwd=clone, check=True, capture_output=True)
    assert objects(clone) != before  # git fetches where it may: what is here now tells of one commit
    before = objects(clone)
    assert [step.touched for step in done(clone, "app.py")] == [Touched(changed=("App.run",)), None, None]
    assert objects(clone) == before


def test_a_clone_without_trees_says_what_it_can(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "bare"
    command = ["git", "clone", "-q", "--bare", "--filter=tree:0", repo.top.as_uri(), clone]
    subprocess.run(command, check=True)
    before = objects(clone)
    monkeypatch.setenv("GIT_DIR", str(clone))
    assert done(clone, "a.txt") == []
    commit = FileCommit(repo.head(), "a", "A", "2026-01-01", "s", None, None, "a.txt")
    assert steps(clone, [commit]) == [Step(commit)]
    assert objects(clone) == before


def test_odd_names(repo: GitRepo) -> None:
    for path in ("-x.py", ":top.py", "a\nb.py", os.fsdecode(b"caf\xe9.py"), "[a]*.py"):
        repo.write(path, "def f():\n    pass\n")
        repo.commit("add")
        repo.write(path, "def f():\n    return 1\n")
        repo.commit("change")
        assert said(repo.top, path) == ["changes f", "added; with f"]


def test_only_merges_have_changed_it(repo: GitRepo) -> None:
    """A file that no commit has but merges: its history is what these did, seen from their first parents."""
    for number in range(2):
        repo.git("checkout", "-q", "-b", f"side{number}", "main")
        repo.commit("side", **{f"s{number}.txt": f"{number}\n"})
        repo.git("checkout", "-q", "main")
        repo.git("merge", "-q", "--no-ff", "--no-commit", f"side{number}")
        repo.write("evil.py", f"def f():\n    return {number}\n")
        repo.commit(f"merge {number}")
    found = done(repo.top, "evil.py")
    assert [(step.commit.subject, did(step)) for step in found] == [
        ("merge 1", "changes f"),
        ("merge 0", "added; with f"),
    ]


def test_many_commits_take_few_processes(
    make_repo: Callable[[str], GitRepo], monkeypatch, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    repo = make_repo("many")
    for number in range(12):
        repo.commit(f"c{number}", **{"app.py": f"def f():\n    return {number}\n"})
    commits = read_log(repo.top, "app.py", 50, seconds=20).commits
    folder = tmp_path / "bin"
    folder.mkdir()
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    (folder / "git").write_text(f'#!/bin/sh\necho x >> "{tmp_path}/calls"\nexec "{real}" "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    began = time.monotonic()
    assert all(step.touched for step in steps(repo.top, commits, seconds=20))
    assert time.monotonic() - began < 20
    assert (tmp_path / "calls").read_text().count("x") == 3
