"""What a run has changed, and what others have done to the same files meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.repo import open_worktree
from repoagent.repo.change import REGULAR, FileChange
from repoagent.work.changes.ledger import Inseparable, Ledger, open_ledger
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
def ledger(repo: GitRepo) -> Ledger:
    repo.commit(f=OLD)
    return open_ledger(open_worktree(repo.top), repo.top / ".repoagent" / "runs" / "r" / "changes")


def _again(ledger: Ledger) -> Ledger:
    return open_ledger(ledger.worktree, ledger.folder)


def _write(ledger: Ledger, path: str, before: bytes | None, after: bytes | None) -> None:
    file = ledger.worktree.top / path
    change = _change(path, before, after)
    ledger.will_write([change])
    if after is None:
        file.unlink()
    else:
        file.write_bytes(after)
    ledger.wrote([change])


def test_several_changes_of_a_file_are_one(ledger: Ledger) -> None:
    one = _with(OLD, 3, b"three\n")
    two = _with(one, 30, b"thirty\n")
    _write(ledger, "f", OLD, one)
    _write(ledger, "f", one, two)
    assert [(c.before, c.after) for c in _again(ledger).present()] == [(OLD, two)]


def test_what_is_changed_back_is_no_change(ledger: Ledger) -> None:
    one = _with(OLD, 3, b"three\n")
    _write(ledger, "f", OLD, one)
    _write(ledger, "f", one, OLD)
    _write(ledger, "g", None, b"g\n")
    _write(ledger, "g", b"g\n", None)
    assert _again(ledger).changes == ()


def test_what_somebody_saves_later_is_in_both_sides(ledger: Ledger) -> None:
    ours = _with(OLD, 3, b"three\n")
    _write(ledger, "f", OLD, ours)
    both = _with(ours, 30, b"theirs\n")
    (ledger.worktree.top / "f").write_bytes(both)
    assert [(c.before, c.after) for c in ledger.present()] == [(_with(OLD, 30, b"theirs\n"), both)]


def test_what_somebody_saves_in_between_is_in_both_sides(ledger: Ledger) -> None:
    ours = _with(OLD, 3, b"three\n")
    _write(ledger, "f", OLD, ours)
    theirs = _with(ours, 30, b"theirs\n")
    more = _with(theirs, 10, b"ten\n")
    _write(ledger, "f", theirs, more)
    assert [(c.before, c.after) for c in _again(ledger).present()] == [(_with(OLD, 30, b"theirs\n"), more)]


def test_the_same_lines_can_not_be_separated(ledger: Ledger) -> None:
    ours = _with(OLD, 3, b"three\n")
    _write(ledger, "f", OLD, ours)
    (ledger.worktree.top / "f").write_bytes(ours.replace(b"three\n", b"theirs\n"))
    with pytest.raises(Inseparable, match="f was changed by somebody else"):
        ledger.present()


def test_the_same_lines_changed_in_between_can_not_be_separated_either(ledger: Ledger) -> None:
    ours = _with(OLD, 3, b"three\n")
    _write(ledger, "f", OLD, ours)
    theirs = ours.replace(b"three\n", b"theirs\n")
    _write(ledger, "f", theirs, theirs.replace(b"theirs\n", b"ours again\n"))
    with pytest.raises(Inseparable):
        _again(ledger).present()


def test_a_file_that_somebody_removes_holds_nothing_of_ours(ledger: Ledger) -> None:
    _write(ledger, "f", OLD, _with(OLD, 3, b"three\n"))
    (ledger.worktree.top / "f").unlink()
    assert ledger.present() == ()


@pytest.mark.parametrize("written", [False, True])
def test_a_kill_between_the_write_and_the_note_of_it(ledger: Ledger, written: bool) -> None:
    ours = _with(OLD, 3, b"three\n")
    ledger.will_write([_change("f", OLD, ours)])
    if written:
        (ledger.worktree.top / "f").write_bytes(ours)
    assert [c.after for c in _again(ledger).present()] == ([ours] if written else [])


def test_bytes_that_are_gone_are_said(ledger: Ledger) -> None:
    _write(ledger, "f", OLD, _with(OLD, 3, b"three\n"))
    for file in (ledger.folder / "bytes").iterdir():
        file.unlink()
    with pytest.raises(Refused, match="does not hold the bytes of f any more"):
        _again(ledger)


def test_candidates_are_no_changes_before_they_are_kept(ledger: Ledger) -> None:
    (ledger.worktree.top / "new").write_bytes(b"1\n")
    ledger.found([_change("new", None, b"1\n")])
    assert (ledger.present(), _again(ledger).candidates[0].path) == ((), "new")
    (ledger.worktree.top / "new").write_bytes(b"2\n")
    again = _again(ledger)
    assert again.keep(["new"]) == ["new"]
    assert [(c.before, c.after) for c in _again(ledger).present()] == [(None, b"2\n")]


def test_an_edit_of_a_candidate_keeps_it(ledger: Ledger) -> None:
    ledger.found([_change("new", None, b"1\n")])
    (ledger.worktree.top / "new").write_bytes(b"1\n")
    _write(ledger, "new", b"1\n", b"2\n")
    assert [(c.before, c.after) for c in ledger.present()] == [(None, b"2\n")]
    assert ledger.candidates == ()


def test_a_candidate_that_a_command_removes_again_is_none(ledger: Ledger) -> None:
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
    ledger = Ledger(open_worktree(repo.top), folder)
    content, others = list(LINES), list(LINES)
    for who, line, value in done:
        line = line // 8 * 8 + (0 if who == "run" else 4)  # far enough from each other for a merge by lines
        before = b"".join(content)
        content[line] = b"%s %d\n" % (who.encode(), value)
        if who == "run":
            _write(ledger, "f", before, b"".join(content))
        else:
            others[line] = content[line]
            (repo.top / "f").write_bytes(b"".join(content))
    found = ledger.present()
    if b"".join(others) == b"".join(content):
        assert found == ()
    else:
        assert [(c.before, c.after) for c in found] == [(b"".join(others), b"".join(content))]
