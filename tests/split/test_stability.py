"""An edit changes only the segments around it; and how well segments are filled."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.split.pack import Candidate, pack
from tests.split.helpers import segments


def source() -> bytes:
    chance = random.Random(1)
    units = []
    for n in range(220):
        body = "".join(f"    a{k} = call_{k}(b, {k})\n" for k in range(chance.randrange(2, 22)))
        units.append(f"# About f{n}.\ndef f{n}(a, b):\n{body}    return a\n\n\n")
    return "".join(units).encode()


def cuts_of(data: bytes, kept: Sequence[int] = ()) -> list[int]:
    return [segment.start for segment in segments("a.py", data, target=4096, kept=kept)][1:]


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *cuts, len(data)]
    return [data[a:b] for a, b in pairwise(bounds)]


def test_segments_are_well_filled() -> None:
    data = source()
    sizes = [segment.end - segment.start for segment in segments("a.py", data, target=4096)]
    assert sum(sizes) / len(sizes) / 4096 > 0.85
    assert all(size > 4096 / 8 for size in sizes)


@pytest.mark.soak
def test_an_edit_changes_few_segments() -> None:
    data = source()
    cuts = cuts_of(data)
    old = set(pieces(data, cuts))
    chance = random.Random(3)
    anew = refreshed = 0
    lines = data.splitlines(keepends=True)
    for _ in range(25):
        at = sum(map(len, lines[: chance.randrange(len(lines))]))
        text = b"    # more\n" * chance.randrange(1, 12)
        edited = data[:at] + text + data[at:]
        carried = [cut if cut <= at else cut + len(text) for cut in cuts]
        anew += sum(piece not in old for piece in pieces(edited, cuts_of(edited)))
        refreshed += sum(piece not in old for piece in pieces(edited, cuts_of(edited, carried)))
    assert anew / 25 <= 2
    assert refreshed / 25 <= 1.3


def test_kept_cuts_stay_and_are_marked() -> None:
    data = source()
    places = [data.index(b"# About f%d." % n) for n in (9, 15, 22, 30)]
    found = segments("a.py", data, target=4096, kept=places)
    assert {segment.start for segment in found if segment.boundary == "kept"} == set(places)


def test_a_kept_cut_inside_a_unit_is_dropped() -> None:
    data = source()
    inside = data.index(b"    return a", 3000)
    assert inside not in cuts_of(data, [inside])


def test_only_a_segment_that_grew_too_large_is_cut_again() -> None:
    data = source()
    cuts = cuts_of(data)
    at = data.index(b"# About f", cuts[3] + 1500)
    text = b"".join(b"def new%d():\n    return %d\n\n\n" % (n, n) for n in range(120))
    edited = data[:at] + text + data[at:]
    carried = [cut if cut <= at else cut + len(text) for cut in cuts]
    assert set(carried) <= set(cuts_of(edited, carried))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 400), st.floats(0, 60)), max_size=60), st.integers(1, 200))
def test_segments_exceed_the_limit_only_without_a_candidate(
    steps: list[tuple[int, float]], limit: int
) -> None:
    candidates: list[Candidate] = []
    place = 0
    for step, cost in steps:
        place += step
        candidates.append((place, cost, "node"))
    end = place + 1
    found = [cut[0] for cut in pack(candidates, 0, end, limit)]
    assert found == sorted(set(found))
    bounds = [0, *found, end]
    places = [0, *(candidate[0] for candidate in candidates), end]
    for first, last in pairwise(bounds):
        if last - first > limit:
            assert not [at for at in places if first < at < last], "it could have been cut"
