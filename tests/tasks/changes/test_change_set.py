"""The change set of a run, while others change the same files: the run's part is committed or undone, the user's part
stays in the file unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent.errors import NothingDone, Refused
from repoagent.git.files import EXECUTABLE, REGULAR, Content, FileChange
from repoagent.git.transaction.results import InPlace, Inseparable
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.worktree import open_worktree
from repoagent.tasks.changes.change_set import ChangeSet, open_change_set
from repoagent.tasks.restore import revert_changes, write_changes
from tests.conftest import GitRepo

OLD = b"".join(b"line %d\n" % n for n in range(40))


def with_line(data: bytes, number: int, text: bytes) -> bytes:
    return data.replace(b"line %d\n" % number, text)


def change(path: str, before: bytes | None, after: bytes | None) -> FileChange:
    old, new = (None if data is None else Content(data) for data in (before, after))
    return FileChange.at(path, old, new)


@pytest.fixture
def change_set(repo: GitRepo) -> ChangeSet:
    repo.write("f", OLD)
    return open_change_set(open_worktree(repo.top), repo.top / ".repoagent" / "runs" / "r" / "changes")


def again(change_set: ChangeSet) -> ChangeSet:
    return open_change_set(change_set.worktree, change_set.folder)


def save(change_set: ChangeSet, path: str, data: bytes | None) -> None:
    file = change_set.worktree.top / path
    if data is None:
        file.unlink()
    else:
        file.write_bytes(data)


def write(change_set: ChangeSet, path: str, before: bytes | None, after: bytes | None) -> None:
    change_set.will_write([change(path, before, after)])
    save(change_set, path, after)
    change_set.wrote([change(path, before, after)])


def sides(change_set: ChangeSet) -> list[tuple[bytes | None, bytes | None]]:
    return [(change.before, change.after) for change in change_set.present()]


ONE, OTHER = with_line(OLD, 3, b"three\n"), with_line(OLD, 30, b"theirs\n")
BOTH = with_line(ONE, 30, b"theirs\n")
TEN = with_line(BOTH, 10, b"ten\n")
NOTHING = b"nothing"


@pytest.mark.parametrize(
    ("writes", "content", "changes"),
    [
        ([("f", OLD, ONE), ("f", ONE, BOTH)], BOTH, [(OLD, BOTH)]),  # several changes become one
        ([("f", OLD, ONE), ("f", ONE, OLD), ("g", None, b"g"), ("g", b"g", None)], OLD, []),  # reverted
        ([("f", OLD, ONE)], BOTH, [(OLD, ONE)]),  # the user's later save is in neither side
        ([("f", OLD, ONE), ("f", BOTH, TEN)], NOTHING, [(OTHER, TEN)]),
        ([("f", OLD, BOTH)], ONE, [(OLD, ONE)]),  # the user undid a part
        ([("f", OLD, ONE)], None, []),  # the user removed the file
    ],
)
def test_changes_of_the_run_without_those_of_the_user(
    change_set: ChangeSet,
    writes: list[tuple[str, bytes | None, bytes | None]],
    content: bytes | None,
    changes: list[tuple[bytes, bytes]],
) -> None:
    """After these writes of the run, the user saves `content`."""
    for each in writes:
        write(change_set, *each)
    if content != NOTHING:
        save(change_set, "f", content)
    assert sides(again(change_set)) == changes
    if changes == [(OLD, ONE)] and content == BOTH:
        assert change_set.others_content(change_set.present()) == {"f": Content(BOTH)}


def test_candidates_become_changes_when_kept_or_edited(change_set: ChangeSet) -> None:
    for path in ("new", "edited", "gone"):
        save(change_set, path, b"1\n")
        change_set.add_candidates([change(path, None, b"1\n")])
    assert (change_set.present(), len(again(change_set).candidates)) == ((), 3)
    save(change_set, "new", b"2\n")
    assert change_set.keep(["new"])
    write(change_set, "edited", b"1\n", b"3\n")
    change_set.add_candidates([change("gone", b"1\n", None)])
    assert sides(again(change_set)) == [(None, b"2\n"), (None, b"3\n")]
    assert change_set.candidates == ()
    change_set.add_candidates([change("removed", None, b"1\n")])  # by the user, before it is kept
    assert change_set.keep(["removed"])
    assert len(again(change_set).changes) == 2 and again(change_set).candidates == ()


def test_a_later_save_on_the_same_lines_is_separated(change_set: ChangeSet) -> None:
    write(change_set, "f", OLD, ONE)
    theirs = ONE.replace(b"three\n", b"theirs\n")
    save(change_set, "f", theirs)
    assert sides(change_set) == [(OLD, ONE)]
    more = with_line(theirs, 30, b"thirty\n")
    write(change_set, "f", theirs, more)
    stored = again(change_set)
    assert sides(stored) == [(OLD, with_line(ONE, 30, b"thirty\n"))]
    assert (stored.others_content(stored.present()), stored.overlapping) == ({"f": Content(more)}, set())


def test_the_same_lines_changed_again_overlap(change_set: ChangeSet) -> None:
    write(change_set, "f", OLD, ONE)
    theirs = b"more\n" + ONE.replace(b"three\n", b"theirs\n")
    ours_again = theirs.replace(b"theirs\n", b"ours again\n")
    write(change_set, "f", theirs, ours_again)
    assert again(change_set).overlapping == {"f"}
    write(change_set, "f", ours_again, OLD)
    assert (again(change_set).overlapping, again(change_set).changes) == (set(), ())


def test_lines_that_the_user_adds_to_a_new_file_are_separated(change_set: ChangeSet) -> None:
    write(change_set, "new", None, b"1\n")
    save(change_set, "new", b"1\n2\n")
    assert sides(change_set) == [(None, b"1\n")]
    assert revert_changes(change_set, ["new"], lambda _: None) == ("new",)
    assert [change.name for change in again(change_set).changes] == ["new"]


def test_a_deleted_candidate_is_restored(change_set: ChangeSet) -> None:
    change_set.add_candidates([change("notes", b"mine\n", b"mine\nmore\n"), change("new", None, b"1\n")])
    written: list[FileChange] = []
    assert revert_changes(change_set, ["notes", "new"], written.extend) == ()
    assert [(one.old, one.path, one.after) for one in written] == [(None, "notes", b"mine\n")]


def test_a_mode_that_the_user_sets_is_separated(change_set: ChangeSet) -> None:
    write(change_set, "f", OLD, ONE)
    (change_set.worktree.top / "f").chmod(0o755)
    change_set.wrote([FileChange.at("f", Content(ONE, EXECUTABLE), Content(TEN, EXECUTABLE))])
    save(change_set, "f", TEN)
    assert [(change.old_mode, change.mode) for change in change_set.present()] == [(REGULAR, REGULAR)]
    written: list[FileChange] = []
    assert revert_changes(change_set, ["f"], written.extend) == ()
    assert [(change.after, change.mode) for change in written] == [(OLD, EXECUTABLE)]


@pytest.mark.parametrize("written", [False, True])
def test_a_kill_between_the_write_and_its_record(change_set: ChangeSet, written: bool) -> None:
    change_set.will_write([change("f", OLD, ONE)])
    if written:
        save(change_set, "f", ONE)
    assert sides(again(change_set)) == ([(OLD, ONE)] if written else [])


def test_missing_bytes_are_reported(change_set: ChangeSet) -> None:
    write(change_set, "f", OLD, ONE)
    for file in (change_set.folder / "bytes").iterdir():
        file.unlink()
    with pytest.raises(Refused, match="is not a complete record"):
        again(change_set)


# -- a run and a user change the same file in any order

LINES = [f"line {n}" for n in range(12)]
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
    return [*lines[:at], LINES[at], *lines[at + 1 :]]


def _interleaved(repo: GitRepo, done: list[tuple[str, str, int]]) -> tuple[ChangeSet, list[str]]:
    """Make all changes to a file; return the change set and the content."""
    repo.git("reset", "-q", "--hard")
    repo.commit(f=_bytes(LINES))
    change_set = open_change_set(open_worktree(repo.top), Path(mkdtemp(dir=repo.top / ".git")))
    lines = list(LINES)
    for number, (who, what, at) in enumerate(done):
        before, lines = lines, _done(lines, who, what, at, number)
        if who == "run" and lines != before:
            write(change_set, "f", _bytes(before), _bytes(lines))
        repo.write("f", _bytes(lines))
    return again(change_set), lines


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
        assert now == LINES


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
