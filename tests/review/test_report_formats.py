"""JSON, SARIF, annotations, Code Quality and a comment: each can represent any text, and no text is markup."""

from __future__ import annotations

import json
import os
import re
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import example, given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token

from repoagent import __version__
from repoagent.review import report_formats
from repoagent.review import report_markdown as markdown
from repoagent.review.finding import RULES, Finding, Level, Location, Report, Suggestion
from repoagent.review.report_formats import plain, plain_line, render_report
from repoagent.review.report_markdown import as_code, as_text, fenced
from tests.review.samples import HOSTILE, finding, hostile, report, reports, texts

OURS = re.compile(
    r"<!-- repoagent-review -->|</details>|</?sub>|</?code>"
    r"|<details(?: open)?><summary><code>[^<>]*</code>: [\d,]+ findings?</summary>"
)
# text that GitHub and GitLab turn into links in the rendered page
LINKED = re.compile(
    r"(?<!\w)[@#!~^]\w|\w[#!@&]\w|(?<!\w)[$%&]\w|GH-\d|\w-\d|://|www\.\w|:\w+:|\[\w+:\d|\w+@\w"
)
PARSER = MarkdownIt("commonmark", {"breaks": True}).enable("table")
BREAKS = {"softbreak": "\n", "hardbreak": "\n", "paragraph_close": "\n\n"}
TEXT_TOKENS = {"paragraph_open", "inline", "text", "text_special", *BREAKS}


def comment(subject: Report) -> str:
    return render_report(subject, "markdown").decode()


def tokens(text: str, kind: str = "") -> list[Token]:
    parsed = [inner for token in PARSER.parse(text) for inner in (token, *(token.children or []))]
    return [token for token in parsed if kind in ("", token.type)]


@settings(max_examples=80, deadline=None)
@given(texts)
def test_text_is_rendered_unchanged_and_as_text_only(text: str) -> None:
    text = plain(text)
    parsed = [token for token in tokens(as_text(text)) if token.type != "inline"]
    assert {token.type for token in parsed} <= TEXT_TOKENS
    visible = "".join(BREAKS.get(token.type, token.content) for token in parsed)
    visible = visible.replace("\u200b", "").replace("\xa0", " ").rstrip("\n")
    lines = [line.rstrip() for line in text.expandtabs(4).strip("\n ").split("\n")]
    assert re.sub("\n\n+", "\n\n", visible).split() == "\n".join(lines).split()
    linked = "".join("\n" if token.type.endswith(("break", "close")) else token.content for token in parsed)
    assert not LINKED.search(linked), linked


@settings(max_examples=60, deadline=None)
@given(texts)
def test_code_spans_and_fences_can_contain_any_text(text: str) -> None:
    line = plain_line(text)
    if line:
        (span,) = tokens(f"a {as_code(line)} b", "code_inline")
        assert span.content.strip() == line.strip()
        assert tokens(f"| a |\n|---|\n| {as_code(line, table=True)} |", "code_inline")
    (block,) = tokens(fenced(plain(text), "suggestion"))
    assert (block.type, block.info, block.content) == ("fence", "suggestion", plain(text) + "\n")


def check_comment(subject: Report) -> None:
    """Only our elements, no link, the marker first, one block for each file."""
    text = comment(subject)
    assert text.startswith(f"{markdown.MARKER}\n") and len(text) <= 65_536
    for token in tokens(text):
        assert token.type not in {"link_open", "image", "blockquote_open", "code_block"}, token
        if token.type in ("html_block", "html_inline"):
            assert OURS.sub("", token.content).strip() == "", token.content
        if token.type == "text":
            assert not LINKED.search(token.content), token.content
    files = len({finding.location.path for finding in subject.findings})
    assert text.count("\n<details") == text.count("\n</details>\n") == files
    names = {token.content for token in tokens(text, "code_inline")}
    assert names >= {finding.id for finding in subject.findings}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str) -> None:
    path = text.replace("\0", "").strip("/")
    check_comment(hostile(text, suggestion=Suggestion(Location(path, 1, 1), text)))


