"""Large YAML, parsed in slices: its grammar counts lines with 16 bits and gives up behind line 32,767."""

from __future__ import annotations

from collections.abc import Iterator

from repoagent.split.cuts.pack import Candidate
from repoagent.split.cuts.walk import walk
from repoagent.split.trees import parse_bytes

LINES = 30_000
_FEWEST = 20_000


def walk_slices(text: bytes, limit: int, found: list[Candidate]) -> bool:
    """Append the candidates in YAML of more than `LINES` lines to `found`; False when parsing takes too long."""
    for start, end in _slices(text):
        tree = parse_bytes(text[start:end], "yaml")
        if tree is None:
            return False
        walk(tree, text, limit, found, ("yaml", start, 0, 0))
    return True


def _slices(text: bytes) -> Iterator[tuple[int, int]]:
    """Slices that end before the last document in reach, or else before one of the least indented lines."""
    start = place = line = best = 0
    depth = 1 << 30
    while place < len(text):
        if line == LINES:
            yield start, best or place
            start = place = best or place
            line, best, depth = 0, 0, 1 << 30
        if text.startswith(b"---", place):
            best, depth = place if line else 0, -1
        elif line > _FEWEST and depth > 0:
            head = text[place : place + 200].lstrip(b" ")
            indent = min(len(text) - place, 200) - len(head)
            if head[:1] not in (b"\n", b"\r", b"#", b"") and indent < depth:
                best, depth = place, indent
        place = text.find(b"\n", place) + 1 or len(text)
        line += 1
    yield start, len(text)
