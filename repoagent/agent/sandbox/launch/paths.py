"""Paths by their names: no part of them is a link."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator


def around(root: str, excluded: Iterable[str]) -> Iterator[str]:
    """What of `root` together is all but `excluded`: the folder itself, or its entries; no links."""
    inside = [path for path in excluded if within(path, root)]
    if not inside:
        yield root
    elif root not in inside:
        try:
            with os.scandir(root) as entries:
                children = [entry.path for entry in entries if not entry.is_symlink()]
        except PermissionError:  # nor can a command look into it
            return
        for child in children:
            yield from around(child, inside)


def within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or below it, by their names."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
