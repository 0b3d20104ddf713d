"""Blocks packed into calls: those of a file together, as many files as there is room for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from repoagent.review.model.blocks import Block

FILES = 12  # of one call


def packed(blocks: Iterable[Block], budget: int) -> list[tuple[Block, ...]]:
    """The blocks in their order, in parts of about `budget` tokens at most; a larger block is a part of its own.

    A file that fits into a part of its own is not torn into two unless much of the part before would stay empty.
    """
    parts: list[list[Block]] = []
    room = files = 0
    for _, group in groupby(blocks, key=lambda block: block.path):
        mine = list(group)
        size = _size(mine)
        if not parts or files >= FILES or (size > room and (size <= budget and room < budget // 2)):
            parts.append([])
            room, files = budget, 0
        files += 1
        for block in mine:
            if block.tokens > room and parts[-1]:
                parts.append([])
                room, files = budget, 1
            parts[-1].append(block)
            room -= block.tokens
    return [tuple(part) for part in parts if part]


def _size(blocks: Sequence[Block]) -> int:
    return sum(block.tokens for block in blocks)
