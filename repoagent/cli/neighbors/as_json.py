"""A neighborhood as data for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime, timezone

from repoagent.history.evidence import Told
from repoagent.history.neighbors import Neighborhood
from repoagent.history.wording import is_weak, rate

VERSION = 1


def render(found: Neighborhood, told: Mapping[str, Told]) -> str:
    """Paths keep bytes that are no UTF-8 as surrogate escapes, commits have their full ids. With `told` each commit is
    an object, else its id alone."""
    rows = [
        {
            "path": os.fsdecode(row.path),
            "score": round(row.score, 4),
            "together": row.together,
            "commits": row.commits,
            "rate": rate(row.together, row.commits),
            "last": None if row.last is None else _date(row.last),
            "reasons": list(row.reasons),
            "weak": is_weak(row),
            "evidence": [_commit(found.ids[number], told) for number in row.evidence],
        }
        for row in found.rows
    ]
    content = {
        "version": VERSION,
        "paths": [os.fsdecode(path) for path in found.paths],
        "revision": found.revision,
        "commit": found.commit or None,
        "state": found.state,
        "note": found.note or None,
        "commits": found.looked_at,
        "neighbors": rows,
    }
    return json.dumps(content, indent=2) + "\n"


def _commit(commit: str, told: Mapping[str, Told]) -> object:
    one = told.get(commit)
    if one is None:
        return {"commit": commit} if told else commit
    return {
        "commit": commit,
        "short": one.short,
        "date": one.date,
        "author": one.author,
        "subject": one.subject,
    }


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
