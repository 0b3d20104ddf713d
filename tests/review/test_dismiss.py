"""What was dismissed is not told again: by its id wherever it moves, by a comment, by a trailer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import Refused, UsageError
from repoagent.review.change import Change, ChangedFile, Lines
from repoagent.review.dismissals import (
    dismissed_path,
    ignored,
    record_verdict,
    split_dismissed,
    verdicts,
)
from repoagent.review.finding import (
    Evidence,
    Finding,
    Level,
    Location,
    Report,
    Suggestion,
    as_data,
    from_data,
    last_path,
    read_last,
    save_last,
)
from repoagent.storage.layout import Layout

TEXT = b"a = 1\nb = 2  # repoagent: ignore[security]\nc = 3\n<!-- RepoAgent: ignore[tests, correctness] -->\nd = 4\ne = 5\n"
FOUND = Finding(
    "correctness", Level.WARNING, "It is wrong", Location("src/a.py", 3, 3), "Because.", quote="c = 3\n"
)


@pytest.fixture
def place(tmp_path: Path) -> Layout:
    (tmp_path / "git").mkdir()
    return Layout(tmp_path / ".repoagent", tmp_path / "git")


def change(message: str = "", text: bytes = TEXT, old: bytes = b"") -> Change:
    file = ChangedFile("src/a.py", "modified", "src/old.py", "1", "2", "100644", "100644")
    lines = (Lines(0, (), 1, tuple(text.splitlines(keepends=True))),)
    return Change(
        "staged",
        "",
        (file,),
        "",
        "",
        message,
        frozenset(),
        b"",
        lambda f: old,
        lambda f: text,
        lambda f: lines,
    )


def told(place: Layout, *findings: Finding, given: Change | None = None) -> list[Finding]:
    kept, gone = split_dismissed(given or change(), findings, verdicts(place))
    assert sorted([*kept, *gone], key=findings.index) == list(findings)
    return kept


def at(line: int, rule: str = "correctness", *, old: bool = False) -> Finding:
    return FOUND._replace(rule=rule, location=Location("src/a.py", line, line, old), quote=f"line {line}\n")


def test_without_a_review_there_is_nothing_to_dismiss(place: Layout) -> None:
    with pytest.raises(UsageError, match="run `repoagent review` first"):
        record_verdict(place, "4f1c2e", "dismissed")
    save_last(place, Report("the staged change", 1, [FOUND]))
    for name in ("", FOUND.id[:3]):
        with pytest.raises(UsageError, match="is too short"):
            record_verdict(place, name, "accepted")
    for name in ("0000", FOUND.id + "0"):
        with pytest.raises(UsageError, match="the staged change"):
            record_verdict(place, name, "dismissed")
    assert not dismissed_path(place).exists()


def test_an_id_that_is_short_for_two(place: Layout) -> None:
    found = [FOUND._replace(key=str(n)) for n in range(400)]
    by_start: dict[str, list[Finding]] = {}
    for one in found:
        by_start.setdefault(one.id[:4], []).append(one)
    start, some = next(((start, some) for start, some in by_start.items() if len(some) > 1), ("", []))
    if not some:
        pytest.skip("no two of them begin alike")
    save_last(place, Report("x", 1, found))
    with pytest.raises(UsageError, match="is ambiguous"):
        record_verdict(place, start, "dismissed")


def test_dismissed_is_remembered_wherever_the_lines_go(place: Layout) -> None:
    other = FOUND._replace(quote="c = 4\n")
    save_last(place, Report("x", 1, [FOUND], dismissed=[other]))
    assert record_verdict(place, FOUND.id[:6].upper(), "dismissed", reason="by design\nreally") == FOUND
    moved = FOUND._replace(location=Location("src/a.py", 30, 30), title="In other words", level=Level.ERROR)
    assert told(place, moved, other) == [other]
    record_verdict(place, other.id, "accepted")
    assert told(place, moved, other) == []
    assert [(one.state, one.reason, one.rule) for one in verdicts(place).values()] == [
        ("dismissed", "by design really", "correctness"), ("accepted", "", "correctness"),
    ]  # fmt: skip
    record_verdict(place, FOUND.id, "open")
    assert told(place, moved, other) == [moved]
    assert (place.root / ".gitignore").read_text() == "*\n"


def test_what_people_and_newer_versions_leave_in_the_file(place: Layout) -> None:
    save_last(place, Report("x", 1, [FOUND]))
    record_verdict(place, FOUND.id, "dismissed")
    path = dismissed_path(place)
    line = path.read_text()
    newer = json.dumps({"version": 2, "id": FOUND.id, "state": "open"})
    path.write_text(f'{line}no json\n{newer}\n{{"version": 1, "id": 5, "state": "open"}}\n')
    said: list[str] = []
    assert list(verdicts(place, warn=said.append)) == [FOUND.id]
    assert "1 broken line" in said[0]
    path.write_text("")  # a person took it back
    assert told(place, FOUND) == [FOUND]
    last_path(place).write_text("{")
    assert read_last(place, warn=said.append) is None
    last_path(place).write_text(json.dumps({"version": 9}))
    with pytest.raises(Refused, match="update repoagent"):
        read_last(place)
    last_path(place).write_text(json.dumps({"version": 1, "findings": [{"rule": 1}, 7]}))
    last = read_last(place)
    assert last is not None
    assert last.findings == ()


def test_a_secret_in_a_reason_is_masked(place: Layout) -> None:
    token = "ghp_" + "x9Kq2LmN8vRt4Wz7Yb3Cd6Fg1Hj5Pk0SaEuQ"
    save_last(place, Report("x", 1, [FOUND]))
    record_verdict(place, FOUND.id, "dismissed", reason=f"it is only {token}")
    assert token not in dismissed_path(place).read_text()


def test_comments_count_on_the_line_and_on_the_one_before(place: Layout) -> None:
    assert told(place, at(2, "security"), at(3, "security")) == []
    assert told(place, at(1, "security"), at(4, "security")) == [at(1, "security"), at(4, "security")]
    assert told(place, at(5), at(5, "tests"), at(4, "tests")) == []
    assert told(place, at(5, "compatibility"), at(6)) == [at(5, "compatibility"), at(6)]
    whole = FOUND._replace(location=Location("src/a.py"))
    assert told(place, whole) == [whole]
    wide = FOUND._replace(location=Location("src/a.py", 3, 6))
    assert told(place, wide) == []
    starred = change(text=b"x = 1  // repoagent:ignore[*]\n")
    assert told(place, at(1), given=starred) == []
    gone = change(old=b"# repoagent: ignore[correctness]\nguard()\n")
    assert told(place, at(2, old=True), given=gone) == []
    assert told(place, at(2)._replace(location=Location("nowhere", 1, 1))) != []


@pytest.mark.parametrize(
    ("message", "gone"),
    [
        ("Subject\n\nReview-Ignore: correctness\n", True),
        ("Subject\n\nreview-ignore: tests,correctness src/a.py\r\n", True),
        ("Subject\n\nReview-Ignore: correctness src/\n", True),
        ("Subject\n\nReview-Ignore: * src/a.py", True),
        ("Subject\n\nReview-Ignore: correctness other.py\n", False),
        ("Subject\n\nReview-Ignore: correctness src/a\n", False),
        ("Subject\n\nReview-Ignore: security\n", False),
        ("Subject\n\nnot Review-Ignore: correctness\n", False),
        ("Review-Ignore:\n\ncorrectness\n", False),
    ],
)
def test_trailers(place: Layout, message: str, gone: bool) -> None:
    assert (told(place, FOUND, given=change(message)) == []) is gone


def test_a_trailer_may_name_what_the_finding_is_about(place: Layout) -> None:
    partner = Finding("partner-missing", Level.WARNING, "x", Location("src/a.py"), key="docs/a.md")
    assert ignored("a\n\nReview-Ignore: partner-missing docs/a.md\n") == [("partner-missing", "docs/a.md")]
    assert told(place, partner, given=change("a\n\nReview-Ignore: partner-missing docs/a.md\n")) == []


texts = st.text(st.characters(codec="utf-8"), max_size=20)
places = st.builds(Location, texts, st.integers(0, 9), st.integers(0, 9), st.booleans())
findings = st.builds(
    Finding, texts, st.sampled_from(Level), texts, places, texts, texts, texts,
    st.lists(st.builds(Evidence, texts, st.integers(), texts), max_size=2).map(tuple),
    st.none() | st.builds(Suggestion, places.map(lambda place: place._replace(old=False)), texts), st.none() | st.floats(0, 1),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(findings)
def test_a_finding_survives_its_file(finding: Finding) -> None:
    back = from_data(json.loads(json.dumps(as_data(finding))))
    assert back == finding
    assert back.id == finding.id


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(list(as_data(FOUND))), st.none() | st.integers() | texts | st.lists(texts)
    )
)
def test_no_data_breaks_it(value: dict[str, object]) -> None:
    mangled = from_data({**as_data(FOUND), **value})
    assert mangled is None or isinstance(mangled, Finding)
    if mangled is not None:
        assert isinstance(mangled.id, str)
