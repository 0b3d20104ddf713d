"""What a cut before a node costs, in units of one segment more (see `pack.py`)."""

from __future__ import annotations

from typing import Final

from repoagent.split.cuts.pack import Candidate
from repoagent.split.cuts.roles import ATTACHED, CLOSER, COMMENT, CONTINUATION, INLINE, ITEM, LIST, PARTS

DEEPER: Final = 0.25  # each list that the place is inside of, up to
DEEPEST: Final = 6
DENSE: Final = 0.6  # no blank line before it
PART: Final = 6.0  # between the parts of one thing
BROKEN: Final = 1.0  # in what does not parse,
INDENTED: Final = 0.8  # and there for each column of indentation
HEAD: Final = 20.0  # head from body
DOCUMENTED: Final = 30.0  # comment from what it is about
CLOSING: Final = 50.0  # before what ends the thing
BANNER: Final = 2.0  # after a comment that stands alone: most often it is the title of what follows
TRAILER: Final = 3.0  # before a comment that stands below what it is about
BESIDE: Final = 3.0  # between two items on one line,
INLINE_TAG: Final = 6.0  # and between two elements of markup there
PARAGRAPH: Final = 15.0  # less after an empty line of a comment
IN_LEAF: Final = 5.0  # in a comment or a string


class Frame:
    """A node that was opened, and where the walk is in it."""

    __slots__ = (
        "broken",
        "cost",
        "half",
        "index",
        "lead",
        "level",
        "listed",
        "most",
        "plain",
        "role",
        "seen",
        "start",
        "tight",
    )

    def __init__(self, role: int, level: int, start: int, half: int, broken: bool) -> None:
        self.role = role
        self.level = level
        self.cost = DEEPER * min(level, DEEPEST) + (
            PART if role == PARTS else 0.0
        )  # of a cut between its children
        self.start = start
        self.half = half  # a part larger than this is opened
        self.broken = broken
        self.listed = False  # its first item was met
        self.plain = False  # nothing but the cost and a blank line counts for its items
        self.seen = ITEM  # what the last child was
        self.tight = False  # the run of comments that is open had no blank line before it
        self.index = 0  # of the candidate before that run
        self.most = half  # an item larger than this is opened
        self.lead = start  # where the comments and the like begin that belong to the next item

    def begun(self) -> None:
        """Its first item was met."""
        self.listed = True
        self.plain = self.role == LIST and not self.broken


def cost_before(frame: Frame, role: int, start: int, blank: bool, found: list[Candidate]) -> float:
    """The cost of a cut before a child of `frame` that begins at `start`. `blank`: a blank line is before it.

    The candidate before the run of comments that ends there, in `found`, is put right.
    """
    cost = frame.cost if blank else frame.cost + DENSE
    if role == CLOSER:
        return CLOSING
    if not frame.listed and frame.role == LIST and start != frame.start:
        return cost + HEAD
    if frame.seen == ATTACHED or (frame.seen == COMMENT and not blank):
        return cost + DOCUMENTED
    if role == CONTINUATION or (role == INLINE and frame.seen == INLINE):
        return cost + PART
    if frame.seen == COMMENT:
        if not frame.tight:
            return cost + BANNER
        if frame.index < len(found):
            place, price, why = found[frame.index]
            found[frame.index] = (place, price + TRAILER, why)
    return cost


def blank_before(text: bytes, line: int) -> bool:
    """Whether the line that begins at `line` has a blank one, or nothing, before it."""
    if line < 2:
        return True
    before = text[line - 2]
    if before == 10:
        return True
    if before not in (13, 32, 9):
        return False
    return not text[text.rfind(b"\n", 0, line - 1) + 1 : line].strip()
