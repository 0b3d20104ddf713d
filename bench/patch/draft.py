"""A draft of an answer and its stages: changes, hunks, diffs of files, fenced blocks, text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from bench.patch import model
from bench.patch.model import Case, Change, Content, Edit, File, Hunk, Line, Part, Seed

INTROS = (
    "Here is the change:", "I've updated the file as you asked.\n\nThe patch:", "Sure! This should do it:",
    "Below is a minimal diff that makes the change.", "The fix is small. Apply this:", "",
)  # fmt: skip
OUTROS = (
    "Let me know if you need anything else!",
    "This keeps the behaviour of everything else as it is.",
    "",
    "",
)


@dataclass
class Block:
    """Lines in one fence, the prose above it and the info string of the fence."""

    prose: str
    lines: list[str]
    info: str = "diff"


@dataclass
class Draft:
    """An answer under construction. `blur` is how much of a hunk can be trusted: 0 numbers and text, 1 the text, 2 the
    text except for white space and typography, 3 most of the text."""

    seed: Seed
    rng: Random
    changes: list[Change]
    parts: list[Part] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    context: int = 3
    git_head: bool = False
    separate: bool = False  # one fence for each file
    info: str = "diff"
    marks: tuple[str, str] = ("```", "```")
    intro: str = ""
    outro: str = ""
    wraps: list[Callable[[str], str]] = field(default_factory=list)
    outermost: list[Callable[[str], str]] = field(default_factory=list)  # applied after `wraps`
    blur: int = 0
    may_refuse: bool = False
    extra: dict[str, Content] = field(default_factory=dict)  # files that the answer does not mention

    @property
    def hunks(self) -> list[Hunk]:
        return [hunk for part in self.parts for hunk in part.hunks]

    def build(self) -> None:
        """Build the diff of each file from its change."""
        self.parts = [Part(change, hunks(change, self.context), []) for change in self.changes]
        for part in self.parts:
            part.head = header(part.change, self.git_head or self.rng.random() < 0.3)

    def render(self) -> None:
        """Write the diffs into blocks: one for all files, or one for each that needs its own."""
        for number, part in enumerate(self.parts):
            prose = "\n\n".join(part.prose) or ("" if number else self.intro)
            if number and not (self.separate or part.prose):
                self.blocks[-1].lines += part.written()
            else:
                if number and not part.prose:
                    prose = f"And in `{part.change.path}`:"
                self.blocks.append(Block(prose, part.written(), self.info))

    def text(self) -> str:
        """Join the blocks, apply the wraps and return the answer."""
        first, last = self.marks
        pieces: list[str] = []
        for block in self.blocks:
            if block.prose:
                pieces.append(block.prose + "\n")
            fence = [first + block.info, *block.lines, last] if first else block.lines
            pieces.append("\n".join(fence) + "\n")
        if self.outro:
            pieces.append(self.outro + "\n")
        answer = "\n".join(pieces)
        for wrap in (*self.wraps, *self.outermost):
            answer = wrap(answer)
        return answer

    def files(self) -> dict[str, Content]:
        known = {change.before.path: change.before.content for change in self.changes if change.before}
        return {**known, **self.extra}

    def expected(self) -> dict[str, Content | None]:
        """The content of each changed file after the answer, by path; None for a file that must be gone."""
        changes = self.changes
        gone = [c for c in changes if c.before and not c.copy and (c.moved or c.after is None)]
        return {
            **{change.before.path: None for change in gone},
            **{change.after.path: change.after.content for change in changes if change.after},
        }

    def case(self, name: str, slips: tuple[str, ...], answer: str) -> Case:
        files = self.files()
        return Case(
            name, files, frozenset(files), None, answer, self.expected(), slips,
            self.seed.repository, self.seed.commit, self.seed.language, self.may_refuse,
        )  # fmt: skip


def new_draft(seed: Seed, rng: Random) -> Draft:
    changes = [replace(change, edits=list(change.edits)) for change in seed.changes]
    return Draft(seed, rng, changes, intro=rng.choice(INTROS), outro=rng.choice(OUTROS))


def grouped(edits: Sequence[Edit], context: int) -> list[list[Edit]]:
    """Group the edits that share a hunk when each is shown with `context` lines around it."""
    groups: list[list[Edit]] = []
    for edit in sorted(edits, key=lambda edit: edit.start):
        if groups and edit.start - groups[-1][-1].end <= 2 * context:
            groups[-1].append(edit)
        else:
            groups.append([edit])
    return groups


def hunks(change: Change, context: int) -> list[Hunk]:
    """The hunks of a change with `context` lines around each edit."""
    if change.before is None or change.after is None:
        return [_whole(change)]
    result, shift = [], 0
    for group in grouped(change.edits, context):
        result.append(_hunk(change.before, change.after, group, context, shift))
        shift += sum(len(edit.added) - (edit.end - edit.start) for edit in group)
    return result


def shown(line: str) -> str:
    """A line as a model sees it: without the carriage return of a CRLF file."""
    return line.removesuffix("\r")


def _hunk(before: File, after: File, group: Sequence[Edit], context: int, shift: int) -> Hunk:
    last = len(before.lines)
    start, end = max(0, group[0].start - context), min(last, group[-1].end + context)
    lines: list[Line] = []

    def old(kind: str, first: int, stop: int) -> None:
        for row in range(first, stop):
            bare = row == last - 1 and not before.final_newline
            lines.append(Line(kind, shown(before.lines[row]), row, bare_end=bare))

    row, added = start, 0
    for edit in group:
        old(model.CONTEXT, row, edit.start)
        old(model.DELETED, edit.start, edit.end)
        reaches_end = edit.end == last
        for number, text in enumerate(edit.added):
            bare = reaches_end and number == len(edit.added) - 1 and not after.final_newline
            lines.append(Line(model.ADDED, shown(text), bare_end=bare))
        row = edit.end
        added += len(edit.added)
    old(model.CONTEXT, row, end)
    return Hunk(start, start + shift, lines, heading(before, start))


def _whole(change: Change) -> Hunk:
    file = change.after or change.before
    kind = model.ADDED if change.after else model.DELETED
    lines = [Line(kind, shown(text), None if change.after else row) for row, text in enumerate(file.lines)]
    lines[-1].bare_end = not file.final_newline
    return Hunk(0, 0, lines)


def heading(file: File, row: int) -> str:
    """What git would write after the `@@`: the nearest line above `row` that begins with a letter, `_` or `$`."""
    above = (line for line in reversed(file.lines[:row]) if line[:1].isalpha() or line[:1] in "_$")
    return shown(next(above, ""))[:80].rstrip()


def header(change: Change, git_head: bool) -> list[str]:
    before, after = change.before, change.after
    old, new = (before or after).path, change.path
    head = [f"diff --git a/{old} b/{new}"]
    index, mode = True, ""
    if before is None:
        head.append(f"new file mode {after.mode}")
    elif after is None:
        head.append(f"deleted file mode {before.mode}")
    else:
        if before.mode != after.mode:
            head += [f"old mode {before.mode}", f"new mode {after.mode}"]
        if change.moved or change.copy:
            word = "copy" if change.copy else "rename"
            same = 100 if not change.edits else max(50, 99 - len(change.edits) * 4)
            head += [f"similarity index {same}%", f"{word} from {old}", f"{word} to {new}"]
        index, mode = bool(change.edits), f" {before.mode}" if before.mode == after.mode else ""
    if index:
        head.append(f"index 3f1c2ab..9d04e17{mode}")
    if len(head) == 2 and index and not git_head:
        head = []
    if not change.edits and before and after:
        return head
    names = "--- " + (f"a/{old}" if before else "/dev/null"), "+++ " + (f"b/{new}" if after else "/dev/null")
    return [*head, *names]
