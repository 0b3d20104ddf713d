"""The examples of the page: what they run is run, what they name exists."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from repoagent.review.report_formats import FORMATS
from tests.cli.commands.test_hook import change, history
from tests.conftest import GitRepo

__all__ = ["history"]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/hooks-and-ci.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def run(script: str, repo: GitRepo, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=repo.top, env={**os.environ, "PATH": path, "CI": "true", **env},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def branch(history: GitRepo) -> GitRepo:
    history.git("update-ref", "refs/remotes/origin/main", "main")
    history.git("switch", "-qc", "topic")
    change(history, "a.py")
    history.git("commit", "-qam", "alone")
    return history


def test_the_hooks_of_the_page_are_those_of_the_manifest() -> None:
    manifest = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    ids = [one["id"] for one in manifest]
    assert ids == ["repoagent-review", "repoagent-partners"]
    assert yaml.safe_load(blocks("yaml")[0])["repos"][0]["hooks"] == [{"id": ids[0]}]
    for one in manifest:
        assert f"`{one['id']}`" in PAGE
        assert one["entry"].startswith("repoagent hook run ") and not one["pass_filenames"]


def test_the_formats_of_the_page_are_those_there_are() -> None:
    last = PAGE[PAGE.index("`--format` is") :]
    assert re.findall(r"`(\w+)`", last)[: len(FORMATS)] == list(FORMATS)


@pytest.mark.soak
def test_the_job_for_gitlab(branch: GitRepo) -> None:
    documents = map(yaml.safe_load, blocks("yaml"))
    (job,) = [one["review"] for one in documents if isinstance(one, dict) and "review" in one]
    script = "\n".join(line for line in job["script"] if not line.startswith("pip install"))
    base = branch.git("rev-parse", "main").strip()
    done = run(script, branch, CI_MERGE_REQUEST_DIFF_BASE_SHA=base)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(branch.read(job["artifacts"]["reports"]["codequality"]))
    assert found["check_name"] == "repoagent/partner-missing" and found["location"]["path"] == "a.py"


@pytest.mark.soak
def test_the_lines_for_any_shell(branch: GitRepo) -> None:
    done = run(blocks("sh")[-1], branch)
    assert done.returncode == 0, done.stderr
    assert json.loads(branch.read("review.sarif"))["version"] == "2.1.0"
    assert branch.read("review.md").startswith(b"<!-- repoagent-review -->\n")


@pytest.mark.soak
def test_the_session_without_a_manager(history: GitRepo) -> None:
    (session,) = blocks("console")
    commands = [line[2:] for line in session.splitlines() if line.startswith("$ ")]
    told = "".join(
        f"$ {command}\n{(done := run(command, history)).stdout}{done.stderr}" for command in commands
    )
    assert told.replace(str(history.top), "/home/ada/project") == session
