"""What each commit did to a file: definitions, lines, moves."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from repoagent.errors import NothingDone
from repoagent.history import commit_details
from repoagent.history.commit_details import HistoryStep, Touched, describe_step, history_steps, lines_of
from repoagent.history.file_history import read_history
from repoagent.history.file_log import file_log
from repoagent.history.log import FileCommit
from tests.conftest import GitRepo
from tests.git.edits import shell
from tests.history.histories import partial_clone, without_a_fetch

APP = "import os\n\n\nclass App:\n    def run(self):\n        return 1\n\n    def stop(self):\n        return 2\n\n\ndef main():\n    App().run()\n"


def done(top: Path, path: str, seconds: float = 20) -> list[HistoryStep]:
    return history_steps(top, file_log(top, path, 50, seconds=20).commits, seconds=seconds)


def said(top: Path, path: str) -> list[str]:
    return [describe_step(step) for step in done(top, path)]


def test_what_git_and_the_outline_say(repo: GitRepo) -> None:
    repo.commit("add", **{"app.py": APP})
    repo.commit("change", **{"app.py": APP.replace("return 1", "return 10")})
    repo.commit("space", **{"app.py": APP.replace("return 1", "return 10").replace("\n\n\n", "\n\n\n\n")})
    repo.commit("imports", **{"app.py": APP.replace("os", "sys")})
    shell(repo, "git mv app.py src/core.py; git commit -qm move; chmod +x src/core.py; git commit -qam mode")
    found = done(repo.top, "src/core.py")
    assert [describe_step(step) for step in found] == [
        "made executable", "moved from app.py", "changes App.run", "white space only", "changes App.run",
        "added; with App, main",
    ]  # fmt: skip
    assert [lines_of(step.commit) for step in found][-1] == "+13 −0"
    assert [step.files for step in found] == [1, 1, 1, 1, 1, 1]


def test_large_files_and_lack_of_time_cost_symbols_only(repo: GitRepo) -> None:
    repo.commit("add", **{"big.py": "def f():\n    return 1\n" + "# x\n" * 70_000})
    repo.commit("change", **{"big.py": "def f():\n    return 2\n" + "# x\n" * 70_000})
    repo.commit("small", **{"small.py": "def f():\n    return 2\n"})
    assert [step.touched for step in done(repo.top, "big.py")] == [None, None]
    assert done(repo.top, "small.py", seconds=0)[0].touched is None
    assert done(repo.top, "small.py")[0].touched == Touched(added=("f",))


def test_a_partial_clone_fetches_nothing(repo: GitRepo) -> None:
    for number in range(3):
        repo.commit(f"change {number}", **{"app.py": APP.replace("return 1", f"return {number}")})
    clone = partial_clone(repo, "blob:none")
    with without_a_fetch(clone):
        found = done(clone.top, "app.py")
    expected = [(f"change {n}", None, 1) for n in (2, 1, 0)]
    assert [(s.commit.subject, s.touched, s.files) for s in found] == expected
    clone.git("cat-file", "-p", "HEAD~1:app.py")  # git fetches it: now there is a text to compare
    with without_a_fetch(clone):
        touched = [step.touched for step in done(clone.top, "app.py")]
    assert touched == [Touched(changed=("App.run",)), None, None]


def test_a_clone_without_trees_says_what_it_can(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = partial_clone(repo, "tree:0", "--bare")
    monkeypatch.setenv("GIT_DIR", str(clone.top))
    with without_a_fetch(clone):
        assert done(clone.top, "a.txt") == []
        commit = FileCommit(repo.head(), "a", "A", "2026-01-01", "s", None, None, "a.txt")
        assert history_steps(clone.top, [commit]) == [HistoryStep(commit)]


def test_odd_names(repo: GitRepo) -> None:
    for path in ("-x.py", ":top.py", "a\nb\t.py", os.fsdecode(b"caf\xe9 \xff.py"), "[a]*.py"):
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
        shell(repo, f"git checkout -q main; git merge -q --no-ff --no-commit side{number}")
        repo.commit(f"merge {number}", **{"evil.py": f"def f():\n    return {number}\n"})
    found = [(step.commit.subject, describe_step(step)) for step in done(repo.top, "evil.py")]
    assert found == [("merge 1", "changes f"), ("merge 0", "added; with f")]


def test_a_copy_ends_where_the_file_begins(repo: GitRepo) -> None:
    lines = "".join(f"line {n}\n" for n in range(50))
    repo.commit("origin", **{"o.txt": lines})
    repo.commit("copy", **{"o.txt": lines + "more\n", "c.txt": lines + "other\n"})
    repo.commit("later", **{"c.txt": lines})
    found = read_history(repo.top, "c.txt")
    assert [s.commit.subject for s in found.steps] == ["later", "copy"]
    assert found.steps[-1].commit.status == "A"


def test_a_rename_is_one_even_where_nothing_older_is_shown(repo: GitRepo) -> None:
    repo.git("mv", "a.txt", "b.txt")
    repo.write("b.txt", repo.read("b.txt") + b"more\n")
    repo.commit("move")
    found = read_history(repo.top, "b.txt", limit=1, seconds=20)
    (step,) = found.steps
    assert (step.was, step.commit.status, step.commit.added, step.commit.removed) == ("a.txt", "R", 1, 0)
    assert found.people.commits == 2


def test_a_file_is_not_compared_with_all_others_where_the_user_follows(repo: GitRepo) -> None:
    repo.commit("the same again", **{"b.txt": repo.read("a.txt").decode()})
    repo.git("config", "log.follow", "true")
    found = read_history(repo.top, "b.txt", seconds=20)
    assert [(step.commit.status, step.commit.added) for step in found.steps] == [("A", 10)]


def test_the_boundary_of_a_shallow_clone_adds_nothing(repo: GitRepo, tmp_path: Path) -> None:
    repo.commit("second", **{"a.txt": "2\n"})
    repo.commit("third", **{"a.txt": "3\n"})
    clone = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth=2", repo.top.as_uri(), clone], check=True)
    found = read_history(clone, "a.txt", seconds=20)
    third, second = (step.commit for step in found.steps)
    assert (third.status, third.added, second.status, second.added) == ("M", 1, "M", None)
    assert found.partial and "this clone is shallow" in found.notes[0]


LOCAL = "def f():\n    def g():\n        return 1\n    return g\n"
TWINS = "if x:\n    def f():\n        return 1\nelse:\n    def f():\n        return 2\n"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (APP, APP.replace("return 1", "return 10"), Touched(changed=("App.run",))),
        (APP, APP + "\n\ndef other():\n    pass\n", Touched(added=("other",))),
        (APP, APP.partition("def main")[0], Touched(removed=("main",))),
        (APP, APP.replace("stop", "halt"), Touched(renamed=(("App.stop", "App.halt"),))),
        (APP, APP.replace("import os", "import sys"), Touched(outside=True)),
        (APP, APP, Touched(outside=True)),
        ("", APP, Touched(added=("App", "main"))),  # its members come with it
        (LOCAL, LOCAL.replace("1", "2"), Touched(changed=("f",))),  # with its local function
        (TWINS, TWINS.replace("2", "3"), Touched(changed=("f",))),
        (APP, APP.replace("App", "Application"), Touched(changed=("main",), renamed=(("App", "Application"),))),
    ],
)  # fmt: skip
def test_definitions_added_removed_changed_and_renamed(before: str, after: str, expected: Touched) -> None:
    old, new = (commit_details.parts("a.py", text.encode()) for text in (before, after))
    assert old is not None and new is not None and commit_details.compare(old, new) == expected


def test_deleted_links_directories_and_files_without_a_grammar(repo: GitRepo) -> None:
    repo.commit("link", **{"l.txt": "x\n"})
    shell(repo, "ln -sf a.txt l.txt; git commit -qam 'made a link'; git rm -q l.txt; git commit -qm gone")
    assert said(repo.top, "l.txt") == ["deleted", "made a symbolic link", "added"]
    assert said(repo.top, "a.txt") == ["added"]
    repo.commit("two", **{"src/app.py": "def greet():\n    pass\n", "src/b.py": "x = 1\n"})
    repo.commit("one", **{"src/app.py": "def greet():\n    return 1\n"})
    assert said(repo.top, "src")[:2] == ["in app.py; changes greet", "in app.py, b.py"]


def test_a_file_with_an_odd_name_that_was_moved_and_changed(repo: GitRepo) -> None:
    odd = os.fsdecode(b"\x01t\tb\n\xe9.py")
    text = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(9))
    repo.commit("add", **{"z.txt": "z\n", "old.py": text})
    repo.git("mv", "old.py", odd)
    repo.write(odd, text.replace("return 3", "return 31"))
    repo.commit("move and change")
    repo.write(odd, text)
    repo.commit("back", **{"z.txt": "zzz\n"})
    found = read_history(repo.top, odd, seconds=20)
    moves = [(step.commit.subject, step.was) for step in found.steps]
    assert moves == [("back", ""), ("move and change", "old.py"), ("add", "")]
    few = read_history(repo.top, odd, limit=2, seconds=20)
    assert len(few.steps) == 2 and few.people.commits == 3 and few.partial
    older = read_history(repo.top, "old.py", revision="HEAD~2", seconds=20)
    assert [step.commit.subject for step in older.steps] == ["add"]


def test_a_file_without_commits(repo: GitRepo) -> None:
    repo.write("new.txt", "x\n")
    with pytest.raises(NothingDone, match=r"no commit touches new\.txt: the file is not tracked"):
        read_history(repo.top, "new.txt")
    repo.git("add", "new.txt")
    with pytest.raises(NothingDone, match=r"new\.txt: the file is staged but not committed yet"):
        read_history(repo.top, "new.txt")
