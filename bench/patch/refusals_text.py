"""Answers that must be refused: their text does not fit the file, or fits several places of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from bench.patch.draft import Draft, hunks, shown
from bench.patch.model import ADDED, CONTEXT, DELETED, Edit, File, Hunk, Line, edited
from bench.patch.slip import answered, refusal
from bench.patch.slips_several import TAKEN_BACK, begun_again, decoys, spoken

UNCLEAR = (
    "Wait, let me reconsider.", "Oops.", "Correction:", "Actually, this is better:", "On second thought:",
    "Let me redo that:",
    "Hmm, that's not quite right. Better:", "Second attempt:", "I made a mistake, sorry:", "Final version:",
    "My mistake:",
    "Let me fix that:", "Here's an improved version:",
)  # fmt: skip
WITHDRAWALS = (
    "Scratch that.", "Ignore the patch above.", "Hmm, disregard the diff above, nothing has to change.",
)  # fmt: skip
ELIDED = [
    "# ... existing code ...", "// ... rest of the method unchanged ...", "    # ... (rest of the function) ...",
]  # fmt: skip


def _lines(made: Draft, kind: str, longer: int = 0) -> list[tuple[Hunk, Line]]:
    """The lines of a kind, with their hunks, that hold more than so many characters."""
    pairs = ((hunk, line) for hunk in made.hunks for line in hunk.lines)
    return [(hunk, line) for hunk, line in pairs if line.kind == kind and len(line.text.strip()) > longer]


# Deleted lines and context that are not in the file


def _bare(text: str, blank: bool) -> str:
    return re.sub(r"\s+", "", text) if blank else text.strip()


def _miswritten(
    name: str, pattern: str, alter: Callable[[Draft, re.Match[str]], str], *, blank: bool = True
) -> None:
    """One deleted line says something else than the file's does, and no other line of the file is so. `blank`: it must
    differ from every line even without white space."""

    @refusal(f"deleted: {name}")
    def do(made: Draft) -> str | None:
        known = {_bare(line, blank) for line in made.parts[0].change.before.lines}
        for _, line in _lines(made, DELETED, 8):
            found = list(re.finditer(pattern, line.text))
            if not found:
                continue
            match = made.rng.choice(found)
            text = line.text[: match.start()] + alter(made, match) + line.text[match.end() :]
            if _bare(text, blank) not in known:
                line.text = text
                return answered(made)
        return None


def _letter(made: Draft, match: re.Match[str]) -> str:
    at = made.rng.randrange(len(match[0]))
    return match[0][:at] + ("x" if match[0][at] != "x" else "y") + match[0][at + 1 :]


_miswritten("other identifier", r"\b[A-Za-z_]{5,}\b", lambda made, match: f"new_{match[0]}")
_miswritten("one letter", r"[A-Za-z]{4,}", _letter)
_miswritten("other number", r"\b\d+\b", lambda made, match: str(int(match[0]) + 1))
_miswritten(
    "other string",
    r"(?<=[\"'])[A-Za-z][\w ]{2,}(?=[\"'])",
    lambda made, match: match[0][:-1] + ("s" if match[0][-1] != "s" else "d"),
)
_miswritten(
    "space in a string",
    r"\"[^\"]*\w \w[^\"]*\"",
    lambda made, match: re.sub(r"(\w) (\w)", r"\1\2", match[0], count=1),
    blank=False,
)
_miswritten(
    "operator", r" (==|!=|<=|>=|\+|\*|&&|\|\|) ", lambda made, match: " != " if match[1] != "!=" else " == "
)
_miswritten("letter case", r"\b[a-z]{5,}\b", lambda made, match: match[0].capitalize())
_miswritten("a word more", r"(?<=\w) (?=\w)", lambda made, match: " not ")


@refusal("deleted line invented")
def invented(made: Draft) -> str | None:
    for hunk, line in _lines(made, DELETED, 8):
        hunk.lines.insert(hunk.lines.index(line) + 1, Line(DELETED, "    legacy_cleanup(self.handle)"))
        return answered(made)
    return None


@refusal("context gone")
def context_gone(made: Draft) -> str | None:
    """All context is of another file; nothing is deleted."""
    if _lines(made, DELETED, -1):
        return None
    for hunk in made.hunks:
        for number, line in enumerate(line for line in hunk.lines if line.kind == CONTEXT):
            line.text = f"    handler_{number}.dispatch(message, timeout={number * 7})"
    return answered(made)


@refusal("deleted lines of another file", files=2)
def other_file(made: Draft) -> str | None:
    first, second = made.parts
    made.parts = [second]
    known = {shown(line).strip() for line in first.change.before.lines}
    gone = [line.text.strip() for _, line in _lines(made, DELETED)]
    if not gone or known & set(gone):
        return None
    first.hunks, made.parts = second.hunks, [first]
    return answered(made)


# Changes that the file has already, or that came between


def _applied(made: Draft, share: float) -> str | None:
    """The file has some of the edits already; each replaces text that is nowhere else."""
    change = made.changes[0]
    edits = [edit for edit in change.edits if _replaces(change.before, edit)]
    if len(edits) < len(change.edits) or (share < 1 and len(edits) < 2):
        return None
    if len(hunks(change, 3)) < len(edits):
        return None
    answer = answered(made)
    done = edits[: max(1, int(len(edits) * share))]
    change.before = replace(change.before, lines=edited(change.before.lines, done))
    left = "\n".join(change.before.lines)
    if any("\n".join(change.before.lines[e.start : e.end]) in left and not e.added for e in done):
        return None
    return answer


def _replaces(file: File, edit: Edit) -> bool:
    """Whether each line that goes is there once, and a line comes that is new."""
    old, every = file.lines[edit.start : edit.end], (*file.lines, *edit.added)
    once = (len(line.strip()) > 8 and sum(line.strip() in other for other in every) == 1 for line in old)
    return bool(old) and any(len(line.strip()) > 8 for line in edit.added) and all(once)


refusal("already applied")(lambda made: _applied(made, 1.0))
refusal("partly applied")(lambda made: _applied(made, 0.5))


@refusal("stale source")
def stale(made: Draft) -> str | None:
    """A line that the answer deletes has been changed in the file since."""
    change = made.changes[0]
    answer, lines = answered(made), list(change.before.lines)
    for row in (row for edit in change.edits for row in range(edit.start, edit.end)):
        line = lines[row]
        match = re.search(r"[A-Za-z_]{5,}", line)
        if match and sum(line.strip() == other.strip() for other in lines) == 1:
            lines[row] = line[: match.start()] + "renamed_" + line[match.start() :]
            change.before = replace(change.before, lines=tuple(lines))
            return answer
    return None


# Places that cannot be told


def _block(made: Draft, least: int) -> tuple[Hunk, list[str], list[int]] | None:
    """The only hunk of a file, the file's lines, and which of them it shows."""
    change, part = made.changes[0], made.parts[0]
    if len(part.hunks) != 1 or change.before is None or not change.before.final_newline:
        return None
    hunk, lines = part.hunks[0], list(change.before.lines)
    rows = [line.row for line in hunk.lines if line.row is not None]
    if len(rows) < least or len(lines) > 3000 or any(line.bare_end for line in hunk.lines):
        return None
    return hunk, lines, rows


