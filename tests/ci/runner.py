"""A small runner of a composite action: its `run` steps with bash, as GitHub runs them, and what they leave behind."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ACTION = Path(__file__).parents[2] / "action.yml"
_EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")


@dataclass
class Job:
    """One run of the action. `log` is what its steps have written, `code` that of the step which failed, or 0."""

    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    log: str = ""
    summary: str = ""
    code: int = 0
    failed: str = ""

    def output(self, name: str) -> str:
        """An output of the action."""
        return _filled(action()["outputs"][name]["value"], {}, self.outputs)


def action() -> dict[str, Any]:
    loaded = yaml.safe_load(ACTION.read_text())
    assert isinstance(loaded, dict)
    return loaded


def run(
    workspace: Path,
    temp: Path,
    *,
    inputs: Mapping[str, str],
    env: Mapping[str, str],
    given: Mapping[str, Mapping[str, str]],
) -> Job:
    """Run the steps in `workspace`. `given` are the outputs of steps that are not run: those with `uses`, and what is
    slow. `env` has what GitHub sets for the event."""
    told = action()
    values = {name: one.get("default", "") for name, one in told["inputs"].items()}
    assert set(inputs) <= set(values), "no such input"
    values.update(inputs)
    job = Job(outputs={name: dict(one) for name, one in given.items()})
    temp.mkdir(parents=True, exist_ok=True)
    files = {
        name: temp / name.lower()
        for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV", "GITHUB_PATH")
    }
    for step in told["runs"]["steps"]:
        name = step.get("id") or step["name"]
        if "uses" in step or name in given:
            continue
        for file in files.values():
            file.write_text("")
        own = {key: _filled(str(value), values, job.outputs) for key, value in step.get("env", {}).items()}
        where = workspace / _filled(step.get("working-directory", "."), values, job.outputs)
        assert step["shell"] == "bash" and "${{" not in step["run"], (
            "a script takes nothing but its environment"
        )
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=where,
            env={
                **os.environ, **env, **{key: str(path) for key, path in files.items()}, "CI": "true",
                "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(workspace), "RUNNER_TEMP": str(temp), **own,
            },
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        job.log += done.stdout.decode("utf-8", "replace")
        job.summary += files["GITHUB_STEP_SUMMARY"].read_text("utf-8")
        lines = files["GITHUB_OUTPUT"].read_text().splitlines()
        job.outputs.setdefault(name, {}).update(line.split("=", 1) for line in lines)
        if done.returncode:
            job.code, job.failed = done.returncode, name
            break
    return job


def _filled(text: str, inputs: Mapping[str, str], outputs: Mapping[str, Mapping[str, str]]) -> str:
    def value(match: re.Match[str]) -> str:
        parts = match[1].split(".")
        if parts[0] == "inputs":
            return inputs[parts[1]]
        if parts[0] == "steps" and parts[2] == "outputs":
            return outputs.get(parts[1], {}).get(parts[3], "")
        if match[1] == "github.action_path":
            return str(ACTION.parent)
        raise AssertionError(f"the runner does not know {match[1]}")

    return _EXPRESSION.sub(value, text)
