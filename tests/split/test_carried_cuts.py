"""The changes between two texts, and the cuts in the new one."""

from __future__ import annotations

import random
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.split.refresh import OffsetMap, changes

LINES = st.lists(st.sampled_from([b"a\n", b"b\r\n", b"\n", b"c\r", b"d;", b"e" * 50]), max_size=30).map(
    b"".join
)


def applied(old: bytes, new: bytes, cuts: frozenset[int] = frozenset()) -> bytes:
    parts, at = [], 0
    for change in changes(old, new, cuts):
        assert (change.old, change.new) >= (at, 0) and (
            change.old < change.old_end or change.new < change.new_end
        )
        parts += [old[at : change.old], new[change.new : change.new_end]]
        at = change.old_end
    return b"".join([*parts, old[at:]])


@settings(max_examples=80, deadline=None)
@given(LINES, LINES, LINES, LINES, st.sets(st.integers(0, 200)))
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
    assert [moved.locate(cut) for cut in (0, len(one), len(one + new))] == [
        (0, 0, False),
        *[(len(one), len(one), False)] * 2,
    ]


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
