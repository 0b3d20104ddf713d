"""A report as SARIF 2.1.0 (OASIS), within the limits of GitHub code scanning.

Code scanning recognizes a line that has moved by its hash: a polynomial hash (Karp and Rabin 1987) of the hundred
characters from its start, without spaces and tabs, each line ending as a line feed: base 37, modulo 2^64, of UTF-16
code units, the end of the file as 65535 and zeros after it. Equal hashes in a file are numbered. GitHub's upload
action computes the same and warns when ours differ.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Collection, Sequence
from urllib.parse import quote_from_bytes

from repoagent import __version__
from repoagent.review.change import Change, split_lines
from repoagent.review.finding import Finding, Level, Report, Suggestion
from repoagent.review.output.formats import count, plain, plain_line, region, shorten, shown, writable
from repoagent.review.rules import RULES, Rule


def uri(path: str) -> str:
    """A path as a relative reference (RFC 3986): its bytes, all but the unreserved ones and the slash in percent."""
    return quote_from_bytes(os.fsencode(path), safe="/")


def sarif_location(path: str, lines: tuple[int, int] | None) -> dict[str, object]:
    """Lines of a file, counted from 1, or all of it."""
    place: dict[str, object] = {"artifactLocation": _artifact(path)}
    if lines is not None:
        place["region"] = {"startLine": lines[0], "endLine": lines[1]}
    return {"physicalLocation": place}


def sarif_fix(report: Report, suggestion: Suggestion) -> dict[str, object] | None:
    """The suggestion; None if it is not Unicode or does not fit the text.

    The region goes from the start of the first line to the start of the line after the last one; where there is none,
    to its end, in UTF-16 code units.
    """
    place, text = suggestion.location, suggestion.text
    source = report.by_file.get(place.path)
    if source is None or place.old or any("\ud800" <= one <= "\udfff" for one in text):
        return None
    lines = split_lines(source)
    if not 1 <= place.start <= place.end <= len(lines):
        return None
    deleted = {"startLine": place.start, "startColumn": 1, "endLine": place.end + 1, "endColumn": 1}
    if not lines[place.end - 1].endswith(b"\n"):
        units = len(shown(lines[place.end - 1]).encode("utf-16-le", "surrogatepass")) // 2
        deleted |= {"endLine": place.end, "endColumn": units + 1}
        text = text.removesuffix("\n")
    return {
        "description": {"text": "Apply the suggestion of repoagent."},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(place.path),
                "replacements": [{"deletedRegion": deleted, "insertedContent": {"text": text}}],
            }
        ],
    }


def _artifact(path: str) -> dict[str, object]:
    return {"uri": uri(path), "uriBaseId": "%SRCROOT%"}


_WINDOW = 100
_BASE = 37
_MODULUS = 1 << 64
_MOST = 400_000  # bytes; for a larger text the uploader computes them
_END = 0xFFFF


def line_hashes(text: bytes, lines: Collection[int]) -> dict[int, str]:
    """The hash of each of `lines` (from 1) with its number, "1a2b:1"; {} for a long text."""
    if len(text) > _MOST:
        return {}
    units, starts = _units(text)
    wanted = set(lines)
    last = max(wanted, default=0)
    units += [0] * _WINDOW
    powers = [pow(_BASE, _WINDOW - 1 - place, _MODULUS) for place in range(_WINDOW)]
    seen: Counter[int] = Counter()
    found = {}
    for number, start in enumerate(starts[:last], 1):
        window = units[start : start + _WINDOW]
        value = sum(unit * power for unit, power in zip(window, powers, strict=True)) % _MODULUS
        seen[value] += 1
        if number in wanted:
            found[number] = f"{value:x}:{seen[value]}"
    return found


def _units(text: bytes) -> tuple[list[int], list[int]]:
    """The code units that count, and where among them each line starts."""
    decoded = text.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    kept = decoded.replace(" ", "").replace("\t", "")
    data = kept.encode("utf-16-le", "surrogatepass")
    units = [*memoryview(data).cast("H"), _END]
    starts = [0, *(place + 1 for place, unit in enumerate(units[:-1]) if unit == 0x0A)]
    return units, starts


SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
RESULTS = 5_000  # of a run are shown; up to 25,000 would be taken
BYTES = 10_000_000  # of a file, compressed; what is larger is refused whole
_MESSAGE = 8_000  # characters
_JUSTIFICATION = "dismissed or accepted in an earlier review"


def render(report: Report, *, change: Change | None = None) -> str:
    """One run, with the most important results first and the dismissed ones as suppressed; a notification says how many
    did not fit."""
    findings = sorted(report.findings, key=lambda finding: -finding.level)
    results = [(finding, False) for finding in findings] + [(finding, True) for finding in report.dismissed]
    kept = results[:RESULTS]
    while True:
        text = json.dumps(_log(report, kept, len(results)), indent=1) + "\n"
        if len(text) < BYTES or not kept or len(gzip.compress(text.encode(), 6)) <= BYTES:
            return text
        kept = kept[: len(kept) // 2]


def _log(report: Report, kept: Sequence[tuple[Finding, bool]], total: int) -> dict[str, object]:
    rules = list(dict.fromkeys([*RULES, *(finding.rule for finding, _ in kept)]))
    places = {rule: index for index, rule in enumerate(rules)}
    prints = _fingerprints(report, [finding for finding, _ in kept])
    said = [*report.unseen, *report.notes]
    if len(kept) < total:
        said.insert(
            0, f"{count(total - len(kept), 'result')} left out: code hosts limit the size of a report."
        )
    run: dict[str, object] = {
        "tool": {
            "driver": {
                "name": "repoagent",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [_rule(rule, RULES.get(rule)) for rule in rules],
            }
        },
        "automationDetails": {"id": "repoagent/"},
        "columnKind": "utf16CodeUnits",
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "The top of the work tree."}}},
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {"level": "note", "message": {"text": plain(text)}} for text in said
                ],
            }
        ],
        "results": [
            _result(report, finding, places[finding.rule], marks, suppressed=suppressed)
            for (finding, suppressed), marks in zip(kept, prints, strict=True)
        ],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(name: str, rule: Rule | None) -> dict[str, object]:
    entry: dict[str, object] = {"id": name}
    if rule is None:
        return entry
    level = (rule.default or Level.NOTE).word
    # no helpUri: the documentation comes with the program, and a viewer opens only an absolute URI
    help_text = (
        f"{rule.line} Source: {_SOURCES[rule.source]}. For details run `repoagent help docs/review.md`; to turn the "
        f"rule off, run `git config repoagent.review.rules.{rule.id} off`."
    )
    configuration: dict[str, object] = {"level": level}
    if rule.default is None:
        configuration["enabled"] = False
    tags = [rule.source, *(["security"] if name in ("secret", "security") else [])]
    return {
        **entry,
        "name": name.title().replace("-", ""),
        "shortDescription": {"text": rule.line},
        "fullDescription": {"text": rule.line},
        "help": {"text": help_text, "markdown": help_text},
        "defaultConfiguration": configuration,
        "properties": {"tags": tags, "problem.severity": "recommendation" if level == "note" else level},
    }


_SOURCES = {
    "static": "the changed texts",
    "history": "the history of the repository",
    "model": "a language model",
}


def _result(
    report: Report, finding: Finding, rule: int, prints: dict[str, str], *, suppressed: bool
) -> dict[str, object]:
    title, body = plain_line(finding.title), plain(finding.body).strip()
    commits = [f"{one.commit[:12]} {plain_line(one.subject)}" for one in finding.evidence]
    message = "\n\n".join(part for part in (title, body, "\n".join(commits)) if part)
    result: dict[str, object] = {
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "level": finding.level.word,
        "message": {"text": shorten(message, _MESSAGE)},
        "locations": [sarif_location(finding.location.path, region(finding))],
        "partialFingerprints": prints,
        "suppressions": [{"kind": "external", "justification": _JUSTIFICATION}] if suppressed else [],
        "properties": {"id": finding.id, "commits": [writable(one.commit) for one in finding.evidence]},
    }
    if finding.confidence is not None:
        result["rank"] = round(100 * min(1.0, max(0.0, finding.confidence)), 1)
    if finding.suggestion is not None and (change := sarif_fix(report, finding.suggestion)) is not None:
        result["fixes"] = [change]
    return result


def _fingerprints(report: Report, findings: Sequence[Finding]) -> list[dict[str, str]]:
    """The finding's id, numbered among equal ones, and the line hash of code scanning."""
    wanted: dict[str, set[int]] = {}
    for finding in findings:
        if place := region(finding):
            wanted.setdefault(finding.location.path, set()).add(place[0])
    hashes = {
        path: line_hashes(report.by_file[path], lines)
        for path, lines in wanted.items()
        if path in report.by_file
    }
    seen: dict[str, int] = {}
    used: set[tuple[str, str, str]] = set()
    prints = []
    for finding in findings:
        seen[finding.id] = seen.get(finding.id, 0) + 1
        marks = {"repoagentFinding/v1": f"{finding.id}:{seen[finding.id]}"}
        place = region(finding)
        known = hashes.get(finding.location.path, {}).get(place[0]) if place else None
        where = (finding.rule, finding.location.path, known or "")
        if (
            place is None or where in used
        ):  # there it computes none; and two of one rule at a line would be one alert
            marks["primaryLocationLineHash"] = marks["repoagentFinding/v1"]
        elif known:
            marks["primaryLocationLineHash"] = known
            used.add(where)
        prints.append(marks)
    return prints
