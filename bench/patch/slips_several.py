"""Answers with several diffs, or with code that is no diff: repeated, withdrawn, corrected, in pieces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random

from bench.patch.draft import Block, Draft, shown
from bench.patch.model import ADDED, CONTEXT, DELETED, Hunk, Line, Part
from bench.patch.slip import BLOCKS, NAMES, RAW, slip

AGAIN = (
    "Wait, let me reconsider. That misses a case. Here is the corrected diff:",
    "Actually, that isn't quite right. Corrected version:",
    "Hmm, looking again, the above would break the tests. The final patch:", "On second thought, use this instead:",
    "Correction:", "Let me fix the diff above:",
)  # fmt: skip
OPENINGS = (
    "", "Hmm. ", "Wait. ", "Sorry, ", "No, ", "Looking at it again: ", "Oh, ", "Wait, wait: ", "Actually: ",
)  # fmt: skip
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
LAST = (
    "Please ignore the first diff.", "Use the second one.", "The first patch is wrong, ignore it.",
    "Only apply the last diff.",
)  # fmt: skip
PARTS = (
    "Next:", "And in the same file:", "Second part:", "Step 2:", "Then:", "This does not replace the {doc} above:",
    "In addition to the above:", "Further down:", "The other place:", "Also needed:", "Wait, there is one more place:",
    "Oops, I forgot this one:", "The same again here:", "", "Now the rest, instead of a second answer:", "Finally:",
    "Keep the {doc} above, and add this:", "The {doc} above is not enough alone:",
)  # fmt: skip
EXAMPLES = (
    ["make test"], ["import app", "", "app.run(...)"], ['{"key": "value"}'], ["$ git diff", "+1 -1"],
)  # fmt: skip
EDITED = "fence prose several form numbered wrap"
CODE = "prose several form fence"
WITHDRAWN = "fence prose several form numbered wrap end-of-answer"
FAR = 15  # rows between a decoy and any edit


def _plain(draft: Draft) -> bool:
    return all(part.change.before and part.change.after and part.hunks for part in draft.parts)


def written(parts: Sequence[Part]) -> list[str]:
    return [text for part in parts for text in part.written()]


# A first attempt, then the diff that counts


def _worse(part: Part, ending: str) -> Part | None:
    """The same diff with `ending` after each added line, as a first attempt; None if a hunk adds nothing."""
    hunks = [replace(hunk, lines=[replace(line) for line in hunk.lines]) for hunk in part.hunks]
    for hunk in hunks:
        added = [line for line in hunk.lines if line.kind == ADDED and line.text.strip()]
        for line in added:
            line.text, line.raw = line.text.rstrip() + ending, None
        if not added:
            return None
    return replace(part, hunks=hunks)


@slip("reconsidered", BLOCKS, EDITED)
def reconsidered(draft: Draft) -> bool:
    """A first attempt at every file, then the diff that counts."""
    if not _plain(draft):
        return False
    tries = [_worse(part, "  # first try") for part in draft.parts]
    if any(not any(_adds(hunk) for hunk in part.hunks) for part in draft.parts):
        return False
    words = draft.rng.choice(AGAIN)
    first = written([part for part in tries if part])
    draft.blocks = [Block(draft.intro, first), Block(words, written(draft.parts))]
    return all(tries)


def _adds(hunk: Hunk) -> bool:
    return any(line.kind == ADDED and line.text.strip() for line in hunk.lines)


@slip("reconsidered-unfenced", BLOCKS, EDITED)
def reconsidered_unfenced(draft: Draft) -> bool:
    draft.marks = ("", "")
    return reconsidered(draft)


@slip("reconsidered-other-context", BLOCKS, EDITED + " context drift edge fused", blur=1)
def reconsidered_context(draft: Draft) -> bool:
    """The second diff shows the same places with less context."""
    if not reconsidered(draft):
        return False
    for hunk in draft.hunks:
        for end, inner in ((0, 1), (-1, -2)):
            if len(hunk.lines) > 5 and hunk.lines[end].kind == hunk.lines[inner].kind == CONTEXT:
                hunk.lines.pop(end)
                hunk.old, hunk.new = hunk.old + (end == 0), hunk.new + (end == 0)
        hunk.header = ""
    draft.blocks[1].lines = written(draft.parts)
    return True


@slip("reconsidered-thrice", BLOCKS, EDITED)
def thrice(draft: Draft) -> bool:
    if not reconsidered(draft):
        return False
    second = [_worse(part, "  # second try") for part in draft.parts]
    draft.blocks.insert(1, Block(AGAIN[1], written([part for part in second if part])))
    return True


@slip("reconsidered-one-hunk", BLOCKS, EDITED)
def one_hunk(draft: Draft) -> bool:
    """The second diff corrects one hunk of the first and omits the others."""
    part = draft.parts[0]
    if not _plain(draft) or len(part.hunks) < 2 or len(draft.parts) > 1:
        return False
    number = draft.rng.randrange(len(part.hunks))
    right = replace(part, hunks=[part.hunks[number]])
    worse = _worse(right, "  # first try")
    if worse is None:
        return False
    draft.may_refuse = True
    first = replace(part, hunks=[*part.hunks[:number], *worse.hunks, *part.hunks[number + 1 :]])
    draft.blocks = [
        Block(draft.intro, written([first])), Block("One correction, the rest stays:", written([right]))
    ]  # fmt: skip
    return True


# The same again, and in pieces


@slip("shown-twice", BLOCKS, EDITED)
def shown_twice(draft: Draft) -> bool:
    lines = written(draft.parts)
    draft.blocks = [Block(draft.intro, lines), Block("The full diff again, to copy:", list(lines))]
    return _plain(draft)


@slip("repeated-hunk", RAW, "gaps several rewrite")
def repeated(draft: Draft) -> bool:
    part = draft.rng.choice(draft.parts)
    if not part.hunks or not part.change.before or not part.change.after:
        return False
    hunk = draft.rng.choice(part.hunks)
    if not any(line.kind == DELETED for line in hunk.lines):
        return False
    part.hunks.append(replace(hunk, lines=[replace(line) for line in hunk.lines]))
    draft.may_refuse = draft.may_refuse or hunk.header is None  # nothing marks the start of the copy
    return True


@slip("piece-by-piece-then-whole", BLOCKS, EDITED)
def pieces_then_whole(draft: Draft) -> bool:
    if not _plain(draft) or len(draft.hunks) < 2:
        return False
    draft.blocks = [
        Block(f"Change {number + 1}:", [*part.head, *hunk.written()])
        for part in draft.parts
        for number, hunk in enumerate(part.hunks)
    ]
    draft.blocks.append(Block("All together:", written(draft.parts)))
    return True


@slip("a-diff-for-each-hunk", NAMES, EDITED + " gaps")
def each_hunk(draft: Draft) -> bool:
    """A diff for each hunk, with its own file names and fence."""
    if not _plain(draft) or len(draft.hunks) < 2:
        return False
    draft.parts = [
        replace(part, hunks=[hunk], prose=[f"Step {number + 1}:"])
        for part in draft.parts
        for number, hunk in enumerate(part.hunks)
    ]
    return True


@slip("a-diff-for-each-hunk-shuffled", NAMES, EDITED + " gaps order-of-hunks", blur=1)
def each_hunk_shuffled(draft: Draft) -> bool:
    if not each_hunk(draft):
        return False
    draft.rng.shuffle(draft.parts)
    return True


@slip("hunks-in-fences-names-once", BLOCKS, EDITED + " gaps")
def fences_once(draft: Draft) -> bool:
    if not _plain(draft) or len(draft.parts) > 1 or len(draft.hunks) < 2:
        return False
    draft.blocks = [Block("and further down", hunk.written()) for hunk in draft.hunks]
    draft.blocks[0] = Block(draft.intro, [*draft.parts[0].head, *draft.hunks[0].written()])
    return True


@slip("parts-with-words", BLOCKS, WITHDRAWN)
def parts(draft: Draft) -> bool:
    """Each hunk in a fence of its own; the words between withdraw nothing. Not for a mere rename, which has no hunk."""
    if len(draft.hunks) < 2 or not all(
        part.hunks and part.change.before and part.change.after for part in draft.parts
    ):
        return False
    draft.blocks = [
        Block(spoken(draft.rng, PARTS), [*part.head, *hunk.written()])
        for part in draft.parts
        for hunk in part.hunks
    ]
    draft.blocks[0].prose = draft.intro
    return True


# Code that is no diff


def _quoted(draft: Draft, *, new: bool) -> bool:
    """The current code in a fence above the diff or, if `new`, the resulting code in one below it."""
    hunk = draft.hunks[0] if draft.hunks else None
    if hunk is None or not _plain(draft):
        return False
    lines = [line.text for line in hunk.lines if line.kind != (DELETED if new else ADDED)]
    if any(line.lstrip().startswith(("```", "---", "+++", "@@")) for line in lines):
        return False
    info = draft.seed.language.lower().split(" ")[0] if draft.seed.language.isalpha() else ""
    path = draft.parts[0].change.path
    if new:
        draft.blocks.append(Block(f"After that, `{path}` has:", lines, info))
    else:
        draft.blocks[0].prose = "so the fix is"
        draft.blocks.insert(0, Block(f"At present `{path}` has this:", lines, info))
    return True


slip("code-quoted-before", BLOCKS, CODE)(partial(_quoted, new=False))
slip("result-shown-after", BLOCKS, CODE + " end-of-answer")(partial(_quoted, new=True))


@slip("usage-example-after", BLOCKS, CODE + " end-of-answer")
def usage(draft: Draft) -> bool:
    example = list(draft.rng.choice(EXAMPLES))
    info = draft.rng.choice(["", "sh", "python", "json"])
    draft.blocks.append(Block("You can try it like this:", example, info))
    return True


@slip("commands-before", BLOCKS, CODE)
def commands(draft: Draft) -> bool:
    draft.blocks[0].prose = "then apply"
    draft.blocks.insert(0, Block("First look at it:", ["git log -3 --oneline", "grep -rn 'TODO' ."], "bash"))
    return True


# A first diff that is withdrawn, whatever it changes


def spoken(rng: Random, *choices: tuple[str, ...]) -> str:
    text = "".join(rng.choice(some) for some in choices).format(doc=rng.choice(("patch", "diff")))
    return text[:1].upper() + text[1:]


def _decoy(draft: Draft, part: Part) -> Hunk | None:
    """A hunk that fits at one place of the file only, far from all edits."""
    change = part.change
    if change.before is None or not change.after or change.moved or change.copy:
        return None
    lines = change.before.lines
    rows = [
        row
        for row in range(2, len(lines) - 3)
        if len(lines[row].strip()) > 8
        and lines.count(lines[row]) == 1
        and all(row + FAR < edit.start or row - FAR > edit.end for edit in change.edits)
    ]
    if not rows or len(lines) > 3000:
        return None
    row = draft.rng.choice(rows)
    around = [Line(CONTEXT, shown(lines[at]), at) for at in range(row - 2, row + 3)]
    text = shown(lines[row])
    around[2:3] = [Line(DELETED, text, row), Line(ADDED, text.rstrip() + " decoy")]
    return Hunk(row - 2, row - 2, around)


def decoys(draft: Draft) -> list[Part] | None:
    """A diff with a decoy for each file, or None if one of them allows none."""
    diffs = []
    for part in draft.parts:
        hunk = _decoy(draft, part)
        if hunk is None or not part.hunks:
            return None
        path = part.change.path
        diffs.append(Part(part.change, [hunk], [f"--- a/{path}", f"+++ b/{path}"]))
    return diffs


def with_first_diff(draft: Draft, first: list[Part] | None, words: str | None = None) -> bool:
    """Write another diff, then words (by default, ones that withdraw it), then the diff that counts."""
    if words is None:
        words = spoken(draft.rng, OPENINGS, TAKEN_BACK, CLOSINGS)
    if first is None:
        return False
    draft.blocks = [Block(draft.intro, written(first)), Block(words, written(draft.parts))]
    return True


@slip("withdrawn-elsewhere", BLOCKS, WITHDRAWN)
def elsewhere(draft: Draft) -> bool:
    return with_first_diff(draft, decoys(draft))


@slip("withdrawn-with-more", BLOCKS, WITHDRAWN)
def more(draft: Draft) -> bool:
    """The first diff has all hunks of the second and a decoy."""
    first = decoys(draft)
    if first is None:
        return False
    for part, other in zip(draft.parts, first, strict=True):
        other.head = part.head
        other.hunks = sorted([*part.hunks, *other.hunks], key=lambda hunk: hunk.old)
    return with_first_diff(draft, first)


@slip("withdrawn-that-does-not-fit", BLOCKS, WITHDRAWN)
def misfit(draft: Draft) -> bool:
    first = decoys(draft)
    for line in (line for part in first or [] for line in part.hunks[0].lines):
        line.text = f"{line.text} nowhere {draft.rng.randrange(10**6)}"
    return with_first_diff(draft, first)


@slip("withdrawn-twice", BLOCKS, WITHDRAWN)
def twice(draft: Draft) -> bool:
    second = decoys(draft)
    if second is None or not elsewhere(draft):
        return False
    draft.blocks.insert(1, Block(spoken(draft.rng, OPENINGS, TAKEN_BACK, CLOSINGS), written(second)))
    return True


@slip("withdrawn-in-the-fence", BLOCKS, WITHDRAWN)
def in_fence(draft: Draft) -> bool:
    """Both diffs in one fence, with the words between them as a comment."""
    first, own = decoys(draft), written(draft.parts)
    if first is None or len(draft.blocks) != 1 or not own[0].startswith(("---", "diff")):
        return False
    words = spoken(draft.rng, OPENINGS, TAKEN_BACK, (":", ". Use this instead:"))
    draft.blocks[0].lines = [*written(first), f"{draft.rng.choice(('#', '//'))} {words}", *own]
    return True


@slip("withdrawn-by-the-last-words", BLOCKS, WITHDRAWN)
def afterwards(draft: Draft) -> bool:
    draft.outro = draft.rng.choice(LAST)
    return with_first_diff(draft, decoys(draft), draft.rng.choice(("", "Then:")))


@slip("withdrawn-as-a-thought", BLOCKS, WITHDRAWN)
def thought(draft: Draft) -> bool:
    if not with_first_diff(draft, decoys(draft), "</think>\n\nHere is the change:"):
        return False
    draft.blocks[0].prose = "<think>\nPerhaps like this:"
    return True


# Context that looks like a fence


@slip("fence-lines-without-space", RAW, "fence numbers wrap edge counts bare")
def bare_fences(draft: Draft) -> bool:
    """Context lines that are fences lack their first column; the counts are right."""
    changed = False
    for hunk in draft.hunks:
        for line in hunk.lines:
            if line.kind == CONTEXT and re.match(r"```\w*$", line.text) and not line.bare_end:
                line.raw, changed = line.text, True
        hunk.number(*hunk.numbers())
    draft.may_refuse = True
    return changed


@slip("fence-lines-without-space-miscounted", RAW, "fence numbers wrap edge counts bare")
def bare_fences_miscounted(draft: Draft) -> bool:
    if not bare_fences(draft):
        return False
    for hunk in draft.hunks:
        form = draft.rng.choice(("@@", "@@ -{0},{1} +{0},{2} @@"))
        old, new = (count + draft.rng.randrange(1, 4) for count in hunk.counts())
        hunk.header = form.format(hunk.old + 1, old, new)
    return True
