"""`repoagent context`: the prompt as text and as JSON."""

from __future__ import annotations

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script


@pytest.mark.soak
def test_it_shows_the_prompt_of_an_edit_without_a_model(repo: GitRepo, run: Run, script: Script) -> None:
    repo.commit("rules", **{"AGENTS.md": "Be kind.\n"})
    nobody = {"REPOAGENT_MODEL": "anthropic/claude-sonnet-5-5"}
    result = run("context", "src/app.py", "greet with a comma", "--json", env=nobody).json
    same = run("edit", "src/app.py", "greet with a comma", "--show-prompt", "--json", env=nobody).json
    assert result["version"] == 1 and result["blocks"] == same["blocks"]
    assert result["tokens"] == sum(block["tokens"] for block in result["blocks"])
    assert [block["name"] for block in result["blocks"] if block["cache"]] == [
        "context AGENTS.md", "file src/app.py",
    ]  # fmt: skip
    assert [block["name"] for block in result["blocks"] if not block["cached"]] == [
        "subjects", "rules", "request",
    ]  # fmt: skip
    full = run("context", "src/app.py", "greet with a comma", "--full", env=nobody)
    assert full.out == "".join(block["text"] for block in result["blocks"])
    assert script.prompts == [] and not (repo.top / ".repoagent/memory").exists()


@pytest.mark.soak
def test_errors_are_one_sentence_and_the_number_of_masked_keys_is_shown(repo: GitRepo, run: Run) -> None:
    assert run("context").code == 2
    assert "no such file: gone.py" in run("context", "gone.py", "with some words").err
    repo.write("bin.dat", b"a\0b")
    assert "binary" in run("context", "bin.dat").err
    repo.write(".repoagentignore", "a.txt\n")
    assert run("context", "a.txt").code == 3
    key = "glp" + "at-" + "u8jzPde0IgxLd6GncfBA"
    repo.commit("key", **{"c.py": f"A = '{key}'\nB = '{key}'\nC = '<<secret 00000000>>'\n"})
    assert "1 key or token masked" in run("context", "c.py").err
    assert key not in run("context", "c.py", "--full").out