def _twice(name: str, header: str) -> None:
    """The block of the hunk is in the file twice; its `@@` line says nothing, or is of neither."""

    @refusal(f"two equal places{name}")
    def do(made: Draft) -> str | None:
        found = _block(made, 5)
        if found is None or found[2][0] < 8:
            return None
        hunk, lines, rows = found
        change = made.changes[0]
        block = lines[rows[0] : rows[-1] + 1]
        at = len(lines) if rows[-1] < len(lines) - 20 else 4
        change.before = replace(change.before, lines=(*lines[:at], *block, *lines[at:]))
        hunk.header = header
        if not header:
            old, new = hunk.counts()
            far = len(lines) + 500 + made.rng.randrange(300)
            hunk.heading = ""
            hunk.number(far, old, far, new)
        return answered(made)


_twice("", "@@ @@")
_twice(", numbers of neither", "")
_twice(", heading of neither", "@@ def process_everything(queue, limit): @@")


@refusal("number against heading")
def against(made: Draft) -> str | None:
    """Two equal blocks: the number names the one, the heading the other."""
    found = _block(made, 5)
    if found is None:
        return None
    hunk, lines, rows = found
    change = made.changes[0]
    block = lines[rows[0] : rows[-1] + 1]
    if any(line[:1].isalpha() for line in block):
        return None
    first, second = f"def alpha_section(queue):{change.tail}", f"def omega_section(queue):{change.tail}"
    change.before = replace(change.before, lines=(*lines, first, *block, second, *block))
    hunk.heading = shown(second)
    hunk.number(len(lines) + 2, len(block), len(lines) + 2, hunk.counts()[1])
    return answered(made)


