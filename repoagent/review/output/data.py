"""A report as JSON of our own: everything there is, for programs that know repoagent."""

from __future__ import annotations

import json

from repoagent.review.change import Change
from repoagent.review.finding import Finding, Report

VERSION = 1


def render(report: Report, *, change: Change | None = None) -> str:
    """Bytes of a path that are no UTF-8 are surrogate escapes, as in the other documents of ours."""
    return json.dumps(content(report), indent=2) + "\n"


def content(report: Report) -> dict[str, object]:
    """The same as data."""
    worst = report.worst()
    return {
        "version": VERSION,
        "title": report.title,
        "base": report.base or None,
        "head": report.head or None,
        "files": report.files,
        "rules": list(report.rules),
        "worst": None if worst is None else worst.word,
        "findings": [_finding(finding) for finding in report.findings],
        "dismissed": [_finding(finding) for finding in report.dismissed],
        "dropped": report.dropped,
        "unseen": list(report.unseen),
        "notes": list(report.notes),
        "model": report.model or None,
        "tokens": report.tokens,
        "cost": report.cost,
    }


def _finding(finding: Finding) -> dict[str, object]:
    place, suggestion = finding.place, finding.suggestion
    return {
        "id": finding.id,
        "rule": finding.rule,
        "level": finding.level.word,
        "title": finding.title,
        "body": finding.body,
        "path": place.path,
        "start": place.start or None,
        "end": place.end or None,
        "old": place.old,
        "key": finding.key,
        "quote": finding.quote,
        "evidence": [
            {"commit": one.commit, "time": one.time, "subject": one.subject} for one in finding.evidence
        ],
        "suggestion": None
        if suggestion is None
        else {
            "path": suggestion.place.path,
            "start": suggestion.place.start,
            "end": suggestion.place.end,
            "text": suggestion.text,
        },
        "confidence": finding.confidence,
    }
