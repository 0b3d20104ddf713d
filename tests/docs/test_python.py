"""The Python examples of the page on the library are run, in their order, as one program in a repository that has what they name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.docs import stage

PAGE = Path(__file__).parents[2] / "docs/library.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.soak
def test_the_python_examples_run(repo: GitRepo, tmp_path: Path) -> None:
    """The model of the stage stands for the one that the page names; warnings are errors."""
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    env = {**os.environ, **stage.build(repo, tmp_path / "home", [])}
    program = "\n".join(blocks).replace("path/to/project", str(repo.top))
    program = re.sub(r'model="anthropic/[\w.-]+"', f"model={env['REPOAGENT_MODEL']!r}", program)
    before = repo.head()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "declined" not in done.stdout
    assert repo.head() != before
    assert repo.status() == ""
