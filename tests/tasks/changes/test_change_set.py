"""The change set of a run, while others change the same files."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.git.files import EXECUTABLE, REGULAR, Content, FileChange
from repoagent.git.worktree import open_worktree
from repoagent.tasks.changes.change_set import ChangeSet, open_change_set
from repoagent.tasks.restore import revert
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
def change_set(repo: GitRepo) -> ChangeSet:
    repo.commit(f=OLD)
    return open_change_set(open_worktree(repo.top), repo.top / ".repoagent" / "runs" / "r" / "changes")


def _again(change_set: ChangeSet) -> ChangeSet:
    return open_change_set(change_set.worktree, change_set.folder)


def _write(change_set: ChangeSet, path: str, before: bytes | None, after: bytes | None) -> None:
    file = change_set.worktree.top / path
    change = _change(path, before, after)
    change_set.will_write([change])
    if after is None:
        file.unlink()
    else:
        file.write_bytes(after)
    change_set.wrote([change])


ONE, OTHER = _with(OLD, 3, b"three\n"), _with(OLD, 30, b"theirs\n")
BOTH = _with(ONE, 30, b"theirs\n")


@pytest.mark.parametrize(
    ("writes", "content", "changes"),
    [
        ([("f", OLD, ONE), ("f", ONE, BOTH)], BOTH, [(OLD, BOTH)]),  # several changes become one
        ([("f", OLD, ONE), ("f", ONE, OLD), ("g", None, b"g"), ("g", b"g", None)], OLD, []),  # reverted
        ([("f", OLD, ONE)], BOTH, [(OLD, ONE)]),  # the user's later save is in neither side
        (
            [("f", OLD, ONE), ("f", BOTH, _with(BOTH, 10, b"ten\n"))],
            None,
            [(OTHER, _with(BOTH, 10, b"ten\n"))],
        ),
        ([("f", OLD, BOTH)], ONE, [(OLD, ONE)]),  # the user undid a part
        ([("f", OLD, ONE)], b"", []),  # the user removed the file
    ],
)
def test_changes_of_the_run_without_those_of_the_user(
    change_set: ChangeSet,
    writes: list[tuple[str, bytes | None, bytes | None]],
    content: bytes | None,
    changes: list[tuple[bytes, bytes]],
) -> None:
    """After these writes of the run, the user saves `content` (None: nothing, empty: removes the file)."""
    for write in writes:
        _write(change_set, *write)
    file = change_set.worktree.top / "f"
    if content:
        file.write_bytes(content)
    elif content == b"":
        file.unlink()
    found = _again(change_set).present()
    assert [(change.before, change.after) for change in found] == changes
    if content == BOTH and found[0].after == ONE:
        assert change_set.others_content(found) == {"f": Content(BOTH)}


def test_candidates_become_changes_when_kept_or_edited(change_set: ChangeSet) -> None:
    for path in ("new", "edited", "gone"):
        (change_set.worktree.top / path).write_bytes(b"1\n")
        change_set.add_candidates([_change(path, None, b"1\n")])
    assert (change_set.present(), len(_again(change_set).candidates)) == ((), 3)
    (change_set.worktree.top / "new").write_bytes(b"2\n")
    assert change_set.keep(["new"])
    _write(change_set, "edited", b"1\n", b"3\n")
    change_set.add_candidates([_change("gone", b"1\n", None)])
    assert [(c.before, c.after) for c in _again(change_set).present()] == [(None, b"2\n"), (None, b"3\n")]
    assert change_set.candidates == ()


def test_a_later_save_on_the_same_lines_is_separated(change_set: ChangeSet) -> None:
    ours = _with(OLD, 3, b"three\n")
    _write(change_set, "f", OLD, ours)
    theirs = ours.replace(b"three\n", b"theirs\n")
    (change_set.worktree.top / "f").write_bytes(theirs)
    assert [(c.before, c.after) for c in change_set.present()] == [(OLD, ours)]
    more = _with(theirs, 30, b"thirty\n")
    _write(change_set, "f", theirs, more)
    found = _again(change_set)
    assert [(c.before, c.after) for c in found.present()] == [(OLD, _with(ours, 30, b"thirty\n"))]
    assert (found.others_content(found.present()), found.overlapping) == ({"f": Content(more)}, {})


def test_the_same_lines_changed_again_overlap(change_set: ChangeSet) -> None:
    ours = _with(OLD, 3, b"three\n")
    _write(change_set, "f", OLD, ours)
    theirs = b"more\n" + ours.replace(b"three\n", b"theirs\n")
    _write(change_set, "f", theirs, theirs.replace(b"theirs\n", b"ours again\n"))
    assert _again(change_set).overlapping == {"f": ((5, 5),)}
    _write(change_set, "f", (change_set.worktree.top / "f").read_bytes(), OLD)
    assert (_again(change_set).overlapping, _again(change_set).changes) == ({}, ())


def test_lines_that_the_user_adds_to_a_new_file_are_separated(change_set: ChangeSet) -> None:
    _write(change_set, "new", None, b"1\n")
    (change_set.worktree.top / "new").write_bytes(b"1\n2\n")
    assert [(c.before, c.after) for c in change_set.present()] == [(None, b"1\n")]
    assert revert(change_set, ["new"], lambda _: None) == {"new": ()}
    assert [c.name for c in _again(change_set).changes] == ["new"]


def test_a_mode_that_the_user_sets_is_separated(change_set: ChangeSet) -> None:
    one = _with(OLD, 3, b"three\n")
    _write(change_set, "f", OLD, one)
    (change_set.worktree.top / "f").chmod(0o755)
    two = _with(one, 20, b"twenty\n")
    change_set.wrote([replace(_change("f", one, two), old_mode=EXECUTABLE, mode=EXECUTABLE)])
    (change_set.worktree.top / "f").write_bytes(two)
    assert [(c.old_mode, c.mode) for c in change_set.present()] == [(REGULAR, REGULAR)]
    written: list[FileChange] = []
    assert revert(change_set, ["f"], written.extend) == {}
    assert [(c.after, c.mode) for c in written] == [(OLD, EXECUTABLE)]


@pytest.mark.parametrize("written", [False, True])
def test_a_kill_between_the_write_and_its_record(change_set: ChangeSet, written: bool) -> None:
    ours = _with(OLD, 3, b"three\n")
    change_set.will_write([_change("f", OLD, ours)])
    if written:
        (change_set.worktree.top / "f").write_bytes(ours)
    assert [c.after for c in _again(change_set).present()] == ([ours] if written else [])


def test_missing_bytes_are_reported(change_set: ChangeSet) -> None:
    _write(change_set, "f", OLD, _with(OLD, 3, b"three\n"))
    for file in (change_set.folder / "bytes").iterdir():
        file.unlink()
    with pytest.raises(Refused, match="has lost the bytes of f"):
        _again(change_set)


WHO = st.tuples(st.sampled_from(["run", "other"]), st.integers(0, 39), st.integers(0, 9))


@given(st.lists(WHO, max_size=8))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_before_and_after_differ_only_by_the_runs_change(
    make_repo: object, repo: GitRepo, done: list[tuple[str, int, int]]
) -> None:
    """If the run and the user change lines that do not touch, the change contains only the run's."""
    repo.write("f", OLD)
    folder = repo.top / ".repoagent" / "runs" / str(abs(hash(tuple(done)))) / "changes"
    change_set = ChangeSet(open_worktree(repo.top), folder)
    content = list(LINES)
    ours = {}
    for who, line, value in done:
        line = line // 8 * 8 + (0 if who == "run" else 4)  # far enough apart for a merge by lines
        before = b"".join(content)
        content[line] = b"%s %d\n" % (who.encode(), value)
        if who == "run":
            ours[line] = (LINES[line], content[line])
            _write(change_set, "f", before, b"".join(content))
        else:
            (repo.top / "f").write_bytes(b"".join(content))
    changes = change_set.present()
    assert bool(changes) == bool(ours)
    for change in changes:
        assert change.before is not None
        assert change.after is not None
        sides = zip(change.before.splitlines(True), change.after.splitlines(True), strict=True)
        assert {n: pair for n, pair in enumerate(sides) if pair[0] != pair[1]} == ours
