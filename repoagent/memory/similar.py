"""How alike two versions of a file are, as git measures it for a rename."""

from __future__ import annotations

from collections import Counter

RENAME = 0.5  # what git asks of a rename (-M without a number)
_CHUNK = 64


def similarity(one: bytes, other: bytes) -> float:
    """The share of the larger content that is also in the smaller one, 0.0 to 1.0; order does not count.

    Both are cut into lines, long lines into pieces of 64 bytes, and equal pieces are matched, as git's
    diffcore-delta does; a carriage return before a newline does not count (git counts it in the size
    only). Linear in size. A pair that can't reach `RENAME` for the difference in size alone is 0.0.
    """
    if one == other:
        return 1.0
    one, other = one.replace(b"\r\n", b"\n"), other.replace(b"\r\n", b"\n")
    larger, smaller = max(len(one), len(other)), min(len(one), len(other))
    if larger == 0:
        return 1.0
    if smaller < larger * RENAME:
        return 0.0
    common = _pieces(one) & _pieces(other)
    return sum(len(piece) * times for piece, times in common.items()) / larger


def _pieces(data: bytes) -> Counter[bytes]:
    lines = data.splitlines(keepends=True)
    if all(len(line) <= _CHUNK for line in lines):
        return Counter(lines)
    return Counter(line[at : at + _CHUNK] for line in lines for at in range(0, len(line), _CHUNK))
