"""A run that is killed at any change on disk, by repoagent or git, and resumed, ends like an undisturbed one.

The user's work is complete at all times, there is one commit, and no model call is repeated.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.fault_library import environment
from tests.crash.test_kill import DATE, ROOT, library

__all__ = ["library"]


def killed(library: Path, folder: Path, scene: str, every: int, part: int = 0) -> list[dict[str, Any]]:
    more = {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE, "PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.runs", str(folder), scene, str(every), str(part)],
        cwd=ROOT,
        env={**environment(library, folder / "control"), **more, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"number"')]
    assert found
    wrong = [one for one in found if one["wrong"]]
    assert wrong == [], "\n".join(map(str, wrong[:3]))[:4000]
    return found


def test_killed_anywhere(library: Path, tmp_path: Path) -> None:
    """Kills at a few kinds of event; `make soak` kills at more, in each way."""
    found = killed(library, tmp_path, "whole", 10_000, 2)
    assert any(one["code"] != 0 for one in found)


@pytest.mark.soak
@pytest.mark.parametrize("scene", ["whole", "family", "each"])
def test_killed_at_each_kind_of_event(library: Path, tmp_path: Path, scene: str) -> None:
    """`python -m tests.crash.runs FOLDER SCENE 1` kills at each single event, in each way."""
    found = killed(library, tmp_path, scene, 3)
    assert {one["way"] for one in found} >= {"killed", "all killed", "killed in a write", "SIGTERM", "^C"}
