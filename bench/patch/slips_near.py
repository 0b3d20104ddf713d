"""Files that hold a twin of the place that is meant: what tells them apart is in the hunk, or in its `@@` line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bench.patch.draft import Draft, heading, shown
from bench.patch.model import Hunk, edited
from bench.patch.slip import HUNKS, slip

TWIN = "def twin_of_it(queue):"
ABOUT = "near numbers context fused order-of-hunks edge end"


def _twin(draft: Draft, alter: Callable[[list[str]], list[str]]) -> Hunk | None:
    """Put a second block like that of the only hunk below it, or above; returns the hunk that means the first."""
    change = draft.changes[0]
    draft.changes = [change]
    draft.build()
    if len(draft.hunks) != 1 or not change.before or not change.after or not change.before.final_newline:
        return None
    rows = [line.row for line in draft.hunks[0].lines if line.row is not None]
    lines = list(change.before.lines)
    if (
        len(rows) < 5
        or len(lines) > 3000
        or not rows[0]
        or any(not line for line in (lines[rows[0]], lines[rows[-1]]))
    ):
        return None
    tail = "\r" if lines[0].endswith("\r") else ""
    block = lines[rows[0] : rows[-1] + 1]
    if any(line[:1].isalpha() for line in block) or any(
        "\n".join(block) in "\n".join(part) for part in (lines[rows[0] + 1 :],)
    ):
        return None
    twin = [TWIN + tail, *(shown(line) + tail for line in alter([shown(line) for line in block])), tail]
    if draft.rng.random() < 0.5:
        at, moved = len(lines), 0
    else:
        at = next((n for n, line in enumerate(lines[: rows[0]]) if line[:1].isalpha()), 0)
        moved = len(twin)
    change.before = replace(change.before, lines=(*lines[:at], *twin, *lines[at:]))
    change.edits = [replace(edit, start=edit.start + moved, end=edit.end + moved) for edit in change.edits]
    change.after = replace(change.after, lines=edited(change.before.lines, change.edits))
    draft.build()
    return draft.hunks[0] if len(draft.hunks) == 1 else None


@slip("twin-told-by-number", HUNKS, ABOUT)
def by_number(draft: Draft) -> bool:
    """Two equal places, no heading, and every number is right."""
    hunk = _twin(draft, list)
    if hunk is None:
        return False
    hunk.heading = ""
    draft.may_refuse = True
    return True


@slip("twin-told-by-heading", HUNKS, ABOUT, combines=False)
def by_heading(draft: Draft) -> bool:
    """Two equal places, no numbers, and the heading is right."""
    hunk = _twin(draft, list)
    change = draft.changes[0]
    if hunk is None or not change.before:
        return False
    name = heading(change.before, hunk.old)
    if not name or name == TWIN or sum(line.startswith(name) for line in change.before.lines) != 1:
        return False
    hunk.header = f"@@ {name} @@"
    draft.may_refuse = True
    return True


@slip("twin-told-by-both", HUNKS, ABOUT)
def by_both(draft: Draft) -> bool:
    """Two equal places; number and heading agree."""
    hunk = _twin(draft, list)
    return hunk is not None and hunk.heading not in ("", TWIN)


@slip("twin-number-nearly-right", HUNKS, ABOUT, combines=False)
def nearly(draft: Draft) -> bool:
    """Two equal places; the number is off by one or two, far nearer to the one than to the other."""
    hunk = _twin(draft, list)
    if hunk is None:
        return False
    a, b, c, d = hunk.numbers()
    off = draft.rng.choice([1, 2])
    hunk.heading = ""
    hunk.number(a + off, b, c + off, d)
    draft.may_refuse = True
    return True


@slip("twin-deeper", HUNKS, ABOUT, blur=1)
def deeper(draft: Draft) -> bool:
    """The other place is the same but for four spaces of indentation."""
    hunk = _twin(draft, lambda block: ["    " + line if line else line for line in block])
    return _unnumbered(hunk)


@slip("twin-one-line-differs", HUNKS, ABOUT, blur=1)
def one_differs(draft: Draft) -> bool:
    """One line of context is another at the other place."""

    def alter(block: list[str]) -> list[str]:
        return [f"{block[0]}, again", *block[1:]]

    return _unnumbered(_twin(draft, alter))


@slip("twin-deleted-line-differs", HUNKS, ABOUT, blur=1)
def deleted_differs(draft: Draft) -> bool:
    """The deleted line is another at the other place; the context is the same."""
    change = draft.changes[0]
    if not change.before or len(change.edits) != 1 or change.edits[0].start == change.edits[0].end:
        return False
    gone = {shown(line) for line in change.before.lines[change.edits[0].start : change.edits[0].end]}
    return _unnumbered(_twin(draft, lambda block: [line + "2" if line in gone else line for line in block]))


@slip("twin-punctuation-differs", HUNKS, ABOUT, blur=1)
def punctuation(draft: Draft) -> bool:
    """The other place has typographic quotes."""
    found: list[bool] = []

    def alter(block: list[str]) -> list[str]:
        found.append(any('"' in line or "'" in line for line in block))
        return [line.replace('"', "\u201d").replace("'", "\u2019") for line in block]

    return _unnumbered(_twin(draft, alter)) and found[-1]


def _unnumbered(hunk: Hunk | None) -> bool:
    if hunk is None:
        return False
    hunk.header = "@@ @@"
    return True
