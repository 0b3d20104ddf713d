"""Write a report as JSON, SARIF, GitHub workflow commands, GitLab Code Quality or Markdown."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from urllib.parse import quote_from_bytes

from repoagent import __version__
from repoagent.display_text import plural, sanitize, truncate
from repoagent.review.change import split_lines
from repoagent.review.finding import (
    RULES,
    Finding,
    Level,
    Location,
    Report,
    Rule,
    Suggestion,
    apply_suggestion,
    as_data,
)

FORMATS = ("json", "sarif", "github", "gitlab", "markdown")
VERSION = 1  # of the JSON
MOST = 10  # findings of a level per step that GitHub shows; it silently drops the others
MESSAGE, TITLE = 4_000, 200  # characters for GitHub
DESCRIPTION = 1_000  # characters, which GitLab shows on one line


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
    """The report as GitHub workflow commands, the most important first; of each level, as many as GitHub shows."""
    levels: Counter[Level] = Counter()
    lines = []
    for finding in sorted(report.findings, key=lambda finding: -finding.level):
        levels[finding.level] += 1
        if levels[finding.level] <= MOST:
            path = finding.location.path
            properties = {"file": path if path == writable(path) else plain_line(path)}
            if lines_of_finding := region(finding):
                properties |= {"line": str(lines_of_finding[0]), "endLine": str(lines_of_finding[1])}
            properties["title"] = f"{finding.rule}: {truncate(plain_line(finding.title), TITLE)}"
            parts = [plain(finding.body).strip() or plain_line(finding.title)]
            if commits := finding.evidence[:5]:
                parts.append("\n".join(f"{each.commit[:10]} {plain_line(each.subject)}" for each in commits))
            parts.append(f"To dismiss this finding: repoagent review dismiss {finding.id}")
            message = truncate("\n\n".join(parts), MESSAGE).translate(_DATA)
            named = ",".join(f"{name}={value.translate(_PROPERTY)}" for name, value in properties.items())
            lines.append(f"::{_COMMANDS[finding.level]} {named}::{message}")
    for level in sorted(levels, reverse=True):
        if levels[level] > MOST:
            omitted = plural(levels[level] - MOST, f"more {level.word}")
            lines.append(f"repoagent: {omitted} not shown; GitHub shows at most {MOST} of each kind per step")
    for sentence in (*map("not checked: {}".format, report.unseen), *report.notes):
        # break up command syntax, old and new, so that the runner does not execute a sentence
        harmless = re.sub(":(?=:)", ": ", plain_line(sentence)).replace("##[", "## [")
        lines.append(f"repoagent: {harmless}")
    return "".join(f"{line}\n" for line in lines)


_GITLAB_SEVERITY = {Level.NOTE: "info", Level.WARNING: "minor", Level.ERROR: "major"}


def render_gitlab(report: Report) -> str:
    """The report as a GitLab array of issues. A finding on a whole file gets line 1, since GitLab requires a line, and
    equal fingerprints are numbered, since they must be unique."""
    ids: Counter[str] = Counter()
    issues = []
    for finding in report.findings:
        ids[finding.id] += 1
        suffix = f"-{ids[finding.id]}" if ids[finding.id] > 1 else ""
        begin, end = region(finding) or (1, 1)
        text = " ".join(filter(None, (plain_line(finding.title), plain_line(finding.body))))
        issue = {
            "description": truncate(text, DESCRIPTION),
            "check_name": f"repoagent/{finding.rule}",
            "fingerprint": finding.id + suffix,
            "severity": _GITLAB_SEVERITY[finding.level],
            "location": {"path": writable(finding.location.path), "lines": {"begin": begin, "end": end}},
        }
        issues.append(issue)
    return json.dumps(issues, indent=2) + "\n"


SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_JUSTIFICATION = "dismissed or accepted in an earlier review"
_SOURCES = {"static": "the changed texts", "history": "the repository's history", "model": "a language model"}
RESULTS = 5_000  # GitHub shows 5,000 of a run, and accepts up to 25,000
SARIF_MESSAGE = 8_000  # characters


def render_sarif(report: Report) -> str:
    """The report as SARIF 2.1.0 (OASIS): one run, with the most important results first and dismissed ones marked as
    suppressed. Above the limit of GitHub code scanning, a notification has the number of omitted results."""
    findings = sorted(report.findings, key=lambda finding: -finding.level)
    rules = list(RULES)
    sentences = [*map("not checked: {}".format, report.unseen), *report.notes]
    if omitted := max(0, len(findings) + len(report.dismissed) - RESULTS):
        sentences.insert(0, f"{plural(omitted, 'result')} left out: code hosts limit the size of a report.")
    ids: Counter[str] = Counter()
    lines: set[tuple[str, str, int]] = set()
    results = []
    for number, finding in enumerate([*findings, *report.dismissed][:RESULTS]):
        ids[finding.id] += 1
        fingerprints = {"repoagentFinding/v1": f"{finding.id}:{ids[finding.id]}"}
        start = (region(finding) or (0, 0))[0]
        line = (finding.rule, finding.location.path, start)
        # Code scanning recognizes a moved line by a hash that its upload action computes. A finding without a line, and
        # a second one of the same rule at a line, have their id instead, so that each is a separate alert.
        if not start or line in lines:
            fingerprints["primaryLocationLineHash"] = fingerprints["repoagentFinding/v1"]
        lines.add(line)
        result = _result(finding, suppressed=number >= len(findings))
        result |= {"ruleIndex": rules.index(finding.rule), "partialFingerprints": fingerprints}
        results.append(result)
    driver = {
        "name": "repoagent",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rule) for rule in RULES.values()],
    }
    notifications = [{"level": "note", "message": {"text": plain(text)}} for text in sentences]
    run: dict[str, object] = {
        "tool": {"driver": driver},
        "automationDetails": {"id": "repoagent/"},
        "columnKind": "utf16CodeUnits",
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "The top of the work tree."}}},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notifications}],
        "results": results,
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _rule(rule: Rule) -> dict[str, object]:
    level = rule.default.word
    # no helpUri: the documentation comes with the program, and a viewer opens only an absolute URI
    help_text = (
        f"{rule.line} Source: {_SOURCES[rule.source]}. For details run `repoagent help docs/review.md`; to turn the "
        f"rule off, run `git config repoagent.review.rules.{rule.id} off`."
    )
    tags = [rule.source, *(["security"] if rule.id in ("secret", "security") else [])]
    return {
        "id": rule.id,
        "name": rule.id.title().replace("-", ""),
        "shortDescription": {"text": rule.line},
        "fullDescription": {"text": rule.line},
        "help": {"text": help_text, "markdown": help_text},
        "defaultConfiguration": {"level": level},
        "properties": {"tags": tags, "problem.severity": "recommendation" if level == "note" else level},
    }


def _result(finding: Finding, *, suppressed: bool) -> dict[str, object]:
    title, body = plain_line(finding.title), plain(finding.body).strip()
    commits = "\n".join(f"{commit.commit[:12]} {plain_line(commit.subject)}" for commit in finding.evidence)
    message = "\n\n".join(filter(None, (title, body, commits)))
    # a relative reference (RFC 3986), with all bytes but unreserved ones and the slash percent-encoded
    uri = quote_from_bytes(os.fsencode(finding.location.path), safe="/")
    location: dict[str, object] = {"artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"}}
    if lines := region(finding):
        location["region"] = {"startLine": lines[0], "endLine": lines[1]}
    result: dict[str, object] = {
        "ruleId": finding.rule,
        "level": finding.level.word,
        "message": {"text": truncate(message, SARIF_MESSAGE)},
        "locations": [{"physicalLocation": location}],
        "suppressions": [{"kind": "external", "justification": _JUSTIFICATION}] if suppressed else [],
        "properties": {"id": finding.id, "commits": [writable(commit.commit) for commit in finding.evidence]},
    }
    if finding.confidence is not None:
        result["rank"] = round(100 * min(1.0, max(0.0, finding.confidence)), 1)
    return result


def plain(text: str) -> str:
    """`text` with control and bidirectional characters made visible, except newlines and tabs; CRLF becomes LF."""
    return sanitize(text.replace("\r\n", "\n"))


def plain_line(text: str) -> str:
    """Like `plain`, on one line with single spaces."""
    return " ".join(plain(text).split())


def writable(text: str) -> str:
    """`text` with U+FFFD for surrogate escapes, which UTF-8 cannot encode."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


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
    """The new text, and that text with the suggestion applied; None if the suggestion does not fit."""
    text = report.by_file.get(suggestion.location.path)
    after = None if text is None else apply_suggestion(text, suggestion)
    return None if text is None or after is None else (text, after)


def region(finding: Finding) -> tuple[int, int] | None:
    """The first and the last line of a finding in the new text; None for the whole file and for removed lines."""
    _, start, end, old = finding.location
    return None if old or start < 1 else (start, max(start, end))


def render_report(report: Report, format: str) -> bytes:
    """The report as a document in UTF-8. `format` is one of FORMATS."""
    if format == "markdown":
        from repoagent.review import report_markdown as markdown

        return markdown.render(report).encode()
    if format == "json":  # bytes of a path that are not UTF-8 are surrogate escapes
        return (json.dumps(report_data(report), indent=2) + "\n").encode()
    renderers = {"sarif": render_sarif, "github": render_github, "gitlab": render_gitlab}
    return renderers[format](report).encode()
