"""Operations of users and tools on files, and the memory that each file must have afterwards, in any order of
lookup."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from repoagent.errors import Refused
from repoagent.git.files import read_source
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import read_memories
from tests.memory.conftest import fail, workspace_at


@dataclass
class Stage:
    """A work tree; `folders` maps the memories' short names to their folders."""

    top: Path
    folders: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workspace = workspace_at(self.top)
        self.repo, self.layout, self.git = self.workspace.repo, self.workspace.layout, self.workspace.repo.git

    def sh(self, command: str) -> None:
        subprocess.run(["sh", "-ec", command], cwd=self.top, check=True, capture_output=True)

    def write(self, path: str, data: bytes) -> None:
        self.repo.write(path, data)

    def save(self, path: str, data: bytes) -> None:
        """As most editors do: a new file takes the name."""
        self.write(path + ".tmp", data)
        (self.top / (path + ".tmp")).replace(self.top / path)

    def know(self, name: str, path: str) -> None:
        """Make, or keep up to date, the memory of `path`, called `name` from now on."""
        self.folders[name] = self.workspace.remember(path).folder.name

    def ask(self, path: str) -> Memory | None:
        try:
            data = read_source(self.workspace.worktree, path).data
        except Refused:
            return None
        return None if data is None else self.workspace.resolve(path)

    def files(self) -> list[str]:
        found = []
        for folder, inner, names in os.walk(self.top):
            inner[:] = sorted(name for name in inner if name not in (".git", ".repoagent"))
            found += [str((Path(folder) / name).relative_to(self.top)) for name in names if name != ".git"]
        return sorted(found)

    def answers(self, paths: list[str]) -> dict[str, str]:
        """Who has which memory, asked in this order."""
        called = {folder: name for name, folder in self.folders.items()}
        asked = ((path, self.ask(path)) for path in paths)
        return {path: called[memory.folder.name] for path, memory in asked if memory is not None}

    def expect(self, truth: dict[str, str], **reasons: str) -> None:
        """`truth` says which files have which memory; no other file of the work tree has one. They are asked in either
        order, then once more: nothing is written then. `reasons`: how the last re-keying of a memory begins."""
        before = self.top.parent / f"before-{self.top.name}"
        shutil.copytree(self.layout.memory, before)
        for paths in (self.files(), self.files()[::-1]):
            for path in self.layout.memory.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            shutil.copytree(before, self.layout.memory, dirs_exist_ok=True)
            got = self.answers(paths)
            assert got == truth, paths
            state = self.state()
            assert self.answers(paths) == truth, "asked again"
            assert self.state() == state, "something was written although nothing had changed"
            found = read_memories(self.layout, warn=fail)
            assert len(found) == len(self.folders)
            last = {each.folder.name: each.identity.rekeyings[-1].reason for each in found}
            for name, reason in reasons.items():
                assert last[self.folders[name]].startswith(reason), last
        shutil.rmtree(before)

    def state(self) -> dict[Path, tuple[int, int]]:
        paths = [path for path in self.layout.memory.rglob("*") if path.is_file() and path.name != ".lock"]
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}
