"""Carrying a change over to another version of the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.repo.blobs import read_blobs, store
from repoagent.repo.index import Entry
from repoagent.repo.project import Conflict, merge, project, say_lines
from tests.conftest import GitRepo
from tests.repo.edits import worktree

BASE = b"".join(b"line %d\n" % n for n in range(1, 21))


def edited(base: bytes, *lines: tuple[int, bytes]) -> bytes:
    """`base` with each of the numbered lines replaced."""
    parts = base.splitlines(keepends=True)
    for number, text in lines:
        parts[number - 1] = text
    return b"".join(parts)


def test_changes_apart_are_merged(tmp_path: Path) -> None:
    version, after = edited(BASE, (3, b"mine\nmore\n")), edited(BASE, (17, b"edit\n"))
    assert merge(tmp_path, version, BASE, after) == edited(BASE, (3, b"mine\nmore\n"), (17, b"edit\n"))


@pytest.mark.parametrize(
    ("mine", "edit", "lines"),
    [
        ([(7, b"mine\n")], [(7, b"edit\n")], ((7, 7),)),
        ([(7, b"mine\n")], [(8, b"edit\n")], ((8, 8),)),
        ([(7, b"mine\n")], [(2, b"edit\n"), (7, b"a\nb\n")], ((7, 7),)),
        ([(2, b"new\n" * 9), (7, b"mine\n")], [(7, b"edit\n")], ((7, 7),)),
        ([(4, b""), (5, b""), (6, b"")], [(5, b"edit\n")], ((5, 5),)),
        ([(20, b"mine")], [(20, b"edit\n")], ((20, 20),)),
    ],
)
def test_conflicts_name_the_lines(
    tmp_path: Path,
    mine: list[tuple[int, bytes]],
    edit: list[tuple[int, bytes]],
    lines: tuple[tuple[int, int], ...],
) -> None:
    assert merge(tmp_path, edited(BASE, *mine), BASE, edited(BASE, *edit)) == Conflict(lines)


def test_text_that_looks_like_conflict_markers(tmp_path: Path) -> None:
    marked = b"<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n" + BASE
    assert merge(tmp_path, marked + b"mine\n", marked, b"edit\n" + marked) == b"edit\n" + marked + b"mine\n"


def test_binary_is_a_conflict_without_lines(tmp_path: Path) -> None:
    assert merge(tmp_path, b"\0a", b"\0b", b"\0c") == Conflict()


def test_the_same_change_is_there_already(tmp_path: Path) -> None:
    assert merge(tmp_path, edited(BASE, (3, b"x\n")), BASE, edited(BASE, (3, b"x\n"))) == edited(
        BASE, (3, b"x\n")
    )


@settings(max_examples=25, deadline=None)  # each is a few processes
@given(st.sets(st.integers(1, 8)), st.sets(st.integers(13, 20)))
def test_what_is_carried_can_be_carried_back(top: set[int], bottom: set[int]) -> None:
    here = Path(__file__).parent
    version = edited(BASE, *((n, b"mine\n") for n in top))
    after = edited(BASE, *((n, b"edit\n") for n in bottom))
    carried = merge(here, version, BASE, after)
    assert isinstance(carried, bytes)
    assert merge(here, carried, after, BASE) == version


def test_entries(repo: GitRepo) -> None:
    tree = worktree(repo)

    def entry(data: bytes, mode: str = "100644") -> Entry:
        return Entry(mode, store(tree, data))

    base, after, mine = entry(BASE), entry(edited(BASE, (17, b"e\n"))), entry(edited(BASE, (3, b"m\n")))
    executable = Entry("100755", base.oid)
    assert project(tree, base, base, after) == after
    assert project(tree, after, base, after) == after
    assert project(tree, base, base, None) is None
    assert project(tree, None, None, after) == after
    assert isinstance(project(tree, mine, base, None), Conflict)
    assert isinstance(project(tree, None, base, after), Conflict)
    assert isinstance(project(tree, mine, None, after), Conflict)
    assert project(tree, mine, base, executable) == Entry("100755", mine.oid)
    assert project(tree, executable, base, after) == Entry("100755", after.oid)
    link = entry(b"target", "120000")
    assert isinstance(project(tree, link, base, after), Conflict)
    merged = project(tree, mine, base, after)
    assert isinstance(merged, Entry)
    assert read_blobs(tree, [merged.oid])[merged.oid] == edited(BASE, (3, b"m\n"), (17, b"e\n"))


def test_lines_in_words() -> None:
    assert say_lines([(3, 3), (7, 9)]) == "line 3 and lines 7-9"
