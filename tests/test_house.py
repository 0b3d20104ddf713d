"""Rules of the code base that no linter knows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import repoagent

TOP = Path(repoagent.__file__).parent
PACKAGES = sorted(TOP.rglob("*/__init__.py"))


@pytest.mark.parametrize("file", PACKAGES, ids=lambda file: file.parent.relative_to(TOP).as_posix())
def test_a_package_says_what_it_is_for_and_imports_nothing(file: Path) -> None:
    """Names are imported from the module that defines them, so a command loads no more than it uses."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    assert isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    if file.parent.name != "cli":  # where the program starts
        assert len(body) == 1
