"""SARIF that code scanning accepts: its shape, locations, fingerprints, fixes, and limits."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

from repoagent import __version__
from repoagent.review import report_formats as sarif
from repoagent.review.finding import RULES, Finding, Level, Location, Report
from repoagent.review.report_formats import render
from tests.review.samples import HOSTILE, finding, report


def document(subject: Report) -> Any:
    return json.loads(render(subject, "sarif"))


def run(*findings: Finding, **changed: object) -> Any:
    (only,) = document(report(*findings, **changed))["runs"]
    return only


def test_a_whole_log() -> None:
    """The members are those of SARIF 2.1.0; another one is refused by code hosts."""
    one = finding(confidence=0.5)
    log = document(
        report(one, dismissed=(finding(rule="tests", location=Location("a.py", 2, 3)),), unseen=("b.c",))
    )
    (result, other) = log["runs"][0].pop("results")
    rules = log["runs"][0]["tool"]["driver"].pop("rules")
    text = {"text": "The top of the work tree."}
    notification = {"level": "note", "message": {"text": "not checked: b.c"}}
    driver = {"name": "repoagent", "version": __version__, "semanticVersion": __version__}
    assert log == {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "automationDetails": {"id": "repoagent/"},
                "columnKind": "utf16CodeUnits",
                "originalUriBaseIds": {"%SRCROOT%": {"description": text}},
                "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": [notification]}],
            }
        ],
    }
    assert list(RULES) == [rule["id"] for rule in rules]
    help_text = (
        "The change adds a key, a token or a password. Source: the changed texts. For details run `repoagent help "
        "docs/review.md`; to turn the rule off, run `git config repoagent.review.rules.secret off`."
    )
    line = {"text": RULES["secret"].line}
    assert rules[0] == {
        "id": "secret", "name": "Secret", "shortDescription": line, "fullDescription": line,
        "help": {"text": help_text, "markdown": help_text}, "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["static", "security"], "problem.severity": "error"},
    }  # fmt: skip
    place = {"uri": "src/find.py", "uriBaseId": "%SRCROOT%"}
    region = {"startLine": 4, "endLine": 4}
    assert result == {
        "ruleId": "security", "ruleIndex": list(RULES).index("security"), "level": "error", "suppressions": [],
        "message": {"text": f"{one.title}\n\n{one.body}\n\n1a2b1a2b1a2b Add find"},
        "locations": [{"physicalLocation": {"artifactLocation": place, "region": region}}],
        "partialFingerprints": {"repoagentFinding/v1": f"{one.id}:1"}, "rank": 50.0,
        "properties": {"id": one.id, "commits": ["1a2b" * 10]},
    }  # fmt: skip
    reason = "dismissed or accepted in an earlier review"
    assert other["suppressions"] == [{"kind": "external", "justification": reason}]


def fingerprints(*findings: Finding) -> list[dict[str, str]]:
    return [result["partialFingerprints"] for result in run(*findings)["results"]]


@pytest.mark.parametrize(
    "path", ["a b.py", "a:b", "ü/é#?.py", "%41.py", os.fsdecode(b"\xff\n.c"), *HOSTILE[:3]]
)
def test_a_path_is_a_relative_reference_to_its_bytes(path: str) -> None:
    location = run(finding(location=Location(path, 3, 9)))["results"][0]["locations"][0]["physicalLocation"]
    uri = location["artifactLocation"]["uri"]
    assert unquote_to_bytes(uri) == os.fsencode(path)
    assert ":" not in uri.split("/")[0] and uri.isascii()
    assert location["region"] == {"startLine": 3, "endLine": 9}


def test_fingerprints() -> None:
    """The upload computes the hash of the line for the first finding of a rule there."""
    first, second = finding(), finding(key="another")
    assert fingerprints(first, second) == [
        {"repoagentFinding/v1": f"{first.id}:1"},
        {"repoagentFinding/v1": f"{second.id}:1", "primaryLocationLineHash": f"{second.id}:1"},
    ]
    equal = [entry["repoagentFinding/v1"] for entry in fingerprints(first, first)]
    assert equal == [f"{first.id}:1", f"{first.id}:2"]
    whole = [finding(location=Location("a.py"), key=key, suggestion=None) for key in ("b.py", "c.py")]
    assert len({entry["primaryLocationLineHash"] for entry in fingerprints(*whole)}) == 2
    locations = [result["locations"][0]["physicalLocation"] for result in run(*whole)["results"]]
    assert all("region" not in location for location in locations)


def test_a_dismissed_finding_is_suppressed_and_removed_lines_have_no_region() -> None:
    (result,) = run(dismissed=(finding(location=Location("src/find.py", 4, 4, old=True)),))["results"]
    assert result["suppressions"][0]["kind"] == "external"
    assert "region" not in result["locations"][0]["physicalLocation"]


def test_unreviewed_parts_are_notifications_and_messages_are_cut() -> None:
    result = run(finding(body="x" * 50_000), unseen=("big.c: too large\x1b",), notes=("be patient",))
    notifications = result["invocations"][0]["toolExecutionNotifications"]
    assert [entry["message"]["text"] for entry in notifications] == [
        "not checked: big.c: too large^[",
        "be patient",
    ]
    assert len(result["results"][0]["message"]["text"]) == 8_000


def test_a_report_beyond_the_limits_is_cut_by_importance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "RESULTS", 3)
    result = run(*(finding(level=Level.NOTE, key=str(n)) for n in range(4)), finding())
    assert [entry["level"] for entry in result["results"]] == ["error", "note", "note"]
    notification = result["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    assert notification == "2 results left out: code hosts limit the size of a report."
