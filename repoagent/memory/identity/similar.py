"""How alike two versions of a file are, as git measures it for a rename; and whether a file was worked over."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

RENAME = 0.5  # what git asks of a rename (-M without a number)
_CHUNK = 64
_KEPT = 0.8  # of the smaller version, for one that grew or shrank
_REWORDED = 0.8  # of all pairs of words, for one that was laid out anew
_SHARED = 0.1  # of the smaller version, for one that git has at the same path
_TOO_LITTLE = 64  # bytes in common that prove nothing: an import, a heading


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
    return _weight(Counter(pieces(one)) & Counter(pieces(other))) / larger


def worked_over(before: bytes, now: bytes) -> bool:
    """Whether `now`, at the same path, is `before` grown, cut down, indented anew or laid out by a formatter.

    git has no need to ask: to it the path is proof. Here most of the smaller version must be in the larger one,
    white space apart, or nearly all words must be the same.
    """
    one, other = _bare(before), _bare(now)
    common = _weight(one & other)
    if common > _TOO_LITTLE and common >= _KEPT * min(_weight(one), _weight(other)):
        return True
    one, other = _words(before), _words(now)
    common = _weight(one & other)
    return common > _TOO_LITTLE and common >= _REWORDED * max(_weight(one), _weight(other))


def shares_lines(before: bytes, now: bytes) -> bool:
    """Whether enough of the lines of one version is in the other for the path to be believed."""
    one, other = _bare(before), _bare(now)
    common = _weight(one & other)
    return common > _TOO_LITTLE and common >= _SHARED * min(_weight(one), _weight(other))


def pieces(data: bytes) -> Iterator[bytes]:
    """Lines with their ends, long ones in pieces of 64 bytes."""
    for line in data.splitlines(keepends=True):
        if len(line) <= _CHUNK:
            yield line
        else:
            yield from (line[at : at + _CHUNK] for at in range(0, len(line), _CHUNK))


def _bare(data: bytes) -> Counter[bytes]:
    """Lines without white space, blank ones left out."""
    return Counter(bare for line in data.splitlines() if (bare := b"".join(line.split())))


def _words(data: bytes) -> Counter[bytes]:
    """Pairs of neighbouring words: white space, punctuation and line breaks are what a formatter changes."""
    words = re.findall(rb"\w+", data)
    return Counter(map(b" ".join, pairwise(words)))


def _weight(counts: Counter[bytes]) -> int:
    return sum(len(piece) * times for piece, times in counts.items())
