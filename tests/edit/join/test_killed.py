"""A join that is killed at any point is finished by the next one, and never made twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.fault_library import build, environment

ROOT = Path(__file__).parents[3]


@pytest.mark.soak
def test_killed_at_many_events(tmp_path: Path) -> None:
    library = build(tmp_path)
    if library is None:
        pytest.skip("the fault library needs Linux and a C compiler")
    done = subprocess.run(
        [sys.executable, "-m", "tests.edit.join.killed", str(tmp_path / "work"), "7"],
        cwd=ROOT,
        env=environment(library, tmp_path / "control"),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "wrong:" not in done.stdout and int(done.stdout.split("kills:")[1].split()[0]) > 30, done.stdout
