"""Parsing a GGUF header: key/values and tensor descriptions, none of which is believed."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import isfinite, prod
from typing import IO

from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError

# Bounds no real header comes near: the largest vocabularies have 300,000 tokens and 600,000 merges.
_MOST_BYTES = 128 << 20
_MOST_STRINGS = 4_000_000
_MOST_VALUES = 65_536
_KEPT = 4_096  # entries of an array of numbers; per-layer figures are kept, scores of a vocabulary are not
_CHUNK = 1 << 20

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

# (numbers in a block, bytes of a block) by tensor type. A type that is not here is not checked for its size.
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip

Value = int | float | str | tuple[int | float, ...]


class Damaged(RepoagentError):
    """The header contradicts itself; the text says how."""


@dataclass(frozen=True)
class Header:
    """`weights` is how many numbers the tensors hold, `size` the bytes of the file, `needed` how many it must
    have at least."""

    values: Mapping[str, Value]
    weights: int
    size: int
    needed: int

    def text(self, key: str) -> str:
        """The text at `key` on one printable line, "" if there is none."""
        found = self.values.get(key)
        return "".join(c if c.isprintable() else " " for c in found)[:200] if isinstance(found, str) else ""

    def number(self, key: str, default: int | None = None) -> int:
        found = self.values.get(key, default)
        if isinstance(found, tuple):
            found = max(found, default=0)
        if not isinstance(found, int | float) or not isfinite(found):
            raise Damaged(f"it has no number {key}")
        return int(found)

    def numbers(self, key: str, count: int) -> list[int]:
        """`count` numbers: those of the array at `key`, or its only one for all. [] if it is missing."""
        found = self.values.get(key)
        if found is None:
            return []
        if isinstance(found, tuple):
            if len(found) < count or not all(isfinite(number) for number in found):
                raise Damaged(f"it has too few numbers {key}")
            return [int(number) for number in found[:count]]
        return [self.number(key)] * count


def parse(stream: IO[bytes], size: int) -> Header:
    """The header of the GGUF file `stream`, which stands at its start and has `size` bytes. Raises Damaged."""
    reader = _Reader(stream, size)
    reader.skip(8)  # magic and version, checked before
    tensors, pairs = reader.scalar("Q"), reader.scalar("Q")
    if pairs > _MOST_VALUES or tensors > _MOST_VALUES * 16:
        raise Damaged("its header lists more than it can hold")
    values: dict[str, Value] = {}
    for _ in range(pairs):
        key = reader.text()
        value = reader.value(reader.scalar("I"))
        if value is not None:
            values[key] = value
    weights, ends = 0, 0
    for _ in range(tensors):
        numbers, end = _tensor(reader)
        weights += numbers
        ends = max(ends, end)
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
        raise Damaged("its alignment is out of range")
    start = -(-reader.position // alignment) * alignment
    return Header(values, weights, size, start + ends if ends else 0)


def _tensor(reader: _Reader) -> tuple[int, int]:
    """How many numbers the next described tensor holds, and where in the data it ends."""
    name = reader.text()
    dimensions = reader.scalar("I")
    if dimensions > 4:
        raise Damaged(f"its tensor {name[:60]!r} has {dimensions} dimensions")
    shape = [reader.scalar("Q") for _ in range(dimensions)]
    kind, offset = reader.scalar("I"), reader.scalar("Q")
    numbers = prod(shape)
    block, block_bytes = _BLOCKS.get(kind, (1, 0))
    if shape and shape[0] % block:
        raise Damaged(f"its tensor {name[:60]!r} does not fill its blocks")
    return numbers, offset + numbers // block * block_bytes


class _Reader:
    """Little-endian values from a stream, never past the end of the file or of what a header may be."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream = stream
        self._end = min(size, _MOST_BYTES)
        self._data = b""
        self._base = 0  # where in the file `_data` starts
        self._at = 0
        self._strings = 0

    @property
    def position(self) -> int:
        return self._base + self._at

    def take(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            self._fill(count)
        self._at += count
        return self._data[self._at - count : self._at]

    def skip(self, count: int) -> None:
        if self.position + count > self._end:
            raise Damaged("its header ends too early")
        if self._at + count > len(self._data):
            self._base, self._at, self._data = self.position + count, 0, b""
            self._stream.seek(self._base)
        else:
            self._at += count

    def scalar(self, code: str) -> int:
        value: int = struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]
        return value

    def text(self) -> str:
        return self.take(self.scalar("Q")).decode("utf-8", "replace")

    def value(self, kind: int) -> Value | None:
        """The next value, of type `kind`; None for an array that is of no use here."""
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self._array(self.scalar("I"), self.scalar("Q"))
        if kind not in _SCALARS:
            raise Damaged(f"its header has a value of the unknown type {kind}")
        return self.scalar(_SCALARS[kind])

    def _array(self, kind: int, count: int) -> Value | None:
        if kind == _STRING:
            self._strings += count
            if self._strings > _MOST_STRINGS:
                raise Damaged("its header lists more than it can hold")
            self._skip_strings(count)
            return None
        if kind not in _SCALARS:
            raise Damaged(f"its header has a list of the unknown type {kind}")
        length = count * struct.calcsize(_SCALARS[kind])
        if count > _KEPT:
            self.skip(length)
            return None
        return struct.unpack(f"<{count}{_SCALARS[kind]}", self.take(length))

    def _skip_strings(self, count: int) -> None:
        """Hundreds of thousands of them: those that lie whole in the buffer are stepped over here."""
        length_at = struct.Struct("<Q").unpack_from
        for _ in range(count):
            if self._at + 8 <= len(self._data):
                after = self._at + 8 + length_at(self._data, self._at)[0]
                if after <= len(self._data):
                    self._at = after
                    continue
            self.skip(self.scalar("Q"))

    def _fill(self, count: int) -> None:
        """Have at least `count` bytes ready."""
        if self.position + count > self._end:
            raise Damaged("its header ends too early")
        self._base, rest, self._at = self.position, self._data[self._at :], 0
        self._data = rest + self._stream.read(max(_CHUNK, count) - len(rest))
        if len(self._data) < count:
            raise Damaged("its header ends too early")
