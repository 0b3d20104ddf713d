"""Every module of the benchmarks can be imported."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import pytest

import bench


@pytest.mark.parametrize("name", [module.name for module in walk_packages(bench.__path__, "bench.")])
def test_a_module_imports(name: str) -> None:
    import_module(name)
