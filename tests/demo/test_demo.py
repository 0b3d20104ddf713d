"""The demo runs from its recording, needs few packages and leaves nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from repoagent.git.files import blob_hash

TOP = Path(__file__).parents[2]
PYPROJECT = (TOP / "pyproject.toml").read_text()
DECLARED = re.findall(
    r'^  "(.*?)"', PYPROJECT.partition("\ndependencies = [")[2].partition("\n]")[0], re.MULTILINE
)
NEEDED = (TOP / "demo" / "requirements.txt").read_text().splitlines()[1:]


def test_the_recording_is_that_of_the_files_and_says_nothing_of_its_machine() -> None:
    recording = (TOP / "demo" / "cassette.jsonl").read_text()
    assert not re.search(r"/(tmp|home|root|Users|var|private)/|localhost|remotes: ", recording)
    (entry,) = map(json.loads, recording.splitlines())
    for path, blob in json.loads(entry["key"])["files"].items():
        data = (TOP / "demo" / "ledger" / path).read_bytes()
        assert blob_hash(data) == blob, f"{path} is not what the demo was recorded with"


def test_every_step_does_what_it_should_without_the_other_dependencies(tmp_path: Path) -> None:
    assert NEEDED and not {*NEEDED} - {*DECLARED}
    others = {re.split(r"[>;]", line)[0].lower() for line in DECLARED if line not in NEEDED}
    hidden = [
        module
        for module, packages in packages_distributions().items()
        if others.intersection(package.lower() for package in packages)
    ]
    assert {"anthropic", "kingfisher_sdk", "yaml"} <= set(hidden) and "rich" not in hidden
    for folder in (tmp_path / "hidden", tmp_path / "tmp"):
        folder.mkdir()
    for module in hidden:
        (tmp_path / "hidden" / f"{module}.py").write_text("raise ImportError('not installed')\n")
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(tmp_path / "hidden")}
    command = [sys.executable, "-m", "demo"]
    done = subprocess.run(command, cwd=TOP, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    for command in ("neighbors", "edit", "review", "undo"):
        assert f"\n$ repoagent {command}" in done.stdout
    assert "\nerror removed-symbol: transfer was removed" in done.stdout
    assert 'undid "Reject negative amounts in deposit and withdraw with ValueError"' in done.stdout
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("All steps had the expected result")
    assert len(lines) <= 77 and max(map(len, lines)) <= 80  # and three lines while it installs
    assert "\x1b" not in done.stdout
    assert list((tmp_path / "tmp").iterdir()) == []  # nothing is left of it
