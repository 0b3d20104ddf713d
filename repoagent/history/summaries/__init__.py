"""One line per commit, written by a model once: kept by commit id and by patch, shared as git notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.history.summaries.jobs import Outcome, Plan, plan, summarize
    from repoagent.history.summaries.known import Known, find_known
    from repoagent.history.summaries.notes import merge_fetched, write_notes
    from repoagent.history.summaries.store import Summary, line_of, lines_for

__all__ = [
    "Known",
    "Outcome",
    "Plan",
    "Summary",
    "find_known",
    "line_of",
    "lines_for",
    "merge_fetched",
    "plan",
    "summarize",
    "write_notes",
]

_HOME = {
    "Known": "known",
    "Outcome": "jobs",
    "Plan": "jobs",
    "Summary": "store",
    "find_known": "known",
    "line_of": "store",
    "lines_for": "store",
    "merge_fetched": "notes",
    "plan": "jobs",
    "summarize": "jobs",
    "write_notes": "notes",
}

__getattr__ = door(__name__, _HOME)
