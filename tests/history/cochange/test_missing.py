"""A usual partner is missing: small histories by hand, and what holds for any."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.cochange.history import Change, MemoryView
from repoagent.history.cochange.missing import (
    FEWEST,
    FLOOR,
    FURTHER,
    NEVER,
    Missing,
    calibrate,
    missing,
    surest,
)

DAY = 86400


def history(*commits: str, author: bytes = b"ann@example.org") -> MemoryView:
    """A view of commits, oldest first; each is its paths by space, `-path` for a deletion and `old>new` for a rename."""
    view = MemoryView()
    known: set[bytes] = set()
    for day, commit in enumerate(commits):
        entries = []
        for word in commit.encode().split():
            if word.startswith(b"-"):
                entries.append((b"D", word[1:], word[1:]))
                known.discard(word[1:])
            elif b">" in word:
                old, _, new = word.partition(b">")
                entries.append((b"R", old, new))
                known.add(new)
            else:
                entries.append((b"M" if word in known else b"A", word, word))
                known.add(word)
        view.add(Change(day * DAY, author, tuple(entries)))
    return view


def ask(view: MemoryView, *paths: bytes, threshold: float = 0.3, limit: int = 3) -> list[Missing]:
    files = [file for file in map(view.file, paths) if file is not None]
    return missing(view, files, limit=limit, threshold=threshold)


def test_a_partner_that_always_came_along_is_named_with_its_evidence() -> None:
    (found,) = ask(history(*["a.c a.h"] * 6, "other"), b"a.c", threshold=0.5)
    assert (found.path, found.together, found.commits) == (b"a.h", 6, 6)
    assert found.evidence == (5, 4, 3, 2, 1, 0)
    assert 0.5 <= found.confidence < 1


def test_a_partner_that_came_along_half_of_the_time_is_not_named() -> None:
    assert ask(history(*["a.c a.h", "a.c"] * 10), b"a.c", threshold=0.5) == []


def test_more_evidence_gives_more_confidence() -> None:
    few, many = (ask(history(*["a b"] * n), b"a", threshold=0)[0].confidence for n in (2, 20))
    assert few < many


def test_one_commit_together_is_no_habit() -> None:
    assert ask(history("a b"), b"a", threshold=0) == []


def test_a_partner_that_was_skipped_lately_counts_less_than_one_that_was_skipped_long_ago() -> None:
    lately = ask(history(*["a b"] * 8, *["a"] * 4), b"a", threshold=0)[0].confidence
    long_ago = ask(history(*["a"] * 4, *["a b"] * 8), b"a", threshold=0)[0].confidence
    assert lately < 0.8 * long_ago


def test_an_author_who_splits_commits_is_warned_with_less_confidence() -> None:
    view = MemoryView()
    for day, author in enumerate([b"ann", b"bob"] * 6):
        extra = [b"b"] if author == b"ann" else []
        view.add(Change(day, author, tuple((b"M" if day else b"A", path, path) for path in [b"a", *extra])))
    (file,) = filter(lambda file: view.alive[file] == b"a", view.alive)
    ann, bob, someone = (
        missing(view, [file], threshold=0, author=author)[0].confidence
        for author in (view.all[0].author, view.all[1].author, None)
    )
    assert bob < someone < ann


def test_commits_that_hold_more_of_the_set_weigh_more() -> None:
    view = history(*["a b c", "a x"] * 5)
    assert [found.path for found in ask(view, b"a", b"b")] == [b"c"]


def test_a_deleted_file_is_never_named() -> None:
    view = history(*["a b"] * 8, "-b")
    assert ask(view, b"a", threshold=0) == []


def test_a_renamed_partner_is_named_by_its_present_path() -> None:
    (found,) = ask(history(*["a b"] * 6, "b>c"), b"a")
    assert (found.path, found.together) == (b"c", 6)


def test_bulk_commits_do_not_count() -> None:
    bulk = " ".join(f"f{n}" for n in range(101))
    assert ask(history(*[bulk] * 10), b"f1", threshold=0) == []


def test_nothing_asked_and_nothing_known_give_nothing() -> None:
    view = history(*["a b"] * 8)
    assert missing(view, [], threshold=0) == []
    assert ask(view, b"never.seen", threshold=0) == []
    assert missing(MemoryView(), [], threshold=0) == []


def test_the_limit_and_the_order_hold() -> None:
    view = history(*["a b c d"] * 200, "a b")
    assert [found.path for found in ask(view, b"a", threshold=0, limit=2)] == [b"b", b"c"]
    assert len(ask(view, b"a", threshold=0)) == 3
    assert ask(view, b"a", threshold=0, limit=0) == []


def test_one_that_is_not_the_surest_needs_more_than_the_threshold() -> None:
    view = history(*["a b c d"] * 200, "a b")
    b, c = (found.confidence for found in ask(view, b"a", threshold=0, limit=2))
    assert c < b
    assert [found.path for found in ask(view, b"a", threshold=c - FURTHER - 0.01)] == [b"b", b"c", b"d"]
    assert [found.path for found in ask(view, b"a", threshold=c - FURTHER + 0.01)] == [b"b"]


def test_a_short_history_is_judged_by_the_average_repository_too() -> None:
    view = history(*["a"] * (FEWEST + 1))  # nothing is ever missing here
    assert calibrate(view) == FLOOR
    assert calibrate(view, false_alarms=0.03) == pytest.approx(0.45, abs=0.01)
    assert calibrate(history(*["a"] * 900), false_alarms=0.03) == FLOOR


def test_at_most_twenty_commits_are_given_as_evidence() -> None:
    (found,) = ask(history(*["a b"] * 30), b"a")
    assert (found.together, len(found.evidence), found.evidence[0]) == (30, 20, 29)


def test_a_short_history_warns_of_nothing() -> None:
    view = history(*["a b"] * 20)
    assert calibrate(view) == NEVER
    assert calibrate(MemoryView()) == NEVER
    assert ask(view, b"a", threshold=NEVER) == []


def test_a_repository_with_a_firm_habit_gets_a_threshold_that_finds_it() -> None:
    view = history(*["a b", "c", "a b", "d e"] * 30)
    (found,) = ask(view, b"a", threshold=calibrate(view))
    assert found.path == b"b"


def test_a_commit_is_judged_only_by_what_was_earlier() -> None:
    view = history("a b", "a b", "a", "a b", "a b", "a b")
    (judged,) = surest(view, [view.all[2]])
    assert judged is not None
    before = history("a b", "a b")
    (said,) = missing(before, [view.all[2].files[0]], threshold=0, author=view.all[2].author)
    assert judged == said.confidence


def test_a_file_that_died_since_counts_as_alive_where_it_lived() -> None:
    view = history(*["a b"] * 4, "a", "a b", "-b")
    assert surest(view, [view.all[6], view.all[4]])[1] != 0.0


def test_a_commit_of_new_files_says_nothing_about_alarms() -> None:
    view = history("a b", "c d")
    assert surest(view, view.latest(2)) == [None, None]


@pytest.mark.parametrize("seed", range(5))
def test_on_a_history_without_habits_few_complete_commits_warn(seed: int) -> None:
    source = random.Random(seed)
    names = [f"f{n}" for n in range(12)]
    commits = [" ".join(source.sample(names, source.randint(1, 4))) for _ in range(700)]
    view = history(*commits[:500])
    threshold = calibrate(view)
    alarms = sum(bool(ask(view, *commit.encode().split(), threshold=threshold)) for commit in commits[500:])
    assert alarms <= 0.05 * 200


paths = st.sampled_from("abcdefgh")
histories = st.lists(st.lists(paths, min_size=1, max_size=5, unique=True).map(" ".join), max_size=60)


@settings(max_examples=60, deadline=None)
@given(histories, st.sets(paths), st.integers(0, 4), st.floats(0, 1))
def test_what_holds_for_any_history(
    commits: list[str], asked: set[str], limit: int, threshold: float
) -> None:
    view = history(*commits)
    files = [file for file in (view.file(path.encode()) for path in sorted(asked)) if file is not None]
    found = missing(view, files, limit=limit, threshold=threshold)
    assert len(found) <= limit
    assert not {each.file for each in found}.intersection(files)
    assert all(threshold <= each.confidence < 1 for each in found)
    assert all(2 <= each.together <= each.commits and each.evidence for each in found)
    assert [each.confidence for each in found] == sorted((each.confidence for each in found), reverse=True)
    assert found == missing(history(*commits), list(reversed(files)), limit=limit, threshold=threshold)


@settings(max_examples=30, deadline=None)
@given(histories, st.floats(0, 0.5))
def test_a_threshold_is_a_share_and_never_lower_when_fewer_alarms_are_allowed(
    commits: list[str], share: float
) -> None:
    view = history(*commits)
    assert 0 < calibrate(view, false_alarms=share) <= calibrate(view, false_alarms=share / 2) <= NEVER
