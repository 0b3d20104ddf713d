"""All hunks of one file -> the one place of each, or every reason why some have none."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.patch.hunk import CONTEXT, Hunk
from repoagent.patch.locate.applied import applied_rows
from repoagent.patch.locate.choose import choose
from repoagent.patch.locate.explain import already, misfit
from repoagent.patch.locate.fit import Fit
from repoagent.patch.locate.fits import fits, fits_at
from repoagent.patch.locate.match import LEVELS, WHITESPACE, FileIndex, index_of, is_blank
from repoagent.patch.locate.transport import undone
from repoagent.patch.problems import Misfit, Misfits
from repoagent.patch.text import Text

EXPLAINED = 20  # hunks without a place; for further ones the nearest lines are not looked up


def place(hunks: Sequence[Hunk], text: Text, *, strict: bool = False) -> list[Fit]:
    """The one place of each hunk that changes anything. Raises Misfit or Misfits, also where what a hunk deletes and
    adds again is nowhere in the file."""
    index = index_of(text.lines)
    if not strict:
        hunks = undone(hunks, text.lines)
    wanted: list[Hunk] = []
    options: list[list[Fit]] = []
    problems: list[Misfit] = []
    for hunk in hunks:
        if not hunk.changes and not any(line.held and not is_blank(line.text) for line in hunk.lines):
            continue
        try:
            found = fits(hunk, index, strict=strict)
        except Misfit as problem:
            problems.append(problem)
            continue
        if not found:
            problems.append(misfit(hunk, index, nearest=len(problems) < EXPLAINED))
        elif not hunk.changes:
            continue
        elif rows := _repeated(hunk, found, index):
            problems.append(already(hunk, rows))
        else:
            wanted.append(hunk)
            options.append(found)
    chosen = choose(wanted, _at_one_depth(wanted, options, index), index)
    problems += [item for item in chosen if isinstance(item, Misfit)]
    if problems:
        raise Misfits(sorted(problems, key=lambda problem: problem.hunk))
    return [item for item in chosen if isinstance(item, Fit)]


def _at_one_depth(
    hunks: Sequence[Hunk], options: Sequence[Sequence[Fit]], index: FileIndex
) -> list[list[Fit]]:
    """Where one hunk needs other white space, so may others: their exact place is one of several then."""
    shifted = any(fit.level == WHITESPACE for found in options for fit in found)
    result: list[list[Fit]] = []
    for hunk, found in zip(hunks, options, strict=True):
        rows = {fit.rows for fit in found}
        loose = fits_at(hunk, index, WHITESPACE) if shifted and found[0].level in LEVELS else []
        result.append([*found, *(fit for fit in loose if fit.rows not in rows)])
    return result


def _repeated(hunk: Hunk, found: Sequence[Fit], index: FileIndex) -> list[int]:
    """Where an insertion without context on one side would put in again what stands right there.

    A header that is right in every way (a tool's, not a model's) says that this is meant.
    """
    if len(found) != 1 or hunk.deleted or hunk.exact_counts or not hunk.lines:
        return []
    if CONTEXT == hunk.lines[0].kind == hunk.lines[-1].kind:
        return []
    return [row for row in applied_rows(hunk, index) if abs(row - found[0].first) <= len(hunk.added)]
