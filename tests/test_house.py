"""The house rules that no linter knows."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import repoagent

PACKAGES = [module.name for module in pkgutil.iter_modules(repoagent.__path__, "repoagent.") if module.ispkg]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_door_gives_what_it_names_and_no_module_in_its_place(name: str) -> None:
    """A submodule, once imported, hides a door's function of the same name: the second import would get the module."""
    package = importlib.import_module(name)
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    for module in modules:
        importlib.import_module(f"{name}.{module}")
    for public in getattr(package, "__all__", ()):
        assert not isinstance(getattr(package, public), ModuleType), f"{name}.{public} is hidden by a module"


@pytest.mark.parametrize("name", PACKAGES)
def test_a_door_is_light(name: str) -> None:
    heavy = {"anthropic", "rich", "tree_sitter", "unidiff", "asyncio", "pathspec", "tomlkit", "yaml"}
    code = f"import {name}, sys; print(*sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
