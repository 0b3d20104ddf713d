"""The action of GitHub, run step by step on clones of a repository as a checkout leaves them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ci import runner
from tests.ci.runner import Job
from tests.cli.commands.test_hook import PARTNER, change, history
from tests.conftest import GitRepo

__all__ = ["history"]

MISSING = "test_a.py usually changes along with a.py"
Act = Callable[..., Job]


@pytest.fixture
def pull(history: GitRepo) -> GitRepo:
    """The repository on the other side, with a branch `topic` whose merge is the pull request 7."""
    history.git("config", "uploadpack.allowAnySHA1InWant", "true")
    history.git("switch", "-qc", "topic")
    change(history, "a.py")
    history.git("commit", "-qam", "alone")
    merge_topic(history)
    history.git("switch", "-q", "main")
    return history


def merge_topic(there: GitRepo) -> None:
    tree = there.git("rev-parse", "topic^{tree}").strip()
    merge = there.git("commit-tree", tree, "-p", "main", "-p", "topic", "-m", "Merge").strip()
    there.git("update-ref", "refs/pull/7/merge", merge)


def event(there: GitRepo, *, fork: bool = False) -> dict[str, object]:
    """The parts of a recorded pull_request event that count."""
    base, head = there.git("rev-parse", "main", "topic").split()
    request = {
        "number": 7,
        "base": {"ref": "main", "sha": base},
        "head": {"ref": "topic", "sha": head, "repo": {"fork": fork}},
    }
    repository = {"default_branch": "main", "full_name": "owner/repo"}
    return {"action": "synchronize", "number": 7, "pull_request": request, "repository": repository}


@pytest.fixture
def act(tmp_path: Path) -> Act:
    """Check `ref` of a repository out with `depth` (0 for all), and run the action there."""

    def run(
        there: GitRepo, *, depth: int = 0, ref: str = "refs/pull/7/merge", told: dict[str, object] | None = None,
        base_ref: str = "main", folder: str = "", env: dict[str, str] | None = None, **inputs: str,
    ) -> Job:  # fmt: skip
        workspace = tmp_path / "workspace"
        here = GitRepo(workspace / folder)
        here.top.mkdir(parents=True)
        here.git("init", "-q")
        here.git("remote", "add", "origin", f"file://{there.top}")
        limit = [f"--depth={depth}"] if depth else []
        refs = [f"+{ref}:refs/remotes/pull/7/merge"]
        refs += [] if depth else ["+refs/heads/*:refs/remotes/origin/*"]
        here.git("fetch", "-q", "--no-tags", *limit, "origin", *refs)
        here.git("checkout", "-q", "--detach", "refs/remotes/pull/7/merge")
        recorded = tmp_path / "event.json"
        recorded.write_text(json.dumps(event(there) if told is None else told))
        names = {
            "GITHUB_EVENT_PATH": str(recorded),
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_BASE_REF": base_ref,
        }
        given = {
            "python": {"python-path": sys.executable},
            "install": {"program": str(Path(sys.executable).with_name("repoagent"))},
        }
        return runner.run(
            workspace, tmp_path / "temp",
            inputs={"path": folder or ".", **{key.replace("_", "-"): value for key, value in inputs.items()}},
            env={**names, **(env or {})}, given=given,
        )  # fmt: skip

    return run


@pytest.mark.soak
def test_a_pull_request_gets_annotations_a_summary_and_files(pull: GitRepo, act: Act) -> None:
    job = act(pull)
    assert (job.code, job.failed) == (0, ""), job.log
    (line,) = [line for line in job.log.splitlines() if line.startswith("::")]
    assert line.startswith("::warning file=a.py,title=partner-missing%3A ") and MISSING in line
    assert job.summary.startswith("<!-- repoagent-review -->\n### Review of ")
    assert "partner-missing" in job.summary
    assert job.output("findings") == "1" and job.output("worst") == "warning"
    run = json.loads(Path(job.output("sarif")).read_bytes())["runs"][0]
    assert [result["ruleId"] for result in run["results"]] == ["partner-missing"]
    assert Path(job.output("markdown")).read_text() == job.summary
    assert json.loads(Path(job.output("json")).read_bytes())["findings"][0]["path"] == "a.py"


@pytest.mark.soak
def test_findings_of_the_level_fail_the_last_step_after_all_was_told(pull: GitRepo, act: Act) -> None:
    rules = "secret=off\n\n debug-leftover = off\n"
    job = act(pull, fail_on="warning", annotations="false", summary="false", rules=rules)
    assert job.failed == "Verdict" and "findings at level warning or above" in job.log
    assert "::" not in job.log and job.summary == "" and job.output("findings") == "1"


@pytest.mark.soak
def test_a_shallow_checkout_is_noticed_and_left_as_it_is(pull: GitRepo, act: Act) -> None:
    job = act(pull, depth=1)
    assert job.code == 0 and job.output("findings") == "0"
    assert "::notice title=repoagent::the checkout is shallow" in job.log
    assert "::warning title=repoagent::nothing was reviewed" in job.log


@pytest.mark.soak
@pytest.mark.parametrize("deepen", ["100", "all"])
def test_a_shallow_checkout_is_deepened_on_request(pull: GitRepo, act: Act, deepen: str) -> None:
    job = act(pull, depth=1, deepen=deepen)
    assert job.code == 0 and job.output("findings") == "1" and MISSING in job.log, job.log


@pytest.mark.soak
@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"deepen": "-1; echo x"}, "deepen must be a number of commits, or all"),
        ({"rules": "nothing=off"}, "partner-missing"),
        ({"rules": "partner-missing"}, "partner-missing"),
    ],
)
def test_a_wrong_input_fails(pull: GitRepo, act: Act, inputs: dict[str, str], sentence: str) -> None:
    job = act(pull, depth=1 if "deepen" in inputs else 0, **inputs)
    assert sentence in job.log and job.code != 0


@pytest.mark.soak
def test_a_fork_has_no_key_and_history_is_asked_all_the_same(pull: GitRepo, act: Act) -> None:
    fork, key = event(pull, fork=True), {"ANTHROPIC_API_KEY": ""}
    job = act(pull, told=fork, model="anthropic/claude-sonnet-5-5", env=key)
    assert job.code == 0 and job.output("findings") == "1", job.log
    assert "is incomplete: no key for Anthropic's models" in job.log


@pytest.mark.soak
@pytest.mark.parametrize(("before", "folder"), [("main", ""), ("", "sub dir")], ids=["branch", "new branch"])
def test_a_push_is_compared_with_its_base(pull: GitRepo, act: Act, before: str, folder: str) -> None:
    sha = pull.git("rev-parse", before).strip() if before else "0" * 40
    told: dict[str, object] = {"before": sha, "after": "x", "repository": {"default_branch": "main"}}
    job = act(pull, ref="refs/heads/topic", told=told, base_ref="", folder=folder)
    assert job.output("findings") == "1", job.log


@pytest.mark.soak
@pytest.mark.parametrize("base", ["origin/main", "--output=x", "nowhere"])
def test_a_base_is_used_if_it_exists(pull: GitRepo, act: Act, base: str) -> None:
    job = act(pull, base=base, told={})
    assert (job.code, job.output("findings")) == (0, "1" if base == "origin/main" else "0")


@pytest.mark.soak
def test_hostile_names_and_subjects_are_no_commands(act: Act, pull: GitRepo) -> None:
    pull.git("switch", "-q", "topic")
    pull.write("::error::x\n::set-output name=y::z", "1")
    code = "print('::warning file=x::a file of the change was run')\nraise SystemExit(9)\n"
    for name in ("json", "os", "re", "repoagent", "encodings"):
        pull.write(f"{name}.py", code)
    pull.git("add", "-A")
    pull.git("commit", "-qm", "::error::forged\n\n::add-mask::x")
    merge_topic(pull)
    job = act(pull)
    assert job.code == 0 and "was run" not in job.log, job.log
    commands = [line for line in job.log.splitlines() if line.startswith("::")]
    assert commands
    assert all(re.match(r"::(notice|warning) (file=|title=repoagent)", line) for line in commands), commands


def test_what_is_used_is_pinned_and_what_is_said_is_described() -> None:
    told = runner.action()
    uses = [step["uses"] for step in told["runs"]["steps"] if "uses" in step]
    assert uses and all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one) for one in uses)
    page = (runner.ACTION.parent / "docs/hooks-and-ci.md").read_text()
    for kind in ("inputs", "outputs"):
        for name, one in told[kind].items():
            assert one["description"].strip().endswith(".") and f"`{name}`" in page, name
    for step in told["runs"]["steps"]:
        if "run" in step:
            assert "${{" not in step["run"]  # the shell would read what a stranger has named a branch
            pythons = re.findall(r'python"|"\$PYTHON"', step["run"])
            assert len(pythons) == len(re.findall(r'(?:python"|"\$PYTHON") -I ', step["run"]))
            assert subprocess.run(["bash", "-n"], input=step["run"].encode(), check=False).returncode == 0


@pytest.mark.soak
def test_the_first_step_installs_what_the_others_run(tmp_path: Path) -> None:
    """From a package index, as everywhere."""
    (step,) = [step for step in runner.action()["runs"]["steps"] if step.get("id") == "install"]
    env = {
        **os.environ, "PYTHON": sys.executable, "SOURCE": str(runner.ACTION.parent), "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }  # fmt: skip
    subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], env=env, check=True)
    program = (tmp_path / "output").read_text().strip().removeprefix("program=")
    done = subprocess.run([program, "review", "--help"], capture_output=True, text=True, check=True)
    assert "--fail-on" in done.stdout and PARTNER
