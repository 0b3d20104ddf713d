"""Answers whose place in the file can't be told."""

from __future__ import annotations

from dataclasses import replace

from bench.patch.draft import Draft, shown
from bench.patch.model import ADDED, CONTEXT, DELETED, Case, Hunk, Line
from bench.patch.refusal import answered, refusal


@refusal("two equal places")
def two_places(made: Draft) -> str | None:
    """The block of the hunk stands in the file twice, and the hunk has no numbers and no heading."""
    return _twice(made, "@@ @@")


@refusal("two equal places, numbers of neither")
def two_places_numbers(made: Draft) -> str | None:
    return _twice(made, None)


@refusal("two equal places, heading of neither")
def two_places_heading(made: Draft) -> str | None:
    return _twice(made, "@@ def process_everything(queue, limit): @@")


def _twice(made: Draft, header: str | None) -> str | None:
    change = made.changes[0]
    part = made.parts[0]
    if len(part.hunks) != 1 or change.before is None or not change.before.final_newline:
        return None
    hunk = part.hunks[0]
    rows = [line.row for line in hunk.lines if line.row is not None]
    if len(rows) < 5 or len(change.before.lines) > 3000 or rows[0] < 8:
        return None
    lines = list(change.before.lines)
    block = lines[rows[0] : rows[-1] + 1]
    at = len(lines) if rows[-1] < len(lines) - 20 else 4
    if any(line.bare_end for line in hunk.lines):
        return None
    change.before = replace(change.before, lines=(*lines[:at], *block, *lines[at:]))
    if header is None:
        old, new = hunk.counts()
        far = len(lines) + 500 + made.rng.randrange(300)
        hunk.heading = ""
        hunk.number(far, old, far, new)
    else:
        hunk.header = header
    return answered(made)


@refusal("insertion without context")
def no_place(made: Draft) -> str | None:
    """Only added lines, under a `@@` without numbers."""
    for hunk in made.hunks:
        hunk.lines = [line for line in hunk.lines if line.kind == ADDED]
        hunk.header = "@@ @@"
    return answered(made) if all(hunk.lines for hunk in made.hunks) else None


@refusal("insertion at blank lines")
def blank_place(made: Draft) -> str | None:
    """The only context is a blank line, of which there are many."""
    change = made.changes[0]
    assert change.before is not None
    if sum(not line.strip() for line in change.before.lines) < 5:
        return None
    added = [line for hunk in made.hunks for line in hunk.lines if line.kind == ADDED and line.text.strip()]
    if not added:
        return None
    made.parts[0].hunks = [Hunk(0, 0, [Line(CONTEXT, ""), *added, Line(CONTEXT, "")], header="@@ @@")]
    return answered(made)


@refusal("elision in added lines")
def elided_addition(made: Draft) -> str | None:
    """What is to come is not all there."""
    said = made.rng.choice(
        [
            "# ... existing code ...",
            "// ... rest of the method unchanged ...",
            "    # ... (rest of the function) ...",
        ]
    )
    for hunk in made.hunks:
        rows = [n for n, line in enumerate(hunk.lines) if line.kind == ADDED]
        if len(rows) >= 4:
            hunk.lines[rows[1] : rows[2]] = [Line(ADDED, said)]
            return answered(made)
    return None


@refusal("deletes and keeps")
def both(made: Draft) -> str | None:
    """The same hunk twice, with other added lines: both can't be."""
    for hunk in made.hunks:
        added = [line for line in hunk.lines if line.kind == ADDED and line.text.strip()]
        if added and any(line.kind == DELETED for line in hunk.lines):
            other = Hunk(hunk.old, hunk.new, [replace(line) for line in hunk.lines], hunk.heading)
            for line in other.lines:
                if line.kind == ADDED and line.text.strip():
                    line.text += (
                        " # variant"
                        if made.seed.language in ("Python", "Shell", "YAML", "Ruby")
                        else " // variant"
                    )
            made.parts[0].hunks = [hunk, other]
            return answered(made)
    return None


@refusal("number against heading")
def against(made: Draft) -> str | None:
    """Two equal blocks: the number names the one, the heading the other."""
    change, part = made.changes[0], made.parts[0]
    if change.before is None or len(part.hunks) != 1 or not change.before.final_newline:
        return None
    hunk = part.hunks[0]
    lines = list(change.before.lines)
    rows = [line.row for line in hunk.lines if line.row is not None]
    if len(rows) < 5 or len(lines) > 3000 or any(line.bare_end for line in hunk.lines):
        return None
    block = lines[rows[0] : rows[-1] + 1]
    if any(line[:1].isalpha() for line in block):
        return None
    tail = "\r" if lines[0].endswith("\r") else ""
    first, second = f"def alpha_section(queue):{tail}", f"def omega_section(queue):{tail}"
    change.before = replace(change.before, lines=(*lines, first, *block, second, *block))
    start = len(lines) + 1
    alone = [n for n in range(len(lines)) if lines[n : n + len(block)] == block]
    a, b, _, d = start + 1, len(block), 0, hunk.counts()[1]
    hunk.heading = shown(second)
    hunk.number(a, b, a, d)
    return answered(made) if alone else None


@refusal("indentation that can't be told")
def indentation(made: Draft) -> Case | str | None:
    """All white space at the start of lines is gone, and the added ones stood at several depths of their own."""
    for hunk in made.hunks:
        old = {
            len(line.text) - len(line.text.lstrip())
            for line in hunk.lines
            if line.kind != ADDED and line.text.strip()
        }
        new = {
            len(line.text) - len(line.text.lstrip())
            for line in hunk.lines
            if line.kind == ADDED and line.text.strip()
        }
        if len(old) < 2 or len(new - old) < 1 or len(new) < 2 or min(old) == 0:
            return None
    for hunk in made.hunks:
        for line in hunk.lines:
            line.text = line.text.lstrip()
    return answered(made) if made.seed.language in ("Python", "YAML") else None
