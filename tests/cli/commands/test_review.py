"""`repoagent review` by hand, in a hook and in a pipeline."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.cli.apply_patch import Ask
from tests.conftest import GitRepo
from tests.review.builders import stage
from tests.review.checks.conftest import Made, made, mixed, noise, pairs

__all__ = ["made"]

Findings = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def review(in_process: Ask) -> Ask:
    """`repoagent review ARGUMENTS` in this process, at the top or in `cwd`."""
    return partial(in_process, "review", REPOAGENT_HISTORY__BACKGROUND="false")


@pytest.fixture
def pair(made: Made) -> GitRepo:
    """`api.py` and `api.md` always change together; `api.py` alone is staged."""
    repo = made(mixed(noise(50), pairs(12, "api.py", "api.md")))
    stage(repo, {"api.py": "new\n"})
    return repo


@pytest.fixture
def review_pair(pair: GitRepo, review: Ask) -> Ask:
    return partial(review, cwd=pair.top)


@pytest.fixture
def findings(review_pair: Ask) -> Findings:
    """The findings of `repoagent review --json ARGUMENTS`."""
    return lambda *arguments: review_pair("--json", *arguments).json["findings"]


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


def test_bad_input_is_one_sentence(repo: GitRepo, review: Ask) -> None:
    for arguments, sentence in WRONG:
        done = review(*arguments, stdin=b"hello\n")
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and sentence in done.err
    done = review()
    assert done.code == 0
    assert "nothing is staged; use `git add`, or --worktree to review the work tree" in done.err
    assert "none of the named files has changed" in review("--", "a.txt").err


@pytest.mark.soak
def test_levels_and_exit_codes(pair: GitRepo, review_pair: Ask, findings: Findings) -> None:
    assert [(one["rule"], one["level"]) for one in findings()] == [("partner-missing", "warning")]
    assert review_pair().code == 0
    assert review_pair("--fail-on", "warning").code == 1
    assert review_pair("--rule", "partner-missing=error").code == 1
    pair.git("config", "repoagent.review.rules.partner-missing", "note")
    assert review_pair("--fail-on", "warning").code == 0
    pair.write(".repoagent/config.toml", '[review]\nfail_on = "note"\nmodel = "command:touch stolen"\n')
    done = review_pair()
    assert done.code == 1
    assert "may not set review.model" in done.err and not (pair.top / "stolen").exists()


@pytest.mark.soak
def test_formats_pathspecs_and_a_dismissed_finding(
    pair: GitRepo, review_pair: Ask, findings: Findings
) -> None:
    for form in ("json", "sarif", "github", "gitlab", "markdown"):
        done = review_pair("--format", form)
        assert done.code == 0 and "api.md usually changes along with api.py" in done.out
    done = review_pair("--format", "sarif", "-o", "out.sarif", "--also", "json=r=1.json")
    assert (done.out, done.err) == ("", "written to out.sarif\nwritten to r=1.json\n")
    assert json.loads(pair.read("out.sarif"))["version"] == "2.1.0"
    assert json.loads(pair.read("r=1.json"))["findings"][0]["rule"] == "partner-missing"
    pair.write("deep/x.txt", "x\n")
    pair.git("add", "deep")
    deep = pair.top / "deep"
    assert "../api.py" in review_pair(cwd=deep).out
    none = "no findings in the staged change (6 rules, 1 file; no model asked)"
    assert review_pair("--", ".", cwd=deep).out.startswith(none)
    for paths in (["--", "*.py"], ["api.py"]):
        (finding,) = findings(*paths)
        assert finding["key"] == "api.md"
    done = review_pair("dismiss", finding["id"][:6], "--reason", "it is documented elsewhere")
    assert (done.code, done.err) == (0, f"dismissed: {finding['title']}\n")
    assert findings() == []
    assert "finding id '012' is too short" in review_pair("accept", "012").err
