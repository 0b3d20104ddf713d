"""The index of a repository's history in `.repoagent/history.db`: who changed what together, with renames followed.

schema.py   the tables; write.py fills them, identity.py tells which file a path stood for
mine.py     reads commits into it, back from the first and forward from the last
reach.py    which commits a revision reaches; alive.py which paths its tree has
catch_up.py all of that in its order: new commits, older ones, what is alive
view.py     reading; index.py is the whole, with its lock and its file
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.history.index.background import mine_in_background
    from repoagent.history.index.errors import NoCommits, NoIndex
    from repoagent.history.index.index import Index, State, open_index
    from repoagent.history.index.view import IndexView

__all__ = ["Index", "IndexView", "NoCommits", "NoIndex", "State", "mine_in_background", "open_index"]

_HOME = {
    "Index": "index",
    "IndexView": "view",
    "NoCommits": "errors",
    "NoIndex": "errors",
    "State": "index",
    "mine_in_background": "background",
    "open_index": "index",
}

__getattr__ = door(__name__, _HOME)
