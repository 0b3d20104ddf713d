"""The pages that messages name can be read where repoagent is installed; the page on the architecture matches the code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import repoagent
from repoagent.cli.app import cli
from repoagent.cli.run_program import run

ROOT = Path(repoagent.__file__).parent
TOP = ROOT.parent
ARCHITECTURE = (TOP / "docs/architecture.md").read_text("utf-8")
PAGE = re.compile(r"docs/([\w-]+\.md)")


def literals() -> Iterator[tuple[Path, str]]:
    """The string literals of the modules that name docs/, without docstrings and comments."""
    for file in ROOT.rglob("*.py"):
        text = file.read_text("utf-8")
        if "docs/" not in text:
            continue
        tree = ast.parse(text)
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield file, node.value


def test_a_message_names_a_page_with_the_command_that_prints_it() -> None:
    named = [(file, text) for file, text in literals() if "docs/" in text]
    assert len(named) > 8
    for file, text in named:
        if file.name in {"risky_changes.py", "memory_archive.py", "hook.py", "rules.py", "help.py"}:
            continue  # paths of the user's repository; `rules` is below, `help` reads the pages
        for page in PAGE.finditer(text):
            assert text[: page.start()].endswith("repoagent help "), (file, text)
            assert (TOP / "docs" / page[1]).is_file(), (file, text)


def test_the_pages_are_in_the_wheel(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=TOP, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    pages = {page.name for page in (TOP / "docs").glob("*.md")}
    assert {name for name in names if "/docs/" in name} == {f"repoagent/docs/{page}" for page in pages}
    assert {page[1] for _, text in literals() for page in PAGE.finditer(text)} & pages
    assert {"repoagent/cli/__init__.py", "repoagent/llm/models.toml", "repoagent/py.typed"} <= names
    man = {name.rpartition("/share/man/man1/")[2] for name in names if "/share/man/" in name}
    assert {"git-repoagent.1", "repoagent.1", "repoagent-edit.1"} <= man


def test_help_prints_pages(capsys: pytest.CaptureFixture[str]) -> None:
    page = (TOP / "docs/models.md").read_text("utf-8")
    for name, code, out, err in (
        ("docs/models.md", 0, page, ""),
        ("docs/models", 0, page, ""),
        ("docs/../README.md", 2, "", "unknown command 'docs/../README.md'"),
        ("docs/nope.md", 2, "", "no such page: docs/nope.md"),
    ):
        assert run(cli, "repoagent", ("help", name)) == code
        shown = capsys.readouterr()
        assert shown.out == out and err in shown.err


# The page on the architecture.


def test_the_layers_are_the_packages_in_the_order_of_import_linter() -> None:
    block = ARCHITECTURE.split("## Layers")[1].split("```")[1]
    layers = [set(re.findall(r"\b([a-z_]+)/", line.split("  ")[0])) for line in block.strip().splitlines()]
    assert set().union(*layers) == {path.parent.name for path in ROOT.glob("*/*.py")}
    contract = (TOP / "pyproject.toml").read_text("utf-8").split("layers = [")[1].split("]")[0]
    modules = {path.stem for path in ROOT.glob("*.py")}
    held = [set(re.findall(r"repoagent\.([a-z_]+)", line)) - modules for line in contract.splitlines()]
    assert [layer for layer in held if layer] == layers


def test_every_path_that_the_page_names_exists() -> None:
    decisions = (TOP / "docs/internals/decisions.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_][\w/]*(?:/|\.(?:py|c)))`", ARCHITECTURE + decisions))
    assert len(named) > 8
    assert {name for name in named if not ((ROOT / name).exists() or (TOP / name).exists())} == set()
