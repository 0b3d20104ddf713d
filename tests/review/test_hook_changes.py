"""The commits of a push: the lines that git passes to pre-push, without commits that the remote has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from repoagent.git.worktree import open_worktree
from repoagent.review.hook_changes import PushedRef, pushed_refs
from tests.conftest import GitRepo

ZERO = "0" * 40


@pytest.fixture
def clone(repo: GitRepo, make_repo: Callable[[str], GitRepo]) -> GitRepo:
    """A repository whose `main` is at its remote `origin`."""
    there = make_repo("there")
    repo.git("remote", "add", "origin", str(there.top))
    repo.git("push", "-q", "origin", "main:main2", "main:trunk")
    return repo


def pushed(repo: GitRepo, *refs: str, remote: str = "origin") -> tuple[list[PushedRef], list[str]]:
    lines = "".join(f"{ref}\n" for ref in refs)
    return pushed_refs(open_worktree(repo.top), remote, lines.encode())


def test_a_push_of_one_new_commit(clone: GitRepo) -> None:
    old, new = clone.head(), clone.commit("one")
    clone.git("tag", "-am", "x", "v1")
    tag = clone.git("rev-parse", "v1").strip()
    main = f"refs/heads/main {new} refs/heads/main2 {old}"
    for line, remote, name in (
        (main, "origin", "main"),
        (f"refs/heads/topic {new} refs/heads/topic {ZERO}", "origin", "topic"),
        # another user pushed a commit in between
        (f"refs/heads/main {new} refs/heads/main2 {'1' * 40}", "origin", "main"),
        (f"refs/tags/v1 {tag} refs/tags/v1 {ZERO}", "origin", "tags/v1"),
        (f"HEAD {new} refs/heads/x {ZERO}", "https://example.org/x.git", "x"),
    ):
        assert pushed(clone, line, remote=remote) == ([PushedRef(name, old, new)], [])
        assert pushed(clone, line, main, remote=remote)[0] == [PushedRef(name, old, new)]  # once


def test_after_a_rebase_only_commits_new_to_the_remote_count(clone: GitRepo) -> None:
    clone.git("switch", "-qc", "topic")
    before = clone.commit("topic", topic="1\n")
    clone.git("push", "-q", "origin", "topic")
    clone.git("switch", "-q", "main")
    trunk = clone.commit("trunk", trunk="1\n")
    clone.git("push", "-q", "origin", "main:trunk")
    clone.git("switch", "-q", "topic")
    clone.git("rebase", "-q", "main")
    refs, _ = pushed(clone, f"refs/heads/topic {clone.head()} refs/heads/topic {before}")
    assert refs == [PushedRef("topic", trunk, clone.head())]


def test_refs_without_new_commits_are_skipped(clone: GitRepo) -> None:
    clone.git("tag", "-am", "x", "v1")
    tag, blob = clone.git("rev-parse", "v1", "HEAD:a.txt").split()
    for line in (
        f"(delete) {ZERO} refs/heads/topic {clone.head()}", f"refs/heads/main {clone.head()} refs/heads/new {ZERO}",
        f"refs/tags/v1 {tag} refs/tags/v1 {ZERO}", f"refs/tags/blob {blob} refs/tags/blob {ZERO}", "what is this ?",
    ):  # fmt: skip
        assert pushed(clone, line) == ([], []), line
    assert pushed_refs(open_worktree(clone.top), "origin", b"\xff\n\0 \r\n") == ([], [])


def test_the_first_push_has_nothing_to_compare_with(repo: GitRepo) -> None:
    refs, notes = pushed(repo, f"refs/heads/main {repo.head()} refs/heads/main {ZERO}")
    assert refs == [] and notes == ["main was not reviewed: the remote has no commit to compare it with"]


@pytest.mark.soak
def test_only_some_of_many_branches_are_reviewed_and_the_others_counted(clone: GitRepo) -> None:
    heads = [clone.commit(f"{number}") for number in range(7)]
    refs, notes = pushed(
        clone, *(f"refs/heads/b{n} {head} refs/heads/b{n} {ZERO}" for n, head in enumerate(heads))
    )
    assert len(refs) == 5 and notes == ["2 of 7 branches and tags were not reviewed; the limit is 5 per push"]
