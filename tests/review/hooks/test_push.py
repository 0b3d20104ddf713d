"""What a push brings: the lines that git gives pre-push, and what of it the other side has already."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.git.worktree import open_worktree
from repoagent.review.hooks.run import PushedRef, _refs, pushed_refs
from tests.conftest import GitRepo

ZERO = "0" * 40


@pytest.fixture
def clone(repo: GitRepo, make_repo: Callable[[str], GitRepo]) -> GitRepo:
    """A repository whose `main` is at its remote `origin`."""
    there = make_repo("there")
    repo.git("remote", "add", "origin", str(there.top))
    repo.git("push", "-q", "origin", "main:main2", "main:trunk")
    return repo


def ask(
    repo: GitRepo, *refs: tuple[str, str, str, str], remote: str = "origin"
) -> tuple[list[PushedRef], list[str]]:
    lines = "".join(" ".join(ref) + "\n" for ref in refs)
    return pushed_refs(open_worktree(repo.top), remote, lines.encode())


def test_an_existing_branch_brings_what_is_new(clone: GitRepo) -> None:
    old, new = clone.head(), clone.commit("one")
    found, notes = ask(clone, ("refs/heads/main", new, "refs/heads/main2", old))
    assert found == [PushedRef("main", old, new)] and notes == []


def test_a_new_branch_brings_what_the_other_side_has_on_no_branch(clone: GitRepo) -> None:
    old = clone.head()
    clone.git("switch", "-qc", "topic")
    new = clone.commit("topic")
    found, _ = ask(clone, ("refs/heads/topic", new, "refs/heads/topic", ZERO))
    assert found == [PushedRef("topic", old, new)]


def test_after_a_rebase_only_what_is_new_to_the_other_side_counts(clone: GitRepo) -> None:
    clone.git("switch", "-qc", "topic")
    before = clone.commit("topic", topic="1\n")
    clone.git("push", "-q", "origin", "topic")
    clone.git("switch", "-q", "main")
    trunk = clone.commit("trunk", trunk="1\n")
    clone.git("push", "-q", "origin", "main:trunk")
    clone.git("switch", "-q", "topic")
    clone.git("rebase", "-q", "main")
    found, _ = ask(clone, ("refs/heads/topic", clone.head(), "refs/heads/topic", before))
    assert found == [PushedRef("topic", trunk, clone.head())]


def test_what_somebody_else_pushed_meanwhile_need_not_be_here(clone: GitRepo) -> None:
    old, new = clone.head(), clone.commit("one")
    assert ask(clone, ("refs/heads/main", new, "refs/heads/main2", "1" * 40))[0] == [
        PushedRef("main", old, new)
    ]


@pytest.mark.parametrize("kind", ["deleted", "known", "tag", "blob", "nonsense"])
def test_nothing_comes_of_what_brings_nothing(clone: GitRepo, kind: str) -> None:
    clone.git("tag", "-am", "x", "v1")
    tag = clone.git("rev-parse", "v1").strip()
    blob = clone.git("rev-parse", "HEAD:a.txt").strip()
    ref = {
        "deleted": ("(delete)", ZERO, "refs/heads/topic", clone.head()),
        "known": ("refs/heads/main", clone.head(), "refs/heads/new", ZERO),
        "tag": ("refs/tags/v1", tag, "refs/tags/v1", ZERO),
        "blob": ("refs/tags/blob", blob, "refs/tags/blob", ZERO),
        "nonsense": ("what", "is", "this", "?"),
    }[kind]
    assert ask(clone, ref) == ([], [])


@pytest.mark.soak
def test_a_tag_on_new_commits_brings_them_once(clone: GitRepo) -> None:
    old, new = clone.head(), clone.commit("one")
    clone.git("tag", "-am", "x", "v1")
    tag = clone.git("rev-parse", "v1").strip()
    found, _ = ask(
        clone, ("refs/heads/main", new, "refs/heads/main2", old), ("refs/tags/v1", tag, "refs/tags/v1", ZERO)
    )
    assert found == [PushedRef("main", old, new)]


def test_the_first_push_of_all_has_nothing_to_be_compared_with(repo: GitRepo) -> None:
    found, notes = ask(repo, ("refs/heads/main", repo.head(), "refs/heads/main", ZERO))
    assert found == [] and notes == ["main was not reviewed: the remote has no commit to compare it with"]


@pytest.mark.soak
def test_an_address_is_compared_with_all_that_is_known(clone: GitRepo) -> None:
    old, new = clone.head(), clone.commit("one")
    found, _ = ask(clone, ("HEAD", new, "refs/heads/x", ZERO), remote="https://example.org/x.git")
    assert found == [PushedRef("x", old, new)]


@pytest.mark.soak
def test_of_many_branches_some_are_looked_at_and_the_others_counted(clone: GitRepo) -> None:
    refs = []
    for number in range(7):
        new = clone.commit(f"{number}")
        refs.append((f"refs/heads/b{number}", new, f"refs/heads/b{number}", ZERO))
    found, notes = ask(clone, *refs)
    assert len(found) == 5 and notes == ["2 of 7 branches and tags were not reviewed"]


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_lines_or_nothing(lines: bytes) -> None:
    for name, local, theirs in _refs(lines):
        assert len(local) in (40, 64) and len(theirs) in (40, 64) and isinstance(name, str)
