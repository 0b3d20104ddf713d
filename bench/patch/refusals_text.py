"""Answers that must be refused: their text does not fit the file, or fits several places of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from bench.patch.draft import Draft, hunks, shown
from bench.patch.model import ADDED, CONTEXT, DELETED, Edit, File, Hunk, Line, edited
from bench.patch.slip import answer_text, refusal
from bench.patch.slips_several import TAKEN_BACK, decoys, spoken, with_first_diff

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


def _lines(draft: Draft, kind: str, longer: int = 0) -> list[tuple[Hunk, Line]]:
    """The lines of a kind with more than `longer` characters, and the hunk of each."""
    pairs = ((hunk, line) for hunk in draft.hunks for line in hunk.lines)
    return [(hunk, line) for hunk, line in pairs if line.kind == kind and len(line.text.strip()) > longer]


# Deleted lines and context that are not in the file


def _bare(text: str, blank: bool) -> str:
    return re.sub(r"\s+", "", text) if blank else text.strip()


def _miswritten(
    name: str, pattern: str, alter: Callable[[Draft, re.Match[str]], str], *, blank: bool = True
) -> None:
    """Register a refusal: a deleted line is altered so that it equals no line of the file; with `blank`, not even
    without white space."""

    @refusal(f"deleted: {name}")
    def do(draft: Draft) -> str | None:
        known = {_bare(line, blank) for line in draft.parts[0].change.before.lines}
        for _, line in _lines(draft, DELETED, 8):
            matches = list(re.finditer(pattern, line.text))
            if not matches:
                continue
            match = draft.rng.choice(matches)
            text = line.text[: match.start()] + alter(draft, match) + line.text[match.end() :]
            if _bare(text, blank) not in known:
                line.text = text
                return answer_text(draft)
        return None


def _letter(draft: Draft, match: re.Match[str]) -> str:
    at = draft.rng.randrange(len(match[0]))
    return match[0][:at] + ("x" if match[0][at] != "x" else "y") + match[0][at + 1 :]


_miswritten("other identifier", r"\b[A-Za-z_]{5,}\b", lambda draft, match: f"new_{match[0]}")
_miswritten("one letter", r"[A-Za-z]{4,}", _letter)
_miswritten("other number", r"\b\d+\b", lambda draft, match: str(int(match[0]) + 1))
_miswritten(
    "other string",
    r"(?<=[\"'])[A-Za-z][\w ]{2,}(?=[\"'])",
    lambda draft, match: match[0][:-1] + ("s" if match[0][-1] != "s" else "d"),
)
_miswritten(
    "space in a string",
    r"\"[^\"]*\w \w[^\"]*\"",
    lambda draft, match: re.sub(r"(\w) (\w)", r"\1\2", match[0], count=1),
    blank=False,
)
_miswritten(
    "operator", r" (==|!=|<=|>=|\+|\*|&&|\|\|) ", lambda draft, match: " != " if match[1] != "!=" else " == "
)
_miswritten("letter case", r"\b[a-z]{5,}\b", lambda draft, match: match[0].capitalize())
_miswritten("a word more", r"(?<=\w) (?=\w)", lambda draft, match: " not ")


@refusal("deleted line invented")
def invented(draft: Draft) -> str | None:
    for hunk, line in _lines(draft, DELETED, 8):
        hunk.lines.insert(hunk.lines.index(line) + 1, Line(DELETED, "    legacy_cleanup(self.handle)"))
        return answer_text(draft)
    return None


@refusal("context gone")
def context_gone(draft: Draft) -> str | None:
    """None of the context is in the file, and nothing is deleted."""
    if _lines(draft, DELETED, -1):
        return None
    for hunk in draft.hunks:
        for number, line in enumerate(line for line in hunk.lines if line.kind == CONTEXT):
            line.text = f"    handler_{number}.dispatch(message, timeout={number * 7})"
    return answer_text(draft)


@refusal("deleted lines of another file", files=2)
def other_file(draft: Draft) -> str | None:
    first, second = draft.parts
    draft.parts = [second]
    known = {shown(line).strip() for line in first.change.before.lines}
    gone = [line.text.strip() for _, line in _lines(draft, DELETED)]
    if not gone or known & set(gone):
        return None
    first.hunks, draft.parts = second.hunks, [first]
    return answer_text(draft)


# Changes that the file already has, or that came later


def _applied(draft: Draft, share: float) -> str | None:
    """The file already has a share of the edits; each replaces text that occurs nowhere else."""
    change = draft.changes[0]
    edits = [edit for edit in change.edits if _replaces(change.before, edit)]
    if len(edits) < len(change.edits) or (share < 1 and len(edits) < 2):
        return None
    if len(hunks(change, 3)) < len(edits):
        return None
    answer = answer_text(draft)
    applied = edits[: max(1, int(len(edits) * share))]
    change.before = replace(change.before, lines=edited(change.before.lines, applied))
    text = "\n".join(change.before.lines)
    if any("\n".join(change.before.lines[e.start : e.end]) in text and not e.added for e in applied):
        return None
    return answer


def _replaces(file: File, edit: Edit) -> bool:
    """Whether each deleted line is long and occurs once, and a long line is added."""
    old, every = file.lines[edit.start : edit.end], (*file.lines, *edit.added)
    once = (len(line.strip()) > 8 and sum(line.strip() in other for other in every) == 1 for line in old)
    return bool(old) and any(len(line.strip()) > 8 for line in edit.added) and all(once)


refusal("already applied")(lambda draft: _applied(draft, 1.0))
refusal("partly applied")(lambda draft: _applied(draft, 0.5))


@refusal("stale source")
def stale(draft: Draft) -> str | None:
    """A line that the answer deletes has changed in the file since."""
    change = draft.changes[0]
    answer, lines = answer_text(draft), list(change.before.lines)
    for row in (row for edit in change.edits for row in range(edit.start, edit.end)):
        line = lines[row]
        match = re.search(r"[A-Za-z_]{5,}", line)
        if match and sum(line.strip() == other.strip() for other in lines) == 1:
            lines[row] = line[: match.start()] + "renamed_" + line[match.start() :]
            change.before = replace(change.before, lines=tuple(lines))
            return answer
    return None


# Ambiguous places


def _block(draft: Draft, least: int) -> tuple[Hunk, list[str], list[int]] | None:
    """The only hunk of a file, the file's lines, and the rows that it shows; None if fewer than `least`."""
    change, part = draft.changes[0], draft.parts[0]
    if len(part.hunks) != 1 or change.before is None or not change.before.final_newline:
        return None
    hunk, lines = part.hunks[0], list(change.before.lines)
    rows = [line.row for line in hunk.lines if line.row is not None]
    if len(rows) < least or len(lines) > 3000 or any(line.bare_end for line in hunk.lines):
        return None
    return hunk, lines, rows


