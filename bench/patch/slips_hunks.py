"""Slips in hunks: their context, lines, order and `@@` line, and look-alikes of their place."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise

from bench.patch.draft import Draft, heading, shown
from bench.patch.model import ADDED, CONTEXT, DELETED, Change, Hunk, Line, edited
from bench.patch.slip import HUNKS, LINES, NUMBERS, hunk_slip, in_file, slip

DRIFT = "context drift"
COMMENTS = {"Python": "#", "Ruby": "#", "Shell": "#", "YAML": "#", "TOML": "#", "Make": "#", "Perl": "#"}
ELISIONS = (
    "...",
    "... existing code ...",
    "... rest of the code ...",
    "... (unchanged) ...",
    "existing code",
)


@slip("exact", HUNKS)
def exact(draft: Draft) -> bool:
    return bool(draft.parts)


def adjacent(hunk: Hunk, number: int) -> bool:
    """Whether this line is a changed one or next to one."""
    return any(line.kind != CONTEXT for line in hunk.lines[max(0, number - 1) : number + 2])


def _old(hunk: Hunk) -> list[Line]:
    return [line for line in hunk.lines if line.kind != ADDED and line.text.strip()]


# Context that drifts


@hunk_slip("context-line-dropped", HUNKS, DRIFT, blur=3)
def dropped(draft: Draft, hunk: Hunk) -> bool:
    inner = range(1, len(hunk.lines) - 1)
    picked = [n for n in inner if hunk.lines[n].text.strip() and not adjacent(hunk, n)]
    if picked:
        del hunk.lines[draft.rng.choice(picked)]
    return bool(picked)


@hunk_slip("context-line-doubled", HUNKS, DRIFT, blur=3)
def doubled(draft: Draft, hunk: Hunk) -> bool:
    lines = enumerate(hunk.lines)
    picked = [n for n, line in lines if line.text.strip() and not line.bare_end and not adjacent(hunk, n)]
    if picked:
        number = draft.rng.choice(picked)
        hunk.lines.insert(number, replace(hunk.lines[number], row=None))
    return bool(picked)


def _altered(draft: Draft, hunk: Hunk, alter: Callable[[Draft, str], str], length: int) -> bool:
    """Alter a word of a long context line in a hunk with at least four lines of the file."""
    old = _old(hunk)
    picked = [
        line for line in old if line.kind == CONTEXT and len(line.text.split()) >= 3 and len(line.text) >= 24
    ]
    words = [match for line in picked[:1] for match in re.finditer(rf"[A-Za-z]{{{length},}}", line.text)]
    if not words or len(old) < 4:
        return False
    word = draft.rng.choice(words)
    text = picked[0].text[: word.start()] + alter(draft, word[0]) + picked[0].text[word.end() :]
    changed, picked[0].text = text != picked[0].text, text
    return changed


def _swap(draft: Draft, word: str) -> str:
    at = draft.rng.randrange(len(word) - 1)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def _other_word(draft: Draft, word: str) -> str:
    return draft.rng.choice(["value", "result", "data", "item"])


hunk_slip("context-word-changed", HUNKS, DRIFT, blur=3)(partial(_altered, alter=_other_word, length=6))
hunk_slip("context-typo", HUNKS, DRIFT, blur=3)(partial(_altered, alter=_swap, length=4))


@hunk_slip("context-comment-changed", HUNKS, DRIFT, blur=3)
def comment_changed(draft: Draft, hunk: Hunk) -> bool:
    for number, line in enumerate(hunk.lines):
        match = re.match(r"(\s*(?:#|//|\*) )(\w.{20,})$", line.text)
        if match and len(_old(hunk)) >= 4 and not adjacent(hunk, number):
            line.text = match[1] + " ".join([*match[2].split()[:-2], "as", "needed"])
            return True
    return False


@slip("context-invented-at-edge", HUNKS, "context drift edge", blur=3)
def invented(draft: Draft) -> bool:
    text = draft.rng.choice(["# end of block", "}", "    return result", "pass", "// TODO", "import os"])
    changed = False
    for part in draft.parts:
        before = part.change.before
        known = {line.strip() for line in before.lines} if before else set()
        for hunk in part.hunks:
            first, last = hunk.lines[0], hunk.lines[-1]
            if text.strip() in known or first.kind != CONTEXT or last.kind != CONTEXT or last.bare_end:
                continue
            if sum(line.kind != ADDED for line in hunk.lines) >= 4:
                changed = True
                hunk.lines.insert(0 if draft.rng.random() < 0.5 else len(hunk.lines), Line(CONTEXT, text))
    return changed


@hunk_slip("blank-line-invented", HUNKS, DRIFT, blur=3)
def blank_invented(draft: Draft, hunk: Hunk) -> bool:
    for number in range(1, len(hunk.lines) - 1):
        if hunk.lines[number].text.strip() and not adjacent(hunk, number):
            if hunk.lines[number - 1].text.strip():
                hunk.lines.insert(number, Line(CONTEXT, ""))
                return True
            return False
    return False


@hunk_slip("blank-line-dropped", HUNKS, DRIFT + " blank", blur=3)
def blank_dropped(draft: Draft, hunk: Hunk) -> bool:
    for number in range(1, len(hunk.lines) - 1):
        if not hunk.lines[number].text.strip() and not adjacent(hunk, number):
            del hunk.lines[number]
            return True
    return False


@slip("overlapping-hunks", HUNKS, "fused numbers context", blur=1)
def overlapping(draft: Draft) -> bool:
    """Each edit in a hunk of its own with three lines of context, so that neighbours overlap."""
    changed = False
    for part in draft.parts:
        change = part.change
        if not change.before or not change.after or len(change.edits) < 2:
            continue
        alone = [hunk for edit in change.edits for hunk in _built(draft, replace(change, edits=[edit])).hunks]
        ends = any(line.kind == ADDED and line.bare_end for hunk in alone for line in hunk.lines)
        if len(alone) > len(part.hunks) and not ends:
            part.hunks, changed = alone, True
    return changed


def _built(draft: Draft, change: Change) -> Draft:
    built = Draft(draft.seed, draft.rng, [change])
    built.build()
    return built


@hunk_slip("whole-function-rewritten", LINES, "pairs rewrite", blur=1)
def rewritten(draft: Draft, hunk: Hunk) -> bool:
    """Delete all lines of a hunk and add the result, unchanged lines included. If other slips altered its context, it
    deletes lines that the file lacks or skips some, and may be refused."""
    if any(line.bare_end for line in hunk.lines):
        return False
    old = [line for line in hunk.lines if line.kind != ADDED]
    together = all(two == one + 1 for one, two in pairwise(line.row for line in old if line.row is not None))
    draft.may_refuse |= not (together and all(in_file(draft, line) for line in old))
    new = [Line(ADDED, line.text) for line in hunk.lines if line.kind != DELETED]
    hunk.lines = [replace(line, kind=DELETED) for line in old] + new
    return True


# Hunks out of order, run together or cut


@slip("swapped-hunks", HUNKS, "order-of-hunks", blur=1)
def swapped(draft: Draft) -> bool:
    changed = False
    for part in draft.parts:
        before = list(part.hunks)
        draft.rng.shuffle(part.hunks)
        changed = changed or before != part.hunks
    return changed


@slip("fused-hunks", HUNKS, "fused order-of-hunks numbers context", blur=1)
def fused(draft: Draft) -> bool:
    """Two places of the file in one hunk, one directly below the other."""
    return _joined(draft, [])


@slip("elided-between", HUNKS, "fused elision order-of-hunks numbers context", blur=1)
def elided_between(draft: Draft) -> bool:
    return _joined(draft, [Line(CONTEXT, _elision(draft))])


def _joined(draft: Draft, between: list[Line]) -> bool:
    for part in draft.parts:
        for number, (one, other) in enumerate(pairwise(part.hunks)):
            if not one.lines[-1].bare_end and one.lines[-1].kind == other.lines[0].kind == CONTEXT:
                lines = [*one.lines, *between, *other.lines]
                part.hunks[number : number + 2] = [Hunk(one.old, one.new, lines, one.heading)]
                return True
    return False


def _elision(draft: Draft) -> str:
    text = draft.rng.choice(ELISIONS)
    mark = COMMENTS.get(draft.seed.language, "//")
    if text == "...":
        return draft.rng.choice(["...", f"{mark} ..."])
    return f"{mark} {text}" if "..." in text else f"{mark} ... {text} ..."


@slip("elided-context", HUNKS, "elision context numbers", blur=2)
def elided(draft: Draft) -> bool:
    """Ten lines of context, with `...` for those in the middle."""
    _context(draft, 10)
    text = _elision(draft)
    changed = False
    for hunk in draft.hunks:
        head = next((n for n, line in enumerate(hunk.lines) if line.kind != CONTEXT), 0)
        if head >= 8:
            indent = re.match(r"\s*", hunk.lines[3].text)
            hunk.lines[2 : head - 3] = [Line(CONTEXT, indent[0] + text)]
            changed = True
    return changed


@slip("long-deletion-elided", HUNKS, "elision context numbers", blur=1)
def elided_deletion(draft: Draft) -> bool:
    """A long deletion shows only its first and last lines; an applier may infer the rest or refuse."""
    text = _elision(draft)
    draft.may_refuse = True
    for hunk in draft.hunks:
        if match := re.search("-{8,}", "".join(line.kind for line in hunk.lines)):
            hunk.lines[match.start() + 3 : match.end() - 3] = [Line(DELETED, text)]
            return True
    return False


@slip("last-hunk-short", HUNKS, "edge context numbers", blur=1)
def last_short(draft: Draft) -> bool:
    """The context below the last change is missing, though the counts include it."""
    if not draft.hunks:
        return False
    hunk = draft.hunks[-1]
    size = len(hunk.lines)
    hunk.number(*hunk.numbers())
    while hunk.lines[-1].kind == CONTEXT:
        hunk.lines.pop()
    return len(hunk.lines) < size and hunk.lines[0].kind == CONTEXT


# More context, or less


def _context(draft: Draft, lines: int) -> bool:
    draft.context = lines
    draft.build()
    return bool(draft.hunks)


slip("one-line-context", HUNKS, "context", blur=1)(partial(_context, lines=1))
slip("two-lines-context", HUNKS, "context", blur=1)(partial(_context, lines=2))
slip("ten-lines-context", HUNKS, "context")(partial(_context, lines=10))


def _only_adds(hunk: Hunk) -> bool:
    return all(line.kind == ADDED for line in hunk.lines)


@slip("no-context-right-numbers", HUNKS, "numbers context")
def no_context(draft: Draft) -> bool:
    """As `git diff -U0` writes it."""
    _context(draft, 0)
    draft.may_refuse = any(_only_adds(hunk) for hunk in draft.hunks)  # no text confirms the number
    return bool(draft.hunks)


@slip("no-context-unique-deletion", HUNKS, "context", blur=1)
def no_context_unique(draft: Draft) -> bool:
    """No context and wrong numbers, but the deleted lines occur only once."""
    _context(draft, 0)
    for hunk in draft.hunks:
        _, b, _, d = hunk.numbers()
        hunk.number(1, b, 1, d)
    return bool(draft.hunks) and not any(_only_adds(hunk) for hunk in draft.hunks)


@slip("context-above-only", HUNKS, "context edge", blur=1)
def above_only(draft: Draft) -> bool:
    for hunk in draft.hunks:
        while hunk.lines[-1].kind == CONTEXT:
            hunk.lines.pop()
    return bool(draft.hunks) and all(hunk.lines[0].kind == CONTEXT for hunk in draft.hunks)


@slip("context-below-only", HUNKS, "context edge", blur=1)
def below_only(draft: Draft) -> bool:
    for hunk in draft.hunks:
        while hunk.lines[0].kind == CONTEXT:
            hunk.lines.pop(0)
            hunk.old, hunk.new = hunk.old + 1, hunk.new + 1
    return bool(draft.hunks) and all(hunk.lines[-1].kind == CONTEXT for hunk in draft.hunks)


# Diffs that build on one another


def _two(draft: Draft, *, near: bool) -> bool:
    """Split the edits of the first file into two diffs; `near`: the second shows added lines of the first."""
    change = draft.changes[0]
    draft.changes = [change]
    if not change.in_place or not change.ended or len(change.edits) < 2:
        return False
    pairs = enumerate(pairwise(change.edits), 1)
    cuts = [n for n, (one, two) in pairs if near == (bool(one.added) and two.start - one.end <= 3)]
    if not cuts:
        return False
    first, rest = change.edits[: cuts[0]], change.edits[cuts[0] :]
    shift = sum(len(edit.added) - (edit.end - edit.start) for edit in first)
    middle = replace(change.before, lines=edited(change.before.lines, first))
    later = [edit.shifted(shift) for edit in rest]
    steps = (Change(change.before, middle, first), Change(middle, change.after, later))
    draft.parts = [part for step in steps for part in _built(draft, step).parts]
    draft.parts[0].prose, draft.parts[1].prose = ["First:"], ["And then, on top of that:"]
    return True


SEQUEL = "several fence prose gaps context numbers order-of-hunks fused form"


@slip("second-diff-on-the-first", HUNKS, SEQUEL, combines=False)
def near(draft: Draft) -> bool:
    """The second diff applies only after the first."""
    draft.may_refuse = True
    return _two(draft, near=True)


@slip("second-diff-elsewhere", HUNKS, SEQUEL, combines=False)
def far(draft: Draft) -> bool:
    """The second diff has the numbers of the file after the first, but the text of the file as it is."""
    draft.blur = 1
    return _two(draft, near=False) and all(part.hunks for part in draft.parts)


# Files with a twin of the right place: the hunk or its `@@` line tells them apart

TWIN = "def twin_of_it(queue):"
NEAR = "near numbers context fused order-of-hunks edge end"


def _twin(draft: Draft, alter: Callable[[list[str]], list[str]] = list) -> Hunk | None:
    """Copy the lines of the only hunk, after `alter`, below or above it; return the hunk of the original."""
    change = draft.changes[0]
    draft.changes = [change]
    draft.build()
    if len(draft.hunks) != 1 or not change.before or not change.after or not change.before.final_newline:
        return None
    rows = [line.row for line in draft.hunks[0].lines if line.row is not None]
    lines = list(change.before.lines)
    if len(rows) < 5 or len(lines) > 3000 or not rows[0] or not lines[rows[0]] or not lines[rows[-1]]:
        return None
    block = lines[rows[0] : rows[-1] + 1]
    if any(line[:1].isalpha() for line in block) or "\n".join(block) in "\n".join(lines[rows[0] + 1 :]):
        return None
    tail = change.tail
    twin = [TWIN + tail, *(shown(line) + tail for line in alter([shown(line) for line in block])), tail]
    if draft.rng.random() < 0.5:
        at, moved = len(lines), 0
    else:
        at = next((n for n, line in enumerate(lines[: rows[0]]) if line[:1].isalpha()), 0)
        moved = len(twin)
    change.rebase((*lines[:at], *twin, *lines[at:]), [edit.shifted(moved) for edit in change.edits])
    draft.build()
    return draft.hunks[0] if len(draft.hunks) == 1 else None


@slip("twin-told-by-number", HUNKS, NEAR)
def by_number(draft: Draft) -> bool:
    """Two equal places, no heading, right numbers."""
    hunk = _twin(draft)
    if hunk is not None:
        hunk.heading = ""
        draft.may_refuse = True
    return hunk is not None


@slip("twin-told-by-heading", HUNKS, NEAR, combines=False)
def by_heading(draft: Draft) -> bool:
    """Two equal places, no numbers, the right heading."""
    hunk = _twin(draft)
    if hunk is None:
        return False
    lines = draft.changes[0].before.lines
    name = heading(draft.changes[0].before, hunk.old)
    if not name or name == TWIN or sum(line.startswith(name) for line in lines) != 1:
        return False
    hunk.header = f"@@ {name} @@"
    draft.may_refuse = True
    return True


@slip("twin-told-by-both", HUNKS, NEAR)
def by_both(draft: Draft) -> bool:
    """Two equal places; number and heading agree."""
    hunk = _twin(draft)
    return hunk is not None and hunk.heading not in ("", TWIN)


@slip("twin-number-nearly-right", HUNKS, NEAR, combines=False)
def nearly(draft: Draft) -> bool:
    """Two equal places; the number is off by one or two, but far closer to the right one."""
    hunk = _twin(draft)
    if hunk is None:
        return False
    a, b, c, d = hunk.numbers()
    off = draft.rng.choice([1, 2])
    hunk.heading = ""
    hunk.number(a + off, b, c + off, d)
    draft.may_refuse = True
    return True


def _unnumbered(hunk: Hunk | None) -> bool:
    if hunk is not None:
        hunk.header = "@@ @@"
    return hunk is not None


@slip("twin-deeper", HUNKS, NEAR, blur=1)
def deeper(draft: Draft) -> bool:
    """The other place differs only in four more spaces of indentation."""
    return _unnumbered(_twin(draft, lambda block: ["    " + line if line else line for line in block]))


@slip("twin-one-line-differs", HUNKS, NEAR, blur=1)
def one_differs(draft: Draft) -> bool:
    """The other place differs in its first line."""
    return _unnumbered(_twin(draft, lambda block: [f"{block[0]}, again", *block[1:]]))


@slip("twin-deleted-line-differs", HUNKS, NEAR, blur=1)
def deleted_differs(draft: Draft) -> bool:
    """The other place differs in the deleted lines, not in the context."""
    change = draft.changes[0]
    if not change.before or len(change.edits) != 1 or change.edits[0].start == change.edits[0].end:
        return False
    gone = {shown(line) for line in change.before.lines[change.edits[0].start : change.edits[0].end]}
    return _unnumbered(_twin(draft, lambda block: [line + "2" if line in gone else line for line in block]))


@slip("twin-punctuation-differs", HUNKS, NEAR, blur=1)
def punctuation(draft: Draft) -> bool:
    """The other place has typographic quotes."""
    quotes = str.maketrans({'"': "\u201d", "'": "\u2019"})
    has_quotes: list[bool] = []

    def alter(block: list[str]) -> list[str]:
        has_quotes.append(any('"' in line or "'" in line for line in block))
        return [line.translate(quotes) for line in block]

    return _unnumbered(_twin(draft, alter)) and has_quotes[-1]


# The `@@` line

Numbers = tuple[int, int, int, int]


def _numbered(name: str, about: str, alter: Callable[[Draft, Numbers], Numbers]) -> None:
    """Register a slip that alters the numbers of each `@@` line; at least one hunk must get wrong ones."""
    changes: dict[str, Callable[[Hunk], bool]] = {
        "counts-equal": lambda hunk: hunk.counts()[0] != hunk.counts()[1],
        "numbers-one": lambda hunk: hunk.old > 5,
        "old-numbers-for-new": lambda hunk: hunk.old != hunk.new,
    }

    @hunk_slip(name, NUMBERS, about, blur=int(name != "old-numbers-for-new"))
    def do(draft: Draft, hunk: Hunk) -> bool:
        hunk.number(*alter(draft, hunk.numbers()))
        return changes.get(name, lambda hunk: True)(hunk)


def _off(draft: Draft, numbers: Numbers) -> Numbers:
    a, b, c, d = numbers
    off = draft.rng.choice([-1, 1]) * draft.rng.choice([1, 2, 7, 40, 300])
    return max(1, a + off), b, max(1, c + off + draft.rng.choice([0, 0, 3])), d


def _miscounted(draft: Draft, numbers: Numbers, by: tuple[int, ...]) -> Numbers:
    a, b, c, d = numbers
    return a, max(0, b + draft.rng.choice(by)), c, max(0, d + draft.rng.choice(by))


_numbered("wrong-numbers", "numbers", _off)
_numbered("wrong-counts", "numbers", partial(_miscounted, by=(-2, -1, 1, 2, 5)))
_numbered("counts-too-small", "numbers", partial(_miscounted, by=(-3, -2, -1)))
_numbered("counts-too-large", "numbers", partial(_miscounted, by=(1, 2, 3, 12)))
_numbered("counts-equal", "numbers", lambda _, n: (n[0], n[1], n[0], n[1]))
_numbered("numbers-one", "numbers", lambda _, n: (1, n[1], 1, n[3]))
# the start on the new side ignores the hunks above; the one on the old side is right
_numbered("old-numbers-for-new", "numbers", lambda _, n: (n[0], n[1], n[0], n[3]))


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


@slip("same-numbers", NUMBERS, "numbers", blur=1)
def same_numbers(draft: Draft) -> bool:
    for part in draft.parts:
        for hunk in part.hunks:
            hunk.number(*part.hunks[0].numbers())
    return any(len(part.hunks) > 1 for part in draft.parts)


@slip("no-hunk-line", NUMBERS, "numbers", blur=1)
def no_hunk_line(draft: Draft) -> bool:
    for part in draft.parts:
        for hunk in part.hunks[:1]:
            hunk.header = None
    return bool(draft.hunks) and all(len(part.hunks) == 1 for part in draft.parts)


@slip("wrong-heading", NUMBERS, "numbers heading")
def wrong_heading(draft: Draft) -> bool:
    """Right numbers and text; the heading is a random line of the file."""
    for part in draft.parts:
        before = part.change.before
        names = [line for line in before.lines if line[:1].isalpha() and len(line) < 70] if before else []
        for hunk in part.hunks:
            if names:
                hunk.heading = draft.rng.choice(names).strip()
    draft.blur = max(draft.blur, 1)  # a wrong heading is harmless only if the text tells the place
    return any(hunk.heading for hunk in draft.hunks)


@slip("heading-far", NUMBERS, "numbers heading")
def heading_far(draft: Draft) -> bool:
    """A heading that is no line of the file."""
    text = draft.rng.choice(["imports", "near the top of the file", "(around line 40)", "main loop"])
    for hunk in draft.hunks:
        hunk.heading = text
    draft.blur = max(draft.blur, 1)
    return bool(draft.hunks)
