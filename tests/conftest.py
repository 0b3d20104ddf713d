"""Shared fixtures: real git repositories in temporary folders, made the way people make them."""

from __future__ import annotations

import gc
import itertools
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from repoagent.storage import layout

# A slow machine is no defect: an example may take its time, and be made slowly.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    """Under `nohup`, or in the background of a script, signals are ignored, and each program that a test starts would
    inherit that. A handler is not inherited: SIGINT gets Python's own, which tests of ^C rely on, the others one that
    does nothing."""
    if config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ:
        return  # the workers run the tests: let them inherit it
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            interrupts = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if interrupts else lambda number, frame: None)


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than processors: tests wait for timers and terminals a quarter of their time."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_finish() -> None:
    """What the tests and their modules consist of stays: a collection of garbage need not look at it, nor be frequent."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


class GitRepo:
    """A real repository under test. Methods do what the git command of the same name does."""

    def __init__(self, top: Path) -> None:
        self.top = top

    def git(self, *args: str, ok: bool = True, stdin: bytes | None = None) -> str:
        done = subprocess.run(["git", *args], cwd=self.top, input=stdin, capture_output=True, check=False)
        if ok and done.returncode:
            raise AssertionError(f"git {args}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode("utf-8", "surrogateescape")

    def write(self, path: str, content: bytes | str) -> Path:
        target = self.top / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def read(self, path: str) -> bytes:
        return (self.top / path).read_bytes()

    def commit(self, message: str = "change", **files: bytes | str) -> str:
        """Write `files` (names with `__` for `/` and `_dot_` for `.` are not supported: use write), add all, commit."""
        for path, content in files.items():
            self.write(path, content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.head()

    def head(self) -> str:
        """The commit of HEAD; read from the ref's file if there is one, which takes no process."""
        ref = folder = self.top / ".git"
        if folder.is_dir():
            ref = folder / (folder / "HEAD").read_text().removeprefix("ref: ").strip()
        commit = ref.read_text().strip() if ref.is_file() else ""
        return commit if len(commit) in (40, 64) else self.git("rev-parse", "HEAD").strip()

    def status(self) -> str:
        return self.git("status", "--porcelain=v1", "--untracked-files=all")

    def hook(self, name: str, script: str) -> Path:
        path = self.top / ".git" / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        return path


_FOREIGN = (
    "GIT_", "REPOAGENT_", "ANTHROPIC_", "OPENAI_", "OLLAMA_", "AWS_", "GOOGLE_", "CLOUD_ML_", "XDG_STATE", "XDG_CACHE",
)  # fmt: skip
_numbers = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder. pytest's own lists all folders of the session for each new one."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}{next(_numbers)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(autouse=True)
def clean_environment(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A test sees no git identity, configuration or key of the developer, and no GIT_DIR of a hook that runs the tests.

    Yields the home folder.
    """
    before = set(os.environ)
    for name in list(os.environ):
        if name.startswith(_FOREIGN) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    for name in ("NO_COLOR", "EDITOR", "VISUAL", "PYTHONUNBUFFERED"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path_factory.getbasetemp() / f"home{next(_numbers)}"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ada Tester\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"
        "[commit]\n\tgpgsign = false\n[core]\n\teditor = false\n"
        "[maintenance]\n\tauto = false\n"  # a third of the time of each commit
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    # compiled once for all sessions of the user, since it takes seconds
    session = tmp_path_factory.getbasetemp()
    rules = next((f for f in session.parents if f.name.startswith("pytest-of-")), session.parent) / "rules"
    rules.mkdir(exist_ok=True)
    monkeypatch.setenv("KF_RULE_CACHE_DIR", str(rules))
    monkeypatch.setattr(layout, "_redirect", [])  # where the library sends its warnings
    yield home
    for name in set(os.environ) - before:  # `open_worktree` may set GIT_WORK_TREE
        del os.environ[name]


@pytest.fixture
def make_repo(tmp_path: Path) -> Callable[[str], GitRepo]:
    def make(name: str = "repo") -> GitRepo:
        top = tmp_path / name
        top.mkdir(parents=True)
        repo = GitRepo(top)
        repo.git("init", "-q")
        return repo

    return make


@pytest.fixture
def repo(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, clean_environment: Path) -> GitRepo:
    """A repository with one commit: `a.txt` of ten numbered lines, `src/app.py`, and a README.

    It is a copy of one that is made once; git has looked at every file of the copy.
    """
    template = tmp_path_factory.getbasetemp() / "template"
    if not template.exists():
        _make_sample(GitRepo(template))
    shutil.copytree(template, tmp_path / "repo")
    repo = GitRepo(tmp_path / "repo")
    repo.git("update-index", "-q", "--refresh")
    return repo


def _make_sample(repo: GitRepo) -> None:
    repo.top.mkdir()
    repo.git("init", "-q")
    for sample in (repo.top / ".git/hooks").glob("*.sample"):
        sample.unlink()
    repo.write("a.txt", "".join(f"line {n}\n" for n in range(1, 11)))
    repo.write(
        "src/app.py",
        "def greet(name):\n    return 'hello ' + name\n\n\ndef main():\n    print(greet('world'))\n",
    )
    repo.write("README.md", "# Sample\n\nA small repository.\n")
    repo.commit("first commit")
