"""An edit with any failing system call ends with one sentence and the right exit code, and all is old or new."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.fault_library import environment
from tests.crash.test_kill import DATE, ROOT, library

pytestmark = pytest.mark.soak

__all__ = ["library"]
ERRORS = ("ENOSPC", "ENOSPC+", "EIO", "EIO+", "EROFS+", "EACCES", "EDQUOT+", "EFBIG", "EMFILE")


def failed(
    library: Path, folder: Path, scene: str, error: str, count: int, *, first: int = 0
) -> list[dict[str, Any]]:
    more = {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.fail", str(folder), scene, error, str(count), str(first)],
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


def test_full_disk(library: Path, tmp_path: Path) -> None:
    found = failed(library, tmp_path, "edit", "ENOSPC+", 8)
    assert {one["code"] for one in found} <= {0, 3, 6}
    assert any("No space left on device" in one["said"] for one in found)


@pytest.mark.soak
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("scene", ["three", "formatted", "no-commit", "undo", "revert"])
def test_every_refusal(library: Path, tmp_path: Path, scene: str, error: str) -> None:
    """A sample of the calls, different for each error."""
    failed(library, tmp_path, scene, error, 15, first=3 * ERRORS.index(error))
