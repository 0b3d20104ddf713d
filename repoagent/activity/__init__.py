"""What repoagent did in a repository: edits, undos, reviews, and what they cost; as data and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.activity.events import Activity, Event, gather, tops
    from repoagent.activity.html import Around, page
    from repoagent.activity.sums import Sum, by_day, by_file, by_model, refusals, spans

__all__ = [
    "Activity",
    "Around",
    "Event",
    "Sum",
    "by_day",
    "by_file",
    "by_model",
    "gather",
    "page",
    "refusals",
    "spans",
    "tops",
]

_HOME = {
    "Activity": "events",
    "Around": "html",
    "Event": "events",
    "Sum": "sums",
    "by_day": "sums",
    "by_file": "sums",
    "by_model": "sums",
    "gather": "events",
    "page": "html",
    "refusals": "sums",
    "spans": "sums",
    "tops": "events",
}

__getattr__ = door(__name__, _HOME)
