"""git's hooks: put beside what is there and taken away again, and what they do when git runs them.

place.py    where git looks for hooks, whose folder that is, and what stands there; managers.py who owns a hook
script.py   the text of a hook of ours; placing.py puts it in place and takes it away
run.py      what a hook reviews; message.py the message of a commit; push.py what is pushed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.review.hooks.place import HOOKS, Found, Hooks, look
    from repoagent.review.hooks.placing import install, uninstall
    from repoagent.review.hooks.run import changes_of

__all__ = ["HOOKS", "Found", "Hooks", "changes_of", "install", "look", "uninstall"]

_HOME = {
    "HOOKS": "place",
    "Found": "place",
    "Hooks": "place",
    "changes_of": "run",
    "install": "placing",
    "look": "place",
    "uninstall": "placing",
}

__getattr__ = door(__name__, _HOME)
