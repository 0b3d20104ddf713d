"""Reports for CI: GitHub workflow commands, a GitLab Code Quality report, and the Reviewdog Diagnostic Format."""

from __future__ import annotations

import json
from collections import Counter

from repoagent.review.change import Change
from repoagent.review.finding import Finding, Level, Report
from repoagent.review.output.formats import count, plain, plain_line, region, shorten, writable

MOST = 10  # findings of a level per step; the runner silently drops the others
_COMMANDS = {Level.NOTE: "notice", Level.WARNING: "warning", Level.ERROR: "error"}
_GITLAB_SEVERITY = {Level.NOTE: "info", Level.WARNING: "minor", Level.ERROR: "major"}
_RDJSON_SEVERITY = {Level.NOTE: "INFO", Level.WARNING: "WARNING", Level.ERROR: "ERROR"}
_MESSAGE = 4_000  # characters; the rest is in the other formats
_TITLE = 200
_DESCRIPTION = 1_000  # characters, which GitLab shows on one line
_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def render_github(report: Report, *, change: Change | None = None) -> str:
    """One command per finding, the most important first, as many as GitHub shows; then the number of the others."""
    levels: Counter[Level] = Counter()
    lines = []
    for finding in sorted(report.findings, key=lambda finding: -finding.level):
        levels[finding.level] += 1
        if levels[finding.level] <= MOST:
            lines.append(_command(finding))
    for level in sorted(levels, reverse=True):
        if levels[level] > MOST:
            omitted = count(levels[level] - MOST, f"more {level.word}")
            lines.append(f"repoagent: {omitted} not shown here: GitHub shows {MOST} of a kind for a step")
    for sentence in (*report.unseen, *report.notes):
        # break up command syntax, old and new, so that the runner does not execute a sentence
        harmless = plain_line(sentence).replace("::", ": :").replace("##[", "## [")
        lines.append(f"repoagent: {harmless}")
    return "".join(f"{line}\n" for line in lines)


def _command(finding: Finding) -> str:
    path = finding.location.path
    properties = {"file": path if path == writable(path) else plain_line(path)}
    if lines := region(finding):
        properties |= {"line": str(lines[0]), "endLine": str(lines[1])}
    properties["title"] = f"{finding.rule}: {shorten(plain_line(finding.title), _TITLE)}"
    properties_text = ",".join(f"{name}={value.translate(_PROPERTY)}" for name, value in properties.items())
    parts = [plain(finding.body).strip() or plain_line(finding.title)]
    if finding.evidence:
        commits = (f"{commit.commit[:10]} {plain_line(commit.subject)}" for commit in finding.evidence[:5])
        parts.append("\n".join(commits))
    parts.append(f"To dismiss it: repoagent review dismiss {finding.id}")
    message = shorten("\n\n".join(parts), _MESSAGE)
    return f"::{_COMMANDS[finding.level]} {properties_text}::{message.translate(_DATA)}"


def render_gitlab(report: Report, *, change: Change | None = None) -> str:
    """An array of issues. A finding of a whole file gets its first line, since GitLab requires one. Fingerprints are
    stable when lines move, and unique: equal ones are numbered."""
    ids: Counter[str] = Counter()
    issues = []
    for finding in report.findings:
        ids[finding.id] += 1
        number = ids[finding.id]
        begin, end = region(finding) or (1, 1)
        text = " ".join(filter(None, (plain_line(finding.title), plain_line(finding.body))))
        issues.append(
            {
                "description": shorten(text, _DESCRIPTION),
                "check_name": f"repoagent/{finding.rule}",
                "fingerprint": finding.id if number == 1 else f"{finding.id}-{number}",
                "severity": _GITLAB_SEVERITY[finding.level],
                "location": {
                    "path": writable(finding.location.path),
                    "lines": {"begin": begin, "end": end},
                },
            }
        )
    return json.dumps(issues, indent=2) + "\n"


def render_rdjson(report: Report, *, change: Change | None = None) -> str:
    """One document; ranges are whole lines, without columns."""
    diagnostics = [_diagnostic(finding) for finding in report.findings]
    return json.dumps({"source": {"name": "repoagent"}, "diagnostics": diagnostics}, indent=2) + "\n"


def _diagnostic(finding: Finding) -> dict[str, object]:
    location: dict[str, object] = {"path": writable(finding.location.path)}
    if lines := region(finding):
        location["range"] = _range(*lines)
    title, body = plain_line(finding.title), plain(finding.body).strip()
    diagnostic: dict[str, object] = {
        "message": f"{title}\n\n{body}" if body else title,
        "location": location,
        "severity": _RDJSON_SEVERITY[finding.level],
        "code": {"value": finding.rule},
    }
    if suggestion := finding.suggestion:
        target, text = suggestion.location, suggestion.text
        fits = target.path == finding.location.path and not target.old and 1 <= target.start <= target.end
        if fits and text not in ("\n", "\r\n"):  # an empty line alone would read as no line
            # reviewdog adds the last line ending
            text = writable(text.removesuffix("\n").removesuffix("\r"))
            diagnostic["suggestions"] = [{"range": _range(target.start, target.end), "text": text}]
    return diagnostic


def _range(start: int, end: int) -> dict[str, object]:
    return {"start": {"line": start}, "end": {"line": end}}
