"""Hostile answers through the whole program: many command lines, each in a process of its own."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.apply_patch import Done
from tests.edit.conftest import Run, Script, run, script

__all__ = ["run", "script"]  # fixtures

Attack = Callable[..., list[Done]]


@pytest.fixture
def attack(run: Run, script: Script) -> Attack:
    """For each of `answers` a `repoagent ARGS EACH` whose model gives that answer, once."""

    def attack(
        answers: Sequence[str], *args: str, each: Sequence[Sequence[str]] = (), **how: Any
    ) -> list[Done]:
        once = {"REPOAGENT_MAX_TURNS": "1", "REPOAGENT_MEMORY__ENABLED": "false", **how.pop("env", {})}
        ended = []
        for number, answer in enumerate(answers):
            script.replies(answer)
            ended.append(run(*args, *(each[number] if each else ()), env=once, **how))
        return ended

    return attack


def snapshot(*roots: Path) -> dict[str, tuple[object, ...]]:
    """Every file, link and folder below `roots` but what the program keeps for itself."""
    found: dict[str, tuple[object, ...]] = {}
    for root in roots:
        for folder, names, files in os.walk(root):
            if "/.git" in folder:
                names[:] = [name for name in names if name != "repoagent"]
            names[:] = [name for name in names if name not in {".repoagent", "model"}]
            for path in (Path(folder, name) for name in (*names, *files)):
                status = path.lstat()
                state: tuple[object, ...] = (stat.S_IFMT(status.st_mode),)
                if path.is_symlink():
                    state = (*state, str(path.readlink()))
                elif path.is_file():
                    state = (status.st_mode, status.st_ino, path.read_bytes())
                found[str(path)] = state
    return found


def create(path: str) -> str:
    return f"```diff\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x = 1\n```\n"


def modify(path: str, old: str, new: str) -> str:
    return f"```diff\n--- a/{path}\n+++ b/{path}\n@@\n-{old}\n+{new}\n```\n"


def rename(old: str, new: str, verb: str = "rename") -> str:
    header = f"diff --git a/{old} b/{new}\nsimilarity index 100%\n"
    return f"```diff\n{header}{verb} from {old}\n{verb} to {new}\n```\n"


def copy(old: str, new: str) -> str:
    return rename(old, new, "copy")


def delete(path: str) -> str:
    return f"```diff\ndiff --git a/{path} b/{path}\ndeleted file mode 100644\n```\n"


def whole(path: str) -> str:
    return f"```text {path}\nx = 1\n```\n"


def search(path: str) -> str:
    return f"{path}\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE\n"


def envelope(path: str) -> str:
    return f"*** Begin Patch\n*** Add File: {path}\n+x = 1\n*** End Patch\n"


FORMS = (create, whole, search, envelope, delete, lambda p: rename("a.txt", p), lambda p: copy("a.txt", p))
