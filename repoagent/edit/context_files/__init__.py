"""What the person and the repository say to every assistant: which files, in which order, how much of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.edit.context_files.finding import ContextFile, Found, collect
    from repoagent.edit.context_files.parts import context_parts

__all__ = ["ContextFile", "Found", "collect", "context_parts"]

_HOMES = {"ContextFile": "finding", "Found": "finding", "collect": "finding", "context_parts": "parts"}

__getattr__ = door(__name__, _HOMES)
