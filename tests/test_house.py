"""Rules of the code base that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import repoagent
import repoagent.cli

TOP = Path(repoagent.__file__).parent
PACKAGES = sorted(TOP.rglob("*/__init__.py"))


@pytest.mark.parametrize("file", PACKAGES, ids=lambda file: file.parent.relative_to(TOP).as_posix())
def test_a_package_says_what_it_is_for_and_imports_nothing(file: Path) -> None:
    """Names are imported from the module that defines them, so a command loads no more than it uses."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    assert isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    if file.parent.name != "cli":  # where the program starts
        assert len(body) == 1


@pytest.mark.parametrize("module", [repoagent, repoagent.cli])
def test_what_is_exported_exists(module: ModuleType) -> None:
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


# Names of the first design. A glossary is in docs/architecture.md; these are not in it.
RETIRED = frozenset(
    [
        "desk", "bench", "workbench", "shop", "nursery", "shelf", "door", "hearth", "landed", "landing",
        "misfit", "outset", "footing", "briefing", "dialogue",
    ]
)  # fmt: skip
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def identifiers(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr


@pytest.mark.parametrize(
    "package", sorted(path.name for path in TOP.iterdir() if path.is_dir() and path.name[0] != "_")
)
def test_retired_words_are_not_identifiers(package: str) -> None:
    used = set()
    for file in (TOP / package).rglob("*.py"):
        names = {file.stem, *identifiers(ast.parse(file.read_text(encoding="utf-8")))}
        used |= {name for name in names if RETIRED & {part.lower() for part in PARTS.findall(name)}}
    assert used == set()


@pytest.mark.parametrize(
    "package", sorted({file.parent for file in PACKAGES}), ids=lambda folder: folder.name
)
def test_a_module_defines_a_name_once(package: Path) -> None:
    """A second constant of the same name replaces the first one for all functions of the module."""
    for file in package.glob("*.py"):
        targets = [
            target.id
            for node in ast.parse(file.read_text(encoding="utf-8")).body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        ]
        assert len(targets) == len(set(targets)), file