def test_the_text_of_a_comment() -> None:
    text = comment(report(finding(), model="m/x", unseen=("big.c: too large",)))
    assert (
        text
        == f"""{markdown.MARKER}
### Review of the staged change

**1 error** in 2 files.

| level | rule | findings |
|---|---|---:|
| error | `security` | 1 |

<details open><summary><code>src/find.py</code>: 1 finding</summary>

**error**: The name is run by a shell. (line 4, `security`, `{finding().id}`)

Any name with a semicolon runs a program.

```diff
-\treturn os.popen('find ' + name)
+\treturn run(['find', name])
```

- `1a2b1a2b1a2b` Add find

</details>

- not checked: big.c: too large

<sub>model `m/x`; to dismiss a finding: <code>repoagent review dismiss ID</code></sub>
"""
    )
    nothing = "No findings in 2 files (0 rules; no model asked)."
    assert comment(report()) == f"{markdown.MARKER}\n### Review of the staged change\n\n{nothing}\n\n"
    of_another_file = comment(report(finding(location=Location("a.py", 1, 1))))
    assert "In `src/find.py`:\n\n```diff" in of_another_file


@pytest.mark.parametrize(
    "many",
    [
        [finding(key=str(n), body="@#:" * 900, location=Location(f"{n}.py", 1, 1)) for n in range(40)],
        [finding(body="\x00" * 6_000, title="@" * 5_000, evidence=(), quote="", suggestion=None)] * 4,
    ],
)
def test_a_comment_stays_within_the_limit_and_counts_omitted_findings(many: list[Finding]) -> None:
    short = finding(location=Location("b.py"), level=Level.NOTE)
    text = comment(report(*many, short, unseen=["@" * 400] * 90))
    assert len(text.encode()) <= 65_000
    omitted = re.search(r"\n([\d]+) more findings? did not fit into this comment.\n", text)
    shown = text.count("\n**error**: ") + text.count("\n**note**: ")
    assert omitted is not None and shown > 0 and shown + int(omitted[1]) == len(many) + 1
    assert "more note" in text and "<code>b.py</code>" in text  # a short one after the long ones


UNESCAPED = (("%0A", "\n"), ("%0D", "\r"), ("%3A", ":"), ("%2C", ","), ("%25", "%"))


def load(subject: Report, format: str) -> Any:
    return json.loads(render_report(subject, format))


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
    for line in render_report(subject, "github").decode().split("\n")[:-1]:
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
    text = render_report(report(finding(body="100%\nsure: a, b")), "github").decode()
    assert text == (
        "::error file=src/find.py,line=4,endLine=4,title=security%3A The name is run by a shell.::100%25%0Asure: a, b"
        f"%0A%0A1a2b1a2b1a Add find%0A%0ATo dismiss this finding: repoagent review dismiss {finding().id}\n"
    )


def test_the_most_important_annotations_come_first_and_the_others_are_counted() -> None:
    notes = [finding(level=Level.NOTE, key=str(n)) for n in range(13)]
    subject = report(*notes, finding(level=Level.WARNING), finding())
    assert [name for name, _, _ in commands(subject)] == ["error", "warning", *["notice"] * 10]
    last = render_report(subject, "github").decode().splitlines()[-1]
    assert last == "repoagent: 3 more notes not shown; GitHub shows at most 10 of each kind per step"


def test_equal_findings_have_different_fingerprints_for_gitlab() -> None:
    fingerprints = [entry["fingerprint"] for entry in load(report(finding(), finding()), "gitlab")]
    assert fingerprints == [finding().id, f"{finding().id}-2"]


def run(*findings: Finding, **changed: object) -> Any:
    return load(report(*findings, **changed), "sarif")["runs"][0]


def test_results_beyond_the_limit_of_code_hosts_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_formats, "RESULTS", 3)
    result = run(*(finding(level=Level.NOTE, key=str(n)) for n in range(4)), finding())
    assert [entry["level"] for entry in result["results"]] == ["error", "note", "note"]
    notification = result["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    assert notification == "2 results left out: code hosts limit the size of a report."


def test_a_whole_log() -> None:
    """The members are those of SARIF 2.1.0; another one is refused by code hosts."""
    one = finding(confidence=0.5)
    hidden = finding(rule="tests", location=Location("a.py", 2, 3, old=True))
    log = json.loads(render_report(report(one, dismissed=(hidden,), unseen=("b.c",)), "sarif"))
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
    assert "region" not in other["locations"][0]["physicalLocation"]  # the lines were removed


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


def test_unreviewed_parts_are_notifications_and_messages_are_cut() -> None:
    result = run(finding(body="x" * 50_000), unseen=("big.c: too large\x1b",), notes=("be patient",))
    texts = [entry["message"]["text"] for entry in result["invocations"][0]["toolExecutionNotifications"]]
    assert texts == ["not checked: big.c: too large^[", "be patient"]
    assert len(result["results"][0]["message"]["text"]) == 8_000
