"""The Reviewdog Diagnostic Format, as one JSON document."""

from __future__ import annotations

import json

from repoagent.review.change import Change
from repoagent.review.finding import Finding, Level, Report, Suggestion
from repoagent.review.output.lines import region
from repoagent.review.output.plain import plain, plain_line, writable

_SEVERITY = {Level.NOTE: "INFO", Level.WARNING: "WARNING", Level.ERROR: "ERROR"}


def render(report: Report, *, change: Change | None = None) -> str:
    """Ranges are whole lines, both counted: they have no columns."""
    content = {
        "source": {"name": "repoagent"},
        "diagnostics": [_diagnostic(finding) for finding in report.findings],
    }
    return json.dumps(content, indent=2) + "\n"


def _diagnostic(finding: Finding) -> dict[str, object]:
    location: dict[str, object] = {"path": writable(finding.place.path)}
    if place := region(finding):
        location["range"] = _range(*place)
    title, body = plain_line(finding.title), plain(finding.body).strip()
    found: dict[str, object] = {
        "message": f"{title}\n\n{body}" if body else title,
        "location": location,
        "severity": _SEVERITY[finding.level],
        "code": {"value": finding.rule},
    }
    suggestion = finding.suggestion
    if suggestion is not None and suggestion.place.path == finding.place.path and _fits(suggestion):
        lines = suggestion.place
        found["suggestions"] = [{"range": _range(lines.start, lines.end), "text": _text(suggestion.text)}]
    return found


def _range(start: int, end: int) -> dict[str, object]:
    return {"start": {"line": start}, "end": {"line": end}}


def _fits(suggestion: Suggestion) -> bool:
    """Whether it can be said: an empty line alone would read as no line."""
    place = suggestion.place
    return not place.old and 1 <= place.start <= place.end and suggestion.text not in ("\n", "\r\n")


def _text(text: str) -> str:
    """The lines without the last line ending, which reviewdog adds."""
    return writable(text.removesuffix("\n").removesuffix("\r"))
