"""The change set of a run, while others change the same files."""

from __future__ import annotations

import pytest

from repoagent.errors import Refused
from repoagent.git.files import EXECUTABLE, REGULAR, Content, FileChange
from repoagent.git.worktree import open_worktree
from repoagent.tasks.changes.change_set import ChangeSet, open_change_set
from repoagent.tasks.restore import revert_changes
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


def test_a_new_file_that_the_user_removes_before_it_is_kept_is_no_change(change_set: ChangeSet) -> None:
    change_set.add_candidates([change("new", None, b"1\n")])
    assert change_set.keep(["new"])
    assert again(change_set).changes == again(change_set).candidates == ()


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
