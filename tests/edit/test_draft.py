"""Several answers of a model are merged into one change of the bytes that were read."""

from __future__ import annotations

import pytest

from repoagent.edit.draft import Draft
from repoagent.git.files import REGULAR, FileChange, Source

BOUND = Draft({"a": Source("a", b"1", REGULAR, "x"), "n": Source("n", None, None, "")})


def change(old: str | None, new: str | None, before: bytes | None, after: bytes | None) -> FileChange:
    modes = [REGULAR if data is not None else None for data in (before, after)]
    return FileChange(old, new, before, after, *modes)


@pytest.mark.parametrize(
    ("first", "second", "folded", "texts"),
    [
        # two edits of one file are one change; an edit and its reversal are none
        (("a", "a", b"1", b"2"), ("a", "a", b"2", b"3"), [("a", "a", b"1", b"3")], {"a": b"3"}),
        (("a", "a", b"1", b"2"), ("a", "a", b"2", b"1"), [], {"a": b"1"}),
        # a rename, then an edit, is a rename with an edit
        (("a", "b", b"1", b"1"), ("b", "b", b"1", b"2"), [("a", "b", b"1", b"2")], {"b": b"2"}),
        # a new file that is deleted is no change; a deleted file that is created again is a change
        ((None, "n", None, b"x"), ("n", None, b"x", None), [], {"a": b"1"}),
        (("a", None, b"1", None), (None, "a", None, b"2"), [("a", "a", b"1", b"2")], {"a": b"2"}),
    ],
)
def test_changes_are_merged(
    first: tuple[str | None, str | None, bytes | None, bytes | None],
    second: tuple[str | None, str | None, bytes | None, bytes | None],
    folded: list[tuple[str, str, bytes, bytes]],
    texts: dict[str, bytes],
) -> None:
    draft = BOUND.with_changes([change(*first)]).with_changes([change(*second)])
    assert draft.edits == tuple(change(*values) for values in folded)
    assert {path: text.data for path, text in draft.texts().items()} == texts


def test_a_known_source_is_not_replaced() -> None:
    assert BOUND.with_source(Source("a", b"other", REGULAR, "y")).sources["a"].data == b"1"
