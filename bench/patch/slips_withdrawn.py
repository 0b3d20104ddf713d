"""Answers that take back a first diff, whatever stands in it and wherever; and answers whose words keep it."""

from __future__ import annotations

import re
from random import Random

from bench.patch.draft import Block, Draft, shown
from bench.patch.model import ADDED, CONTEXT, DELETED, Hunk, Line, Part
from bench.patch.slip import BLOCKS, RAW, slip

OPENINGS = (
    "",
    "Hmm. ",
    "Wait. ",
    "Sorry, ",
    "No, ",
    "Looking at it again: ",
    "Oh, ",
    "Wait, wait: ",
    "Actually: ",
)
TAKEN_BACK = (
    "scratch that", "ignore the {doc} above", "please disregard the previous {doc}", "forget about the first {doc}",
    "the {doc} above is wrong", "that {doc} was incorrect", "don't apply the {doc} above", "I take that back",
    "discard the earlier {doc}", "my previous {doc} was a mistake", "this supersedes the {doc} above",
    "this replaces the {doc} above", "the above is not correct", "please do not use the {doc} above",
    "the first {doc} must be ignored", "never mind the {doc} above", "what follows replaces the earlier {doc}",
)  # fmt: skip
CLOSINGS = (
    ":", ". Use this instead:", ". The correct {doc}:", ". Here it is again:", " and apply this one instead:",
    ".\n\n## Corrected {doc}",
    ". Here is what I meant:", ", it would fail if the list is empty. Instead:", ". It should be done like this:",
)  # fmt: skip
UNCLEAR = (
    "Wait, let me reconsider.", "Oops.", "Correction:", "Actually, this is better:", "On second thought:",
    "Let me redo that:",
    "Hmm, that's not quite right. Better:", "Second attempt:", "I made a mistake, sorry:", "Final version:",
    "My mistake:",
    "Let me fix that:", "Here's an improved version:",
)  # fmt: skip
PARTS = (
    "Next:", "And in the same file:", "Second part:", "Step 2:", "Then:", "This does not replace the {doc} above:",
    "In addition to the above:", "Further down:", "The other place:", "Also needed:", "Wait, there is one more place:",
    "Oops, I forgot this one:", "The same again here:", "", "Now the rest, instead of a second answer:", "Finally:",
    "Keep the {doc} above, and add this:", "The {doc} above is not enough alone:",
)  # fmt: skip
FAR = 15  # rows between a decoy and what is really changed


def spoken(rng: Random, *choices: tuple[str, ...]) -> str:
    text = "".join(rng.choice(some) for some in choices).format(doc=rng.choice(("patch", "diff")))
    return text[:1].upper() + text[1:]


def decoy(draft: Draft, part: Part) -> Hunk | None:
    """A hunk that fits at one place of the file, far from all edits."""
    file = part.change.before
    if file is None or not part.change.after or part.change.moved or part.change.copy:
        return None
    edits = part.change.edits
    rows = [
        row
        for row in range(2, len(file.lines) - 3)
        if len(file.lines[row].strip()) > 8
        and file.lines.count(file.lines[row]) == 1
        and all(row + FAR < edit.start or row - FAR > edit.end for edit in edits)
    ]
    if not rows or len(file.lines) > 3000:
        return None
    row = draft.rng.choice(rows)
    lines = [Line(CONTEXT, shown(file.lines[at]), at) for at in (row - 2, row - 1)]
    lines += [
        Line(DELETED, shown(file.lines[row]), row),
        Line(ADDED, shown(file.lines[row]).rstrip() + " decoy"),
    ]
    lines += [Line(CONTEXT, shown(file.lines[at]), at) for at in (row + 1, row + 2)]
    return Hunk(row - 2, row - 2, lines)


def decoys(draft: Draft) -> list[Part] | None:
    """A diff with a decoy for each file."""
    found = []
    for part in draft.parts:
        hunk = decoy(draft, part)
        if hunk is None or not part.hunks:
            return None
        path = part.change.path
        found.append(Part(part.change, [hunk], [f"--- a/{path}", f"+++ b/{path}"]))
    return found


def written(parts: list[Part]) -> list[str]:
    return [text for part in parts for text in part.written()]


def begun_again(draft: Draft, first: list[Part] | None, words: str) -> bool:
    if first is None:
        return False
    draft.blocks = [Block(draft.intro, written(first)), Block(words, written(draft.parts))]
    return True


ABOUT = "fence prose several form numbered wrap end-of-answer"


