"""The page on the architecture shows every package, in the order of the layers, and names only paths that exist."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).parents[2]
PACKAGE = TOP / "repoagent"
PAGE = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
DECISIONS = (TOP / "docs" / "internals" / "decisions.md").read_text(encoding="utf-8")


def layers() -> list[set[str]]:
    block = PAGE.split("## Layers")[1].split("```")[1]
    return [set(re.findall(r"\b([a-z_]+)/", line.split("  ")[0])) for line in block.strip().splitlines()]


def test_the_layers_are_the_packages() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/*.py")}
    assert set().union(*layers()) == packages


def test_the_layers_are_those_of_import_linter() -> None:
    contract = (TOP / "pyproject.toml").read_text(encoding="utf-8").split("layers = [")[1].split("]")[0]
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    held = [set(re.findall(r"repoagent\.([a-z_]+)", line)) - modules for line in contract.splitlines()]
    assert [layer for layer in held if layer] == layers()


def test_every_path_that_is_named_exists() -> None:
    named = set(re.findall(r"`([a-z_][\w/]*(?:/|\.(?:py|c)))`", PAGE + DECISIONS))
    assert len(named) > 8
    assert {name for name in named if not ((PACKAGE / name).exists() or (TOP / name).exists())} == set()
