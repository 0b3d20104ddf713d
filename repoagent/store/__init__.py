"""Files on disk: where they stand, how they are written whole, who may write. Paths are given to it.

What lies in a folder named `.repoagent` may have come with somebody else's repository, so no symbolic link
there is followed and nothing but regular files is read.
"""

from __future__ import annotations

from repoagent.store.atomic import append_line, read_regular, set_aside, write_whole
from repoagent.store.layout import Layout, ensure
from repoagent.store.locks import locked
from repoagent.store.report import Warn, to_stderr

__all__ = [
    "Layout",
    "Warn",
    "append_line",
    "ensure",
    "locked",
    "read_regular",
    "set_aside",
    "to_stderr",
    "write_whole",
]
