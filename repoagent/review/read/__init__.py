"""What is to be reviewed, as a `Change`: read from git, never writing to the index and never fetching.

wanted.py   what a person asked for; compared.py what has to be compared with what for it
raw.py      which files differ; hunks.py in which lines; texts.py their texts before and after
branch.py   what was changed on the branch before; given.py a diff on standard input
where.py    the repository, a bare one too
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.review.read.change import read_change
    from repoagent.review.read.wanted import Wanted
    from repoagent.review.read.where import open_repository

__all__ = ["Wanted", "open_repository", "read_change"]

_HOME = {"Wanted": "wanted", "open_repository": "where", "read_change": "change"}

__getattr__ = door(__name__, _HOME)
