"""Hostile answers through the whole program: many command lines, each in a process of its own."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.program import run


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Attack = Callable[..., list[Ended]]


@pytest.fixture
def attack(repo: GitRepo, tmp_path: Path) -> Attack:
    """For each of `answers` a `repoagent ARGS EACH` whose model gives that answer, once."""

    def attack(
        answers: Sequence[str | bytes],
        *args: str,
        each: Sequence[Sequence[str]] = (),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> list[Ended]:
        folder = tmp_path / "attack"
        folder.mkdir(exist_ok=True)
        ended = []
        for number, answer in enumerate(answers):
            data = answer if isinstance(answer, bytes) else answer.encode("utf-8", "surrogateescape")
            (folder / f"answer-{number}").write_bytes(data)
            model = {"REPOAGENT_MODEL": f"command:cat {folder}/answer-{number}", "REPOAGENT_MAX_TURNS": "1"}
            given = {"REPOAGENT_MEMORY__ENABLED": "false", **model, **(env or {})}
            done = run([*args, *(each[number] if each else ())], cwd or repo.top, env=given)
            out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
            ended.append(Ended(done.returncode, out, err))
        return ended

    return attack


def snapshot(*roots: Path) -> dict[str, tuple[object, ...]]:
    """Every file, link and folder below `roots` but what the program keeps for itself."""
    found: dict[str, tuple[object, ...]] = {}
    for root in roots:
        for folder, names, files in os.walk(root):
            if "/.git" in folder:
                names[:] = [name for name in names if name != "repoagent"]
            names[:] = [name for name in names if name not in {".repoagent", "attack", "model"}]
            for name in (*names, *files):
                path = Path(folder, name)
                found[str(path)] = _state(path)
    return found


def _state(path: Path) -> tuple[object, ...]:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return ("link", str(path.readlink()))
    if stat.S_ISREG(status.st_mode):
        return (status.st_mode, status.st_ino, path.read_bytes())
    return (stat.S_IFMT(status.st_mode),)


def create(path: str, body: str = "x = 1\n") -> str:
    lines = "".join(f"+{line}\n" for line in body.splitlines())
    return f"```diff\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n{lines}```\n"


def modify(path: str, old: str, new: str) -> str:
    return f"```diff\n--- a/{path}\n+++ b/{path}\n@@\n-{old}\n+{new}\n```\n"


def rename(old: str, new: str) -> str:
    return f"```diff\ndiff --git a/{old} b/{new}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n```\n"


def copy(old: str, new: str) -> str:
    return (
        f"```diff\ndiff --git a/{old} b/{new}\nsimilarity index 100%\ncopy from {old}\ncopy to {new}\n```\n"
    )


def delete(path: str) -> str:
    return f"```diff\ndiff --git a/{path} b/{path}\ndeleted file mode 100644\n```\n"


def whole(path: str, body: str = "x = 1\n") -> str:
    return f"```text {path}\n{body}```\n"


def search(path: str, body: str = "x = 1\n") -> str:
    return f"{path}\n<<<<<<< SEARCH\n=======\n{body}>>>>>>> REPLACE\n"


def envelope(path: str, body: str = "x = 1\n") -> str:
    lines = "".join(f"+{line}\n" for line in body.splitlines())
    return f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"
