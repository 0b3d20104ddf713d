"""Paths as a person writes them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


def near(path: Path, cwd: Path) -> str:
    """`path` as a person in `cwd` would write it: relative to that, where it is shorter."""
    relative = os.path.relpath(path, cwd)
    return relative if len(relative) < len(str(path)) else str(path)


def quoted(path: Path, cwd: Path) -> str:
    """The same, to be pasted into a command."""
    return shlex.quote(near(path, cwd))
