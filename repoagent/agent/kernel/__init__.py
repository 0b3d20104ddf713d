"""Python in a kernel that keeps its state: in the sandbox of commands, spoken to over sockets in the file system.

Read `tool` first, then `cell` (what one call does), `process` (the kernel, from its start to its end) and `wire` (its
messages). `boot` is what runs inside. Needs the extra `python`: jupyter_client here, ipykernel in the Python that is
used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.agent.kernel.choosing import interpreter
    from repoagent.agent.kernel.tool import GONE, Room, python_tool

_HOME = {"GONE": "tool", "Room": "tool", "interpreter": "choosing", "python_tool": "tool"}

__all__ = ["GONE", "Room", "interpreter", "python_tool"]

__getattr__ = door(__name__, _HOME)
