"""Whether a program is found by its name in other letters too, as on macOS: `GIT push` is `git push` there."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=8)
def ignores_case(path: str | None) -> bool:
    """Whether the file system of one of the folders of PATH takes capitals and small letters for the same."""
    return any(map(_takes_either, (path or os.defpath).split(os.pathsep)))


def _takes_either(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            name = next((entry.name for entry in entries if entry.name.swapcase() != entry.name), None)
        return name is not None and Path(folder, name).samefile(Path(folder, name.swapcase()))
    except OSError:  # no folder, or no such name
        return False
