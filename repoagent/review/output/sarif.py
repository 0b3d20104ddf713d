"""A report as SARIF 2.1.0 (OASIS), within the limits of GitHub code scanning.

Code scanning recognizes a moved line by a hash that its upload action computes. A finding without a line, and a second
finding of the same rule at a line, have their id instead, so that each is a separate alert.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote_from_bytes

from repoagent import __version__
from repoagent.review.finding import Finding, Level, Report
from repoagent.review.output.formats import count, plain, plain_line, region, shorten, writable
from repoagent.review.rules import RULES

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
RESULTS = 5_000  # GitHub shows 5,000 of a run, and accepts up to 25,000
BYTES = 10_000_000  # compressed; GitHub rejects a larger file
MESSAGE = 8_000  # characters
_JUSTIFICATION = "dismissed or accepted in an earlier review"
_SOURCES = {
    "static": "the changed texts",
    "history": "the history of the repository",
    "model": "a language model",
}


def render(report: Report) -> str:
    """One run, with the most important results first and the dismissed ones as suppressed; a notification has the
    number of omitted results."""
    findings = sorted(report.findings, key=lambda finding: -finding.level)
    results = [(finding, False) for finding in findings] + [(finding, True) for finding in report.dismissed]
    included = results[:RESULTS]
    while True:
        text = json.dumps(_log(report, included, len(results)), indent=1) + "\n"
        if len(text) < BYTES or not included or len(gzip.compress(text.encode(), 6)) <= BYTES:
            return text
        included = included[: len(included) // 2]


def _log(report: Report, included: Sequence[tuple[Finding, bool]], total: int) -> dict[str, object]:
    rules = list(dict.fromkeys([*RULES, *(finding.rule for finding, _ in included)]))
    sentences = [*report.unseen, *report.notes]
    if len(included) < total:
        omitted = count(total - len(included), "result")
        sentences.insert(0, f"{omitted} left out: code hosts limit the size of a report.")
    ids: Counter[str] = Counter()
    lines: set[tuple[str, str, int]] = set()
    results = []
    for finding, suppressed in included:
        ids[finding.id] += 1
        fingerprints = {"repoagentFinding/v1": f"{finding.id}:{ids[finding.id]}"}
        start = (region(finding) or (0, 0))[0]
        line = (finding.rule, finding.location.path, start)
        if not start or line in lines:
            fingerprints["primaryLocationLineHash"] = fingerprints["repoagentFinding/v1"]
        lines.add(line)
        result = _result(finding, suppressed=suppressed)
        index = rules.index(finding.rule)
        results.append({**result, "ruleIndex": index, "partialFingerprints": fingerprints})
    driver = {
        "name": "repoagent",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rule) for rule in rules],
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
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(name: str) -> dict[str, object]:
    rule = RULES.get(name)
    if rule is None:
        return {"id": name}
    level = (rule.default or Level.NOTE).word
    # no helpUri: the documentation comes with the program, and a viewer opens only an absolute URI
    help_text = (
        f"{rule.line} Source: {_SOURCES[rule.source]}. For details run `repoagent help docs/review.md`; to turn the "
        f"rule off, run `git config repoagent.review.rules.{rule.id} off`."
    )
    tags = [rule.source, *(["security"] if name in ("secret", "security") else [])]
    return {
        "id": name,
        "name": name.title().replace("-", ""),
        "shortDescription": {"text": rule.line},
        "fullDescription": {"text": rule.line},
        "help": {"text": help_text, "markdown": help_text},
        "defaultConfiguration": {"level": level, **({} if rule.default else {"enabled": False})},
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
        "message": {"text": shorten(message, MESSAGE)},
        "locations": [{"physicalLocation": location}],
        "suppressions": [{"kind": "external", "justification": _JUSTIFICATION}] if suppressed else [],
        "properties": {"id": finding.id, "commits": [writable(commit.commit) for commit in finding.evidence]},
    }
    if finding.confidence is not None:
        result["rank"] = round(100 * min(1.0, max(0.0, finding.confidence)), 1)
    return result
