"""Several answers of a model fold into one change from the bytes that were read."""

from __future__ import annotations

from repoagent.edit.request import Draft
from repoagent.git.files import REGULAR, FileChange, Source


def change(old: str | None, new: str | None, before: bytes | None, after: bytes | None) -> FileChange:
    return FileChange(
        old,
        new,
        before,
        after,
        REGULAR if before is not None else None,
        REGULAR if after is not None else None,
    )


BOUND = Draft({"a": Source("a", b"1", REGULAR, "x"), "n": Source("n", None, None, "")})


def test_two_edits_of_one_file_are_one_change() -> None:
    draft = BOUND.with_changes([change("a", "a", b"1", b"2")]).with_changes([change("a", "a", b"2", b"3")])
    assert draft.edits == (change("a", "a", b"1", b"3"),)
    assert draft.texts()["a"].data == b"3"


def test_an_edit_taken_back_is_no_change() -> None:
    assert (
        BOUND.with_changes([change("a", "a", b"1", b"2")]).with_changes([change("a", "a", b"2", b"1")]).edits
        == ()
    )


def test_a_rename_then_an_edit_is_a_rename_with_an_edit() -> None:
    draft = BOUND.with_changes([change("a", "b", b"1", b"1")]).with_changes([change("b", "b", b"1", b"2")])
    assert draft.edits == (change("a", "b", b"1", b"2"),)
    assert set(draft.texts()) == {"b"}


def test_a_new_file_that_goes_again_leaves_nothing() -> None:
    assert (
        BOUND.with_changes([change(None, "n", None, b"x")])
        .with_changes([change("n", None, b"x", None)])
        .edits
        == ()
    )


def test_a_deleted_file_written_anew_is_a_change() -> None:
    draft = BOUND.with_changes([change("a", None, b"1", None)]).with_changes([change(None, "a", None, b"2")])
    assert draft.edits == (change("a", "a", b"1", b"2"),)


def test_a_source_keeps_the_bytes_it_was_bound_to() -> None:
    assert BOUND.with_source(Source("a", b"other", REGULAR, "y")).sources["a"].data == b"1"
