"""What is usual in a repository: learned now and then, in the background where that is allowed, and kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from repoagent.errors import Refused
from repoagent.review.history.fixes import Prone
from repoagent.store import document
from repoagent.store.report import Warn

if TYPE_CHECKING:
    from repoagent.store import Layout

VERSION = 1
_NO_FILES: Mapping[bytes, Prone] = MappingProxyType({})
EVERY = 20  # new commits after which they are learned anew


class Habits(NamedTuple):
    """`newest` is the commit up to which they were learned, `mined` how many commits the index had then.

    `threshold` is that of `cochange.calibrate`. 99 of 100 of the last `commits` commits touch at most `files` files;
    of the last `sampled` ones, 99 of 100 have at most `lines` changed lines (0: too few to tell). `fixing` is the share
    of changes that are followed by a fix, `prone` the files with clearly more.
    """

    newest: str
    mined: int
    threshold: float
    files: int = 0
    commits: int = 0
    lines: int = 0
    sampled: int = 0
    fixing: float = 0.0
    prone: Mapping[bytes, Prone] = _NO_FILES


def place(layout: Layout) -> Path:
    return layout.root / "reviews" / "habits.json"


def save(layout: Layout, habits: Habits) -> None:
    """Keep them. Raises Refused where nothing can be written."""
    from repoagent.store import ensure

    ensure(layout)
    value: dict[str, Any] = {
        "newest": habits.newest,
        "mined": habits.mined,
        "threshold": habits.threshold,
        "files": habits.files,
        "commits": habits.commits,
        "lines": habits.lines,
        "sampled": habits.sampled,
        "fixing": habits.fixing,
        "prone": {
            os.fsdecode(path): [one.changes, one.followed, list(one.fixes)] for path, one in habits.prone.items()
        },
    }  # fmt: skip
    document.write(place(layout), value, version=VERSION)


def read(layout: Layout, warn: Warn) -> Habits | None:
    """Those that were kept; None where there are none, or none that can be read."""
    try:
        value = document.read(place(layout), version=VERSION, warn=warn)
    except Refused:  # a newer repoagent wrote it, or something else stands there
        return None
    if value is None:
        return None
    try:
        prone = {
            os.fsencode(path): Prone(int(one[0]), int(one[1]), tuple(str(each) for each in one[2]))
            for path, one in value["prone"].items()
        }
        return Habits(
            str(value["newest"]), int(value["mined"]), float(value["threshold"]), int(value["files"]),
            int(value["commits"]), int(value["lines"]), int(value["sampled"]), float(value["fixing"]), prone,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None
