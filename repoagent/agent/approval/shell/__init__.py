"""Shell text, read as bash reads it: `read` gives every simple command in it, and says when it is not certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.agent.approval.shell.parts import Reading, Simple, Word
    from repoagent.agent.approval.shell.reader import read

_HOME = {"Reading": "parts", "Simple": "parts", "Word": "parts", "read": "reader"}

__all__ = ["Reading", "Simple", "Word", "read"]

__getattr__ = door(__name__, _HOME)
