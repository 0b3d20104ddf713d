"""Shell commands: refused before they run when they can't work here, run, timed, kept, shown, in the background too.

Read `tools` first, then `running` (one command and its output) and `shown` (what of it a model sees).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.agent.commands.shop import Shop
    from repoagent.agent.commands.tools import command_tools

_HOME = {"Shop": "shop", "command_tools": "tools"}

__all__ = ["Shop", "command_tools"]

__getattr__ = door(__name__, _HOME)
