"""Record once, replay anywhere: the same commit without a call, or an error that names the difference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script


@pytest.mark.soak
def test_record_and_replay_on_a_clone(
    repo: GitRepo, edit: Run, run: Run, script: Script, tmp_path: Path
) -> None:
    repo.git("clone", "-q", str(repo.top), str(tmp_path / "clone"))
    clone = GitRepo(tmp_path / "clone")
    tape = tmp_path / "tape.jsonl"
    command = ("edit", "src/app.py", "greet with a comma", "--yes")
    script.replies('<read path="README.md"/>\n', "<commit>Greet\n\nBetter.</commit>\n" + GREET)
    assert run(*command, "--record", str(tape)).code == 0
    script.replies()
    done = run(*command, "--model", f"replay:{tape}", "--json", cwd=clone.top, code=0)
    assert script.prompts == []
    assert clone.git("rev-parse", "HEAD^{tree}") == repo.git("rev-parse", "HEAD^{tree}")
    for place in (repo, clone):
        message = place.git("log", "-1", "--format=%B").partition("Repoagent-Edit:")[0]
        assert message == "Greet\n\nBetter.\n\nAssisted-by: repoagent:command:sh\n"
    assert done.json["usage"]["calls"] == 2
    clone.git("reset", "-q", "--hard", "HEAD^")
    clone.write("src/app.py", clone.read("src/app.py") + b"# mine\n")
    for request in ("greet with a comma", "other words"):
        done = edit("--model", f"replay:{tape}", request=request, cwd=clone.top, code=4)
        assert "has no reply to this request" in done.err
    assert json.loads(tape.read_text().splitlines()[0])["reply"].startswith("<read")
