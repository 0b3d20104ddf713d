"""The throw-away repository: the files of `ledger/`, with a made-up history that ends today."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

DEMO = Path(__file__).resolve().parent
ACCOUNT, TEST, STATEMENT = "src/account.py", "tests/test_account.py", "src/statement.py"
HISTORY: tuple[tuple[int, str, tuple[str, ...]], ...] = (  # days ago, subject, changed files
    (30, "Start a ledger", ("README.md", "src/__init__.py", "tests/__init__.py")),
    (28, "Add accounts", (ACCOUNT, TEST)),
    (25, "Add deposits", (ACCOUNT, TEST)),
    (22, "Add withdrawals", (ACCOUNT, TEST)),
    (20, "Describe the settings", ("README.md",)),
    (18, "Record the entries of an account", (ACCOUNT, TEST, STATEMENT)),
    (15, "Refuse to overdraw an account", (ACCOUNT, TEST)),
    (13, "Print a statement", (STATEMENT,)),
    (11, "Name the owner in the error", (ACCOUNT, TEST)),
    (9, "Count in cents", (ACCOUNT, TEST, "README.md")),
    (7, "Add transfers", (ACCOUNT, TEST, STATEMENT)),
    (5, "Explain how to run the tests", ("README.md",)),
    (3, "Return the new balance", (ACCOUNT, TEST)),
    (1, "Document transfers", (ACCOUNT, TEST)),
)


def create(folder: Path) -> tuple[Path, dict[str, str]]:
    """Create the repository in `folder`; returns its path and the environment for commands in it."""
    top, env = folder / "ledger", _environment(folder)
    git = ["git", "-C", str(top)]
    subprocess.run(["git", "init", "--quiet", str(top)], env=env, check=True)
    subprocess.run([*git, "symbolic-ref", "HEAD", "refs/heads/main"], env=env, check=True)
    stream = b"".join(_fast_import(time.time()))
    subprocess.run([*git, "fast-import", "--quiet"], env=env, input=stream, check=True)
    subprocess.run([*git, "reset", "--quiet", "--hard"], env=env, check=True)
    (top / ".git/info/exclude").write_text("__pycache__/\n")
    return top, env


def _fast_import(now: float) -> Iterator[bytes]:
    """Each commit of a file has a few more of its lines; the last one has all of them."""
    commits, done = Counter(path for _, _, paths in HISTORY for path in paths), Counter[str]()
    for days, subject, paths in HISTORY:
        when = f"{now - days * 86_400:.0f} +0000"
        yield f"commit refs/heads/main\ncommitter A. Reader <reader@example.com> {when}\n".encode()
        yield f"data {len(subject)}\n{subject}\n".encode()
        for path in paths:
            done[path] += 1
            lines = (DEMO / "ledger" / path).read_bytes().splitlines(keepends=True)
            data = b"".join(lines[: len(lines) * done[path] // commits[path]])
            yield b"M 100644 inline %b\ndata %d\n%b\n" % (path.encode(), len(data), data)


def _environment(folder: Path) -> dict[str, str]:
    """The user's environment without their git and repoagent configuration; `repoagent` is that of these sources."""
    program = folder / "bin" / "repoagent"
    program.parent.mkdir()
    sources, python = shlex.quote(str(DEMO.parent)), shlex.quote(sys.executable)
    program.write_text(f'#!/bin/sh\nPYTHONPATH={sources}:$PYTHONPATH exec {python} -m repoagent "$@"\n')
    program.chmod(0o755)
    config = {
        "user.name": "A. Reader",
        "user.email": "reader@example.com",
        "repoagent.model": "replay:../cassette.jsonl",
        "repoagent.edit.format": "whole",  # as recorded
    }
    shutil.copy(DEMO / "cassette.jsonl", folder)
    for key, value in config.items():
        subprocess.run(["git", "config", "--file", str(folder / ".gitconfig"), key, value], check=True)
    dropped = ("GIT_", "REPOAGENT_", "ANTHROPIC_", "XDG_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    path = [str(program.parent), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return env | {
        "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "PAGER": "cat", "PATH": os.pathsep.join(path)
    }  # fmt: skip
