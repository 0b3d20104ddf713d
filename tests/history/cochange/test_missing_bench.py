"""The measurement itself: what is asked, what is counted, what the others would say."""

from __future__ import annotations

import pytest

from bench.cochange.history import Change, Histories, MemoryView
from bench.cochange.methods import as_is_scores, code_maat_score, helped_scores, plain_score, rose_score
from bench.cochange.missing import KERNEL, Asked, figures, replay


def changes(*commits: str) -> list[Change]:
    known: set[bytes] = set()
    made = []
    for second, commit in enumerate(commits):
        paths = commit.encode().split()
        made.append(
            Change(second, b"ann", tuple((b"M" if path in known else b"A", path, path) for path in paths))
        )
        known.update(paths)
    return made


def grown(*commits: str) -> MemoryView:
    view = MemoryView()
    for change in changes(*commits):
        view.add(change)
    return view


def test_each_file_of_a_late_commit_is_left_out_once_and_the_kernel_names_it() -> None:
    run = replay(changes(*["a b", "c"] * 50), seed=1)
    left_out = [query for query in run.asked[KERNEL] if query.dropped is not None]
    assert len(left_out) == 2 * 10
    assert all(query.weight == 0.5 and query.best[0][1] == query.dropped for query in left_out)
    said = figures(run.asked[KERNEL])
    assert (said.recall, said.precision, said.alarms) == (1.0, 1.0, 0.0)


def test_a_file_that_is_new_in_a_commit_is_neither_asked_about_nor_left_out() -> None:
    run = replay(changes(*["a b"] * 9, "a new"), seed=1)
    assert [query.files for query in run.asked[KERNEL]] == [2, 2, 2, 1]


def test_warnings_are_counted_by_weight_and_alarms_by_commit() -> None:
    asked = [
        Asked(7, 0.5, 2, ((0.9, 7), (0.8, 5)), 0.5),
        Asked(5, 0.5, 2, ((0.4, 5),), 0.5),
        Asked(None, 1.0, 2, ((0.6, 3),), 0.5),
        Asked(None, 1.0, 1, (), 0.5),
    ]
    said = figures(asked)
    assert (said.recall, said.precision, said.alarms, said.alarms_several) == (0.5, 0.5, 0.5, 1.0)
    assert said.strict == 0.25
    assert figures(asked, 0.95).precision is None


def test_plain_counts_are_a_share_of_the_last_commits() -> None:
    view = grown("a b", "a", "a b c", "d")
    assert plain_score(view, [0]) == {0: 1.0, 1: pytest.approx(2 / 3), 2: pytest.approx(1 / 3)}


def test_a_degree_needs_five_shared_commits() -> None:
    assert 1 not in code_maat_score(grown(*["a b"] * 4, *["a"] * 6), [0])
    assert code_maat_score(grown(*["a b"] * 5, *["a"] * 5), [0])[1] == pytest.approx(5 / 7.5)


def test_a_rule_needs_all_asked_files_and_support_three() -> None:
    view = grown(*["a b c"] * 3, "a b d", "a b d", "a c")
    assert rose_score(view, [0, 1])[2] == pytest.approx(3 / 5)
    assert 3 not in rose_score(view, [0, 1])


def test_as_is_a_method_forgets_what_a_file_was_called_and_warns_of_the_dead() -> None:
    view = Histories()
    for change in changes(*["old b"] * 4):
        view.add(change)
    view.add(Change(9, b"ann", ((b"R", b"old", b"new"), (b"D", b"b", b"b"), (b"A", b"c", b"c"))))
    new, c = view.file(b"new"), view.file(b"c")
    assert new is not None and c is not None
    assert helped_scores(plain_score)(view, [new]) == {new: 1.0, c: pytest.approx(1 / 5)}
    said = dict(as_is_scores(plain_score)(view, [new]))
    assert said.pop(c) == 1.0
    assert list(said.values()) == [1.0, 1.0]  # the old name and "b", each once
    assert all(file < 0 for file in said)
    assert as_is_scores(plain_score)(view, []) == {}
