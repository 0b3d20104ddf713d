"""Reports for CI: GitHub workflow commands, a GitLab Code Quality report, and the Reviewdog Diagnostic Format."""

from __future__ import annotations

import json
from collections import Counter

from repoagent.review.change import Change
from repoagent.review.finding import Finding, Level, Report, Suggestion
from repoagent.review.output.formats import count, plain, plain_line, region, shorten, writable

MOST = 10  # findings of a level per step; the runner silently drops the others
_COMMANDS = {Level.NOTE: "notice", Level.WARNING: "warning", Level.ERROR: "error"}
_MESSAGE = 4_000  # characters; the rest is in the other formats
_TITLE = 200
_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def render_github(report: Report, *, change: Change | None = None) -> str:
    """One command per finding, the most important first, as many as GitHub shows; then how many were left out."""
    used: Counter[Level] = Counter()
    lines = []
    for finding in sorted(
        report.findings, key=lambda finding: -finding.level
    ):  # stable: else as in the report
        used[finding.level] += 1
        if used[finding.level] <= MOST:
            lines.append(_command(finding))
    for level in sorted(used, reverse=True):
        if used[level] > MOST:
            lines.append(
                f"repoagent: {count(used[level] - MOST, f'more {level.word}', f'more {level.word}s')} not shown "
                f"here: GitHub shows {MOST} of a kind for a step"
            )
    for sentence in (*report.unseen, *report.notes):
        lines.append(f"repoagent: {_harmless(sentence)}")
    return "".join(f"{line}\n" for line in lines)


def _command(finding: Finding) -> str:
    place = region(finding)
    properties = {
        "file": plain_line(finding.location.path) if _odd(finding.location.path) else finding.location.path
    }
    if place is not None:
        properties |= {"line": str(place[0]), "endLine": str(place[1])}
    properties["title"] = f"{finding.rule}: {shorten(plain_line(finding.title), _TITLE)}"
    properties_text = ",".join(f"{name}={value.translate(_PROPERTY)}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.level]} {properties_text}::{_message(finding).translate(_DATA)}"


def _message(finding: Finding) -> str:
    parts = [plain(finding.body).strip() or plain_line(finding.title)]
    if finding.evidence:
        parts.append(
            "\n".join(f"{one.commit[:10]} {plain_line(one.subject)}" for one in finding.evidence[:5])
        )
    parts.append(f"To dismiss it: repoagent review dismiss {finding.id}")
    return shorten("\n\n".join(parts), _MESSAGE)


def _harmless(sentence: str) -> str:
    """A line of the log that the runner does not take for a command, in its old or new form."""
    return plain_line(sentence).replace("::", ": :").replace("##[", "## [")


def _odd(path: str) -> bool:
    return any("\ud800" <= one <= "\udfff" for one in path)


_GITLAB_SEVERITY = {Level.NOTE: "info", Level.WARNING: "minor", Level.ERROR: "major"}
_ROOM = 1_000  # characters of a description, which is shown on one line


def render_gitlab(report: Report, *, change: Change | None = None) -> str:
    """An array of issues. A finding of a whole file gets its first line, since GitLab requires one. Fingerprints are
    stable when lines move, and unique: equal ones are numbered."""
    seen: dict[str, int] = {}
    return json.dumps([_entry(finding, seen) for finding in report.findings], indent=2) + "\n"


def _entry(finding: Finding, seen: dict[str, int]) -> dict[str, object]:
    seen[finding.id] = seen.get(finding.id, 0) + 1
    number = seen[finding.id]
    begin, end = region(finding) or (1, 1)
    body = plain_line(finding.body)
    title = plain_line(finding.title)
    return {
        "description": shorten(f"{title} {body}" if body else title, _ROOM),
        "check_name": f"repoagent/{finding.rule}",
        "fingerprint": finding.id if number == 1 else f"{finding.id}-{number}",
        "severity": _GITLAB_SEVERITY[finding.level],
        "location": {"path": writable(finding.location.path), "lines": {"begin": begin, "end": end}},
    }


_RDJSON_SEVERITY = {Level.NOTE: "INFO", Level.WARNING: "WARNING", Level.ERROR: "ERROR"}


def render_rdjson(report: Report, *, change: Change | None = None) -> str:
    """One document; ranges are whole lines, without columns."""
    content = {
        "source": {"name": "repoagent"},
        "diagnostics": [_diagnostic(finding) for finding in report.findings],
    }
    return json.dumps(content, indent=2) + "\n"


def _diagnostic(finding: Finding) -> dict[str, object]:
    location: dict[str, object] = {"path": writable(finding.location.path)}
    if place := region(finding):
        location["range"] = _range(*place)
    title, body = plain_line(finding.title), plain(finding.body).strip()
    found: dict[str, object] = {
        "message": f"{title}\n\n{body}" if body else title,
        "location": location,
        "severity": _RDJSON_SEVERITY[finding.level],
        "code": {"value": finding.rule},
    }
    suggestion = finding.suggestion
    if suggestion is not None and suggestion.location.path == finding.location.path and _fits(suggestion):
        lines = suggestion.location
        found["suggestions"] = [{"range": _range(lines.start, lines.end), "text": _text(suggestion.text)}]
    return found


def _range(start: int, end: int) -> dict[str, object]:
    return {"start": {"line": start}, "end": {"line": end}}


def _fits(suggestion: Suggestion) -> bool:
    """Whether the format can represent it: an empty line alone would read as no line."""
    place = suggestion.location
    return not place.old and 1 <= place.start <= place.end and suggestion.text not in ("\n", "\r\n")


def _text(text: str) -> str:
    """The lines without the last line ending, which reviewdog adds."""
    return writable(text.removesuffix("\n").removesuffix("\r"))
