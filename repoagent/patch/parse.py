"""An answer's text -> the patches in it, one `FilePatch` for each file of each block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from repoagent.patch.hunk import FilePatch
from repoagent.patch.parse_blocks import parse_search_replace, parse_whole
from repoagent.patch.parse_diff import parse_diff
from repoagent.patch.spans import CODE, DIFF, SEARCH_REPLACE, Block, blocks


def parse(answer: str, *, loose: bool = False) -> list[FilePatch]:
    """Everything that an answer asks for, in its order.

    Raises Misfit for a patch that is broken beyond reading. A fence that names no file is taken for a whole
    file only when it is the single block of the answer, or where `loose` (see `patch_spans`); its names are
    then None.
    """
    found = blocks(answer, loose=loose)
    patches: list[FilePatch] = []
    name: str | None = None
    for number, block in enumerate(found):
        if block.span.kind == SEARCH_REPLACE:
            some = parse_search_replace(block, name)
            name = some[-1].new if some else name
        elif block.span.kind == DIFF:
            some = _named(parse_diff(block.lines), block)
        elif block.span.kind == CODE and len(found) > 1 and not loose:
            some = []
        else:
            some = [parse_whole(_with_name(block) if loose else block)]
        patches += [replace(patch, block=number) for patch in some]
    return patches


def _with_name(block: Block) -> Block:
    """A fence whose info string may be a file without an extension: `bin/wait-for`, or the only word beside a
    language."""
    words = [word.strip("\"'`") for word in block.info.split()]
    name = next((word for word in words if "/" in word), words[1] if len(words) == 2 else None)
    return block if block.name else replace(block, name=name)


def _named(patches: Sequence[FilePatch], block: Block) -> list[FilePatch]:
    """A diff without headers takes the name beside its fence; an open fence, or an open end, may be a cut."""
    named = [
        replace(patch, new=block.name) if patch.old is None and patch.new is None else patch
        for patch in patches
    ]
    if named and named[-1].hunks and not block.closed:
        last = named[-1].hunks[-1]
        ended = last.exact_counts if block.fenced else not (last.short and block.lines[-1].strip())
        named[-1] = replace(named[-1], cut=not ended)
    return named
