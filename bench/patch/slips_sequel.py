"""Diffs that build on one another: the second is written against what the first leaves."""

from __future__ import annotations

from dataclasses import replace

from bench.patch.draft import Draft
from bench.patch.model import Change, Edit, edited
from bench.patch.slip import HUNKS, slip

ABOUT = "several fence prose gaps context numbers order-of-hunks fused form"


def _two(draft: Draft, *, near: bool) -> bool:
    """The edits of the only file in two diffs; `near`: the second's context shows lines that the first has added."""
    change = draft.changes[0]
    draft.changes = [change]
    before, after = change.before, change.after
    if (
        not before
        or not after
        or len(change.edits) < 2
        or change.moved
        or change.copy
        or before.mode != after.mode
    ):
        return False
    if not (before.final_newline and after.final_newline):
        return False
    pairs = zip(change.edits, change.edits[1:], strict=False)
    places = [
        n
        for n, (one, other) in enumerate(pairs, 1)
        if near == (bool(one.added) and other.start - one.end <= 3)
    ]
    if not places:
        return False
    number = places[0]
    first, rest = change.edits[:number], change.edits[number:]
    shift = sum(len(edit.added) - (edit.end - edit.start) for edit in first)
    middle = replace(before, lines=edited(before.lines, first))
    later = [Edit(edit.start + shift, edit.end + shift, edit.added) for edit in rest]
    parts = []
    for part in (Change(before, middle, first), Change(middle, after, later)):
        made = Draft(draft.seed, draft.rng, [part])
        made.build()
        parts += made.parts
    parts[0].prose, parts[1].prose = ["First:"], ["And then, on top of that:"]
    draft.parts = parts
    return True


@slip("second-diff-on-the-first", HUNKS, ABOUT, combines=False)
def near(draft: Draft) -> bool:
    """It can only be applied after the first."""
    draft.may_refuse = True
    return _two(draft, near=True)


@slip("second-diff-elsewhere", HUNKS, ABOUT, combines=False)
def far(draft: Draft) -> bool:
    """Its numbers are those of the file after the first; its text is that of the file as it is."""
    draft.blur = 1
    return _two(draft, near=False) and all(part.hunks for part in draft.parts)
