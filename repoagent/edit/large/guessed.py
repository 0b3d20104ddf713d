"""Hunks that quote lines which the model has not seen, and not quite as they are: it has made them up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from repoagent.edit.draft import Draft
from repoagent.patch import Placement

LOOSE_LEVELS = frozenset({"fuzzy-context", "elision"})
AROUND = 20  # lines that are worth reading on both sides


def guessed(
    placements: Iterable[Placement], draft: Draft, seen: Mapping[str, Sequence[tuple[int, int]]]
) -> str:
    """What to tell the model when a hunk goes to lines outside of those that it has `seen` (by path, for files that
    are not shown whole; from 1, both included) and does not quote them exactly; "" when none does.

    Exact quotations are known lines, wherever they are known from. Once a file was changed its lines have other
    numbers, and nothing is said of it.
    """
    changed = {edit.path for edit in draft.edits}
    for place in placements:
        if place.level == "whole-file" and seen.get(place.path) == []:
            return f"Not applied: you have not seen {place.path}, which is there. Read it first."
        if (
            place.path not in seen
            or place.path in changed
            or not LOOSE_LEVELS & {place.level, *place.tolerances}
        ):
            continue
        if any(first <= place.line <= last for first, last in seen[place.path]):
            continue
        return (
            f"Not applied: hunk {place.hunk} of {place.path} would go to line {place.line}, which you have not seen, "
            f"and does not quote it as it is. Read it first, as "
            f'lines="{max(1, place.line - AROUND)}-{place.line + AROUND}".'
        )
    return ""
