"""JSON, annotations, Code Quality and rdjson: each holds any text, and nothing in it gets out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from repoagent.review.finding import Level, Location, Report, Suggestion
from repoagent.review.output.formats import FORMATS, render
from tests.review.output import sarif_shape
from tests.review.output.samples import HOSTILE, finding, report, reports
from tests.review.output.test_markdown import a_comment_has_only_our_own_markup

TOP = Path("/nowhere")
UNESCAPED = (("%0A", "\n"), ("%0D", "\r"), ("%3A", ":"), ("%2C", ","), ("%25", "%"))


def load(given: Report, format: str) -> Any:
    return json.loads(render(given, format, top=TOP))


def test_an_unknown_format_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown format 'yaml'"):
        render(report(), "yaml", top=TOP)


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_found_is_a_whole_document(format: str) -> None:
    data = render(report(), format, top=TOP)
    if format == "github":
        assert data == b""
    else:
        assert data.endswith(b"\n") and data.count(b"\0") == 0


def _json_says_everything(given: Report) -> None:
    found = load(given, "json")
    assert found["version"] == 1 and found["title"] == given.title
    for kind, all_of_them in (("findings", given.findings), ("dismissed", given.dismissed)):
        assert [one["id"] for one in found[kind]] == [one.id for one in all_of_them]
        for told, one in zip(found[kind], all_of_them, strict=True):
            assert (told["title"], told["body"], told["path"], told["quote"], told["key"]) == (
                one.title, one.body, one.location.path, one.quote, one.key,
            )  # fmt: skip
            assert told["level"] == one.level.word
            assert told["evidence"] == [
                {"commit": each.commit, "time": each.time, "subject": each.subject} for each in one.evidence
            ]
            if one.suggestion is not None:
                assert told["suggestion"]["text"] == one.suggestion.text
    assert found["unseen"] == given.unseen and found["notes"] == given.notes


def _sarif_has_the_shape_of_the_standard(given: Report) -> None:
    found = load(given, "sarif")
    sarif_shape.check(found)
    (run,) = found["runs"]
    assert len(run["results"]) == len(given.findings) + len(given.dismissed)
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])


def commands(given: Report) -> list[tuple[str, dict[str, str], str]]:
    """The lines as the runner reads them, and nothing but lines and plain sentences."""
    found = []
    text = render(given, "github", top=TOP).decode()
    for line in text.split("\n")[:-1]:
        assert "\r" not in line
        if not line.startswith("::"):
            assert line.startswith("repoagent: ") and "::" not in line and "##[" not in line
            continue
        head, _, message = line[2:].partition("::")
        name, _, told = head.partition(" ")
        values = dict(one.split("=", 1) for one in told.split(","))
        for code, character in UNESCAPED:
            values = {key: value.replace(code, character) for key, value in values.items()}
            message = message.replace(code, character) if character not in ":," else message
        found.append((name, values, message))
    return found


def _annotations_are_what_was_found(given: Report) -> None:
    found = commands(given)
    expected = sorted(given.findings, key=lambda one: -one.level)
    assert len(found) == len(expected)
    for (name, values, message), one in zip(found, expected, strict=True):
        assert name == {1: "notice", 2: "warning", 3: "error"}[one.level]
        assert set(values) == {"file", "title"} | ({"line", "endLine"} if "line" in values else set())
        if not any("\ud800" <= character <= "\udfff" for character in one.location.path):
            assert values["file"] == one.location.path
        assert ("line" in values) == (one.location.start > 0 and not one.location.old)
        assert values["title"].startswith(f"{one.rule}: ")
        assert message.endswith(f"repoagent review dismiss {one.id}")


@settings(max_examples=10, deadline=None)
@given(reports())
def test_whatever_was_found_is_told_in_each_form_and_nothing_else(given: Report) -> None:
    _json_says_everything(given)
    _annotations_are_what_was_found(given)
    _gitlab_has_one_entry_for_each(given)
    _rdjson_places_suggestions_by_whole_lines(given)
    _sarif_has_the_shape_of_the_standard(given)
    a_comment_has_only_our_own_markup(given)


def test_an_annotation_as_it_is_written() -> None:
    text = render(report(finding(body="100%\nsure: a, b")), "github", top=TOP).decode()
    assert text == (
        "::error file=src/find.py,line=4,endLine=4,title=security%3A The name is run by a shell.::100%25%0Asure: a, b"
        f"%0A%0A1a2b1a2b1a Add find%0A%0ATo dismiss it: repoagent review dismiss {finding().id}\n"
    )


def test_the_most_important_annotations_come_first_and_the_others_are_counted() -> None:
    many = [finding(level=Level.NOTE, key=str(n)) for n in range(13)] + [
        finding(level=Level.WARNING),
        finding(),
    ]
    found = commands(report(*many))
    assert [name for name, _, _ in found] == ["error", "warning", *["notice"] * 10]
    last = render(report(*many), "github", top=TOP).decode().splitlines()[-1]
    assert last == "repoagent: 3 more notes not shown here: GitHub shows 10 of a kind for a step"


def _gitlab_has_one_entry_for_each(given: Report) -> None:
    found = load(given, "gitlab")
    assert len(found) == len(given.findings)
    assert len({one["fingerprint"] for one in found}) == len(found)
    for told, one in zip(found, given.findings, strict=True):
        assert told["severity"] == {1: "info", 2: "minor", 3: "major"}[one.level]
        assert told["check_name"] == f"repoagent/{one.rule}"
        assert 1 <= told["location"]["lines"]["begin"] <= told["location"]["lines"]["end"]
        assert isinstance(told["description"], str) and "\n" not in told["description"]
        json.dumps(told, ensure_ascii=False).encode("utf-8")  # no half of a pair


def test_equal_findings_have_different_prints_for_gitlab_and_the_first_keeps_its_own() -> None:
    prints = [one["fingerprint"] for one in load(report(finding(), finding()), "gitlab")]
    assert prints == [finding().id, f"{finding().id}-2"]


def _rdjson_places_suggestions_by_whole_lines(given: Report) -> None:
    found = load(given, "rdjson")
    assert len(found["diagnostics"]) == len(given.findings)
    for told, one in zip(found["diagnostics"], given.findings, strict=True):
        assert told["code"] == {"value": one.rule}
        assert told["severity"] == {1: "INFO", 2: "WARNING", 3: "ERROR"}[one.level]
        for suggestion in told.get("suggestions", []):
            assert set(suggestion["range"]["start"]) == {"line"}
        json.dumps(told, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize(
    ("text", "told"), [("a\nb\n", "a\nb"), ("", ""), ("\n", None), ("a\r\n", "a"), ("a\n\n", "a\n")]
)
def test_a_suggestion_for_reviewdog_has_no_last_line_ending(text: str, told: str | None) -> None:
    one = finding(suggestion=Suggestion(Location("src/find.py", 4, 5), text))
    (found,) = load(report(one), "rdjson")["diagnostics"]
    if told is None:
        assert "suggestions" not in found
    else:
        assert found["suggestions"] == [{"range": {"start": {"line": 4}, "end": {"line": 5}}, "text": told}]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_everywhere_is_written_as_utf_8(format: str, text: str) -> None:
    path = text.replace("\0", "").strip("/")
    one = finding(title=text, body=text, quote=text, location=Location(path, 2, 3), key=text)
    given = Report(
        text, 1, [one], [one], 1, [text], [text], text, by_file={path: text.encode("utf-8", "replace")}
    )
    render(given, format, top=TOP).decode("utf-8")
