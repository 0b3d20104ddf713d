"""A Code Quality report, as GitLab shows it in a merge request."""

from __future__ import annotations

import json

from repoagent.review.change import Change
from repoagent.review.finding import Finding, Level, Report
from repoagent.review.output.lines import region
from repoagent.review.output.plain import plain_line, shortened, writable

_SEVERITY = {Level.NOTE: "info", Level.WARNING: "minor", Level.ERROR: "major"}
_ROOM = 1_000  # characters of a description; it is shown on one line


def render(report: Report, *, change: Change | None = None) -> str:
    """An array of objects. A finding of a whole file stands at its first line, since GitLab wants one. Fingerprints
    stay when lines move, and are unique: equal ones are numbered."""
    seen: dict[str, int] = {}
    return json.dumps([_entry(finding, seen) for finding in report.findings], indent=2) + "\n"


def _entry(finding: Finding, seen: dict[str, int]) -> dict[str, object]:
    seen[finding.id] = seen.get(finding.id, 0) + 1
    number = seen[finding.id]
    begin, end = region(finding) or (1, 1)
    body = plain_line(finding.body)
    title = plain_line(finding.title)
    return {
        "description": shortened(f"{title} {body}" if body else title, _ROOM),
        "check_name": f"repoagent/{finding.rule}",
        "fingerprint": finding.id if number == 1 else f"{finding.id}-{number}",
        "severity": _SEVERITY[finding.level],
        "location": {"path": writable(finding.place.path), "lines": {"begin": begin, "end": end}},
    }
