"""The candidates for cuts inside a long line: minified code, data without line ends."""

from __future__ import annotations

import re
from zlib import crc32

from repoagent.split.cuts.pack import Candidate

# Costs, in units of one segment more (see `pack.py`): behind `;` or `}`, behind `,` or `>`, in white space, anywhere.
_COSTS = (8.0, 9.0, 9.5, 11.0)
_SEPARATORS = (re.compile(rb"[;}]"), re.compile(rb"[,>]"), re.compile(rb"[ \t)\]]"))


def within_line(
    text: bytes, span: tuple[int, int], step: int, found: list[Candidate], cost: float = 0.0
) -> None:
    """Append places within `span`, at most `step` apart, to `found`; `cost` is what each costs more.

    Of the best places within a step it is the one with the least checksum of the text around it: the same ones
    wherever the line stands, so that an edit moves only those near it (content-defined chunking, as in LBFS).
    """
    at, end = span
    last = found[-1][0] if found else 0
    while end - at > step:
        low, high = at + max(1, step // 3), min(at + step, end)
        price = _COSTS[3]
        chosen = high
        for pattern, better in zip(_SEPARATORS, _COSTS, strict=False):
            places = [match.end() for match in pattern.finditer(text, low, high - 1)]
            if places:
                chosen = min(places, key=lambda place: crc32(text[max(place - 8, 0) : place + 8]))
                price = better
                break
        at = chosen
        if last < at < end:
            found.append((at, cost + price, "byte"))