@refusal("equal loose places, an exact line near one")
def near_one(made: Draft) -> str | None:
    """The block is in the file twice; one line of context is stale in both, and is found near one of them."""
    found = _block(made, 6)
    change = made.changes[0]
    if found is None or change.after is None:
        return None
    hunk, lines, rows = found
    if not _lines(made, DELETED, 5):
        return None
    old = next((line for line in hunk.lines if line.kind == CONTEXT and len(line.text.strip()) > 12), None)
    if old is None or old.row is None or "\r" in lines[0]:
        return None
    words = old.text.rstrip()
    wrong = words[:-4] + "zq" + words[-2:]
    pad = [f"filler line number {made.rng.randrange(10**9)}" for _ in range(60)]
    block = lines[rows[0] : rows[-1] + 1]
    near = made.rng.choice((0, 1))
    place = pad[:40]
    place.insert(made.rng.choice((0, 1, 2)), wrong)
    above, below = (place, pad[40:]) if near else (pad[:40], [wrong, *pad[40:]])
    if any(line.kind == ADDED and shown(line.text) == wrong for line in hunk.lines):
        return None
    head, rest = lines[: rows[-1] + 1], lines[rows[-1] + 1 :]
    change.before = replace(change.before, lines=(*head, *above, *block, *below, *rest))
    old.text = wrong
    hunk.header = "@@ @@"
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
    blank = sum(not line.strip() for line in made.changes[0].before.lines)
    added = [line for _, line in _lines(made, ADDED)]
    if blank < 5 or not added:
        return None
    made.parts[0].hunks = [Hunk(0, 0, [Line(CONTEXT, ""), *added, Line(CONTEXT, "")], header="@@ @@")]
    return answered(made)


@refusal("indentation that can't be told")
def indentation(made: Draft) -> str | None:
    """All white space at the start of lines is gone, and the added ones had several depths of their own."""
    for hunk in made.hunks:
        old, new = (
            {
                len(line.text) - len(line.text.lstrip())
                for line in hunk.lines
                if (line.kind == ADDED) == added and line.text.strip()
            }
            for added in (False, True)
        )
        if len(old) < 2 or len(new - old) < 1 or len(new) < 2 or min(old) == 0:
            return None
    for hunk in made.hunks:
        for line in hunk.lines:
            line.text = line.text.lstrip()
    return answered(made) if made.seed.language in ("Python", "YAML") else None


# Hunks that contradict one another or are not all there


@refusal("elision in added lines")
def elided_addition(made: Draft) -> str | None:
    text = made.rng.choice(ELIDED)
    for hunk in made.hunks:
        rows = [n for n, line in enumerate(hunk.lines) if line.kind == ADDED]
        if len(rows) >= 4:
            hunk.lines[rows[1] : rows[2]] = [Line(ADDED, text)]
            return answered(made)
    return None


@refusal("deletes and keeps")
def both(made: Draft) -> str | None:
    """The same hunk twice, with other added lines: both can't be."""
    mark = "#" if made.seed.language in ("Python", "Shell", "YAML", "Ruby") else "//"
    for hunk in made.hunks:
        added = [line for line in hunk.lines if line.kind == ADDED and line.text.strip()]
        if added and any(line.kind == DELETED for line in hunk.lines):
            other = replace(hunk, lines=[replace(line) for line in hunk.lines])
            for line in other.lines:
                if line.kind == ADDED and line.text.strip():
                    line.text += f" {mark} variant"
            made.parts[0].hunks = [hunk, other]
            return answered(made)
    return None


@refusal("equal hunks for two places, one there")
def one_place(made: Draft) -> str | None:
    """The same hunk again under another number and heading."""
    part = made.parts[0]
    hunk = made.rng.choice(part.hunks)
    if all(line.kind == CONTEXT for line in hunk.lines) or all(line.row is None for line in hunk.lines):
        return None
    lines = [replace(line) for line in hunk.lines]
    part.hunks.append(Hunk(hunk.old + 40, hunk.new + 40, lines, "def another_section(self):"))
    hunk.heading = hunk.heading or "def some_section(self):"
    return answered(made)


@refusal("corrected elsewhere, unclear words")
def unclear(made: Draft) -> str | None:
    """A second diff at another place, and words that do not say whether the first still counts."""
    made.outro = ""
    return made.text() if begun_again(made, decoys(made), spoken(made.rng, UNCLEAR)) else None


@refusal("taken back at the end")
def taken_back(made: Draft) -> str | None:
    made.outro = made.rng.choice(WITHDRAWALS)
    return answered(made)


@refusal("one of two parts taken back")
def one_of_two(made: Draft) -> str | None:
    """Two diffs of one file, and a third in place of one of them: the other may count or not."""
    first, third = decoys(made), decoys(made)
    if first is None or third is None or len(made.parts) > 1:
        return None
    if abs(first[0].hunks[0].old - third[0].hunks[0].old) < 6 or not begun_again(made, first, "And:"):
        return None
    begun = made.text()
    clear = tuple(text for text in TAKEN_BACK if "first" not in text and "earlier" not in text)
    last = "\n".join(third[0].written())
    return f"{begun}\n{spoken(made.rng, clear)}:\n\n```diff\n{last}\n```\n"
