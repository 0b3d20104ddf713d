"""Applying a change to another version of the file."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.git.index import Entry
from repoagent.git.merge import Conflict, lines_text, merge, merge_entry
from repoagent.git.objects import read_blobs, store_blob
from repoagent.git.transaction.finish import recover_transactions
from repoagent.git.worktree import WorkTree
from tests.conftest import GitRepo
from tests.git.edits import dies, worktree

BASE = b"".join(b"line %d\n" % n for n in range(1, 21))


def no_repository(top: Path) -> WorkTree:
    """Texts are merged without a repository."""
    return WorkTree(top, top / "git", top / "git", main_top=top)


Lines = list[tuple[int, bytes]]


def edited(base: bytes, *lines: tuple[int, bytes]) -> bytes:
    """`base` with each of the numbered lines replaced."""
    parts = base.splitlines(keepends=True)
    for number, text in lines:
        parts[number - 1] = text
    return b"".join(parts)


def test_merge_of_changes_apart_of_conflict_markers_and_of_binaries(tmp_path: Path) -> None:
    here, mine, edit = no_repository(tmp_path), (3, b"mine\nmore\n"), (17, b"edit\n")
    assert merge(here, edited(BASE, mine), BASE, edited(BASE, edit)) == edited(BASE, mine, edit)
    marked = b"<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n" + BASE
    assert merge(here, marked + b"mine\n", marked, b"edit\n" + marked) == b"edit\n" + marked + b"mine\n"
    assert merge(here, b"\0a", b"\0b", b"\0c") == Conflict()


@pytest.mark.parametrize(
    ("mine", "edit", "lines"),
    [
        ([(7, b"mine\n")], [(7, b"edit\n")], ((7, 7),)),
        ([(7, b"line 7\nmine\n")], [(7, b"line 7\nedit\n")], ((8, 8),)),
        ([(7, b"")], [(8, b"")], ((8, 8),)),
        ([(7, b"line 7\nmine\n")], [(8, b"")], ((8, 8),)),
        ([(20, b"line 20")], [(20, b"line 20\nedit\n")], ((21, 21),)),
        ([(7, b"mine\n")], [(2, b"edit\n"), (7, b"a\nb\n")], ((7, 7),)),
        ([(2, b"new\n" * 9), (7, b"mine\n")], [(7, b"edit\n")], ((7, 7),)),
        ([(4, b""), (5, b""), (6, b"")], [(5, b"edit\n")], ((5, 5),)),
        ([(20, b"mine")], [(20, b"edit\n")], ((20, 20),)),
    ],
)
def test_conflicts_name_the_lines(tmp_path: Path, mine: Lines, edit: Lines, lines: tuple[object]) -> None:
    for exact in (False, True):
        found = merge(no_repository(tmp_path), edited(BASE, *mine), BASE, edited(BASE, *edit), exact=exact)
        assert found == Conflict(lines)


@pytest.mark.parametrize(
    ("mine", "edit"),
    [
        ((7, b"mine\n"), (8, b"edit\n")),
        ((8, b"mine"), (7, b"edit\r\nedit\r\n")),
        ((7, b"mine\n"), (8, b"")),
        ((7, b""), (8, b"edit\n")),
        ((7, b"mine\n"), (8, b"edit\nline 8\n")),
        ((20, b"mine"), (19, b"edit\redit\n")),
    ],
)
def test_neighbor_lines_are_merged(tmp_path: Path, mine: tuple[int, bytes], edit: tuple[int, bytes]) -> None:
    here = no_repository(tmp_path)
    carried = merge(here, edited(BASE, mine), BASE, edited(BASE, edit), exact=True)
    assert carried == edited(BASE, mine, edit)
    assert isinstance(merge(here, edited(BASE, mine), BASE, edited(BASE, edit)), Conflict)  # git's answer
    assert merge(here, carried, edited(BASE, edit), BASE, exact=True) == edited(BASE, mine)


LINES = st.lists(  # what is done to each line, and how many lines are inserted after it
    st.tuples(st.sampled_from(["keep", "keep", "keep", "change", "delete"]), st.sampled_from([0, 0, 0, 1])),
    min_size=6,
    max_size=6,
)


def _side(lines: list[tuple[str, int]], who: bytes, end: bytes) -> list[tuple[bytes, bytes]]:
    """The text that replaces each line, and the text after it."""
    kept = [b"line %d" % number + end for number in range(len(lines))]
    done = {"keep": kept, "change": [who + b" " + line for line in kept], "delete": [b""] * len(lines)}
    return [
        (done[what][number], (who + b" new %d" % number + end) * more)
        for number, (what, more) in enumerate(lines)
    ]


@pytest.mark.parametrize("examples", [25, pytest.param(1000, marks=pytest.mark.soak)])
def test_a_line_is_merged_where_it_belongs_to_one_side(tmp_path: Path, examples: int) -> None:
    here = no_repository(tmp_path)

    @settings(max_examples=examples, deadline=None)
    @given(LINES, LINES, st.sampled_from([b"\n", b"\r\n"]))
    def merged_to_the_byte(mine: list[tuple[str, int]], edit: list[tuple[str, int]], end: bytes) -> None:
        kept = _side([("keep", 0)] * 6, b"", end)
        ours, theirs = _side(mine, b"mine", end), _side(edit, b"edit", end)
        base, version, after = (b"".join(map(b"".join, side)) for side in (kept, ours, theirs))
        sides = list(zip(ours, theirs, kept, strict=True))
        merged = b"".join((m if e == k else e) + n + f for (m, n), (e, f), (k, _) in sides)
        carried = merge(here, version, base, after, exact=True)
        if isinstance(carried, Conflict) or version == after:
            return
        assert not any(k not in (m, e) and m != e for (m, _), (e, _), (k, _) in sides)
        if not any(n and f for (_, n), (_, f), _ in sides):
            assert carried == merged
        if any(m == e != k for (m, _), (e, _), (k, _) in sides):
            return  # the same change is taken back from both
        for one, other in ((version, after), (after, version)):
            back = merge(here, carried, one, base, exact=True)
            assert back == other or isinstance(back, Conflict)

    merged_to_the_byte()


def test_entries(repo: GitRepo) -> None:
    tree = worktree(repo)

    def entry(data: bytes, mode: str = "100644") -> Entry:
        return Entry(mode, store_blob(tree, data))

    base, after, mine = entry(BASE), entry(edited(BASE, (17, b"e\n"))), entry(edited(BASE, (3, b"m\n")))
    executable = Entry("100755", base.oid)
    assert merge_entry(tree, base, base, after) == after
    assert merge_entry(tree, after, base, after) == after
    assert merge_entry(tree, base, base, None) is None
    assert merge_entry(tree, None, None, after) == after
    assert isinstance(merge_entry(tree, mine, base, None), Conflict)
    assert isinstance(merge_entry(tree, None, base, after), Conflict)
    assert isinstance(merge_entry(tree, mine, None, after), Conflict)
    assert merge_entry(tree, mine, base, executable) == Entry("100755", mine.oid)
    assert merge_entry(tree, executable, base, after) == Entry("100755", after.oid)
    link = entry(b"target", "120000")
    assert isinstance(merge_entry(tree, link, base, after), Conflict)
    merged = merge_entry(tree, mine, base, after)
    assert isinstance(merged, Entry)
    assert read_blobs(tree, [merged.oid])[merged.oid] == edited(BASE, (3, b"m\n"), (17, b"e\n"))


def test_settings_and_attributes_of_the_user_do_not_change_the_lines(repo: GitRepo) -> None:
    mine, edit = edited(BASE, (2, b"mine\n"), (7, b"mine\n")), edited(BASE, (7, b"edit\n"), (12, b"edit\n"))
    for key, value in {"interHunkContext": "30", "context": "9", "algorithm": "patience"}.items():
        repo.git("config", f"diff.{key}", value)
        assert merge(worktree(repo), mine, BASE, edit) == Conflict(((7, 7),)), key
        repo.git("config", "--unset", f"diff.{key}")
    repo.write(".gitattributes", "* -diff\n")
    assert merge(worktree(repo), mine, BASE, edit) == Conflict(((7, 7),))
    assert lines_text([(3, 3), (7, 9)]) == "line 3 and lines 7-9"


def test_a_killed_merge(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is private; and the next command removes the rest."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "git"
    program.write_text('#!/bin/sh\ncase "$*" in *merge-file*) kill -9 $PPID; exit;; esac\nexec "$GIT" "$@"\n')
    program.chmod(0o755)
    (tmp_path / "temporary").mkdir()
    with monkeypatch.context() as patch:
        patch.setenv("GIT", shutil.which("git") or "")
        patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        patch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
        dies(lambda: merge(worktree(repo), b"a\nb\nc\n", b"b\nb\nc\n", b"b\nb\nd\n"))
    assert list((tmp_path / "temporary").iterdir()) == []
    journal = repo.top / ".git" / "repoagent" / "journal"
    (left,) = journal.iterdir()
    assert left.stat().st_mode & 0o077 == 0 and (left / "version").read_bytes() == b"a\nb\nc\n"
    assert recover_transactions(worktree(repo)) == [] and list(journal.iterdir()) == []
