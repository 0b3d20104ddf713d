"""Which lines differ: small, sensible differences of two sequences, in time that stays bounded."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

Range = tuple[int, int, int, int]
_MAX_EDITS = 300
_MAX_CELLS = 400_000


def differing(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Range]:
    """The ranges (i1, i2, j1, j2) where `old[i1:i2]` became `new[j1:j2]`, in order; lines between them are
    equal.

    Common ends are cut first. What is left is compared by Myers' greedy algorithm ("An O(ND) Difference
    Algorithm and Its Variations", 1986), which is quick and minimal while there are few edits. With many, it
    is parted at the lines that are unique on both sides (Bram Cohen's patience diff); what has none goes to
    difflib if it is small, and counts as replaced if it is not.
    """
    result: list[Range] = []
    work: list[tuple[int, int, int, int]] = [(0, len(old), 0, len(new))]
    while work:
        i1, i2, j1, j2 = work.pop()
        while i1 < i2 and j1 < j2 and old[i1] == new[j1]:
            i1, j1 = i1 + 1, j1 + 1
        while i1 < i2 and j1 < j2 and old[i2 - 1] == new[j2 - 1]:
            i2, j2 = i2 - 1, j2 - 1
        if i1 == i2 or j1 == j2:
            if i1 < i2 or j1 < j2:
                result.append((i1, i2, j1, j2))
            continue
        matches = _myers(old[i1:i2], new[j1:j2])
        if matches is not None:
            result += _between(matches, (i1, i2, j1, j2))
            continue
        anchors = _unique_in_order(old[i1:i2], new[j1:j2])
        if anchors:
            work += _parted(anchors, (i1, i2, j1, j2))
        elif (i2 - i1) * (j2 - j1) <= _MAX_CELLS:
            found = SequenceMatcher(None, old[i1:i2], new[j1:j2], autojunk=False).get_opcodes()
            result += [(i1 + a, i1 + b, j1 + c, j1 + d) for tag, a, b, c, d in found if tag != "equal"]
        else:
            result.append((i1, i2, j1, j2))
    return _joined(sorted(result))


def _between(matches: Sequence[tuple[int, int]], whole: Range) -> list[Range]:
    """The gaps between matching lines (pairs relative to the start of `whole`)."""
    i, i2, j, j2 = whole
    gaps: list[Range] = []
    for a, b in [*((whole[0] + a, whole[2] + b) for a, b in matches), (i2, j2)]:
        if a > i or b > j:
            gaps.append((i, a, j, b))
        i, j = a + 1, b + 1
    return gaps


def _parted(anchors: Sequence[tuple[int, int]], whole: Range) -> list[Range]:
    i, i2, j, j2 = whole
    parts: list[Range] = []
    for a, b in [*((whole[0] + a, whole[2] + b) for a, b in anchors), (i2, j2)]:
        parts.append((i, a, j, b))
        i, j = a + 1, b + 1
    return parts


def _joined(ranges: Sequence[Range]) -> list[Range]:
    """Ranges that touch, as one."""
    result: list[Range] = []
    for part in ranges:
        if result and result[-1][1] == part[0] and result[-1][3] == part[2]:
            result[-1] = (result[-1][0], part[1], result[-1][2], part[3])
        else:
            result.append(part)
    return result


def _myers(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]] | None:
    """The matching pairs of a shortest edit script, or None when it takes more than `_MAX_EDITS` edits."""
    n, m = len(old), len(new)
    reach = {1: 0}
    trace: list[dict[int, int]] = []
    for edits in range(min(n + m, _MAX_EDITS) + 1):
        step: dict[int, int] = {}
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach.get(k - 1, -1) < reach.get(k + 1, -1))
            x = reach[k + 1] if down else reach[k - 1] + 1
            y = x - k
            while x < n and y < m and old[x] == new[y]:
                x, y = x + 1, y + 1
            step[k] = x
            if x >= n and y >= m:
                trace.append(step)
                return _path(trace, n, m)
        trace.append(step)
        reach = {**reach, **step}
    return None


def _path(trace: Sequence[dict[int, int]], n: int, m: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    x, y = n, m
    for edits in range(len(trace) - 1, 0, -1):
        before = trace[edits - 1]
        k = x - y
        down = k == -edits or (k != edits and before.get(k - 1, -1) < before.get(k + 1, -1))
        k_before = k + 1 if down else k - 1
        x_before = before[k_before]
        x_start = x_before if down else x_before + 1
        while x > x_start:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = x_before, x_before - k_before
    while x > 0 and y > 0:
        x, y = x - 1, y - 1
        pairs.append((x, y))
    pairs.reverse()
    return pairs


def _unique_in_order(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The longest chain of lines that stand once on each side, in the same order on both."""
    once_old, once_new = _once(old), _once(new)
    pairs = [(row, once_new[text]) for text, row in once_old.items() if text in once_new]
    pairs.sort()
    tops: list[int] = []
    back: list[int] = [-1] * len(pairs)
    for number, (_, row) in enumerate(pairs):
        low, high = 0, len(tops)
        while low < high:
            middle = (low + high) // 2
            if pairs[tops[middle]][1] < row:
                low = middle + 1
            else:
                high = middle
        back[number] = tops[low - 1] if low else -1
        tops[low : low + 1] = [number]
    chain: list[tuple[int, int]] = []
    at = tops[-1] if tops else -1
    while at >= 0:
        chain.append(pairs[at])
        at = back[at]
    return chain[::-1]


def _once(lines: Sequence[Hashable]) -> dict[Hashable, int]:
    seen: dict[Hashable, int] = {}
    for row, text in enumerate(lines):
        seen[text] = -1 if text in seen else row
    return {text: row for text, row in seen.items() if row >= 0}
