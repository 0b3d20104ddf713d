"""A repository, its layout, and short words for what the tests do over and over."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from repoagent.git.worktree import WorkTree, layout_of, open_worktree
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import remember_file, resolve_memory
from repoagent.storage.layout import Layout, Warn
from tests.conftest import GitRepo
from tests.memory.search.memory_files import MemoryFiles


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


def killed_at(number: int, act: Callable[[], object]) -> bool:
    """Do `act` in a process that is killed before its change of the disk with this number; whether it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads: none of them matters
        child = os.fork()
    if child == 0:
        seen = 0

        def counted(function: Callable[..., object]) -> Callable[..., object]:
            def call(*args: object, **named: object) -> object:
                nonlocal seen
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **named)

            return call

        for name in ("write", "fsync", "replace", "unlink", "mkdir"):
            setattr(os, name, counted(getattr(os, name)))
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def kill_after(seconds: float, code: str, *arguments: str) -> None:
    """Start a Python program, and kill it so long after its first line of output."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        time.sleep(seconds)
        process.kill()


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here tests a loss of power, and each sync takes milliseconds."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@dataclass(frozen=True)
class Workspace:
    repo: GitRepo
    worktree: WorkTree
    layout: Layout

    def remember(self, path: str) -> Memory:
        """Make, or keep up to date, the memory of `path`."""
        try:
            commit: str | None = self.repo.head()
        except AssertionError:
            commit = None  # there is none yet
        return remember_file(self.layout, self.worktree, path, self.repo.read(path), commit=commit, warn=fail)

    def resolve(self, path: str, warn: Warn = fail) -> Memory | None:
        return resolve_memory(self.layout, self.worktree, path, self.repo.read(path), warn=warn)

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


def workspace_at(top: Path) -> Workspace:
    worktree = open_worktree(top)
    return Workspace(GitRepo(top), worktree, layout_of(worktree))


Committed = Callable[..., GitRepo]


@pytest.fixture
def committed(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Committed:
    """A repository with some files, committed (once for all tests)."""

    def make(**files: bytes) -> GitRepo:
        template = tmp_path_factory.getbasetemp() / "-".join(files).replace("/", "_")
        if not template.exists():
            repo: GitRepo = request.getfixturevalue("repo")
            repo.commit("two files", **files)
            repo.top.rename(template)
        shutil.copytree(template, tmp_path / "repo")
        repo = GitRepo(tmp_path / "repo")
        repo.git("update-index", "-q", "--refresh")
        return repo

    return make


@pytest.fixture
def two_files(committed: Committed) -> GitRepo:
    return committed(**{"a.py": text("a"), "b.py": text("b")})


@pytest.fixture
def workspace(two_files: GitRepo) -> Workspace:
    """`a.py` and `b.py`, committed, and both remembered."""
    workspace = workspace_at(two_files.top)
    workspace.remember("a.py")
    workspace.remember("b.py")
    return workspace


@pytest.fixture
def memories(tmp_path: Path) -> MemoryFiles:
    return MemoryFiles(tmp_path)
