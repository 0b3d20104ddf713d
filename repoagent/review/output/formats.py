"""Render a report in a format by name. The formats for CI are here: JSON, GitHub workflow commands, and a GitLab
Code Quality report.

Also helpers for all formats: text without control characters that is always writable as UTF-8, and the lines of a text
that a finding or its suggestion concerns.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from importlib import import_module

from repoagent import display_text
from repoagent.review.change import split_lines
from repoagent.review.finding import Finding, Level, Location, Report, Suggestion, as_data

_RENDERERS = {
    "json": "formats:render_json",
    "sarif": "sarif:render",
    "github": "formats:render_github",
    "gitlab": "formats:render_gitlab",
    "markdown": "markdown:render",
}
FORMATS = tuple(_RENDERERS)
VERSION = 1  # of the JSON
MOST = 10  # findings of a level per step that GitHub shows; it silently drops the others
MESSAGE, TITLE = 4_000, 200  # characters for GitHub
DESCRIPTION = 1_000  # characters, which GitLab shows on one line
_VISIBLE = "\t\n\u200c\u200d"  # white space, and joiners in letters and emoji


def render(report: Report, format: str) -> bytes:
    """The document in UTF-8. `format` is one of FORMATS, else ValueError."""
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}; the formats are: {', '.join(FORMATS)}")
    module, _, function = _RENDERERS[format].partition(":")
    renderer = getattr(import_module(f"repoagent.review.output.{module}"), function)
    text: str = renderer(report)
    return text.encode("utf-8")


def render_json(report: Report) -> str:
    """The report as JSON. Bytes of a path that are not UTF-8 are surrogate escapes."""
    return json.dumps(report_data(report), indent=2) + "\n"


def report_data(report: Report) -> dict[str, object]:
    """The report as JSON data, as `review --json` prints it."""
    worst = report.worst()
    return {
        "version": VERSION,
        "title": report.title,
        "base": report.base or None,
        "head": report.head or None,
        "files": report.files,
        "rules": list(report.rules),
        "worst": None if worst is None else worst.word,
        "findings": [as_data(finding) for finding in report.findings],
        "dismissed": [as_data(finding) for finding in report.dismissed],
        "dropped": report.dropped,
        "unseen": list(report.unseen),
        "notes": list(report.notes),
        "model": report.model or None,
        "tokens": report.tokens,
        "cost": report.cost,
    }


_COMMANDS = {Level.NOTE: "notice", Level.WARNING: "warning", Level.ERROR: "error"}
_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def render_github(report: Report) -> str:
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
        harmless = re.sub(":(?=:)", ": ", plain_line(sentence)).replace("##[", "## [")
        lines.append(f"repoagent: {harmless}")
    return "".join(f"{line}\n" for line in lines)


def _command(finding: Finding) -> str:
    path = finding.location.path
    properties = {"file": path if path == writable(path) else plain_line(path)}
    if lines := region(finding):
        properties |= {"line": str(lines[0]), "endLine": str(lines[1])}
    properties["title"] = f"{finding.rule}: {shorten(plain_line(finding.title), TITLE)}"
    parts = [plain(finding.body).strip() or plain_line(finding.title)]
    if finding.evidence:
        commits = (f"{commit.commit[:10]} {plain_line(commit.subject)}" for commit in finding.evidence[:5])
        parts.append("\n".join(commits))
    parts.append(f"To dismiss it: repoagent review dismiss {finding.id}")
    message = shorten("\n\n".join(parts), MESSAGE).translate(_DATA)
    properties_text = ",".join(f"{name}={value.translate(_PROPERTY)}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.level]} {properties_text}::{message}"


_GITLAB_SEVERITY = {Level.NOTE: "info", Level.WARNING: "minor", Level.ERROR: "major"}


def render_gitlab(report: Report) -> str:
    """An array of issues. A finding of a whole file gets its first line, since GitLab requires one. Fingerprints are
    stable when lines move, and unique: equal ones are numbered."""
    ids: Counter[str] = Counter()
    issues = []
    for finding in report.findings:
        ids[finding.id] += 1
        number = ids[finding.id]
        begin, end = region(finding) or (1, 1)
        text = " ".join(filter(None, (plain_line(finding.title), plain_line(finding.body))))
        issue = {
            "description": shorten(text, DESCRIPTION),
            "check_name": f"repoagent/{finding.rule}",
            "fingerprint": finding.id if number == 1 else f"{finding.id}-{number}",
            "severity": _GITLAB_SEVERITY[finding.level],
            "location": {"path": writable(finding.location.path), "lines": {"begin": begin, "end": end}},
        }
        issues.append(issue)
    return json.dumps(issues, indent=2) + "\n"


def plain(text: str) -> str:
    """`text` with control and bidirectional characters made visible, except newlines and tabs; CRLF becomes LF."""
    if text.isascii() and text.isprintable():
        return text
    controls = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return "".join(
        display_text.visible(character)
        if character not in _VISIBLE and unicodedata.category(character) in controls
        else character
        for character in text.replace("\r\n", "\n")
    )


def plain_line(text: str) -> str:
    """As `plain`, on one line with single spaces."""
    return " ".join(plain(text).split())


def writable(text: str) -> str:
    """`text` with U+FFFD for surrogate escapes, which UTF-8 cannot encode."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def shorten(text: str, most: int) -> str:
    """`text` cut to at most `most` characters, with an ellipsis."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def count(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def shown(line: bytes) -> str:
    """A line as text without its ending, with surrogate escapes."""
    return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")


def text_lines(text: str) -> list[str]:
    """The lines of a text without their endings; [] for an empty one."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def lines_of(report: Report, location: Location) -> list[str]:
    """The lines of the new text at `location`; [] if the text or the lines are missing."""
    text = report.by_file.get(location.path)
    if text is None or location.old or location.start < 1:
        return []
    return [shown(line) for line in split_lines(text)[location.start - 1 : location.end]]


def before_and_after(report: Report, suggestion: Suggestion) -> tuple[bytes, bytes] | None:
    """The new text, and the same with the suggestion applied; None if it does not fit."""
    location, text = suggestion.location, report.by_file.get(suggestion.location.path)
    if text is None or location.old:
        return None
    lines = split_lines(text)
    if not 1 <= location.start <= location.end <= len(lines):
        return None
    new = suggestion.text.encode("utf-8", "surrogateescape")
    if new and not new.endswith(b"\n") and location.end < len(lines):
        new += b"\n"
    return text, b"".join([*lines[: location.start - 1], new, *lines[location.end :]])


def region(finding: Finding) -> tuple[int, int] | None:
    """The first and the last line of a finding in the new text; None for the whole file and for removed lines."""
    location = finding.location
    if location.old or location.start < 1:
        return None
    return location.start, max(location.start, location.end)
