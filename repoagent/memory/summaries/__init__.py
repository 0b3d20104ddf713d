"""What a file is for, in the words of a model: asked once for each text, and a large file part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.memory.summaries.ask import WORDS
    from repoagent.memory.summaries.fresh import may_have_purpose, purpose, summary_block
    from repoagent.memory.summaries.jobs import Plan, known, plan, summarize
    from repoagent.memory.summaries.parts import File
    from repoagent.memory.summaries.shelf import Shelf
    from repoagent.memory.summaries.walk import FileSummary

__all__ = [
    "WORDS",
    "File",
    "FileSummary",
    "Plan",
    "Shelf",
    "known",
    "may_have_purpose",
    "plan",
    "purpose",
    "summarize",
    "summary_block",
]

_HOME = {
    "WORDS": "ask",
    "File": "parts",
    "FileSummary": "walk",
    "Plan": "jobs",
    "Shelf": "shelf",
    "known": "jobs",
    "may_have_purpose": "fresh",
    "plan": "jobs",
    "purpose": "fresh",
    "summarize": "jobs",
    "summary_block": "fresh",
}

__getattr__ = door(__name__, _HOME)