def _twice(name: str, header: str) -> None:
    """The file has the hunk's lines twice; the `@@` line says nothing or fits neither."""

    @refusal(f"two equal places{name}")
    def do(draft: Draft) -> str | None:
        target = _block(draft, 5)
        if target is None or target[2][0] < 8:
            return None
        hunk, lines, rows = target
        change = draft.changes[0]
        block = lines[rows[0] : rows[-1] + 1]
        at = len(lines) if rows[-1] < len(lines) - 20 else 4
        change.before = replace(change.before, lines=(*lines[:at], *block, *lines[at:]))
        hunk.header = header
        if not header:
            old, new = hunk.counts()
            far = len(lines) + 500 + draft.rng.randrange(300)
            hunk.heading = ""
            hunk.number(far, old, far, new)
        return answer_text(draft)


_twice("", "@@ @@")
_twice(", numbers of neither", "")
_twice(", heading of neither", "@@ def process_everything(queue, limit): @@")


@refusal("number against heading")
def against(draft: Draft) -> str | None:
    """Two equal blocks: the number is that of one, the heading that of the other."""
    target = _block(draft, 5)
    if target is None:
        return None
    hunk, lines, rows = target
    change = draft.changes[0]
    block = lines[rows[0] : rows[-1] + 1]
    if any(line[:1].isalpha() for line in block):
        return None
    first, second = f"def alpha_section(queue):{change.tail}", f"def omega_section(queue):{change.tail}"
    change.before = replace(change.before, lines=(*lines, first, *block, second, *block))
    hunk.heading = shown(second)
    hunk.number(len(lines) + 2, len(block), len(lines) + 2, hunk.counts()[1])
    return answer_text(draft)


@refusal("equal loose places, an exact line near one")
def near_one(draft: Draft) -> str | None:
    """The file has the block twice; a context line is stale in both, and its text stands near one of them."""
    target = _block(draft, 6)
    change = draft.changes[0]
    if target is None or change.after is None:
        return None
    hunk, lines, rows = target
    if not _lines(draft, DELETED, 5):
        return None
    old = next((line for line in hunk.lines if line.kind == CONTEXT and len(line.text.strip()) > 12), None)
    if old is None or old.row is None or "\r" in lines[0]:
        return None
    words = old.text.rstrip()
    wrong = words[:-4] + "zq" + words[-2:]
    pad = [f"filler line number {draft.rng.randrange(10**9)}" for _ in range(60)]
    block = lines[rows[0] : rows[-1] + 1]
    near = draft.rng.choice((0, 1))
    filler = pad[:40]
    filler.insert(draft.rng.choice((0, 1, 2)), wrong)
    above, below = (filler, pad[40:]) if near else (pad[:40], [wrong, *pad[40:]])
    if any(line.kind == ADDED and shown(line.text) == wrong for line in hunk.lines):
        return None
    head, rest = lines[: rows[-1] + 1], lines[rows[-1] + 1 :]
    change.before = replace(change.before, lines=(*head, *above, *block, *below, *rest))
    old.text = wrong
    hunk.header = "@@ @@"
    return answer_text(draft)


