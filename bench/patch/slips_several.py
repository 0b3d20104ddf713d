"""Answers that hold more than one diff, or code that is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.patch.draft import Block, Draft
from bench.patch.model import ADDED, CONTEXT, Part
from bench.patch.slip import BLOCKS, NAMES, RAW, slip

AGAIN = (
    "Wait, let me reconsider. That misses a case. Here is the corrected diff:",
    "Actually, that isn't quite right. Corrected version:",
    "Hmm, looking again, the above would break the tests. The final patch:", "On second thought, use this instead:",
    "Correction:", "Let me fix the diff above:",
)  # fmt: skip
EDITED = "fence prose several form numbered wrap"


def _plain(draft: Draft) -> bool:
    return all(part.change.before and part.change.after and part.hunks for part in draft.parts)


def _lines(parts: Sequence[Part]) -> list[str]:
    return [text for part in parts for text in part.written()]


def _worse(part: Part, ending: str) -> Part | None:
    """The same diff with other added lines, as a first try would be. None where it has no added line."""
    hunks = [replace(hunk, lines=[replace(line) for line in hunk.lines]) for hunk in part.hunks]
    found = False
    for hunk in hunks:
        for line in hunk.lines:
            if line.kind == ADDED and line.text.strip():
                line.text, line.raw, found = line.text.rstrip() + ending, None, True
    return replace(part, hunks=hunks) if found else None


@slip("reconsidered", BLOCKS, EDITED)
def reconsidered(draft: Draft) -> bool:
    """A first try of every file, and then the one that counts."""
    if not _plain(draft):
        return False
    first = [_worse(part, "  # first try") for part in draft.parts]
    if any(part is None for part in first):
        return False
    tried = Block(draft.intro, _lines([part for part in first if part]))
    draft.blocks = [tried, Block(draft.rng.choice(AGAIN), _lines(draft.parts))]
    return all(_worse_everywhere(part) for part in draft.parts)


def _worse_everywhere(part: Part) -> bool:
    """Has every hunk an added line that the first try wrote otherwise?"""
    return all(any(line.kind == ADDED and line.text.strip() for line in hunk.lines) for hunk in part.hunks)


@slip("reconsidered-unfenced", BLOCKS, EDITED)
def reconsidered_unfenced(draft: Draft) -> bool:
    draft.marks = ("", "")
    return reconsidered(draft)


@slip("reconsidered-other-context", BLOCKS, EDITED + " context drift edge fused", blur=1)
def reconsidered_context(draft: Draft) -> bool:
    """The second diff shows the same places with less context."""
    if not reconsidered(draft):
        return False
    for part in draft.parts:
        for hunk in part.hunks:
            for end in (0, -1):
                if (
                    len(hunk.lines) > 5
                    and hunk.lines[end].kind == CONTEXT == hunk.lines[1 if end == 0 else -2].kind
                ):
                    hunk.lines.pop(end)
                    hunk.old, hunk.new = hunk.old + (end == 0), hunk.new + (end == 0)
            hunk.header = ""
    draft.blocks[1].lines = _lines(draft.parts)
    return True


@slip("reconsidered-thrice", BLOCKS, EDITED)
def thrice(draft: Draft) -> bool:
    if not reconsidered(draft):
        return False
    second = [_worse(part, "  # second try") for part in draft.parts]
    draft.blocks.insert(1, Block(AGAIN[1], _lines([part for part in second if part])))
    return True


@slip("reconsidered-one-hunk", BLOCKS, EDITED)
def one_hunk(draft: Draft) -> bool:
    """The second diff corrects one hunk of the first; the others it does not speak of."""
    part = draft.parts[0]
    if not _plain(draft) or len(part.hunks) < 2 or len(draft.parts) > 1:
        return False
    number = draft.rng.randrange(len(part.hunks))
    hunk = part.hunks[number]
    worse = _worse(replace(part, hunks=[hunk]), "  # first try")
    if worse is None:
        return False
    draft.may_refuse = True
    first = replace(part, hunks=[*part.hunks[:number], *worse.hunks, *part.hunks[number + 1 :]])
    draft.blocks = [
        Block(draft.intro, _lines([first])),
        Block("One correction, the rest stays:", _lines([replace(part, hunks=[hunk])])),
    ]  # fmt: skip
    return True


@slip("shown-twice", BLOCKS, EDITED)
def shown_twice(draft: Draft) -> bool:
    if not _plain(draft):
        return False
    lines = _lines(draft.parts)
    draft.blocks = [Block(draft.intro, lines), Block("The full diff again, to copy:", list(lines))]
    return True


@slip("piece-by-piece-then-whole", BLOCKS, EDITED)
def pieces_then_whole(draft: Draft) -> bool:
    """Each hunk explained, and at the end all of them together."""
    if not _plain(draft) or len(draft.hunks) < 2:
        return False
    draft.blocks = [
        Block(f"Change {number + 1}:", [*part.head, *hunk.written()])
        for part in draft.parts
        for number, hunk in enumerate(part.hunks)
    ]
    draft.blocks.append(Block("All together:", _lines(draft.parts)))
    return True


@slip("a-diff-for-each-hunk", NAMES, EDITED + " gaps")
def each_hunk(draft: Draft) -> bool:
    """Names above each hunk, each in its own fence."""
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
    """A fence for each hunk, the names only in the first."""
    if not _plain(draft) or len(draft.parts) > 1 or len(draft.hunks) < 2:
        return False
    part = draft.parts[0]
    draft.blocks = [
        Block("" if number else draft.intro, [*(part.head if number == 0 else []), *hunk.written()])
        for number, hunk in enumerate(part.hunks)
    ]
    for block in draft.blocks[1:]:
        block.prose = "and further down"
    return True


@slip("code-quoted-before", BLOCKS, "prose several form fence")
def quoted_before(draft: Draft) -> bool:
    """The present code in a fence of its own, above the diff."""
    return _quoted(draft, new=False)


@slip("result-shown-after", BLOCKS, "prose several form fence end-of-answer")
def result_after(draft: Draft) -> bool:
    """What the changed place reads after, in a fence below the diff."""
    return _quoted(draft, new=True)


def _quoted(draft: Draft, *, new: bool) -> bool:
    hunk = draft.hunks[0] if draft.hunks else None
    if hunk is None or not _plain(draft):
        return False
    lines = [line.text for line in hunk.lines if line.kind != ("-" if new else ADDED)]
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


@slip("usage-example-after", BLOCKS, "prose several form fence end-of-answer")
def usage(draft: Draft) -> bool:
    example = draft.rng.choice(
        [["make test"], ["import app", "", "app.run(...)"], ['{"key": "value"}'], ["$ git diff", "+1 -1"]]
    )
    draft.blocks.append(
        Block("You can try it like this:", example, draft.rng.choice(["", "sh", "python", "json"]))
    )
    return True


@slip("commands-before", BLOCKS, "prose several form fence")
def commands(draft: Draft) -> bool:
    draft.blocks[0].prose = "then apply"
    draft.blocks.insert(0, Block("First look at it:", ["git log -3 --oneline", "grep -rn 'TODO' ."], "bash"))
    return True


@slip("headings-between-hunks", RAW, "gaps prose several")
def between(draft: Draft) -> bool:
    """A line of prose between the hunks of one diff, not indented."""
    found = False
    for part in draft.parts:
        for hunk in part.hunks[1:]:
            hunk.written()
            if hunk.header:
                hunk.header = (
                    draft.rng.choice(["...", "[...]", "(second place)", "Then:"]) + "\n" + hunk.header
                )
                found = True
    draft.may_refuse = True
    return found


@slip("repeated-hunk", RAW, "gaps several rewrite")
def repeated(draft: Draft) -> bool:
    """One hunk twice in the same diff."""
    part = draft.rng.choice(draft.parts)
    if not part.hunks or not part.change.before or not part.change.after:
        return False
    hunk = draft.rng.choice(part.hunks)
    if not any(line.kind == "-" for line in hunk.lines):
        return False
    twin = replace(hunk, lines=[replace(line) for line in hunk.lines])
    part.hunks.append(twin)
    draft.may_refuse = draft.may_refuse or twin.header is None  # nothing says that a second hunk begins
    return True
