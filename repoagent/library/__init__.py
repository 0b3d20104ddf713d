"""repoagent for programs in Python: `from repoagent import Repository`.

repository.py has the class, looking.py the half of it that changes nothing; opening.py says how a repository is found,
asking.py which model is asked, wishes.py who agrees and who listens, running.py what only a run needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.library.repository import Repository
    from repoagent.work import RunOutcome
    from repoagent.work.answers.landed import ChangedFile, EditResult
    from repoagent.work.answers.neighbors import Neighbor, Neighbors
    from repoagent.work.answers.segments import Split

__all__ = ["ChangedFile", "EditResult", "Neighbor", "Neighbors", "Repository", "RunOutcome", "Split"]

_HOME = {
    "ChangedFile": "repoagent.work.answers.landed",
    "EditResult": "repoagent.work.answers.landed",
    "Neighbor": "repoagent.work.answers.neighbors",
    "Neighbors": "repoagent.work.answers.neighbors",
    "Repository": "repoagent.library.repository",
    "RunOutcome": "repoagent.work",
    "Split": "repoagent.work.answers.segments",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
