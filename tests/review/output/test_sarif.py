"""SARIF that code scanning takes: its shape, places, fingerprints, fixes, and limits."""

from __future__ import annotations

import gzip
import json
import os
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given, settings

from repoagent.review.finding import Level, Location, Report, Suggestion
from repoagent.review.output import sarif
from repoagent.review.output.formats import render
from repoagent.review.rules import RULES
from tests.review.output.samples import HOSTILE, finding, report, reports

SCHEMA = os.environ.get("SARIF_SCHEMA", "")
TOP = Path("/nowhere")


def log(given: Report) -> Any:
    return json.loads(render(given, "sarif", top=TOP))


def run(given: Report) -> Any:
    (only,) = log(given)["runs"]
    return only


@cache
def validator() -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    return jsonschema.Draft7Validator(json.loads(Path(SCHEMA).read_bytes()))


@pytest.mark.skipif(not SCHEMA, reason="SARIF_SCHEMA does not say where sarif-2.1.0.json is")
@settings(max_examples=25, deadline=None)
@given(reports())
def test_the_schema_itself_takes_it(given: Report) -> None:
    assert [error.message for error in validator().iter_errors(log(given))] == []


def test_all_rules_are_described_with_their_level_and_few_tags() -> None:
    rules = {rule["id"]: rule for rule in run(report())["tool"]["driver"]["rules"]}
    assert list(rules) == list(RULES)
    for name, rule in RULES.items():
        assert rules[name]["help"]["text"].startswith(rule.line)
        assert rules[name]["defaultConfiguration"]["level"] == (rule.default or Level.NOTE).word
        assert len(rules[name]["properties"]["tags"]) <= 20


@pytest.mark.parametrize(
    "path", ["a b.py", "a:b", "ü/é#?.py", "%41.py", os.fsdecode(b"\xff\n.c"), *HOSTILE[:3]]
)
def test_a_path_is_a_relative_reference_to_its_bytes(path: str) -> None:
    result = run(report(finding(location=Location(path, 3, 9))))["results"][0]
    place = result["locations"][0]["physicalLocation"]
    uri = place["artifactLocation"]["uri"]
    assert unquote_to_bytes(uri) == os.fsencode(path)
    assert ":" not in uri.split("/")[0] and uri.isascii()
    assert place["region"] == {"startLine": 3, "endLine": 9}


def test_a_whole_file_has_no_region_and_is_known_again_all_the_same() -> None:
    pair = [finding(location=Location("a.py"), key=key, suggestion=None) for key in ("b.py", "c.py")]
    results = run(report(*pair))["results"]
    assert all("region" not in result["locations"][0]["physicalLocation"] for result in results)
    assert len({result["partialFingerprints"]["primaryLocationLineHash"] for result in results}) == 2


def test_a_second_finding_of_a_rule_at_a_line_is_an_alert_of_its_own() -> None:
    """The upload computes the hash of the line for the first one."""
    one, two = finding(), finding(key="another")
    prints = [result["partialFingerprints"] for result in run(report(one, two))["results"]]
    assert prints == [
        {"repoagentFinding/v1": f"{one.id}:1"},
        {"repoagentFinding/v1": f"{two.id}:1", "primaryLocationLineHash": f"{two.id}:1"},
    ]


def test_equal_findings_are_numbered() -> None:
    results = run(report(finding(), finding()))["results"]
    prints = [result["partialFingerprints"]["repoagentFinding/v1"] for result in results]
    assert prints == [f"{finding().id}:1", f"{finding().id}:2"]


def test_a_suggestion_is_a_fix_of_whole_lines() -> None:
    fix = run(report(finding()))["results"][0]["fixes"][0]["artifactChanges"][0]["replacements"][0]
    assert fix["deletedRegion"] == {"startLine": 4, "startColumn": 1, "endLine": 5, "endColumn": 1}
    assert fix["insertedContent"]["text"] == "\treturn run(['find', name])\n"


def test_at_the_end_without_a_newline_columns_are_utf_16_units() -> None:
    last = finding(suggestion=Suggestion(Location("src/find.py", 6, 6), "last = ''\n"))
    fix = run(report(last))["results"][0]["fixes"][0]["artifactChanges"][0]["replacements"][0]
    units = len("last = 'é😀'".encode("utf-16-le")) // 2
    assert fix["deletedRegion"] == {"startLine": 6, "startColumn": 1, "endLine": 6, "endColumn": units + 1}
    assert fix["insertedContent"]["text"] == "last = ''"


@pytest.mark.parametrize(
    "suggestion",
    [
        Suggestion(Location("src/find.py", 9, 9), "beyond\n"),
        Suggestion(Location("other.py", 1, 1), "not at hand\n"),
        Suggestion(Location("src/find.py", 4, 4), "\udcff\n"),
        Suggestion(Location("src/find.py", 4, 4, old=True), "gone\n"),
    ],
)
def test_a_suggestion_that_does_not_fit_is_no_fix(suggestion: Suggestion) -> None:
    assert "fixes" not in run(report(finding(suggestion=suggestion)))["results"][0]


def test_a_dismissed_finding_is_suppressed_and_removed_lines_have_no_region() -> None:
    gone = finding(location=Location("src/find.py", 4, 4, old=True))
    (result,) = run(report(dismissed=(gone,)))["results"]
    assert result["suppressions"][0]["kind"] == "external"
    assert "region" not in result["locations"][0]["physicalLocation"]


def test_what_was_not_looked_at_is_a_notification() -> None:
    (invocation,) = run(report(unseen=("big.c: too large\x1b",), notes=("be patient",)))["invocations"]
    said = [one["message"]["text"] for one in invocation["toolExecutionNotifications"]]
    assert said == ["big.c: too large^[", "be patient"]


def test_more_than_is_shown_is_cut_by_importance_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "RESULTS", 3)
    notes = [finding(level=Level.NOTE, key=str(n)) for n in range(4)]
    only = run(report(*notes, finding()))
    assert [result["level"] for result in only["results"]] == ["error", "note", "note"]
    said = only["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    assert said == "2 results left out: code hosts limit the size of a report."


def test_a_file_that_would_be_too_large_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "BYTES", 6_000)
    many = [finding(key=str(n), body="".join(chr(33 + n * k % 90) for k in range(500))) for n in range(64)]
    data = render(report(*many), "sarif", top=TOP)
    results = json.loads(data)["runs"][0]["results"]
    assert len(gzip.compress(data)) <= 6_100 and 0 < len(results) < 64


def test_a_long_message_is_cut() -> None:
    (result,) = run(report(finding(body="x" * 50_000)))["results"]
    assert len(result["message"]["text"]) == 8_000
