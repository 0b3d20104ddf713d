"""Combine several patches of one file: parts of one change, steps or a correction, also over successive answers.

The hunks of a refused answer that fit are kept. The next answer may contain only the missing hunks, or all of them
again: nothing is lost or applied twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from repoagent.git.files import FileChange
from repoagent.patch.apply_file import DuplicateHunks, apply_targets, check_result, encoded, hunk_numbers
from repoagent.patch.errors import PatchError, PatchErrors, Problem
from repoagent.patch.locate.choose import place_hunks
from repoagent.patch.locate.exact import WHITESPACE, index_of
from repoagent.patch.model import Hunk, Text, decode
from repoagent.patch.splice import Splice, merged, spliced
from repoagent.patch.targets import Files, Outcome, Target

_MOST_CORRECTED = 200  # blocks of one file that may correct each other
_NO_LOCATION = frozenset({"not-found", "deleted-line-missing"})  # reasons
Ranges = tuple[tuple[int, int], ...] | None
Located = tuple[Target, Hunk, Ranges]  # a hunk with the rows that it changes; None if it does not fit


def combine(group: Sequence[Target], files: Files) -> Outcome | list[Problem]:
    """The outcome of all patches of a file together, or its problems.

    If all patches fit the same text, they are parts of one change. Otherwise they can be steps, each applied to the
    result of the previous one, or a later patch can replace an earlier one at the same location. Exactly one of these
    two must fit, or both with the same result.
    """
    group = _without_quotations(group, files)
    name = group[0].name
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
    corrected = _attempt(lambda: _as_correction(group, files))
    steps = _attempt(lambda: _as_steps(group, files))
    if revised:
        last_fits = corrected is None and steps is not None
        if last_fits and _attempt(lambda: apply_targets(_versions(_blocks(group))[-1], files)) is not None:
            return [unclear]
        return corrected or steps or problems
    if corrected is not None and steps is not None and corrected.change != steps.change:
        text = (
            "it is unclear whether the patches follow one another or the last one replaces the others. "
            "Send one patch."
        )
        return [Problem(name, 0, "ambiguous", text)]
    return corrected or steps or problems


def _attempt(reading: Callable[[], Outcome | None]) -> Outcome | None:
    try:
        return reading()
    except (PatchError, PatchErrors):
        return None


def _blocks(group: Sequence[Target]) -> list[list[Target]]:
    """The patches of each block of the answer."""
    blocks: dict[int, list[Target]] = {}
    for target in group:
        blocks.setdefault(target.patch.block, []).append(target)
    return list(blocks.values())


def _versions(blocks: Sequence[list[Target]]) -> list[list[Target]]:
    """The patches grouped by version: each block whose prose corrects earlier patches begins a new version."""
    versions: list[list[Target]] = []
    for block in blocks:
        if versions and not block[0].patch.revises:
            versions[-1] += block
        else:
            versions.append(list(block))
    return versions


def _content(block: Sequence[Target]) -> object:
    """The changes of a block, without hunk numbers and line numbers."""
    return tuple((target.patch.whole, tuple(hunk.lines for hunk in target.patch.hunks)) for target in block)


def _without_quotations(group: Sequence[Target], files: Files) -> Sequence[Target]:
    """The patches without fences that only quote unchanged lines of the file, next to hunks for it."""
    source = files.sources.get(group[0].source or "")
    text = decode(source.data) if source is not None else None
    if text is None or all(target.patch.whole is not None for target in group):
        return group
    index = index_of(text.lines)
    return [
        target
        for target in group
        if target.patch.whole is None
        or not index.find(target.patch.whole.removesuffix("\n").split("\n"), WHITESPACE)
    ]


def _as_steps(group: Sequence[Target], files: Files) -> Outcome | None:
    """Apply each patch to the result of the previous one; None if they are not plain edits."""
    first = group[0]
    if first.source is None or first.path != first.source:
        return None
    outcome: Outcome | None = None
    source = files.sources[first.source]
    for target in group:
        step = apply_targets([target], files, outcome.change.after if outcome is not None else None)
        placements = (outcome.placements if outcome is not None else ()) + step.placements
        change = FileChange(
            first.source, first.path, source.data, step.change.after, source.mode, step.change.mode
        )
        outcome = Outcome(change, placements)
    return outcome


def _as_correction(group: Sequence[Target], files: Files) -> Outcome | None:
    """Let each block replace the hunks of earlier blocks at the same lines. A block that prose calls a correction of
    the whole also replaces hunks that fit nowhere, and must replace something. If hunks of an earlier block remain, the
    prose must say so. Otherwise return None."""
    versions = _blocks(group)
    if any(version[0].patch.revises for version in versions[1:]):
        versions = _versions(versions)
    source = files.sources.get(group[0].source or "")
    text = decode(source.data) if source is not None else None
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
        replaces_all = revises and not any(target.patch.keeps_rest for target in version)
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
    rest_is_kept = any(target.patch.keeps_rest for target in versions[-1])
    if not rest_is_kept and any(target.patch.block not in last for target, _, _ in remaining):
        return None
    result = []
    for target in group:
        hunks = tuple(hunk for other, hunk, _ in remaining if other is target)
        if hunks:
            result.append(replace(target, patch=replace(target.patch, hunks=hunks)))
    return apply_targets(result, files)


def _located(target: Target, text: Text, files: Files) -> list[Located]:
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
    """Whether two hunks change the same lines, or, if one does not fit, show mostly the same lines. A common added
    line proves nothing: they may be for different locations."""
    if earlier[2] is None or later[2] is None:
        first, second = ({line.text.strip() for line in hunk.lines} - {""} for hunk in (earlier[1], later[1]))
        return 2 * len(first & second) > len(first | second)
    return any(
        max(a, c) < min(b, d) or (a == b and c <= a <= d) or (c == d and a <= c <= b)
        for a, b in earlier[2]
        for c, d in later[2]
    )


def fitting(group: Sequence[Target], problems: Sequence[Problem], files: Files) -> Outcome | None:
    """The outcome of the hunks of a file without `problems`; None if there are none, or if the outcome is unclear."""
    bad = {problem.hunk for problem in problems}
    if 0 in bad or group[0].source is None:
        return None
    good = _with_hunks(group, bad, include=False)
    outcome = _attempt(lambda: apply_targets(good, replace(files, parses_worse=None))) if good else None
    return outcome if outcome is not None and outcome.changes else None


def continue_earlier(
    earlier: Outcome, group: Sequence[Target], files: Files
) -> tuple[Outcome, list[Problem]]:
    """The `earlier` outcome of a file combined with the patches of the next answer, and the problems of these patches.

    The patches may be for the file with or without the earlier changes, and replace these if they change the same
    lines.
    """
    alone = combine(group, files)
    if isinstance(alone, Outcome):
        united = _united(earlier, alone, group)
        if united is not None:
            return united, _parse_problems(united, files)
        text = (
            "hunks of this file are kept from an earlier answer, and this patch changes only some of them. Send all "
            "hunks, or only those that are missing."
        )
        return earlier, [Problem(earlier.change.name, 0, "overlap", text)]
    bad = {problem.hunk for problem in alone}
    if 0 in bad or not _NO_LOCATION.issuperset(problem.reason for problem in alone):
        return earlier, alone  # with the earlier changes, one of several locations may look unique
    rest = fitting(group, alone, files)
    current = earlier if rest is None else _united(earlier, rest, group)
    if current is None:
        return earlier, alone
    change = current.change
    missing = _with_hunks(group, bad, include=True)
    if change.before is None or change.after is None or any(t.path != change.path for t in missing):
        return current, alone
    before = change.after
    step = _attempt(lambda: apply_targets(missing, replace(files, parses_worse=None), before))
    if step is None:
        return current, alone
    placements = (*current.placements, *step.placements)
    result = Outcome(replace(change, after=step.change.after), placements)
    return result, _parse_problems(result, files)


def _with_hunks(group: Sequence[Target], numbers: set[int], *, include: bool) -> list[Target]:
    """The patches with only the hunks that have these numbers, or (not `include`) with only the others."""
    number_of = hunk_numbers(group)
    result = []
    for target in group:
        hunks = tuple(hunk for hunk in target.patch.hunks if (number_of(hunk) in numbers) is include)
        if hunks:
            result.append(replace(target, patch=replace(target.patch, hunks=hunks)))
    return result


def _parse_problems(outcome: Outcome, files: Files) -> list[Problem]:
    change = outcome.change
    try:
        check_result(change.name, change.before or b"", change.after or b"", files.parses_worse)
    except PatchError as error:
        return [error.at(change.name)]
    return []


def _united(earlier: Outcome, new: Outcome, group: Sequence[Target]) -> Outcome | None:
    """The new outcome with the earlier changes at other lines; None if new changes touch earlier ones without replacing
    them."""
    old, change = earlier.change, new.change
    if old.before is None or old.after is None or change.after is None or old.path != old.old_path:
        return new
    if change.old_path != old.old_path or any(target.patch.whole is not None for target in group):
        return new
    text = decode(old.before)
    if earlier.parts is None or new.parts is None or text is None:
        # The new outcome must add and delete all lines that the earlier one does.
        before, first, second = (Counter(data.split(b"\n")) for data in (old.before, old.after, change.after))
        return new if first - before <= second - before and before - first <= before - second else None
    parts = list(new.parts)
    for part in earlier.parts:
        meeting = [new_part for new_part in new.parts if _meet(part, new_part)]
        if not any(_replaces(new_part, part) for new_part in meeting):
            if meeting:
                return None
            parts.append(part)
    parts = merged(parts)
    final_newline = earlier.final_newline if new.final_newline is None else new.final_newline
    mode = old.mode if change.mode == change.old_mode else change.mode
    after = encoded(spliced(text, parts, final_newline))
    placements = tuple(dict.fromkeys((*earlier.placements, *new.placements)))
    return Outcome(replace(change, after=after, mode=mode), placements, tuple(parts), final_newline)


def _meet(first: Splice, second: Splice) -> bool:
    """Whether two changes share a line, or are adjacent and one of them only adds lines."""
    adds = first.start == first.end or second.start == second.end
    start, end = max(first.start, second.start), min(first.end, second.end)
    return start < end or (adds and start == end)


def _replaces(new: Splice, earlier: Splice) -> bool:
    """Whether the new change covers the lines of the earlier one, and contains its lines if that only adds some."""
    if not (new.start <= earlier.start and earlier.end <= new.end):
        return False
    count = len(earlier.lines)
    return earlier.start < earlier.end or any(
        new.lines[at : at + count] == earlier.lines for at in range(len(new.lines) - count + 1)
    )
