"""A run and a user change the same file in any order. The run's part is committed or undone; the user's part stays in
the file unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent.errors import NothingDone
from repoagent.git.files import Content, FileChange
from repoagent.git.transaction.results import InPlace, Inseparable
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.worktree import open_worktree
from repoagent.tasks.changes.change_set import ChangeSet, open_change_set
from repoagent.tasks.restore import revert_changes, write_changes
from tests.conftest import GitRepo

OLD = [f"line {n}" for n in range(12)]
WHO = st.sampled_from(["run", "mine"])
DO = st.sampled_from(["change", "insert", "delete", "as it was"])
Check = Callable[[GitRepo, list[tuple[str, str, int]]], None]
STEPS = st.lists(st.tuples(WHO, DO, st.integers(0, 11)), min_size=1, max_size=7)
RANDOM = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _bytes(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _done(lines: list[str], who: str, what: str, at: int, number: int) -> list[str]:
    at = min(at, len(lines) - 1)
    if what == "change":
        return [*lines[:at], f"{who} {number}", *lines[at + 1 :]]
    if what == "insert":
        return [*lines[:at], f"{who} {number}", *lines[at:]]
    if what == "delete" and len(lines) > 2:
        return [*lines[:at], *lines[at + 1 :]]
    return [*lines[:at], OLD[at], *lines[at + 1 :]]


def _interleaved(repo: GitRepo, done: list[tuple[str, str, int]]) -> tuple[ChangeSet, list[str]]:
    """Make all changes to a file; return the change set and the content."""
    repo.git("reset", "-q", "--hard")
    repo.commit(f=_bytes(OLD))
    change_set = open_change_set(open_worktree(repo.top), Path(mkdtemp(dir=repo.top / ".git")))
    lines = list(OLD)
    for number, (who, what, at) in enumerate(done):
        before, lines = lines, _done(lines, who, what, at, number)
        if who == "run" and lines != before:
            change = FileChange.at("f", Content(_bytes(before)), Content(_bytes(lines)))
            change_set.will_write([change])
            repo.write("f", _bytes(lines))
            change_set.wrote([change])
        repo.write("f", _bytes(lines))
    return open_change_set(change_set.worktree, change_set.folder), lines


def _commits_what_the_run_did(repo: GitRepo, done: list[tuple[str, str, int]]) -> None:
    change_set, lines = _interleaved(repo, done)
    if change_set.overlapping or not change_set.present():
        return
    changes = change_set.present()
    in_place = InPlace(change_set.others_content(changes))
    try:
        with Transaction(change_set.worktree, changes, edit_id=f"e-{repo.head()}", in_place=in_place) as edit:
            edit.write()
            edit.commit("what the run has done\n")
    except (NothingDone, Inseparable):  # the user's last changes on top of the run's can always be separated
        who = [one for one, _, _ in done]
        assert repo.read("f") == _bytes(lines) and "run" in who[who.index("mine") :]
        return
    assert repo.read("f") == _bytes(lines)
    committed = repo.git("show", "HEAD:f").splitlines()
    assert not [line for line in committed if line.startswith("mine")]
    assert {line for line in lines if line.startswith("run")} <= set(committed)
    assert repo.git("diff", "--cached", "--name-only") == ""


def _takes_back_what_the_run_did(repo: GitRepo, done: list[tuple[str, str, int]]) -> None:
    change_set, lines = _interleaved(repo, done)

    def write_now(changes: object) -> None:
        if changes:
            write_changes(change_set.worktree, changes, f"back{len(done)}-{abs(hash(tuple(done)))}")

    left = revert_changes(change_set, ["f"], write_now)
    now = repo.read("f").decode().splitlines()
    assert {line for line in lines if line.startswith("mine")} <= set(now)
    if left:
        assert now == lines
    elif not any(who == "mine" for who, _, _ in done):
        assert now == OLD


checks = pytest.mark.parametrize("check", [_commits_what_the_run_did, _takes_back_what_the_run_did])


@checks
@given(STEPS)
@settings(RANDOM, max_examples=8)
def test_in_turns(repo: GitRepo, check: Check, done: list[tuple[str, str, int]]) -> None:
    check(repo, done)


@pytest.mark.soak
@checks
@given(STEPS)
@settings(RANDOM, max_examples=150)
def test_in_many_turns(repo: GitRepo, check: Check, done: list[tuple[str, str, int]]) -> None:
    check(repo, done)
