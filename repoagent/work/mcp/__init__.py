"""This program as tools for other assistants, over the Model Context Protocol on standard input and output.

offer.py      what a tool is, and a call of it; checked.py its arguments; table.py all tools, and how one is used
looking.py    the tools files, neighbors, history and outline; parts.py segments; finding.py read, recall and review
applying.py   the one that can write; shape.py the forms of what goes in and out
bench.py      where the tools work: the repository, and what of it may be shown
server.py     the protocol, by the package `mcp`, which is imported nowhere else: calls run in threads, and how it ends
instructions.md  what an assistant is told of it all
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.work.mcp.offer import Service
    from repoagent.work.mcp.server import serve

__all__ = ["Service", "serve"]

__getattr__ = door(__name__, {"Service": "offer", "serve": "server"})
