"""Answers of which it is not clear what is taken back, or which of two equal places is meant."""

from __future__ import annotations

from dataclasses import replace

from bench.patch.draft import Draft, shown
from bench.patch.model import ADDED, CONTEXT, DELETED, Hunk
from bench.patch.refusal import answered, refusal
from bench.patch.slips_withdrawn import TAKEN_BACK, UNCLEAR, begun_again, decoys, spoken


@refusal("corrected elsewhere, unclear words")
def unclear(made: Draft) -> str | None:
    """A second diff at another place, and words that do not say whether the first still counts."""
    made.outro = ""
    return made.text() if begun_again(made, decoys(made), spoken(made.rng, UNCLEAR)) else None


@refusal("taken back at the end")
def taken_back(made: Draft) -> str | None:
    """The only diff, and then words that take it back."""
    spoken_last = (
        "Scratch that.",
        "Ignore the patch above.",
        "Hmm, disregard the diff above, nothing has to change.",
    )
    made.outro = made.rng.choice(spoken_last)
    return answered(made)


@refusal("one of two parts taken back")
def one_of_two(made: Draft) -> str | None:
    """Two diffs of one file, and a third in place of one of them: the other may stand or not."""
    first, third = decoys(made), decoys(made)
    if first is None or third is None or len(made.parts) > 1:
        return None
    if abs(first[0].hunks[0].old - third[0].hunks[0].old) < 6 or not begun_again(made, first, "And:"):
        return None
    begun = made.text()
    words = spoken(
        made.rng, tuple(text for text in TAKEN_BACK if "first" not in text and "earlier" not in text)
    )
    return f"{begun}\n{words}:\n\n```diff\n" + "\n".join(third[0].written()) + "\n```\n"


@refusal("equal hunks for two places, one there")
def one_place(made: Draft) -> str | None:
    """The same hunk again under another number and heading."""
    part = made.parts[0]
    hunk = made.rng.choice(part.hunks)
    if not any(line.kind != CONTEXT for line in hunk.lines) or not any(
        line.row is not None for line in hunk.lines
    ):
        return None
    twin = Hunk(
        hunk.old + 40, hunk.new + 40, [replace(line) for line in hunk.lines], "def another_section(self):"
    )
    hunk.heading = hunk.heading or "def some_section(self):"
    part.hunks.append(twin)
    return answered(made)


@refusal("equal loose places, an exact line near one")
def near_one(made: Draft) -> str | None:
    """The block stands in the file twice; one line of context is stale in both, and stands near one of them."""
    change, part = made.changes[0], made.parts[0]
    if (
        change.before is None
        or change.after is None
        or len(part.hunks) != 1
        or not change.before.final_newline
    ):
        return None
    hunk = part.hunks[0]
    rows = [line.row for line in hunk.lines if line.row is not None]
    lines = list(change.before.lines)
    if len(rows) < 6 or len(lines) > 3000 or any(line.bare_end for line in hunk.lines):
        return None
    if not any(line.kind == DELETED and len(line.text.strip()) > 5 for line in hunk.lines):
        return None
    stale = next((line for line in hunk.lines if line.kind == CONTEXT and len(line.text.strip()) > 12), None)
    if stale is None or stale.row is None or any(line.count("\r") for line in lines[:1]):
        return None
    words = stale.text.rstrip()
    wrong = words[:-4] + "zq" + words[-2:]
    pad = [f"filler line number {made.rng.randrange(10**9)}" for _ in range(60)]
    block = lines[rows[0] : rows[-1] + 1]
    near = made.rng.choice((0, 1))
    place = [*pad[:3], *pad[3:40]]
    place.insert(made.rng.choice((0, 1, 2)), wrong)
    ends = (place, pad[40:]) if near else (pad[:40], [wrong, *pad[40:]])
    if any(line.kind == ADDED and shown(line.text) == wrong for line in hunk.lines):
        return None
    change.before = replace(
        change.before, lines=(*lines[: rows[-1] + 1], *ends[0], *block, *ends[1], *lines[rows[-1] + 1 :])
    )
    stale.text = wrong
    hunk.header = "@@ @@"
    return answered(made)
