"""The measurements of co-change: what is counted, what other methods would say, and that nothing knows the future."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import bench.cochange.history
from bench.cochange.__main__ import METHODS, table
from bench.cochange.history import DEAD, Change, Histories, MemoryView, load, without_renames
from bench.cochange.methods import (
    BASELINES,
    as_is,
    as_is_scores,
    code_maat_score,
    helped,
    helped_scores,
    plain_score,
    rose_score,
)
from bench.cochange.missing import KERNEL, Asked, figures
from bench.cochange.missing import replay as replay_missing
from bench.cochange.replay import Figures, replay, sample
from tests.conftest import GitRepo

MakeRepo = Callable[..., GitRepo]


def change(number: int, *paths: str) -> Change:
    return Change(number, b"one", tuple((b"M", path.encode(), path.encode()) for path in paths))


def test_figures_by_hand() -> None:
    figures = Figures()
    figures.add([7, 1, 8, 2], frozenset({1, 2, 3}))
    figures.add([], frozenset({1}))
    means = figures.means()
    assert means["MAP"] == pytest.approx((1 / 2 + 2 / 4) / 3 / 2)
    assert means["MRR"] == pytest.approx(1 / 2 / 2)
    assert means["R@10"] == pytest.approx(2 / 3 / 2)
    assert means["coverage"] == 0.5


def test_only_earlier_commits_are_known() -> None:
    changes = [change(n, "a", "b") for n in range(8)] + [change(8, "a", "b", "new"), change(9, "a", "c")]
    queries = sample(changes, 100, 1)
    assert {(query.number, len(query.truth)) for query in queries} == {
        (8, 1)
    }  # "new" and "c" did not exist before
    seen: list[int] = []

    def method(history: MemoryView, asked: Sequence[int]) -> list[int]:
        seen.append(len(history.all))
        return [file for file in history.alive if file not in asked]

    assert replay(changes, {"all": method}, queries)["all"].means()["MAP"] == 1
    assert seen == [8]


def test_one_file_of_each_commit() -> None:
    changes = [change(n, "a", "b", "c", "d") for n in range(50)]
    assert len(sample(changes, 100, 1)) == 10
    assert len(sample(changes, 7, 1)) == 7
    assert sample(changes, 7, 1) == sample(changes, 7, 1)


def test_baselines_by_hand() -> None:
    history = MemoryView()
    for number, paths in enumerate(["a b", "a b", "b", "b", "b", "b", "a c", "a c"]):
        history.add(change(number, *paths.split()))
    a, b, c = (history.file(path) for path in (b"a", b"b", b"c"))
    assert a is not None and b is not None and c is not None
    assert BASELINES["plain counts"](history, [a]) == [c, b]  # as many; c was seen last
    assert BASELINES["code-maat"](history, [a]) == [c, b]  # 2 of 3 against 2 of 5 revisions on average
    assert BASELINES["ROSE"](history, [a]) == [b, c]
    assert BASELINES["ROSE"](history, [a, b]) == []  # no further file changed with both
    assert BASELINES["TARMAQ"](history, [b, c]) == [a]


def test_history_is_loaded_with_renames_and_kept(
    make_repo: MakeRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.cochange.history, "CACHE", tmp_path / "kept")
    repo = make_repo()
    text = "".join(f"line {n}\n" for n in range(30))
    repo.write("old\nname", text)
    repo.write("b", "1")
    repo.commit("one")
    repo.git("mv", "old\nname", "new")
    repo.write("b", "2")
    repo.commit("two")
    repo.git("rm", "-q", "b")
    repo.git("commit", "-q", "-m", "three")
    changes = [found for found in load(repo.top) if found.entries]
    assert [sorted(found.entries) for found in changes[-3:]] == [
        [(b"A", b"b", b"b"), (b"A", b"old\nname", b"old\nname")],
        [(b"M", b"b", b"b"), (b"R", b"old\nname", b"new")],
        [(b"D", b"b", b"b")],
    ]
    assert len(list((tmp_path / "kept").iterdir())) == 1
    assert [found for found in load(repo.top) if found.entries] == changes


def test_as_is_a_renamed_file_starts_anew_and_dead_files_take_places() -> None:
    history = Histories()
    history.add(change(0, "old", "b"))
    history.add(Change(1, b"one", ((b"R", b"old", b"new"), (b"A", b"c", b"c"))))
    new, b = history.file(b"new"), history.file(b"b")
    assert new is not None and b is not None
    plain = BASELINES["plain counts"]
    assert helped(plain)(history, [new]) == [history.file(b"c"), b]
    assert as_is(plain)(history, [new]) == [DEAD, history.file(b"c")]  # its own old name, and b is forgotten
    history.add(Change(2, b"one", ((b"D", b"c", b"c"), (b"M", b"b", b"b"))))
    assert helped(plain)(history, [b]) == [new]
    assert as_is(plain)(history, [b]) == [DEAD, DEAD]  # "c" and "old"


def test_as_is_a_file_of_which_nothing_is_known_by_its_path_gets_no_answer() -> None:
    history = Histories()
    history.add(change(0, "a", "b"))
    asked: list[int] = []
    assert as_is(BASELINES["ROSE"])(history, asked) == []


def test_a_rename_is_a_deletion_and_an_addition_by_path_and_a_copy_an_addition() -> None:
    entries = ((b"R", b"a", b"b"), (b"C", b"c", b"d"), (b"M", b"e", b"e"))
    assert without_renames(Change(5, b"one", entries)).entries == (
        (b"D", b"a", b"a"),
        (b"A", b"b", b"b"),
        (b"A", b"d", b"d"),
        (b"M", b"e", b"e"),
    )


def test_the_table_sets_ours_against_both_kinds_of_baseline() -> None:
    changes = [change(n, "a", "b") for n in range(10)]
    figures = replay(changes, METHODS, sample(changes, 10, 1))
    lines = table({name: each.means() for name, each in figures.items()}).splitlines()
    assert "ours x 1.00 1.00 1.00" in next(line for line in lines if "TARMAQ, as is" in line)
    assert "ours x 1.00 1.00 1.00" in next(line for line in lines if "TARMAQ, helped" in line)


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
    run = replay_missing(changes(*["a b", "c"] * 50), seed=1)
    left_out = [query for query in run.asked[KERNEL] if query.dropped is not None]
    assert len(left_out) == 2 * 10
    assert all(query.weight == 0.5 and query.best[0][1] == query.dropped for query in left_out)
    said = figures(run.asked[KERNEL])
    assert (said.recall, said.precision, said.alarms) == (1.0, 1.0, 0.0)


def test_a_file_that_is_new_in_a_commit_is_neither_asked_about_nor_left_out() -> None:
    run = replay_missing(changes(*["a b"] * 9, "a new"), seed=1)
    assert [query.dropped is None for query in run.asked[KERNEL]] == [True, False, False, True]


def test_warnings_are_counted_by_weight_and_alarms_by_commit() -> None:
    asked = [
        Asked(7, 0.5, ((0.9, 7), (0.8, 5)), 0.5),
        Asked(5, 0.5, ((0.4, 5),), 0.5),
        Asked(None, 1.0, ((0.6, 3),), 0.5),
        Asked(None, 1.0, (), 0.5),
    ]
    said = figures(asked)
    assert (said.recall, said.precision, said.alarms) == (0.5, 0.5, 0.5)
    assert figures(asked[3:]).precision is None


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
