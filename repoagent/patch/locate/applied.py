"""Is a hunk in the file already?"""

from __future__ import annotations

from repoagent.patch.hunk import CONTEXT, Hunk
from repoagent.patch.locate.match import LEVELS, FileIndex, weight


def applied_rows(hunk: Hunk, index: FileIndex) -> list[int]:
    """The rows at which the file reads as it would after the hunk.

    None for a hunk whose after-side says too little: a deletion needs a line on each side, an addition must
    add more than brackets and blank lines.
    """
    if not any(weight(line.text) > 1 for line in hunk.added):
        kinds = [line.kind for line in hunk.lines]
        if hunk.added or not hunk.deleted or kinds[0] != CONTEXT or kinds[-1] != CONTEXT:
            return []
    texts = [line.text for line in hunk.new]
    for level in LEVELS:
        rows = index.find(texts, level)
        if rows:
            return rows
    return []
