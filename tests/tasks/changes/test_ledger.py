"""What a run has changed, and what others have done to the same files meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.git.files import EXECUTABLE, REGULAR, Content, FileChange
from repoagent.git.worktree import open_worktree
from repoagent.tasks.changes.change_set import ChangeSet, open_change_set
from repoagent.tasks.changes.revert import put_back
from tests.conftest import GitRepo

LINES = [b"line %d\n" % n for n in range(40)]
OLD = b"".join(LINES)


def _with(data: bytes, number: int, text: bytes) -> bytes:
    return data.replace(b"line %d\n" % number, text)


def _change(path: str, before: bytes | None, after: bytes | None) -> FileChange:
    return FileChange(
        None if before is None else path,
        None if after is None else path,
        before,
        after,
        None if before is None else REGULAR,
        None if after is None else REGULAR,
    )


@pytest.fixture
def ledger(repo: GitRepo) -> ChangeSet:
    repo.commit(f=OLD)
    return open_change_set(open_worktree(repo.top), repo.top / ".repoagent" / "runs" / "r" / "changes")


def _again(ledger: ChangeSet) -> ChangeSet:
    return open_change_set(ledger.worktree, ledger.folder)


def _write(ledger: ChangeSet, path: str, before: bytes | None, after: bytes | None) -> None:
    file = ledger.worktree.top / path
    change = _change(path, before, after)
    ledger.will_write([change])
    if after is None:
        file.unlink()
    else:
        file.write_bytes(after)
    ledger.wrote([change])


def test_several_changes_of_a_file_are_one(ledger: ChangeSet) -> None:
    one = _with(OLD, 3, b"three\n")
    two = _with(one, 30, b"thirty\n")
    _write(ledger, "f", OLD, one)
    _write(ledger, "f", one, two)
    assert [(c.before, c.after) for c in _again(ledger).present()] == [(OLD, two)]


def test_what_is_changed_back_is_no_change(ledger: ChangeSet) -> None:
    one = _with(OLD, 3, b"three\n")
    _write(ledger, "f", OLD, one)
    _write(ledger, "f", one, OLD)
    _write(ledger, "g", None, b"g\n")
    _write(ledger, "g", b"g\n", None)
    assert _again(ledger).changes == ()


def test_what_somebody_saves_later_is_in_neither_side(ledger: ChangeSet) -> None:
    ours = _with(OLD, 3, b"three\n")
    _write(ledger, "f", OLD, ours)
    both = _with(ours, 30, b"theirs\n")
    (ledger.worktree.top / "f").write_bytes(both)
    assert [(c.before, c.after) for c in ledger.present()] == [(OLD, ours)]
    assert ledger.theirs(ledger.present()) == {"f": Content(both)}


def test_what_somebody_saves_in_between_is_in_both_sides(ledger: ChangeSet) -> None:
    ours = _with(OLD, 3, b"three\n")
    _write(ledger, "f", OLD, ours)
    theirs = _with(ours, 30, b"theirs\n")
    more = _with(theirs, 10, b"ten\n")
    _write(ledger, "f", theirs, more)
    assert [(c.before, c.after) for c in _again(ledger).present()] == [(_with(OLD, 30, b"theirs\n"), more)]


def test_the_same_lines_stand_on_top(ledger: ChangeSet) -> None:
    ours = _with(OLD, 3, b"three\n")
    _write(ledger, "f", OLD, ours)
    theirs = ours.replace(b"three\n", b"theirs\n")
    (ledger.worktree.top / "f").write_bytes(theirs)
    assert [(c.before, c.after) for c in ledger.present()] == [(OLD, ours)]
    more = _with(theirs, 30, b"thirty\n")
    _write(ledger, "f", theirs, more)
    found = _again(ledger)
    assert [(c.before, c.after) for c in found.present()] == [(OLD, _with(ours, 30, b"thirty\n"))]
    assert (found.theirs(found.present()), found.mixed) == ({"f": Content(more)}, {})


def test_the_same_lines_changed_again_are_mixed(ledger: ChangeSet) -> None:
    ours = _with(OLD, 3, b"three\n")
    _write(ledger, "f", OLD, ours)
    theirs = b"more\n" + ours.replace(b"three\n", b"theirs\n")
    _write(ledger, "f", theirs, theirs.replace(b"theirs\n", b"ours again\n"))
    assert _again(ledger).mixed == {"f": ((5, 5),)}
    _write(ledger, "f", (ledger.worktree.top / "f").read_bytes(), OLD)
    assert (_again(ledger).mixed, _again(ledger).changes) == ({}, ())


def test_a_part_that_somebody_took_back_is_in_the_change_no_more(ledger: ChangeSet) -> None:
    one = _with(OLD, 3, b"three\n")
    _write(ledger, "f", OLD, _with(one, 20, b"twenty\n"))
    (ledger.worktree.top / "f").write_bytes(_with(one, 30, b"theirs\n"))
    assert [(c.before, c.after) for c in ledger.present()] == [(OLD, one)]


def test_what_somebody_adds_to_a_new_file_is_theirs(ledger: ChangeSet) -> None:
    _write(ledger, "new", None, b"1\n")
    (ledger.worktree.top / "new").write_bytes(b"1\n2\n")
    assert [(c.before, c.after) for c in ledger.present()] == [(None, b"1\n")]
    assert put_back(ledger, ["new"], lambda _: None) == {"new": ()}
    assert [c.name for c in _again(ledger).changes] == ["new"]


def test_a_mode_that_somebody_sets_is_theirs(ledger: ChangeSet) -> None:
    one = _with(OLD, 3, b"three\n")
    _write(ledger, "f", OLD, one)
    (ledger.worktree.top / "f").chmod(0o755)
    two = _with(one, 20, b"twenty\n")
    ledger.wrote([replace(_change("f", one, two), old_mode=EXECUTABLE, mode=EXECUTABLE)])
    (ledger.worktree.top / "f").write_bytes(two)
    assert [(c.old_mode, c.mode) for c in ledger.present()] == [(REGULAR, REGULAR)]
    written: list[FileChange] = []
    assert put_back(ledger, ["f"], written.extend) == {}
    assert [(c.after, c.mode) for c in written] == [(OLD, EXECUTABLE)]


def test_a_file_that_somebody_removes_holds_nothing_of_ours(ledger: ChangeSet) -> None:
    _write(ledger, "f", OLD, _with(OLD, 3, b"three\n"))
    (ledger.worktree.top / "f").unlink()
    assert ledger.present() == ()


@pytest.mark.parametrize("written", [False, True])
def test_a_kill_between_the_write_and_the_note_of_it(ledger: ChangeSet, written: bool) -> None:
    ours = _with(OLD, 3, b"three\n")
    ledger.will_write([_change("f", OLD, ours)])
    if written:
        (ledger.worktree.top / "f").write_bytes(ours)
    assert [c.after for c in _again(ledger).present()] == ([ours] if written else [])


def test_bytes_that_are_gone_are_said(ledger: ChangeSet) -> None:
    _write(ledger, "f", OLD, _with(OLD, 3, b"three\n"))
    for file in (ledger.folder / "bytes").iterdir():
        file.unlink()
    with pytest.raises(Refused, match="does not hold the bytes of f any more"):
        _again(ledger)


def test_candidates_are_no_changes_before_they_are_kept(ledger: ChangeSet) -> None:
    (ledger.worktree.top / "new").write_bytes(b"1\n")
    ledger.found([_change("new", None, b"1\n")])
    assert (ledger.present(), _again(ledger).candidates[0].path) == ((), "new")
    (ledger.worktree.top / "new").write_bytes(b"2\n")
    again = _again(ledger)
    assert again.keep(["new"]) == ["new"]
    assert [(c.before, c.after) for c in _again(ledger).present()] == [(None, b"2\n")]


def test_an_edit_of_a_candidate_keeps_it(ledger: ChangeSet) -> None:
    ledger.found([_change("new", None, b"1\n")])
    (ledger.worktree.top / "new").write_bytes(b"1\n")
    _write(ledger, "new", b"1\n", b"2\n")
    assert [(c.before, c.after) for c in ledger.present()] == [(None, b"2\n")]
    assert ledger.candidates == ()


def test_a_candidate_that_a_command_removes_again_is_none(ledger: ChangeSet) -> None:
    ledger.found([_change("new", None, b"1\n")])
    ledger.found([_change("new", b"1\n", None)])
    assert ledger.candidates == ()


WHO = st.tuples(st.sampled_from(["run", "other"]), st.integers(0, 39), st.integers(0, 9))


@given(st.lists(WHO, max_size=8))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_before_and_after_differ_by_just_what_the_run_did(
    make_repo: object, repo: GitRepo, done: list[tuple[str, int, int]]
) -> None:
    """Where both keep to lines of their own that do not touch: those of the run are in the change, the others in none."""
    repo.write("f", OLD)
    folder = repo.top / ".repoagent" / "runs" / str(abs(hash(tuple(done)))) / "changes"
    ledger = ChangeSet(open_worktree(repo.top), folder)
    content = list(LINES)
    ours = {}
    for who, line, value in done:
        line = line // 8 * 8 + (0 if who == "run" else 4)  # far enough from each other for a merge by lines
        before = b"".join(content)
        content[line] = b"%s %d\n" % (who.encode(), value)
        if who == "run":
            ours[line] = (LINES[line], content[line])
            _write(ledger, "f", before, b"".join(content))
        else:
            (repo.top / "f").write_bytes(b"".join(content))
    changes = ledger.present()
    assert bool(changes) == bool(ours)
    for change in changes:
        assert change.before is not None
        assert change.after is not None
        sides = zip(change.before.splitlines(True), change.after.splitlines(True), strict=True)
        assert {n: pair for n, pair in enumerate(sides) if pair[0] != pair[1]} == ours
