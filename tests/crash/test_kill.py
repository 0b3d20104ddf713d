"""After a kill at any change on disk, by repoagent or git, the next command makes everything old or new."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.fault_library import build, environment
from tests.crash.scenes import SCENES

ROOT = Path(__file__).parents[2]
DATE = "2026-01-01T00:00:00Z"  # makes the commits of two runs the same


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = build(tmp_path_factory.mktemp("faults"))
    if library is None:
        pytest.skip("the fault library needs Linux and a C compiler")
    return library


def killed(library: Path, folder: Path, scene: str, every: int, part: int = 0) -> list[dict[str, Any]]:
    more = {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.kill", str(folder), scene, str(every), str(part)],
        cwd=ROOT,
        env={**environment(library, folder / "control"), **more},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"number"')]
    assert found
    wrong = [one for one in found if one["wrong"] or one["settled"] not in ([1, 1], [3, 3])]
    assert wrong == [], "\n".join(map(str, wrong[:3]))[:4000]
    return found


def test_killed_anywhere(library: Path, tmp_path: Path) -> None:
    """Kills at a few kinds of event; `make soak` kills at more, in each way."""
    found = killed(library, tmp_path, "three", 10_000, 7)
    assert {one["landed"] for one in found} == {True, False}


@pytest.mark.soak
@pytest.mark.parametrize("scene", ["formatted", "undo"])
def test_killed_here_and_there(library: Path, tmp_path: Path, scene: str) -> None:
    killed(library, tmp_path, scene, 10_000, 7)


@pytest.mark.soak
@pytest.mark.parametrize("scene", SCENES)
def test_killed_at_many_events_in_each_way(library: Path, tmp_path: Path, scene: str) -> None:
    """A sample; `python -m tests.crash.kill FOLDER SCENE 1` kills at each single event."""
    found = killed(library, tmp_path, scene, 1, 90)
    assert {one["landed"] for one in found} == {True, False}
    ways = {"killed", "all killed", "killed in a write"}
    if scene != "no-commit":  # git writes too little in it for a sample to meet it
        ways.add("killed while git goes on")
    assert {one["way"] for one in found} >= ways
