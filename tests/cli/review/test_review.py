"""`repoagent review` by hand, in a hook and in a pipeline."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import GitRepo
from tests.program import run
from tests.review.builders import stage
from tests.review.checks.conftest import Made, made, mixed, noise, pairs

__all__ = ["made"]

QUIET = {"REPOAGENT_HISTORY__BACKGROUND": "false"}


def review(cwd: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    done = run(["review", *arguments], cwd, env=QUIET, stdin=stdin)
    out, err = (data.decode("utf-8", "surrogateescape") for data in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(arguments, done.returncode, out, err)


def findings(cwd: Path, *arguments: str) -> list[dict[str, Any]]:
    done = review(cwd, "--json", *arguments)
    assert done.returncode in (0, 1), done.stderr
    result: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return result


@pytest.fixture
def pair(made: Made) -> GitRepo:
    """`api.py` and `api.md` always change together; `api.py` alone is staged."""
    repo = made(mixed(noise(50), pairs(12, "api.py", "api.md")))
    stage(repo, {"api.py": "new\n"})
    return repo


WRONG: tuple[tuple[list[str], str], ...] = (
    (["main"], "no such file: main, and it is not a range (A..B)"),
    (["nope..HEAD"], "no such commit: nope"),
    (["--commit", "nope"], "no such commit: nope"),
    (["--staged", "--worktree"], "--staged and --worktree cannot be combined"),
    (["HEAD~1..HEAD", "--base", "main"], "--base and HEAD~1..HEAD cannot be combined"),
    (["--rule", "nope=off"], "unknown rule 'nope'"),
    (
        ["--rule", "partner-missing=loud"],
        "use partner-missing=LEVEL, where LEVEL is one of off, note, warning, error",
    ),
    (["--format", "json", "-o", "src"], "src is a folder"),
    (["--format", "json", "-o", "no/where"], "no such folder"),
    (["--also", "text=x"], "use FORM=FILE, where FORM is json, sarif"),
    (["-o", "x"], "-o needs a --format other than text"),
    (["-"], "is not a unified diff"),
    (["--", "../outside"], "outside repository"),
    (["dismiss", "0123456789ab"], "there is no review yet"),
)


def test_bad_input_is_one_sentence(repo: GitRepo) -> None:
    for arguments, sentence in WRONG:
        done = review(repo.top, *arguments, stdin=b"hello\n")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert sentence in done.stderr


def test_nothing_staged_suggests_other_options(repo: GitRepo) -> None:
    done = review(repo.top)
    assert done.returncode == 0
    assert "nothing is staged; use `git add`, or --worktree to review the work tree" in done.stderr
    assert "none of the named files has changed" in review(repo.top, "--", "a.txt").stderr


@pytest.mark.soak
def test_levels_and_exit_codes(pair: GitRepo) -> None:
    assert [(one["rule"], one["level"]) for one in findings(pair.top)] == [("partner-missing", "warning")]
    assert review(pair.top).returncode == 0
    assert review(pair.top, "--fail-on", "warning").returncode == 1
    assert review(pair.top, "--rule", "partner-missing=error").returncode == 1
    pair.git("config", "repoagent.review.rules.partner-missing", "note")
    assert review(pair.top, "--fail-on", "warning").returncode == 0
    pair.write(".repoagent/config.toml", '[review]\nfail_on = "note"\nmodel = "command:touch stolen"\n')
    done = review(pair.top)
    assert done.returncode == 1
    assert "may not set review.model" in done.stderr and not (pair.top / "stolen").exists()


@pytest.mark.soak
def test_a_dismissed_finding_is_not_reported_again(pair: GitRepo) -> None:
    (finding,) = findings(pair.top)
    done = review(pair.top, "dismiss", finding["id"][:6], "--reason", "it is documented elsewhere")
    assert (done.returncode, done.stderr) == (0, f"dismissed: {finding['title']}\n")
    assert findings(pair.top) == []
    assert "finding id '012' is too short" in review(pair.top, "accept", "012").stderr


@pytest.mark.soak
def test_every_format_is_written(pair: GitRepo) -> None:
    for form in ("json", "sarif", "github", "gitlab", "markdown"):
        done = review(pair.top, "--format", form)
        assert done.returncode == 0 and "api.md usually changes along with api.py" in done.stdout
    done = review(pair.top, "--format", "sarif", "-o", "out.sarif", "--also", "json=r=1.json")
    assert (done.stdout, done.stderr) == ("", "written to out.sarif\nwritten to r=1.json\n")
    assert json.loads(pair.read("out.sarif"))["version"] == "2.1.0"
    assert json.loads(pair.read("r=1.json"))["findings"][0]["rule"] == "partner-missing"


@pytest.mark.soak
def test_from_a_folder_and_with_pathspecs(pair: GitRepo) -> None:
    pair.write("deep/x.txt", "x\n")
    pair.git("add", "-A")
    done = review(pair.top / "deep")
    assert "../api.py" in done.stdout
    assert review(pair.top / "deep", "--", ".").stdout.startswith(
        "no findings in the staged change (6 rules, 1 file; no model asked)"
    )
    assert findings(pair.top, "--", "*.py")[0]["key"] == "api.md"
    assert findings(pair.top, "api.py")[0]["key"] == "api.md"
