"""Slips in `@@` lines."""

from __future__ import annotations

from bench.patch.draft import Draft
from bench.patch.model import ADDED, Hunk
from bench.patch.slip import HUNKS, NUMBERS, slip


@slip("exact", HUNKS)
def exact(draft: Draft) -> bool:
    return bool(draft.parts)


@slip("wrong-numbers", NUMBERS, "numbers", blur=1)
def wrong_numbers(draft: Draft) -> bool:
    for hunk in draft.hunks:
        a, b, c, d = hunk.numbers()
        off = draft.rng.choice([-1, 1]) * draft.rng.choice([1, 2, 7, 40, 300])
        hunk.number(max(1, a + off), b, max(1, c + off + draft.rng.choice([0, 0, 3])), d)
    return bool(draft.hunks)


@slip("missing-numbers", NUMBERS, "numbers", blur=1)
def missing_numbers(draft: Draft) -> bool:
    form = draft.rng.choice(["@@", "@@ @@", "@@ ... @@", "@@ -,+ @@", "@@ -?,? +?,? @@", "@@ -... +... @@"])
    for hunk in draft.hunks:
        hunk.header = form
    return bool(draft.hunks)


@slip("heading-only", NUMBERS, "numbers", blur=1)
def heading_only(draft: Draft) -> bool:
    form = draft.rng.choice(["@@ {} @@", "@@ {}", "@@ ... @@ {}", "@@ -0,0 +0,0 @@ {}"])
    for hunk in draft.hunks:
        hunk.header = form.format(hunk.heading.strip()) if hunk.heading.strip() else "@@ @@"
    return any(hunk.heading for hunk in draft.hunks)


@slip("wrong-counts", NUMBERS, "numbers", blur=1)
def wrong_counts(draft: Draft) -> bool:
    return _counts(draft, (-2, -1, 1, 2, 5))


@slip("counts-too-small", NUMBERS, "numbers", blur=1)
def counts_too_small(draft: Draft) -> bool:
    return _counts(draft, (-3, -2, -1))


@slip("counts-too-large", NUMBERS, "numbers", blur=1)
def counts_too_large(draft: Draft) -> bool:
    return _counts(draft, (1, 2, 3, 12))


def _counts(draft: Draft, by: tuple[int, ...]) -> bool:
    for hunk in draft.hunks:
        a, b, c, d = hunk.numbers()
        hunk.number(a, max(0, b + draft.rng.choice(by)), c, max(0, d + draft.rng.choice(by)))
    return bool(draft.hunks)


@slip("counts-equal", NUMBERS, "numbers", blur=1)
def counts_equal(draft: Draft) -> bool:
    """The new side said to be as the old one."""
    for hunk in draft.hunks:
        a, b, _, _ = hunk.numbers()
        hunk.number(a, b, a, b)
    return any(hunk.counts()[0] != hunk.counts()[1] for hunk in draft.hunks)


@slip("same-numbers", NUMBERS, "numbers", blur=1)
def same_numbers(draft: Draft) -> bool:
    """All hunks with the numbers of the first."""
    for part in draft.parts:
        for hunk in part.hunks:
            hunk.number(*part.hunks[0].numbers())
    return any(len(part.hunks) > 1 for part in draft.parts)


@slip("numbers-one", NUMBERS, "numbers", blur=1)
def numbers_one(draft: Draft) -> bool:
    for hunk in draft.hunks:
        _, b, _, d = hunk.numbers()
        hunk.number(1, b, 1, d)
    return any(hunk.old > 5 for hunk in draft.hunks)


@slip("old-numbers-for-new", NUMBERS, "numbers")
def no_shift(draft: Draft) -> bool:
    """The new side's start forgets what the hunks above added: the old side's is right."""
    for hunk in draft.hunks:
        a, b, _, d = hunk.numbers()
        hunk.number(a, b, a, d)
    return any(hunk.old != hunk.new for hunk in draft.hunks)


@slip("no-hunk-line", NUMBERS, "numbers", blur=1)
def no_hunk_line(draft: Draft) -> bool:
    for part in draft.parts:
        for hunk in part.hunks[:1]:
            hunk.header = None
    return bool(draft.hunks) and all(len(part.hunks) == 1 for part in draft.parts)


@slip("wrong-heading", NUMBERS, "numbers heading")
def wrong_heading(draft: Draft) -> bool:
    """Right numbers and text; after them the name of another function."""
    for part in draft.parts:
        before = part.change.before
        names = [line for line in before.lines if line[:1].isalpha() and len(line) < 70] if before else []
        for hunk in part.hunks:
            if names:
                hunk.heading = draft.rng.choice(names).strip()
    return any(hunk.heading for hunk in draft.hunks) and unique(draft)


def unique(draft: Draft) -> bool:
    """A wrong heading may tell nothing only where the text itself tells the place."""
    draft.blur = max(draft.blur, 1)
    return True


@slip("heading-far", NUMBERS, "numbers heading")
def heading_far(draft: Draft) -> bool:
    """Text after the `@@` that is no line of the file."""
    said = draft.rng.choice(["imports", "near the top of the file", "(around line 40)", "main loop"])
    for hunk in draft.hunks:
        hunk.heading = said
    return bool(draft.hunks) and unique(draft)


@slip("no-context-right-numbers", HUNKS, "numbers context")
def no_context(draft: Draft) -> bool:
    """As `git diff -U0`."""
    draft.context = 0
    draft.build()
    draft.may_refuse = any(_only_adds(hunk) for hunk in draft.hunks)  # nothing confirms the number
    return bool(draft.hunks)


@slip("no-context-unique-deletion", HUNKS, "context", blur=1)
def no_context_unique(draft: Draft) -> bool:
    """No context and wrong numbers, but deleted lines that stand there once."""
    draft.context = 0
    draft.build()
    for hunk in draft.hunks:
        _, b, _, d = hunk.numbers()
        hunk.number(1, b, 1, d)
    return bool(draft.hunks) and not any(_only_adds(hunk) for hunk in draft.hunks)


@slip("one-line-context", HUNKS, "context", blur=1)
def one_line(draft: Draft) -> bool:
    return _context(draft, 1)


@slip("two-lines-context", HUNKS, "context", blur=1)
def two_lines(draft: Draft) -> bool:
    return _context(draft, 2)


@slip("ten-lines-context", HUNKS, "context")
def ten_lines(draft: Draft) -> bool:
    return _context(draft, 10)


@slip("context-above-only", HUNKS, "context edge", blur=1)
def above_only(draft: Draft) -> bool:
    for hunk in draft.hunks:
        while hunk.lines[-1].kind == " ":
            hunk.lines.pop()
    return bool(draft.hunks) and all(hunk.lines[0].kind == " " for hunk in draft.hunks)


@slip("context-below-only", HUNKS, "context edge", blur=1)
def below_only(draft: Draft) -> bool:
    for hunk in draft.hunks:
        while hunk.lines[0].kind == " ":
            hunk.lines.pop(0)
            hunk.old, hunk.new = hunk.old + 1, hunk.new + 1
    return bool(draft.hunks) and all(hunk.lines[-1].kind == " " for hunk in draft.hunks)


def _context(draft: Draft, lines: int) -> bool:
    draft.context = lines
    draft.build()
    return bool(draft.hunks)


def _only_adds(hunk: Hunk) -> bool:
    return all(line.kind == ADDED for line in hunk.lines)
