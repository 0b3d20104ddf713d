"""The hash by which code scanning knows a line again when others were put above it.

For each line a polynomial hash (Karp and Rabin 1987) of the hundred characters from its start on, without spaces and
tabs, line ends all as a line feed: base 37, modulo 2^64, of UTF-16 code units, the end of the file as 65535 and zeros
after it. Equal hashes in a file are numbered. GitHub's upload action computes the same and says so when ours differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

_WINDOW = 100
_BASE = 37
_MODULUS = 1 << 64
_MOST = 400_000  # bytes: what is larger is left to whoever uploads it
_END = 0xFFFF


def line_hashes(text: bytes, lines: Collection[int]) -> dict[int, str]:
    """The hash of each of `lines` (from 1) with its number, "1a2b:1"; {} for a long text."""
    if len(text) > _MOST:
        return {}
    units, starts = _units(text)
    wanted = set(lines)
    last = max(wanted, default=0)
    units += [0] * _WINDOW
    powers = [pow(_BASE, _WINDOW - 1 - place, _MODULUS) for place in range(_WINDOW)]
    seen: Counter[int] = Counter()
    found = {}
    for number, start in enumerate(starts[:last], 1):
        window = units[start : start + _WINDOW]
        value = sum(unit * power for unit, power in zip(window, powers, strict=True)) % _MODULUS
        seen[value] += 1
        if number in wanted:
            found[number] = f"{value:x}:{seen[value]}"
    return found


def _units(text: bytes) -> tuple[list[int], list[int]]:
    """The code units that count, and where among them each line starts."""
    decoded = text.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    kept = decoded.replace(" ", "").replace("\t", "")
    data = kept.encode("utf-16-le", "surrogatepass")
    units = [*memoryview(data).cast("H"), _END]
    starts = [0, *(place + 1 for place, unit in enumerate(units[:-1]) if unit == 0x0A)]
    return units, starts
