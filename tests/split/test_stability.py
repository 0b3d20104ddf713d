"""An edit changes only the segments around it; and how well segments are filled."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.split.pack import Candidate, pack_segments
from repoagent.split.refresh import OffsetMap, changes
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


def test_kept_cuts_stay_and_are_marked_but_for_one_inside_a_unit() -> None:
    data = source()
    places = [data.index(b"# About f%d." % n) for n in (9, 15, 22, 30)]
    inside = data.index(b"    return a", 3000)
    found = segments("a.py", data, target=4096, kept=sorted([*places, inside]))
    assert {segment.start for segment in found if segment.boundary == "kept"} == set(places)
    assert inside not in {segment.start for segment in found}


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
    found = [cut[0] for cut in pack_segments(candidates, 0, end, limit)]
    assert found == sorted(set(found))
    bounds = [0, *found, end]
    places = [0, *(candidate[0] for candidate in candidates), end]
    for first, last in pairwise(bounds):
        if last - first > limit:
            assert not [at for at in places if first < at < last], "it could have been cut"


LINES = st.sampled_from([b"a\n", b"b\r\n", b"\n", b"c\r", b"d;", b"e" * 50])
TEXTS = st.lists(LINES, max_size=30).map(b"".join)


def applied(old: bytes, new: bytes, cuts: frozenset[int] = frozenset()) -> bytes:
    parts, at = [], 0
    for change in changes(old, new, cuts):
        assert (change.old, change.new) >= (at, 0)
        assert change.old < change.old_end or change.new < change.new_end
        parts += [old[at : change.old], new[change.new : change.new_end]]
        at = change.old_end
    return b"".join([*parts, old[at:]])


@settings(max_examples=80, deadline=None)
@given(TEXTS, TEXTS, TEXTS, TEXTS, st.sets(st.integers(0, 200)))
def test_the_changes_turn_the_old_text_into_the_new_one(
    a: bytes, b: bytes, c: bytes, d: bytes, cuts: set[int]
) -> None:
    for old, new in ((a, b), (a + b + c, a + d + c), (a + b + c, a + c), (a + c, a + b + c)):
        assert applied(old, new, frozenset(cuts)) == new


def test_an_insertion_at_a_cut_begins_there() -> None:
    one, two, new = b"def a():\n    pass\n\n\n", b"def b():\n    pass\n\n\n", b"def n():\n    go()\n\n\n"
    moved = OffsetMap(one + two, one + new + two, {len(one)})
    assert moved.locate(len(one)) == (len(one), len(one + new), False)
    moved = OffsetMap(one + new + two, one + two, {len(one), len(one + new)})
    edges = [moved.locate(cut) for cut in (0, len(one), len(one + new))]
    assert edges == [(0, 0, False), *[(len(one), len(one), False)] * 2]


def test_an_offset_inside_a_replaced_range_is_crossed_and_its_edges_are_not() -> None:
    old = b"".join(b"line %d\n" % n for n in range(100))
    start, cut, end = (old.index(b"line %d" % n) for n in (40, 50, 60))
    moved = OffsetMap(old, old[:start] + b"other\n" + old[end:], {start, cut, end})
    assert [moved.locate(offset)[2] for offset in (start, cut, end)] == [False, True, False]
    assert moved.locate(start)[:2] == (start, start) and moved.locate(end)[:2] == (start + 6, start + 6)
    assert OffsetMap(old, old.replace(b"line 10\n", b"new\nnew\n"), {cut}).locate(cut) == (cut, cut, False)


def test_forty_thousand_lines_are_fast() -> None:
    rng = random.Random(6)
    lines = [b"%d %d\n" % (n, rng.randrange(9)) if n % 3 else b"}\n" for n in range(40_000)]
    changed = list(lines)
    for _ in range(120):
        changed[rng.randrange(len(changed))] = b"changed\n"
    start = time.process_time()
    assert applied(b"".join(lines), b"".join(changed)) == b"".join(changed)
    assert time.process_time() - start < 2
