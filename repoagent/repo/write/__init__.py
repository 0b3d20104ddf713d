"""Give files of the work tree new content.

`put` makes one file hold other bytes, whole or not at all; a `Step` (steps.py) is such a write that can be taken back.
"""

from __future__ import annotations

from repoagent.repo.write.failures import Moved
from repoagent.repo.write.put_file import missing_folders, put

__all__ = ["Moved", "missing_folders", "put"]
