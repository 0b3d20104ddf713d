"""Workflow commands: a line of the log that GitHub shows at a line of the change."""

from __future__ import annotations

from collections import Counter

from repoagent.review.change import Change
from repoagent.review.finding import Finding, Level, Report
from repoagent.review.output.lines import region
from repoagent.review.output.plain import count, plain, plain_line, shortened

MOST = 10  # of a level are shown for a step; the runner says nothing of the others
_COMMANDS = {Level.NOTE: "notice", Level.WARNING: "warning", Level.ERROR: "error"}
_MESSAGE = 4_000  # characters; the rest is in the other formats
_TITLE = 200
_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def render(report: Report, *, change: Change | None = None) -> str:
    """A line each, the most important first, as many as GitHub shows; then what was left out, in words."""
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
    properties = {"file": plain_line(finding.place.path) if _odd(finding.place.path) else finding.place.path}
    if place is not None:
        properties |= {"line": str(place[0]), "endLine": str(place[1])}
    properties["title"] = f"{finding.rule}: {shortened(plain_line(finding.title), _TITLE)}"
    told = ",".join(f"{name}={value.translate(_PROPERTY)}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.level]} {told}::{_message(finding).translate(_DATA)}"


def _message(finding: Finding) -> str:
    parts = [plain(finding.body).strip() or plain_line(finding.title)]
    if finding.evidence:
        parts.append(
            "\n".join(f"{one.commit[:10]} {plain_line(one.subject)}" for one in finding.evidence[:5])
        )
    parts.append(f"To dismiss it: repoagent review dismiss {finding.id}")
    return shortened("\n\n".join(parts), _MESSAGE)


def _harmless(sentence: str) -> str:
    """A line of the log that the runner takes for no command, of its old form either."""
    return plain_line(sentence).replace("::", ": :").replace("##[", "## [")


def _odd(path: str) -> bool:
    return any("\ud800" <= one <= "\udfff" for one in path)
