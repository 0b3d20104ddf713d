"""The measurements of co-change: what is counted, what other methods would say, and that nothing knows the future."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import bench.cochange.history
from bench.cochange.history import Change, MemoryView, load, without_renames
from bench.cochange.methods import BASELINES
from bench.cochange.missing import KERNEL, Answer, figures
from bench.cochange.missing import replay as replay_missing
from bench.cochange.replay import Figures, replay, sample
from tests.conftest import GitRepo
from tests.history.histories import history


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
    # "new" and "c" did not exist before
    assert {(query.number, len(query.truth)) for query in queries} == {(8, 1)}
    seen: list[int] = []

    def method(history: MemoryView, asked: Sequence[int]) -> list[int]:
        seen.append(len(history.all))
        return [file for file in history.alive if file not in asked]

    assert replay(changes, {"all": method}, queries)["all"].means()["MAP"] == 1
    assert seen == [8]


def test_baselines_by_hand() -> None:
    view = history("a b", "a b", "b", "b", "b", "b", "a c", "a c")
    a, b, c = (view.file(path) for path in (b"a", b"b", b"c"))
    assert a is not None and b is not None and c is not None
    assert BASELINES["plain counts"](view, [a]) == [c, b]  # as many; c was seen last
    assert BASELINES["code-maat"](view, [a]) == [c, b]  # 2 of 3 against 2 of 5 revisions on average
    assert BASELINES["ROSE"](view, [a]) == [b, c]
    assert BASELINES["ROSE"](view, [a, b]) == []  # no further file changed with both
    assert BASELINES["TARMAQ"](view, [b, c]) == [a]


def test_history_is_loaded_with_renames_and_kept(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.cochange.history, "CACHE", tmp_path / "kept")
    repo.commit("one", **{"old\nname": "".join(f"line {n}\n" for n in range(30)), "b": "1"})
    repo.git("mv", "old\nname", "new")
    repo.commit("two", b="2")
    repo.git("rm", "-q", "b")
    repo.commit("three")
    changes = load(repo.top)
    assert [sorted(found.entries) for found in changes[1:]] == [
        [(b"A", b"b", b"b"), (b"A", b"old\nname", b"old\nname")],
        [(b"M", b"b", b"b"), (b"R", b"old\nname", b"new")],
        [(b"D", b"b", b"b")],
    ]
    assert len(list((tmp_path / "kept").iterdir())) == 1
    assert load(repo.top) == changes


def test_a_rename_is_a_deletion_and_an_addition_by_path_and_a_copy_an_addition() -> None:
    entries = ((b"R", b"a", b"b"), (b"C", b"c", b"d"), (b"M", b"e", b"e"))
    by_path = tuple(
        (kind, path, path)
        for kind, path in zip((b"D", b"A", b"A", b"M"), (b"a", b"b", b"d", b"e"), strict=True)
    )
    assert without_renames(Change(5, b"one", entries)).entries == by_path


def test_each_file_of_a_late_commit_is_left_out_once_and_the_kernel_names_it() -> None:
    commits = ["a b", "c"] * 50
    run = replay_missing([change(number, *paths.split()) for number, paths in enumerate(commits)], seed=1)
    left_out = [answer for answer in run.answers[KERNEL] if answer.dropped is not None]
    assert len(left_out) == 2 * 10
    assert all(answer.weight == 0.5 and answer.best[0][1] == answer.dropped for answer in left_out)
    shares = figures(run.answers[KERNEL])
    assert (shares.recall, shares.precision, shares.alarms) == (1.0, 1.0, 0.0)


def test_warnings_are_counted_by_weight_and_alarms_by_commit() -> None:
    answers = [
        Answer(7, 0.5, ((0.9, 7), (0.8, 5)), 0.5),
        Answer(5, 0.5, ((0.4, 5),), 0.5),
        Answer(None, 1.0, ((0.6, 3),), 0.5),
        Answer(None, 1.0, (), 0.5),
    ]
    shares = figures(answers)
    assert (shares.recall, shares.precision, shares.alarms) == (0.5, 0.5, 0.5)
    assert figures(answers[3:]).precision is None
