"""A split file, and `repoagent split` in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from repoagent.cli.app import cli
from repoagent.cli.run_program import run
from tests.cli.apply_patch import Done
from tests.conftest import GitRepo

NAMES = ("load", "parse", "check", "store", "close")
SOURCE = "".join(
    f"def {name}(value):\n    first = value\n    second = first\n    third = second\n    return third\n\n\n"
    for name in NAMES
).encode()


def replace(file: Path, old: bytes, new: bytes) -> None:
    data = file.read_bytes()
    assert old in data
    file.write_bytes(data.replace(old, new, 1))


@dataclass(frozen=True)
class Split:
    """A split of `name` in a repository, with one segment per function."""

    repo: GitRepo
    name: str
    folder: Path
    program: Callable[..., Done]

    def file(self, number: int) -> Path:
        return self.folder / f"{number:03}{Path(self.name).suffix}"

    def edit(self, number: int, old: bytes, new: bytes) -> None:
        replace(self.file(number), old, new)

    def join(self, *options: str, code: int | None = None) -> Done:
        done = self.program("--join", str(self.folder), *options)
        assert code in (None, done.code), done.err
        return done

    @property
    def source(self) -> Path:
        return self.repo.top / self.name

    def change(self, old: bytes, new: bytes) -> None:
        replace(self.source, old, new)

    def everything(self) -> object:
        """Everything that a refused join must not change."""
        files = {path.name: path.read_bytes() for path in self.folder.iterdir() if path.name != ".lock"}
        return self.source.read_bytes(), self.repo.head(), self.repo.git("ls-files", "-s"), files


MakeSplit = Callable[..., Split]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    def program(*arguments: str, cwd: Path | None = None) -> Done:
        if cwd is not None:
            monkeypatch.chdir(cwd)
        code = run(cli, "repoagent", ["split", *arguments])
        return Done(code, *capsys.readouterr())

    return program


@pytest.fixture
def make_split(repo: GitRepo, program: Callable[..., Done]) -> MakeSplit:
    def make_split(data: bytes = SOURCE, name: str = "src/big.py", target: int = 110) -> Split:
        repo.write(name, data)
        repo.commit("the file")
        done = program(name, "--target-bytes", str(target), "-o", "parts", cwd=repo.top)
        assert done.code == 0, done.err
        repo.write(".git/info/exclude", "parts\n")
        return Split(repo, name, repo.top / "parts", program)

    return make_split


@pytest.fixture
def split(make_split: MakeSplit) -> Split:
    return make_split()
