"""A repository as the first format left it: nothing that the user wrote may become unreadable.

`first.tar.gz` was made by an early version: two edits, one of them undone, notes, conversations, a run that is done and
one that was killed with an uncommitted change, a split with an edited segment, an edit killed while it asked the model,
and one killed in the pre-commit hook, whose journal is pending.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests import program
from tests.conftest import GitRepo

DATA = Path(__file__).with_name("first.tar.gz")
FINISH = "cat >/dev/null; printf '<finish>c returns six.</finish>\\n'"


@pytest.fixture
def first(tmp_path: Path) -> GitRepo:
    with tarfile.open(DATA) as archive:
        archive.extractall(tmp_path, filter="data")
    return GitRepo(tmp_path / "repo")


def run(repo: GitRepo, *arguments: str) -> tuple[int, str, str]:
    done = program.run(arguments, repo.top)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_the_journal_is_settled_and_notes_edits_and_conversations_are_read(first: GitRepo) -> None:
    assert first.read("a.py") == b"def a():\n    return 7\n"
    # any command that settles what was killed before it starts
    assert run(first, "split", "--join", ".repoagent/splits/big.py", "--dry-run")[0] == 0
    assert first.read("a.py") == b"def a():\n    return 3\n"
    assert not list((first.top / ".git/repoagent/journal").iterdir())
    _, shown, _ = run(first, "memory", "show", "a.py")
    assert "the callers of `a` rely on an int" in shown and "return three" in shown
    _, names, _ = run(first, "conversation", "list")
    assert all(name in names for name in ("money", "other", "edit-20261123-185052-484963"))
    assert "Return 3 from a." in run(first, "conversation", "show", "money")[1]
    assert "the callers of `a` rely" in run(first, "recall", "int")[1]


def test_undo_and_redo_know_the_edits(first: GitRepo) -> None:
    _, listed, _ = run(first, "undo", "--list")
    assert "Return three" in listed and "C returns five" in listed
    assert run(first, "redo")[0] == 0 and first.read("b.py") == b"def b():\n    return 4\n"


def test_a_killed_run_is_resumed_and_its_change_committed(first: GitRepo) -> None:
    assert "return six from c" in run(first, "runs")[1]
    code, _, err = run(first, "run", "--resume", "last", "--model", f"command:{FINISH}", "--mode", "auto")
    assert code == 0, err
    assert first.git("show", "--format=", "--name-only").strip() == "c.py"
    assert first.read("c.py") == b"def c():\n    return 6\n"


def test_an_edited_segment_is_joined(first: GitRepo) -> None:
    code, _, err = run(first, "split", "--join", ".repoagent/splits/big.py")
    assert code == 0, err
    assert b"return 1399\n" in first.read("big.py")
