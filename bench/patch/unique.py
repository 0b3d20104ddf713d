"""Whether a hunk's text tells its place: without this a case would ask for luck."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from bench.patch.draft import Draft
from bench.patch.model import ADDED, File, Hunk, Line

MARGIN = 0.7  # another place that is so like the right one could be meant as well


def told_apart(draft: Draft) -> bool:
    """Whether every hunk of the draft fits at one place only, by as much of its text as can be believed."""
    if not draft.blur:
        return True
    return all(
        part.change.before is None
        or part.change.after is None
        or all(_single(part.change.before, hunk, draft.blur) for hunk in part.hunks)
        for part in draft.parts
    )


def _single(file: File, hunk: Hunk, blur: int) -> bool:
    return all(_stands_once(file, run, blur) for run in runs(hunk))


def runs(hunk: Hunk) -> list[list[Line]]:
    """The file's own lines of a hunk, cut where lines of the file are left out between them."""
    found: list[list[Line]] = []
    for line in hunk.lines:
        if line.kind == ADDED or line.row is None:
            continue
        if found and (last := found[-1][-1].row) is not None and 0 < line.row - last <= 2:
            found[-1].append(line)
        else:
            found.append([line])
    return found


def plain(text: str, blur: int) -> str:
    """What is left of a line to tell it by."""
    return text.removesuffix("\r") if blur < 2 else re.sub(r"\W+", "", text) or re.sub(r"\s+", "", text)


def _stands_once(file: File, run: Sequence[Line], blur: int) -> bool:
    rows = [line.row for line in run if line.row is not None]
    pattern = [(row - rows[0], plain(file.lines[row], blur)) for row in rows]
    if not any(len(text.strip()) > 2 for _, text in pattern):
        return False
    where: dict[str, list[int]] = defaultdict(list)
    wanted = {text for _, text in pattern}
    for row, line in enumerate(file.lines):
        if (text := plain(line, blur)) in wanted:
            where[text].append(row)
    votes: Counter[int] = Counter()
    weigh = {text: 1.0 if len(text) > 2 else 0.2 for _, text in pattern}
    for offset, text in pattern:
        for row in where[text]:
            votes[row - offset] += int(weigh[text] * 10)
    best = votes.pop(rows[0], 0)
    rival = max(votes.values(), default=0)
    return best > 0 and rival < best * (MARGIN if blur > 2 else 1)


def in_file(draft: Draft, line: Line) -> bool:
    """Is a line of context as it stands in its file, white space and typography aside?"""
    if line.row is None:
        return False
    files = [change.before for change in draft.changes if change.before]
    return any(
        line.row < len(file.lines) and plain(file.lines[line.row], 2) == plain(line.text, 2) for file in files
    )
