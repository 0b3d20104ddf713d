"""A whole-file answer: the new text of a file, or a part of it that must not be mistaken for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from repoagent.patch.linediff import differing
from repoagent.patch.locate.match import is_blank
from repoagent.patch.problems import Misfit
from repoagent.patch.splice.splices import Splice
from repoagent.patch.text import Text, split_lines
from repoagent.patch.verify import check_left_out, check_whole


def whole_splices(whole: str, text: Text, rows: tuple[int, int] | None = None) -> list[Splice]:
    """The lines that differ between a file (or its `rows`) and their new text; equal ones keep their bytes.

    Raises Misfit.
    """
    new, _ = split_lines(whole.removeprefix("\ufeff"))
    first, last = rows or (0, len(text.lines))
    old = text.lines[first:last]
    if rows is None:
        check_whole(old, new)
    if old and not new:
        raise Misfit(
            "empties-file", "the answer holds an empty file. To delete the file, send a diff that says so."
        )
    changes = differing(old, new)
    for i1, i2, j1, j2 in changes:
        check_left_out(old[i1:i2], new[j1:j2])
    return [Splice(first + i1, first + i2, tuple(new[j1:j2])) for i1, i2, j1, j2 in changes]


def looks_whole(whole: str, lines: Sequence[str]) -> bool:
    """Can a nameless fence be the whole of this file: has it the first, the last, and most other lines?"""
    present = [line.strip() for line in lines if not is_blank(line)]
    offered = [line.strip() for line in whole.split("\n") if not is_blank(line)]
    if not present or not offered:
        return False
    kept = sum((Counter(present) & Counter(offered)).values())
    return present[0] in offered and present[-1] in offered and 10 * kept >= 6 * len(present)


def check_said_whole(whole: str, text: Text) -> None:
    """Raises Misfit where a text that only words call the whole file keeps too little of it, or lacks its first or last
    lines."""
    new, _ = split_lines(whole.removeprefix("\ufeff"))
    old = text.lines
    kept = sum((Counter(map(str.strip, old)) & Counter(map(str.strip, new))).values())
    cut = [
        (i1, i2)
        for i1, i2, j1, j2 in differing(old, new)
        if (i1 == 0 or i2 == len(old)) and 2 * (j2 - j1) < sum(not is_blank(line) for line in old[i1:i2])
    ]
    if old and (10 * kept < 6 * len(old) or cut):
        what = (
            f"lines {cut[0][0] + 1} to {cut[0][1]} are missing"
            if cut
            else f"it keeps {kept} of {len(old)} lines"
        )
        raise Misfit(
            "empties-file",
            f"words call this the whole file, but {what}. If it is meant so, write the file's name alone on the line "
            "before the fence, or send a unified diff.",
        )
