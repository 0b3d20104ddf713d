"""The demo runs from its recording, and the files that the recording is bound to stay as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from repoagent.repo import blob_hash

TOP = Path(__file__).parents[2]


def test_the_recording_belongs_to_the_files_that_are_there() -> None:
    entries = [json.loads(line) for line in (TOP / "demo" / "cassette.jsonl").read_text().splitlines()]
    assert entries
    for entry in entries:
        for path, blob in json.loads(entry["key"])["files"].items():
            data = (TOP / path).read_bytes()
            if path.endswith(
                "README.md"
            ):  # recorded with the two lines that the demo adds as the user's own work
                from demo.scenes import STAGED, UNSTAGED

                data += f"{STAGED}\n{UNSTAGED}\n".encode()
            assert blob_hash(data) == blob, f"{path} is not what the demo was recorded with"


def test_every_step_does_what_it_should(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "demo"],
        cwd=TOP,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every step did what it should" in done.stdout
    assert "Reject negative amounts in deposit and withdraw" in done.stdout
    assert list(tmp_path.iterdir()) == []  # nothing is left of it
