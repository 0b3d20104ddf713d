"""Who works on a file."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.history.authors import authors_of, is_bot
from repoagent.history.log import FileCommit


def commit(author: str, date: str, email: str = "a@b.org") -> FileCommit:
    return FileCommit("a" * 40, "aaaaaaa", author, date, "s", 1, 1, email=email)


BOTS = [
    ("dependabot[bot]", "49699333+dependabot[bot]@users.noreply.github.com"),
    ("dependabot-preview[bot]", ""),
    ("Renovate Bot", "bot@renovateapp.com"),
    ("renovate", "29139614+renovate[bot]@users.noreply.github.com"),
    ("WhiteSource Renovate", "bot@renovateapp.com"),
    ("github-actions", "github-actions@github.com"),
    ("GitHub Actions", "x@y"),
    ("GitHub Action", "action@github.com"),
    ("pre-commit-ci[bot]", ""),
    ("pre-commit.ci", "noreply@pre-commit.ci"),
    ("allcontributors[bot]", ""),
    ("snyk-bot", "snyk-bot@snyk.io"),
    ("greenkeeperio-bot", "support@greenkeeper.io"),
    ("Copybara-Service", "copybara-worker@google.com"),
    ("release", "noreply@ci.example.org"),
    ("bot", ""),
]
PERSONS = [
    ("Ada Lovelace", "ada@example.com"),
    ("Jane", "1234+jane@users.noreply.github.com"),
    ("Someone", "noreply@github.com"),
    ("Abbot", "abbot@example.com"),
    ("Talbot", "talbot@example.com"),
    ("Robot Smith", "smith@example.com"),
    ("Stale", "stale@example.com"),
    ("", ""),
]


@pytest.mark.parametrize(("name", "email"), BOTS)
def test_programs(name: str, email: str) -> None:
    assert is_bot(name, email)


@pytest.mark.parametrize(("name", "email"), PERSONS)
def test_persons(name: str, email: str) -> None:
    assert not is_bot(name, email)


def test_the_one_with_most_commits_is_first_and_programs_are_apart() -> None:
    people = authors_of(
        [
            commit("Bob", "2026-03-01T00:00:00Z"),
            commit("dependabot[bot]", "2026-02-28T00:00:00Z"),
            commit("Ada", "2026-02-01T00:00:00Z", "new@x"),
            commit("Ada", "2024-01-01T00:00:00Z", "old@x"),
            commit("Carl", "2020-01-01T00:00:00Z"),
        ],
        partial=True,
    )
    assert [(p.name, p.commits, p.first, p.last) for p in people.persons] == [
        ("Ada", 2, "2024-01-01", "2026-02-01"),
        ("Bob", 1, "2026-03-01", "2026-03-01"),
        ("Carl", 1, "2020-01-01", "2020-01-01"),
    ]
    assert [p.name for p in people.bots] == ["dependabot[bot]"]
    assert (people.commits, people.partial) == (5, True)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.text(max_size=5), st.sampled_from(["2020-01-01", "2024-02-29", "1970-01-01"])),
        max_size=30,
    )
)
def test_every_commit_is_counted_once(rows: list[tuple[str, str]]) -> None:
    people = authors_of(commit(name, day) for name, day in rows)
    assert sum(p.commits for p in (*people.persons, *people.bots)) == people.commits == len(rows)
    assert all(p.first <= p.last for p in people.persons)
