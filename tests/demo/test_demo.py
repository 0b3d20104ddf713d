"""The demo runs from its recording, and the files that the recording is bound to stay as they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from demo.scenes import README, STAGED, UNSTAGED
from repoagent.repo import blob_hash

TOP = Path(__file__).parents[2]


def test_the_recording_belongs_to_the_files_that_are_there() -> None:
    entries = [json.loads(line) for line in (TOP / "demo" / "cassette.jsonl").read_text().splitlines()]
    assert entries
    for entry in entries:
        for path, blob in json.loads(entry["key"])["files"].items():
            data = (TOP / path).read_bytes()
            if path == README:  # recorded with the two lines that the demo adds as the user's own work
                data += f"{STAGED}\n{UNSTAGED}\n".encode()
            assert blob_hash(data) == blob, f"{path} is not what the demo was recorded with"


def test_the_recording_says_nothing_of_the_machine_it_was_made_on() -> None:
    text = (TOP / "demo" / "cassette.jsonl").read_text()
    assert not re.search(r"/(tmp|home|root|Users|var|private)/|localhost|remotes: ", text)


def test_every_step_does_what_it_should(tmp_path: Path) -> None:
    done = play(TOP, tmp_path, NO_COLOR="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every step did what it should" in done.stdout
    assert "Reject negative amounts in deposit and withdraw" in done.stdout
    assert "failed with exit code 1" in done.stdout  # the first answer for demo/notes; the second one passes
    assert "\x1b" not in done.stdout
    assert list(tmp_path.iterdir()) == []  # nothing is left of it


@pytest.mark.soak
def test_a_release_archive_has_no_history_and_will_do(tmp_path: Path) -> None:
    sources, temporary = tmp_path / "sources", tmp_path / "tmp"
    shutil.copytree(TOP / "demo", sources / "demo", ignore=shutil.ignore_patterns("__pycache__"))
    temporary.mkdir()
    done = play(sources, temporary)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no history of their own" in done.stdout


@pytest.mark.soak
def test_a_live_model_that_fails_changes_nothing_and_gives_its_exit_code(tmp_path: Path) -> None:
    done = play(TOP, tmp_path, REPOAGENT_MODEL="command:echo I would rather not.")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("the model did not manage the edit: it made no edit") == 3
    assert "demo failed" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def play(sources: Path, temporary: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "demo"],
        cwd=sources,
        env={**os.environ, "TMPDIR": str(temporary), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
