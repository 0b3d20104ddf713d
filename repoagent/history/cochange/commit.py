"""A commit as the co-change kernel sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Commit(NamedTuple):
    """One commit that is no merge, seen from the files that it changed."""

    number: int  # position in the index; a larger number is a newer commit
    time: int  # committer date, seconds since 1970
    author: int  # an id of the author in the index
    size: int  # files that it changed
    files: Sequence[int]  # their ids; empty when size > LARGEST (100)