@refusal("insertion without context")
def no_place(draft: Draft) -> str | None:
    """Only added lines, under a `@@` without numbers."""
    for hunk in draft.hunks:
        hunk.lines = [line for line in hunk.lines if line.kind == ADDED]
        hunk.header = "@@ @@"
    return answer_text(draft) if all(hunk.lines for hunk in draft.hunks) else None


@refusal("insertion at blank lines")
def blank_place(draft: Draft) -> str | None:
    """Blank lines are the only context, and the file has many."""
    blank = sum(not line.strip() for line in draft.changes[0].before.lines)
    added = [line for _, line in _lines(draft, ADDED)]
    if blank < 5 or not added:
        return None
    draft.parts[0].hunks = [Hunk(0, 0, [Line(CONTEXT, ""), *added, Line(CONTEXT, "")], header="@@ @@")]
    return answer_text(draft)


@refusal("indentation that can't be told")
def indentation(draft: Draft) -> str | None:
    """No line is indented any more, and the added ones had several depths."""
    for hunk in draft.hunks:
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
    for hunk in draft.hunks:
        for line in hunk.lines:
            line.text = line.text.lstrip()
    return answer_text(draft) if draft.seed.language in ("Python", "YAML") else None


# Hunks that are contradictory or incomplete


@refusal("elision in added lines")
def elided_addition(draft: Draft) -> str | None:
    text = draft.rng.choice(ELIDED)
    for hunk in draft.hunks:
        rows = [n for n, line in enumerate(hunk.lines) if line.kind == ADDED]
        if len(rows) >= 4:
            hunk.lines[rows[1] : rows[2]] = [Line(ADDED, text)]
            return answer_text(draft)
    return None


@refusal("deletes and keeps")
def both(draft: Draft) -> str | None:
    """The same hunk twice, with different added lines."""
    mark = "#" if draft.seed.language in ("Python", "Shell", "YAML", "Ruby") else "//"
    for hunk in draft.hunks:
        added = [line for line in hunk.lines if line.kind == ADDED and line.text.strip()]
        if added and any(line.kind == DELETED for line in hunk.lines):
            other = replace(hunk, lines=[replace(line) for line in hunk.lines])
            for line in other.lines:
                if line.kind == ADDED and line.text.strip():
                    line.text += f" {mark} variant"
            draft.parts[0].hunks = [hunk, other]
            return answer_text(draft)
    return None


@refusal("equal hunks for two places, one there")
def one_place(draft: Draft) -> str | None:
    """The same hunk again with other numbers and another heading."""
    part = draft.parts[0]
    hunk = draft.rng.choice(part.hunks)
    if all(line.kind == CONTEXT for line in hunk.lines) or all(line.row is None for line in hunk.lines):
        return None
    lines = [replace(line) for line in hunk.lines]
    part.hunks.append(Hunk(hunk.old + 40, hunk.new + 40, lines, "def another_section(self):"))
    hunk.heading = hunk.heading or "def some_section(self):"
    return answer_text(draft)


@refusal("corrected elsewhere, unclear words")
def unclear(draft: Draft) -> str | None:
    """A second diff at another place; the words do not tell whether the first still counts."""
    draft.outro = ""
    return draft.text() if with_first_diff(draft, decoys(draft), spoken(draft.rng, UNCLEAR)) else None


@refusal("taken back at the end")
def taken_back(draft: Draft) -> str | None:
    draft.outro = draft.rng.choice(WITHDRAWALS)
    return answer_text(draft)


@refusal("one of two parts taken back")
def one_of_two(draft: Draft) -> str | None:
    """Two diffs of one file, then one that replaces either of them; the other may count or not."""
    first, third = decoys(draft), decoys(draft)
    if first is None or third is None or len(draft.parts) > 1:
        return None
    if abs(first[0].hunks[0].old - third[0].hunks[0].old) < 6 or not with_first_diff(draft, first, "And:"):
        return None
    begun = draft.text()
    clear = tuple(text for text in TAKEN_BACK if "first" not in text and "earlier" not in text)
    last = "\n".join(third[0].written())
    return f"{begun}\n{spoken(draft.rng, clear)}:\n\n```diff\n{last}\n```\n"
