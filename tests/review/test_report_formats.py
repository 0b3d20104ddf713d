"""JSON, annotations and Code Quality: each can represent any text, and no text is markup."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings

from repoagent.review.finding import Level, Report
from repoagent.review.report_formats import render
from tests.review.samples import finding, report, reports
from tests.review.test_report_markdown import check_comment

UNESCAPED = (("%0A", "\n"), ("%0D", "\r"), ("%3A", ":"), ("%2C", ","), ("%25", "%"))


def load(subject: Report, format: str) -> Any:
    return json.loads(render(subject, format))


@settings(max_examples=10, deadline=None)
@given(reports())
@example(report(notes=[":::"], unseen=[]))
def test_every_format_represents_all_findings_and_nothing_else(subject: Report) -> None:
    check_json(subject)
    check_annotations(subject)
    check_gitlab(subject)
    check_sarif(subject)
    check_comment(subject)


def check_json(subject: Report) -> None:
    document = load(subject, "json")
    assert document["version"] == 1 and document["title"] == subject.title
    assert document["unseen"] == subject.unseen and document["notes"] == subject.notes
    for kind, findings in (("findings", subject.findings), ("dismissed", subject.dismissed)):
        for entry, rendered in zip(document[kind], findings, strict=True):
            expected = {
                "id": rendered.id, "level": rendered.level.word, "title": rendered.title, "body": rendered.body,
                "quote": rendered.quote, "path": rendered.location.path, "key": rendered.key,
                "evidence": [commit._asdict() for commit in rendered.evidence],
            }  # fmt: skip
            assert {name: entry[name] for name in expected} == expected
            if rendered.suggestion is not None:
                assert entry["suggestion"]["text"] == rendered.suggestion.text


def check_sarif(subject: Report) -> None:
    document = load(subject, "sarif")
    (run,) = document["runs"]
    assert len(run["results"]) == len(subject.findings) + len(subject.dismissed)
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])


def commands(subject: Report) -> list[tuple[str, dict[str, str], str]]:
    """The commands as the runner reads them; all other lines are plain sentences."""
    result = []
    for line in render(subject, "github").decode().split("\n")[:-1]:
        assert "\r" not in line
        if not line.startswith("::"):
            assert line.startswith("repoagent: ") and "::" not in line and "##[" not in line
            continue
        head, _, message = line[2:].partition("::")
        name, _, properties = head.partition(" ")
        values = dict(part.split("=", 1) for part in properties.split(","))
        for code, character in UNESCAPED:
            values = {key: value.replace(code, character) for key, value in values.items()}
            message = message.replace(code, character) if character not in ":," else message
        result.append((name, values, message))
    return result


def check_annotations(subject: Report) -> None:
    expected = sorted(subject.findings, key=lambda finding: -finding.level)
    for (name, values, message), one in zip(commands(subject), expected, strict=True):
        assert name == {1: "notice", 2: "warning", 3: "error"}[one.level]
        assert set(values) == {"file", "title"} | ({"line", "endLine"} if "line" in values else set())
        if not any("\ud800" <= character <= "\udfff" for character in one.location.path):
            assert values["file"] == one.location.path
        assert ("line" in values) == (one.location.start > 0 and not one.location.old)
        assert values["title"].startswith(f"{one.rule}: ")
        assert message.endswith(f"repoagent review dismiss {one.id}")


def check_gitlab(subject: Report) -> None:
    entries = load(subject, "gitlab")
    assert len({entry["fingerprint"] for entry in entries}) == len(entries)
    for entry, one in zip(entries, subject.findings, strict=True):
        assert entry["severity"] == {1: "info", 2: "minor", 3: "major"}[one.level]
        assert entry["check_name"] == f"repoagent/{one.rule}"
        assert 1 <= entry["location"]["lines"]["begin"] <= entry["location"]["lines"]["end"]
        assert isinstance(entry["description"], str) and "\n" not in entry["description"]
        json.dumps(entry, ensure_ascii=False).encode("utf-8")  # without half of a surrogate pair


def test_the_text_of_an_annotation() -> None:
    text = render(report(finding(body="100%\nsure: a, b")), "github").decode()
    assert text == (
        "::error file=src/find.py,line=4,endLine=4,title=security%3A The name is run by a shell.::100%25%0Asure: a, b"
        f"%0A%0A1a2b1a2b1a Add find%0A%0ATo dismiss this finding: repoagent review dismiss {finding().id}\n"
    )


def test_the_most_important_annotations_come_first_and_the_others_are_counted() -> None:
    notes = [finding(level=Level.NOTE, key=str(n)) for n in range(13)]
    subject = report(*notes, finding(level=Level.WARNING), finding())
    assert [name for name, _, _ in commands(subject)] == ["error", "warning", *["notice"] * 10]
    last = render(subject, "github").decode().splitlines()[-1]
    assert last == "repoagent: 3 more notes not shown; GitHub shows at most 10 of each kind per step"


def test_equal_findings_have_different_fingerprints_for_gitlab() -> None:
    fingerprints = [entry["fingerprint"] for entry in load(report(finding(), finding()), "gitlab")]
    assert fingerprints == [finding().id, f"{finding().id}-2"]
