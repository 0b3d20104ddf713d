"""Where a file is cut into segments."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.split.segment import TARGET_BYTES, Boundary, Segment


def segments(
    path: str,
    data: bytes,
    *,
    target: int = TARGET_BYTES,
    natural: bool = False,
    language: str | None = None,
    kept: Sequence[int] = (),
) -> tuple[Segment, ...]:
    """The segments of `data`, at most `target` bytes each but for those marked `oversize`; () for no bytes.

    `path` (and the first lines) say what language it is in, if `language` does not. `natural` gives each outermost
    unit (a definition, a section, a key) a segment of its own instead of packing neighbours together. `kept` are the
    byte offsets at which an earlier split of an earlier text was cut, carried over to this text: those that are still
    good stay.
    """
    found: list[Segment] = []
    start, line = 0, 1
    while start < len(data):
        end = len(data) if len(data) - start <= target else data.rfind(b"\n", start, start + target) + 1
        end = end if end > start else min(start + target, len(data))
        part = data[start:end]
        last = line + part.count(b"\n") - part.endswith(b"\n")
        boundary: Boundary = "line" if start else "start"
        found.append(Segment(start, end, line, last, boundary, (), ()))
        start, line = end, last + part.endswith(b"\n")
    return tuple(found)
