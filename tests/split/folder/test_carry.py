"""What changed between two texts, and where cuts go."""

from __future__ import annotations

import random
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.split.relocate import OffsetMap, changes, relocate_cuts

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


@settings(max_examples=200, deadline=None)
@given(LINES, LINES, LINES, LINES, st.sets(st.integers(0, 200)))
def test_the_changes_make_the_new_text_of_the_old(
    a: bytes, b: bytes, c: bytes, d: bytes, cuts: set[int]
) -> None:
    for old, new in ((a, b), (a + b + c, a + d + c), (a + b + c, a + c), (a + c, a + b + c)):
        assert applied(old, new, frozenset(cuts)) == new


def test_what_was_put_in_at_a_cut_is_said_to_stand_there() -> None:
    one, two, new = b"def a():\n    pass\n\n\n", b"def b():\n    pass\n\n\n", b"def n():\n    go()\n\n\n"
    carried = OffsetMap(one + two, one + new + two, {len(one)})
    assert carried.spots(len(one)) == (len(one), len(one + new))
    assert relocate_cuts(one + new + two, one + two, [0, len(one), len(one + new)], 99) == [
        0,
        len(one),
        len(one),
    ]


def test_cuts_inside_of_what_was_replaced_are_dropped() -> None:
    old = b"".join(b"line %d\n" % n for n in range(100))
    cut = old.index(b"line 50")
    assert relocate_cuts(old, old.replace(b"line 10\n", b"new\nnew\n"), [0, cut], 99) == [0, cut]
    gone = old[: old.index(b"line 40")] + b"other\n" + old[old.index(b"line 60") :]
    assert relocate_cuts(old, gone, [0, cut], 99) == [0]


def test_a_hundred_thousand_lines_take_no_time() -> None:
    rng = random.Random(6)
    lines = [b"%d %d\n" % (n, rng.randrange(9)) if n % 3 else b"}\n" for n in range(100_000)]
    changed = list(lines)
    for _ in range(300):
        changed[rng.randrange(len(changed))] = b"changed\n"
    start = time.process_time()
    assert applied(b"".join(lines), b"".join(changed)) == b"".join(changed)
    assert time.process_time() - start < 5
