"""Combine several patches to one file: parts of one change, consecutive steps, or corrections of earlier patches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from repoagent.git.files import Content, FileChange
from repoagent.patch.apply_file import DuplicateHunks, apply_targets, check_result
from repoagent.patch.locate.choose import place_hunks
from repoagent.patch.locate.exact import WHITESPACE, index_of
from repoagent.patch.model import FileText, Hunk, decode_text
from repoagent.patch.parse.retractions import keeps_rest
from repoagent.patch.refusal import PatchError, PatchErrors, Problem
from repoagent.patch.targets import PatchFiles, PatchOutcome, PatchTarget

_MOST_CORRECTED = 200  # blocks of one file that may correct each other
Ranges = tuple[tuple[int, int], ...] | None
Located = tuple[PatchTarget, Hunk, Ranges]  # a hunk with the rows that it changes; None if it does not fit


def combine_patches(group: Sequence[PatchTarget], files: PatchFiles) -> PatchOutcome | list[Problem]:
    """Return the outcome of all patches to a file, or their problems.

    If all patches fit the same text, they are parts of one change. Otherwise, each is applied to the result of the
    previous one, or a later patch replaces an earlier one at the same location, if the prose says so or if the last
    patch makes all changes of the others. If both are possible, the results must be equal.
    """
    name = group[0].name
    source = files.sources.get(group[0].source or "")
    text = decode_text(source.data) if source is not None else None
    if text is not None and any(target.patch.whole is None for target in group):
        index = index_of(
            text.lines
        )  # without fences that only quote unchanged lines of the file, next to hunks
        group = [
            target
            for target in group
            if target.patch.whole is None
            or not index.find(target.patch.whole.removesuffix("\n").split("\n"), WHITESPACE)
        ]
    blocks = _blocks(group)
    if any(target.patch.alternative for target in group) and len(set(map(_content, blocks))) > 1:
        return [Problem(name, 0, "ambiguous", "the answer offers several versions. Send only one.")]
    unclear = Problem(
        name,
        0,
        "ambiguous",
        "the text before a later patch seems to withdraw an earlier one, but it is unclear how much of it. "
        "Send one patch with the whole change and nothing else.",
    )
    versions = _versions(blocks)
    revised = any(_content(version) != _content(versions[0]) for version in versions[1:])
    if revised and all(
        target.patch.rows is None and (target.patch.whole is not None or target.source is None)
        for target in versions[-1]
    ):
        group, revised = versions[-1], False  # the last version has the whole file
    try:
        outcome = apply_targets(group, files)
    except (PatchError, PatchErrors) as error:
        errors = error.errors if isinstance(error, PatchErrors) else (error,)
        problems = [problem.at(name) for problem in errors]
        if isinstance(error, DuplicateHunks) and not revised:
            return problems
    else:
        if not revised:
            return outcome
        problems = [unclear]
    if len(group) == 1 or any(target.patch.whole is not None for target in group):
        return problems
    corrected = _attempt(_as_correction, group, files, text)
    steps: PatchOutcome | None = None
    moves = any(target.path != target.source for target in group[:-1])
    if source is not None and not moves and group[-1].patch.action != "copy":
        steps = _attempt(_as_steps, group, files, source)
    if revised:
        last_fits = corrected is None and steps is not None
        if last_fits and _attempt(apply_targets, _versions(_blocks(group))[-1], files) is not None:
            return [unclear]
        return corrected or steps or problems
    if corrected and steps and corrected.change != steps.change:
        unclear = replace(
            unclear,
            text="it is unclear whether the patches follow one another or the last one replaces the others. "
            "Send one patch.",
        )
        return [unclear]
    return steps or _attempt(_as_repetition, blocks, files, text) or problems


def _attempt(apply: Callable[..., PatchOutcome | None], *arguments: object) -> PatchOutcome | None:
    try:
        return apply(*arguments)
    except (PatchError, PatchErrors):
        return None


def _as_steps(group: Sequence[PatchTarget], files: PatchFiles, source: Content) -> PatchOutcome:
    """Apply each patch to the result of the previous one; only the last result must parse."""
    steps = PatchOutcome(FileChange.at(group[0].name, source, source), ())
    for target in group:
        step = apply_targets([target], replace(files, parses_worse=None), steps.change.new)
        steps = PatchOutcome(replace(step.change, old=source), steps.placements + step.placements)
    if (new := steps.change.new) is not None:
        check_result(group[-1].name, source.data, new.data, files.parses_worse, may_empty=True)
    return steps


def _as_repetition(
    blocks: Sequence[list[PatchTarget]], files: PatchFiles, text: FileText | None
) -> PatchOutcome | None:
    """Apply the last block alone if it makes every change of the others ("All together:")."""
    if text is None or any(target.patch.action != "edit" for block in blocks for target in block):
        return None
    *others, last = (
        {
            (change.start, change.end, tuple(line.text for line in change.added))
            for target in block
            for match in place_hunks(target.patch.hunks, text, strict=files.strict)
            for change in match.changes()
        }
        for block in blocks
    )
    return apply_targets(blocks[-1], files) if all(changes <= last for changes in others) else None


def _blocks(group: Sequence[PatchTarget]) -> list[list[PatchTarget]]:
    blocks: dict[int, list[PatchTarget]] = {}
    for target in group:
        blocks.setdefault(target.patch.block, []).append(target)
    return list(blocks.values())


def _versions(blocks: Sequence[list[PatchTarget]]) -> list[list[PatchTarget]]:
    """Each block whose prose corrects earlier patches begins a new version."""
    versions: list[list[PatchTarget]] = []
    for block in blocks:
        if versions and not block[0].patch.revises:
            versions[-1] += block
        else:
            versions.append(list(block))
    return versions


def _content(block: Sequence[PatchTarget]) -> object:
    return tuple((target.patch.whole, tuple(hunk.lines for hunk in target.patch.hunks)) for target in block)


def _as_correction(
    group: Sequence[PatchTarget], files: PatchFiles, text: FileText | None
) -> PatchOutcome | None:
    """Each block replaces hunks of earlier blocks at the same lines. One that prose calls a correction also replaces
    hunks that fit nowhere, and must replace something. None if hunks of an earlier block remain without the prose
    saying so."""
    versions = _blocks(group)
    if any(version[0].patch.revises for version in versions[1:]):
        versions = _versions(versions)
    if (
        not 2 <= len(versions) <= _MOST_CORRECTED
        or text is None
        or any(target.path != group[0].path for target in group)
    ):
        return None
    remaining: list[Located] = []
    for number, version in enumerate(versions):
        located = [entry for target in version for entry in _located(target, text, files)]
        revises = number > 0 and version[0].patch.revises
        replaces_all = revises and not any(keeps_rest(target.patch.prose) for target in version)
        rest = [
            entry
            for entry in remaining
            if not any(_at_same_location(entry, other) for other in located)
            and not (replaces_all and entry[2] is None)
        ]
        if revises and len(rest) == len(remaining):
            return None
        remaining = rest + located
    last = {target.patch.block for target in versions[-1]}
    rest_is_kept = any(keeps_rest(target.patch.prose) for target in versions[-1])
    if not rest_is_kept and any(target.patch.block not in last for target, _, _ in remaining):
        return None
    result = []
    for target in group:
        hunks = tuple(hunk for other, hunk, _ in remaining if other is target)
        if hunks:
            result.append(replace(target, patch=replace(target.patch, hunks=hunks)))
    return apply_targets(result, files)


def _located(target: PatchTarget, text: FileText, files: PatchFiles) -> list[Located]:
    hunks = [hunk for hunk in target.patch.hunks if hunk.changes]
    try:
        matches = place_hunks(hunks, text, strict=files.strict)
        return [(target, hunk, match.claimed()) for hunk, match in zip(hunks, matches, strict=True)]
    except (PatchError, PatchErrors):
        if len(hunks) == 1:
            return [(target, hunks[0], None)]
    result: list[Located] = []
    for hunk in hunks:
        alone = replace(target, patch=replace(target.patch, hunks=(hunk,)))
        result += [(target, hunk, ranges) for _, _, ranges in _located(alone, text, files)]
    return result


def _at_same_location(earlier: Located, later: Located) -> bool:
    """Whether two hunks change the same lines, or, if one does not fit, show mostly the same lines."""
    if earlier[2] is None or later[2] is None:
        first, second = ({line.text.strip() for line in hunk.lines} - {""} for hunk in (earlier[1], later[1]))
        return 2 * len(first & second) > len(first | second)
    return any(
        max(a, c) < min(b, d) or (a == b and c <= a <= d) or (c == d and a <= c <= b)
        for a, b in earlier[2]
        for c, d in later[2]
    )
