"""Several patches of one file in one answer: parts of one change, steps, or a second thought?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from repoagent.patch.edit import edited
from repoagent.patch.files import Files, Outcome, Target
from repoagent.patch.match import WHITESPACE, FileIndex, weight
from repoagent.patch.problems import Misfit, Misfits, Problem
from repoagent.patch.text import decode


def outcomes(group: Sequence[Target], files: Files) -> Outcome | list[Problem]:
    """The one outcome of all patches of a file, or the problems that it has.

    All of them against the same text is what is meant when it fits. Otherwise they can be steps, each made on
    the result of the one before, or the last can replace those before it. One of these readings must fit, and
    alone, or with the same result as the other.
    """
    group = without_quotations(group, files)
    try:
        return edited(group, files)
    except (Misfit, Misfits) as error:
        problems = _problems(error, group[0].name)
    if len(group) == 1 or any(target.patch.whole is not None for target in group):
        return problems
    found = [outcome for reading in (_steps, _last) if (outcome := _tried(reading, group, files)) is not None]
    if len({outcome.change for outcome in found}) == 1:
        return found[0]
    if found:
        text = (
            "its patches can be meant one after another, or the last one alone, with different results. "
            "Send one patch."
        )
        return [Problem(group[0].name, 0, "ambiguous", text)]
    return problems


def without_quotations(group: Sequence[Target], files: Files) -> Sequence[Target]:
    """Beside hunks for a file, a fence under its name that shows lines of it as they are only quotes them."""
    hunks = [target for target in group if target.patch.whole is None]
    source = files.sources.get(group[0].source or "")
    text = decode(source.data) if source is not None else None
    if not hunks or text is None:
        return group
    index = FileIndex(text.lines)
    quotes = [
        target
        for target in group
        if target.patch.whole is not None
        and index.find(target.patch.whole.removesuffix("\n").split("\n"), WHITESPACE)
    ]
    return [target for target in group if target not in quotes]


def _problems(error: Misfit | Misfits, path: str) -> list[Problem]:
    misfits = error.misfits if isinstance(error, Misfits) else (error,)
    return [misfit.at(path) for misfit in misfits]


def _tried(
    reading: Callable[[Sequence[Target], Files], Outcome | None], group: Sequence[Target], files: Files
) -> Outcome | None:
    try:
        return reading(group, files)
    except (Misfit, Misfits):
        return None


def _steps(group: Sequence[Target], files: Files) -> Outcome | None:
    """Each patch on the result of the one before it; only for plain edits."""
    first = group[0]
    if first.source is None or first.path != first.source:
        return None
    outcome: Outcome | None = None
    for target in group:
        before = outcome.change.after if outcome is not None else None
        step = edited([target], files, before)
        placements = (outcome.placements if outcome is not None else ()) + step.placements
        source = files.sources[first.source]
        change = type(step.change)(
            first.source, first.path, source.data, step.change.after, source.mode, step.change.mode
        )
        outcome = Outcome(change, placements)
    return outcome


def _last(group: Sequence[Target], files: Files) -> Outcome | None:
    """The last patch alone, if it takes up something of each earlier one: a second thought, not a part."""
    last = [target for target in group if target.patch.block == group[-1].patch.block]
    earlier = [target for target in group if target.patch.block != group[-1].patch.block]
    taken_up = _touched(last)
    if not earlier or not all(_touched([target]) & taken_up for target in earlier):
        return None
    return edited(last, files)


def _touched(group: Sequence[Target]) -> set[str]:
    """The lines that patches delete or add, as far as they say something."""
    return {
        line.text.strip()
        for target in group
        for hunk in target.patch.hunks
        for line in (*hunk.deleted, *hunk.added)
        if weight(line.text) > 2
    }
