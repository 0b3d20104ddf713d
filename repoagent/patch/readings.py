"""Several patches of one file in one answer: parts of one change, steps, or a second thought?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from repoagent.patch.files import Files, Outcome, Target
from repoagent.patch.hunk import Hunk
from repoagent.patch.locate.match import WHITESPACE, index_of, weight
from repoagent.patch.locate.place import place
from repoagent.patch.outcome import edited
from repoagent.patch.problems import Misfit, Misfits, Problem
from repoagent.patch.text import Text, decode

Places = tuple[tuple[int, int], ...] | None


def outcomes(group: Sequence[Target], files: Files) -> Outcome | list[Problem]:
    """The one outcome of all patches of a file, or the problems that it has.

    All of them against the same text is what is meant when it fits. Otherwise they can be steps, each made on
    the result of the one before, or a later one can replace an earlier at the same place. One of these readings
    must fit, and alone, or with the same result as the other.
    """
    group = without_quotations(group, files)
    if any(target.patch.alternative for target in group) and len(set(map(_asked, blocks(group)))) > 1:
        return [
            Problem(
                group[0].name, 0, "ambiguous", "the answer offers several versions. Send the one to take."
            )
        ]
    try:
        together = edited(group, files)
    except (Misfit, Misfits) as error:
        problems = _problems(error, group[0].name)
    else:
        if not _taken_back(group):
            return together
        text = (
            "a later patch seems to replace an earlier one that is for another place. Send one patch that holds all "
            "that shall change, and nothing else."
        )
        return [Problem(group[0].name, 0, "ambiguous", text)]
    if len(group) == 1 or any(target.patch.whole is not None for target in group):
        return problems
    readings = (_corrected, _steps)
    found = [outcome for reading in readings if (outcome := _tried(reading, group, files)) is not None]
    if found and group[-1].patch.revises:
        return found[0]
    if len({outcome.change for outcome in found}) == 1:
        return found[0]
    if found:
        text = (
            "its patches can be meant one after another, or the last one alone, with different results. "
            "Send one patch."
        )
        return [Problem(group[0].name, 0, "ambiguous", text)]
    return problems


def blocks(group: Sequence[Target]) -> list[list[Target]]:
    """The patches of each block of the answer."""
    found: dict[int, list[Target]] = {}
    for target in group:
        found.setdefault(target.patch.block, []).append(target)
    return list(found.values())


MOST = 200  # blocks that are compared in pairs; more are not read as corrections of each other


def _asked(block: Sequence[Target]) -> object:
    """What a block asks for, without its numbers."""
    return tuple((target.patch.whole, tuple(hunk.lines for hunk in target.patch.hunks)) for target in block)


def _taken_back(group: Sequence[Target]) -> bool:
    """Does a block that is said to revise an earlier one take up lines of it, at another place?"""
    parts = blocks(group)
    return any(
        part[0].patch.revises
        and any(
            _asked(part) != _asked(other) and _touched(part) & _touched(other) for other in parts[:number]
        )
        for number, part in enumerate(parts)
    )


def without_quotations(group: Sequence[Target], files: Files) -> Sequence[Target]:
    """Beside hunks for a file, a fence under its name that shows lines of it as they are only quotes them."""
    hunks = [target for target in group if target.patch.whole is None]
    source = files.sources.get(group[0].source or "")
    text = decode(source.data) if source is not None else None
    if not hunks or text is None:
        return group
    index = index_of(text.lines)
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


def _corrected(group: Sequence[Target], files: Files) -> Outcome | None:
    """Each block in place of what earlier ones have at the same lines. If something of an earlier one is left then,
    the words must say that it stays."""
    parts = blocks(group)
    source = files.sources.get(group[0].source or "")
    text = decode(source.data) if source is not None else None
    if not 2 <= len(parts) <= MOST or text is None or any(target.path != group[0].path for target in group):
        return None
    kept: list[tuple[Target, Hunk, Places]] = []
    last = group[-1].patch.block
    for part in parts:
        now = [(target, hunk, places) for target in part for hunk, places in _placed(target, text, files)]
        kept = [entry for entry in kept if not any(_same_place(entry, other) for other in now)] + now
    stays = any(target.patch.block != last for target, _, _ in kept)
    if stays and not any(target.patch.completes for target in parts[-1]):
        return None
    return edited([replace(t, patch=replace(t.patch, hunks=(hunk,))) for t, hunk, _ in kept], files)


def _placed(target: Target, text: Text, files: Files) -> list[tuple[Hunk, Places]]:
    """Each hunk with the rows that it changes; None for those of a patch that does not fit."""
    hunks = [hunk for hunk in target.patch.hunks if hunk.changes]
    try:
        fits = place(hunks, text, strict=files.strict)
        return [(hunk, fit.claimed()) for hunk, fit in zip(hunks, fits, strict=True)]
    except (Misfit, Misfits):
        return [(hunk, None) for hunk in hunks]


def _same_place(earlier: tuple[Target, Hunk, Places], later: tuple[Target, Hunk, Places]) -> bool:
    """Do two hunks change the same lines, or (where one has no place) take up the same text?"""
    if earlier[2] is None or later[2] is None:
        return bool(_texts([earlier[1]]) & _texts([later[1]]))
    return any(
        max(one[0], other[0]) < min(one[1], other[1])
        or (one[0] == one[1] and other[0] <= one[0] <= other[1])
        or (other[0] == other[1] and one[0] <= other[0] <= one[1])
        for one in earlier[2]
        for other in later[2]
    )


def _touched(group: Sequence[Target]) -> set[str]:
    """The lines that patches delete or add, as far as they say something."""
    return _texts([hunk for target in group for hunk in target.patch.hunks])


def _texts(hunks: Sequence[Hunk]) -> set[str]:
    return {
        line.text.strip() for hunk in hunks for line in (*hunk.deleted, *hunk.added) if weight(line.text) > 2
    }
