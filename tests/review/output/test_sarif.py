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
from repoagent.review.output.sarif import line_hashes
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


def test_a_line_is_known_again_as_code_scanning_knows_it_and_two_findings_there_are_two_alerts() -> None:
    one, two = finding(), finding(key="another")
    results = run(report(one, two))["results"]
    known = line_hashes(report().by_file["src/find.py"], [4])[4]
    assert [result["partialFingerprints"]["primaryLocationLineHash"] for result in results] == [
        known,
        f"{two.id}:1",
    ]
    assert [result["partialFingerprints"]["repoagentFinding/v1"] for result in results] == [
        f"{one.id}:1",
        f"{two.id}:1",
    ]


def test_equal_findings_are_numbered() -> None:
    results = run(report(finding(), finding()))["results"]
    prints = [result["partialFingerprints"]["repoagentFinding/v1"] for result in results]
    assert prints == [f"{finding().id}:1", f"{finding().id}:2"]


# The hashes that GitHub's own action has for these texts.
@pytest.mark.parametrize(
    ("text", "hashes"),
    [
        (b"", "c129715d7a2bc9a3:1"),
        (b" a\nb\n  \t\tc\n d", "271789c17abda88f:1 54703d4cd895b18:1 180aee12dab6264:1 a23a3dc5e078b07b:1"),
        (
            b" hello; \t\nworld!!!\r\n\n\r  \t\tGreetings\r End\r\n",
            "e9496ae3ebfced30:1 fb7c023a8b9ccb3f:1 ce8ba1a563dcdaca:1 e20e36e16fcb0cc8:1 b3edc88f2938467e:1 "
            "c8e28b0b4002a3a0:1 c129715d7a2bc9a3:1",
        ),
        (
            b"Lorem ipsum dolor sit amet.\n" * 10,
            "a7f2ff13bc495cf2:1 a7f2ff13bc495cf2:2 a7f2ff13bc495cf2:3 a7f2ff13bc495cf2:4 a7f2ff13bc495cf2:5 "
            "a7f2ff13bc495cf2:6 a7f2ff1481e87703:1 a9cf91f7bbf1862b:1 55ec222b86bcae53:1 cc97dc7b1d7d8f7b:1 "
            "c129715d7a2bc9a3:1",
        ),
    ],
)  # fmt: skip
def test_lines_have_the_hash_that_the_upload_computes(text: bytes, hashes: str) -> None:
    expected = dict(enumerate(hashes.split(), 1))
    assert line_hashes(text, [*expected, 99]) == expected
    assert line_hashes(text, [len(expected)]) == {len(expected): expected[len(expected)]}


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
