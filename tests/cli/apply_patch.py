"""`repoagent apply` in its own process, for tests; and patches for the sample repository."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from repoagent.cli.app import cli
from repoagent.cli.run_program import run
from tests.conftest import GitRepo
from tests.program import run as run_program


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value

    @property
    def error(self) -> str:
        """The only line that a command printed, on standard error."""
        assert (self.out, self.err.count("\n")) == ("", 1), self
        return self.err


Ask = Here = Callable[..., Done]


@pytest.fixture
def in_process(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Ask:
    """Run `repoagent ARGUMENTS` in this process, at the top of `repo` or in `cwd`, with `env`, and `stdin` in a pipe;
    faster than a new process. It must end with `code`, if given."""

    def in_process(
        *arguments: str,
        cwd: Path | None = None,
        stdin: bytes | None = None,
        code: int | None = None,
        **env: str,
    ) -> Done:
        monkeypatch.chdir(cwd or request.getfixturevalue("repo").top)
        with monkeypatch.context() as patch, ExitStack() as opened:
            if stdin is not None:
                reader, writer = os.pipe()
                os.write(writer, stdin)
                os.close(writer)
                patch.setattr("sys.stdin", opened.enter_context(os.fdopen(reader)))
            for name, value in env.items():
                patch.setenv(name, value)
            done = Done(run(cli, "repoagent", arguments), *capsys.readouterr())
        assert code in (None, done.code), done
        return done

    return in_process


def apply(cwd: Path, patch: str | bytes, *options: str) -> Done:
    """`repoagent apply OPTIONS` in `cwd` with the patch on standard input."""
    data = patch.encode() if isinstance(patch, str) else patch
    return program(cwd, "apply", *options, stdin=data)


def program(cwd: Path, *arguments: str, stdin: bytes = b"") -> Done:
    """Run `repoagent ARGUMENTS` in `cwd`, without a terminal."""
    done = run_program(arguments, cwd, stdin=stdin)
    return Done(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def diff(path: str, *lines: str) -> str:
    """A bare diff of a file with one hunk, with or without line numbers."""
    return "\n".join([f"--- a/{path}", f"+++ b/{path}", *lines, ""])


def made(path: str, *lines: str) -> str:
    """A diff that creates a file."""
    added = [f"+{line}" for line in lines]
    return "\n".join(["--- /dev/null", f"+++ b/{path}", f"@@ -0,0 +1,{len(lines)} @@", *added, ""])


GREET = diff(
    "src/app.py",
    "@@ -1,2 +1,2 @@",
    " def greet(name):",
    "-    return 'hello ' + name",
    "+    return f'hello, {name}'",
)
TWO = diff("a.txt", "@@ -1,3 +1,3 @@", " line 1", "-line 2", "+line two", " line 3")


@pytest.fixture
def here(tmp_path: Path, repo: GitRepo, in_process: Ask) -> Here:
    """`repoagent apply fix.patch OPTIONS` in this process, at the top or in `cwd`, which must end with `code`."""

    def here(patch: str | bytes, *options: str, cwd: Path | None = None, code: int | None = None) -> Done:
        file = tmp_path / "fix.patch"
        file.write_bytes(patch if isinstance(patch, bytes) else patch.encode())
        return in_process("apply", os.path.relpath(file, cwd or repo.top), *options, cwd=cwd, code=code)

    return here
