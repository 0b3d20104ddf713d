"""Keep what fits of a refused answer, and combine it with the next one.

The next answer may contain only what was missing, or everything again: nothing is lost or applied twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from repoagent.git.files import FileChange
from repoagent.patch.apply import apply_targets, encoded, hunk_numbers
from repoagent.patch.errors import PatchError, PatchErrors, Problem
from repoagent.patch.files import Files, Outcome, Target
from repoagent.patch.interpretations import outcomes
from repoagent.patch.model import decode
from repoagent.patch.splice import Splice, merged, spliced
from repoagent.patch.verify import check_result

NOWHERE = frozenset({"not-found", "deleted-line-missing"})


def fitting(group: Sequence[Target], problems: Sequence[Problem], files: Files) -> Outcome | None:
    """The outcome of those hunks of a file that have none of its `problems`; None if there are none, or if it is
    unclear."""
    bad = {problem.hunk for problem in problems}
    if 0 in bad or group[0].source is None:
        return None
    good = _only(group, bad, wanted=False)
    try:
        outcome = apply_targets(good, replace(files, parses_worse=None)) if good else None
    except (PatchError, PatchErrors):
        return None
    return outcome if outcome is not None and outcome.changes else None


def joined(kept: Outcome, group: Sequence[Target], files: Files) -> tuple[Outcome, list[Problem]]:
    """The kept outcome of a file combined with the patches of the next answer, and the problems of these.

    They are made for the file with or without what was `kept`. Where they change it again they replace it.
    """
    alone = outcomes(group, files)
    if isinstance(alone, Outcome):
        new = _united(kept, alone, group)
        return (kept, [_mixed(kept)]) if new is None else (new, _worse(new, files))
    bad = {problem.hunk for problem in alone}
    if 0 in bad or not NOWHERE.issuperset(problem.reason for problem in alone):
        return kept, alone  # with what was kept, another of several places may look like the only one
    rest = fitting(group, alone, files)
    now = kept if rest is None else _united(kept, rest, group)
    if now is None:
        return kept, alone
    found = _on_top(now, _only(group, bad, wanted=True), files)
    return (now, alone) if found is None else (found, _worse(found, files))


def _only(group: Sequence[Target], hunks: set[int], *, wanted: bool) -> list[Target]:
    """The patches with those of their hunks that have these numbers, or all others."""
    number = hunk_numbers(group)
    found = [
        (target, tuple(hunk for hunk in target.patch.hunks if (number(hunk) in hunks) is wanted))
        for target in group
    ]
    return [replace(target, patch=replace(target.patch, hunks=some)) for target, some in found if some]


def _mixed(kept: Outcome) -> Problem:
    text = (
        "hunks of this file are kept from an earlier answer, and this patch changes only some of them. Send all hunks, "
        "or only those that are missing."
    )
    return Problem(kept.change.name, 0, "overlap", text)


def _worse(outcome: Outcome, files: Files) -> list[Problem]:
    change = outcome.change
    try:
        check_result(change.name, change.before or b"", change.after or b"", files.parses_worse)
    except PatchError as error:
        return [error.at(change.name)]
    return []


def _on_top(kept: Outcome, group: Sequence[Target], files: Files) -> Outcome | None:
    """The patches on the result of what was kept; None where they don't fit that."""
    change = kept.change
    if change.before is None or change.after is None or any(t.path != change.path for t in group):
        return None
    try:
        step = apply_targets(group, replace(files, parses_worse=None), change.after)
    except (PatchError, PatchErrors):
        return None
    return Outcome(replace(change, after=step.change.after), (*kept.placements, *step.placements))


def _united(kept: Outcome, new: Outcome, group: Sequence[Target]) -> Outcome | None:
    """The new outcome with what was kept at other lines; None where they meet otherwise than that it replaces that."""
    was, change = kept.change, new.change
    if was.before is None or was.after is None or change.after is None or was.path != was.old_path:
        return new
    if change.old_path != was.old_path or any(target.patch.whole is not None for target in group):
        return new
    text = decode(was.before)
    if kept.parts is None or new.parts is None or text is None:
        return new if _holds(was, change) else None
    parts = list(new.parts)
    for part in kept.parts:
        meeting = [other for other in new.parts if _meet(part, other)]
        if not any(_replaces(other, part) for other in meeting):
            if meeting:
                return None
            parts.append(part)
    parts = merged(parts)
    ends = kept.ends if new.ends is None else new.ends
    mode = was.mode if change.mode == change.old_mode else change.mode
    after = encoded(spliced(text, parts, ends))
    placements = tuple(dict.fromkeys((*kept.placements, *new.placements)))
    return Outcome(replace(change, after=after, mode=mode), placements, tuple(parts), ends)


def _holds(kept: FileChange, new: FileChange) -> bool:
    """Whether all lines that the one adds and takes away are among those of the other."""
    before, one, other = (
        Counter((data or b"").split(b"\n")) for data in (kept.before, kept.after, new.after)
    )
    return one - before <= other - before and before - one <= before - other


def _meet(one: Splice, other: Splice) -> bool:
    """Whether two changes share a line, or touch and one of them only adds lines."""
    adds = one.start == one.end or other.start == other.end
    first, end = max(one.start, other.start), min(one.end, other.end)
    return first < end or (adds and first == end)


def _replaces(new: Splice, kept: Splice) -> bool:
    """Whether the new change covers the lines of the kept one, or has all that it adds there."""
    if not (new.start <= kept.start and kept.end <= new.end):
        return False
    count = len(kept.lines)
    return kept.start < kept.end or any(
        new.lines[at : at + count] == kept.lines for at in range(len(new.lines) - count + 1)
    )
