"""A file's commits from the index: the same as git's own walk finds, without one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from repoagent.git.worktree import WorkTree, layout, open_worktree
from repoagent.history.file_history import HistoryReport, read_history
from repoagent.history.file_log import commits_of, look_up
from repoagent.history.index.index import open_index
from tests.conftest import GitRepo


def mined(repo: GitRepo) -> WorkTree:
    worktree = open_worktree(repo.top)
    with open_index(worktree) as index:
        assert index.update("HEAD").complete
    return worktree


def both(worktree: WorkTree, path: str, **options: int) -> tuple[HistoryReport, HistoryReport]:
    return read_history(worktree, path, seconds=20, **options), read_history(
        worktree.top, path, seconds=20, **options
    )


def test_without_an_index_nobody_makes_one(repo: GitRepo) -> None:
    worktree = open_worktree(repo.top)
    assert commits_of(worktree, "a.txt", "HEAD") is None
    assert not layout(worktree).history.exists()


def test_the_same_as_the_walk(repo: GitRepo) -> None:
    odd = os.fsdecode(b"\x01t\tb\n\xe9.py")
    text = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(9))
    repo.write("old.py", text)
    repo.commit("add", **{"z.txt": "z\n"})
    repo.write("old.py", text.replace("return 3", "return 30"))
    repo.commit("change", **{"z.txt": "zz\n"})
    repo.git("mv", "old.py", odd)
    repo.write(odd, text.replace("return 3", "return 31"))
    repo.commit("move and change")
    repo.write(odd, text)
    repo.commit("back", **{"z.txt": "zzz\n"})
    worktree = mined(repo)
    found, walked = both(worktree, odd)
    assert commits_of(worktree, odd, "HEAD") == [step.commit.commit for step in walked.steps]
    assert found.people == walked.people
    assert [step.touched for step in found.steps] == [step.touched for step in walked.steps]
    assert [(s.was, s.files) for s in found.steps] == [(s.was, s.files) for s in walked.steps]
    for one, other in zip(found.steps, walked.steps, strict=True):
        assert one.commit.after.startswith(other.commit.after) and one.commit.before.startswith(
            other.commit.before
        )
        same = (
            "commit",
            "subject",
            "author",
            "date",
            "path",
            "status",
            "added",
            "removed",
            "old_mode",
            "new_mode",
        )
        assert [getattr(one.commit, name) for name in same] == [getattr(other.commit, name) for name in same]
    few, _ = both(worktree, odd, limit=2)
    assert len(few.steps) == 2 and few.people.commits == 4 and few.partial


def test_new_commits_and_other_revisions(repo: GitRepo) -> None:
    worktree = mined(repo)
    repo.commit("new", **{"a.txt": "new\n"})
    assert [s.commit.subject for s in read_history(worktree, "a.txt").steps] == ["new", "first commit"]
    assert [s.commit.subject for s in read_history(worktree, "a.txt", revision="HEAD^").steps] == [
        "first commit"
    ]


def test_a_copy_ends_where_the_file_begins(repo: GitRepo) -> None:
    lines = "".join(f"line {n}\n" for n in range(50))
    repo.commit("origin", **{"o.txt": lines})
    repo.commit("copy", **{"o.txt": lines + "more\n", "c.txt": lines + "other\n"})
    repo.commit("later", **{"c.txt": lines})
    found = read_history(mined(repo), "c.txt")
    assert [s.commit.subject for s in found.steps][:2] == ["later", "copy"]
    assert found.steps[-1].commit.status in ("A", "R")


def test_deleted_files_and_directories(repo: GitRepo) -> None:
    repo.git("rm", "-q", "a.txt")
    repo.commit("gone")
    worktree = mined(repo)
    for path in ("a.txt", "src"):
        found, walked = both(worktree, path)
        assert [s.commit for s in found.steps] == [s.commit for s in walked.steps]


@pytest.mark.parametrize("damage", [b"", b"not a database", b"SQLite format 3\0" + b"x" * 5000])
def test_a_damaged_index_is_no_trouble(
    repo: GitRepo, damage: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    worktree = mined(repo)
    layout(worktree).history.write_bytes(damage)
    assert [s.commit.subject for s in read_history(worktree, "a.txt").steps] == ["first commit"]
    assert capsys.readouterr().err == ""


def test_a_partial_clone_fetches_nothing(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    for number in range(2):
        repo.commit(f"c{number}", **{"a.txt": f"{number}\n", "sub/b.txt": f"{number}\n"})
    clone = tmp_path / "partial"
    subprocess.run(["git", "clone", "-q", "--filter=blob:none", repo.top.as_uri(), clone], check=True)
    GitRepo(clone).git("config", "protocol.file.allow", "always")  # goes before protocol.allow
    worktree = mined(GitRepo(clone))
    command = ["git", "count-objects", "-v"]
    before = subprocess.run(command, cwd=clone, capture_output=True, check=True).stdout
    assert [s.commit.subject for s in read_history(worktree, "a.txt").steps] == ["c1", "c0", "first commit"]
    assert [s.commit.subject for s in read_history(worktree, "sub").steps] == ["c1", "c0"]
    assert [s.commit.subject for s in read_history(worktree.top, "a.txt").steps] == [
        "c1",
        "c0",
        "first commit",
    ]
    assert subprocess.run(command, cwd=clone, capture_output=True, check=True).stdout == before


def test_a_rename_is_one_even_where_nothing_older_is_shown(repo: GitRepo) -> None:
    repo.git("mv", "a.txt", "b.txt")
    repo.write("b.txt", repo.read("b.txt") + b"more\n")
    repo.commit("move")
    for found in both(mined(repo), "b.txt", limit=1):
        (step,) = found.steps
        assert (step.was, step.commit.status, step.commit.added, step.commit.removed) == ("a.txt", "R", 1, 0)
        assert found.people.commits == 2


def test_a_file_is_not_compared_with_all_others_where_the_user_follows(repo: GitRepo) -> None:
    repo.commit("the same again", **{"b.txt": repo.read("a.txt").decode()})
    repo.git("config", "log.follow", "true")
    for found in both(mined(repo), "b.txt"):
        assert [(step.commit.status, step.commit.added) for step in found.steps] == [("A", 10)]


def test_the_boundary_of_a_shallow_clone_adds_nothing(repo: GitRepo, tmp_path: Path) -> None:
    repo.commit("second", **{"a.txt": "2\n"})
    repo.commit("third", **{"a.txt": "3\n"})
    clone = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth=2", repo.top.as_uri(), clone], check=True)
    for found in both(mined(GitRepo(clone)), "a.txt"):
        third, second = (step.commit for step in found.steps)
        assert (third.status, third.added, second.status, second.added) == ("M", 1, "M", None)
        assert found.partial and "this clone is shallow" in found.notes[0]


def test_an_id_that_is_gone_is_an_error_of_git_alone(repo: GitRepo) -> None:
    worktree = mined(repo)
    ids = commits_of(worktree, "a.txt", "HEAD")
    assert ids is not None and look_up(worktree.top, "other.txt", ids, 5) is None
    shutil.rmtree(layout(worktree).root)
    assert [s.commit.subject for s in read_history(worktree, "a.txt").steps] == ["first commit"]
