"""The fixtures of the tests of commands."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.cli.apply_patch import Ask, Done, here, in_process
from tests.edit.conftest import Run, Script, screen, script

__all__ = ["here", "in_process", "screen", "script"]


@pytest.fixture
def ask(request: pytest.FixtureRequest, in_process: Ask) -> Ask:
    """`repoagent COMMAND ARGUMENTS` in this process, at the top or in `cwd`, for the tests in test_COMMAND.py."""
    return partial(in_process, request.module.__name__.rpartition("test_")[2])


@pytest.fixture
def run(in_process: Ask, script: Script) -> Run:
    """`repoagent ARGS` in this process with the scripted model; input is empty by default."""

    def run(*args: str, stdin: str = "", env: dict[str, str] | None = None, **more: Any) -> Done:
        model = {"REPOAGENT_MODEL": script.spec, **(env or {})}
        return in_process(*args, stdin=stdin.encode("utf-8", "surrogateescape"), **model, **more)

    return run
