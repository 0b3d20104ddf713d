"""Pages of the public web: fetched by us, not by a command, and told as readable text.

Read `tool` first, then `fetch` (one page, with its redirections), `address` (what may be connected to), `url` and
`readable` (what of a page is text). Needs the extra `browse` for pages in HTML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.agent.browse.fetch import Net
    from repoagent.agent.browse.tool import Window, browse_tool

_HOME = {"Net": "fetch", "Window": "tool", "browse_tool": "tool"}

__all__ = ["Net", "Window", "browse_tool"]

__getattr__ = door(__name__, _HOME)
