"""Which Python the kernel is: the project's own where it can be one, else the one that repoagent runs on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

_NEEDED = ("jupyter_client", "zmq")  # in the Python that speaks with it


def interpreter(top: Path, env: Mapping[str, str], *, confined: bool) -> str | None:
    """The path of the Python that kernels are started with; None where the extra `python` is missing.

    First the virtual environment that is active (VIRTUAL_ENV in `env`), then `.venv` and `venv` in the work tree `top`,
    as long as ipykernel is installed there; else our own Python. What lies in the work tree may come from whoever
    wrote the repository: unless it is active, it is taken only when it will be `confined`.
    """
    if not all(map(_is_here, _NEEDED)):
        return None
    for environment in _environments(top, env, confined=confined):
        python = environment / "bin" / "python"
        if os.access(python, os.X_OK) and any(
            environment.glob("lib/python3*/site-packages/ipykernel/kernelapp.py")
        ):
            return str(python)
    return sys.executable if _is_here("ipykernel") else None


def _environments(top: Path, env: Mapping[str, str], *, confined: bool) -> Iterator[Path]:
    active = env.get("VIRTUAL_ENV", "")
    if active.startswith("/"):
        yield Path(active)
    if confined:
        yield from (top / ".venv", top / "venv")


def _is_here(module: str) -> bool:
    return find_spec(module) is not None
