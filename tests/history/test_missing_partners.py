"""A usual partner is missing: small histories by hand, and what holds for any."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.cochange.history import Change, MemoryView
from repoagent.history import missing_partners
from repoagent.history.missing_partners import NEVER, MissingPartner, calibrate_threshold, find_missing
from tests.history.histories import history


def ask(view: MemoryView, *paths: bytes, threshold: float = 0.3, limit: int = 3) -> list[MissingPartner]:
    files = [file for file in map(view.file, paths) if file is not None]
    return find_missing(view, files, limit=limit, threshold=threshold)


CASES = {
    # commits, changed files, threshold, and the partners: path, together, commits
    "always together": (["a.c a.h"] * 6 + ["other"], "a.c", 0.5, [("a.h", 6, 6)]),
    "half of the time": (["a.c a.h", "a.c"] * 10, "a.c", 0.5, []),
    "once": (["a b"], "a", 0, []),
    "commits with more of the set weigh more": (["a b c", "a x"] * 5, "a b", 0.3, [("c", 5, 10)]),
    "deleted": (["a b"] * 8 + ["-b"], "a", 0, []),
    "renamed": (["a b"] * 6 + ["b>c"], "a", 0.3, [("c", 6, 6)]),
    "bulk commits": ([" ".join(f"f{n}" for n in range(101))] * 10, "f1", 0, []),
    "nothing changed": (["a b"] * 8, "", 0, []),
    "unknown file": (["a b"] * 8, "never.seen", 0, []),
    "a threshold that nothing reaches": (["a b"] * 20, "a", NEVER, []),
}


@pytest.mark.parametrize("case", CASES)
def test_missing(case: str) -> None:
    commits, paths, threshold, expected = CASES[case]
    rows = ask(history(*commits), *paths.encode().split(), threshold=threshold)
    assert [(row.path.decode(), row.together, row.commits) for row in rows] == expected
    assert all(threshold <= row.confidence < 1 for row in rows)


def test_confidence() -> None:
    def confidence(*commits: str) -> float:
        return ask(history(*commits), b"a", threshold=0)[0].confidence

    assert confidence(*["a b"] * 2) < confidence(*["a b"] * 20)  # more evidence
    assert confidence(*["a b"] * 8, *["a"] * 4) < 0.8 * confidence(*["a"] * 4, *["a b"] * 8)  # skipped lately
    (row,) = ask(history(*["a b"] * 30), b"a")
    assert (row.together, len(row.evidence), row.evidence[0]) == (30, 20, 29)


def test_an_author_who_splits_commits_is_warned_with_less_confidence() -> None:
    view = MemoryView()
    for day, author in enumerate([b"ann", b"bob"] * 6):
        extra = [b"b"] if author == b"ann" else []
        view.add(Change(day, author, tuple((b"M" if day else b"A", path, path) for path in [b"a", *extra])))
    (file,) = filter(lambda file: view.alive[file] == b"a", view.alive)
    ann, bob, someone = (
        find_missing(view, [file], threshold=0, author=author)[0].confidence
        for author in (view.all[0].author, view.all[1].author, None)
    )
    assert bob < someone < ann


def test_the_limit_the_order_and_the_higher_threshold_after_the_surest() -> None:
    view = history(*["a b c d"] * 200, "a b")
    assert [len(ask(view, b"a", threshold=0, limit=limit)) for limit in (0, 2, 9)] == [0, 2, 3]
    b, c = ask(view, b"a", threshold=0, limit=2)
    assert (b.path, c.path) == (b"b", b"c") and c.confidence < b.confidence
    for margin, count in ((-0.01, 3), (0.01, 1)):
        assert len(ask(view, b"a", threshold=c.confidence - missing_partners.FURTHER + margin)) == count


def test_calibration() -> None:
    view = history(*["a"] * (missing_partners.FEWEST + 1))  # nothing is ever missing here
    assert calibrate_threshold(view) == missing_partners.FLOOR
    average = calibrate_threshold(view, false_alarms=0.03)  # of all repositories
    assert average == pytest.approx(0.45, abs=0.01)
    assert calibrate_threshold(history(*["a"] * 900), false_alarms=0.03) == missing_partners.FLOOR
    assert calibrate_threshold(history(*["a b"] * 20)) == NEVER == calibrate_threshold(MemoryView())
    view = history(*["a b", "c", "a b", "d e"] * 30)
    assert [row.path for row in ask(view, b"a", threshold=calibrate_threshold(view))] == [b"b"]


def test_a_commit_is_judged_only_by_earlier_ones() -> None:
    view = history("a b", "a b", "a", "a b", "a b", "a b")
    (judged,) = missing_partners.surest(view, [view.all[2]])
    commit, earlier = view.all[2], history("a b", "a b")
    (row,) = find_missing(earlier, [commit.files[0]], threshold=0, author=commit.author)
    assert judged == row.confidence
    view = history(*["a b"] * 4, "a", "a b", "-b")  # b has died since, and counts as alive before
    assert missing_partners.surest(view, [view.all[6], view.all[4]])[1] != 0.0
    view = history("a b", "c d")
    assert missing_partners.surest(view, view.latest(2)) == [None, None]


@pytest.mark.parametrize("seed", range(2))
def test_on_a_history_without_habits_few_complete_commits_warn(seed: int) -> None:
    source = random.Random(seed)
    names = [f"f{n}" for n in range(12)]
    commits = [" ".join(source.sample(names, source.randint(1, 4))) for _ in range(700)]
    view = history(*commits[:500])
    threshold = calibrate_threshold(view)
    alarms = sum(bool(ask(view, *commit.encode().split(), threshold=threshold)) for commit in commits[500:])
    assert alarms <= 0.05 * 200


paths = st.sampled_from("abcdefgh")
histories = st.lists(st.lists(paths, min_size=1, max_size=5, unique=True).map(" ".join), max_size=60)


@settings(max_examples=60, deadline=None)
@given(histories, st.sets(paths), st.integers(0, 4), st.floats(0, 1), st.floats(0, 0.5))
def test_what_holds_for_any_history(
    commits: list[str], changed: set[str], limit: int, threshold: float, share: float
) -> None:
    view = history(*commits)
    files = [file for file in (view.file(path.encode()) for path in sorted(changed)) if file is not None]
    rows = find_missing(view, files, limit=limit, threshold=threshold)
    assert len(rows) <= limit and not {row.file for row in rows}.intersection(files)
    assert all(threshold <= row.confidence < 1 for row in rows)
    assert all(2 <= row.together <= row.commits and row.evidence for row in rows)
    assert [row.confidence for row in rows] == sorted((row.confidence for row in rows), reverse=True)
    assert rows == find_missing(history(*commits), list(reversed(files)), limit=limit, threshold=threshold)
    low, high = (calibrate_threshold(view, false_alarms=alarms) for alarms in (share, share / 2))
    assert 0 < low <= high <= NEVER
