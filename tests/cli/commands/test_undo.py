"""`repoagent undo` and `redo` as a user runs them: the list, an edit by its number, conflicts."""

from __future__ import annotations

from difflib import unified_diff

import pytest

from tests.cli.apply_patch import Ask, Here
from tests.conftest import GitRepo


def change(here: Here, repo: GitRepo, number: int, subject: str, *options: str) -> None:
    """Apply a change of one line, as a commit with this subject."""
    old = repo.read("a.txt").decode().splitlines(keepends=True)
    new = [*old[: number - 1], f"{old[number - 1].rstrip()}!\n", *old[number:]]
    here("".join(unified_diff(old, new, "a/a.txt", "b/a.txt")), "--yes", "-m", subject, *options, code=0)


@pytest.fixture
def edited(repo: GitRepo, here: Here) -> GitRepo:
    repo.commit("begin", **{"a.txt": "".join(f"line {number}\n" for number in range(1, 30))})
    for number, subject in ((3, "Shout line 3"), (10, "Shout line 10"), (20, "Shout line 20")):
        change(here, repo, number, subject)
    return repo


def listed(ask: Ask) -> list[str]:
    return [edit["subject"] for edit in ask("--list", "--json").json["edits"]]


def test_the_list_has_the_numbers_that_undo_takes(edited: GitRepo, ask: Ask, in_process: Ask) -> None:
    head, before = edited.head(), edited.git("rev-parse", "HEAD^").strip()
    for words, code, message in (
        ("4", 2, "no edit 4: `repoagent undo --list` lists 3 edits"),
        ("0", 2, "no edit 0: `repoagent undo --list` lists 3 edits"),
        ("--list 1", 2, "--list cannot be combined with EDIT"),
        ("20260101-000000-abcdef", 3, "no edit 20260101-000000-abcdef in this work tree"),
    ):
        assert message in ask(*words.split(), code=code).error
    lines = ask("--list").out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["", "1", "2", "3"]
    assert lines[1].endswith(f"{head[:7]}  Shout line 20  a.txt")
    assert edited.head() == head  # none of these changed anything
    # the tip of the branch moves back and forward
    assert ask("1").out == f'undid "Shout line 20" ({head[:7]}); HEAD is now at {before[:7]}\n'
    assert in_process("redo").out == f'redid "Shout line 20" ({head[:7]}); HEAD is now at {head[:7]}\n'
    done = ask("2", code=0)
    assert done.out.startswith('undid "Shout line 10" (') and done.out.endswith(" (a new commit)\n")
    text = edited.read("a.txt").decode()
    assert ("line 3!" in text, "line 10!" in text, "line 20!" in text) == (True, False, True)
    assert listed(ask) == ["Shout line 20", "Shout line 3"]
    assert ask().code == 0  # the last one does not affect the others
    assert "line 3!" in edited.read("a.txt").decode() and listed(ask) == ["Shout line 3"]


def test_undo_refuses_an_edit_that_was_changed_later(edited: GitRepo, here: Here, ask: Ask) -> None:
    change(here, edited, 10, "Shout line 10 again")
    head, text = edited.head(), edited.read("a.txt")
    assert "a.txt has later changes on the same lines" in ask("3", code=3).error
    assert (edited.head(), edited.read("a.txt"), edited.status()) == (head, text, "")


def test_listed_edits_can_be_undone(edited: GitRepo, here: Here, ask: Ask) -> None:
    edited.git("checkout", "-qb", "other", "HEAD~1")
    change(here, edited, 28, "Not committed", "--no-commit")
    edits = ask("--list", "--json").json["edits"]
    subjects = [(edit["number"], edit["subject"] if edit["commit"] else None) for edit in edits]
    assert subjects == [(1, None), (2, "Shout line 10"), (3, "Shout line 3")] and edits[0]["subject"] == ""
    assert "  not committed  a.txt\n" in ask("-l").out
    assert ask("1").out == "undid the uncommitted edit to a.txt\n"
    assert "line 28!" not in edited.read("a.txt").decode()
    edited.git("commit", "-q", "--amend", "-m", "Other words\n\nRepoagent-Edit: " + edits[1]["edit"])
    assert listed(ask) == ["Other words", "Shout line 3"]


def test_no_edits(ask: Ask) -> None:
    assert ask("--list", code=1).err == "repoagent: nothing to undo\n"
    assert ask("-l", "--json").json == {"version": 1, "edits": []}
