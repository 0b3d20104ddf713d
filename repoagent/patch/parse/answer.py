"""An answer's text -> the patches in it, one `FilePatch` for each file of each block."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from repoagent.patch.hunk import FilePatch
from repoagent.patch.parse.blocks import parse_search_replace, parse_whole
from repoagent.patch.parse.diff import parse_diff
from repoagent.patch.parse.envelope import parse_envelope
from repoagent.patch.parse.fences import CODE, DIFF, ENVELOPE, SEARCH_REPLACE, SHELL
from repoagent.patch.parse.heredoc import parse_heredocs
from repoagent.patch.parse.prose import alternative, completes, revises
from repoagent.patch.parse.spans import Block, blocks, too_large
from repoagent.patch.problems import Misfit

_LOST = re.compile(
    r"^[ \t>|:│\d]{0,40}@@(?: -\d{1,9}(?:,\d{1,9})? \+\d{1,9}(?:,\d{1,9})? @@|[ \t]*\r?$)"
    r"|^-[^-\s][^\n]*\n(?:[^\n]*\n){0,40}?\+[^+\s]",
    re.MULTILINE,
)


def parse(answer: str, *, loose: bool = False, known: Collection[str] = ()) -> list[FilePatch]:
    """Everything that an answer asks for, in its order.

    Raises Misfit for a patch that is broken beyond reading. A fence that names no file is taken for a whole
    file only when it is the single block of the answer, or where `loose` (see `patch_spans`); its names are
    then None. `known` are names of files, where they are known: one is read as a name whatever it looks like.
    """
    found = blocks(answer, loose=loose, known=known)
    if too_large(answer, found):
        raise Misfit("too-large", "the answer is too large to be read. Send the change in parts.")
    patches: list[FilePatch] = []
    name: str | None = None
    end = 0
    for number, block in enumerate(found):
        prose = answer[end : block.span.start]
        end = block.span.end
        kind = block.span.kind
        if kind == SEARCH_REPLACE:
            some = parse_search_replace(block, name, known)
            name = some[-1].new if some else name
        elif kind == DIFF:
            some = _named(parse_diff(block.lines), block)
            some = _inherited(some, block, patches, found[number - 1] if number else None)
            if not some:
                _check_prose("\n".join(block.lines), patches)  # an `@@` line, and nothing of a hunk after it
        elif kind == ENVELOPE:
            some = parse_envelope(block.lines, closed=block.closed)
        elif kind == SHELL:
            some = parse_heredocs(block.lines)
        elif kind == CODE and len(found) > 1 and not loose:
            some = []
        else:
            some = [parse_whole(_with_name(block) if loose else block)]
        patches += _marked(some, block, number, prose)
        _check_prose(prose, patches)
    _check_prose(answer[end:], patches)
    return patches


def _check_prose(prose: str, patches: Sequence[FilePatch]) -> None:
    """Raises Misfit when a hunk stands in what was taken for prose: a part of the change would be lost in silence."""
    lost = _LOST.search(prose)
    if lost is not None and any(patch.form == "diff" for patch in patches):
        line = lost[0].strip().splitlines()[0][:80]
        text = f"the hunk at `{line}` stands outside of any diff. Send the whole change as one diff."
        raise Misfit("malformed", text)


def _marked(some: Sequence[FilePatch], block: Block, number: int, prose: str) -> list[FilePatch]:
    """The patches of a block with its number, what its wrapping needed, and what was said right before it."""
    again, choice = number > 0 and revises(prose), alternative(prose)
    return [
        replace(
            patch,
            block=number,
            revises=again,
            completes=number > 0 and completes(prose),
            alternative=choice,
            tolerances=patch.tolerances | block.tolerances,
        )
        for patch in some
    ]


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
        ended = last.whole if block.fenced else not (last.short and block.lines[-1].strip())
        named[-1] = replace(named[-1], cut=not ended)
    if named and not block.closed and not named[-1].hunks and named[-1].action == "create":
        named[-1] = replace(named[-1], cut=True)
    return named


def _inherited(
    some: Sequence[FilePatch], block: Block, earlier: Sequence[FilePatch], before: Block | None
) -> list[FilePatch]:
    """A bare `@@` after prose goes on with the file of the bare diff before it: no header stands between."""
    if not some or block.fenced or before is None or before.fenced or before.span.kind != DIFF or not earlier:
        return list(some)
    first, last = some[0], earlier[-1]
    if first.old is not None or first.new is not None or last.action != "edit":
        return list(some)
    return [replace(first, old=last.old, new=last.new), *some[1:]]
