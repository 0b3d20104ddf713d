"""A repository, its layout, and short words for what the tests do over and over."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from repoagent.git.worktree import WorkTree, layout, open_worktree
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import remember, resolve
from repoagent.storage.layout import Layout
from tests.conftest import GitRepo
from tests.memory.search.shelf import Shelf


def fail(sentence: str) -> None:
    """For warnings that must not come."""
    raise AssertionError(sentence)


def text(name: str, lines: int = 30) -> bytes:
    """A file that is like itself and like no other."""
    return "".join(f"{name} says {n * n} on line {n}\n" for n in range(lines)).encode()


def edited(data: bytes, lines: int = 3) -> bytes:
    """The same file with a few lines changed."""
    parts = data.splitlines(keepends=True)
    return b"".join([b"changed\n"] * lines + parts[lines:])


@dataclass(frozen=True)
class Desk:
    repo: GitRepo
    worktree: WorkTree
    layout: Layout

    def remember(self, path: str) -> Memory:
        commit = self.repo.git("rev-parse", "-q", "--verify", "HEAD", ok=False).strip() or None
        return remember(
            self.layout, self.worktree, path, (self.worktree.top / path).read_bytes(), commit=commit
        )

    def resolve(self, path: str) -> Memory | None:
        return resolve(self.layout, self.worktree, path, (self.worktree.top / path).read_bytes(), warn=fail)

    def known(self, path: str) -> Memory:
        memory = self.resolve(path)
        assert memory is not None
        return memory

    def folder(self, path: str) -> str | None:
        """The name of the memory folder that `path` is resolved to."""
        memory = self.resolve(path)
        return None if memory is None else memory.folder.name


def atomic_save(path: Path, data: bytes) -> None:
    """Save as most editors do: a new file, of another inode, takes the name."""
    temporary = path.with_name(path.name + ".swp")
    temporary.write_bytes(data)
    temporary.replace(path)


def desk_at(top: Path) -> Desk:
    worktree = open_worktree(top)
    return Desk(GitRepo(top), worktree, layout(worktree))


@pytest.fixture
def desk(repo: GitRepo) -> Desk:
    """`a.py` and `b.py`, committed, and both remembered."""
    repo.write("a.py", text("a"))
    repo.write("b.py", text("b"))
    repo.commit("two files")
    desk = desk_at(repo.top)
    desk.remember("a.py")
    desk.remember("b.py")
    return desk


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)