@slip("withdrawn-elsewhere", BLOCKS, ABOUT)
def elsewhere(draft: Draft) -> bool:
    """The first diff changes other lines."""
    return begun_again(draft, decoys(draft), spoken(draft.rng, OPENINGS, TAKEN_BACK, CLOSINGS))


@slip("withdrawn-with-more", BLOCKS, ABOUT)
def more(draft: Draft) -> bool:
    """The first diff has all hunks of the second, and one that is taken back."""
    first = decoys(draft)
    if first is None:
        return False
    for part, other in zip(draft.parts, first, strict=True):
        other.head = part.head
        other.hunks = sorted([*part.hunks, *other.hunks], key=lambda hunk: hunk.old)
    return begun_again(draft, first, spoken(draft.rng, OPENINGS, TAKEN_BACK, CLOSINGS))


@slip("withdrawn-that-does-not-fit", BLOCKS, ABOUT)
def misfit(draft: Draft) -> bool:
    """The first diff is for lines that no file has."""
    first = decoys(draft)
    for part in first or []:
        for line in part.hunks[0].lines:
            line.text = f"{line.text} nowhere {draft.rng.randrange(10**6)}"
    return begun_again(draft, first, spoken(draft.rng, OPENINGS, TAKEN_BACK, CLOSINGS))


@slip("withdrawn-twice", BLOCKS, ABOUT)
def twice(draft: Draft) -> bool:
    second = decoys(draft)
    if second is None or not elsewhere(draft):
        return False
    draft.blocks.insert(1, Block(spoken(draft.rng, OPENINGS, TAKEN_BACK, CLOSINGS), written(second)))
    return True


@slip("withdrawn-in-the-fence", BLOCKS, ABOUT)
def in_fence(draft: Draft) -> bool:
    """Both diffs in one fence, with the words as a comment between."""
    first = decoys(draft)
    if first is None or len(draft.blocks) != 1 or not written(draft.parts)[0].startswith(("---", "diff")):
        return False
    words = spoken(draft.rng, OPENINGS, TAKEN_BACK, (":", ". Use this instead:"))
    draft.blocks[0].lines = [
        *written(first),
        f"{draft.rng.choice(('#', '//'))} {words}",
        *written(draft.parts),
    ]
    return True


@slip("withdrawn-by-the-last-words", BLOCKS, ABOUT)
def afterwards(draft: Draft) -> bool:
    last = (
        "Please ignore the first diff.",
        "Use the second one.",
        "The first patch is wrong, ignore it.",
        "Only apply the last diff.",
    )
    draft.outro = draft.rng.choice(last)
    return begun_again(draft, decoys(draft), draft.rng.choice(("", "Then:")))


@slip("withdrawn-as-a-thought", BLOCKS, ABOUT)
def thought(draft: Draft) -> bool:
    if not begun_again(draft, decoys(draft), "</think>\n\nHere is the change:"):
        return False
    draft.blocks[0].prose = "<think>\nPerhaps like this:"
    return True


@slip("parts-with-words", BLOCKS, ABOUT)
def parts(draft: Draft) -> bool:
    """Each hunk in a fence of its own; the words between take nothing back."""
    if len(draft.hunks) < 2 or not all(part.change.before and part.change.after for part in draft.parts):
        return False
    draft.blocks = [
        Block(spoken(draft.rng, PARTS), [*part.head, *hunk.written()])
        for part in draft.parts
        for hunk in part.hunks
    ]
    draft.blocks[0].prose = draft.intro
    return True


@slip("fence-lines-without-space", RAW, "fence numbers wrap edge counts bare")
def bare_fences(draft: Draft) -> bool:
    """Lines of context that are fences have lost their first column; the counts are right."""
    found = False
    for hunk in draft.hunks:
        for line in hunk.lines:
            if line.kind == CONTEXT and re.match(r"```\w*$", line.text) and not line.bare_end:
                line.raw, found = line.text, True
        hunk.number(*hunk.numbers())
    draft.may_refuse = True
    return found


@slip("fence-lines-without-space-miscounted", RAW, "fence numbers wrap edge counts bare")
def bare_fences_miscounted(draft: Draft) -> bool:
    if not bare_fences(draft):
        return False
    for hunk in draft.hunks:
        hunk.header = draft.rng.choice(("@@", "@@ -{0},{1} +{0},{2} @@")).format(
            hunk.old + 1,
            hunk.counts()[0] + draft.rng.randrange(1, 4),
            hunk.counts()[1] + draft.rng.randrange(1, 4),
        )
    return True
