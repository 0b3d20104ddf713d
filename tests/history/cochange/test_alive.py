"""The best candidates that are alive: as if all of them had been asked about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from repoagent.history.cochange.score import Alive, View


class _View:
    """Knows paths, and counts what it is asked."""

    def __init__(self, dead: frozenset[int]) -> None:
        self.dead, self.asked = dead, list[int]()

    def paths(self, files: Sequence[int]) -> dict[int, bytes]:
        self.asked += files
        return {file: b"%d" % file for file in files if file not in self.dead}


@given(
    st.dictionaries(st.integers(0, 400), st.sampled_from([0.1, 0.2, 0.5, 0.5, 0.9]), max_size=300),
    st.frozensets(st.integers(0, 400)),
    st.frozensets(st.integers(0, 400), max_size=3),
    st.integers(1, 90),
)
def test_none_that_belongs_to_the_best_is_left_out(
    scores: dict[int, float], dead: frozenset[int], unwanted: frozenset[int], wanted: int
) -> None:
    view = _View(dead)
    found = Alive(cast(View, view)).best(scores, wanted, {b"%d" % file for file in unwanted})
    everything = sorted(
        (file for file in scores if file not in dead | unwanted), key=lambda f: (-scores[f], f)
    )
    assert list(found) == everything[: len(found)]
    left = everything[len(found) :]
    assert not left or (len(found) >= wanted and scores[left[0]] < scores[everything[wanted - 1]])
    assert len(view.asked) == len(set(view.asked))


def test_what_can_not_be_among_the_best_is_not_asked_about() -> None:
    view = _View(frozenset())
    Alive(cast(View, view)).best({file: 1 / (1 + file) for file in range(5000)}, 12)
    assert len(view.asked) < 100
