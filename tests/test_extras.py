"""How an optional dependency is installed: as repoagent itself was, by pip, pipx or uv."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import repoagent
from repoagent.config.layers import parse_toml
from repoagent.errors import install_extra, install_package

# as pipx 1.18 and uv 0.13 write them
PIPX = ("pipx_metadata.json", '{"main_package": {"package": "git-repoagent"}}')
UV = ("uv-receipt.toml", '[tool]\nrequirements = [{ name = "git-repoagent" }]\n')


@pytest.mark.parametrize(
    ("file", "extra", "package"),
    [
        (None, "pip install 'git-repoagent[local]'", "pip install tree-sitter-swift"),
        (
            PIPX, "pipx inject git-repoagent 'git-repoagent[local]'", "pipx inject git-repoagent tree-sitter-swift",
        ),
        (
            UV, "uv tool install 'git-repoagent[local]'", "uv tool install git-repoagent --with tree-sitter-swift",
        ),
    ],
)  # fmt: skip
def test_the_command_fits_the_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: tuple[str, str] | None, extra: str, package: str
) -> None:
    if file is not None:
        (tmp_path / file[0]).write_text(file[1])
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert (install_extra("local"), install_package("tree-sitter-swift")) == (extra, package)


def test_no_message_names_pip_itself() -> None:
    root = Path(repoagent.__file__).parent
    for file in root.rglob("*.py"):
        if file.name == "errors.py":
            continue
        tree = ast.parse(file.read_text("utf-8"))
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        named = [text for text in texts if isinstance(text, str) and "pip install" in text]
        assert not [text for text in named if "no network" not in text], file


def test_the_pages_name_extras_that_exist() -> None:
    top = Path(__file__).parents[1]
    extras = parse_toml((top / "pyproject.toml").read_bytes())["project"]["optional-dependencies"]
    for page in (top / "README.md", *(top / "docs").rglob("*.md")):
        for named in re.findall(r"(?:git-repoagent|[\"'`]\.)\[([a-z,]+)\]", page.read_text("utf-8")):
            assert set(named.split(",")) <= extras.keys(), page
