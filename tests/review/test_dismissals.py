"""Dismissed findings are hidden: by their id even if they move, by a comment, by a trailer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from repoagent.errors import Refused, UsageError
from repoagent.review.change import Change, ChangedLines
from repoagent.review.dismissals import (
    dismissed_path,
    ignore_trailers,
    record_verdict,
    split_dismissed,
    verdicts,
)
from repoagent.review.finding import (
    Finding,
    Level,
    Location,
    Report,
    as_data,
    from_data,
    read_last,
    reviews_dir,
    save_last,
)
from repoagent.storage.layout import Layout
from tests.review.builders import TOKEN, change_of, modified
from tests.review.samples import findings

TEXT = b"a = 1\nb = 2  # repoagent: ignore[security]\nc = 3\n<!-- RepoAgent: ignore[tests, correctness] -->\nd = 4\ne = 5\n"
FINDING = Finding(
    "correctness", Level.WARNING, "It is wrong", Location("src/a.py", 3, 3), "Because.", quote="c = 3\n"
)


@pytest.fixture
def paths(tmp_path: Path) -> Layout:
    (tmp_path / "git").mkdir()
    return Layout(tmp_path / ".repoagent", tmp_path / "git")


def change(message: str = "", text: bytes = TEXT, old: bytes = b"") -> Change:
    lines = ChangedLines(0, (), 1, tuple(text.splitlines(keepends=True)))
    return change_of(modified("src/a.py", "src/old.py"), old, text, lines, kind="staged", message=message)


def remaining(paths: Layout, *findings: Finding, of: Change | None = None) -> list[Finding]:
    open_findings, dismissed = split_dismissed(of or change(), findings, verdicts(paths))
    assert sorted([*open_findings, *dismissed], key=findings.index) == list(findings)
    return open_findings


def at(line: int, rule: str = "correctness", *, old: bool = False) -> Finding:
    return FINDING._replace(rule=rule, location=Location("src/a.py", line, line, old), quote=f"line {line}\n")


def test_ids_that_name_no_finding(paths: Layout) -> None:
    with pytest.raises(UsageError, match="run `repoagent review` first"):
        record_verdict(paths, "4f1c2e", "dismissed")
    by_start: dict[str, Finding] = {}
    for key in map(str, range(10_000)):
        finding = FINDING._replace(key=key)
        other = by_start.setdefault(finding.id[:4], finding)
        if other is not finding:
            break
    cases = {"": "is too short", FINDING.id[:3]: "is too short", "zzzz": "the staged change"}
    cases |= {FINDING.id + "0": "the staged change", finding.id[:4]: "is ambiguous"}
    save_last(paths, Report("the staged change", 1, [FINDING, finding, other]))
    for name, reason in cases.items():
        with pytest.raises(UsageError, match=reason):
            record_verdict(paths, name, "accepted")
    assert not dismissed_path(paths).exists()


def test_a_dismissed_finding_is_recognized_if_its_lines_move(paths: Layout) -> None:
    other = FINDING._replace(quote="c = 4\n")
    save_last(paths, Report("x", 1, [FINDING], dismissed=[other]))
    reason = f"by design\nreally {TOKEN}"
    assert record_verdict(paths, FINDING.id[:6].upper(), "dismissed", reason=reason) == FINDING
    assert TOKEN not in dismissed_path(paths).read_text()
    moved = FINDING._replace(location=Location("src/a.py", 30, 30), title="In other words", level=Level.ERROR)
    assert remaining(paths, moved, other) == [other]
    record_verdict(paths, other.id, "accepted")
    assert remaining(paths, moved, other) == []
    first, second = verdicts(paths).values()
    assert (first.state, first.rule) == ("dismissed", "correctness")
    assert first.reason.startswith("by design really ")
    assert (second.state, second.reason) == ("accepted", "")
    record_verdict(paths, FINDING.id, "open")
    assert remaining(paths, moved, other) == [moved]
    assert (paths.root / ".gitignore").read_text() == "*\n"


def test_files_with_edits_and_of_newer_versions(paths: Layout) -> None:
    save_last(paths, Report("x", 1, [FINDING]))
    record_verdict(paths, FINDING.id, "dismissed")
    path = dismissed_path(paths)
    newer = json.dumps({"version": 2, "id": FINDING.id, "state": "open"})
    path.write_text(f'{path.read_text()}no json\n{newer}\n{{"version": 1, "id": 5, "state": "open"}}\n')
    warnings: list[str] = []
    assert list(verdicts(paths, warn=warnings.append)) == [FINDING.id]
    assert "1 broken line" in warnings[0]
    path.write_text("")  # the user removed the line
    assert remaining(paths, FINDING) == [FINDING]
    (reviews_dir(paths) / "last.json").write_text("{")
    assert read_last(paths, warn=warnings.append) is None
    (reviews_dir(paths) / "last.json").write_text(json.dumps({"version": 9}))
    with pytest.raises(Refused, match="update repoagent"):
        read_last(paths)
    saved = as_data(FINDING)
    for broken in ([{"rule": 1}], [7], None, [{**saved, "level": 3}], [{**saved, "suggestion": 1}]):
        (reviews_dir(paths) / "last.json").write_text(json.dumps({"version": 2, "findings": broken}))
        assert read_last(paths) is None


WHOLE = FINDING._replace(location=Location("src/a.py"))
PARTNER = Finding("partner-missing", Level.WARNING, "x", Location("src/a.py"), key="docs/a.md")
STARRED = change(text=b"x = 1  // repoagent:ignore[*]\n")
REMOVED = change(old=b"# repoagent: ignore[correctness]\nguard()\n")


@pytest.mark.parametrize(
    ("finding", "of", "is_open"),
    [
        (at(2, "security"), None, False),
        (at(3, "security"), None, False),  # on the line after the comment
        (at(1, "security"), None, True),
        (at(4, "security"), None, True),
        (at(5), None, False),
        (at(5, "tests"), None, False),
        (at(4, "tests"), None, False),
        (at(5, "compatibility"), None, True),
        (at(6), None, True),
        (WHOLE, None, True),
        (FINDING._replace(location=Location("src/a.py", 3, 6)), None, False),
        (at(1), STARRED, False),
        (at(2, old=True), REMOVED, False),
        (at(2)._replace(location=Location("nowhere", 1, 1)), None, True),
        # trailers of the message
        (FINDING, "Subject\n\nReview-Ignore: correctness\n", False),
        (FINDING, "Subject\n\nreview-ignore: tests,correctness src/a.py\r\n", False),
        (FINDING, "Subject\n\nReview-Ignore: correctness src/\n", False),
        (FINDING, "Subject\n\nReview-Ignore: * src/a.py", False),
        (FINDING, "Subject\n\nReview-Ignore: correctness other.py\n", True),
        (FINDING, "Subject\n\nReview-Ignore: correctness src/a\n", True),
        (FINDING, "Subject\n\nReview-Ignore: security\n", True),
        (FINDING, "Subject\n\nnot Review-Ignore: correctness\n", True),
        (FINDING, "Review-Ignore:\n\ncorrectness\n", True),
        (PARTNER, "a\n\nReview-Ignore: partner-missing docs/a.md\n", False),  # the file that it is about
    ],
)
def test_comments_and_trailers(
    paths: Layout, finding: Finding, of: Change | str | None, is_open: bool
) -> None:
    """A comment counts on its line and on the next one."""
    reviewed = change(of) if isinstance(of, str) else of
    assert remaining(paths, finding, of=reviewed) == ([finding] if is_open else [])
    assert ignore_trailers("a\n\nReview-Ignore: tests docs/a.md\n") == [("tests", "docs/a.md")]


@settings(max_examples=30, deadline=None)
@given(findings())
def test_a_saved_finding_is_read_back(finding: Finding) -> None:
    restored = from_data(json.loads(json.dumps(as_data(finding))))
    assert restored == finding and restored.id == finding.id
