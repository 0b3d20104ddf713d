"""Explain a hunk that fits nowhere: it is already applied, or which lines of the file come closest."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from difflib import SequenceMatcher

from repoagent.patch.errors import PatchError
from repoagent.patch.locate.exact import LEVELS, WHITESPACE, FileIndex, is_blank, weight
from repoagent.patch.model import CONTEXT, DELETE, Hunk, Line, numbered


def applied_rows(hunk: Hunk, index: FileIndex) -> list[int]:
    """The rows at which the file already reads as after the hunk.

    None for a hunk whose new side is too weak: a deletion needs a line on each side, an addition must add more than
    brackets and blank lines.
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


_ALIKE = 300  # characters of a line that are compared


def mismatch(hunk: Hunk, index: FileIndex, *, nearest: bool = True) -> PatchError:
    """Why `hunk` has no place, with the nearest lines of the file if `nearest`."""
    rows = applied_rows(hunk, index)
    if rows:
        return already_applied(hunk, rows)
    missing = _missing(hunk, index)
    reason = (
        "deleted-line-missing"
        if any(line.kind == DELETE or line.rewritten for line in missing)
        else "not-found"
    )
    what = "the hunk does not match the file"
    if missing:
        quoted = "\n".join(f"  {line.kind}{line.text}" for line in missing[:5])
        what += f"; these of its lines are not in the file:\n{quoted}\n"
    else:
        what += ": all its lines are in the file, but not together. "
    near = _nearest(hunk, index) if nearest else None
    if near is not None:
        first = max(0, near - 2)
        shown = range(first, min(len(index.lines), near + len(hunk.old) + 3, first + 30))
        what += "The nearest lines of the file are:\n" + numbered(
            (number, index.lines[number]) for number in shown
        )
    advice = "\nSend the hunk again with its unchanged and deleted lines copied from the file exactly."
    return PatchError(reason, what.rstrip() + advice, hunk.number)


def already_applied(hunk: Hunk, rows: list[int]) -> PatchError:
    places = ", ".join(str(row + 1) for row in rows[:5])
    return PatchError(
        "already-applied",
        f"this change is already in the file, at line {places}. Leave this hunk out.",
        hunk.number,
    )


def _missing(hunk: Hunk, index: FileIndex) -> list[Line]:
    present = index.places(WHITESPACE)
    return [line for line in hunk.old if LEVELS[WHITESPACE](line.text) not in present]


def _nearest(hunk: Hunk, index: FileIndex) -> int | None:
    """The row where most of the hunk's lines are, or where a line most like its first telling one is."""
    votes: Counter[int] = Counter()
    places = index.places(WHITESPACE)
    for offset, line in enumerate(hunk.old):
        rows = places.get(LEVELS[WHITESPACE](line.text), [])
        if not is_blank(line.text) and len(rows) < 50:
            for row in rows:
                votes[max(0, row - offset)] += weight(line.text) + 1
    if votes:
        return min(votes, key=lambda row: (-votes[row], row))
    telling = max(hunk.old, key=lambda line: weight(line.text), default=None)
    if telling is None or not index.lines:
        return None
    words = set(re.findall(r"\w{3,}", telling.text))
    shared = ((sum(word in text for word in words), -row) for row, text in enumerate(index.lines))
    best, best_row = 0.5, None
    for _, row in heapq.nlargest(50, shared):
        there, wanted = index.lines[-row].strip()[:_ALIKE], telling.text.strip()[:_ALIKE]
        ratio = SequenceMatcher(None, there, wanted, autojunk=False).ratio()
        if ratio > best:
            best, best_row = ratio, -row
    return best_row
