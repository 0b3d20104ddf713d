"""A run with any failing system call ends with one sentence and the right exit code, and can be resumed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.fault_library import environment
from tests.crash.test_kill import DATE, ROOT, library

pytestmark = pytest.mark.soak

__all__ = ["library"]
ERRORS = ("ENOSPC", "ENOSPC+", "EIO+", "EROFS+", "EDQUOT+", "EMFILE")


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("scene", ["whole", "family", "each"])
def test_every_refusal(library: Path, tmp_path: Path, scene: str, error: str) -> None:
    """A sample of the calls, different for each error."""
    more = {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE, "PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
    first = str(5 * ERRORS.index(error))
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.run_fails", str(tmp_path), scene, error, "6", first],
        cwd=ROOT,
        env={**environment(library, tmp_path / "control"), **more, "PYTHONPATH": str(ROOT)},
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
