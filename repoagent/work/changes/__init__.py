"""What a run has changed so far, by edits and by commands, apart from what else is done to the files meanwhile.

ledger.py  the changes, and what of them is committed in the end; stored.py is how the run's folder has them
apart.py   what the run has done to a file, and what somebody else has
back.py    the changes taken back
looking.py what a command has changed: a look at the work tree before and after it; seeing.py is a look,
           telling.py what is said of it; unwatched.py what changed while nobody looked
submodules.py  what it has changed in other repositories below this one
tools.py   the actions `keep` and `restore`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.work.changes.ledger import Ledger, open_ledger
    from repoagent.work.changes.looking import watch
    from repoagent.work.changes.tools import change_tools

_HOME = {"Ledger": "ledger", "open_ledger": "ledger", "watch": "looking", "change_tools": "tools"}

__all__ = ["Ledger", "change_tools", "open_ledger", "watch"]

__getattr__ = door(__name__, _HOME)
