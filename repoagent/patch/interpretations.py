"""Several patches of one file in one answer: parts of one change, steps, or a correction?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from repoagent.patch.apply import Twins, apply_targets
from repoagent.patch.errors import PatchError, PatchErrors, Problem
from repoagent.patch.files import Files, Outcome, Target
from repoagent.patch.locate.choose import place_hunks
from repoagent.patch.locate.exact import WHITESPACE, index_of
from repoagent.patch.model import Hunk, Text, decode

Places = tuple[tuple[int, int], ...] | None
_MOST_CORRECTED = 200  # blocks of one file; more are not read as corrections of each other


def outcomes(group: Sequence[Target], files: Files) -> Outcome | list[Problem]:
    """The one outcome of all patches of a file, or the problems that it has.

    All of them against the same text is what is meant when it fits. Otherwise they can be steps, each made on
    the result of the one before, or a later one can replace an earlier at the same place. One of these readings
    must fit, and alone, or with the same result as the other.
    """
    group = without_quotations(group, files)
    parts = blocks(group)
    if any(target.patch.alternative for target in group) and len(set(map(_asked, parts))) > 1:
        return [Problem(group[0].name, 0, "ambiguous", "the answer offers several versions. Send only one.")]
    tries = _rounds(parts)
    revised = any(_asked(part) != _asked(tries[0]) for part in tries[1:])
    if revised and all(target.patch.rows is None and _complete(target) for target in tries[-1]):
        group, revised = tries[-1], False
    try:
        together = apply_targets(group, files)
    except (PatchError, PatchErrors) as error:
        problems = _problems(error, group[0].name)
        if isinstance(error, Twins) and not revised:
            return problems
    else:
        if not revised:
            return together
        problems = [_unclear(group[0].name)]
    if len(group) == 1 or any(target.patch.whole is not None for target in group):
        return problems
    corrected, steps = _tried(_corrected, group, files), _tried(_steps, group, files)
    if revised:
        if corrected is None and steps is not None and _tried(_last_alone, group, files) is not None:
            return [_unclear(group[0].name)]
        return corrected or steps or problems
    found = [outcome for outcome in (corrected, steps) if outcome is not None]
    if len({outcome.change for outcome in found}) == 1:
        return found[0]
    if found:
        text = (
            "it is unclear whether the patches follow one another or the last one replaces the others. "
            "Send one patch."
        )
        return [Problem(group[0].name, 0, "ambiguous", text)]
    return problems


def _unclear(path: str) -> Problem:
    text = (
        "the text before a later patch seems to withdraw an earlier one, but it is unclear how much of it. "
        "Send one patch with the whole change and nothing else."
    )
    return Problem(path, 0, "ambiguous", text)


def blocks(group: Sequence[Target]) -> list[list[Target]]:
    """The patches of each block of the answer."""
    found: dict[int, list[Target]] = {}
    for target in group:
        found.setdefault(target.patch.block, []).append(target)
    return list(found.values())


def _rounds(parts: Sequence[list[Target]]) -> list[list[Target]]:
    """The patches from one block whose words correct what is above it to the next such block."""
    rounds: list[list[Target]] = []
    for part in parts:
        if rounds and not part[0].patch.revises:
            rounds[-1] += part
        else:
            rounds.append(list(part))
    return rounds


def _complete(target: Target) -> bool:
    """Does the patch hold all of its file?"""
    return target.patch.whole is not None or target.source is None


def _asked(block: Sequence[Target]) -> object:
    """What a block asks for, without its numbers."""
    return tuple((target.patch.whole, tuple(hunk.lines for hunk in target.patch.hunks)) for target in block)


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


def _problems(error: PatchError | PatchErrors, path: str) -> list[Problem]:
    errors = error.errors if isinstance(error, PatchErrors) else (error,)
    return [problem.at(path) for problem in errors]


def _tried(
    reading: Callable[[Sequence[Target], Files], Outcome | None], group: Sequence[Target], files: Files
) -> Outcome | None:
    try:
        return reading(group, files)
    except (PatchError, PatchErrors):
        return None


def _steps(group: Sequence[Target], files: Files) -> Outcome | None:
    """Each patch on the result of the one before it; only for plain edits."""
    first = group[0]
    if first.source is None or first.path != first.source:
        return None
    outcome: Outcome | None = None
    for target in group:
        before = outcome.change.after if outcome is not None else None
        step = apply_targets([target], files, before)
        placements = (outcome.placements if outcome is not None else ()) + step.placements
        source = files.sources[first.source]
        change = type(step.change)(
            first.source, first.path, source.data, step.change.after, source.mode, step.change.mode
        )
        outcome = Outcome(change, placements)
    return outcome


def _corrected(group: Sequence[Target], files: Files) -> Outcome | None:
    """Each block in place of what earlier ones have at the same lines; one that words call a correction, and not of a
    part alone, also in place of what fits nowhere. If something of an earlier one is left then, the words must say
    that it stays, and the last block must replace something."""
    parts = blocks(group)
    if any(part[0].patch.revises for part in parts[1:]):
        parts = _rounds(parts)
    source = files.sources.get(group[0].source or "")
    text = decode(source.data) if source is not None else None
    if (
        not 2 <= len(parts) <= _MOST_CORRECTED
        or text is None
        or any(target.path != group[0].path for target in group)
    ):
        return None
    kept: list[tuple[Target, Hunk, Places]] = []
    last = {target.patch.block for target in parts[-1]}
    for number, part in enumerate(parts):
        now = [(target, hunk, places) for target in part for hunk, places in _placed(target, text, files)]
        revises = number > 0 and part[0].patch.revises
        whole = revises and not any(target.patch.completes for target in part)
        left = [
            entry
            for entry in kept
            if not any(_same_place(entry, other) for other in now) and not (whole and entry[2] is None)
        ]
        if revises and len(left) == len(kept):
            return None
        kept = left + now
    stays = any(target.patch.block not in last for target, _, _ in kept)
    if stays and not any(target.patch.completes for target in parts[-1]):
        return None
    again = [(target, tuple(hunk for other, hunk, _ in kept if other is target)) for target in group]
    return apply_targets(
        [replace(t, patch=replace(t.patch, hunks=hunks)) for t, hunks in again if hunks], files
    )


def _last_alone(group: Sequence[Target], files: Files) -> Outcome:
    return apply_targets(_rounds(blocks(group))[-1], files)


def _placed(target: Target, text: Text, files: Files) -> list[tuple[Hunk, Places]]:
    """Each hunk with the rows that it changes; None for one that does not fit."""
    hunks = [hunk for hunk in target.patch.hunks if hunk.changes]
    try:
        matches = place_hunks(hunks, text, strict=files.strict)
        return [(hunk, match.claimed()) for hunk, match in zip(hunks, matches, strict=True)]
    except (PatchError, PatchErrors):
        if len(hunks) == 1:
            return [(hunks[0], None)]
    return [
        entry
        for hunk in hunks
        for entry in _placed(replace(target, patch=replace(target.patch, hunks=(hunk,))), text, files)
    ]


def _same_place(earlier: tuple[Target, Hunk, Places], later: tuple[Target, Hunk, Places]) -> bool:
    """Do two hunks change the same lines, or (where one has no place) show mostly the same? That both add a line shows
    nothing: one may be a part for another place."""
    if earlier[2] is None or later[2] is None:
        one, other = ({line.text.strip() for line in hunk.lines} - {""} for hunk in (earlier[1], later[1]))
        return 2 * len(one & other) > len(one | other)
    return any(
        max(one[0], other[0]) < min(one[1], other[1])
        or (one[0] == one[1] and other[0] <= one[0] <= other[1])
        or (other[0] == other[1] and one[0] <= other[0] <= one[1])
        for one in earlier[2]
        for other in later[2]
    )
