"""Slips in what a hunk holds: lines left out, invented or run together, hunks out of order."""

from __future__ import annotations

import re

from bench.patch.draft import Draft
from bench.patch.model import CONTEXT, Hunk, Line
from bench.patch.slip import HUNKS, slip

COMMENTS = {"Python": "#", "Ruby": "#", "Shell": "#", "YAML": "#", "TOML": "#", "Make": "#", "Perl": "#"}
SAID = ("...", "... existing code ...", "... rest of the code ...", "... (unchanged) ...", "existing code")


@slip("swapped-hunks", HUNKS, "order-of-hunks", blur=1)
def swapped(draft: Draft) -> bool:
    """The hunks of a file out of order."""
    found = False
    for part in draft.parts:
        before = list(part.hunks)
        draft.rng.shuffle(part.hunks)
        found = found or before != part.hunks
    return found


@slip("fused-hunks", HUNKS, "fused order-of-hunks numbers context", blur=1)
def fused(draft: Draft) -> bool:
    """Two places of the file in one hunk, one below the other."""
    return _joined(draft, lambda hunk: [])


@slip("elided-between", HUNKS, "fused elision order-of-hunks numbers context", blur=1)
def elided_between(draft: Draft) -> bool:
    """Two places in one hunk, with `...` between them."""
    said = _elision(draft)
    return _joined(draft, lambda hunk: [Line(CONTEXT, said)])


def _joined(draft: Draft, between: object) -> bool:
    assert callable(between)
    for part in draft.parts:
        for number, (one, other) in enumerate(zip(part.hunks, part.hunks[1:], strict=False)):
            if not one.lines[-1].bare_end and one.lines[-1].kind == other.lines[0].kind == CONTEXT:
                joined = Hunk(one.old, one.new, [*one.lines, *between(one), *other.lines], one.heading)
                part.hunks[number : number + 2] = [joined]
                return True
    return False


def _elision(draft: Draft) -> str:
    said = draft.rng.choice(SAID)
    mark = COMMENTS.get(draft.seed.language, "//")
    if said == "...":
        return draft.rng.choice(["...", f"{mark} ..."])
    return f"{mark} {said}" if "..." in said else f"{mark} ... {said} ..."


@slip("elided-context", HUNKS, "elision context numbers", blur=2)
def elided(draft: Draft) -> bool:
    """Ten lines of context, the middle of which has become `...`."""
    draft.context = 10
    draft.build()
    said = _elision(draft)
    found = False
    for hunk in draft.hunks:
        head = next((n for n, line in enumerate(hunk.lines) if line.kind != CONTEXT), 0)
        if head >= 8:
            indent = re.match(r"\s*", hunk.lines[3].text)
            hunk.lines[2 : head - 3] = [Line(CONTEXT, (indent[0] if indent else "") + said)]
            found = True
    return found


@slip("long-deletion-elided", HUNKS, "elision context numbers", blur=1)
def elided_deletion(draft: Draft) -> bool:
    """A long deletion of which only the first and last lines are shown. What goes can be told, but need not be."""
    said = _elision(draft)
    draft.may_refuse = True
    for hunk in draft.hunks:
        kinds = "".join(line.kind for line in hunk.lines)
        match = re.search("-{8,}", kinds)
        if match:
            hunk.lines[match.start() + 3 : match.end() - 3] = [Line("-", said)]
            return True
    return False


@slip("last-hunk-short", HUNKS, "edge context numbers", blur=1)
def last_short(draft: Draft) -> bool:
    """The context below the last change is missing, the counts speak of it."""
    if not draft.hunks:
        return False
    hunk = draft.hunks[-1]
    numbers = hunk.numbers()
    trailing = 0
    while hunk.lines[-1].kind == CONTEXT:
        hunk.lines.pop()
        trailing += 1
    hunk.number(*numbers)
    return trailing > 0 and hunk.lines[0].kind == CONTEXT
