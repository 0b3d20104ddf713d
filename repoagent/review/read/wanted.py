"""What a person asked to be reviewed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

How = Literal["staged", "worktree", "range", "base", "commit", "diff"]


class Wanted(NamedTuple):
    """`value` is the range, the base or the commit that was named. `pathspecs` have git's meaning, from `cwd`. `diff`
    is the text of a diff."""

    how: How = "staged"
    value: str = ""
    pathspecs: tuple[str, ...] = ()
    cwd: Path | None = None
    diff: bytes = b""
